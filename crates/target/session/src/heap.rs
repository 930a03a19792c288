//! What a snapshot of the heap needs in the callbacks.
//!
//! The collection is ours: asked for by the agent's thread, which has armed [`Snapshot`] before. Only inside its GarbageCollectionFinished
//! the heap is sure to be walkable; at the end of somebody else's background collection it is not (measured). Such a one is told by this:
//! between its beginning and its end the program goes on.

use corprof::{GcReason, HeapView};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// No collection of ours is wanted.
const IDLE: u32 = 0;
/// The next whole collection that somebody asked for is taken.
const ARMED: u32 = 1;
/// It has begun.
const COLLECTS: u32 = 2;

/// Where a snapshot stands, between the agent's thread and the callbacks.
#[derive(Debug, Default)]
pub struct Snapshot {
    state: AtomicU32,
    view: OnceLock<HeapView>,
}

impl Snapshot {
    /// Agent's thread: right before it asks for the collection.
    pub fn arm(&self, view: HeapView) {
        // The first and only value: an attach has one Info.
        let _ = self.view.set(view);
        self.state.store(ARMED, Ordering::SeqCst);
    }

    /// Agent's thread: the collection is over.
    pub fn disarm(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// The heap, to be asked in callbacks of our collection.
    pub fn view(&self) -> Option<HeapView> {
        self.view.get().copied()
    }

    /// In GarbageCollectionStarted, of the collection that is wanted: it goes by, and another one is asked for when it is over.
    pub fn skip_collection(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// In GarbageCollectionStarted: whether it is the one that is wanted.
    pub fn collection_starts(&self, collected: &[i32], reason: GcReason) -> bool {
        let is_whole = collected.get(2).is_some_and(|collected| *collected != 0);
        is_whole
            && reason == GcReason::INDUCED
            && self.state.compare_exchange(ARMED, COLLECTS, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// In callbacks of a collection: whether it is the one that is wanted. What is told of any other is ignored (contract GCH-01).
    pub fn collects(&self) -> bool {
        self.state.load(Ordering::SeqCst) == COLLECTS
    }

    /// In RuntimeResumeStarted: a collection that has begun and not ended is one that runs beside the program, and nobody's who waits for it.
    /// Somebody may have asked for it after the agent did, and before its own could begin.
    pub fn application_resumes(&self) {
        let _ = self.state.compare_exchange(COLLECTS, ARMED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// In GarbageCollectionFinished: the heap, if it is this collection's that is wanted.
    pub fn collection_ends(&self) -> Option<HeapView> {
        let was = self.state.compare_exchange(COLLECTS, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        was.ok().and_then(|_| self.view())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_collection_that_was_asked_for_is_taken_and_only_once() {
        let snapshot = Snapshot::default();
        let whole = [1, 1, 1, 1];
        let begins = |collected: &[i32], reason| {
            snapshot.collection_starts(collected, reason);
            snapshot.state.load(Ordering::SeqCst)
        };
        assert_eq!(begins(&whole, GcReason::INDUCED), IDLE, "nobody has armed it");
        snapshot.state.store(ARMED, Ordering::SeqCst);
        assert_eq!(begins(&[1, 0, 0, 0], GcReason::INDUCED), ARMED);
        assert_eq!(begins(&whole, GcReason::OTHER), ARMED);
        assert_eq!(begins(&whole, GcReason::INDUCED), COLLECTS);
        snapshot.application_resumes();
        assert!(snapshot.collection_ends().is_none());
        assert_eq!(begins(&whole, GcReason::INDUCED), COLLECTS, "the one before ran beside the program");
        assert!(snapshot.collection_ends().is_none(), "no view was set here");
        assert_eq!(snapshot.state.load(Ordering::SeqCst), IDLE);
    }
}
