//! Bounded reading of numbers and bytes that are not trusted.

use crate::LONGEST_NUMBER;

/// The bytes are no stream of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("the heap stream from Remora's agent is malformed")
    }
}

impl std::error::Error for Malformed {}

/// Why a record was not read.
pub(crate) enum Stop {
    /// More bytes are needed.
    Short,
    /// It is invalid.
    Bad,
}

/// Takes numbers from the front.
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl Reader<'_> {
    /// Whether everything has been taken.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn number(&mut self) -> Result<u64, Stop> {
        let mut value = 0_u64;
        for index in 0..LONGEST_NUMBER {
            let byte = *self.bytes.get(self.at + index).ok_or(Stop::Short)?;
            let bits = u64::from(byte & 0x7f);
            if index == LONGEST_NUMBER - 1 && bits > 1 {
                return Err(Stop::Bad);
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(Stop::Bad)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&[u8], Stop> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.get(..count)).ok_or(Stop::Short)?;
        self.at += count;
        Ok(bytes)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Stop> {
        u32::try_from(self.number()?).map_err(|_| Stop::Bad)
    }
}
