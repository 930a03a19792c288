//! Reads and writes primitive fields of a payload: integers, and UTF-16 strings whose length includes a final zero.
//!
//! Writing never fails (the message's size is checked as a whole); reading past the end fails.

use super::CodecError;
use remora_symbols::TargetText;

/// Appends a string: its length in UTF-16 units including the final zero, then the units.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    out.extend_from_slice(&u32::try_from(units.len()).unwrap_or(u32::MAX).to_le_bytes());
    units.iter().for_each(|unit| out.extend_from_slice(&unit.to_le_bytes()));
}

/// A position in a payload.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let end = self.at.saturating_add(count);
        let taken = self.bytes.get(self.at..end).ok_or(CodecError::Truncated { need: end, have: self.bytes.len() })?;
        self.at = end;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A 16-bit number.
    pub(super) fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_le_bytes)
    }

    /// A 32-bit number.
    pub(super) fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A 64-bit number.
    pub(super) fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A string: invalid UTF-16 becomes U+FFFD, the final zero is dropped, and may be missing.
    pub(super) fn string(&mut self) -> Result<TargetText, CodecError> {
        let units = self.u32()? as usize;
        let bytes = self.take(units.saturating_mul(2))?;
        let mut units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        if units.last() == Some(&0) {
            units.pop();
        }
        Ok(String::from_utf16_lossy(&units).into())
    }
}
