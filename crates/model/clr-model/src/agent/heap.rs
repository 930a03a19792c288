//! The model's heap for the agent, and the stream of a forked copy, which is complete at once.

use corprof::{ClassId, GenerationRange, HeapView, ObjectId};
use remora_heap_stream::{
    ARRAY_CLASS, CLASS, END, FIRST_CLASS, LONGEST_NUMBER, PLAIN_CLASS, RANGE, UNKNOWN_CLASS, write_number,
};
use remora_sampler::{HeapClass, HeapRange, HeapReader, MOST_ARGUMENTS};

/// Capacity of the list of heap ranges.
const RANGES: usize = 1 << 10;

/// The heap in a GC callback.
pub(super) struct ModelHeap(pub(super) HeapView);

impl HeapReader for ModelHeap {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        let mut reported = vec![GenerationRange::default(); into.len()];
        // SAFETY: a GC callback runs, so the heap does not change; `reported` is live.
        let total = unsafe { self.0.generation_bounds(&mut reported) }.unwrap_or(0);
        for (place, range) in into.iter_mut().zip(&reported).take(total) {
            let (start, length) = (range.start as u64, range.length as u64);
            *place = HeapRange { kind: range.generation, start, length, reserved: range.reserved as u64 };
        }
        total
    }

    fn class_of(&self, object: u64) -> Option<u64> {
        // SAFETY: a GC callback runs, so no object moves; the id came from this heap.
        unsafe { self.0.class_of(ObjectId(object as usize)) }.ok().map(|class| class.0 as u64)
    }

    fn size_of(&self, object: u64) -> Option<u64> {
        // SAFETY: a GC callback runs, so no object moves; the id came from this heap.
        unsafe { self.0.size_of(ObjectId(object as usize)) }.ok().map(|size| size as u64)
    }

    fn references(&self, _object: u64, _visit: &mut dyn FnMut(u64)) {}

    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        let class = ClassId(class as usize);
        // SAFETY: a GC callback runs, so no object moves; the id came from this heap.
        if let Ok(Some(array)) = unsafe { self.0.array(class) } {
            return HeapClass::Array { element: array.class.0 as u64, element_kind: array.element, rank: array.rank };
        }
        let mut ids = [ClassId(0); MOST_ARGUMENTS];
        // SAFETY: a GC callback runs, so no object moves; the id came from this heap.
        match unsafe { self.0.class(class, &mut ids) } {
            Ok(head) => {
                arguments.iter_mut().zip(ids).for_each(|(place, id)| *place = id.0 as u64);
                let (module, parent) = (head.module.0 as u64, head.parent.0 as u64);
                HeapClass::Plain { module, token: head.token.0, parent, arguments: head.arguments }
            }
            Err(code) => HeapClass::Unknown(code.0 as u32),
        }
    }
}

impl ModelHeap {
    /// Shows the heap, with room for its ranges.
    pub(super) fn show(&self, visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {
        visit(self, &mut [HeapRange::default(); RANGES]);
    }

    /// The stream of a forked copy for these objects: address, class and size of each.
    pub(super) fn stream(&self, objects: &[(u64, u64, u64)]) -> Vec<u8> {
        let (mut bytes, mut classes) = (Vec::new(), Vec::new());
        for (address, class, size) in objects {
            let number = classes.iter().position(|known| known == class).unwrap_or_else(|| {
                classes.push(*class);
                tell(&mut bytes, &[CLASS, *class]);
                self.tell_class(&mut bytes, *class);
                classes.len() - 1
            });
            tell(&mut bytes, &[RANGE, 2, *address, *size, FIRST_CLASS + number as u64, *size, 0]);
        }
        tell(&mut bytes, &[END, objects.len() as u64]);
        bytes
    }

    fn tell_class(&self, bytes: &mut Vec<u8>, class: u64) {
        let mut arguments = [0; MOST_ARGUMENTS];
        match self.class(class, &mut arguments) {
            HeapClass::Unknown(code) => tell(bytes, &[UNKNOWN_CLASS, u64::from(code)]),
            HeapClass::Plain { module, token, parent, arguments: count } => {
                tell(bytes, &[PLAIN_CLASS, module, u64::from(token), parent, count as u64]);
                tell(bytes, arguments.get(..count).unwrap_or_default());
            }
            HeapClass::Array { element, element_kind, rank } => {
                tell(bytes, &[ARRAY_CLASS, element, u64::from(element_kind), u64::from(rank)]);
            }
        }
    }
}

fn tell(bytes: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        let mut place = [0; LONGEST_NUMBER];
        let length = write_number(&mut place, *number);
        bytes.extend_from_slice(place.get(..length).unwrap_or_default());
    }
}
