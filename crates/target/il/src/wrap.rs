//! Wraps a body in probes.
//!
//! The new body is
//! ```text
//!     before
//!     .try { the old body, each `ret` as `stloc result; leave AFTER` } fault { on_exception; endfinally }
//! AFTER:
//!     after; ldloc result; ret
//! ```
//! All branches get their long form, because distances grow. Marks stand before single instructions of the old body.

use crate::instructions::{Instruction, Instructions, JMP, LEAVE, Operand, RET, TAIL, target};
use crate::{Assembler, Body, Clause, Error, Handler};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// `endfinally`.
const ENDFINALLY: u8 = 0xDC;
/// Bytes of a `leave`.
const LEAVE_LENGTH: usize = 5;
/// Bytes of a `stloc` with a 16-bit number.
const STORE_LENGTH: usize = 4;
/// The largest body that is wrapped. A larger one takes the JIT seconds.
const LARGEST: usize = 4 << 20;

/// What to put around a body.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Runs first, outside of the protected region.
    pub before: Assembler,
    /// Runs when an exception leaves the body.
    pub on_exception: Assembler,
    /// Runs when the body has returned.
    pub after: Assembler,
    /// The local for the result; `None` for `void`.
    pub result: Option<u16>,
    /// The token of the signature of all locals.
    pub locals: u32,
    /// Runs before an instruction of the body, by its offset. A branch to the instruction comes here first.
    pub marks: BTreeMap<usize, Assembler>,
    /// Places of the evaluation stack that the probes need.
    pub max_stack: u16,
}

/// Wraps a body.
///
/// # Errors
/// [`Error`]: the body is not understood, or has an instruction that cannot be inside a protected region.
pub fn wrap(body: &Body<'_>, probes: &Probes) -> Result<Vec<u8>, Error> {
    if body.code.len() > LARGEST {
        return Err(Error::TooLarge);
    }
    let begin = probes.before.code().len();
    let places = Places::of(body, begin, probes)?;
    let body_end = places.end;
    let after = body_end + probes.on_exception.code().len() + 1;
    let mut code = Vec::with_capacity(after + probes.after.code().len() + STORE_LENGTH + 1);
    code.extend_from_slice(probes.before.code());
    for instruction in Instructions::of(body.code) {
        let instruction = instruction?;
        if let Some(mark) = probes.marks.get(&instruction.offset) {
            code.extend_from_slice(mark.code());
        }
        write(&instruction, &places, probes.result, after, &mut code)?;
    }
    code.extend_from_slice(probes.on_exception.code());
    code.push(ENDFINALLY);
    code.extend_from_slice(probes.after.code());
    if let Some(result) = probes.result {
        code.extend_from_slice(Assembler::default().ldloc(result).code());
    }
    code.push(RET as u8);
    let mut clauses = body.clauses.iter().map(|clause| places.moved(clause)).collect::<Result<Vec<_>, _>>()?;
    // The outermost one comes last.
    clauses.push(Clause { protected: (begin, body_end), handled: (body_end, after), handler: Handler::Fault });
    // A mark comes on top of what the body has on the stack there.
    let marked = if probes.marks.is_empty() { 0 } else { body.max_stack };
    let max_stack = body.max_stack.max(marked.saturating_add(probes.max_stack)).max(1);
    Body { max_stack, init_locals: body.init_locals, locals: probes.locals, code: &code, clauses }.write()
}

/// Where each instruction moves to.
struct Places {
    /// Old and new offset of each instruction, in order.
    moves: Vec<(u32, u32)>,
    old_end: usize,
    end: usize,
}

impl Places {
    fn of(body: &Body<'_>, begin: usize, probes: &Probes) -> Result<Places, Error> {
        let mut moves = Vec::with_capacity(body.code.len() / 2);
        let mut at = begin;
        for instruction in Instructions::of(body.code) {
            let instruction = instruction?;
            match instruction.opcode {
                TAIL => return Err(Error::TailCall),
                JMP => return Err(Error::Jump),
                _ => {}
            }
            moves.push((instruction.offset as u32, at as u32));
            at += probes.marks.get(&instruction.offset).map_or(0, |mark| mark.code().len());
            at += length(&instruction, probes.result);
        }
        Ok(Places { moves, old_end: body.code.len(), end: at })
    }

    /// The new offset of an instruction.
    fn place(&self, old: usize) -> Result<usize, Error> {
        let index = self.moves.binary_search_by_key(&old, |(old, _)| *old as usize).map_err(|_| Error::Boundary)?;
        Ok(self.moves[index].1 as usize)
    }

    /// The new offset of the end of a region.
    fn end_of(&self, old: usize) -> Result<usize, Error> {
        if old == self.old_end { Ok(self.end) } else { self.place(old) }
    }

    fn moved(&self, clause: &Clause) -> Result<Clause, Error> {
        let region = |(begin, end)| Ok((self.place(begin)?, self.end_of(end)?));
        let handler = match clause.handler {
            Handler::Filter(offset) => Handler::Filter(self.place(offset)?),
            other => other,
        };
        Ok(Clause { protected: region(clause.protected)?, handled: region(clause.handled)?, handler })
    }
}

/// The new length of an instruction.
fn length(instruction: &Instruction<'_>, result: Option<u16>) -> usize {
    match instruction.operand {
        Operand::Short(_) => 5,
        _ if instruction.opcode == RET => LEAVE_LENGTH + result.map_or(0, |_| STORE_LENGTH),
        _ => instruction.end - instruction.offset,
    }
}

/// Appends the new form of an instruction. `after` is where the body's end continues.
fn write(
    instruction: &Instruction<'_>,
    places: &Places,
    result: Option<u16>,
    after: usize,
    code: &mut Vec<u8>,
) -> Result<(), Error> {
    let opcode = instruction.long_form();
    if opcode == RET {
        if let Some(result) = result {
            code.extend_from_slice(Assembler::default().stloc(result).code());
        }
        code.push(LEAVE as u8);
        return branch_to(after, code.len() + 4, code);
    }
    if opcode > 0xFF {
        code.push((opcode >> 8) as u8);
    }
    code.push((opcode & 0xFF) as u8);
    match instruction.operand {
        Operand::Plain(bytes) => {
            code.extend_from_slice(bytes);
            Ok(())
        }
        Operand::Short(old) | Operand::Long(old) => branch_to(places.place(old)?, code.len() + 4, code),
        Operand::Switch(distances) => {
            code.extend_from_slice(&((distances.len() / 4) as u32).to_le_bytes());
            let end = code.len() + distances.len();
            for distance in distances.as_chunks::<4>().0 {
                let old = target(instruction.end, i64::from(i32::from_le_bytes(*distance)))?;
                branch_to(places.place(old)?, end, code)?;
            }
            Ok(())
        }
    }
}

/// Appends the distance from `end` to `place`.
fn branch_to(place: usize, end: usize, code: &mut Vec<u8>) -> Result<(), Error> {
    let distance = i32::try_from(place as i64 - end as i64).map_err(|_| Error::TooLarge)?;
    code.extend_from_slice(&distance.to_le_bytes());
    Ok(())
}
