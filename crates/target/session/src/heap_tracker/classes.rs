//! The classes that a watch has met, and the numbers under which it tells of them. One thread at a time asks: the runtime's callbacks in
//! which that happens come one after the other.

use crate::platform::Words;
use remora_sampler::{HeapClass, HeapReader, MOST_ARGUMENTS};
use remora_wire::heap::{ARRAY_CLASS, PLAIN_CLASS, UNKNOWN_CLASS};
use remora_wire::watch::{CLASS, MOST_CLASSES, PieceWriter};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) struct Classes {
    /// Open addressing: ids; a place of 0 is free.
    keys: Words,
    numbers: Words,
    ids: Words,
    count: AtomicUsize,
    told: AtomicUsize,
}

impl Classes {
    /// Twice as many places for keys and numbers as for ids, which are [`MOST_CLASSES`] at most.
    pub(super) fn new(keys: Words, numbers: Words, ids: Words) -> Classes {
        Classes { keys, numbers, ids, count: AtomicUsize::new(0), told: AtomicUsize::new(0) }
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

    /// Forgets them all: ids may mean others from now on, and numbers begin anew.
    pub(super) fn forget(&self) {
        self.keys.as_ref().as_ref().iter().for_each(|key| key.store(0, Ordering::Relaxed));
        self.count.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
    }

    /// Tells of those that nobody has been told of. A class may have others as arguments or elements, and these others. One for which
    /// there was no room is told of the next time.
    pub(super) fn tell_new(&self, collection: u64, heap: &dyn HeapReader, put: &mut impl FnMut(&[u8]) -> bool) {
        loop {
            let number = self.told.load(Ordering::Relaxed);
            if number >= self.count.load(Ordering::Relaxed) {
                return;
            }
            let Some(id) = self.ids().get(number).map(|id| id.load(Ordering::Relaxed)) else { return };
            if !self.tell((number as u64, id), collection, heap, put) {
                return;
            }
            self.told.store(number + 1, Ordering::Relaxed);
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
            // What finds no room has no name.
            let _ = self.number(id);
        }
    }
}

fn numbers(piece: &mut PieceWriter, numbers: &[u64]) {
    numbers.iter().for_each(|number| piece.number(*number));
}
