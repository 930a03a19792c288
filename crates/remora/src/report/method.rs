//! A method in JSON.

use remora_profile::{FrameIx, FrameKind, HotMethod, Profile};
use serde::Serialize;

/// A method, its place, and its times.
#[derive(Debug, Serialize)]
pub(super) struct Method<'a> {
    pub(super) name: &'a str,
    kind: &'static str,
    pub(super) module: Option<&'a str>,
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    self_nanoseconds: u64,
    total_nanoseconds: u64,
    self_samples: u64,
    total_samples: u64,
}

impl<'a> Method<'a> {
    /// Names and places of a frame, without times.
    pub(super) fn at(profile: &'a Profile, frame: FrameIx) -> Method<'a> {
        let none = HotMethod { frame, self_weight: 0, total_weight: 0, self_samples: 0, total_samples: 0 };
        Method::of(profile, &none)
    }

    pub(super) fn of(profile: &'a Profile, hot: &HotMethod) -> Method<'a> {
        let frame = profile.frame_at(hot.frame);
        let kind = match frame.kind {
            FrameKind::Managed => "managed",
            FrameKind::Native => "native",
            FrameKind::Unknown => "unknown",
            FrameKind::Synthetic => "synthetic",
        };
        Method {
            name: profile.text(frame.name),
            kind,
            module: frame.module.map(|module| profile.text(module)),
            file: frame.file.map(|file| profile.text(file)),
            line: frame.line,
            self_nanoseconds: hot.self_weight,
            total_nanoseconds: hot.total_weight,
            self_samples: hot.self_samples,
            total_samples: hot.total_samples,
        }
    }
}
