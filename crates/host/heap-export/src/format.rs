//! Which formats there are, and how they are recognised.

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// For the Memory panel of Chrome's DevTools.
    HeapSnapshot,
    /// For PerfView, Visual Studio and `dotnet-gcdump report`.
    GcDump,
}

impl Format {
    /// Every format, in the order in which they are listed to people.
    pub const ALL: [Format; 2] = [Format::HeapSnapshot, Format::GcDump];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::HeapSnapshot => "heapsnapshot",
            Format::GcDump => "gcdump",
        }
    }

    /// How names of such files end.
    pub fn ending(self) -> &'static str {
        match self {
            Format::HeapSnapshot => ".heapsnapshot",
            Format::GcDump => ".gcdump",
        }
    }

    /// Whether it is not for eyes.
    pub fn is_binary(self) -> bool {
        self == Format::GcDump
    }
}
