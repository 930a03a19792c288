//! What a snapshot of the heap needs in the callbacks, and the heap as a forked copy of the process sees it.
//!
//! The collection is ours: asked for by the agent's thread, which has armed [`Snapshot`] before. Only inside its GarbageCollectionFinished
//! the heap is sure to be walkable; at the end of somebody else's background collection it is not (measured).

use corprof::{ClassId, FrozenRange, GcReason, GenerationRange, HeapView, ObjectId};
use remora_agent_hot::{FROZEN_RANGE, HeapClass, HeapRange, MOST_ARGUMENTS, StandingHeap};
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

    /// In GarbageCollectionStarted.
    pub fn collection_starts(&self, collected: &[i32], reason: GcReason) {
        let is_whole = collected.get(2).is_some_and(|collected| *collected != 0);
        if is_whole && reason == GcReason::INDUCED {
            let _ = self.state.compare_exchange(ARMED, COLLECTS, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// In GarbageCollectionFinished: the heap, if it is this collection's that is wanted.
    pub fn collection_ends(&self) -> Option<HeapView> {
        let was = self.state.compare_exchange(COLLECTS, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        was.ok().and_then(|_| self.view.get().copied())
    }
}

/// The heap that a view shows, in a forked copy of the process.
#[derive(Debug, Clone, Copy)]
pub struct Standing(pub HeapView);

/// Ranges that are asked for at once: what the runtime writes has another layout than what we keep.
const RANGES: usize = 512;

impl StandingHeap for Standing {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        let collected = self.generations(into);
        let rest = into.get_mut(collected.min(into.len())..).unwrap_or_default();
        collected + self.frozen(rest)
    }

    fn class_of(&self, object: u64) -> Option<u64> {
        self.0.class_of(ObjectId(object as usize)).ok().map(|class| class.0 as u64)
    }

    fn size_of(&self, object: u64) -> Option<u64> {
        self.0.size_of(ObjectId(object as usize)).ok().map(|size| size as u64)
    }

    fn references(&self, object: u64, visit: &mut impl FnMut(u64)) {
        // A refusal says that it has none: free space, most of it.
        let _ = self.0.references(ObjectId(object as usize), &mut |target| visit(target.0 as u64));
    }

    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        let class = ClassId(class as usize);
        if let Ok(Some(array)) = self.0.array(class) {
            return HeapClass::Array {
                element: array.class.0 as u64,
                element_kind: array.element,
                rank: array.rank,
            };
        }
        let mut ids = [ClassId(0); MOST_ARGUMENTS];
        match self.0.class(class, &mut ids) {
            Ok(head) => {
                arguments.iter_mut().zip(ids).for_each(|(place, id)| *place = id.0 as u64);
                let (module, parent) = (head.module.0 as u64, head.parent.0 as u64);
                HeapClass::Plain { module, token: head.token.0, parent, arguments: head.arguments }
            }
            Err(code) => HeapClass::Unknown(code.0 as u32),
        }
    }

    fn word(&self, address: u64) -> u64 {
        self.0.word(address as usize) as u64
    }
}

impl Standing {
    fn generations(&self, into: &mut [HeapRange]) -> usize {
        let mut some = [GenerationRange::default(); RANGES];
        let Ok(total) = self.0.generation_bounds(&mut some) else { return 0 };
        let convert = |range: &GenerationRange| HeapRange {
            kind: range.generation.unsigned_abs().into(),
            start: range.start as u64,
            length: range.length as u64,
        };
        into.iter_mut().zip(some.iter().take(total)).for_each(|(place, range)| *place = convert(range));
        total.min(RANGES)
    }

    fn frozen(&self, into: &mut [HeapRange]) -> usize {
        let mut some = [FrozenRange::default(); RANGES];
        let Ok(total) = self.0.frozen_bounds(&mut some) else { return 0 };
        let convert = |range: &FrozenRange| HeapRange {
            kind: FROZEN_RANGE,
            start: range.start as u64,
            length: range.length as u64,
        };
        into.iter_mut().zip(some.iter().take(total)).for_each(|(place, range)| *place = convert(range));
        total.min(RANGES)
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
        assert!(snapshot.collection_ends().is_none(), "no view was set here");
        assert_eq!(snapshot.state.load(Ordering::SeqCst), IDLE);
    }
}
