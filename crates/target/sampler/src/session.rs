//! The memory that the handler works on: one [`Session`] per attach, one [`Slot`] per followed thread.

use crate::Links;
use crate::record::{RawSample, Scratch};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use remora_ring::Ring;
use remora_wire::{layout, sample_flags};

/// The state of a thread when the sampler asked it for a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Seen {
    /// It was on a CPU: its CPU clock moved between two readings.
    Running = 0,
    /// The sampler most likely took its CPU: it was ready to run there, and had run since the last look.
    Preempted = 1,
    /// It was blocked.
    Blocked = 2,
    /// It was ready to run, and waited for a CPU.
    Runnable = 3,
}

impl Seen {
    pub(crate) fn from_stored(stored: u32) -> Seen {
        match stored {
            0 => Seen::Running,
            1 => Seen::Preempted,
            2 => Seen::Blocked,
            _ => Seen::Runnable,
        }
    }
}

/// Threads whose slot is found without a search, if no other one has the same lowest bits.
const SLOTS_OF: usize = 256;

/// The value of a signal: the slot and its generation.
pub fn cookie(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// A request for one sample of a thread. The sampler writes it while `weight` is 0. The handler on the slot's thread reads it, and takes
/// the weight.
#[derive(Debug, Default)]
pub struct Ask {
    /// The sample's weight, nanoseconds; 0 without a request.
    pub weight: AtomicU64,
    /// [`Seen`].
    pub seen: AtomicU32,
    /// When the sampler asked, monotonic nanoseconds.
    pub at: AtomicU64,
    /// The thread's CPU clock then, nanoseconds.
    pub used: AtomicU64,
    /// For [`Seen::Preempted`]: when the sampler got its CPU, monotonic nanoseconds.
    pub woke_at: AtomicU64,
    /// For [`Seen::Preempted`] and [`Seen::Runnable`] in wall-clock sampling: the thread's off-CPU time without a sample yet, nanoseconds.
    /// The sampler raises it while the thread waits.
    pub off_cpu: AtomicU64,
    /// For [`Seen::Preempted`]: the thread's total wait for CPUs before the current wait, nanoseconds ([`crate::Scheduled`]).
    pub waited: AtomicU64,
}

/// How a thread answered its asks. The handler on the slot's thread writes it. When the sampler reads the stack of a blocked thread, it
/// adds to `off_cpu` and sets `at` to 0.
#[derive(Debug, Default)]
pub struct Answers {
    /// Sum of the weights of its samples off the CPU, nanoseconds.
    pub off_cpu: AtomicU64,
    /// The thread's CPU clock at the end of its last answer, nanoseconds; 0 unless that was a sample of a blocked thread.
    pub at: AtomicU64,
    /// How often it had got a CPU by then; 0 if the kernel does not provide that.
    pub slices: AtomicU64,
    /// The instruction after the system call that the signal interrupted.
    pub instruction: AtomicU64,
    /// The stack pointer there.
    pub stack: AtomicU64,
}

/// The data of one followed thread. The worker writes it when it begins or ceases to follow the thread. The handler on that same thread
/// writes it, too. Only the atomics may have two writers at once.
pub struct Slot {
    /// The thread, 0 while the slot is free.
    pub thread: AtomicU32,
    /// Counts the uses of this slot, to recognise a late signal of an earlier one.
    pub generation: AtomicU32,
    /// The kernel's id of its timer, plus one; 0 without a timer. Only real-time signals need one.
    pub timer: AtomicU32,
    /// Bounds of its stack; both 0 until the worker knows them.
    pub stack_low: AtomicU64,
    /// See `stack_low`.
    pub stack_high: AtomicU64,
    /// Its CPU clock at the sampler's last look, nanoseconds; 0 before the first.
    pub clock: AtomicU64,
    /// Whether the thread's last sample was incomplete. The worker knows more by now.
    pub again: AtomicBool,
    /// The sampler's request.
    pub ask: Ask,
    /// The thread's answers.
    pub answers: Answers,
    scratch: UnsafeCell<Scratch>,
}

// SAFETY: only the handler on the slot's own thread uses `scratch`. Its signal is masked while it runs, so the kernel never runs it twice
// at once on one thread. Everything else is atomic.
unsafe impl Sync for Slot {}

impl Slot {
    /// Room for the handler to build a sample.
    pub(crate) fn scratch(&self) -> *mut Scratch {
        self.scratch.get()
    }
}

/// The addressee of a signal.
pub(crate) struct Aimed<'a> {
    /// The thread.
    pub(crate) thread: u32,
    /// Index of its slot.
    pub(crate) index: u32,
    /// Its slot.
    pub(crate) slot: &'a Slot,
}

/// Everything that one attach's handler needs. Its memory outlives the handler's registration.
pub struct Session<'a> {
    /// Takes the samples.
    pub ring: Ring<'a>,
    /// The counters in the shared memory.
    pub counters: &'a [AtomicU64],
    /// One per followed thread.
    pub slots: &'a [Slot],
    /// Whether samples are wanted: false before sampling starts, and from its end on.
    pub armed: AtomicBool,
    /// Handlers and stack readers that run now.
    pub inside: AtomicU32,
    /// Whether the process was under a debugger when sampling began. A debugger halts a thread for each signal.
    pub traced: bool,
    /// The last span of time with exceptions, and how many of it have a stack ([`crate::thrown`]).
    pub(crate) thrown: AtomicU64,
    /// Indexes of slots by the lowest bits of their thread's id, where one was looked for. Only hints.
    pub(crate) slots_of: [AtomicU32; SLOTS_OF],
    /// The thread that has suspended the runtime for a GC; 0: none.
    pub collecting: AtomicU32,
    /// The main thread, whose stack the kernel made.
    pub main_thread: u32,
    /// Executable ranges: the number of bounds, then the bounds ([`crate::Ranges`]). The worker replaces them whole, and keeps the old ones
    /// until it sees `inside` at 0.
    pub ranges: AtomicPtr<u64>,
    /// The link table.
    pub links: Links<'a>,
    /// Unwind tables of native code, published like `ranges`: the number of words, then the words of [`crate::Native`].
    pub native: AtomicPtr<u64>,
}

impl<'a> Session<'a> {
    /// A session of this process. It is not armed, and has neither ranges nor tables.
    pub fn new(ring: Ring<'a>, counters: &'a [AtomicU64], slots: &'a [Slot], links: Links<'a>, traced: bool) -> Self {
        Session {
            ring,
            counters,
            slots,
            armed: AtomicBool::new(false),
            inside: AtomicU32::new(0),
            thrown: AtomicU64::new(0),
            slots_of: [const { AtomicU32::new(0) }; SLOTS_OF],
            collecting: AtomicU32::new(0),
            // SAFETY: takes no arguments. A process's main thread has the process's id.
            main_thread: unsafe { libc::getpid() } as u32,
            traced,
            ranges: AtomicPtr::new(core::ptr::null_mut()),
            links,
            native: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The flag of a sample of `thread`: whether it collects.
    pub(crate) fn collecting(&self, thread: u32) -> u8 {
        if self.collecting.load(Ordering::Relaxed) == thread { sample_flags::COLLECTING } else { 0 }
    }

    /// Adds to a counter of [`layout`].
    pub fn count(&self, counter: usize) {
        if let Some(counter) = self.counters.get(counter) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The slot that a signal's cookie names, if the slot still serves the same thread.
    pub(crate) fn aimed(&self, cookie: u64) -> Option<Aimed<'_>> {
        let index = cookie as u32;
        let slot = self.slots.get(index as usize)?;
        let current = slot.generation.load(Ordering::Relaxed) == (cookie >> 32) as u32;
        // Read once: the worker may clear it meanwhile.
        let thread = slot.thread.load(Ordering::Relaxed);
        (current && thread != 0).then_some(Aimed { thread, index, slot })
    }

    /// The slot of the calling `thread`, if it is followed.
    pub(crate) fn slot_of(&self, thread: u32) -> Option<(u32, &Slot)> {
        let hint = self.slots_of.get(thread as usize % SLOTS_OF)?;
        let is_of_it = |index: u32| {
            let slot = self.slots.get(index as usize)?;
            (slot.thread.load(Ordering::Relaxed) == thread).then_some((index, slot))
        };
        is_of_it(hint.load(Ordering::Relaxed)).or_else(|| {
            let found = (0..self.slots.len() as u32).find_map(is_of_it)?;
            hint.store(found.0, Ordering::Relaxed);
            Some(found)
        })
    }

    /// Pushes a sample. Counts it as lost, and returns false, if the ring is full.
    pub(crate) fn push(&self, sample: &RawSample) -> bool {
        let pushed = self.ring.push(&[&sample.fixed(), sample.addresses, sample.window, sample.windows]).is_ok();
        if !pushed {
            self.count(layout::LOST_RING_FULL);
        }
        pushed
    }

    /// Pushes a thrown exception. The ring may be full: the sender counts what arrives.
    pub(crate) fn push_thrown(&self, thrown: &RawSample) {
        let _ = self.ring.push(&[&thrown.fixed(), thrown.addresses, thrown.window, thrown.windows]);
    }

    /// The words of a table that the worker has published.
    ///
    /// # Safety
    /// `inside` is raised, and stays raised until the last use of the words.
    pub(crate) unsafe fn table(&self, published: &AtomicPtr<u64>) -> &[u64] {
        // After `inside` was raised: a thread that replaces the table and then sees 0 there may free the old one.
        let words = published.load(Ordering::SeqCst);
        if words.is_null() {
            return &[];
        }
        // SAFETY: `Published::replace` filled the block before it published it. It frees the block only after it saw `inside` at 0, and the
        // caller keeps `inside` above 0. The first word is the number of words after it.
        let stored = unsafe { *words } as usize;
        // SAFETY: `Published::replace` put `stored` words after the first one.
        unsafe { core::slice::from_raw_parts(words.add(1), stored) }
    }
}
