//! Decides, when a GC starts, whether to enable MONITOR_GC for it.
//!
//! With MONITOR_GC the runtime reports roots and survivors. At the start of each such GC it also counts the gen 0 objects by class, for
//! every profiler. Up to .NET 10 no flag avoids that. It looks each object up in a table of 32 buckets (`AllocByClass` and
//! `HASH_NUM_BUCKETS`, vm/eetoprofinterfaceimpl.cpp). Multiples of eight, as addresses, share four of them. A hundred thousand classes took
//! 23 s on 8.0.4, a million objects of a thousand classes 0.6 s.
//!
//! The runtime checks the event mask after GarbageCollectionStarted (`DiagGCStart`, vm/gcenv.ee.cpp). So our GC starts without the flag.
//! The callback estimates the count, and sets the flag if the count is cheap. Otherwise it skips this GC, and the worker forces another:
//! survivors are no longer in gen 0. If the application allocated too much even between the two, the monitor gives up.

use crate::platform::Words;
use crate::young_object_cost::{MOST_STEPS, PLACES, YOUNGEST, YoungObjectCost};
use corprof::HighAttachMask;
use remora_sampler::{FROZEN_RANGE, HeapRange, HeapReader};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Gen 0 bytes that may be counted in any case: some milliseconds.
const FREE_BYTES: u64 = 4 << 20;

/// Steps allowed in any case: some milliseconds.
const FREE_STEPS: u64 = 1 << 20;

/// Beyond that, the bytes outside gen 0 estimate the time of another GC: 0.5 ns each (8 million objects of 40 bytes took 0.11 to 0.17 s).
/// Counting a gen 0 object takes as long as collecting four or five, and most of them are dead.
const OLD_FOR_ONE_YOUNG: u64 = 4;

/// The same for steps, at 5 to 17 ns each.
const OLD_FOR_ONE_STEP: u64 = 32;

/// The limit, however long another GC would take: about half a second. Heap tracking stops after twice that.
const MOST: u64 = MOST_STEPS / 2;

/// GCs to skip, at most: each one pauses the application.
const MOST_SKIPPED: u32 = 2;

/// Decides about MONITOR_GC; see the module.
pub struct GcMonitor {
    counting: YoungObjectCost,
    /// The high half of the event mask while it is enabled.
    high: HighAttachMask,
    is_requested: AtomicBool,
    /// GCs skipped because counting would have taken too long.
    skipped: AtomicU32,
    /// Whether MONITOR_GC is set and not yet cleared.
    is_enabled: AtomicBool,
    /// Whether a callback is about to change the event mask.
    is_changing: AtomicBool,
}

impl GcMonitor {
    /// A monitor without a request, with memory from `words`. `None` if there is not enough.
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

    /// Worker thread: requests MONITOR_GC for its next GC.
    pub fn request(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
    }

    /// Whether it is requested.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }

    /// Whether the limit of skipped GCs is reached.
    pub fn has_timed_out(&self) -> bool {
        self.skipped.load(Ordering::SeqCst) >= MOST_SKIPPED
    }

    /// Worker thread: after this, no callback changes the event mask. If a callback is just changing it, calls `pause` until it has: it
    /// must not undo the next mask.
    pub fn stop(&self, pause: &dyn Fn()) {
        self.is_requested.store(false, Ordering::SeqCst);
        self.is_enabled.store(false, Ordering::SeqCst);
        while self.is_changing.load(Ordering::SeqCst) {
            pause();
        }
    }

    /// The cost estimate, for GC callbacks.
    pub(crate) fn counting(&self) -> &YoungObjectCost {
        &self.counting
    }

    /// In GarbageCollectionStarted: whether counting gen 0 would take longer than another GC.
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
        // After a skipped GC, gen 0 holds what was allocated since; another GC would find as much again.
        let is_the_first = self.skipped.load(Ordering::SeqCst) == 0;
        if is_the_first && young > FREE_BYTES.saturating_add(old / OLD_FOR_ONE_YOUNG) {
            return true;
        }
        let as_another = FREE_STEPS.saturating_add(old / OLD_FOR_ONE_STEP);
        self.counting.is_too_expensive(heap, ranges, if is_the_first { as_another.min(MOST) } else { MOST })
    }

    /// In GarbageCollectionStarted: sets MONITOR_GC through `hear`, with the high half of the event mask. False: skip this GC.
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
        // Either this code sees that the request was withdrawn, or the worker thread sees that it must wait.
        let is_requested = self.is_requested.swap(false, Ordering::SeqCst);
        self.is_enabled.store(is_requested, Ordering::SeqCst);
        let answer = if is_requested { hear(self.high).map(|()| true) } else { Ok(false) };
        self.is_changing.store(false, Ordering::SeqCst);
        answer
    }

    /// In GarbageCollectionFinished of that GC: clears MONITOR_GC through `hear`, so that the application's next GC is not monitored.
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
    use remora_holds::holds;
    use remora_sampler::{HeapClass, MOST_ARGUMENTS};
    use std::cell::Cell;

    /// Objects of 24 bytes, with `classes` classes in turn: `young` bytes in gen 0, `old` bytes outside.
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
        holds!(GCH_02 rem, !judged(1_500, 6 * MIB, 4_000 * MIB), "in a heap that takes long to collect");
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
        assert!(monitor.is_requested() && !monitor.has_timed_out());
        assert!(is_too_expensive(&monitor, &dear), "as much was made again");
        assert_eq!(monitor.enable(is_too_expensive(&monitor, &dear_at_first), hear), Ok(true));
        holds!(GCH_02 rem, !monitor.is_requested(), "once is enough");
        monitor.disable(|_| heard.set(heard.get() + 1));
        monitor.disable(|_| panic!("it was taken back"));
        assert_eq!(heard.get(), 2);
        monitor.request();
        assert_eq!(monitor.enable(is_too_expensive(&monitor, &dear), hear), Ok(false));
        assert!(monitor.has_timed_out());
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
        holds!(GCH_02 rem, (answer, pauses.get()) == (Ok(true), 3));
        monitor.disable(|_| panic!("who wants no more takes it back itself"));
        monitor.request();
        monitor.stop(&|| panic!("nobody asks"));
        assert_eq!(monitor.enable(false, |_| panic!("nothing is wanted")), Ok(false));
    }
}
