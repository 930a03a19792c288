//! Reads parts of the sections: whole blocks, each verified by its checksum.

use super::layout::{BLOCK, Counts, HEADER};
use super::{numbers, of_short_file};
use crate::Error;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The sections in a file.
#[derive(Debug)]
pub(super) struct Blocks {
    file: File,
    /// Bytes of all sections.
    data: u64,
    sums: Vec<u32>,
}

impl Blocks {
    /// Checks the file's length against `counts`, and reads the checksums of its blocks.
    pub(super) fn open(file: File, counts: Counts) -> Result<Blocks, Error> {
        let length = file.metadata().map_err(Error::Read)?.len();
        if length != counts.file() {
            return Err(Error::Damaged("it is not as long as it has to be"));
        }
        // At most a four-thousandth of the existing file.
        let mut table = vec![0; counts.blocks() as usize * 4 + 4];
        file.read_exact_at(&mut table, HEADER as u64 + counts.data()).map_err(of_short_file)?;
        let mut sums: Vec<u32> = numbers::all(&table).collect();
        let of_all = crc32fast::hash(&table[..table.len() - 4]);
        if sums.pop() != Some(of_all) {
            return Err(Error::Damaged("the checksums of its blocks are damaged"));
        }
        Ok(Blocks { file, data: counts.data(), sums })
    }

    /// The bytes in `range`, which is within the sections.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let (first, last) = (range.start / BLOCK, (range.end - 1) / BLOCK);
        let begin = first * BLOCK;
        let mut bytes = vec![0; (((last + 1) * BLOCK).min(self.data) - begin) as usize];
        self.file.read_exact_at(&mut bytes, HEADER as u64 + begin).map_err(of_short_file)?;
        for (block, sum) in bytes.chunks(BLOCK as usize).zip(&self.sums[first as usize..]) {
            if crc32fast::hash(block) != *sum {
                return Err(Error::Damaged("the checksum of a block is wrong"));
            }
        }
        bytes.truncate((range.end - begin) as usize);
        bytes.drain(..(range.start - begin) as usize);
        Ok(bytes)
    }
}
