//! A file that is read in blocks, without a call of the system for each piece of some bytes.
//!
//! Blocks are kept: the names of a large library lie in another place than the table that tells where they are, and come in any order.
//! With one block at a time, a look at libstdc++ read 300 MB.

use object::read::ReadCacheOps;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once.
const BLOCK: u64 = 64 << 10;
/// Blocks that are kept; with more, all are read anew. The tables of names of the largest libraries are a tenth of that.
const MOST_BLOCKS: usize = 128;

/// Bytes that are read of one file: a sparse file of some kilobytes can claim tables of a gigabyte. The largest runtimes take 10 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// And of all files of one question, of which a process may have mapped hundreds. Those of a large program take 20 MiB.
const MOST_BYTES_OF_ALL: u64 = 256 << 20;

/// Bytes that the files of one question may still take.
#[derive(Debug)]
pub(crate) struct Budget(Cell<u64>);

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget(Cell::new(MOST_BYTES_OF_ALL))
    }

    /// Whether there is none left, so that more could have been read.
    pub(crate) fn is_used_up(&self) -> bool {
        self.0.get() < BLOCK
    }

    fn take(&self, bytes: u64) -> Option<()> {
        self.0.set(self.0.get().checked_sub(bytes)?);
        Some(())
    }
}

/// See the module's text.
pub(crate) struct Windowed<'a> {
    file: File,
    /// Bytes that may still be read, of this file and of all.
    left: u64,
    budget: &'a Budget,
    /// By their numbers. The last block of a file is short, and what lies behind it empty.
    blocks: BTreeMap<u64, Vec<u8>>,
    cursor: u64,
}

impl<'a> Windowed<'a> {
    pub(crate) fn new(file: File, budget: &'a Budget) -> Windowed<'a> {
        Windowed { file, left: MOST_BYTES, budget, blocks: BTreeMap::new(), cursor: 0 }
    }

    /// What lies at the cursor, up to the end of its block.
    fn here(&mut self) -> Option<&[u8]> {
        let number = self.cursor / BLOCK;
        if !self.blocks.contains_key(&number) {
            if self.blocks.len() >= MOST_BLOCKS {
                self.blocks.clear();
            }
            self.left = self.left.checked_sub(BLOCK)?;
            self.budget.take(BLOCK)?;
            let block = self.block(number)?;
            self.blocks.insert(number, block);
        }
        let block = self.blocks.get(&number)?;
        Some(block.get((self.cursor % BLOCK) as usize..).unwrap_or_default())
    }

    fn block(&self, number: u64) -> Option<Vec<u8>> {
        let mut block = vec![0; BLOCK as usize];
        let mut length = 0;
        // A file may be read in parts, such as one of a network; one that ends here answers 0.
        while let Some(rest) = block.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, number * BLOCK + length as u64).ok()? {
                0 => break,
                read => length += read,
            }
        }
        block.truncate(length);
        Some(block)
    }
}

impl ReadCacheOps for Windowed<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(drop)
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        self.cursor = position;
        Ok(position)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, ()> {
        let here = self.here().ok_or(())?;
        let count = here.len().min(into.len());
        into[..count].copy_from_slice(&here[..count]);
        self.cursor += count as u64;
        Ok(count)
    }

    fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), ()> {
        while !into.is_empty() {
            match self.read(into)? {
                0 => return Err(()),
                count => into = &mut into[count..],
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_piece_is_as_in_the_file_wherever_it_lies() {
        const WINDOW: usize = BLOCK as usize;
        let bytes: Vec<u8> = (0..3 * WINDOW + 5).map(|index| (index * 31 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let budget = Budget::new();
        let mut windowed = Windowed::new(file, &budget);
        assert_eq!(windowed.len(), Ok(bytes.len() as u64));
        for (at, length) in [(0, 10), (WINDOW - 3, 10), (5, 7), (WINDOW, 2 * WINDOW), (bytes.len() - 4, 4), (2, 1)] {
            let mut read = vec![0; length];
            windowed.seek(at as u64).unwrap();
            windowed.read_exact(&mut read).unwrap();
            assert!(read == bytes[at..at + length], "{length} at {at}");
        }
        // A table here and its names there, in turns: each block is read once.
        for turn in 0..10 {
            for at in [turn, 2 * WINDOW + turn] {
                windowed.seek(at as u64).unwrap();
                let mut read = [0];
                windowed.read_exact(&mut read).unwrap();
                assert_eq!(read[0], bytes[at]);
            }
        }
        assert_eq!(windowed.blocks.len(), 4);
        windowed.seek(bytes.len() as u64 - 2).unwrap();
        assert_eq!(windowed.read_exact(&mut [0; 3]), Err(()), "the file ends before that");
        let sparse = tempfile::tempfile().unwrap();
        sparse.set_len(1 << 30).unwrap();
        let read =
            |budget: &Budget| Windowed::new(sparse.try_clone().unwrap(), budget).read_exact(&mut vec![0; 1 << 30]);
        assert_eq!(read(&Budget::new()), Err(()), "more than is read of any file");
        let all = Budget::new();
        let files = (0..512).take_while(|_| read(&all).is_err() && !all.is_used_up()).count();
        assert_eq!(files, 3, "more than is read of all files");
        windowed.seek(u64::MAX).unwrap();
        assert_ne!(windowed.read(&mut [0; 3]), Ok(3));
    }
}
