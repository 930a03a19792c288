//! The parts of a native module's file that symbols and unwind tables need: segments and sections.

use crate::error::SymbolError;
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection};

/// A parsed 64-bit ELF file.
pub(crate) type Elf<'a> = ElfFile64<'a, Endianness>;

/// A loaded segment of the file.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) executable: bool,
}

/// Parses a 64-bit ELF file.
pub(crate) fn open(bytes: &[u8]) -> Result<Elf<'_>, SymbolError> {
    ElfFile64::parse(bytes).map_err(|error| SymbolError::NotElf { reason: error.to_string() })
}

/// Maximum number of loaded segments: each function is looked up in them, and a file may have a million. Linkers make about five.
const SEGMENT_LIMIT: usize = 64;

/// The loaded segments of a file.
pub(crate) fn segments(file: &Elf<'_>) -> Vec<Segment> {
    let endian = file.endian();
    let loaded = file.elf_program_headers().iter().filter(|header| header.p_type(endian) == object::elf::PT_LOAD);
    loaded
        .take(SEGMENT_LIMIT)
        .map(|header| Segment {
            address: header.p_vaddr(endian),
            offset: header.p_offset(endian),
            file_size: header.p_filesz(endian),
            executable: header.p_flags(endian) & PF_X != 0,
        })
        .collect()
}

/// Whether the file loads all of a range as code.
pub(crate) fn is_code(segments: &[Segment], start: u64, length: u64) -> bool {
    segments.iter().filter(|segment| segment.executable && start >= segment.address).any(|segment| {
        let before = start - segment.address;
        segment.file_size.checked_sub(before).is_some_and(|left| length <= left)
    })
}

/// Address, bytes and entry size of the section with this name.
pub(crate) fn section<'a>(file: &'a Elf<'a>, name: &str) -> Option<(u64, &'a [u8], u64)> {
    let section = file.section_by_name(name)?;
    let entry_size = section.elf_section_header().sh_entsize(file.endian());
    Some((section.address(), section.data().ok()?, entry_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_million_program_headers_has_as_many_segments_as_a_linker_could_make() {
        let headers = 1_u16 << 15;
        let mut bytes = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
        bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
        bytes[20] = 1;
        bytes[32] = 64;
        bytes[52..56].copy_from_slice(&[64, 0, 56, 0]);
        bytes[56..58].copy_from_slice(&headers.to_le_bytes());
        let loaded = [&[1, 0, 0, 0, 5, 0, 0, 0][..], &[0; 48]].concat();
        (0..headers).for_each(|_| bytes.extend(&loaded));
        let file = open(&bytes).expect("an ELF file");
        assert_eq!(file.elf_program_headers().len(), usize::from(headers));
        assert_eq!(segments(&file).len(), SEGMENT_LIMIT);
    }
}
