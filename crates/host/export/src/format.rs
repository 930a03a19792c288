//! Output formats, their names and file extensions. The command finds a format by these.

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
}
