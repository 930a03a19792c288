//! The classes that heap tracking has seen, and their numbers in its reports. Only one thread at a time uses them, in callbacks that never
//! overlap.

use crate::platform::Words;
use remora_heap_stream::watch::{CLASS, MOST_CLASSES, PieceWriter};
use remora_heap_stream::{ARRAY_CLASS, PLAIN_CLASS, UNKNOWN_CLASS};
use remora_sampler::{HeapClass, HeapReader, MOST_ARGUMENTS};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) struct Classes {
    /// Open addressing: ids; 0 marks a free slot.
    keys: Words,
    numbers: Words,
    ids: Words,
    count: AtomicUsize,
    sent: AtomicUsize,
}

impl Classes {
    /// `keys` and `numbers` need twice as many slots as `ids`, which has at most [`MOST_CLASSES`].
    pub(super) fn new(keys: Words, numbers: Words, ids: Words) -> Classes {
        Classes { keys, numbers, ids, count: AtomicUsize::new(0), sent: AtomicUsize::new(0) }
    }

    fn ids(&self) -> &[AtomicU64] {
        let ids = self.ids.as_ref().as_ref();
        ids.get(..MOST_CLASSES).unwrap_or(ids)
    }

    /// The number of a class; `None` if there is no room for another.
    pub(super) fn number(&self, id: u64) -> Option<u32> {
        let (keys, numbers, ids) = (self.keys.as_ref().as_ref(), self.numbers.as_ref().as_ref(), self.ids());
        let places = keys.len().max(1);
        let mut at = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % places;
        for _ in 0..places {
            let (key, number) = (keys.get(at)?, numbers.get(at)?);
            match key.load(Ordering::Relaxed) {
                0 => {
                    let count = self.count.load(Ordering::Relaxed);
                    ids.get(count)?.store(id, Ordering::Relaxed);
                    number.store(count as u64, Ordering::Relaxed);
                    key.store(id, Ordering::Relaxed);
                    self.count.store(count + 1, Ordering::Relaxed);
                    return Some(count as u32);
                }
                held if held == id => return Some(number.load(Ordering::Relaxed) as u32),
                _ => at = (at + 1) % places,
            }
        }
        None
    }

    /// Forgets all classes: from now on ids may be reused, and numbers start again.
    pub(super) fn forget(&self) {
        self.keys.as_ref().as_ref().iter().for_each(|key| key.store(0, Ordering::Relaxed));
        self.count.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
    }

    /// Reports the new classes. A class may have others as arguments or elements; these follow. A class without room is retried next time.
    pub(super) fn tell_new(&self, collection: u64, heap: &dyn HeapReader, put: &mut impl FnMut(&[u8]) -> bool) {
        loop {
            let number = self.sent.load(Ordering::Relaxed);
            if number >= self.count.load(Ordering::Relaxed) {
                return;
            }
            let Some(id) = self.ids().get(number).map(|id| id.load(Ordering::Relaxed)) else { return };
            if !self.tell((number as u64, id), collection, heap, put) {
                return;
            }
            self.sent.store(number + 1, Ordering::Relaxed);
        }
    }

    fn tell(
        &self,
        (number, id): (u64, u64),
        collection: u64,
        heap: &dyn HeapReader,
        put: &mut impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let mut piece = PieceWriter::new(CLASS, number);
        piece.number(collection);
        piece.number(id);
        let mut arguments = [0; MOST_ARGUMENTS];
        match heap.class(id, &mut arguments) {
            HeapClass::Unknown(code) => numbers(&mut piece, &[UNKNOWN_CLASS, u64::from(code)]),
            HeapClass::Plain { module, token, parent, arguments: count } => {
                let count = count.min(MOST_ARGUMENTS);
                numbers(&mut piece, &[PLAIN_CLASS, module, u64::from(token), parent, count as u64]);
                for argument in arguments.iter().take(count) {
                    piece.number(*argument);
                    self.resolve(*argument);
                }
            }
            HeapClass::Array { element, element_kind, rank } => {
                numbers(&mut piece, &[ARRAY_CLASS, element, u64::from(element_kind), u64::from(rank)]);
                self.resolve(element);
            }
        }
        put(piece.bytes())
    }

    fn resolve(&self, id: u64) {
        if id != 0 {
            // A class beyond the limit has no name.
            let _ = self.number(id);
        }
    }
}

fn numbers(piece: &mut PieceWriter, numbers: &[u64]) {
    numbers.iter().for_each(|number| piece.number(*number));
}
