//! The instructions of a body, one after the other.

use crate::Error;

/// `jmp`.
pub(crate) const JMP: u16 = 0x27;
/// `ret`.
pub(crate) const RET: u16 = 0x2A;
/// The first short branch, `br.s`. The long ones follow the short ones in the same order.
const BR_S: u16 = 0x2B;
/// `br`.
const BR: u16 = 0x38;
/// `leave`.
pub(crate) const LEAVE: u16 = 0xDD;
/// `leave.s`.
const LEAVE_S: u16 = 0xDE;
/// `tail.`.
pub(crate) const TAIL: u16 = 0xFE14;

/// What follows an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand<'a> {
    /// Bytes that keep their meaning wherever the instruction is.
    Plain(&'a [u8]),
    /// A branch in the short form: the offset of its target.
    Short(usize),
    /// A branch in the long form: the offset of its target.
    Long(usize),
    /// The offsets of a switch's targets, as 32-bit distances from the end of the instruction.
    Switch(&'a [u8]),
}

/// An instruction. A prefix is an instruction, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Where it begins.
    pub offset: usize,
    /// Where the next one begins.
    pub end: usize,
    /// Its opcode; those of two bytes begin with 0xFE.
    pub opcode: u16,
    /// Its operand.
    pub operand: Operand<'a>,
}

impl Instruction<'_> {
    /// The opcode of the long form of this branch.
    pub(crate) fn long_form(&self) -> u16 {
        match self.opcode {
            LEAVE_S => LEAVE,
            short @ BR_S..=0x37 => short - BR_S + BR,
            other => other,
        }
    }
}

/// Reads the instructions of a body; ends after the first error.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Instructions<'a> {
    /// The instructions of `code`.
    pub fn of(code: &'a [u8]) -> Instructions<'a> {
        Instructions { code, at: 0 }
    }

    fn next_one(&mut self) -> Result<Instruction<'a>, Error> {
        let offset = self.at;
        let first = u16::from(self.take(1)?[0]);
        let opcode = if first == 0xFE { 0xFE00 | u16::from(self.take(1)?[0]) } else { first };
        let operand = match opcode {
            BR_S..=0x37 | LEAVE_S => {
                let distance = i64::from(self.take(1)?[0] as i8);
                Operand::Short(target(self.at, distance)?)
            }
            BR..=0x44 | LEAVE => {
                let distance = i64::from(self.int()?);
                Operand::Long(target(self.at, distance)?)
            }
            0x45 => {
                let count = u32::from_le_bytes(self.int()?.to_le_bytes()) as usize;
                Operand::Switch(self.take(count.checked_mul(4).ok_or(Error::Truncated)?)?)
            }
            other => Operand::Plain(self.take(plain_operand(other)?)?),
        };
        Ok(Instruction { offset, end: self.at, opcode, operand })
    }

    fn int(&mut self) -> Result<i32, Error> {
        let bytes = self.take(4)?;
        bytes.try_into().map(i32::from_le_bytes).map_err(|_| Error::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(length).ok_or(Error::Truncated)?;
        let taken = self.code.get(self.at..end).ok_or(Error::Truncated)?;
        self.at = end;
        Ok(taken)
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.code.len() {
            return None;
        }
        let next = self.next_one();
        if next.is_err() {
            self.at = self.code.len();
        }
        Some(next)
    }
}

/// The offset that lies `distance` behind `end`.
pub(crate) fn target(end: usize, distance: i64) -> Result<usize, Error> {
    usize::try_from(end as i64 + distance).map_err(|_| Error::Boundary)
}

/// The length of the operand of an opcode that is no branch: ECMA-335 III, and `opcode.def` of dotnet/runtime, which agrees.
fn plain_operand(opcode: u16) -> Result<usize, Error> {
    Ok(match opcode {
        0x00..=0x0D | 0x14..=0x1E | 0x25 | 0x26 | 0x2A | 0x46..=0x6E | 0x76 | 0x7A => 0,
        0x82..=0x8B | 0x8E | 0x90..=0xA2 | 0xB3..=0xBA | 0xC3 | 0xD1..=0xDC | 0xDF | 0xE0 => 0,
        0x0E..=0x13 | 0x1F => 1,
        0x20 | 0x22 | 0x27..=0x29 | 0x6F..=0x75 | 0x79 | 0x7B..=0x81 | 0x8C | 0x8D | 0x8F | 0xA3..=0xA5 => 4,
        0xC2 | 0xC6 | 0xD0 => 4,
        0x21 | 0x23 => 8,
        0xFE00..=0xFE05 | 0xFE0F | 0xFE11 | 0xFE13 | 0xFE14 | 0xFE17 | 0xFE18 | 0xFE1A | 0xFE1D | 0xFE1E => 0,
        0xFE12 | 0xFE19 => 1,
        0xFE09..=0xFE0E => 2,
        0xFE06 | 0xFE07 | 0xFE15 | 0xFE16 | 0xFE1C => 4,
        unknown => return Err(Error::Opcode(unknown)),
    })
}
