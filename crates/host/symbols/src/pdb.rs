//! Portable PDBs: which source line an IL offset comes from, and which method a state machine belongs to.
//!
//! A PDB is only ever opened for a module, and only if it carries the module's own id: a wrong one would name wrong lines.
//! Windows PDBs are refused. Sequence points are decoded per method, when asked.

use crate::bytes::Reader;
use crate::error::SymbolError;
use crate::metadata::{Metadata, Table};
use crate::pe::CodeView;
use crate::types::row_of;

/// More sequence points in one method than this are not read; what is asked beyond them has no line.
const POINT_LIMIT: usize = 1 << 20;
/// More parts in one document name than this are not read.
const NAME_PART_LIMIT: usize = 4096;
/// Bytes of a document's path: what is longer is no path that can be opened.
const LONGEST_NAME: usize = 4096;

/// A portable PDB that belongs to a module.
pub struct PortablePdb {
    metadata: Metadata,
}

/// One sequence point that has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    il_offset: u32,
    document: u32,
    line: u32,
}

impl PortablePdb {
    /// Opens the PDB that `expected` describes; any other is refused.
    pub fn parse(bytes: impl AsRef<[u8]>, expected: &CodeView) -> Result<PortablePdb, SymbolError> {
        let bytes = bytes.as_ref();
        if !bytes.starts_with(b"BSJB") {
            return Err(SymbolError::NotPortablePdb);
        }
        let metadata = Metadata::parse(bytes.into()).ok_or(SymbolError::Damaged { what: "portable PDB" })?;
        let id = metadata.pdb_id.ok_or(SymbolError::NotPortablePdb)?;
        let (guid, stamp) = id.split_at(16);
        if guid != expected.guid.0 || stamp != expected.stamp.to_le_bytes() || expected.age != 1 {
            return Err(SymbolError::PdbMismatch);
        }
        Ok(PortablePdb { metadata })
    }

    /// The document and line of an IL offset of a method: those of the last visible sequence point at or before it.
    ///
    /// A hidden point (code without a line of its own) keeps the line before it, as in the runtime's own stack traces;
    /// before the first visible point there is none. For a caller's frame give the offset of the call, not the one after it.
    pub fn line(&self, method_token: u32, il_offset: u32) -> Option<(String, u32)> {
        let mut best = None;
        self.visit_points(row_of(method_token, Table::MethodDef)?, |point| {
            if point.il_offset <= il_offset {
                best = Some(point);
            }
            point.il_offset <= il_offset
        });
        self.located(best?)
    }

    /// Where a method begins: its first visible sequence point; for a method turned into a state machine, that machine's.
    pub fn first_line(&self, method_token: u32) -> Option<(String, u32)> {
        let row = row_of(method_token, Table::MethodDef)?;
        let first = |row| {
            let mut first = None;
            self.visit_points(row, |point| {
                first = Some(point);
                false
            });
            first
        };
        let point = first(row).or_else(|| first(self.move_next_of(row)?))?;
        self.located(point)
    }

    /// The method that was written, for the MoveNext of a state machine (both MethodDef tokens).
    pub fn kickoff_method(&self, move_next_token: u32) -> Option<u32> {
        let rows = self.metadata.equal_rows(Table::StateMachineMethod, 0, row_of(move_next_token, Table::MethodDef)?);
        let row = self.metadata.cell(Table::StateMachineMethod, rows.into_iter().next()?, 1)?;
        Some((Table::MethodDef as u32) << 24 | row)
    }

    fn move_next_of(&self, kickoff: u32) -> Option<u32> {
        (1..=self.metadata.rows(Table::StateMachineMethod))
            .find(|&row| self.metadata.cell(Table::StateMachineMethod, row, 1) == Some(kickoff))
            .and_then(|row| self.metadata.cell(Table::StateMachineMethod, row, 0))
    }

    fn located(&self, point: Point) -> Option<(String, u32)> {
        Some((self.document_name(point.document)?, point.line))
    }

    /// Shows `visit` the visible points of a method in order, until it answers `false` or the points end.
    fn visit_points(&self, row: u32, visit: impl FnMut(Point) -> bool) {
        let document = self.metadata.cell(Table::MethodDebugInformation, row, 0).unwrap_or(0);
        let points = self.metadata.blob(Table::MethodDebugInformation, row, 1).unwrap_or_default();
        if !points.is_empty() {
            // A damaged list ends early: what was read before the damage stands.
            let _ = decode_points(points, document, visit);
        }
    }

    /// The path of a document: its parts lie in blobs of their own.
    fn document_name(&self, row: u32) -> Option<String> {
        let mut reader = Reader::new(self.metadata.blob(Table::Document, row, 0)?);
        let separator = reader.byte()?;
        let mut name = Vec::new();
        for index in 0..NAME_PART_LIMIT {
            if reader.is_empty() {
                break;
            }
            if index > 0 && separator != 0 {
                name.push(separator);
            }
            let part = reader.compressed()?;
            if part != 0 {
                name.extend_from_slice(self.metadata.blob_at(part)?);
                // All parts may be one and the same blob.
                if name.len() > LONGEST_NAME {
                    return None;
                }
            }
        }
        Some(String::from_utf8_lossy(&name).into_owned())
    }
}

/// Decodes a sequence point blob (portable PDB specification, "Sequence Points Blob").
fn decode_points(blob: &[u8], document: u32, mut visit: impl FnMut(Point) -> bool) -> Option<()> {
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
        if !visit(Point { il_offset, document, line: u32::try_from(line).ok()? }) {
            break;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(blob: &[u8], document: u32) -> Vec<(u32, u32, u32)> {
        let mut all = Vec::new();
        let _ = decode_points(blob, document, |point| {
            all.push((point.il_offset, point.document, point.line));
            true
        });
        all
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
    }
}
