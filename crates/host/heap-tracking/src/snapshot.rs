//! Builds a cache from a snapshot's stream.

use crate::cache::ObjectCache;
use crate::classes::Classes;
use crate::known::Known;
use remora_heap_stream::{ClassFacts, FROZEN, Foreign, HeapDecoder, HeapVisitor};

/// A partly received snapshot.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    decoder: HeapDecoder,
    taken: Taken,
    damaged: bool,
}

#[derive(Debug, Default)]
struct Taken {
    cache: ObjectCache,
    /// Class numbers of the stream, as indices into [`Classes`].
    numbers: Vec<u32>,
    /// Number of ranges not walked to their end.
    broken: u64,
    ended: bool,
}

impl Snapshot {
    /// The next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: Foreign<&[u8]>, classes: &mut Classes) {
        let mut visitor = Visitor { taken: &mut self.taken, classes };
        self.damaged = self.damaged || self.decoder.push(bytes, &mut visitor).is_err();
    }

    /// The cache, and whether it is complete.
    pub(crate) fn finish(mut self) -> (ObjectCache, bool) {
        let twice = self.taken.cache.settle();
        (self.taken.cache, self.taken.ended && !self.damaged && self.taken.broken == 0 && twice == 0)
    }
}

struct Visitor<'a> {
    taken: &'a mut Taken,
    classes: &'a mut Classes,
}

impl HeapVisitor for Visitor<'_> {
    fn range(&mut self, kind: u64, address: u64, length: u64) {
        if kind == FROZEN {
            self.taken.cache.add_frozen(address, address.saturating_add(length));
        }
    }

    fn class(&mut self, id: u64, facts: ClassFacts) {
        let number = self.classes.number(id, facts);
        self.taken.numbers.push(number);
    }

    fn object(&mut self, address: u64, class: u32, size: u64) {
        // A class is described before its first object.
        let class = self.taken.numbers.get(class as usize).copied().unwrap_or_default();
        self.taken.cache.add(address, Known { class, bytes: size, survived: 0, is_of_the_start: false });
    }

    fn broken(&mut self, _: u64) {
        self.taken.broken += 1;
    }

    fn end(&mut self, _: u64) {
        self.taken.ended = true;
    }
}
