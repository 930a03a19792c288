//! When more is heard of a collection than that it was: asked for inside it, and only if the runtime does not take too long for it.
//!
//! Roots, and what lives on, a runtime tells with MONITOR_GC. At the beginning of each such collection it counts what is young by class, for every
//! profiler; up to .NET 10 there is no flag without it. It looks each object up in a table of 32 lists, of which addresses that are multiples of eight
//! share four (`AllocByClass` and `HASH_NUM_BUCKETS`, vm/eetoprofinterfaceimpl.cpp): a hundred thousand classes took 23 s on 8.0.4, a million
//! objects of a thousand classes 0.6 s. Of what is asked for it looks behind GarbageCollectionStarted (`DiagGCStart`, vm/gcenv.ee.cpp). So our
//! collection begins without that flag, what is young is looked at in that callback, and the flag is set there: if there is little to count.
//! Else this collection goes by, and there is another one: what survives one is young no more. Should too much have been made even between the
//! two, nothing is asked for.

use crate::platform::Words;
use crate::young_object_cost::{MOST_STEPS, PLACES, YOUNGEST, YoungObjectCost};
use corprof::HighAttachMask;
use remora_sampler::{FROZEN_RANGE, HeapRange, HeapReader};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Of what is young so many bytes are looked at in any case: some milliseconds.
const FREE_BYTES: u64 = 4 << 20;

/// So many steps are taken in any case: some milliseconds.
const FREE_STEPS: u64 = 1 << 20;

/// Beyond that, how long another collection takes is guessed by how many bytes are not young: 0.5 ns each (8 million objects of 40 bytes took
/// 0.11 to 0.17 s). To count a young object takes as long as to collect four or five, and most of them are dead.
const OLD_FOR_ONE_YOUNG: u64 = 4;

/// The same of steps, of which one takes 5 to 17 ns.
const OLD_FOR_ONE_STEP: u64 = 32;

/// Whatever another collection would take, no more than about half a second: a watch ends by itself after twice that.
const MOST: u64 = MOST_STEPS / 2;

/// Collections that go by, at most: the program stands for each.
const MOST_SKIPPED: u32 = 2;

/// See the module's text.
pub struct GcMonitor {
    counting: YoungObjectCost,
    /// What else is asked for then.
    high: HighAttachMask,
    is_requested: AtomicBool,
    /// Collections that have gone by since to count would have taken too long.
    skipped: AtomicU32,
    /// Whether it has been asked for, and not taken back.
    is_enabled: AtomicBool,
    /// Whether a callback is about to ask, or to take it back.
    is_changing: AtomicBool,
}

impl GcMonitor {
    /// What is wanted of nothing yet, with places made by `words`. `None` if there is no memory for them.
    pub fn new(high: HighAttachMask, words: impl Fn(usize) -> Option<Words>) -> Option<GcMonitor> {
        let no = || AtomicBool::new(false);
        let counting = YoungObjectCost::new(words(PLACES)?, words(PLACES)?);
        Some(GcMonitor {
            counting,
            high,
            is_requested: no(),
            skipped: AtomicU32::new(0),
            is_enabled: no(),
            is_changing: no(),
        })
    }

    /// Agent's thread: more is wanted of its next collection.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }

    /// Whether so many collections have gone by that there is to be no other one.
    pub fn has_given_up(&self) -> bool {
        self.skipped.load(Ordering::SeqCst) >= MOST_SKIPPED
    }

    /// Agent's thread: no callback asks for anything any more. If one is just doing so, `pause` is called until it has: what is asked for next
    /// is not to be undone.
    pub fn stop(&self, pause: &dyn Fn()) {
        self.is_requested.store(false, Ordering::SeqCst);
        self.is_enabled.store(false, Ordering::SeqCst);
        while self.is_changing.load(Ordering::SeqCst) {
            pause();
        }
    }

    /// What is counted by, in callbacks of collections.
    pub(crate) fn counting(&self) -> &YoungObjectCost {
        &self.counting
    }

    /// In GarbageCollectionStarted: whether to count what is young would take longer than another collection.
    pub(crate) fn is_too_expensive(&self, heap: &dyn HeapReader, into: &mut [HeapRange]) -> bool {
        let total = heap.ranges(into);
        let Some(ranges) = into.get(..total).filter(|ranges| !ranges.is_empty()) else { return true };
        let (mut young, mut old) = (0_u64, 0_u64);
        for range in ranges {
            match range.kind {
                YOUNGEST => young = young.saturating_add(range.length),
                FROZEN_RANGE => {}
                _ => old = old.saturating_add(range.length),
            }
        }
        // What is young after one that has gone by was made since, and would be again.
        let is_the_first = self.skipped.load(Ordering::SeqCst) == 0;
        if is_the_first && young > FREE_BYTES.saturating_add(old / OLD_FOR_ONE_YOUNG) {
            return true;
        }
        let as_another = FREE_STEPS.saturating_add(old / OLD_FOR_ONE_STEP);
        self.counting.is_too_expensive(heap, ranges, if is_the_first { as_another.min(MOST) } else { MOST })
    }

    /// In GarbageCollectionStarted: asks for more by `hear`, with what is to stand in the high half. Whether it has; if not, this collection
    /// is to go by.
    ///
    /// # Errors
    /// Those of `hear`.
    pub(crate) fn enable(
        &self,
        is_too_expensive: bool,
        hear: impl FnOnce(HighAttachMask) -> Result<(), u32>,
    ) -> Result<bool, u32> {
        if is_too_expensive {
            self.skipped.fetch_add(1, Ordering::SeqCst);
            return Ok(false);
        }
        self.is_changing.store(true, Ordering::SeqCst);
        // Either it is seen here that nothing is wanted any more, or the other thread sees that it must wait.
        let is_requested = self.is_requested.swap(false, Ordering::SeqCst);
        self.is_enabled.store(is_requested, Ordering::SeqCst);
        let answer = if is_requested { hear(self.high).map(|()| true) } else { Ok(false) };
        self.is_changing.store(false, Ordering::SeqCst);
        answer
    }

    /// In GarbageCollectionFinished of that collection: takes it back by `hear`, so that the program's next one is not told, too.
    pub(crate) fn disable(&self, hear: impl FnOnce(HighAttachMask)) {
        self.is_changing.store(true, Ordering::SeqCst);
        if self.is_enabled.swap(false, Ordering::SeqCst) {
            hear(self.high);
        }
        self.is_changing.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::words;
    use remora_sampler::{HeapClass, MOST_ARGUMENTS};
    use std::cell::Cell;

    /// Two objects a class, of 24 bytes each; so much of it is young, and so much not.
    struct Heap {
        classes: u64,
        young: u64,
        old: u64,
    }

    impl HeapReader for Heap {
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

    fn monitor() -> GcMonitor {
        GcMonitor::new(HighAttachMask::BASIC_GC, |count| Some(words(count))).expect("memory")
    }

    fn is_too_expensive(monitor: &GcMonitor, heap: &Heap) -> bool {
        monitor.is_too_expensive(heap, &mut [HeapRange::default(); 8])
    }

    #[test]
    fn gch_02_what_another_collection_would_take_longer_for_is_counted_and_nothing_else() {
        const MIB: u64 = 1 << 20;
        let judged = |classes, young, old| is_too_expensive(&monitor(), &Heap { classes, young, old });
        assert!(!judged(10, 4 * MIB, 0), "next to nothing");
        assert!(judged(10, 6 * MIB, MIB), "another collection of so small a heap takes less");
        assert!(!judged(10, 6 * MIB, 100 * MIB));
        assert!(judged(1_500, 6 * MIB, 100 * MIB), "many classes");
        assert!(!judged(1_500, 6 * MIB, 4_000 * MIB), "in a heap that takes long to collect");
        assert!(judged(3_000, 6 * MIB, 1 << 40), "more than half a second");
        assert!(judged(40_000, 2 * MIB, 1 << 40), "more classes than are counted");
        assert!(monitor().is_too_expensive(&Heap { classes: 1, young: 1, old: 1 }, &mut []), "no look to be had");
    }

    #[test]
    fn gch_02_two_collections_at_most_go_by_and_of_another_one_nothing_is_taken_back() {
        let (monitor, heard) = (monitor(), Cell::new(0));
        let dear = Heap { classes: 40_000, young: 2 << 20, old: 0 };
        let dear_at_first = Heap { classes: 10, young: 8 << 20, old: 0 };
        let hear = |high| {
            assert_eq!(high, HighAttachMask::BASIC_GC);
            heard.set(heard.get() + 1);
            Ok(())
        };
        monitor.request();
        monitor.disable(|_| panic!("nothing was asked for"));
        assert_eq!(monitor.enable(is_too_expensive(&monitor, &dear_at_first), hear), Ok(false));
        assert!(monitor.is_requested() && !monitor.has_given_up());
        assert!(is_too_expensive(&monitor, &dear), "as much was made again");
        assert_eq!(monitor.enable(is_too_expensive(&monitor, &dear_at_first), hear), Ok(true));
        assert!(!monitor.is_requested(), "once is enough");
        monitor.disable(|_| heard.set(heard.get() + 1));
        monitor.disable(|_| panic!("it was taken back"));
        assert_eq!(heard.get(), 2);
        monitor.request();
        assert_eq!(monitor.enable(is_too_expensive(&monitor, &dear), hear), Ok(false));
        assert!(monitor.has_given_up());
        monitor.stop(&|| panic!("nobody asks"));
        assert_eq!(monitor.enable(false, |_| panic!("nothing is wanted")), Ok(false));
        monitor.request();
        assert_eq!(monitor.enable(false, |_| Err(7)), Err(7));
    }

    #[test]
    fn gch_02_who_wants_no_more_waits_for_a_callback_that_asks() {
        let (monitor, pauses) = (monitor(), Cell::new(0));
        monitor.request();
        let answer = monitor.enable(false, |_| {
            monitor.stop(&|| {
                pauses.set(pauses.get() + 1);
                // As if the callback had returned.
                monitor.is_changing.store(pauses.get() < 3, Ordering::SeqCst);
            });
            Ok(())
        });
        assert_eq!((answer, pauses.get()), (Ok(true), 3));
        monitor.disable(|_| panic!("who wants no more takes it back itself"));
        monitor.request();
        monitor.stop(&|| panic!("nobody asks"));
        assert_eq!(monitor.enable(false, |_| panic!("nothing is wanted")), Ok(false));
    }
}
