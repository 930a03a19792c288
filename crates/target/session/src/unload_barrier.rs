//! The gate between unloading code and looking it up (contract CAT-09).
//!
//! Samples hold addresses; their meaning is asked for later, on the agent's thread. Code that unloads in between would answer
//! with a stale id, or with somebody else's name once the space is used anew. So a callback that announces an unload leaves a
//! notice, and waits until every sample taken before it has been looked up. If there is none, it does not wait.
//!
//! How it is held:
//! - The agent's thread passes the gate by small batches of samples. Behind each it lets waiting unloads go, if at some instant
//!   after they came no sample waited any more: whatever was taken before them has then been looked up.
//! - What unloads is forgotten before the look-ups of a batch, since its space may be in use anew, and again after them and before
//!   the unload goes on, since a sample of the batch may have brought it back.
//! - The wait is bounded. A callback that has lost its patience says so, and from then on no question to the runtime is begun
//!   (`guarded_runtime.rs`): the agent's thread forgets everything and looks up none of the samples that wait at that time. The
//!   callback waits a second time for its word on that, so that a question which has been begun has its answer.
//!
//! What stays: one question that has been begun and takes longer than both waits. To wait on for it could be a deadlock, since it
//! may itself wait for the thread that unloads.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::Platform;
use remora_ring::{HEADER_WORDS, Ring};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// The longest that an unload waits for look-ups, nanoseconds.
const WAIT: u64 = 100_000_000;

/// How much longer it waits for the word that no question is begun any more, nanoseconds.
const SECOND_WAIT: u64 = 400_000_000;

const NOTICE_WORDS: usize = 4096;

/// Notices that are remembered until unloads are let go; beyond it anything may have gone.
const MAXIMUM_PENDING: usize = 4096;

/// What unloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unload {
    /// A module.
    Module {
        /// Its id.
        id: usize,
        /// Collections that a watch had heard begin by then: in later ones the id may mean another. 0 without a watch.
        collections: u64,
    },
    /// A dynamic function, by its id.
    Function(usize),
    /// Notices did not fit: anything may have gone.
    Anything,
}

/// What callbacks and the agent's thread share. See the module's text.
pub struct UnloadBarrier {
    notices: Box<[AtomicU64]>,
    /// Notices that did not fit.
    overflowed: AtomicU64,
    requested: AtomicU64,
    served: AtomicU64,
    busy: AtomicBool,
    open: AtomicBool,
    timeouts: AtomicU64,
    /// Of those, the ones that the agent's thread has answered.
    answered: AtomicU64,
}

/// The agent's side of the gate, owned by its thread.
#[derive(Debug, Default)]
pub struct UnloadNotices {
    /// Notices since unloads were let go last.
    pending: Vec<Unload>,
    /// Notices received so far.
    received: u64,
    /// Of those, by how many there was no room for them.
    overflowed: u64,
    /// Unloads without patience that have been answered.
    answered: u64,
    drop_pending: bool,
}

impl UnloadNotices {
    /// Whether the samples that wait now must not be looked up: an unload has gone on before they were.
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
    /// In a callback: something is about to unload.
    pub fn before_unload(&self, platform: &impl Platform, what: Unload) {
        if self.open.load(Ordering::SeqCst) {
            return;
        }
        // The ticket first: the agent's thread can then tell that a notice is still to come.
        let ticket = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        let pushed = match what {
            Unload::Module { id, collections } => self.push(0, id, collections),
            Unload::Function(id) => self.push(1, id, 0),
            Unload::Anything => false,
        };
        if !pushed {
            self.overflowed.fetch_add(1, Ordering::SeqCst);
        }
        // Either this callback sees the agent's thread at work, or that thread sees the notice.
        fence(Ordering::SeqCst);
        // Samples first: the agent's thread says that it is busy before it takes one, so a sample is seen here or there. The other way
        // round, one that is taken between the two looks is seen in neither.
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

    /// Agent's thread: from now on unloads wait for look-ups.
    pub fn raise(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    /// Agent's thread: nothing will be looked up any more; whoever waits may go.
    pub fn lower(&self, platform: &impl Platform) {
        self.open.store(true, Ordering::SeqCst);
        self.served.store(u64::MAX, Ordering::SeqCst);
        platform.announce(&self.served);
    }

    /// Agent's thread: begins a batch of look-ups. `forget` gets what has unloaded since the last one.
    pub fn begin_batch(&self, notices: &mut UnloadNotices, forget: &mut dyn FnMut(&[Unload])) {
        self.busy.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.take_notices(notices);
        // Those of before, too: a notice that came as the last batch ended has let its unload go, and nothing has been forgotten for it.
        forget(&notices.pending);
    }

    /// Agent's thread: ends a batch. Lets unloads go whose samples have all been looked up, and tells `forget` again what unloads.
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
        // A callback that has its ticket but has not left its notice yet is waited for: it comes in a moment, and wakes us.
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

    /// Unloads that went on before their look-ups were done.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::SeqCst)
    }

    /// Agent's thread: whether an unload has gone on before its look-ups were done, and nothing has been forgotten for it yet: no call
    /// to the runtime is begun then, not even the second one of a question.
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
