//! The tasks that a library supports. A library is built for recordings or for heaps. It contains no code for other tasks, and refuses them
//! (docs/design/0018-two-libraries.md).

use remora_wire::Task;

/// The tasks that a library was built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupportedTasks {
    /// Recordings, and placeholder profilers for the runtime's count.
    pub recordings: bool,
    /// Heap snapshots and heap tracking.
    pub heap: bool,
}

impl SupportedTasks {
    /// All tasks.
    pub const ALL: SupportedTasks = SupportedTasks { recordings: true, heap: true };

    /// Whether the library supports this task.
    pub fn include(self, task: Task) -> bool {
        if task.is_of_heap() { self.heap } else { self.recordings }
    }
}
