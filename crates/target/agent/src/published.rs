//! Tables that the handlers read. The agent replaces a table whole, and keeps the old one until no handler can read it.

use remora_sampler::Session;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The blocks of one table that a handler may still read; the last one is published.
pub struct Published<B = Box<[u64]>>(Vec<B>);

impl<B> Default for Published<B> {
    fn default() -> Self {
        Published(Vec::new())
    }
}

impl<B> Published<B> {
    /// Publishes the words at `pointer`, which `block` keeps alive.
    ///
    /// # Safety
    /// The first word at `pointer` is the number of words behind it. None of them is written while `block` lives.
    pub unsafe fn replace(&mut self, session: &Session, place: &AtomicPtr<u64>, pointer: *mut u64, block: B) {
        place.store(pointer, Ordering::SeqCst);
        self.0.push(block);
        // A handler that enters now finds the new block, and no handler is inside: the older blocks have no reader left.
        if session.inside.load(Ordering::SeqCst) == 0 {
            self.0.drain(..self.0.len() - 1);
        }
    }
}

impl Published {
    /// Publishes `words` in `place`, unless they are there already.
    pub fn publish(&mut self, session: &Session, place: &AtomicPtr<u64>, words: &[u64]) {
        if self.0.last().is_some_and(|last| last.get(1..) == Some(words)) {
            return;
        }
        let mut block: Box<[u64]> = std::iter::once(words.len() as u64).chain(words.iter().copied()).collect();
        // SAFETY: the block begins with the number of its words. Moving the box does not move the words, and nothing else writes them.
        unsafe { self.replace(session, place, block.as_mut_ptr(), block) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use remora_ring::{HEADER_WORDS, Ring};
    use remora_sampler::Links;
    use std::sync::atomic::AtomicU64;

    /// A session without threads.
    pub(crate) fn session(words: &[AtomicU64]) -> Session<'_> {
        Session::new(Ring::new(words).expect("a ring"), &[], &[], Links::default(), false)
    }

    #[test]
    fn an_old_table_is_kept_while_a_handler_runs_and_not_longer() {
        let words: Vec<AtomicU64> = (0..HEADER_WORDS + 64).map(|_| AtomicU64::new(0)).collect();
        let session = session(&words);
        let mut published = Published::default();
        published.publish(&session, &session.ranges, &[1, 2]);
        session.inside.store(1, Ordering::SeqCst);
        published.publish(&session, &session.ranges, &[3, 4]);
        published.publish(&session, &session.ranges, &[3, 4]);
        assert_eq!(published.0.len(), 2, "a handler may still read the first");
        session.inside.store(0, Ordering::SeqCst);
        published.publish(&session, &session.ranges, &[5, 6, 7]);
        assert_eq!(published.0.len(), 1);
        // SAFETY: the last published block is alive, and begins with the number of words after it.
        assert_eq!(unsafe { *session.ranges.load(Ordering::SeqCst) }, 3);
    }
}
