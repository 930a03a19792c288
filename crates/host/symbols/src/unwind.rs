//! Start and end of functions by their file's unwind table (`.eh_frame`), which stripped files keep.
//!
//! Each entry of the table covers one function's code, or one part of it that the compiler moved. It has no names. Entries that are empty
//! or outside code are left out. If entries overlap, the one with the later start counts, as for the unwinder. Addresses that only an
//! earlier entry covers belong to none.

use crate::elf_file::{Elf, section};
use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EndianSlice, Error, FrameDescriptionEntry, RunTimeEndian, UnwindSection,
};
use object::Object;
use std::collections::HashMap;

/// Maximum number of entries. Any after it are missing.
const ENTRY_LIMIT: usize = 1 << 22;
/// Bytes of an address: the files are 64-bit ones.
pub(crate) const ADDRESS_SIZE: u8 = 8;

/// Start and length of every function with an entry in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnwindBounds {
    /// Sorted by start, each start once.
    ranges: Vec<(u64, u64)>,
}

impl UnwindBounds {
    /// Reads the bounds of `file`. `is_code` decides for a start and a length whether all of it is code. A damaged table counts up to the
    /// damage.
    pub(crate) fn read(file: &Elf<'_>, is_code: impl Fn(u64, u64) -> bool) -> UnwindBounds {
        let Some((address, table, _)) = section(file, ".eh_frame") else { return UnwindBounds::default() };
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let mut ranges = entries(&mut EhFrame::new(table, endian), address);
        ranges.retain(|&(start, length)| is_code(start, length));
        UnwindBounds::sorted(ranges)
    }

    /// The start and length of the range that contains `address`.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.ranges.partition_point(|&(start, _)| start <= address);
        let (start, length) = *self.ranges.get(after.checked_sub(1)?)?;
        (address - start < length).then_some((start, length))
    }

    fn sorted(mut ranges: Vec<(u64, u64)>) -> UnwindBounds {
        // An empty range would hide another one with the same start.
        ranges.retain(|&(_, length)| length > 0);
        // Merged functions have equal entries. Of others with one start, keep the shortest: it claims the least.
        ranges.sort_unstable();
        ranges.dedup_by_key(|&mut (start, _)| start);
        ranges.shrink_to_fit();
        UnwindBounds { ranges }
    }
}

/// An entry: one function's code, or one part of it.
pub(crate) type Function<'a> = FrameDescriptionEntry<EndianSlice<'a, RunTimeEndian>>;

/// Calls `visit` with every entry of `table`, up to its end or to damage, until `visit` returns false.
pub(crate) fn each_entry<'a>(
    table: &EhFrame<EndianSlice<'a, RunTimeEndian>>,
    bases: &BaseAddresses,
    mut visit: impl FnMut(Function<'a>) -> bool,
) {
    // Shared parts (CIEs) come before the entries that refer to them. Each is decoded once.
    let mut shared = HashMap::new();
    let mut all = table.entries(bases);
    for _ in 0..ENTRY_LIMIT {
        match all.next() {
            // Ignore entries with indirect pointers: their address is known only in memory.
            Ok(Some(CieOrFde::Cie(cie))) if cie.fde_address_encoding().is_some_and(|form| form.is_indirect()) => {}
            Ok(Some(CieOrFde::Cie(cie))) => drop(shared.insert(cie.offset(), cie)),
            Ok(Some(CieOrFde::Fde(partial))) => {
                let entry = partial
                    .parse(|_, _, offset| shared.get(&offset.0).cloned().ok_or(Error::NotCieId(offset.0 as u64)));
                if entry.is_ok_and(|function| !visit(function)) {
                    break;
                }
            }
            // The end, or damage that hides where the next entry starts.
            Ok(None) | Err(_) => break,
        }
    }
}

/// The start and length of every entry of `table`, loaded at `address`.
fn entries(table: &mut EhFrame<EndianSlice<'_, RunTimeEndian>>, address: u64) -> Vec<(u64, u64)> {
    table.set_address_size(ADDRESS_SIZE);
    // Only pointers relative to the table are accepted: unwinders disagree about other bases.
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut ranges = Vec::new();
    each_entry(table, &bases, |function| {
        ranges.push((function.initial_address(), function.len()));
        true
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the tables of these tests are loaded.
    const TABLE: u64 = 0x4000;

    /// One entry with its length before it, filled up to whole words.
    fn entry(table: &mut Vec<u8>, mut body: Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
        table.extend((body.len() as u32).to_le_bytes());
        table.extend(body);
    }

    /// The shared part (CIE): version 1, augmentation `zR`, pointers of this encoding.
    fn shared(table: &mut Vec<u8>, encoding: u8) {
        entry(table, [&[0, 0, 0, 0, 1][..], b"zR\0", &[1, 0x78, 16, 1, encoding]].concat());
    }

    /// A function's entry: a relative pointer of four bytes, with the shared part at `at`.
    fn function(table: &mut Vec<u8>, at: usize, start: u64, length: u32) {
        let here = table.len() + 4;
        let relative = start.wrapping_sub(TABLE + here as u64 + 4) as u32;
        let parts = [((here - at) as u32).to_le_bytes(), relative.to_le_bytes(), length.to_le_bytes(), [0; 4]];
        entry(table, parts.concat());
    }

    /// A table of these functions.
    fn table(functions: &[(u64, u32)]) -> Vec<u8> {
        let mut table = Vec::new();
        shared(&mut table, 0x1b);
        functions.iter().for_each(|&(start, length)| function(&mut table, 0, start, length));
        table
    }

    fn read(table: &[u8]) -> Vec<(u64, u64)> {
        entries(&mut EhFrame::new(table, RunTimeEndian::Little), TABLE)
    }

    #[test]
    fn every_entry_is_read_up_to_the_terminator() {
        let mut bytes = table(&[(0x1010, 0x10), (0x1000, 8), (0x9000, 1)]);
        assert_eq!(read(&bytes), [(0x1010, 0x10), (0x1000, 8), (0x9000, 1)]);
        let before = bytes.clone();
        bytes.extend([0; 4]);
        function(&mut bytes, 0, 0x2000, 8);
        assert_eq!(read(&bytes), read(&before));
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn what_cannot_be_reported_is_left_out() {
        // Pointers through memory, and those relative to code.
        for encoding in [0x9b, 0x2b] {
            let mut bytes = table(&[(0x1000, 8)]);
            let at = bytes.len();
            shared(&mut bytes, encoding);
            function(&mut bytes, at, 0x2000, 8);
            function(&mut bytes, 0, 0x3000, 8);
            assert_eq!(read(&bytes), [(0x1000, 8), (0x3000, 8)], "{encoding:x}");
        }
        // A reference to something other than a shared part.
        let mut bytes = table(&[(0x1000, 8)]);
        function(&mut bytes, 4, 0x2000, 8);
        function(&mut bytes, 0, 0x3000, 8);
        assert_eq!(read(&bytes), [(0x1000, 8), (0x3000, 8)]);
    }

    #[test]
    fn of_a_cut_table_what_was_whole_is_read() {
        let whole = table(&[(0x1000, 8), (0x2000, 8), (0x3000, 8)]);
        let each = (whole.len() - table(&[]).len()) / 3;
        for length in 0..whole.len() {
            let expected = length.saturating_sub(table(&[]).len()) / each;
            assert_eq!(read(&whole[..length]).len(), expected, "{length}");
        }
    }

    #[test]
    fn of_overlapping_and_empty_ranges_the_last_start_counts() {
        let ranges = [(20, 10), (10, 100), (10, 100), (200, 8), (200, 4), (25, 0), (300, 0), (u64::MAX - 3, 9)];
        let bounds = UnwindBounds::sorted(ranges.to_vec());
        for (address, expected) in [
            (9, None),
            (10, Some((10, 100))),
            (19, Some((10, 100))),
            (20, Some((20, 10))),
            (29, Some((20, 10))),
            (30, None),
            (109, None),
            (203, Some((200, 4))),
            (204, None),
            (300, None),
            (u64::MAX - 4, None),
            (u64::MAX, Some((u64::MAX - 3, 9))),
        ] {
            assert_eq!(bounds.at(address), expected, "{address}");
        }
        assert_eq!(UnwindBounds::default().at(0), None);
    }
}
