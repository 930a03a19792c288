//! Recorded calls.

use super::memory;
use crate::Foreign;
use crate::bytes::{Malformed, Reader, Writer};

/// A value of an argument or result.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceValue {
    /// `true` or `false`.
    Bool(bool),
    /// A UTF-16 unit.
    Char(u16),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// The beginning of a string, and its length in UTF-16 units.
    Text(String, u32),
    /// A null string.
    Null,
    /// The 16 bytes of a structure, in little-endian order.
    Wide(u128),
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRecord {
    /// The number of the method.
    pub method: u32,
    /// Whether an exception ended it.
    pub is_thrown: bool,
    /// The thread.
    pub thread: u32,
    /// Monotonic time of its beginning, nanoseconds.
    pub begin: u64,
    /// Nanoseconds.
    pub duration: u64,
    /// Ids of the functions on its stack, itself first.
    pub stack: Vec<u64>,
    /// Arguments by position, from zero; the result has [`RESULT`].
    pub values: Vec<(u8, TraceValue)>,
}

/// The position of a result in [`TraceRecord::values`].
pub const RESULT: u8 = u8::MAX;

/// Functions in a record's stack.
pub const MOST_FRAMES: usize = 48;

/// Values in a record.
pub const MOST_VALUES: usize = 24;

/// Bytes of a text in a record.
pub const LONGEST_TEXT: usize = 256;

impl TraceRecord {
    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.method).u8(self.is_thrown.into()).u32(self.thread).u64(self.begin).u64(self.duration);
        writer.u8(self.stack.len().min(MOST_FRAMES) as u8);
        self.stack.iter().take(MOST_FRAMES).for_each(|function| _ = writer.u64(*function));
        writer.u8(self.values.len().min(MOST_VALUES) as u8);
        for (position, value) in self.values.iter().take(MOST_VALUES) {
            writer.u8(*position);
            match value {
                TraceValue::Bool(value) => writer.u8(0).u8((*value).into()),
                TraceValue::Char(value) => writer.u8(1).u32((*value).into()),
                TraceValue::Signed(value) => writer.u8(2).u64(*value as u64),
                TraceValue::Unsigned(value) => writer.u8(3).u64(*value),
                TraceValue::Float(value) => writer.u8(4).u64(value.to_bits()),
                TraceValue::Text(text, length) => {
                    let kept = crate::floor_char_boundary(text, LONGEST_TEXT);
                    writer.u8(5).u32(*length).text(&text[..kept])
                }
                TraceValue::Null => writer.u8(6),
                TraceValue::Wide(bits) => writer.u8(7).u64(*bits as u64).u64((bits >> 64) as u64),
            };
        }
        writer.bytes
    }

    /// Reads what [`TraceRecord::encode`] wrote, and ignores what follows.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: Foreign<&[u8]>) -> Result<TraceRecord, Malformed> {
        let mut reader = Reader::new(bytes.unchecked());
        let method = reader.at_most(memory::MOST_METHODS as u32 - 1)?;
        let is_thrown = reader.u8()? != 0;
        let thread = reader.at_most(crate::control::HIGHEST_ID)?;
        let (begin, duration) = (reader.u64()?, reader.u64()?);
        let frames = usize::from(reader.u8()?);
        if frames > MOST_FRAMES {
            return Err(Malformed);
        }
        let stack = (0..frames).map(|_| reader.u64()).collect::<Result<_, _>>()?;
        let count = usize::from(reader.u8()?);
        if count > MOST_VALUES {
            return Err(Malformed);
        }
        let values = (0..count).map(|_| Ok((reader.u8()?, value(&mut reader)?))).collect::<Result<_, _>>()?;
        Ok(TraceRecord { method, is_thrown, thread, begin, duration, stack, values })
    }
}

fn value(reader: &mut Reader<'_>) -> Result<TraceValue, Malformed> {
    Ok(match reader.u8()? {
        0 => TraceValue::Bool(reader.u8()? != 0),
        1 => TraceValue::Char(reader.u32()? as u16),
        2 => TraceValue::Signed(reader.u64()? as i64),
        3 => TraceValue::Unsigned(reader.u64()?),
        4 => TraceValue::Float(f64::from_bits(reader.u64()?)),
        5 => {
            let length = reader.u32()?;
            let text = reader.text()?;
            if text.len() > LONGEST_TEXT * 3 {
                return Err(Malformed);
            }
            TraceValue::Text(text, length)
        }
        6 => TraceValue::Null,
        7 => TraceValue::Wide(u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64),
        _ => return Err(Malformed),
    })
}
