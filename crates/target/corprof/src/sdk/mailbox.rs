//! A bounded queue from callbacks, which must not wait, to one of the profiler's own threads, which may.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bounded queue. It rejects and counts what does not fit.
#[derive(Debug)]
pub struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    at_most: usize,
}

#[derive(Debug)]
struct Inside<T> {
    posted: Vec<T>,
    lost: u64,
}

impl<T> Mailbox<T> {
    /// A queue for at most this many items between two calls of [`take`](Self::take).
    pub fn new(at_most: usize) -> Mailbox<T> {
        Mailbox { inside: Mutex::new(Inside { posted: Vec::new(), lost: 0 }), at_most }
    }

    /// Posts an item; false if the queue was full.
    pub fn post(&self, what: T) -> bool {
        let mut inside = self.lock();
        let has_room = inside.posted.len() < self.at_most;
        if has_room {
            inside.posted.push(what);
        } else {
            inside.lost += 1;
        }
        has_room
    }

    /// Takes all items, in order.
    pub fn take(&self) -> Vec<T> {
        core::mem::take(&mut self.lock().posted)
    }

    /// The number of rejected items since the beginning.
    pub fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mailbox = Mailbox::new(2);
        assert_eq!([1, 2, 3].map(|number| mailbox.post(number)), [true, true, false]);
        assert_eq!((mailbox.take(), mailbox.lost()), (vec![1, 2], 1));
        assert!(mailbox.post(4));
        assert_eq!(mailbox.take(), [4]);
    }
}
