//! Portable PDBs: the source line of an IL offset, and the method of a state machine.
//!
//! A PDB is opened only for a module, and only if it has the module's own id: another one would give wrong lines. Windows PDBs are refused.
//! Sequence points are decoded per method on demand, and cached.

use crate::bytes::Reader;
use crate::error::SymbolError;
use crate::metadata::{Metadata, Table, row_of};
use crate::pe::CodeView;
use crate::points::{KeptPoints, Point, Points};
use std::sync::OnceLock;

/// Maximum number of parts of a document name.
const NAME_PART_LIMIT: usize = 4096;
/// Maximum bytes of a document's path: nobody can open a longer one.
const LONGEST_NAME: usize = 4096;

/// The portable PDB of a module.
pub struct PortablePdb {
    metadata: Metadata,
    points: KeptPoints,
    /// Methods with a state machine, each with the row of its MoveNext. Built on the first search, because the table has another order.
    machines: OnceLock<Vec<(u32, u32)>>,
}

impl PortablePdb {
    /// Opens the PDB that `expected` describes; refuses any other.
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
        Ok(PortablePdb { metadata, points: KeptPoints::default(), machines: OnceLock::new() })
    }

    /// The document and line of an IL offset of a method, from the last visible sequence point at or before it.
    ///
    /// A hidden point (code without a line) keeps the line before it, as in the runtime's own stack traces. Before the first visible point
    /// there is no line. For a caller's frame pass the offset of the call, not of the instruction after it.
    pub fn line(&self, method_token: u32, il_offset: u32) -> Option<(String, u32)> {
        self.located(self.points_of(row_of(method_token, Table::MethodDef)?).at(il_offset)?)
    }

    /// The start of a method: its first visible sequence point. For a method with a state machine, that machine's.
    pub fn first_line(&self, method_token: u32) -> Option<(String, u32)> {
        let row = row_of(method_token, Table::MethodDef)?;
        let first = |row| self.points_of(row).first();
        self.located(first(row).or_else(|| first(self.move_next_of(row)?))?)
    }

    /// The method in the source, for the MoveNext of a state machine (both are MethodDef tokens).
    pub fn kickoff_method(&self, move_next_token: u32) -> Option<u32> {
        let rows = self.metadata.equal_rows(Table::StateMachineMethod, 0, row_of(move_next_token, Table::MethodDef)?);
        let row = self.metadata.cell(Table::StateMachineMethod, rows.into_iter().next()?, 1)?;
        Some((Table::MethodDef as u32) << 24 | row)
    }

    fn move_next_of(&self, kickoff: u32) -> Option<u32> {
        let machines = self.machines.get_or_init(|| {
            let row_of = |row| {
                let cell = |column| self.metadata.cell(Table::StateMachineMethod, row, column);
                Some((cell(1)?, cell(0)?))
            };
            let mut all: Vec<(u32, u32)> =
                (1..=self.metadata.rows(Table::StateMachineMethod)).filter_map(row_of).collect();
            all.sort_by_key(|(kickoff, _)| *kickoff);
            all
        });
        let (found, move_next) = machines.get(machines.partition_point(|(known, _)| *known < kickoff))?;
        (*found == kickoff).then_some(*move_next)
    }

    /// The IL offsets of the statement at an offset: the first one, and that of the next statement.
    pub(crate) fn statement(&self, row: u32, il_offset: u32) -> Option<(u32, u32)> {
        self.points_of(row).around(il_offset)
    }

    fn located(&self, point: Point) -> Option<(String, u32)> {
        Some((self.document_name(point.document)?, point.line))
    }

    /// The visible points of a method.
    fn points_of(&self, row: u32) -> Points {
        self.points.of(row, || {
            let document = self.metadata.cell(Table::MethodDebugInformation, row, 0).unwrap_or(0);
            let blob = self.metadata.blob(Table::MethodDebugInformation, row, 1).unwrap_or_default();
            Points::decode(blob, document)
        })
    }

    /// The path of a document: its parts are separate blobs.
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
                // All parts may be the same blob.
                if name.len() > LONGEST_NAME {
                    return None;
                }
            }
        }
        Some(String::from_utf8_lossy(&name).into_owned())
    }
}
