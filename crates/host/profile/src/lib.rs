//! The neutral model of samples, stacks, threads, values and loss: the hub between recorders and file formats.
//!
//! # Purpose
//! A [`Profile`] is the content of one recording, independent of the engine and of file formats.
//!
//! # Design constraints
//! Flat tables and indexes into them: a profile of a million samples is a handful of vectors.
//! Everything is append-only, so that a recording file can be written while the profile grows ([`Watermark`]).
//!
//! # Rejected
//! `Serialize` on these types: files have their own, versioned, boundary types.
#![forbid(unsafe_code)]

mod application;
mod attribution;
mod code_kind;
mod cost;
mod exceptions;
mod findings;
mod frame;
mod loss;
mod runtime_frames;
mod runtime_names;
mod scale;
mod stack;
mod summary;
mod table;
mod thread;
mod wait;

pub use application::{
    ApplicationMethod, ApplicationRule, ApplicationTime, BlockedTime, Callee, CostShare, EntryPoint, Line, PoolTime,
    WaitTime,
};
pub use attribution::{Attribution, Entry};
pub use code_kind::CodeKind;
pub use cost::Cost;
pub use exceptions::{Thrown, ThrownFrom};
pub use findings::{COLLECT, Finding, Problem, WaitPlace};
pub use frame::{Frame, FrameIx, FrameKind, StringIx};
pub use loss::{Loss, LossCause};
pub use runtime_frames::{fold_runtime_frames, fold_runtime_frames_and_keep_them};
pub use scale::{LARGEST_SCALE, UNSCALED};
pub use stack::{INCOMPLETE, StackIx, StackNode, TRUNCATED};
pub use summary::{HotMethod, Summary, ThreadShare};
pub use thread::{Thread, ThreadIx};
pub use wait::{GC, LOCK_WAIT, WAITING_FOR_CPU, Wait};

use std::collections::HashMap;
use table::Table;

/// A map from indexes or addresses. Every frame of every sample is looked up in one.
/// Each map has a random seed, so a target cannot choose keys that collide. Text keeps the standard hash.
pub type NumberMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The unit of [`Sample::weight`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    /// Time, of the kind that [`Meta::event`] says.
    #[default]
    Nanoseconds,
    /// Bytes of allocated objects.
    Bytes,
}

/// What is sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Event {
    /// CPU time, user and kernel, in nanoseconds.
    #[default]
    Cpu,
    /// Wall-clock time, running or blocked, in nanoseconds.
    Wall,
}

impl Event {
    /// The name used on the command line and in files: `cpu` or `wall`.
    pub fn name(self) -> &'static str {
        match self {
            Event::Cpu => "cpu",
            Event::Wall => "wall",
        }
    }

    /// The event called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Event> {
        match name {
            "cpu" => Some(Event::Cpu),
            "wall" => Some(Event::Wall),
            _ => None,
        }
    }
}

/// Whether a thread was on a CPU when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// On a CPU.
    Running,
    /// Blocked, or waiting for a CPU.
    Blocked,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since [`Meta::started_unix_nanoseconds`], by the monotonic clock.
    pub time: u64,
    /// The thread that was sampled.
    pub thread: ThreadIx,
    /// Its stack.
    pub stack: StackIx,
    /// Nanoseconds of CPU or wall-clock time that this sample represents ([`Meta::event`]).
    pub weight: u64,
    /// Running or blocked.
    pub state: State,
}

/// Properties of a recording and its target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta {
    /// What was sampled.
    pub event: Event,
    /// The unit of weights.
    pub unit: Unit,
    /// The sampler's displayed name: `agent (timers)`, `EventPipe SampleProfiler`.
    pub engine: String,
    /// Requested samples a second and thread.
    pub frequency: u32,
    /// Wall-clock time of the first instant, nanoseconds since 1970-01-01 UTC.
    pub started_unix_nanoseconds: u64,
    /// Duration of the recording, nanoseconds.
    pub duration: u64,
    /// Process id as the recorder sees it.
    pub process_id: u32,
    /// The application's name: entry assembly, else executable.
    pub application: String,
    /// The target's command line, arguments separated by one space.
    pub command_line: String,
    /// The runtime's displayed name: `.NET 8.0.4`.
    pub runtime: String,
    /// The target's CPU time during the recording, nanoseconds, if readable.
    pub target_cpu: Option<u64>,
    /// Exceptions thrown while they were watched; `None` if they were not.
    pub exceptions: Option<u64>,
    /// Notes for readers: limits of a fallback, an early end of the recording.
    pub notes: Vec<String>,
}

impl Meta {
    /// The [`Meta::engine`] of the runtime's own samples.
    pub const RUNTIME_SAMPLER: &str = "EventPipe SampleProfiler";

    /// The name of what weights measure, in files: `cpu`, `wall`, `alloc`.
    pub fn name(&self) -> &'static str {
        match self.unit {
            Unit::Nanoseconds => self.event.name(),
            Unit::Bytes => "alloc",
        }
    }

    /// What the profile is about, for titles: `cpu time`, `allocations`.
    pub fn subject(&self) -> &'static str {
        match (self.unit, self.event) {
            (Unit::Bytes, _) => "allocations",
            (Unit::Nanoseconds, Event::Cpu) => "cpu time",
            (Unit::Nanoseconds, Event::Wall) => "wall time",
        }
    }

    /// What weights add up to, in two words: `CPU time`.
    pub fn time(&self) -> &'static str {
        match self.event {
            _ if self.unit == Unit::Bytes => "allocated memory",
            Event::Cpu if self.engine == Meta::RUNTIME_SAMPLER => "managed time",
            Event::Cpu => "CPU time",
            Event::Wall => "thread time",
        }
    }

    /// The meaning of a weight, for people.
    pub fn meaning(&self) -> &'static str {
        match self.event {
            _ if self.unit == Unit::Bytes => "bytes of allocated objects",
            // It cannot detect running threads, only managed code (docs of `remora-nettrace`, `Sampled`).
            Event::Cpu if self.engine == Meta::RUNTIME_SAMPLER => "time on the clock in managed code",
            Event::Cpu => "time on a processor",
            Event::Wall => "time on the clock",
        }
    }
}

/// One recording.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Properties of the recording.
    pub meta: Meta,
    strings: Table<String, std::hash::RandomState>,
    frames: Table<Frame>,
    stacks: Table<StackNode>,
    threads: Vec<Thread>,
    samples: Vec<Sample>,
    thrown: Vec<Thrown>,
    /// Of each sample, its stack with every frame of the runtime; empty if that is its stack.
    expanded: Vec<StackIx>,
    scales: Vec<u64>,
    /// Taken and lost samples, by cause.
    pub loss: Loss,
}

/// The part of a growing [`Profile`] written so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watermark {
    /// Strings written.
    pub strings: usize,
    /// Frames written.
    pub frames: usize,
    /// Stack nodes written.
    pub stacks: usize,
    /// Threads written.
    pub threads: usize,
    /// Samples written.
    pub samples: usize,
    /// Exceptions written.
    pub thrown: usize,
}

impl Profile {
    /// An empty profile.
    pub fn new(meta: Meta) -> Self {
        Profile { meta, ..Profile::default() }
    }

    /// The index of `text`; adds it if new.
    pub fn string(&mut self, text: &str) -> StringIx {
        StringIx(self.strings.index(text))
    }

    /// The index of `frame`; adds it if new.
    pub fn frame(&mut self, frame: Frame) -> FrameIx {
        FrameIx(self.frames.index(&frame))
    }

    /// A frame that is not code: a mark such as `[truncated]`.
    pub fn marker(&mut self, name: &str) -> FrameIx {
        let name = self.string(name);
        self.frame(Frame { kind: FrameKind::Synthetic, name, module: None, file: None, line: None })
    }

    /// The index of the stack with `frame` called by `parent`; adds it if new.
    pub fn stack(&mut self, parent: Option<StackIx>, frame: FrameIx) -> StackIx {
        StackIx(self.stacks.index(&StackNode { parent, frame }))
    }

    /// The index of the stack with these frames from the root (outermost caller) to the leaf; `None` if there are none.
    pub fn stack_from_root(&mut self, frames: impl IntoIterator<Item = FrameIx>) -> Option<StackIx> {
        frames.into_iter().fold(None, |parent, frame| Some(self.stack(parent, frame)))
    }

    /// Adds a thread. Threads are not interned: the caller distinguishes them, and the system may reuse an id.
    pub fn add_thread(&mut self, thread: Thread) -> ThreadIx {
        self.threads.push(thread);
        ThreadIx(self.threads.len() as u32 - 1)
    }

    /// Updates a thread (its name may be learnt late).
    pub fn thread_mut(&mut self, thread: ThreadIx) -> &mut Thread {
        &mut self.threads[thread.0 as usize]
    }

    /// Adds a sample.
    pub fn add_sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Adds a thrown exception.
    pub fn add_thrown(&mut self, thrown: Thrown) {
        self.thrown.push(thrown);
    }

    /// The text at an index.
    pub fn text(&self, string: StringIx) -> &str {
        &self.strings()[string.0 as usize]
    }

    /// The frame at an index.
    pub fn frame_at(&self, frame: FrameIx) -> &Frame {
        &self.frames()[frame.0 as usize]
    }

    /// The beginning of a frame's name, by which tables are sorted. Whole names would make a table of a million names with the same
    /// beginning slow.
    pub(crate) fn order(&self, frame: FrameIx) -> &[u8] {
        const LONGEST: usize = 256;
        let name = self.text(self.frame_at(frame).name).as_bytes();
        name.get(..LONGEST).unwrap_or(name)
    }

    /// The stack node at an index.
    pub fn stack_at(&self, stack: StackIx) -> &StackNode {
        &self.stacks()[stack.0 as usize]
    }

    /// All texts, in index order.
    pub fn strings(&self) -> &[String] {
        self.strings.values()
    }

    /// All frames, in index order.
    pub fn frames(&self) -> &[Frame] {
        self.frames.values()
    }

    /// All stack nodes, in index order; a parent always precedes its children.
    pub fn stacks(&self) -> &[StackNode] {
        self.stacks.values()
    }

    /// All threads, in index order.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// All samples, in order of arrival (per thread: time order).
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// All exceptions whose stack is known, in order of arrival.
    pub fn thrown(&self) -> &[Thrown] {
        &self.thrown
    }

    /// All samples, each with its stack as it was before [`fold_runtime_frames_and_keep_them`]; otherwise that is its stack.
    pub fn expanded_samples(&self) -> impl Iterator<Item = (&Sample, StackIx)> {
        self.samples
            .iter()
            .enumerate()
            .map(|(at, sample)| (sample, self.expanded.get(at).copied().unwrap_or(sample.stack)))
    }

    /// The frames of `stack` from the leaf to the root.
    pub fn walk(&self, stack: StackIx) -> impl Iterator<Item = FrameIx> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let node = self.stack_at(next?);
            next = node.parent;
            Some(node.frame)
        })
    }

    /// The present size of all tables.
    pub fn watermark(&self) -> Watermark {
        Watermark {
            strings: self.strings().len(),
            frames: self.frames().len(),
            stacks: self.stacks().len(),
            threads: self.threads.len(),
            samples: self.samples.len(),
            thrown: self.thrown.len(),
        }
    }

    /// Sum of all weights, nanoseconds.
    pub fn total_weight(&self) -> u64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_frames_and_stacks_are_interned() {
        let mut profile = Profile::new(Meta::default());
        let name = profile.string("Program.Main()");
        assert_eq!(profile.string("Program.Main()"), name);
        let frame = profile.frame(Frame::unknown(name));
        assert_eq!(profile.frame(Frame::unknown(name)), frame);
        let root = profile.stack(None, frame);
        let leaf = profile.stack(Some(root), frame);
        assert_ne!(root, leaf);
        assert_eq!(profile.stack_from_root([frame, frame]), Some(leaf));
        assert_eq!(profile.walk(leaf).count(), 2);
        assert_eq!(profile.stack_from_root([]), None);
    }
}
