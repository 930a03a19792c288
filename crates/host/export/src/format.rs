//! Output formats and their names. No guessing: an unknown name or extension is an error that lists the known ones.

use std::path::Path;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One self-contained web page: flame graph and table.
    Html,
    /// One line for each distinct stack, for `flamegraph.pl` and similar tools.
    Folded,
    /// For <https://www.speedscope.app>.
    Speedscope,
    /// For `go tool pprof` and other pprof readers, compressed.
    Pprof,
    /// For <https://profiler.firefox.com>, compressed.
    Firefox,
}

/// Why there is no format.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// A name not in [`Format::ALL`]; likely a typing error.
    #[error("unknown format `{name}`: choose one of {}", Format::known_names())]
    UnknownName {
        /// The requested name.
        name: String,
    },
    /// A file name whose extension selects no format; name the format, or choose another extension.
    #[error(
        "no format follows from the file name `{file}`: end it in one of {}, or name the format",
        Format::known_endings()
    )]
    UnknownEnding {
        /// The file's name, without directories.
        file: String,
    },
}

impl Format {
    /// All formats, in the order of lists for users.
    pub const ALL: [Format; 5] = [Format::Html, Format::Folded, Format::Speedscope, Format::Pprof, Format::Firefox];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Html => "html",
            Format::Folded => "folded",
            Format::Speedscope => "speedscope",
            Format::Pprof => "pprof",
            Format::Firefox => "firefox",
        }
    }

    /// The file extension.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Html => ".html",
            Format::Folded => ".folded",
            Format::Speedscope => ".speedscope.json",
            Format::Pprof => ".pb.gz",
            Format::Firefox => ".firefox.json.gz",
        }
    }

    /// The format called `name`.
    pub fn from_name(name: &str) -> Result<Format, ExportError> {
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| ExportError::UnknownName { name: name.to_owned() })
    }

    /// The format for the extension of `path`, upper or lower case.
    pub fn from_path(path: &Path) -> Result<Format, ExportError> {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let lower = file.to_ascii_lowercase();
        let found = Format::ALL.into_iter().find(|format| lower.ends_with(format.ending()));
        found.ok_or(ExportError::UnknownEnding { file })
    }

    fn known_names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    fn known_endings() -> String {
        Format::ALL.map(Format::ending).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_endings_lead_to_their_format() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Ok(format));
            let path = format!("/some/dir.html/app{}", format.ending().to_uppercase());
            assert_eq!(Format::from_path(Path::new(&path)), Ok(format));
        }
    }

    #[test]
    fn what_is_unknown_is_refused_with_the_known_ones() {
        let error = Format::from_name("svg").expect_err("there is no such format").to_string();
        assert_eq!(error, "unknown format `svg`: choose one of html, folded, speedscope, pprof, firefox");
        for (path, file) in [("a/b.json", "b.json"), ("/", ""), ("x.gz", "x.gz"), ("html", "html")] {
            let error = Format::from_path(Path::new(path)).expect_err(path);
            assert_eq!(error, ExportError::UnknownEnding { file: file.into() });
            assert!(error.to_string().contains(".html, .folded, .speedscope.json, .pb.gz, .firefox.json.gz"));
        }
    }
}
