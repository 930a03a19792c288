//! The few parts of a PE file that names need: the location of the metadata, and the PDB in the debug directory.
//!
//! Finds sections by address as the loader would; maps nothing, and executes nothing.

use crate::bytes::Reader;
use crate::error::SymbolError;
use crate::metadata::Guid;
use std::ops::Range;

/// The format's limit of sections; a larger count is damage.
const SECTION_LIMIT: u16 = 96;
/// Maximum number of debug directory entries. No compiler writes more.
const DEBUG_ENTRY_LIMIT: usize = 64;
/// Maximum unpacked size of an embedded PDB.
pub const EMBEDDED_PDB_LIMIT: usize = 256 << 20;

const DIRECTORY_DEBUG: usize = 6;
const DIRECTORY_CLI: usize = 14;
const DEBUG_TYPE_CODE_VIEW: u32 = 2;
const DEBUG_TYPE_EMBEDDED_PDB: u32 = 17;
const CODE_VIEW_SIGNATURE: u32 = u32::from_le_bytes(*b"RSDS");
const EMBEDDED_PDB_SIGNATURE: u32 = u32::from_le_bytes(*b"MPDB");

/// The identity of a module's PDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeView {
    /// The PDB's id.
    pub guid: Guid,
    /// The second half of a portable PDB's id; for a Windows PDB a time.
    pub stamp: u32,
    /// Always 1 for a portable PDB.
    pub age: u32,
    /// Path of the PDB on the build machine.
    pub path: String,
}

/// A PE file, borrowed.
pub(crate) struct PortableExecutable<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
    directories: &'a [u8],
}

struct Section {
    address: Range<u32>,
    offset: u32,
}

impl<'a> PortableExecutable<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, SymbolError> {
        if !bytes.starts_with(b"MZ") {
            return Err(SymbolError::NotPortableExecutable);
        }
        Self::headers(bytes).ok_or(SymbolError::Damaged { what: "PE headers" })
    }

    fn headers(bytes: &'a [u8]) -> Option<Self> {
        let header_offset = Reader::at(bytes, 0x3c)?.u32()? as usize;
        let mut reader = Reader::at(bytes, header_offset)?;
        if reader.take(4)? != b"PE\0\0" {
            return None;
        }
        reader.u16()?;
        let section_count = reader.u16()?;
        reader.take(12)?;
        let optional_size = reader.u16()? as usize;
        reader.u16()?;
        if section_count > SECTION_LIMIT {
            return None;
        }
        let optional = reader.take(optional_size)?;
        let directories = match Reader::new(optional).u16()? {
            0x10b => optional.get(96..)?,
            0x20b => optional.get(112..)?,
            _ => return None,
        };
        let mut sections = Vec::with_capacity(section_count.into());
        for _ in 0..section_count {
            reader.take(8)?;
            let virtual_size = reader.u32()?;
            let start = reader.u32()?;
            let raw_size = reader.u32()?;
            let offset = reader.u32()?;
            reader.take(16)?;
            sections.push(Section { address: start..start.saturating_add(virtual_size.max(raw_size)), offset });
        }
        Some(PortableExecutable { bytes, sections, directories })
    }

    /// The metadata of a managed module.
    pub(crate) fn metadata(&self) -> Result<&'a [u8], SymbolError> {
        let (address, size) = self.directory(DIRECTORY_CLI).ok_or(SymbolError::NotManaged)?;
        let damaged = SymbolError::Damaged { what: "CLI header" };
        let header = self.at_address(address, size.max(16)).ok_or(damaged.clone())?;
        let mut reader = Reader::new(header);
        let mut location = || {
            reader.take(8)?;
            Some((reader.u32()?, reader.u32()?))
        };
        let (address, size) = location().ok_or(damaged.clone())?;
        self.at_address(address, size).ok_or(damaged)
    }

    /// The CodeView entry of a portable PDB, otherwise the first one.
    pub(crate) fn code_view(&self) -> Option<CodeView> {
        self.debug_entries().filter(|entry| entry.kind == DEBUG_TYPE_CODE_VIEW).find_map(|entry| {
            let mut reader = Reader::new(entry.data);
            if reader.u32()? != CODE_VIEW_SIGNATURE {
                return None;
            }
            let guid = Guid(reader.array()?);
            let age = reader.u32()?;
            let path = reader.rest().split(|&byte| byte == 0).next().unwrap_or_default();
            Some(CodeView { guid, stamp: entry.stamp, age, path: String::from_utf8_lossy(path).into_owned() })
        })
    }

    /// The embedded PDB: its unpacked size and its packed bytes.
    pub(crate) fn embedded_pdb(&self) -> Option<(usize, &'a [u8])> {
        self.debug_entries().filter(|entry| entry.kind == DEBUG_TYPE_EMBEDDED_PDB).find_map(|entry| {
            let mut reader = Reader::new(entry.data);
            if reader.u32()? != EMBEDDED_PDB_SIGNATURE {
                return None;
            }
            Some((reader.u32()? as usize, reader.rest()))
        })
    }

    fn debug_entries(&self) -> impl Iterator<Item = DebugEntry<'a>> {
        let entries = self.directory(DIRECTORY_DEBUG).and_then(|(address, size)| self.at_address(address, size));
        entries.unwrap_or_default().chunks_exact(28).take(DEBUG_ENTRY_LIMIT).filter_map(|entry| {
            let mut reader = Reader::new(entry);
            reader.u32()?;
            let stamp = reader.u32()?;
            reader.u32()?;
            let kind = reader.u32()?;
            let size = reader.u32()? as usize;
            reader.u32()?;
            let offset = reader.u32()? as usize;
            Some(DebugEntry { kind, stamp, data: self.bytes.get(offset..offset.checked_add(size)?)? })
        })
    }

    fn directory(&self, index: usize) -> Option<(u32, u32)> {
        let mut reader = Reader::at(self.directories, index * 8)?;
        let (address, size) = (reader.u32()?, reader.u32()?);
        (address != 0 && size != 0).then_some((address, size))
    }

    fn at_address(&self, address: u32, size: u32) -> Option<&'a [u8]> {
        self.starting_at(address)?.get(..size as usize)
    }

    /// The bytes from an address on, to the end of the file.
    pub(crate) fn starting_at(&self, address: u32) -> Option<&'a [u8]> {
        let section = self.sections.iter().find(|section| section.address.contains(&address))?;
        self.bytes.get(section.offset.checked_add(address - section.address.start)? as usize..)
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }
}

struct DebugEntry<'a> {
    kind: u32,
    stamp: u32,
    data: &'a [u8],
}
