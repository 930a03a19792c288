//! Writes the sections, and checksums them block by block.

use super::layout::BLOCK;
use crate::Error;
use std::io::Write;

/// Receives the sections one after the other.
pub(super) struct Sink<'a> {
    out: &'a mut dyn Write,
    /// Called before each block; false cancels.
    goes_on: &'a dyn Fn() -> bool,
    block: Vec<u8>,
    sums: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(out: &'a mut dyn Write, goes_on: &'a dyn Fn() -> bool) -> Sink<'a> {
        Sink { out, goes_on, block: Vec::with_capacity(BLOCK as usize), sums: Vec::new() }
    }

    /// Writes bytes outside of blocks.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(Error::Write)
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK as usize - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK as usize {
                self.put_block()?;
            }
        }
        Ok(())
    }

    pub(super) fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> Result<(), Error> {
        numbers.into_iter().try_for_each(|number| self.put(&number.to_le_bytes()))
    }

    /// Writes the remaining bytes, and all checksums.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        if !self.block.is_empty() {
            self.put_block()?;
        }
        let of_all = crc32fast::hash(&self.sums);
        self.sums.extend_from_slice(&of_all.to_le_bytes());
        self.out.write_all(&self.sums).and_then(|()| self.out.flush()).map_err(Error::Write)
    }

    fn put_block(&mut self) -> Result<(), Error> {
        if !(self.goes_on)() {
            return Err(Error::Interrupted);
        }
        self.sums.extend_from_slice(&crc32fast::hash(&self.block).to_le_bytes());
        self.out.write_all(&self.block).map_err(Error::Write)?;
        self.block.clear();
        Ok(())
    }
}
