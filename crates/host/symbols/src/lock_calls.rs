//! The statements of a module that enter a `lock`.
//!
//! Up to .NET 9, `Monitor.Enter` is a helper of the runtime: it has no frame of its own, and the runtime's code below a method says nothing
//! about its purpose. The IL of the statement does.

use crate::bytes::Reader;
use crate::metadata::{Metadata, Table};
use crate::pe::PortableExecutable;
use std::collections::HashSet;

/// Calls kept of a module. No program has as many.
const MOST_CALLS: usize = 1 << 16;
/// Bytes of code read, at most this many times the length of the file: methods may claim the same code.
const MOST_CODE: usize = 2;

/// `call` (ECMA-335 III.3.19).
const CALL: u8 = 0x28;
/// `switch`: a count, then as many targets of four bytes.
const SWITCH: u8 = 0x45;
/// The first byte of instructions with two.
const LONG: u8 = 0xfe;

/// Calls of `Monitor.Enter`: row of the method and IL offset, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct LockCalls(Vec<(u32, u32)>);

impl LockCalls {
    /// Reads the code of all methods, if the module refers to `Monitor.Enter` at all.
    pub(crate) fn of(file: &PortableExecutable<'_>, metadata: &Metadata) -> LockCalls {
        let enter = tokens_of_enter(metadata);
        let mut calls = Vec::new();
        if !enter.is_empty() {
            let mut left = file.length().saturating_mul(MOST_CODE);
            for row in 1..=metadata.rows(Table::MethodDef) {
                let address = metadata.cell(Table::MethodDef, row, 0).unwrap_or(0);
                let Some(code) = file.starting_at(address).and_then(body) else { continue };
                let Some(rest) = left.checked_sub(code.len()) else { break };
                left = rest;
                let found = calls_in(code).filter(|(_, token)| enter.contains(token));
                calls.extend(found.map(|(offset, _)| (row, offset)).take(MOST_CALLS - calls.len()));
            }
        }
        LockCalls(calls)
    }

    /// Whether a method has such a call at an offset in this range.
    pub(crate) fn has(&self, row: u32, from: u32, to: u32) -> bool {
        let first = self.0.partition_point(|call| *call < (row, from));
        self.0.get(first).is_some_and(|(found, offset)| *found == row && *offset < to)
    }
}

/// The tokens by which a module refers to `System.Threading.Monitor.Enter`.
fn tokens_of_enter(metadata: &Metadata) -> HashSet<u32> {
    let is_monitor = |row: u32| {
        let is = |column, text: &[u8]| metadata.raw_text(Table::TypeRef, row, column) == Some(text);
        is(1, b"Monitor") && is(2, b"System.Threading")
    };
    let is_enter = |row: &u32| {
        // MemberRefParent: three bits for the table, 1 for TypeRef.
        let parent = metadata.cell(Table::MemberRef, *row, 0).filter(|parent| parent & 7 == 1);
        metadata.raw_text(Table::MemberRef, *row, 1) == Some(b"Enter")
            && parent.is_some_and(|parent| is_monitor(parent >> 3))
    };
    (1..=metadata.rows(Table::MemberRef)).filter(is_enter).map(|row| (Table::MemberRef as u32) << 24 | row).collect()
}

/// The code behind a method's header (ECMA-335 II.25.4).
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(bytes);
    let first = reader.byte()?;
    match first & 3 {
        2 => reader.take(usize::from(first >> 2)),
        3 => {
            reader.take(3)?;
            let length = reader.u32()? as usize;
            reader.take(4)?;
            reader.take(length)
        }
        _ => None,
    }
}

/// The `call` instructions of a method: IL offset and token. Ends at code that is damaged.
fn calls_in(code: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let mut reader = Reader::new(code);
    std::iter::from_fn(move || {
        loop {
            let offset = (code.len() - reader.rest().len()) as u32;
            let operation = reader.byte()?;
            match operation {
                CALL => return Some((offset, reader.u32()?)),
                SWITCH => {
                    let targets = reader.u32()? as usize;
                    reader.take(targets.checked_mul(4)?)?;
                }
                LONG => {
                    let operation = reader.byte()?;
                    reader.take(long_operand(operation))?;
                }
                _ => {
                    reader.take(operand(operation))?;
                }
            }
        }
    })
}

/// Bytes of the operand of an instruction (ECMA-335 III, tables of each instruction).
fn operand(operation: u8) -> usize {
    match operation {
        0x0e..=0x13 | 0x1f | 0x2b..=0x37 | 0xde => 1,
        0x21 | 0x23 => 8,
        0x20 | 0x22 | 0x27..=0x29 | 0x38..=0x44 | 0x6f..=0x75 | 0x79 | 0x7b..=0x81 | 0x8c | 0x8d | 0x8f => 4,
        0xa3..=0xa5 | 0xc2 | 0xc6 | 0xd0 | 0xdd => 4,
        _ => 0,
    }
}

/// The same for the second byte of an instruction with two.
fn long_operand(operation: u8) -> usize {
    match operation {
        0x06 | 0x07 | 0x15 | 0x16 | 0x1c => 4,
        0x09..=0x0e => 2,
        0x12 | 0x19 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_behind_instructions_of_every_length() {
        let call = [CALL, 7, 0, 0, 10];
        let skipped: [&[u8]; 8] = [
            &[0x00],
            &[0x1f, CALL],
            &[0x20, CALL, CALL, CALL, CALL],
            &[0x21, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL],
            &[0x73, CALL, 0, 0, 6],
            &[SWITCH, 2, 0, 0, 0, CALL, CALL, CALL, CALL, CALL, CALL, CALL, CALL],
            &[LONG, 0x16, CALL, 0, 0, 1],
            &[LONG, 0x0c, CALL, CALL],
        ];
        for before in skipped {
            let code = [before, &call].concat();
            assert_eq!(calls_in(&code).collect::<Vec<_>>(), [(before.len() as u32, 0x0a00_0007)], "{before:x?}");
        }
        for cut in 0..call.len() {
            assert_eq!(calls_in(&call[..cut]).count(), 0);
        }
        assert_eq!(calls_in(&[SWITCH, 0xff, 0xff, 0xff, 0xff, 0]).count(), 0);
    }

    #[test]
    fn the_code_of_a_method_begins_behind_its_header() {
        assert_eq!(body(&[2 << 2 | 2, 1, 2, 3]), Some(&[1, 2][..]));
        assert_eq!(body(&[0x13, 0x30, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]), Some(&[1, 2][..]));
        assert_eq!(
            (body(&[3 << 2 | 2, 1, 2]), body(&[0x13, 0x30, 8, 0, 2]), body(&[0, 1]), body(&[])),
            (None, None, None, None)
        );
    }

    #[test]
    fn a_call_belongs_to_the_statement_whose_range_has_it() {
        let calls = LockCalls(vec![(1, 9), (2, 4), (2, 30)]);
        let found = [(1, 0, 9), (1, 0, 10), (1, 10, 99), (2, 0, 4), (2, 5, 30), (2, 5, 31), (3, 0, 99)];
        assert_eq!(
            found.map(|(row, from, to)| calls.has(row, from, to)),
            [false, true, false, false, false, true, false]
        );
    }
}
