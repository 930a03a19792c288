//! What `/proc` tells of a process at one instant: plain data, taken by [`Snapshot::take`].

use crate::{Kind, Result, proc_tree};
use std::path::{Path, PathBuf};

/// A mapping of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Path, with ` (deleted)` if the file is gone.
    pub path: String,
}

/// The address space: totals, and what of it is ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mappings {
    /// All mappings.
    pub count: usize,
    /// Their sizes added up.
    pub bytes: u64,
    /// Mappings of perf events, whoever's.
    pub perf_events: usize,
    /// Those whose name is Remora's.
    pub ours: Vec<Mapping>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id as this side numbers it.
    pub id: u32,
    /// Its id as the target numbers it (another one in a pid namespace).
    pub namespace_id: u32,
    /// When it started, clock ticks since boot; with the id this is its identity.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Mask of signals that it blocks; bit 0 is signal 1.
    pub blocked: u64,
    /// Mask of signals pending for it alone.
    pub pending: u64,
}

/// What the process does on signals; bit 0 of a mask is signal 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signals {
    /// Ignored.
    pub ignored: u64,
    /// Handled.
    pub caught: u64,
    /// Pending for the process as a whole.
    pub pending: u64,
}

/// An open descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// What it refers to, as the system says: `socket:[123]`, `/memfd:remora-ring (deleted)`.
    pub target: String,
}

/// A child process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its id as this side numbers it.
    pub id: u32,
    /// Its id as the target numbers it.
    pub namespace_id: u32,
    /// When it started, clock ticks since boot.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Whether it ended and waits to be asked for its exit status.
    pub zombie: bool,
    /// Path of a library of ours that it has mapped, which a forked copy of the target has.
    pub library: Option<String>,
}

/// A POSIX timer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timer {
    /// Its id in the process.
    pub id: i64,
    /// The signal that it sends.
    pub signal: Option<u32>,
    /// Whom it notifies and how: `signal/tid.77`.
    pub notify: String,
    /// Its clock; negative ones are processor clocks of threads and processes.
    pub clock: i64,
}

/// Memory of the process, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident.
    pub resident: u64,
    /// Address space.
    pub virtual_size: u64,
    /// Resident, shared pages counted in proportion; only where reading it is cheap.
    pub proportional: Option<u64>,
}

/// Whether a placed file is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Present,
    /// It is not.
    Absent,
    /// That could not be found out.
    Unknown,
}

/// A file that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where.
    pub path: PathBuf,
    /// Whether it is there.
    pub presence: Presence,
}

/// Something that could not be read, and so is not known to be clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// What kind of thing it would have told of.
    pub kind: Kind,
    /// The file.
    pub path: String,
    /// What the system said.
    pub error: String,
}

/// What there is of a process at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The process as this side numbers it.
    pub process_id: u32,
    /// When it started, clock ticks since boot; with the id this is its identity.
    pub start_time: u64,
    /// Its name.
    pub name: String,
    /// Address space.
    pub mappings: Mappings,
    /// Threads, by id.
    pub threads: Vec<Thread>,
    /// Dispositions and pending signals of the process.
    pub signals: Signals,
    /// Open descriptors, by number.
    pub descriptors: Vec<Descriptor>,
    /// Children, by id.
    pub children: Vec<Child>,
    /// POSIX timers.
    pub timers: Vec<Timer>,
    /// Memory.
    pub memory: Memory,
    /// Files that were looked for ([`Snapshot::look_for`]).
    pub files: Vec<Placed>,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

/// The numbers of a snapshot, for showing.
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
    /// Looks at process `process_id` through `proc_root` (`/proc`, or a tree like it).
    /// Threads that vanish meanwhile are passed over; what may not be read is noted in [`Snapshot::unread`].
    pub fn take(proc_root: &Path, process_id: u32) -> Result<Snapshot> {
        proc_tree::take(proc_root, process_id)
    }

    /// Looks whether the files placed for the target are (still) there.
    pub fn look_for<P: AsRef<Path>>(&mut self, paths: &[P]) {
        for path in paths.iter().map(AsRef::as_ref) {
            let presence = proc_tree::presence(path);
            self.files.push(Placed { path: path.to_owned(), presence });
        }
    }

    /// The thread that the target numbers `namespace_id`.
    pub fn thread(&self, namespace_id: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.namespace_id == namespace_id)
    }

    /// The numbers.
    pub fn totals(&self) -> Totals {
        Totals {
            mappings: self.mappings.count,
            threads: self.threads.len(),
            descriptors: self.descriptors.len(),
            children: self.children.len(),
            timers: self.timers.len(),
            memory: self.memory,
            signals: self.signals,
        }
    }

    /// Whether a thread was there, the same one and not another with its id.
    pub(crate) fn has_thread(&self, thread: &Thread) -> bool {
        self.same_thread(thread).is_some()
    }

    /// The same thread, if it was there.
    pub(crate) fn same_thread(&self, thread: &Thread) -> Option<&Thread> {
        self.threads.iter().find(|known| known.id == thread.id && known.start_time == thread.start_time)
    }
}
