//! Single-file applications: one executable file with the assemblies one after another behind the launcher.
//!
//! The eight bytes before [`BUNDLE_MARK`] in the launcher are the offset of the file list, 0 in a launcher without files. The list begins
//! with:
//! * two u32 of version
//! * an i32 count of files
//! * an id
//! * from version 2 on, the locations of two settings files, and flags
//!
//! Then each file has:
//! * its offset and its size
//! * from version 6 on, its packed size (0 if not packed)
//! * a kind byte and a path
//!
//! Texts are UTF-8 after their length, which has seven bits a byte. (Source: dotnet/runtime, `src/native/corehost/bundle/`: `header.cpp`,
//! `file_entry.cpp`, `marker.cpp`.)

use crate::bytes::Reader;
use crate::error::SymbolError;
use crate::inflate::inflated;
use std::collections::HashMap;

/// SHA-256 of `.net core bundle`: follows the list's offset in launchers.
pub const BUNDLE_MARK: [u8; 32] = [
    0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32, 0x13, 0xf5, 0xb9,
    0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae,
];

/// Maximum size of an unpacked file, bytes.
pub const BUNDLED_FILE_LIMIT: u64 = 1 << 28;

/// First version whose list has settings files and flags.
const WITH_SETTINGS: u32 = 2;
/// Size of these, bytes.
const SETTINGS: usize = 5 * 8;
/// First version whose files may be packed.
const WITH_PACKED_SIZES: u32 = 6;
/// Minimum size of a file's entry in the list, bytes.
const SHORTEST_ENTRY: usize = 18;

/// The files of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    files: HashMap<String, BundledFile>,
}

/// Location of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundledFile {
    /// Offset in the executable, bytes.
    pub offset: u64,
    /// Size in the executable, bytes.
    pub stored: u64,
    /// Unpacked size, bytes.
    pub size: u64,
    packed: bool,
}

impl Bundle {
    /// Parses the list that begins with these bytes, and ignores anything after it.
    pub fn parse(list: &[u8]) -> Result<Bundle, SymbolError> {
        read_list(list).ok_or(SymbolError::Damaged { what: "list of a single-file application" })
    }

    /// The file with this path in the application's folder: `System.Private.CoreLib.dll`.
    pub fn file(&self, path: &str) -> Option<&BundledFile> {
        self.files.get(path)
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl BundledFile {
    /// Unpacks the file from its bytes in the executable.
    pub fn unpack(&self, stored: Vec<u8>) -> Result<Vec<u8>, SymbolError> {
        if !self.packed {
            return Ok(stored);
        }
        let damaged = SymbolError::Damaged { what: "packed file of a single-file application" };
        if self.size > BUNDLED_FILE_LIMIT {
            return Err(damaged);
        }
        inflated(&stored, self.size).ok_or(damaged)
    }
}

/// The offset of the list, from the bytes before the mark; `None` in a launcher without files.
pub fn list_of_bundle(before_mark: [u8; 8]) -> Option<u64> {
    Some(u64::from_le_bytes(before_mark)).filter(|offset| *offset != 0)
}

fn read_list(bytes: &[u8]) -> Option<Bundle> {
    let mut reader = Reader::new(bytes);
    let version = reader.u32()?;
    reader.u32()?;
    let count = usize::try_from(reader.u32()?.cast_signed()).ok()?;
    text(&mut reader)?;
    if version >= WITH_SETTINGS {
        reader.take(SETTINGS)?;
    }
    // A false count: reject it before allocating.
    if count > reader.rest().len() / SHORTEST_ENTRY {
        return None;
    }
    let files = (0..count).map(|_| entry(&mut reader, version)).collect::<Option<_>>()?;
    Some(Bundle { files })
}

fn entry(reader: &mut Reader, version: u32) -> Option<(String, BundledFile)> {
    let (offset, size) = (reader.u64()?, reader.u64()?);
    let stored = if version >= WITH_PACKED_SIZES { reader.u64()? } else { 0 };
    reader.byte()?;
    let packed = stored != 0;
    Some((text(reader)?, BundledFile { offset, stored: if packed { stored } else { size }, size, packed }))
}

/// A text; its length has at most two bytes.
fn text(reader: &mut Reader) -> Option<String> {
    let first = reader.byte()?;
    let length = usize::from(first & 0x7f);
    let length = if first & 0x80 == 0 { length } else { length | usize::from(reader.byte()?) << 7 };
    String::from_utf8(reader.take(length)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::DeflateEncoder;
    use std::io::Read;

    fn length_and(text: &str) -> Vec<u8> {
        let length = u8::try_from(text.len()).unwrap();
        let mut bytes = if length < 0x80 { vec![length] } else { vec![length, length >> 7] };
        bytes.extend(text.as_bytes());
        bytes
    }

    fn list(version: u32, files: &[(&str, u64, u64, u64)]) -> Vec<u8> {
        let mut bytes = [version.to_le_bytes(), [0; 4], (files.len() as u32).to_le_bytes()].concat();
        bytes.extend(length_and("r5pWwgJgTtfh"));
        bytes.extend(vec![0; if version >= 2 { 40 } else { 0 }]);
        for (path, offset, size, packed) in files {
            bytes.extend([offset.to_le_bytes(), size.to_le_bytes()].concat());
            bytes.extend(if version >= 6 { packed.to_le_bytes().to_vec() } else { Vec::new() });
            bytes.push(1);
            bytes.extend(length_and(path));
        }
        bytes
    }

    #[test]
    fn files_are_found_in_each_version() {
        for version in [1, 2, 6] {
            let long = format!("{}.dll", "n".repeat(150));
            let bytes = list(version, &[("a.dll", 4096, 100, 0), (&long, 8192, 300, 200)]);
            let bundle = Bundle::parse(&bytes).unwrap();
            assert_eq!((bundle.len(), bundle.is_empty()), (2, false));
            let plain = bundle.file("a.dll").unwrap();
            assert_eq!((plain.offset, plain.stored, plain.size), (4096, 100, 100));
            assert_eq!(plain.unpack(vec![7; 100]), Ok(vec![7; 100]));
            let packed = bundle.file(&long).unwrap();
            assert_eq!(packed.stored, if version == 6 { 200 } else { 300 });
            assert_eq!(bundle.file("b.dll"), None);
            for cut in 0..bytes.len() {
                assert!(Bundle::parse(&bytes[..cut]).is_err(), "cut after {cut} bytes");
            }
        }
    }

    #[test]
    fn what_is_packed_is_unpacked_to_its_size_and_no_further() {
        let mut stored = Vec::new();
        DeflateEncoder::new(&[9; 5000][..], Compression::default()).read_to_end(&mut stored).unwrap();
        let of_size = |size| BundledFile { offset: 0, stored: stored.len() as u64, size, packed: true };
        assert_eq!(of_size(5000).unpack(stored.clone()), Ok(vec![9; 5000]));
        for wrong in [4999, 5001, BUNDLED_FILE_LIMIT + 1] {
            assert!(of_size(wrong).unpack(stored.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_launcher_without_files_has_no_list() {
        assert_eq!(list_of_bundle([0; 8]), None);
        assert_eq!(list_of_bundle(77_u64.to_le_bytes()), Some(77));
    }
}
