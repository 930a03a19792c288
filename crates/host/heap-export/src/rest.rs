//! Splits objects that are too large for a format. Such an object gets the largest possible size, and refers to a piece with the remaining
//! bytes.
//! So sums of bytes stay correct; the pieces have a type of their own.

use remora_heap::{HeapGraph, ObjectIx};

/// The type name of the pieces.
pub(crate) const NAME: &str = "[the rest of objects that are too large for this format]";

/// A piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    /// Whether it refers to another piece of the same object, which follows.
    pub(crate) goes_on: bool,
}

/// All pieces, those of an object together, in object order.
#[derive(Debug)]
pub(crate) struct Rest {
    largest: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Objects with pieces, ascending, with the index of their first piece.
    first: Vec<(ObjectIx, usize)>,
}

impl Rest {
    /// The pieces of objects larger than `largest`.
    pub(crate) fn of(graph: &HeapGraph, largest: u64) -> Rest {
        let mut rest = Rest { largest, pieces: Vec::new(), first: Vec::new() };
        for object in graph.objects().filter(|object| graph.bytes(*object) > largest) {
            rest.first.push((object, rest.pieces.len()));
            let mut left = graph.bytes(object) - largest;
            while left > 0 {
                let bytes = left.min(largest);
                left -= bytes;
                rest.pieces.push(Piece { bytes, goes_on: left > 0 });
            }
        }
        rest
    }

    /// The size written for the object itself.
    pub(crate) fn bytes(&self, graph: &HeapGraph, object: ObjectIx) -> u64 {
        graph.bytes(object).min(self.largest)
    }

    /// The first piece of an object.
    pub(crate) fn first_of(&self, object: ObjectIx) -> Option<usize> {
        let place = self.first.binary_search_by_key(&object, |entry| entry.0).ok()?;
        Some(self.first[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap::{Builder, Object, TypeIx};

    #[test]
    fn the_rest_of_a_large_object_is_reported_in_pieces_that_add_up() {
        let mut builder = Builder::new();
        for (address, bytes) in [(0x1000, 100), (0x2000, 351), (0x3000, 101), (0x4000, 7)] {
            builder.add_object(Object { address, type_ix: TypeIx(0), bytes }, []).expect("there is room");
        }
        let graph = builder.finish().expect("there is room");
        let rest = Rest::of(&graph, 100);
        let piece = |bytes, goes_on| Piece { bytes, goes_on };
        assert_eq!(rest.pieces, [piece(100, true), piece(100, true), piece(51, false), piece(1, false)]);
        let firsts: Vec<_> = graph.objects().map(|object| rest.first_of(object)).collect();
        assert_eq!(firsts, [None, Some(0), Some(3), None]);
        let bytes: Vec<_> = graph.objects().map(|object| rest.bytes(&graph, object)).collect();
        assert_eq!(bytes, [100, 100, 100, 7]);
    }
}
