//! A log of callbacks, in order: written on any thread, without a lock.

use corprof::SLOT_NAMES;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Maximum logged entries, more than a test causes; later ones are only counted.
const ENTRIES: usize = 16_384;
/// Slots of the callback, from `Initialize` on.
const SLOTS: usize = 96;

/// Counts of all callbacks, and the ids of the interesting ones.
pub struct Journal {
    counts: [AtomicU64; SLOTS],
    held: [AtomicBool; SLOTS],
    next: AtomicUsize,
    entries: Box<[(AtomicUsize, AtomicUsize)]>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal {
            counts: [const { AtomicU64::new(0) }; SLOTS],
            held: [const { AtomicBool::new(false) }; SLOTS],
            next: AtomicUsize::new(0),
            // The slot is written last, as its number plus one: zero means that the entry is not written yet.
            entries: (0..ENTRIES).map(|_| (AtomicUsize::new(0), AtomicUsize::new(0))).collect(),
        }
    }
}

impl Journal {
    /// Counts one callback.
    pub fn count(&self, slot: &str) {
        if let Some(count) = index(slot).and_then(|index| self.counts.get(index)) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Logs one callback with its id.
    pub fn note(&self, slot: &str, id: usize) {
        let at = self.next.fetch_add(1, Ordering::SeqCst);
        if let (Some(index), Some((slot, argument))) = (index(slot), self.entries.get(at)) {
            argument.store(id, Ordering::SeqCst);
            slot.store(index + 1, Ordering::SeqCst);
        }
    }

    /// Sets whether the next callback of this slot blocks. False for an unknown slot.
    pub fn hold(&self, slot: &str, hold: bool) -> bool {
        let held = index(slot).and_then(|index| self.held.get(index));
        held.inspect(|held| held.store(hold, Ordering::SeqCst)).is_some()
    }

    /// Whether this callback must block; resets that.
    pub fn is_held(&self, slot: &str) -> bool {
        let held = index(slot).and_then(|index| self.held.get(index));
        held.is_some_and(|held| held.swap(false, Ordering::SeqCst))
    }

    /// `NAME=COUNT` for every callback with calls.
    pub fn counts(&self) -> String {
        let mut text = String::new();
        for (name, count) in SLOT_NAMES.iter().zip(&self.counts) {
            let count = count.load(Ordering::SeqCst);
            if count > 0 {
                // Writing to a string does not fail.
                let _ = write!(text, "{name}={count} ");
            }
        }
        text
    }

    /// `NAME:ID` in call order.
    pub fn entries(&self) -> String {
        let mut text = String::new();
        for (slot, argument) in self.entries.iter().take(self.next.load(Ordering::SeqCst)) {
            let name = slot.load(Ordering::SeqCst).checked_sub(1).and_then(|index| SLOT_NAMES.get(index));
            let _ = write!(text, "{}:{:#x} ", name.unwrap_or(&"unfinished"), argument.load(Ordering::SeqCst));
        }
        text
    }
}

fn index(slot: &str) -> Option<usize> {
    SLOT_NAMES.iter().position(|name| *name == slot)
}
