//! A file that is read in pieces of some bytes, without a call of the system for each.

use object::read::ReadCacheOps;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once. Tables of names are read name by name.
const WINDOW: usize = 64 << 10;

/// See the module's text.
pub(crate) struct Windowed {
    file: File,
    /// What was read last, and where it lies.
    window: Vec<u8>,
    start: u64,
    cursor: u64,
}

impl Windowed {
    pub(crate) fn new(file: File) -> Windowed {
        Windowed { file, window: Vec::new(), start: 0, cursor: 0 }
    }

    /// What of the window lies at the cursor; read anew if nothing does.
    fn here(&mut self) -> Option<&[u8]> {
        let is_in = |start: u64, length: usize, at: u64| at >= start && at - start < length as u64;
        if !is_in(self.start, self.window.len(), self.cursor) {
            self.window.resize(WINDOW, 0);
            self.start = self.cursor;
            let read = self.file.read_at(&mut self.window, self.start);
            self.window.truncate(*read.as_ref().unwrap_or(&0));
            read.ok()?;
        }
        self.window.get((self.cursor - self.start) as usize..)
    }
}

impl ReadCacheOps for Windowed {
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
        let bytes: Vec<u8> = (0..3 * WINDOW + 5).map(|index| (index * 31 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mut windowed = Windowed::new(file);
        assert_eq!(windowed.len(), Ok(bytes.len() as u64));
        for (at, length) in [(0, 10), (WINDOW - 3, 10), (5, 7), (WINDOW, 2 * WINDOW), (bytes.len() - 4, 4), (2, 1)] {
            let mut read = vec![0; length];
            windowed.seek(at as u64).unwrap();
            windowed.read_exact(&mut read).unwrap();
            assert!(read == bytes[at..at + length], "{length} at {at}");
        }
        windowed.seek(bytes.len() as u64 - 2).unwrap();
        assert_eq!(windowed.read_exact(&mut [0; 3]), Err(()), "the file ends before that");
        windowed.seek(u64::MAX).unwrap();
        assert_ne!(windowed.read(&mut [0; 3]), Ok(3));
    }
}
