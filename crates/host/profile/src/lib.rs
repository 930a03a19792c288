//! The neutral model of samples, stacks, threads, values and loss: the hub between whoever records and whoever writes a file.
//!
//! # Purpose
//! A [`Profile`] is what one recording means, independent of how it was taken and of how it will be written.
//!
//! # Design constraints
//! Flat tables and indexes into them: a profile of a million samples is a handful of vectors.
//! Everything is append-only, so that a recording file can be written while the profile grows ([`Watermark`]).
//!
//! # Rejected
//! `Serialize` on these types: files have their own, versioned, boundary types.
#![forbid(unsafe_code)]

mod frame;
mod loss;
mod scale;
mod stack;
mod summary;
mod thread;

pub use frame::{Frame, FrameIx, FrameKind, StringIx};
pub use loss::{Loss, LossCause};
pub use scale::{LARGEST_SCALE, UNSCALED};
pub use stack::{StackIx, StackNode};
pub use summary::{HotMethod, Summary, ThreadShare};
pub use thread::{Thread, ThreadIx};

use std::collections::HashMap;

/// A map from indexes or addresses. Every frame of every sample is looked up in one.
/// Each map has a random seed, so a target cannot choose keys that collide. Text keeps the standard hash.
pub type NumberMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// What one unit of [`Sample::weight`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Time on a processor, user and kernel, in nanoseconds.
    Cpu,
    /// Time on the clock, running or blocked, in nanoseconds.
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

/// Whether a thread used the processor when it was sampled.
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
    /// Nanoseconds of CPU or wall-clock time that this sample stands for ([`Meta::event`] says which).
    pub weight: u64,
    /// Running or blocked.
    pub state: State,
}

/// What was recorded, how, and from whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// What a weight stands for.
    pub event: Event,
    /// What took the samples, as it is shown to the user: `agent (timers)`, `EventPipe SampleProfiler`.
    pub engine: String,
    /// Samples a second and thread that were asked for.
    pub frequency: u32,
    /// Wall-clock time of the first instant, nanoseconds since 1970-01-01 UTC.
    pub started_unix_nanoseconds: u64,
    /// How long the recording lasted, nanoseconds.
    pub duration: u64,
    /// Process id as the recording side sees it.
    pub process_id: u32,
    /// The application's name: entry assembly, else executable.
    pub application: String,
    /// The target's command line, arguments separated by one space.
    pub command_line: String,
    /// The runtime as it is shown: `.NET 8.0.4`.
    pub runtime: String,
    /// Processor time that the target's process used during the recording, nanoseconds, where it could be read.
    pub target_cpu: Option<u64>,
    /// Everything a reader should be told: what a fallback cannot do, how a recording ended early.
    pub notes: Vec<String>,
}

impl Meta {
    /// The [`Meta::engine`] whose samples are the runtime's own.
    pub const RUNTIME_SAMPLER: &str = "EventPipe SampleProfiler";

    /// What the weights add up to, in two words: `CPU time`.
    pub fn time(&self) -> &'static str {
        match self.event {
            Event::Cpu if self.engine == Meta::RUNTIME_SAMPLER => "managed time",
            Event::Cpu => "CPU time",
            Event::Wall => "thread time",
        }
    }

    /// What a weight means, for people.
    pub fn meaning(&self) -> &'static str {
        match self.event {
            // It cannot tell who runs: only who is in managed code (docs of `remora-nettrace`, `Sampled`).
            Event::Cpu if self.engine == Meta::RUNTIME_SAMPLER => "time on the clock in managed code",
            Event::Cpu => "time on a processor",
            Event::Wall => "time on the clock",
        }
    }
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            event: Event::Cpu,
            engine: String::new(),
            frequency: 0,
            started_unix_nanoseconds: 0,
            duration: 0,
            process_id: 0,
            application: String::new(),
            command_line: String::new(),
            runtime: String::new(),
            target_cpu: None,
            notes: Vec::new(),
        }
    }
}

/// One recording.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// What was recorded.
    pub meta: Meta,
    strings: Vec<String>,
    string_index: HashMap<String, StringIx>,
    frames: Vec<Frame>,
    frame_index: NumberMap<Frame, FrameIx>,
    stacks: Vec<StackNode>,
    stack_index: NumberMap<StackNode, StackIx>,
    threads: Vec<Thread>,
    samples: Vec<Sample>,
    scales: Vec<u64>,
    /// What was taken and what of it did not arrive, by cause.
    pub loss: Loss,
}

/// How much of a growing [`Profile`] has been written somewhere.
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
}

impl Profile {
    /// An empty profile.
    pub fn new(meta: Meta) -> Self {
        Profile { meta, ..Profile::default() }
    }

    /// The index of `text`, which is added if it is new.
    pub fn string(&mut self, text: &str) -> StringIx {
        if let Some(&index) = self.string_index.get(text) {
            return index;
        }
        let index = StringIx(self.strings.len() as u32);
        self.strings.push(text.to_owned());
        self.string_index.insert(text.to_owned(), index);
        index
    }

    /// The index of `frame`, which is added if it is new.
    pub fn frame(&mut self, frame: Frame) -> FrameIx {
        if let Some(&index) = self.frame_index.get(&frame) {
            return index;
        }
        let index = FrameIx(self.frames.len() as u32);
        self.frames.push(frame);
        self.frame_index.insert(frame, index);
        index
    }

    /// The index of the stack that is `frame` called by `parent`, which is added if it is new.
    pub fn stack(&mut self, parent: Option<StackIx>, frame: FrameIx) -> StackIx {
        let node = StackNode { parent, frame };
        if let Some(&index) = self.stack_index.get(&node) {
            return index;
        }
        let index = StackIx(self.stacks.len() as u32);
        self.stacks.push(node);
        self.stack_index.insert(node, index);
        index
    }

    /// The index of the stack whose frames are given from the root (outermost caller) to the leaf; `None` if there are none.
    pub fn stack_from_root(&mut self, frames: impl IntoIterator<Item = FrameIx>) -> Option<StackIx> {
        frames.into_iter().fold(None, |parent, frame| Some(self.stack(parent, frame)))
    }

    /// Adds a thread. Threads are not interned: the caller knows which is which, and an id may be reused by the system.
    pub fn add_thread(&mut self, thread: Thread) -> ThreadIx {
        self.threads.push(thread);
        ThreadIx(self.threads.len() as u32 - 1)
    }

    /// Replaces what is known of a thread (its name may be learnt late).
    pub fn thread_mut(&mut self, thread: ThreadIx) -> &mut Thread {
        &mut self.threads[thread.0 as usize]
    }

    /// Adds a sample.
    pub fn add_sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// The text behind an index.
    pub fn text(&self, string: StringIx) -> &str {
        &self.strings[string.0 as usize]
    }

    /// The frame behind an index.
    pub fn frame_at(&self, frame: FrameIx) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    /// The stack node behind an index.
    pub fn stack_at(&self, stack: StackIx) -> &StackNode {
        &self.stacks[stack.0 as usize]
    }

    /// All texts, in index order.
    pub fn strings(&self) -> &[String] {
        &self.strings
    }

    /// All frames, in index order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// All stack nodes, in index order; a parent always stands before its children.
    pub fn stacks(&self) -> &[StackNode] {
        &self.stacks
    }

    /// All threads, in index order.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// All samples, in the order of arrival (per thread: the order of time).
    pub fn samples(&self) -> &[Sample] {
        &self.samples
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

    /// How much there is now.
    pub fn watermark(&self) -> Watermark {
        Watermark {
            strings: self.strings.len(),
            frames: self.frames.len(),
            stacks: self.stacks.len(),
            threads: self.threads.len(),
            samples: self.samples.len(),
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
