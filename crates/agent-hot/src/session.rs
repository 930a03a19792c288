//! The memory that the handler works on: one [`Session`] per attach, one [`Slot`] per followed thread.

use crate::due::Due;
use crate::record::WINDOW_WORDS;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use remora_agent_ring::Ring;
use remora_wire::layout;

/// The deepest stack that is kept; what is beyond is cut at the root's side and the sample marked.
pub const MAXIMUM_DEPTH: usize = 512;

/// What drives the sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Two timers a thread: see [`crate::on_signal`].
    CpuTimers,
    /// A timer a thread, which the agent's sampler thread has fire.
    WallSignals,
}

/// Which of a thread's timers a signal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The timer on the thread's processor time: it finds a thread that has begun to work.
    Processor,
    /// The timer on the monotonic clock: it samples a thread that works.
    Clock,
}

/// The value that a timer's signal carries: slot, its generation, and which timer.
pub fn cookie(slot: u32, generation: u32, which: Which) -> u64 {
    u64::from(generation) << 32 | u64::from(slot) << 1 | u64::from(which == Which::Clock)
}

/// What is known of one followed thread. Written by the agent's thread when it follows or leaves the thread, and by the
/// handler on that very thread; never by two at once, except the atomics.
pub struct Slot {
    /// The thread, 0 while the slot is free.
    pub thread: AtomicU32,
    /// Counts the uses of this slot: a late signal of an earlier one is told by it.
    pub generation: AtomicU32,
    /// Kernel's id of the timer on processor time, plus one; 0 if there is none.
    pub processor_timer: AtomicU32,
    /// Kernel's id of the timer on the monotonic clock, plus one; 0 if there is none.
    pub clock_timer: AtomicU32,
    /// Whether the clock timer drives the thread now.
    pub active: AtomicBool,
    /// Processor time up to which the thread's samples account, nanoseconds; below zero, wrapped, for a thread that was born during
    /// the recording and has no sample yet.
    pub accounted: AtomicU64,
    /// Bounds of its stack; both 0 until the agent's thread has looked them up.
    pub stack_low: AtomicU64,
    /// See `stack_low`.
    pub stack_high: AtomicU64,
    /// Where in its processor time it is sampled next.
    pub due: Due,
    /// Clock sampling: nanoseconds that the sample asked for stands for; 0 when none is asked for.
    pub asked: AtomicU64,
    /// Clock sampling: processor time at the end of the last answered sample, nanoseconds; 0 if there was none.
    pub answered_at: AtomicU64,
    /// State of the thread's jitter.
    pub random: AtomicU64,
    scratch: UnsafeCell<[u64; MAXIMUM_DEPTH + WINDOW_WORDS]>,
}

// SAFETY: `scratch` is used only by the handler on the slot's own thread, which the kernel never runs twice at once on one
// thread because the signal is masked while it runs; everything else is atomic.
unsafe impl Sync for Slot {}

impl Slot {
    /// Where the handler builds a sample.
    pub(crate) fn scratch(&self) -> *mut [u64; MAXIMUM_DEPTH + WINDOW_WORDS] {
        self.scratch.get()
    }
}

/// Whom a signal is for.
pub(crate) struct Aimed<'a> {
    /// The thread.
    pub(crate) thread: u32,
    /// Index of its slot.
    pub(crate) index: u32,
    /// Its slot.
    pub(crate) slot: &'a Slot,
    /// Which of its timers fired.
    pub(crate) which: Which,
}

/// All that one attach's handler needs. The memory behind it outlives the handler's registration.
pub struct Session<'a> {
    /// What drives the sampling.
    pub engine: Engine,
    /// Where samples go.
    pub ring: Ring<'a>,
    /// The counters in the shared memory.
    pub counters: &'a [AtomicU64],
    /// One per followed thread.
    pub slots: &'a [Slot],
    /// Mean time between two samples of a working thread, nanoseconds.
    pub interval: AtomicU64,
    /// Whether samples are wanted: off before the start and from the moment of leaving.
    pub armed: AtomicBool,
    /// Handlers that are running at this moment.
    pub inside: AtomicU32,
    /// The thread with which the process began, whose stack the kernel made.
    pub main_thread: u32,
    /// Executable ranges: a word that says how many bounds follow, and the bounds ([`crate::Ranges`]).
    /// Replaced whole; what was published before stays until `inside` has been seen at 0.
    pub ranges: AtomicPtr<u64>,
    /// Methods exchanged while they ran, in the same way: the number of words that follow, and those of [`crate::Replaced`].
    pub replaced: AtomicPtr<u64>,
    /// How to leave native code, in the same way: the number of words that follow, and those of [`crate::Native`].
    pub native: AtomicPtr<u64>,
}

impl Session<'_> {
    /// Adds to a counter of [`layout`].
    pub fn count(&self, counter: usize) {
        if let Some(counter) = self.counters.get(counter) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The slot that a timer's cookie names, if the slot still serves the same thread.
    pub(crate) fn aimed(&self, cookie: u64) -> Option<Aimed<'_>> {
        let index = (cookie as u32) >> 1;
        let slot = self.slots.get(index as usize)?;
        let which = if cookie & 1 == 1 { Which::Clock } else { Which::Processor };
        let current = slot.generation.load(Ordering::Relaxed) == (cookie >> 32) as u32;
        // Read once: whoever lets go of the thread clears it meanwhile.
        let thread = slot.thread.load(Ordering::Relaxed);
        (current && thread != 0).then_some(Aimed { thread, index, slot, which })
    }

    /// A refused push, by its counter.
    pub(crate) fn count_refusal(&self) {
        self.count(layout::LOST_RING_FULL);
    }
}
