//! Sequence points of methods, decoded once and found by binary search: a method may have a million, and each of its addresses needs a
//! lookup.

use crate::bytes::Reader;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of sequence points in one method. Offsets beyond them have no line.
const POINT_LIMIT: usize = 1 << 20;
/// Maximum number of cached points, 12 bytes each. Many methods may share one blob: the file's length does not bound them.
const MOST_KEPT: usize = POINT_LIMIT;

/// A sequence point with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) il_offset: u32,
    pub(crate) document: u32,
    pub(crate) line: u32,
}

/// The visible points of a method, sorted by IL offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Points(Arc<[Point]>);

impl Points {
    /// Decodes a sequence point blob (portable PDB specification, "Sequence Points Blob"). A damaged list ends early: the points before the
    /// damage are kept.
    pub(crate) fn decode(blob: &[u8], document: u32) -> Points {
        let mut points = Vec::new();
        if !blob.is_empty() {
            let _ = decode(blob, document, &mut points);
        }
        Points(points.into())
    }

    pub(crate) fn first(&self) -> Option<Point> {
        self.0.first().copied()
    }

    /// The last point at or before an IL offset.
    pub(crate) fn at(&self, il_offset: u32) -> Option<Point> {
        self.0.get(self.after(il_offset).checked_sub(1)?).copied()
    }

    /// The offset of that point, and of the one after it.
    pub(crate) fn around(&self, il_offset: u32) -> Option<(u32, u32)> {
        let after = self.after(il_offset);
        let next = self.0.get(after).map_or(u32::MAX, |point| point.il_offset);
        Some((self.0.get(after.checked_sub(1)?)?.il_offset, next))
    }

    /// The number of points up to an offset.
    fn after(&self, il_offset: u32) -> usize {
        self.0.partition_point(|point| point.il_offset <= il_offset)
    }
}

/// Cache of decoded points by method row.
#[derive(Debug, Default)]
pub(crate) struct KeptPoints(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_row: HashMap<u32, Points>,
    count: usize,
}

impl KeptPoints {
    /// The points of a method; calls `decode` if they are not cached.
    pub(crate) fn of(&self, row: u32, decode: impl FnOnce() -> Points) -> Points {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(points) = kept.by_row.get(&row) {
            return points.clone();
        }
        let points = decode();
        // A method without points takes space, too.
        let count = points.0.len() + 1;
        if kept.count + count > MOST_KEPT {
            *kept = Kept::default();
        }
        kept.count += count;
        kept.by_row.insert(row, points.clone());
        points
    }
}

fn decode(blob: &[u8], document: u32, points: &mut Vec<Point>) -> Option<()> {
    let mut reader = Reader::new(blob);
    reader.compressed()?;
    let mut document = if document == 0 { reader.compressed()? } else { document };
    let mut il_offset = 0u32;
    let mut position: Option<(i64, i64)> = None;
    for index in 0..POINT_LIMIT {
        if reader.is_empty() {
            break;
        }
        let delta = reader.compressed()?;
        if index > 0 && delta == 0 {
            document = reader.compressed()?;
            continue;
        }
        il_offset = il_offset.checked_add(delta)?;
        let lines = reader.compressed()?;
        let columns = if lines == 0 { i64::from(reader.compressed()?) } else { i64::from(reader.compressed_signed()?) };
        if lines == 0 && columns == 0 {
            continue;
        }
        let (line, column) = match position {
            None => (i64::from(reader.compressed()?), i64::from(reader.compressed()?)),
            Some((line, column)) => {
                (line + i64::from(reader.compressed_signed()?), column + i64::from(reader.compressed_signed()?))
            }
        };
        position = Some((line, column));
        points.push(Point { il_offset, document, line: u32::try_from(line).ok()? });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn points(blob: &[u8], document: u32) -> Vec<(u32, u32, u32)> {
        let points = Points::decode(blob, document);
        points.0.iter().map(|point| (point.il_offset, point.document, point.line)).collect()
    }

    #[test]
    fn sequence_points_are_decoded() {
        // Local signature 0; offset 0, one line of 4 columns at 10:3; offset +5 hidden; offset +2, next line at +1.
        let visible = [0, 0, 0, 4, 10, 3];
        assert_eq!(points(&visible, 1), [(0, 1, 10)]);
        let hidden = [&visible[..], &[5, 0, 0], &[2, 0, 4, 2, 0]].concat();
        assert_eq!(points(&hidden, 1), [(0, 1, 10), (7, 1, 11)]);
        // The document in the blob itself, then a change of document; 4 is +2, 0x7d is -2 as a compressed signed number.
        let several = [&[0, 3, 0, 0, 4, 10, 3][..], &[0, 2], &[4, 0, 4, 4, 0], &[1, 0, 4, 0x7d, 0]].concat();
        assert_eq!(points(&several, 0), [(0, 3, 10), (4, 2, 12), (5, 2, 10)]);
        assert_eq!(points(&[0, 0, 0, 4, 10], 1), []);
        assert_eq!(points(&[], 1), []);
    }

    /// Points at the IL offsets 0, 1, 2 ...
    fn many(count: u32) -> Points {
        Points((0..count).map(|number| Point { il_offset: number, document: 1, line: number + 10 }).collect())
    }

    #[test]
    fn the_point_of_an_offset_is_the_last_one_at_or_before_it() {
        let blob = [0, 0, 0, 4, 10, 3, 5, 0, 0, 2, 0, 4, 2, 0];
        let points = Points::decode(&blob, 1);
        let line = |offset| points.at(offset).map(|point| point.line);
        assert_eq!([0, 6, 7, u32::MAX].map(line), [10, 10, 11, 11].map(Some));
        assert_eq!(Points::decode(&[], 1).at(0), None);
    }

    #[test]
    fn a_method_with_a_million_lines_is_decoded_once_however_many_addresses_it_has() {
        let (kept, decoded) = (KeptPoints::default(), Cell::new(0));
        let of = |row, count| {
            kept.of(row, || {
                decoded.set(decoded.get() + 1);
                many(count)
            })
        };
        let large = POINT_LIMIT as u32 - 10;
        for offset in 0..20 {
            assert_eq!(of(1, large).at(offset).map(|point| point.line), Some(offset + 10));
        }
        assert_eq!((decoded.get(), of(2, 3).first().map(|point| point.line)), (1, Some(10)));
        // The cache has no room for a third.
        of(3, large);
        assert_eq!((decoded.get(), kept.0.lock().map(|kept| kept.by_row.len()).unwrap_or_default()), (3, 1));
    }
}
