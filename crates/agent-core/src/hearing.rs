//! When more is heard of a collection than that it was: asked for inside it, and only if the runtime does not take too long for it.
//!
//! Roots, and what lives on, a runtime tells with MONITOR_GC. At the beginning of each such collection it counts what is young by class, for every
//! profiler, and there is no flag without it. It looks each object up in a table of 32 lists, of which addresses that are multiples of eight
//! share four (`AllocByClass` and `HASH_NUM_BUCKETS`, vm/eetoprofinterfaceimpl.cpp): a hundred thousand classes took 23 s on 8.0.4, a million
//! objects of a thousand classes 0.6 s. Of what is asked for it looks behind GarbageCollectionStarted (`DiagGCStart`, vm/gcenv.ee.cpp). So our
//! collection begins without that flag, what is young is looked at in that callback, and the flag is set there: if there is little to count.
//! Else this collection goes by, and there is another one: what survives one is young no more.

use crate::counting::{Counting, MOST_STEPS, PLACES};
use crate::platform::Words;
use crate::watch::YOUNGEST;
use corprof::HighAttachMask;
use remora_agent_hot::{FROZEN_RANGE, HeapRange, StandingHeap};
use std::sync::atomic::{AtomicBool, Ordering};

/// Of what is young so many bytes are looked at in any case: some milliseconds.
const FREE_BYTES: u64 = 4 << 20;

/// So many steps are taken in any case: some milliseconds.
const FREE_STEPS: u64 = 1 << 20;

/// Beyond that, how long another collection takes is guessed by how many bytes are not young: 0.5 ns each (8 million objects of 40 bytes took
/// 0.11 to 0.17 s). To count a young object takes as long as to collect four or five, and most of them are dead.
const OLD_FOR_ONE_YOUNG: u64 = 4;

/// The same of steps, of which one takes 5 to 17 ns.
const OLD_FOR_ONE_STEP: u64 = 32;

/// See the module's text.
pub struct Hearing {
    counting: Counting,
    /// What else is asked for then.
    high: HighAttachMask,
    is_wanted: AtomicBool,
    /// Whether a collection has gone by since to count would have taken too long.
    has_gone_by: AtomicBool,
    /// Whether a callback is about to ask.
    asks: AtomicBool,
}

impl Hearing {
    /// What is wanted of nothing yet, with places made by `words`. `None` if there is no memory for them.
    pub fn new(high: HighAttachMask, words: impl Fn(usize) -> Option<Words>) -> Option<Hearing> {
        let no = || AtomicBool::new(false);
        let counting = Counting::new(words(PLACES)?, words(PLACES)?);
        Some(Hearing { counting, high, is_wanted: no(), has_gone_by: no(), asks: no() })
    }

    /// Agent's thread: more is wanted of its next collection.
    pub fn wants(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// Agent's thread: no callback asks for it any more. If one is just doing so, `pause` is called until it has: what is asked for next is not
    /// to be undone.
    pub fn is_over(&self, pause: impl Fn()) {
        self.is_wanted.store(false, Ordering::SeqCst);
        while self.asks.load(Ordering::SeqCst) {
            pause();
        }
    }

    /// What is counted by, in callbacks of collections.
    pub(crate) fn counting(&self) -> &Counting {
        &self.counting
    }

    /// In GarbageCollectionStarted: whether to count what is young would take longer than another collection.
    pub(crate) fn is_too_dear(&self, heap: &dyn StandingHeap, into: &mut [HeapRange]) -> bool {
        if self.has_gone_by.load(Ordering::SeqCst) {
            // What is young now was made since. It is not looked at again: this collection is the one.
            return false;
        }
        let total = heap.ranges(into);
        let Some(ranges) = into.get(..total).filter(|ranges| !ranges.is_empty()) else { return true };
        let of = |is_young: bool| ranges.iter().filter(move |range| (range.kind == YOUNGEST) == is_young);
        let sum = |all: u64, range: &HeapRange| all.saturating_add(range.length);
        let young = of(true).fold(0, sum);
        let old = of(false).filter(|range| range.kind != FROZEN_RANGE).fold(0, sum);
        if young > FREE_BYTES.saturating_add(old / OLD_FOR_ONE_YOUNG) {
            return true;
        }
        let most = FREE_STEPS.saturating_add(old / OLD_FOR_ONE_STEP).min(MOST_STEPS);
        self.counting.is_too_dear(heap, of(true).map(|range| (range.start, range.length)), most)
    }

    /// In GarbageCollectionStarted: asks for more by `hear`, with what is to stand in the high half. Whether it has; if not, this collection
    /// is to go by.
    ///
    /// # Errors
    /// Those of `hear`.
    pub(crate) fn asks(
        &self,
        is_too_dear: bool,
        hear: impl FnOnce(HighAttachMask) -> Result<(), u32>,
    ) -> Result<bool, u32> {
        if is_too_dear {
            self.has_gone_by.store(true, Ordering::SeqCst);
            return Ok(false);
        }
        self.asks.store(true, Ordering::SeqCst);
        // Either it is seen here that nothing is wanted any more, or the other thread sees that it must wait.
        let is_wanted = self.is_wanted.swap(false, Ordering::SeqCst);
        let answer = if is_wanted { hear(self.high).map(|()| true) } else { Ok(false) };
        self.asks.store(false, Ordering::SeqCst);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::words;
    use remora_agent_hot::{HeapClass, MOST_ARGUMENTS};
    use std::cell::Cell;

    /// Two objects a class, of 24 bytes each; so much of it is young, and so much not.
    struct Heap {
        classes: u64,
        young: u64,
        old: u64,
    }

    impl StandingHeap for Heap {
        fn ranges(&self, into: &mut [HeapRange]) -> usize {
            let all = [(0, 0, self.young), (2, 1 << 40, self.old), (FROZEN_RANGE, 1 << 50, 1 << 40)];
            for (place, (kind, start, length)) in into.iter_mut().zip(all) {
                *place = HeapRange { kind, start, length, reserved: length };
            }
            all.len()
        }

        fn class_of(&self, object: u64) -> Option<u64> {
            assert!(object < self.young, "what is old is looked at");
            Some(0x7000 + (object / 24) % self.classes * 8)
        }

        fn size_of(&self, _: u64) -> Option<u64> {
            Some(24)
        }

        fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}

        fn class(&self, _: u64, _: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            HeapClass::Unknown(0)
        }
    }

    fn hearing() -> Hearing {
        Hearing::new(HighAttachMask::BASIC_GC, |count| Some(words(count))).expect("memory")
    }

    fn is_too_dear(hearing: &Hearing, heap: &Heap) -> bool {
        hearing.is_too_dear(heap, &mut [HeapRange::default(); 8])
    }

    #[test]
    fn gch_02_what_another_collection_would_take_longer_for_is_counted_and_nothing_else() {
        const MIB: u64 = 1 << 20;
        let judged = |classes, young, old| is_too_dear(&hearing(), &Heap { classes, young, old });
        assert!(!judged(10, 4 * MIB, 0), "next to nothing");
        assert!(judged(10, 6 * MIB, MIB), "another collection of so small a heap takes less");
        assert!(!judged(10, 6 * MIB, 100 * MIB));
        assert!(judged(3_000, 6 * MIB, 100 * MIB), "many classes");
        assert!(!judged(3_000, 6 * MIB, 4_000 * MIB), "in a heap that takes long to collect");
        assert!(judged(40_000, 2 * MIB, 1 << 40), "more classes than are counted");
        assert!(hearing().is_too_dear(&Heap { classes: 1, young: 1, old: 1 }, &mut []), "no look to be had");
    }

    #[test]
    fn gch_02_one_collection_at_most_goes_by() {
        let (hearing, heard) = (hearing(), Cell::new(0));
        let dear = Heap { classes: 40_000, young: 2 << 20, old: 0 };
        let hear = |high| {
            assert_eq!(high, HighAttachMask::BASIC_GC);
            heard.set(heard.get() + 1);
            Ok(())
        };
        hearing.wants();
        assert_eq!(hearing.asks(is_too_dear(&hearing, &dear), hear), Ok(false));
        assert!(hearing.is_wanted());
        assert_eq!(hearing.asks(is_too_dear(&hearing, &dear), hear), Ok(true));
        assert!(!hearing.is_wanted(), "once is enough");
        assert_eq!(heard.get(), 1);
        assert_eq!(hearing.asks(false, |_| panic!("nothing is wanted")), Ok(false));
        hearing.wants();
        assert_eq!(hearing.asks(false, |_| Err(7)), Err(7));
    }

    #[test]
    fn gch_02_who_wants_no_more_waits_for_a_callback_that_asks() {
        let (hearing, pauses) = (hearing(), Cell::new(0));
        hearing.wants();
        let answer = hearing.asks(false, |_| {
            hearing.is_over(|| {
                pauses.set(pauses.get() + 1);
                // As if the callback had returned.
                hearing.asks.store(pauses.get() < 3, Ordering::SeqCst);
            });
            Ok(())
        });
        assert_eq!((answer, pauses.get()), (Ok(true), 3));
        hearing.wants();
        hearing.is_over(|| panic!("nobody asks"));
        assert_eq!(hearing.asks(false, |_| panic!("nothing is wanted")), Ok(false));
    }
}
