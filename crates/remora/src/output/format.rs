//! File formats: Remora's own, and those of the exporters.

use super::named_format::NamedFormat;
use crate::report::advice;
use remora_export::Format;
use remora_profile::{ApplicationRule, Profile};
use std::io::{self, Write};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// Remora's own recording.
    Remora,
    /// An export format.
    Export(Format),
}

impl NamedFormat for FileFormat {
    fn all() -> impl Iterator<Item = FileFormat> {
        std::iter::once(FileFormat::Remora).chain(Format::ALL.into_iter().map(FileFormat::Export))
    }

    fn name(self) -> &'static str {
        match self {
            FileFormat::Remora => "remora",
            FileFormat::Export(format) => format.name(),
        }
    }

    fn ending(self) -> &'static str {
        match self {
            FileFormat::Remora => ".remora",
            FileFormat::Export(format) => format.ending(),
        }
    }
}

impl FileFormat {
    /// Whether the format is binary.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, FileFormat::Remora | FileFormat::Export(Format::Pprof | Format::Firefox))
    }

    /// Writes `profile`; `rule` says which code is the application's.
    pub(crate) fn write(self, profile: &Profile, rule: &ApplicationRule, out: &mut dyn Write) -> io::Result<()> {
        match self {
            FileFormat::Export(Format::Html) => remora_export::write_page(profile, rule, &advice(profile, rule), out),
            FileFormat::Export(format) => remora_export::write(profile, format, rule, out),
            FileFormat::Remora => {
                let written = remora_recording::Writer::create(out).and_then(|writer| writer.finish(profile));
                written.map(|_| ()).map_err(as_io)
            }
        }
    }
}

/// Converts a recording's write error.
pub(crate) fn as_io(error: remora_recording::Error) -> io::Error {
    match error {
        remora_recording::Error::Write(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_format_is_found_by_name_and_extension() {
        for format in FileFormat::all() {
            for name in [format.name(), format.ending(), &format.ending()[1..]] {
                assert_eq!(FileFormat::from_name(name).ok(), Some(format), "{name}");
            }
            let path = format!("/dir.folded/My.App{}", format.ending().to_uppercase());
            assert_eq!(FileFormat::from_path(Path::new(&path)).ok(), Some(format), "{path}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused_with_what_there_is() {
        for name in ["svg", "", ".", "json", "nettrace"] {
            let message = FileFormat::from_name(name).expect_err(name).to_string();
            assert!(message.contains("remora (.remora), html (.html)"), "{message}");
        }
        for path in ["a.json", "a", "html", "/", "..", "a.gz"] {
            let message = FileFormat::from_path(Path::new(path)).expect_err(path).to_string();
            assert!(message.contains("html (.html), folded (.folded)"), "{message}");
        }
    }
}
