//! What an agent can be asked for. A library is built for recordings or for heaps: code for other orders is not linked into it, and such
//! an order is refused (docs/design/0018-two-libraries.md).

use remora_wire::EventKind;

/// The orders that a library was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportedTasks {
    /// Recordings, and agents that come for the runtime's count alone.
    pub recordings: bool,
    /// Snapshots of the heap, and its watch.
    pub heap: bool,
}

impl SupportedTasks {
    /// All there are.
    pub const ALL: SupportedTasks = SupportedTasks { recordings: true, heap: true };

    /// Whether this one is among them.
    pub fn include(self, event: EventKind) -> bool {
        if event.is_of_heap() { self.heap } else { self.recordings }
    }
}
