//! What the recording side knows of what it put into the target. Without it, much could be seen and little attributed.

use std::path::PathBuf;

/// A thread that Remora started in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentThread {
    /// Its id in the target's own numbering, as `gettid` answers there.
    pub id: u32,
    /// Its start time in clock ticks, where it was read ([`crate::Thread::start_time`]): with it, an id used again is told apart.
    pub start_time: Option<u64>,
}

/// How the agent was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfilerSlot {
    /// Nothing was loaded (EventPipe only).
    #[default]
    None,
    /// As a notification-only profiler (.NET 6+): leaves the runtime's counters as they were.
    NotificationOnly,
    /// As the main profiler.
    Main,
}

/// Whether the runtime still counts its notification-only profilers right (.NET 6 and later) after a main one has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfilerCount {
    /// Nobody has looked: after a main one it counts one too few.
    #[default]
    Unknown,
    /// It does.
    Right,
    /// It does since another one came that stays, inert.
    SetRight,
}

/// What was done to the runtime's concurrent collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GcMode {
    /// Nothing.
    #[default]
    Untouched,
    /// It was off during the recording; the runtime's own detach turns it on again.
    OffUntilDetach,
}

/// What the process was attached to for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// To sample it for a time.
    #[default]
    Recording,
    /// To take a snapshot of its heap.
    Snapshot,
    /// To follow its heap through collections.
    Watch,
}

impl Task {
    /// As it is told, and stands in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Task::Recording => "recording",
            Task::Snapshot => "snapshot",
            Task::Watch => "watch",
        }
    }
}

/// What became of a session of the runtime's own events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EventSession {
    /// There was none.
    #[default]
    None,
    /// The runtime has confirmed its end.
    Ended,
    /// It could not be ended, for this reason.
    NotEnded(String),
}

/// What the recording put into the target, and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// What it was for.
    pub task: Task,
    /// Threads of the agent.
    pub agent_threads: Vec<AgentThread>,
    /// Their name as the system knows it; empty if nothing was loaded.
    pub agent_thread_name: String,
    /// Children of the agent, in the target's own numbering.
    pub children: Vec<u32>,
    /// The signal that sampled; `None` if none was used.
    pub signal: Option<u32>,
    /// Whether perf events were opened in the target.
    pub perf_events: bool,
    /// Files placed for the target, as this side sees them. [`crate::Snapshot::look_for`] must be given the same.
    pub placed: Vec<PathBuf>,
    /// Which of these stays on purpose: the library's file, for the next attach to a process on musl.
    pub kept: Option<PathBuf>,
    /// File name of the library, as `maps` shows it.
    pub library: String,
    /// Inodes of sockets of ours that were open in the target, as far as the system told them.
    pub socket_inodes: Vec<u64>,
    /// The session of the runtime's own events.
    pub event_session: EventSession,
    /// Name of the shared memory, without `memfd:`.
    pub memory_name: Option<String>,
    /// How the agent was loaded.
    pub slot: ProfilerSlot,
    /// What has become of the runtime's count of profilers.
    pub count: ProfilerCount,
    /// File names of libraries that came before, as `maps` shows them: they were not called, since a main profiler had left before, and
    /// stay, inert. Each sets the count right by one.
    pub stayed: Vec<String>,
    /// The same of those of which it was said beforehand that they stay, for [`ProfilerCount::SetRight`].
    pub staying: Vec<String>,
    /// The same of those for which the runtime had no place: it loads a library to ask it which kind of profiler it is, and keeps it.
    pub refused: Vec<String>,
    /// Whether ProfilerAttachComplete came.
    pub attach_completed: bool,
    /// Whether the runtime confirmed that the detach is over (ProfilerDetachSucceeded).
    pub detach_confirmed: bool,
    /// Why the library must stay, inert, if it said so.
    pub inert: Option<String>,
    /// What was done to concurrent collection.
    pub gc_mode: GcMode,
    /// How long the attach took, nanoseconds.
    pub attach: u64,
    /// How long what it was for took, nanoseconds.
    pub recording: u64,
    /// How long the detach took, until unmapped, nanoseconds.
    pub detach: u64,
    /// Whether the target's libc is musl, which never unmaps a library.
    pub musl: bool,
    /// The runtime as it is shown: `.NET 8.0.4`.
    pub runtime: String,
}

impl Facts {
    /// Adds what another agent, that came on account of this one, put into the target.
    pub fn absorb(&mut self, other: Facts) {
        self.agent_threads.extend(other.agent_threads);
        self.placed.extend(other.placed);
        self.kept = self.kept.take().or(other.kept);
        self.socket_inodes.extend(other.socket_inodes);
        self.stayed.extend(other.stayed);
        self.refused.extend(other.refused);
    }

    /// Major version of the runtime, where it can be told.
    pub(crate) fn runtime_major(&self) -> Option<u32> {
        let digits = self.runtime.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Facts;

    #[test]
    fn the_major_version_is_read_from_any_spelling() {
        let major = |runtime: &str| Facts { runtime: runtime.into(), ..Facts::default() }.runtime_major();
        assert_eq!(major(".NET Core 3.1.23"), Some(3));
        assert_eq!(major(".NET 10.0.12"), Some(10));
        assert_eq!(major("8.0.4+abc"), Some(8));
        assert_eq!(major(""), None);
    }
}
