//! The gate between unloading code and looking it up (contract CAT-09).
//!
//! Samples hold addresses; their meaning is asked for later, on the agent's thread. Code that unloads in between would answer
//! with a stale id, or with somebody else's name once the space is used anew. So a callback that announces an unload leaves a
//! notice, and waits, for a bounded time, until every sample taken before it has been looked up. If there is none, it does not wait.

use crate::platform::Platform;
use remora_agent_ring::{HEADER_WORDS, Ring};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The longest that an unload is held up, nanoseconds.
const PATIENCE: u64 = 100_000_000;

const NOTICE_WORDS: usize = 4096;

/// What unloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unload {
    /// A module, by its id.
    Module(usize),
    /// A dynamic function, by its id.
    Function(usize),
    /// Notices did not fit: anything may have gone.
    Anything,
}

/// See the module's text.
pub struct Gate {
    notices: Box<[AtomicU64]>,
    overflowed: AtomicBool,
    requested: AtomicU64,
    served: AtomicU64,
    busy: AtomicBool,
    open: AtomicBool,
    impatient: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Gate {
            notices: (0..HEADER_WORDS + NOTICE_WORDS).map(|_| AtomicU64::new(0)).collect(),
            overflowed: AtomicBool::new(false),
            requested: AtomicU64::new(0),
            served: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            open: AtomicBool::new(true),
            impatient: AtomicU64::new(0),
        }
    }
}

impl Gate {
    /// In a callback: something is about to unload.
    pub fn unloading(&self, platform: &impl Platform, what: Unload) {
        if self.open.load(Ordering::SeqCst) {
            return;
        }
        let pushed = match what {
            Unload::Module(id) => self.push(0, id),
            Unload::Function(id) => self.push(1, id),
            Unload::Anything => false,
        };
        if !pushed {
            self.overflowed.store(true, Ordering::SeqCst);
        }
        let ticket = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        if !self.busy.load(Ordering::SeqCst) && !platform.samples_pending() {
            return;
        }
        platform.wake();
        if !platform.wait_in_callback(&self.served, ticket, PATIENCE) {
            self.impatient.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Agent's thread: from now on unloads wait for look-ups.
    pub fn shut(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    /// Agent's thread: nothing will be looked up any more; whoever waits may go.
    pub fn open(&self, platform: &impl Platform) {
        self.open.store(true, Ordering::SeqCst);
        self.served.store(u64::MAX, Ordering::SeqCst);
        platform.announce(&self.served);
    }

    /// Agent's thread: looks up what is pending by `look_up`, with `unloaded` told first what has gone since the last time.
    pub fn pass(&self, platform: &impl Platform, mut unloaded: impl FnMut(Unload), look_up: impl FnOnce()) {
        self.busy.store(true, Ordering::SeqCst);
        let ticket = self.requested.load(Ordering::SeqCst);
        self.notices(&mut unloaded);
        look_up();
        if self.served.load(Ordering::SeqCst) < ticket {
            self.served.store(ticket, Ordering::SeqCst);
            platform.announce(&self.served);
        }
        self.busy.store(false, Ordering::SeqCst);
    }

    /// Unloads that were let go before their look-ups were done.
    pub fn impatient(&self) -> u64 {
        self.impatient.load(Ordering::Relaxed)
    }

    fn push(&self, kind: u64, id: usize) -> bool {
        Ring::new(&self.notices).is_some_and(|ring| ring.push(&[&[kind, id as u64]]).is_ok())
    }

    fn notices(&self, unloaded: &mut impl FnMut(Unload)) {
        if self.overflowed.swap(false, Ordering::SeqCst) {
            unloaded(Unload::Anything);
        }
        let Some(ring) = Ring::new(&self.notices) else { return };
        let mut words = [0; 2];
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
            let id = words[1] as usize;
            unloaded(if words[0] == 0 { Unload::Module(id) } else { Unload::Function(id) });
        }
    }
}
