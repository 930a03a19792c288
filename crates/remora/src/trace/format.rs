//! The formats of a trace: its own, and those of a profile.

use super::tree;
use crate::output::{FileFormat, NamedFormat};
use remora_calls::{About, Calls, profile, write_json, write_timeline};
use remora_export::Format;
use remora_profile::ApplicationRule;
use std::io::{self, Write};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceFormat {
    /// The call tree as JSON.
    Calls,
    /// The call tree as text.
    Text,
    /// The long calls as a timeline.
    Timeline,
    /// Flame graphs, and profiles of other tools.
    Profile(Format),
}

impl NamedFormat for TraceFormat {
    fn all() -> impl Iterator<Item = TraceFormat> {
        let own = [TraceFormat::Calls, TraceFormat::Text, TraceFormat::Timeline];
        own.into_iter().chain(Format::ALL.into_iter().map(TraceFormat::Profile))
    }

    fn name(self) -> &'static str {
        match self {
            TraceFormat::Calls => "calls",
            TraceFormat::Text => "calls-text",
            TraceFormat::Timeline => "timeline",
            TraceFormat::Profile(format) => format.name(),
        }
    }

    fn ending(self) -> &'static str {
        match self {
            TraceFormat::Calls => ".calls.json",
            TraceFormat::Text => ".calls.txt",
            TraceFormat::Timeline => ".trace.json",
            TraceFormat::Profile(format) => format.ending(),
        }
    }
}

impl TraceFormat {
    /// Writes the trace.
    pub(crate) fn write(self, calls: &Calls, about: &About, out: &mut dyn Write) -> io::Result<()> {
        match self {
            TraceFormat::Calls => write_json(calls, about, out),
            TraceFormat::Text => out.write_all(tree::render(calls).as_bytes()),
            TraceFormat::Timeline => write_timeline(calls, about, out),
            // Problems and hints are about samples.
            TraceFormat::Profile(Format::Html) => {
                remora_export::write_page(&profile(calls, about.clone()), &ApplicationRule::default(), &[], out)
            }
            TraceFormat::Profile(format) => {
                FileFormat::Export(format).write(&profile(calls, about.clone()), &ApplicationRule::default(), out)
            }
        }
    }
}
