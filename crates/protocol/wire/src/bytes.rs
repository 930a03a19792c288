//! Little-endian writing and bounded reading of the few types that the wire needs.

use crate::char_boundary::floor_char_boundary;

/// The bytes have another form than expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("a message between Remora and its agent is malformed")
    }
}

impl std::error::Error for Malformed {}

/// Appends values.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A text, cut at 65,535 bytes on a character boundary.
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        let length = floor_char_boundary(value, usize::from(u16::MAX));
        self.u32(length as u32);
        self.bytes.extend_from_slice(&value.as_bytes()[..length]);
        self
    }

    /// A list of numbers, cut at 65,535.
    pub(crate) fn list(&mut self, values: &[u32]) -> &mut Self {
        let values = &values[..values.len().min(usize::from(u16::MAX))];
        self.u32(values.len() as u32);
        for &value in values {
            self.u32(value);
        }
        self
    }
}

/// Takes values from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number that is at most `limit`.
    pub(crate) fn at_most(&mut self, limit: u32) -> Result<u32, Malformed> {
        Some(self.u32()?).filter(|number| *number <= limit).ok_or(Malformed)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.u32()? as usize;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    pub(crate) fn list(&mut self) -> Result<Vec<u32>, Malformed> {
        let length = self.u32()? as usize;
        let mut values = Reader::new(self.take(length.checked_mul(4).ok_or(Malformed)?)?);
        (0..length).map(|_| values.u32()).collect()
    }
}
