//! A method body: its header, its code, its exception clauses.

use crate::Error;
use alloc::vec::Vec;

/// The header has the fat form.
const FAT: u8 = 3;
/// The header has the tiny form.
const TINY: u8 = 2;
/// A fat header is followed by sections behind the code.
const MORE_SECTIONS: u16 = 0x08;
/// The locals begin as zeros.
const INIT_LOCALS: u16 = 0x10;
/// Bytes of a fat header.
const FAT_HEADER: usize = 12;
/// The stack that a tiny header stands for.
const TINY_STACK: u16 = 8;
/// A section of exception clauses.
const CLAUSES: u8 = 1;
/// A section with clauses of 24 bytes instead of 12.
const FAT_SECTION: u8 = 0x40;
/// Another section follows.
const ANOTHER_SECTION: u8 = 0x80;
/// Sections that a body may have: the runtime itself reads one.
const MOST_SECTIONS: usize = 4;

/// A method body as the runtime has it in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body<'a> {
    /// Places of its evaluation stack.
    pub max_stack: u16,
    /// Whether locals begin as zeros.
    pub init_locals: bool,
    /// The token of the signature of its locals; 0 if it has none.
    pub locals: u32,
    /// Its instructions.
    pub code: &'a [u8],
    /// Its exception clauses, inner ones first.
    pub clauses: Vec<Clause>,
}

/// An exception clause. All offsets count from the beginning of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause {
    /// The protected region.
    pub protected: (usize, usize),
    /// The region of the handler.
    pub handled: (usize, usize),
    /// What the handler is for.
    pub handler: Handler,
}

/// The kinds of handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handler {
    /// Exceptions of a type, by its token.
    Catch(u32),
    /// Exceptions that the filter at this offset chooses.
    Filter(usize),
    /// Every exit.
    Finally,
    /// Every exit by an exception.
    Fault,
}

impl<'a> Body<'a> {
    /// Reads a body. `bytes` may be longer than the body.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Header`].
    pub fn read(bytes: &'a [u8]) -> Result<Body<'a>, Error> {
        let first = *bytes.first().ok_or(Error::Truncated)?;
        match first & 3 {
            TINY => {
                let code = bytes.get(1..1 + usize::from(first >> 2)).ok_or(Error::Truncated)?;
                Ok(Body { max_stack: TINY_STACK, init_locals: false, locals: 0, code, clauses: Vec::new() })
            }
            FAT => Body::read_fat(bytes),
            _ => Err(Error::Header),
        }
    }

    fn read_fat(bytes: &'a [u8]) -> Result<Body<'a>, Error> {
        let flags = short(bytes, 0)?;
        if flags >> 12 != 3 {
            return Err(Error::Header);
        }
        let length = long(bytes, 4)? as usize;
        let end = FAT_HEADER.checked_add(length).ok_or(Error::Truncated)?;
        let code = bytes.get(FAT_HEADER..end).ok_or(Error::Truncated)?;
        let mut body = Body {
            max_stack: short(bytes, 2)?,
            init_locals: flags & INIT_LOCALS != 0,
            locals: long(bytes, 8)?,
            code,
            clauses: Vec::new(),
        };
        if flags & MORE_SECTIONS != 0 {
            read_sections(bytes, end, &mut body.clauses)?;
        }
        Ok(body)
    }

    /// The body in the fat form, which can express every other one.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn write(&self) -> Result<Vec<u8>, Error> {
        let length = u32::try_from(self.code.len()).map_err(|_| Error::TooLarge)?;
        let mut flags = 0x3000 | u16::from(FAT);
        flags |= if self.init_locals { INIT_LOCALS } else { 0 };
        flags |= if self.clauses.is_empty() { 0 } else { MORE_SECTIONS };
        let mut bytes = Vec::with_capacity(FAT_HEADER + self.code.len() + 8 + self.clauses.len() * 24);
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&self.max_stack.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.locals.to_le_bytes());
        bytes.extend_from_slice(self.code);
        if self.clauses.is_empty() {
            return Ok(bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let section = u32::try_from(4 + self.clauses.len() * 24).map_err(|_| Error::TooLarge)?;
        if section >> 24 != 0 {
            return Err(Error::TooLarge);
        }
        bytes.extend_from_slice(&(section << 8 | u32::from(CLAUSES | FAT_SECTION)).to_le_bytes());
        for clause in &self.clauses {
            clause.write(&mut bytes)?;
        }
        Ok(bytes)
    }
}

impl Clause {
    fn of(kind: u32, protected: (usize, usize), handled: (usize, usize), last: u32) -> Result<Clause, Error> {
        let region = |(begin, length): (usize, usize)| Some((begin, begin.checked_add(length)?));
        // `COR_ILEXCEPTION_CLAUSE_DUPLICATED` (8) is the runtime's own mark.
        let handler = match kind {
            0 => Handler::Catch(last),
            1 => Handler::Filter(last as usize),
            2 => Handler::Finally,
            4 => Handler::Fault,
            _ => return Err(Error::Header),
        };
        let (protected, handled) = region(protected).zip(region(handled)).ok_or(Error::Boundary)?;
        Ok(Clause { protected, handled, handler })
    }

    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let (kind, last) = match self.handler {
            Handler::Catch(token) => (0, token as usize),
            Handler::Filter(offset) => (1, offset),
            Handler::Finally => (2, 0),
            Handler::Fault => (4, 0),
        };
        let length = |(begin, end): (usize, usize)| end.checked_sub(begin).ok_or(Error::Boundary);
        let (protected, handled) = (length(self.protected)?, length(self.handled)?);
        for word in [kind, self.protected.0, protected, self.handled.0, handled, last] {
            bytes.extend_from_slice(&u32::try_from(word).map_err(|_| Error::TooLarge)?.to_le_bytes());
        }
        Ok(())
    }
}

fn read_sections(bytes: &[u8], code_end: usize, clauses: &mut Vec<Clause>) -> Result<(), Error> {
    let mut at = code_end;
    for _ in 0..MOST_SECTIONS {
        at = at.checked_next_multiple_of(4).ok_or(Error::Truncated)?;
        let head = long(bytes, at)?;
        let kind = (head & 0xFF) as u8;
        let is_fat = kind & FAT_SECTION != 0;
        let length = if is_fat { (head >> 8) as usize } else { (head >> 8 & 0xFF) as usize };
        let end = at.checked_add(length.max(4)).ok_or(Error::Truncated)?;
        let content = bytes.get(at + 4..end).ok_or(Error::Truncated)?;
        if kind & 0x3F == CLAUSES {
            read_clauses(content, is_fat, clauses)?;
        }
        if kind & ANOTHER_SECTION == 0 {
            return Ok(());
        }
        at = end;
    }
    Err(Error::Header)
}

fn read_clauses(content: &[u8], is_fat: bool, clauses: &mut Vec<Clause>) -> Result<(), Error> {
    for clause in content.chunks_exact(if is_fat { 24 } else { 12 }) {
        let word = |at| long(clause, at).map(|word| word as usize);
        let half = |at| short(clause, at).map(usize::from);
        let byte = |at: usize| clause.get(at).map(|byte| usize::from(*byte)).ok_or(Error::Truncated);
        clauses.push(if is_fat {
            Clause::of(long(clause, 0)?, (word(4)?, word(8)?), (word(12)?, word(16)?), long(clause, 20)?)?
        } else {
            Clause::of(half(0)? as u32, (half(2)?, byte(4)?), (half(5)?, byte(7)?), long(clause, 8)?)?
        });
    }
    Ok(())
}

fn short(bytes: &[u8], at: usize) -> Result<u16, Error> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Error::Truncated)?;
    Ok(u16::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Error::Truncated)?;
    Ok(u32::from_le_bytes(*bytes))
}
