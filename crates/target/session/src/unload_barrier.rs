//! Delays the unload of code until its samples are resolved (contract CAT-09).
//!
//! Samples hold addresses, and the worker thread resolves them later. Code that unloads in between would give a stale id, or another
//! method's name after its memory is reused. So an unload callback leaves a notice, and waits until every earlier sample is resolved. If no
//! sample waits, the callback does not wait.
//!
//! - The worker resolves samples in small batches. After each batch it releases waiting unloads, if at some instant after their notices no
//!   sample waited any more: then every earlier sample is resolved.
//! - The worker forgets unloading code before the look-ups of a batch, since its memory may be reused already. It forgets it again after
//!   them and before the unload continues, since a sample of the batch may have cached it again.
//! - The wait is bounded. A callback that times out says so, and from then on no new question to the runtime starts (`guarded_runtime.rs`):
//!   the worker forgets everything, and resolves none of the samples that wait at that time. The callback waits a second time, for the
//!   worker's confirmation: a question already in progress then gets its answer.
//!
//! One risk remains: a question in progress that takes longer than both waits. To keep waiting could deadlock, since that question may
//! itself wait for the unloading thread.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::Platform;
use remora_ring::{HEADER_WORDS, Ring};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The longest wait of an unload for look-ups, nanoseconds.
const WAIT: u64 = 100_000_000;

/// The wait after that for the confirmation that no question starts any more, nanoseconds.
const SECOND_WAIT: u64 = 400_000_000;

const NOTICE_WORDS: usize = 4096;

/// Notices remembered until unloads are released. Beyond it anything may have unloaded.
const MAXIMUM_PENDING: usize = 4096;

/// What unloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unload {
    /// A module.
    Module {
        /// ModuleID.
        id: usize,
        /// GCs that heap tracking had seen start: in later ones the id may belong to another module. 0 without heap tracking.
        collections: u64,
    },
    /// A dynamic function, by its FunctionID.
    Function(usize),
    /// Notices did not fit: anything may have unloaded.
    Anything,
}

/// The state shared by callbacks and the worker thread; see the module.
pub struct UnloadBarrier {
    notices: Box<[AtomicU64]>,
    /// Notices that did not fit.
    overflowed: AtomicU64,
    requested: AtomicU64,
    served: AtomicU64,
    busy: AtomicBool,
    open: AtomicBool,
    timeouts: AtomicU64,
    /// How many of the timeouts the worker thread has answered.
    answered: AtomicU64,
}

/// The worker thread's side of the barrier.
#[derive(Debug, Default)]
pub struct UnloadNotices {
    /// Notices since the last release of unloads.
    pending: Vec<Unload>,
    /// Notices received so far.
    received: u64,
    /// How many of them did not fit.
    overflowed: u64,
    /// How many timeouts have been answered.
    answered: u64,
    drop_pending: bool,
}

impl UnloadNotices {
    /// Whether to leave the samples that wait now unresolved: an unload has not waited for them.
    pub fn must_drop_pending(&self) -> bool {
        self.drop_pending
    }

    fn add(&mut self, what: Unload) {
        if self.pending.len() >= MAXIMUM_PENDING {
            self.pending.clear();
            self.pending.push(Unload::Anything);
        }
        self.pending.push(what);
    }
}

impl Default for UnloadBarrier {
    fn default() -> Self {
        UnloadBarrier {
            notices: (0..HEADER_WORDS + NOTICE_WORDS).map(|_| AtomicU64::new(0)).collect(),
            overflowed: AtomicU64::new(0),
            requested: AtomicU64::new(0),
            served: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            open: AtomicBool::new(true),
            timeouts: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }
}

impl UnloadBarrier {
    /// In a callback: code is about to unload.
    pub fn before_unload(&self, platform: &impl Platform, what: Unload) {
        if self.open.load(Ordering::SeqCst) {
            return;
        }
        // The ticket first: it shows the worker thread that a notice is still to come.
        let ticket = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        let pushed = match what {
            Unload::Module { id, collections } => self.push(0, id, collections),
            Unload::Function(id) => self.push(1, id, 0),
            Unload::Anything => false,
        };
        if !pushed {
            self.overflowed.fetch_add(1, Ordering::SeqCst);
        }
        // Either this callback sees the worker thread busy, or that thread sees the notice.
        fence(Ordering::SeqCst);
        // Samples first: the worker thread sets `busy` before it takes one, so one of the two checks sees each sample. In the other order,
        // a sample taken between the checks escapes both.
        if !platform.samples_pending() && !self.busy.load(Ordering::SeqCst) {
            return;
        }
        platform.wake();
        if is_injected(InjectedFault::SkipUnloadBarrier) || platform.wait_in_callback(&self.served, ticket, WAIT) {
            return;
        }
        self.timeouts.fetch_add(1, Ordering::SeqCst);
        platform.wake();
        platform.wait_in_callback(&self.served, ticket, SECOND_WAIT);
    }

    /// Worker thread: from now on unloads wait for look-ups.
    pub fn raise(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    /// Worker thread: there are no look-ups any more. Releases all waiting unloads.
    pub fn lower(&self, platform: &impl Platform) {
        self.open.store(true, Ordering::SeqCst);
        self.served.store(u64::MAX, Ordering::SeqCst);
        platform.announce(&self.served);
    }

    /// Worker thread: begins a batch of look-ups. `forget` gets the unloads since the last one.
    pub fn begin_batch(&self, notices: &mut UnloadNotices, forget: &mut dyn FnMut(&[Unload])) {
        self.busy.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.take_notices(notices);
        // Earlier notices, too. A notice at the end of the last batch has released its unload, but its code is not forgotten yet.
        forget(&notices.pending);
    }

    /// Worker thread: ends a batch. Passes the unloads to `forget` again, and releases those whose samples are all resolved.
    pub fn end_batch(&self, platform: &impl Platform, notices: &mut UnloadNotices, forget: &mut dyn FnMut(&[Unload])) {
        let timeouts = self.timeouts();
        if notices.answered != timeouts {
            notices.answered = timeouts;
            self.answered.store(timeouts, Ordering::SeqCst);
            notices.drop_pending = true;
            notices.add(Unload::Anything);
        }
        let ticket = self.requested.load(Ordering::SeqCst);
        let drained = !platform.samples_pending();
        self.take_notices(notices);
        // A callback may have its ticket and not yet its notice. This delays the release: the notice comes in a moment, and wakes the
        // worker.
        let all_received = notices.received == ticket && self.requested.load(Ordering::SeqCst) == ticket;
        if all_received && (drained || notices.drop_pending || is_injected(InjectedFault::ReleaseUnloadsEarly)) {
            forget(&notices.pending);
            notices.pending.clear();
            notices.drop_pending = !drained && !is_injected(InjectedFault::ReleaseUnloadsEarly);
            if self.served.load(Ordering::SeqCst) < ticket {
                self.served.store(ticket, Ordering::SeqCst);
                platform.announce(&self.served);
            }
        } else if notices.drop_pending {
            forget(&[Unload::Anything]);
        }
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Unloads that did not wait for their look-ups to finish.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::SeqCst)
    }

    /// Worker thread: whether an unload has timed out and its code is not forgotten yet. Then no call to the runtime may start, not even
    /// the second call of a question.
    pub fn has_timed_out(&self) -> bool {
        self.timeouts() != self.answered.load(Ordering::SeqCst)
    }

    fn push(&self, kind: u64, id: usize, collections: u64) -> bool {
        Ring::new(&self.notices).is_some_and(|ring| ring.push(&[&[kind, id as u64, collections]]).is_ok())
    }

    fn take_notices(&self, notices: &mut UnloadNotices) {
        let overflowed = self.overflowed.load(Ordering::SeqCst);
        if overflowed != notices.overflowed {
            notices.received += overflowed - notices.overflowed;
            notices.overflowed = overflowed;
            notices.add(Unload::Anything);
        }
        let Some(ring) = Ring::new(&self.notices) else { return };
        let mut words = [0; 3];
        loop {
            let mut at = 0;
            let popped = ring.pop(|word| {
                if let Some(place) = words.get_mut(at) {
                    *place = word;
                }
                at += 1;
            });
            if popped.is_none() {
                return;
            }
            notices.received += if is_injected(InjectedFault::CountUnloadsTwice) { 2 } else { 1 };
            let [kind, id, collections] = words;
            let id = id as usize;
            notices.add(if kind == 0 { Unload::Module { id, collections } } else { Unload::Function(id) });
        }
    }
}
