//! The state of a heap snapshot, shared with the callbacks.
//!
//! The worker thread arms [`Snapshot`], then forces the GC. The heap is walkable for sure only in the GarbageCollectionFinished of that GC.
//! At the end of a background GC it is not (measured). The callbacks recognize a background GC: the application resumes between its
//! start and its end.

use corprof::{GcReason, HeapView};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// No GC of ours is wanted.
const IDLE: u32 = 0;
/// The next induced full GC is taken.
const ARMED: u32 = 1;
/// That GC is in progress.
const COLLECTS: u32 = 2;

/// State of a snapshot, between the worker thread and the callbacks.
#[derive(Debug, Default)]
pub struct Snapshot {
    state: AtomicU32,
    view: OnceLock<HeapView>,
}

impl Snapshot {
    /// Worker thread: right before it forces the GC.
    pub fn arm(&self, view: HeapView) {
        // Always the first and only value: an attach has one Info.
        let _ = self.view.set(view);
        self.state.store(ARMED, Ordering::SeqCst);
    }

    /// Worker thread: the GC is over.
    pub fn disarm(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// The heap, for use in callbacks of our GC.
    pub fn view(&self) -> Option<HeapView> {
        self.view.get().copied()
    }

    /// In GarbageCollectionStarted of the wanted GC: skip it. The worker forces another one later.
    pub fn skip_collection(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
    }

    /// In GarbageCollectionStarted: whether this is the wanted GC.
    pub fn collection_starts(&self, collected: &[i32], reason: GcReason) -> bool {
        let is_whole = collected.get(2).is_some_and(|collected| *collected != 0);
        is_whole
            && reason == GcReason::INDUCED
            && self.state.compare_exchange(ARMED, COLLECTS, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// In callbacks of a GC: whether it is the wanted one. Reports of any other are ignored (contract GCH-01).
    pub fn collects(&self) -> bool {
        self.state.load(Ordering::SeqCst) == COLLECTS
    }

    /// In RuntimeResumeStarted: a GC without its end is a background GC, and not ours. The application may have requested it after the
    /// worker did, and before the worker's own GC could start.
    pub fn application_resumes(&self) {
        let _ = self.state.compare_exchange(COLLECTS, ARMED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// In GarbageCollectionFinished: the heap, if this is the wanted GC.
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
