//! The recorder's side: decodes pieces. The input is not trusted.

use super::{ALLOCATED, BEGINS, BORN, BOUNDS, CLASS, ENDS, MOST_CLASSES, MOVED, SURVIVED};
use crate::decoder::{ClassFacts, class};
use crate::number::unzigzag;
use crate::reader::{Malformed, Reader, Stop};
use crate::{Foreign, WORD};

/// A part of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// As in the stream of a snapshot.
    pub kind: u32,
    /// Start address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// An object that is new since the last GC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BornObject {
    /// Its address now.
    pub address: u64,
    /// Number of its class.
    pub class: u32,
    /// Its size.
    pub bytes: u64,
}

/// A decoded piece; see [`crate::watch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchPiece {
    /// A GC starts.
    Begins {
        /// Number of the GC.
        collection: u64,
        /// Monotonic, nanoseconds.
        time: u64,
        /// The oldest generation collected.
        generation: u8,
        /// Whether it was induced.
        is_induced: bool,
    },
    /// Parts of the heap that the GC collects.
    Bounds {
        /// Number of the GC.
        collection: u64,
        /// The parts.
        ranges: Vec<Bounds>,
    },
    /// Surviving ranges: old address, new address, bytes.
    Lives {
        /// Number of the GC.
        collection: u64,
        /// The ranges.
        ranges: Vec<(u64, u64, u64)>,
    },
    /// A class and its number from now on.
    Class {
        /// The number.
        number: u32,
        /// The GC that reports it: ids may be reused between GCs.
        collection: u64,
        /// ClassID.
        id: u64,
        /// The runtime's description.
        facts: ClassFacts,
    },
    /// How many objects of each class were allocated since the last GC.
    Allocated {
        /// Number of the GC.
        collection: u64,
        /// Number of the class, and objects of it.
        counts: Vec<(u32, u64)>,
    },
    /// Objects that are new since the last GC.
    Born {
        /// Number of the GC.
        collection: u64,
        /// The objects.
        objects: Vec<BornObject>,
    },
    /// The GC ends.
    Ends {
        /// Number of the GC.
        collection: u64,
        /// Monotonic, nanoseconds.
        time: u64,
        /// Pieces without room, and other events that could not be reported.
        lost: u64,
        /// Whether the process was forked at its end.
        is_copied: bool,
        /// Extra duration because of heap tracking, nanoseconds.
        extra: u64,
    },
}

impl WatchPiece {
    /// Reads a piece.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: Foreign<&[u8]>) -> Result<WatchPiece, Malformed> {
        let mut reader = Reader { bytes: bytes.unchecked(), at: 0 };
        let piece = read(&mut reader).map_err(|_| Malformed)?;
        if reader.is_at_end() { Ok(piece) } else { Err(Malformed) }
    }

    /// Reads a piece that describes a class; `None` for all others.
    pub fn class(bytes: Foreign<&[u8]>) -> Option<WatchPiece> {
        let is_class = bytes.unchecked().first() == Some(&(CLASS as u8));
        is_class.then(|| WatchPiece::decode(bytes).ok()).flatten()
    }
}

fn read(reader: &mut Reader<'_>) -> Result<WatchPiece, Stop> {
    let (kind, collection) = (reader.number()?, reader.number()?);
    Ok(match kind {
        BEGINS => {
            let (time, generation, induced) = (reader.number()?, reader.number()?, reader.number()?);
            let generation = u8::try_from(generation).ok().filter(|generation| *generation <= 2).ok_or(Stop::Bad)?;
            WatchPiece::Begins { collection, time, generation, is_induced: induced != 0 }
        }
        BOUNDS => WatchPiece::Bounds { collection, ranges: list(reader, bounds)? },
        MOVED => WatchPiece::Lives { collection, ranges: list(reader, moved)? },
        SURVIVED => WatchPiece::Lives { collection, ranges: list(reader, survived)? },
        CLASS => {
            let number = class_number(collection)?;
            let (collection, id, kind) = (reader.number()?, reader.number()?, reader.number()?);
            WatchPiece::Class { number, collection, id, facts: class(kind, reader)? }
        }
        ALLOCATED => {
            let one = |reader: &mut Reader<'_>, _: &mut u64| Ok((class_number(reader.number()?)?, reader.number()?));
            WatchPiece::Allocated { collection, counts: list(reader, one)? }
        }
        BORN => WatchPiece::Born { collection, objects: list(reader, born)?.into_iter().flatten().collect() },
        ENDS => WatchPiece::Ends {
            collection,
            time: reader.number()?,
            lost: reader.number()?,
            is_copied: reader.number()? != 0,
            extra: reader.number()?,
        },
        _ => return Err(Stop::Bad),
    })
}

/// Items up to the end of the piece. No list is longer than the piece has bytes.
fn list<T>(
    reader: &mut Reader<'_>,
    mut item: impl FnMut(&mut Reader<'_>, &mut u64) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let (mut items, mut cursor) = (Vec::new(), 0);
    while !reader.is_at_end() {
        items.push(item(reader, &mut cursor)?);
    }
    Ok(items)
}

fn class_number(number: u64) -> Result<u32, Stop> {
    if number < MOST_CLASSES as u64 { Ok(number as u32) } else { Err(Stop::Bad) }
}

fn place(reader: &mut Reader<'_>, cursor: &mut u64) -> Result<(u64, u64), Stop> {
    let start = unzigzag(*cursor, reader.number()?);
    let length = reader.number()?;
    *cursor = start.checked_add(length).ok_or(Stop::Bad)?;
    Ok((start, length))
}

fn bounds(reader: &mut Reader<'_>, cursor: &mut u64) -> Result<Bounds, Stop> {
    let kind = u32::try_from(reader.number()?).map_err(|_| Stop::Bad)?;
    let (start, length) = place(reader, cursor)?;
    Ok(Bounds { kind, start, length })
}

fn moved(reader: &mut Reader<'_>, cursor: &mut u64) -> Result<(u64, u64, u64), Stop> {
    let (old, length) = place(reader, cursor)?;
    let new = unzigzag(old, reader.number()?);
    new.checked_add(length).ok_or(Stop::Bad)?;
    Ok((old, new, length))
}

fn survived(reader: &mut Reader<'_>, cursor: &mut u64) -> Result<(u64, u64, u64), Stop> {
    let (start, length) = place(reader, cursor)?;
    Ok((start, start, length))
}

fn born(reader: &mut Reader<'_>, cursor: &mut u64) -> Result<Option<BornObject>, Stop> {
    let (head, value) = (reader.number()?, reader.number()?);
    let Some(class) = head.checked_sub(1) else {
        *cursor = unzigzag(*cursor, value);
        return Ok(None);
    };
    let object = BornObject { address: *cursor, class: class_number(class)?, bytes: value };
    let taken = value.checked_next_multiple_of(WORD).ok_or(Stop::Bad)?;
    *cursor = cursor.checked_add(taken).ok_or(Stop::Bad)?;
    Ok(Some(object))
}

#[cfg(test)]
mod tests {
    use super::super::{PIECE_BYTES, PieceWriter};
    use super::*;

    fn decoded(piece: &PieceWriter) -> WatchPiece {
        WatchPiece::decode(piece.bytes().into()).expect("own piece")
    }

    #[test]
    fn lists_come_back_however_far_apart_their_places_are() {
        let ranges =
            [(0x7f00_0000_1000, 0x7f00_0000_0800, 64), (0x7f00_0000_1100, 0x7f10_0000_0000, 4096), (64, 64, 24)];
        let mut piece = PieceWriter::new(MOVED, 9);
        ranges.iter().for_each(|(old, new, length)| piece.range(*old, *new, *length));
        assert_eq!(decoded(&piece), WatchPiece::Lives { collection: 9, ranges: ranges.to_vec() });
        let mut piece = PieceWriter::new(SURVIVED, 9);
        ranges.iter().for_each(|(old, _, length)| piece.range(*old, *old, *length));
        let stayed = ranges.iter().map(|(old, _, length)| (*old, *old, *length)).collect();
        assert_eq!(decoded(&piece), WatchPiece::Lives { collection: 9, ranges: stayed });
        let mut piece = PieceWriter::new(BOUNDS, 9);
        piece.bounds(4, 0x7f00_0000_1000, 96);
        let ranges = vec![Bounds { kind: 4, start: 0x7f00_0000_1000, length: 96 }];
        assert_eq!(decoded(&piece), WatchPiece::Bounds { collection: 9, ranges });
    }

    #[test]
    fn newborn_objects_lie_one_behind_the_other_until_a_place_is_reported() {
        let mut piece = PieceWriter::new(BORN, 3);
        piece.born_at(0x1000);
        piece.born(7, 22, 24);
        piece.born(8, 24, 24);
        piece.born_at(0x800);
        piece.born(7, 22, 24);
        let object = |address, class, bytes| BornObject { address, class, bytes };
        let objects = vec![object(0x1000, 7, 22), object(0x1018, 8, 24), object(0x800, 7, 22)];
        assert_eq!(decoded(&piece), WatchPiece::Born { collection: 3, objects });
    }

    #[test]
    fn a_piece_that_is_full_is_handed_over_and_nothing_is_lost_between_two() {
        let (mut piece, mut put) = (PieceWriter::new(SURVIVED, 1), Vec::new());
        let mut sink = |bytes: &[u8]| put.push(WatchPiece::decode(bytes.into()).expect("own piece"));
        for index in 0..3000_u64 {
            piece.make_room(&mut sink);
            piece.range(0x7f00_0000_0000 + index * 4096, 0x7f00_0000_0000 + index * 4096, 24 + index * 8);
        }
        piece.flush(&mut sink);
        piece.flush(&mut sink);
        assert!(put.len() > 3000 * 4 / PIECE_BYTES, "{} pieces", put.len());
        let starts = put.iter().flat_map(|piece| match piece {
            WatchPiece::Lives { ranges, .. } => ranges.iter().map(|(old, ..)| *old),
            other => panic!("{other:?}"),
        });
        assert!(starts.eq((0..3000).map(|index| 0x7f00_0000_0000 + index * 4096)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |kind, numbers: &[u64]| {
            let mut piece = PieceWriter::new(kind, 1);
            numbers.iter().for_each(|number| piece.number(*number));
            WatchPiece::decode(piece.bytes().into()).is_err()
        };
        assert!(refused(99, &[]));
        assert!(refused(BEGINS, &[1, 3, 0]), "no such generation");
        assert!(refused(BEGINS, &[1, 2, 0, 0]), "more than belongs there");
        assert!(refused(MOVED, &[1, 2]), "cut");
        assert!(refused(SURVIVED, &[2, u64::MAX]), "beyond all addresses");
        assert!(refused(ALLOCATED, &[MOST_CLASSES as u64, 1]));
        assert!(WatchPiece::decode([].as_slice().into()).is_err());
        assert!(!refused(ENDS, &[1, 0, 1, 0]));
    }
}
