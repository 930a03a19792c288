//! Objects that are larger than a format can say: such an object is told with the largest size that there is, and refers to a piece that
//! is told with the rest of its bytes. Sums of bytes stay right so; the pieces are of a type of their own, which has no other objects.

use remora_heap::{HeapGraph, ObjectIx};

/// What the type of the pieces is called.
pub(crate) const NAME: &str = "[the rest of objects that are too large for this format]";

/// A piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: u64,
    /// Whether another piece of the same object follows, which it refers to.
    pub(crate) goes_on: bool,
}

/// All pieces, those of an object one after the other, in the order of objects.
#[derive(Debug)]
pub(crate) struct Rest {
    largest: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Objects that have pieces, ascending, and which piece is their first.
    first: Vec<(ObjectIx, usize)>,
}

impl Rest {
    /// Of objects that take more than `largest`.
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

    /// What is told as an object's own size.
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
    fn the_rest_of_a_large_object_is_told_in_pieces_that_add_up() {
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
