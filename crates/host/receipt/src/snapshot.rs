//! The state of a process in `/proc` at one instant: plain data, read by [`Snapshot::take`].

use crate::Kind;
use std::path::PathBuf;

/// A mapping of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Path, with ` (deleted)` if the file was unlinked.
    pub path: String,
}

/// The address space: totals, and our mappings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mappings {
    /// All mappings.
    pub count: usize,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Mappings of perf events, of any owner.
    pub perf_events: usize,
    /// The first mappings with a name of Remora.
    pub ours: Vec<Mapping>,
    /// How many more have one. A target can map any number of such files.
    pub more_of_ours: usize,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id in our namespace.
    pub id: u32,
    /// Its id in the target's namespace.
    pub namespace_id: u32,
    /// Start time, clock ticks since boot; identifies the thread together with its id.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Mask of blocked signals; bit 0 is signal 1.
    pub blocked: u64,
    /// Mask of signals pending for this thread only.
    pub pending: u64,
}

/// Signal dispositions of the process; bit 0 of a mask is signal 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signals {
    /// Ignored.
    pub ignored: u64,
    /// Handled.
    pub caught: u64,
    /// Pending for the process as a whole.
    pub pending: u64,
}

/// Open descriptors. A target can have a million, with a path of 4 KiB each: only those that can be ours are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// All descriptors.
    pub count: usize,
    /// Those of perf events, of any owner.
    pub perf_events: usize,
    /// Sockets: number and inode.
    pub sockets: Vec<(u32, u64)>,
    /// Shared memory, and files with a name of Remora, by number.
    pub named: Vec<Descriptor>,
}

/// An open descriptor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// Its target in `/proc/PID/fd`: `/memfd:remora-ring (deleted)`.
    pub target: String,
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its id in our namespace.
    pub id: u32,
    /// Its id in the target's namespace.
    pub namespace_id: u32,
    /// Start time, clock ticks since boot.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Whether it has ended, and waits for `wait`.
    pub zombie: bool,
    /// Path of a library of ours among its mappings, without those that stay on purpose: a forked copy of the target has one.
    pub library: Option<String>,
}

/// A POSIX timer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Timer {
    /// Its id in the process.
    pub id: i64,
    /// The signal that it sends.
    pub signal: Option<u32>,
    /// Its notification: `signal/tid.77`.
    pub notify: String,
    /// Its clock; negative ones are CPU clocks of threads and processes.
    pub clock: i64,
}

/// Memory of the process, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident.
    pub resident: u64,
    /// Address space.
    pub virtual_size: u64,
    /// Resident, shared pages counted proportionally; only if reading it is cheap.
    pub proportional: Option<u64>,
}

/// Whether a placed file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It exists.
    Present,
    /// It does not exist.
    Absent,
    /// Unknown: the check failed.
    Unknown,
}

/// The state of a placed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its path.
    pub path: PathBuf,
    /// Whether it exists.
    pub presence: Presence,
}

/// Something unreadable, so not known to be clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The kind that it would have shown.
    pub kind: Kind,
    /// The file.
    pub path: String,
    /// The system's error, or the limit of Remora that was reached.
    pub error: String,
}

/// The state of a process at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The process id in our namespace.
    pub process_id: u32,
    /// Start time, clock ticks since boot; identifies the process together with its id.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Address space.
    pub mappings: Mappings,
    /// Threads, by id.
    pub threads: Vec<Thread>,
    /// Dispositions and pending signals of the process.
    pub signals: Signals,
    /// Open descriptors.
    pub descriptors: Descriptors,
    /// Children, by id.
    pub children: Vec<Child>,
    /// Children of children, and so on. One whose parent has ended has another parent, and is not among them.
    pub descendants: Vec<Child>,
    /// POSIX timers.
    pub timers: Vec<Timer>,
    /// Memory.
    pub memory: Memory,
    /// Placed files, as [`Snapshot::look_for`] found them.
    pub files: Vec<Placed>,
    /// Everything unreadable.
    pub unread: Vec<Unread>,
}

/// The totals of a snapshot, for display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Mappings.
    pub mappings: usize,
    /// Threads.
    pub threads: usize,
    /// Descriptors.
    pub descriptors: usize,
    /// Children.
    pub children: usize,
    /// POSIX timers.
    pub timers: usize,
    /// Memory.
    pub memory: Memory,
    /// Dispositions.
    pub signals: Signals,
}

impl Snapshot {
    /// The thread with id `namespace_id` in the target's namespace.
    pub fn thread(&self, namespace_id: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.namespace_id == namespace_id)
    }

    /// Children and their descendants.
    pub(crate) fn family(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().chain(&self.descendants)
    }

    /// The totals.
    pub fn totals(&self) -> Totals {
        Totals {
            mappings: self.mappings.count,
            threads: self.threads.len(),
            descriptors: self.descriptors.count,
            children: self.children.len(),
            timers: self.timers.len(),
            memory: self.memory,
            signals: self.signals,
        }
    }

    /// Whether this thread was there: the same one, not another with its id.
    pub(crate) fn has_thread(&self, thread: &Thread) -> bool {
        self.same_thread(thread).is_some()
    }

    /// The same thread, if it was there.
    pub(crate) fn same_thread(&self, thread: &Thread) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&thread.id, |known| known.id).ok()?;
        Some(&self.threads[at]).filter(|known| known.start_time == thread.start_time)
    }
}
