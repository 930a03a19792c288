//! The parts of a native module's file that symbols and unwind tables need: segments and sections.

use crate::error::SymbolError;
use object::elf::{ELF_NOTE_GNU, NT_GNU_BUILD_ID, PF_X};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, SectionIndex};

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

/// Maximum number of sections: each lookup by name goes through them, and a file may have millions. Linkers make some dozens.
const SECTION_LIMIT: usize = 1 << 12;

/// Parses a 64-bit ELF file.
pub(crate) fn open(bytes: &[u8]) -> Result<Elf<'_>, SymbolError> {
    let file = ElfFile64::parse(bytes).map_err(|error| SymbolError::NotElf { reason: error.to_string() })?;
    match file.elf_section_table().len() {
        0..=SECTION_LIMIT => Ok(file),
        sections => Err(SymbolError::NotElf { reason: format!("it has {sections} sections") }),
    }
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
pub(crate) fn section<'a>(file: &Elf<'a>, name: &str) -> Option<(u64, &'a [u8], u64)> {
    let (endian, bytes) = (file.endian(), file.data());
    let index = file.elf_header().shstrndx(endian, bytes).ok()?;
    let names = strings(file, SectionIndex(index as usize))?;
    let is_it = |offset: u32| {
        names.get(offset as usize..).and_then(|rest| rest.strip_prefix(name.as_bytes())?.first()) == Some(&0)
    };
    let section = file.elf_section_table().iter().find(|section| is_it(section.sh_name(endian)))?;
    Some((section.sh_addr(endian), section.data(endian, bytes).ok()?, section.sh_entsize(endian)))
}

/// The bytes of a section with names.
///
/// `object` finds the end of a name by a search up to the end of this section. If no name ends before that, each search goes through all
/// of it: hours for a file of 100 MiB. So names are read with a limit.
pub(crate) fn strings<'a>(file: &Elf<'a>, section: SectionIndex) -> Option<&'a [u8]> {
    file.elf_section_table().section(section).ok()?.data(file.endian(), file.data()).ok()
}

/// Maximum number of sections or segments with notes, and bytes of one: each is searched for the build id.
const NOTES_LIMIT: usize = 32;
const NOTES_BYTES: u64 = 1 << 16;

/// The build id, if the linker wrote one.
pub(crate) fn build_id<'a>(file: &Elf<'a>) -> Option<&'a [u8]> {
    let (endian, bytes) = (file.endian(), file.data());
    let sections = file.elf_section_table().iter().filter(|section| section.sh_size(endian) <= NOTES_BYTES);
    let segments = file.elf_program_headers().iter().filter(|segment| segment.p_filesz(endian) <= NOTES_BYTES);
    let sections = sections.filter_map(|section| section.notes(endian, bytes).ok()?).take(NOTES_LIMIT);
    let segments = segments.filter_map(|segment| segment.notes(endian, bytes).ok()?).take(NOTES_LIMIT);
    sections.chain(segments).find_map(|mut notes| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
        None
    })
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
