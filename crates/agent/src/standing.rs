//! The heap as a copy of the process sees it, which was made while the program stood still.

use corprof::{ClassId, FrozenRange, GenerationRange, HeapView, ObjectId};
use remora_agent_hot::{FROZEN_RANGE, HeapClass, HeapRange, InFork, MOST_ARGUMENTS, StandingHeap};

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub struct Standing(HeapView);

/// Frozen ranges that are asked for at once: what the runtime writes has another layout than what we keep.
const FROZEN_RANGES: usize = 256;

/// A range of ours is one of the runtime's, field by field.
const _: () = assert!(size_of::<HeapRange>() == size_of::<GenerationRange>());

impl Standing {
    /// The heap behind `view`, in the copy that `fork` proves.
    pub fn new(_: &InFork, view: HeapView) -> Standing {
        Standing(view)
    }

    fn generations(&self, into: &mut [HeapRange]) -> usize {
        // SAFETY: the same size, and fields of the same sizes at the same places; all bytes are valid values of either.
        let ranges = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<GenerationRange>(), into.len()) };
        // SAFETY: this is a copy that was made in a callback of a collection; so for all questions below.
        unsafe { self.0.generation_bounds(ranges) }.unwrap_or(0)
    }

    fn frozen(&self, into: &mut [HeapRange]) -> usize {
        let mut some = [FrozenRange::default(); FROZEN_RANGES];
        // SAFETY: as above.
        let Ok(total) = (unsafe { self.0.frozen_bounds(&mut some) }) else { return 0 };
        let ranges = some.iter().take(total).map(|range| HeapRange {
            kind: FROZEN_RANGE,
            start: range.start as u64,
            length: range.length as u64,
            reserved: range.reserved as u64,
        });
        into.iter_mut().zip(ranges).for_each(|(place, range)| *place = range);
        total
    }
}

impl StandingHeap for Standing {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        let collected = self.generations(into);
        let rest = into.get_mut(collected..).unwrap_or_default();
        // More frozen ranges than are asked for at once would be told of and not walked: those come last.
        collected + self.frozen(rest)
    }

    fn class_of(&self, object: u64) -> Option<u64> {
        // SAFETY: as above.
        unsafe { self.0.class_of(ObjectId(object as usize)) }.ok().map(|class| class.0 as u64)
    }

    fn size_of(&self, object: u64) -> Option<u64> {
        // SAFETY: as above.
        unsafe { self.0.size_of(ObjectId(object as usize)) }.ok().map(|size| size as u64)
    }

    fn references(&self, object: u64, visit: &mut impl FnMut(u64)) {
        // A refusal says that it has none: free space, most of it.
        // SAFETY: as above.
        let _ = unsafe { self.0.references(ObjectId(object as usize), &mut |target| visit(target.0 as u64)) };
    }

    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        let class = ClassId(class as usize);
        // SAFETY: as above.
        if let Ok(Some(array)) = unsafe { self.0.array(class) } {
            return HeapClass::Array { element: array.class.0 as u64, element_kind: array.element, rank: array.rank };
        }
        let mut ids = [ClassId(0); MOST_ARGUMENTS];
        // SAFETY: as above.
        match unsafe { self.0.class(class, &mut ids) } {
            Ok(head) => {
                arguments.iter_mut().zip(ids).for_each(|(place, id)| *place = id.0 as u64);
                let (module, parent) = (head.module.0 as u64, head.parent.0 as u64);
                HeapClass::Plain { module, token: head.token.0, parent, arguments: head.arguments }
            }
            Err(code) => HeapClass::Unknown(code.0 as u32),
        }
    }

    fn word(&self, address: u64) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.word(address as usize) as u64 }
    }
}
