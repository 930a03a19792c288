//! Facts about the recording's effect on the target. The receipt needs them to attribute its findings to Remora.

use std::path::PathBuf;

/// A thread that Remora started in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentThread {
    /// Its id in the target's own namespace, as `gettid` returns there.
    pub id: u32,
    /// Its start time in clock ticks, if known ([`crate::Thread::start_time`]): it distinguishes a reused id.
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

/// Whether the runtime's count of notification-only profilers is right after a main profiler has detached (.NET 6 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfilerCount {
    /// Not checked: after a main profiler it is one too few.
    #[default]
    Unknown,
    /// The count is right.
    Right,
    /// The count is right because of a placeholder profiler that stays, inert.
    SetRight,
}

/// Effect on the runtime's concurrent GC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GcMode {
    /// None.
    #[default]
    Untouched,
    /// It was off during the recording; the runtime's own detach turns it on again.
    OffUntilDetach,
}

/// The purpose of the attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Task {
    /// Sampling.
    #[default]
    Recording,
    /// A heap snapshot.
    Snapshot,
    /// Heap tracking.
    Watch,
}

impl Task {
    /// Its name in text and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// State of the EventPipe session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EventSession {
    /// There was none.
    #[default]
    None,
    /// The runtime has confirmed its end.
    Ended,
    /// It could not be stopped, for this reason.
    NotEnded(String),
}

/// What the recording put into the target, and the course of attach and detach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The purpose of the attach.
    pub task: Task,
    /// Threads of the agent.
    pub agent_threads: Vec<AgentThread>,
    /// Their name in the kernel; empty if nothing was loaded.
    pub agent_thread_name: String,
    /// Children of the agent, in the target's own namespace.
    pub children: Vec<u32>,
    /// The sampling signal; `None` if none was used.
    pub signal: Option<u32>,
    /// Whether perf events were opened in the target.
    pub perf_events: bool,
    /// Files placed for the target, as paths of this side. Pass the same ones to [`crate::Snapshot::look_for`].
    pub placed: Vec<PathBuf>,
    /// The placed file that stays on purpose: the library's, for the next attach to a process on musl.
    pub kept: Option<PathBuf>,
    /// File name of the library in `maps`.
    pub library: String,
    /// Inodes of our sockets in the target, if the kernel reported them.
    pub socket_inodes: Vec<u64>,
    /// State of the EventPipe session.
    pub event_session: EventSession,
    /// Name of the shared memory, without `memfd:`.
    pub memory_name: Option<String>,
    /// How the agent was loaded.
    pub slot: ProfilerSlot,
    /// State of the runtime's count of profilers.
    pub count: ProfilerCount,
    /// File names (in `maps`) of earlier libraries that got no callbacks, because a main profiler had detached before. They stay, inert,
    /// and each corrects the count by one.
    pub stayed: Vec<String>,
    /// The same, for libraries announced as placeholders ([`ProfilerCount::SetRight`]).
    pub staying: Vec<String>,
    /// The same, for libraries without a free slot. The runtime loads a library to ask it for the kind of its profiler, and keeps it.
    pub refused: Vec<String>,
    /// Whether a recording goes on beside: what was there before is its own.
    pub beside: bool,
    /// Whether a trace of methods ran meanwhile, as asked: its agent is in the process now.
    pub traced: bool,
    /// Whether the agent got ProfilerAttachComplete.
    pub attach_completed: bool,
    /// Whether the runtime confirmed the end of the detach (ProfilerDetachSucceeded).
    pub detach_confirmed: bool,
    /// The agent's reason why it must stay, inert, if it does.
    pub inert: Option<String>,
    /// Effect on concurrent GC.
    pub gc_mode: GcMode,
    /// Duration of the attach, nanoseconds.
    pub attach: u64,
    /// Duration of the task, nanoseconds.
    pub recording: u64,
    /// Duration of the detach until the library was unmapped, nanoseconds.
    pub detach: u64,
    /// Whether the target's libc is musl, which never unmaps a library.
    pub musl: bool,
    /// The runtime's display name: `.NET 8.0.4`.
    pub runtime: String,
}

impl Facts {
    /// Adds the facts of another agent, attached because of this one.
    pub fn absorb(&mut self, other: Facts) {
        self.agent_threads.extend(other.agent_threads);
        self.placed.extend(other.placed);
        self.kept = self.kept.take().or(other.kept);
        self.socket_inodes.extend(other.socket_inodes);
        self.stayed.extend(other.stayed);
        self.refused.extend(other.refused);
    }

    /// Major version of the runtime, if known.
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
