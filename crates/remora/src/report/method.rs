//! A method in JSON, and its name and place in text.

use remora_profile::{FrameIx, FrameKind, HotMethod, Profile};
use remora_symbols::split_outside;
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

/// The name without the list of parameters: `Orders.Cart<T>.Total`.
pub(super) fn without_parameters(name: &str) -> &str {
    let before = split_outside(name, ["<", ">"], &['(']).first().copied().unwrap_or_default();
    if before.is_empty() { name } else { before }
}

/// Type and method, without namespace and parameters: `Thread.Sleep`, `DelayPromise..ctor`.
pub(super) fn short(name: &str) -> &str {
    let name = without_parameters(name);
    let parts = split_outside(name, ["<", ">"], &['.']);
    // The name of a constructor begins with a dot. A lambda belongs to a method.
    let is_constructor = parts.iter().rev().nth(1).is_some_and(|part| part.is_empty());
    let is_lambda = parts.last().is_some_and(|part| part.starts_with("lambda#"));
    let kept = parts.iter().rev().take(if is_constructor || is_lambda { 3 } else { 2 });
    let length: usize = kept.map(|part| part.len() + 1).sum();
    &name[name.len().saturating_sub(length - 1)..]
}

pub(super) fn name(profile: &Profile, frame: FrameIx) -> &str {
    profile.text(profile.frame_at(frame).name)
}

/// `Orders.cs:42`, or nothing without debug information.
pub(super) fn place(profile: &Profile, frame: FrameIx) -> String {
    let frame = profile.frame_at(frame);
    let (Some(file), Some(line)) = (frame.file, frame.line) else { return String::new() };
    let file = profile.text(file);
    format!("{}:{line}", file.rsplit(['/', '\\']).next().unwrap_or(file))
}
