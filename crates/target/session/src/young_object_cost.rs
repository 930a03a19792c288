//! Estimates how long the runtime's count of gen 0 objects will take, before it starts.
//!
//! For a GC with MONITOR_GC, the runtime walks gen 0 and counts its objects by class, right after GarbageCollectionStarted (`DiagGCStart`,
//! vm/gcenv.ee.cpp). The application is paused during the count. The hash table has a fixed number of buckets. The class's address selects
//! the bucket, and a new class goes to the front (`AllocByClass`, vm/eetoprofinterfaceimpl.cpp; `CHashTable`). So the classes seen first,
//! strings among them, are found last. Each of their objects costs as many steps as their bucket has classes. With thirty thousand classes
//! and a gen 0 of 128 MiB, one GC took a minute (8.0.4).
//!
//! This module walks the same objects and adds up those steps, until the limit. The walk takes about as long as the runtime's count with
//! few classes. So of a large gen 0 it walks only a part, the same share of each range.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::Words;
use remora_sampler::{HeapRange, HeapReader};
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots for classes; at most half may be used. More classes are too expensive in any case. Multiples of eight, as addresses, use four
/// buckets. There one object of each class costs all the allowed steps.
pub(crate) const PLACES: usize = 1 << 16;

/// Buckets of the runtime's table (`HASH_NUM_BUCKETS`).
const LISTS: usize = 32;

/// Gen 0.
pub(crate) const YOUNGEST: i32 = 0;

/// The step limit: about a second. A step took 5 to 17 ns (8.0.4).
pub(crate) const MOST_STEPS: u64 = 1 << 27;

/// The base cost of an object, in steps. With few classes, each found after one or two steps, an object took 13 to 18 ns in all on 8.0.4,
/// and 35 on 10.0.12.
const STEPS_OF_AN_OBJECT: u64 = 1;

/// Bytes to walk, at most.
const MOST_BYTES: u64 = 128 << 20;

/// Bit position of the estimate's number, and the highest number.
const MARK_AT: u32 = 32;
const LATEST_COURSE: u64 = u32::MAX as u64;

/// Objects begin at multiples of this.
const WORD: u64 = 8;

/// The classes seen so far, each with its position in its bucket. Only one thread at a time uses it.
pub(crate) struct YoungObjectCost {
    /// Open addressing: ids.
    keys: Words,
    /// The upper half holds the number of the estimate. A slot of another estimate is free, so nothing needs to be cleared.
    numbers: Words,
    courses: AtomicU64,
}

/// The state of one estimate.
#[derive(Default)]
struct Estimate {
    mark: u64,
    lists: [u64; LISTS],
    classes: usize,
    steps: u64,
}

impl YoungObjectCost {
    /// Needs [`PLACES`] slots for keys, and as many for numbers.
    pub(crate) fn new(keys: Words, numbers: Words) -> YoungObjectCost {
        YoungObjectCost { keys, numbers, courses: AtomicU64::new(0) }
    }

    /// Whether the runtime would need more than `most` steps to count the gen 0 objects in these ranges.
    pub(crate) fn is_too_expensive(&self, heap: &dyn HeapReader, ranges: &[HeapRange], most: u64) -> bool {
        if is_injected(InjectedFault::CountAtAnyCost) {
            return false;
        }
        let mut course = self.course();
        let young = || ranges.iter().filter(|range| range.kind == YOUNGEST);
        let all = young().fold(0_u64, |sum, range| sum.saturating_add(range.length));
        // Walks the first 1/`one_of` of each range.
        let one_of = all.div_ceil(MOST_BYTES).max(1);
        let most = most / one_of;
        for range in young() {
            let (mut object, end) = (range.start, range.start.saturating_add(range.length / one_of));
            while object < end {
                let Some(class) = heap.class_of(object) else { break };
                let Some(size) = heap.size_of(object).filter(|size| *size >= WORD) else { break };
                course.steps += STEPS_OF_AN_OBJECT;
                if !self.counts(class, &mut course) || course.steps > most {
                    return true;
                }
                object = object.saturating_add(size.next_multiple_of(WORD));
            }
        }
        false
    }

    fn course(&self) -> Estimate {
        // Never 0, the mark of unused slots. The number repeats after four billion GCs, which is harmless.
        let mark = self.courses.fetch_add(1, Ordering::Relaxed) % (LATEST_COURSE - 1) + 1;
        Estimate { mark: mark << MARK_AT, ..Estimate::default() }
    }

    /// Counts an object. False if its class exceeds the limit of classes.
    fn counts(&self, class: u64, course: &mut Estimate) -> bool {
        if class == 0 {
            // Skip free space between objects.
            return true;
        }
        let (keys, numbers): (&[AtomicU64], &[AtomicU64]) =
            (self.keys.as_ref().as_ref(), self.numbers.as_ref().as_ref());
        let places = keys.len().max(1);
        let list = &mut course.lists[class as usize % LISTS];
        let mut at = (class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % places;
        while let (Some(key), Some(number)) = (keys.get(at), numbers.get(at)) {
            let held = number.load(Ordering::Relaxed);
            if held >> MARK_AT != course.mark >> MARK_AT {
                // The runtime searches the whole bucket before it adds a class.
                course.steps += *list;
                *list += 1;
                course.classes += 1;
                key.store(class, Ordering::Relaxed);
                number.store(course.mark | *list, Ordering::Relaxed);
                return course.classes <= places / 2;
            }
            if key.load(Ordering::Relaxed) == class {
                course.steps += *list + 1 - (held ^ course.mark);
                return true;
            }
            at = (at + 1) % places;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::words;
    use remora_sampler::{HeapClass, MOST_ARGUMENTS};

    /// Objects of 24 bytes, with these classes in turn.
    struct RangeSet(Vec<u64>);

    impl HeapReader for RangeSet {
        fn ranges(&self, _: &mut [HeapRange]) -> usize {
            0
        }

        fn class_of(&self, object: u64) -> Option<u64> {
            Some(self.0[(object / 24) as usize % self.0.len()])
        }

        fn size_of(&self, _: u64) -> Option<u64> {
            Some(22)
        }

        fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}

        fn class(&self, _: u64, _: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
            HeapClass::Unknown(0)
        }
    }

    fn young(start: u64, length: u64) -> HeapRange {
        HeapRange { kind: YOUNGEST, start, length, reserved: length }
    }

    fn counting() -> YoungObjectCost {
        YoungObjectCost::new(words(PLACES), words(PLACES))
    }

    /// Addresses of `count` classes, spaced as the runtime places them.
    fn classes(count: u64) -> Vec<u64> {
        (1..=count).map(|class| 0x7f00_0000 + class * 0x68).collect()
    }

    /// Whether `objects` objects of `types` classes, in turn, are too expensive.
    fn is_too_expensive(types: u64, objects: u64) -> bool {
        counting().is_too_expensive(&RangeSet(classes(types)), &[young(0, objects * 24)], MOST_STEPS)
    }

    #[test]
    fn steps_are_those_of_the_runtimes_table() {
        let counting = counting();
        let mut course = counting.course();
        // Two classes share a bucket, the third is alone in its own. Each appears for the first time, then again.
        let met: Vec<u64> = [0x1000, 0x1020, 0x1008, 0x1000, 0x1020, 0x1008, 0]
            .into_iter()
            .map(|class| {
                let before = course.steps;
                assert!(counting.counts(class, &mut course));
                course.steps - before
            })
            .collect();
        assert_eq!(met, [0, 1, 0, 2, 1, 1, 0], "what was met first is found last, and nothing of class 0");
    }

    #[test]
    fn few_classes_are_cheap_and_many_are_not_and_neither_are_many_objects() {
        assert!(!is_too_expensive(10, 1_000_000));
        assert!(!is_too_expensive(1_000, 500_000));
        assert!(is_too_expensive(1_000, 2_000_000));
        assert!(!is_too_expensive(30_000, 30_000));
        assert!(is_too_expensive(30_000, 60_000));
        assert!(is_too_expensive(33_000, 33_000), "more classes than there is room for");
        assert!(!is_too_expensive(5, 40_000_000));
        assert!(is_too_expensive(5, 80_000_000), "objects alone, most of which are not looked at");
    }

    #[test]
    fn what_is_not_young_is_not_looked_at() {
        let many = RangeSet(classes(40_000));
        let range = |kind| HeapRange { kind, ..young(0, 40_000 * 24) };
        assert!(counting().is_too_expensive(&many, &[range(YOUNGEST)], MOST_STEPS));
        assert!(!counting().is_too_expensive(&many, &[range(1), range(2), range(3)], MOST_STEPS));
    }

    #[test]
    fn it_begins_anew_each_time_and_a_range_that_cannot_be_walked_is_left() {
        let counting = counting();
        for _ in 0..4 {
            assert!(!counting.is_too_expensive(&RangeSet(classes(5_000)), &[young(0, 5_000 * 24)], MOST_STEPS));
        }
        struct Broken;
        impl HeapReader for Broken {
            fn ranges(&self, _: &mut [HeapRange]) -> usize {
                0
            }
            fn class_of(&self, _: u64) -> Option<u64> {
                Some(1)
            }
            fn size_of(&self, _: u64) -> Option<u64> {
                Some(0)
            }
            fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}
            fn class(&self, _: u64, _: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
                HeapClass::Unknown(0)
            }
        }
        assert!(!counting.is_too_expensive(&Broken, &[young(0, u64::MAX), young(0x1000, 0x1000)], MOST_STEPS));
    }
}
