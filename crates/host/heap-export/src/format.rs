//! Output formats and their names.

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// For the Memory panel of Chrome's DevTools.
    HeapSnapshot,
    /// For PerfView, Visual Studio and `dotnet-gcdump report`.
    GcDump,
}

impl Format {
    /// All formats, in the order of lists for users.
    pub const ALL: [Format; 2] = [Format::HeapSnapshot, Format::GcDump];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::HeapSnapshot => "heapsnapshot",
            Format::GcDump => "gcdump",
        }
    }

    /// The file extension.
    pub fn ending(self) -> &'static str {
        match self {
            Format::HeapSnapshot => ".heapsnapshot",
            Format::GcDump => ".gcdump",
        }
    }

    /// Whether it is binary.
    pub fn is_binary(self) -> bool {
        self == Format::GcDump
    }
}
