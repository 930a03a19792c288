//! Reads a file in blocks, without a system call for every few bytes.
//!
//! Blocks are cached: the names of a large library are far from the table of their offsets, and are read in any order.
//! With one block at a time, reading libstdc++ took 300 MB.

use object::read::{ReadCache, ReadCacheOps, ReadRef};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes read at once.
const BLOCK: u64 = 64 << 10;
/// Maximum cached blocks; beyond it the cache restarts. The name tables of the largest libraries are a tenth of that.
const MOST_BLOCKS: usize = 128;

/// Maximum bytes read of one file, and maximum bytes of its tables and names kept. A sparse file of some kilobytes can claim tables of a
/// gigabyte, and a table of some megabytes can have names of gigabytes. The largest runtimes take 10 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// Memory of a kept name besides its bytes.
const ENTRY: u64 = 64;

/// Maximum bytes read of all files for one query: a process may have mapped hundreds. Those of a large program take 20 MiB.
const MOST_BYTES_OF_ALL: u64 = 256 << 20;

/// The limit that ended an examination of a process's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// The time limit.
    #[error("it took too long")]
    Time,
    /// The limit of bytes.
    #[error("the tables of its files are too large")]
    Bytes,
    /// The look at it ended with a fault of Remora's own.
    #[error("looking at it failed: a fault of Remora's")]
    Fault,
}

/// The remaining budget for the files of one query.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Cell<u64>,
    deadline: Instant,
    reached: Cell<Option<Limit>>,
}

impl Budget {
    /// Up to 256 MiB, for this long.
    pub(crate) fn new(time: Duration) -> Budget {
        Budget { bytes: Cell::new(MOST_BYTES_OF_ALL), deadline: Instant::now() + time, reached: Cell::new(None) }
    }

    /// The limit that ended the examination early, if any.
    pub(crate) fn reached(&self) -> Option<Limit> {
        self.reached.get()
    }

    /// Counts bytes about to be read; `None` once a limit is reached.
    pub(crate) fn take(&self, bytes: u64) -> Option<()> {
        if Instant::now() >= self.deadline {
            self.reached.set(Some(Limit::Time));
            return None;
        }
        self.part(&self.bytes, bytes)
    }

    /// Counts bytes against the limit of one file or of all.
    fn part(&self, left: &Cell<u64>, bytes: u64) -> Option<()> {
        let fewer = left.get().checked_sub(bytes);
        match fewer {
            Some(fewer) => left.set(fewer),
            None => self.reached.set(Some(Limit::Bytes)),
        }
        fewer.map(drop)
    }
}

/// The tables and names of one file, as `object` reads them. It keeps all of them, so their sum is limited;
/// repeated requests count again.
pub(crate) struct Tables<'budget> {
    cache: ReadCache<Windowed<'budget>>,
    left: Cell<u64>,
    budget: &'budget Budget,
}

impl<'budget> Tables<'budget> {
    pub(crate) fn of(file: File, budget: &'budget Budget) -> Tables<'budget> {
        Tables { cache: ReadCache::new(Windowed::new(file, budget)), left: Cell::new(MOST_BYTES), budget }
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        self.budget.take(0).and_then(|()| self.budget.part(&self.left, bytes)).ok_or(())
    }
}

impl<'a> ReadRef<'a> for &'a Tables<'_> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.take(ENTRY)?;
        let bytes = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// A file read in blocks.
pub(crate) struct Windowed<'a> {
    file: File,
    /// Remaining bytes for this file.
    left: Cell<u64>,
    budget: &'a Budget,
    /// By block number. The last block of a file is short, and those after it are empty.
    blocks: BTreeMap<u64, Vec<u8>>,
    cursor: u64,
}

impl<'a> Windowed<'a> {
    pub(crate) fn new(file: File, budget: &'a Budget) -> Windowed<'a> {
        Windowed { file, left: Cell::new(MOST_BYTES), budget, blocks: BTreeMap::new(), cursor: 0 }
    }

    /// The bytes at the cursor, up to the end of its block.
    fn here(&mut self) -> Option<&[u8]> {
        let number = self.cursor / BLOCK;
        if !self.blocks.contains_key(&number) {
            if self.blocks.len() >= MOST_BLOCKS {
                self.blocks.clear();
            }
            self.budget.part(&self.left, BLOCK)?;
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
        // A read may return only a part, such as on a network file system; at the end of the file it returns 0.
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
    use crate::elf::Elf;
    use crate::tests::elf::library_exporting;
    use std::io::Write;

    const A_DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn every_piece_is_as_in_the_file_wherever_it_lies() {
        const WINDOW: usize = BLOCK as usize;
        let bytes: Vec<u8> = (0..3 * WINDOW + 5).map(|index| (index * 31 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let budget = Budget::new(A_DAY);
        let mut windowed = Windowed::new(file, &budget);
        assert_eq!(windowed.len(), Ok(bytes.len() as u64));
        for (at, length) in [(0, 10), (WINDOW - 3, 10), (5, 7), (WINDOW, 2 * WINDOW), (bytes.len() - 4, 4), (2, 1)] {
            let mut read = vec![0; length];
            windowed.seek(at as u64).unwrap();
            windowed.read_exact(&mut read).unwrap();
            assert!(read == bytes[at..at + length], "{length} at {at}");
        }
        // Alternates between a table and its names: each block is read once.
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
        let all = Budget::new(A_DAY);
        assert_eq!((read(&all), all.reached()), (Err(()), Some(Limit::Bytes)), "more than is read of any file");
        let files = (1..512).take_while(|_| all.bytes.get() >= BLOCK && read(&all).is_err()).count();
        assert_eq!(files, 3, "more than is read of all files");
        windowed.seek(u64::MAX).unwrap();
        assert_ne!(windowed.read(&mut [0; 3]), Ok(3));
    }

    /// A file with this many defined symbols, and a byte of their names for each. Each name is some thousand bytes long, and ends where the
    /// next ones do. It has no hash table.
    fn with_symbols(count: usize) -> File {
        let file = tempfile::tempfile().unwrap();
        let (symbols_at, names_at) = (0x1000_u64, 0x1000 + 24 * count as u64);
        let write = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).unwrap();
        let mut header = library_exporting("x");
        let sections_at = u64::from_le_bytes(header[40..48].try_into().unwrap()) as usize;
        for (section, at, size) in [(1, symbols_at, 24 * count), (2, names_at, count)] {
            header[sections_at + section * 64 + 24..][..8].copy_from_slice(&at.to_le_bytes());
            header[sections_at + section * 64 + 32..][..8].copy_from_slice(&(size as u64).to_le_bytes());
        }
        write(0, &header);
        let symbol = |index: u32| [&index.to_le_bytes()[..], &[0x12, 0, 1, 0], &[0; 16]].concat();
        write(symbols_at, &(0..count as u32).flat_map(symbol).collect::<Vec<u8>>());
        let names: Vec<u8> = (1..=count).map(|at| if at % 4_000 == 0 { 0 } else { b'a' }).collect();
        write(names_at, &names);
        file
    }

    /// Each name was kept: two million of them took gigabytes.
    #[test]
    fn names_of_millions_of_symbols_are_kept_up_to_a_sum_of_bytes() {
        let looked_for = |count| {
            let budget = Budget::new(A_DAY);
            let tables = Tables::of(with_symbols(count), &budget);
            assert!(!Elf::parse(&tables).expect("an ELF file").exports(&["none"]));
            (MOST_BYTES - tables.left.get(), budget.reached())
        };
        let (few, reached) = looked_for(10_000);
        assert!(reached.is_none() && few > 10_000 * 24 + 10_000 * 1_000, "{few}");
        let (many, reached) = looked_for(2_000_000);
        assert_eq!(reached, Some(Limit::Bytes));
        // A refused name was not counted, and no name is longer.
        assert!(many > MOST_BYTES - 4_096, "{many}");
    }

    #[test]
    fn a_table_that_is_larger_than_what_is_kept_is_not_read() {
        let sparse = tempfile::tempfile().unwrap();
        sparse.set_len(1 << 30).unwrap();
        let budget = Budget::new(A_DAY);
        let tables = Tables::of(sparse, &budget);
        assert_eq!((&tables).read_bytes_at(0, MOST_BYTES + 1), Err(()));
        assert_eq!((budget.bytes.get(), budget.reached()), (MOST_BYTES_OF_ALL, Some(Limit::Bytes)));
    }

    #[test]
    fn nothing_more_is_read_once_the_time_is_over() {
        let budget = Budget::new(Duration::ZERO);
        let tables = Tables::of(with_symbols(1), &budget);
        assert!(Elf::parse(&tables).is_none());
        assert_eq!((budget.bytes.get(), budget.reached()), (MOST_BYTES_OF_ALL, Some(Limit::Time)));
    }
}
