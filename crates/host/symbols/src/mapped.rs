//! From an address of a process to a name: the function of the mapped file, else module and offset, else `[unknown]`.
//!
//! Where no symbol holds the address, the offset is that of the function's first instruction, if the file's unwind table tells it:
//! the samples of one function have one name. Nothing is guessed; an address outside the table keeps its own offset.

use crate::elf::ElfImage;
use crate::maps::{MapEntry, find_mapping};

/// The name of an address that no mapping with a file holds.
pub const UNKNOWN: &str = "[unknown]";

/// What is known of a native address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NativeName {
    /// `memcpy`, `libcoreclr.so+0x1a2b30` (where the function starts), `[vdso]+0x10`, `[unknown]`.
    pub name: String,
    /// The path of the module, as the process sees it; `None` where there is none.
    pub module: Option<String>,
    /// Whether `name` is a function's (rather than a module and an offset, or unknown).
    pub is_function: bool,
}

/// Names `address` of a process with these mappings (in the order of their addresses).
///
/// `image` opens the file of a mapping, if it can be had; it is asked only for mappings of modules, `[vdso]` included.
/// For a caller's frame give the return address less 1: the return address itself may belong to the next function.
/// The offset after a module is that of the function's first instruction, where the file's unwind table tells it, else the
/// address's own. Either is in the file's own address space, so that `addr2line` takes it.
pub fn mapped_name<'i>(
    address: u64,
    maps: &[MapEntry],
    image: impl FnOnce(&MapEntry) -> Option<&'i ElfImage>,
) -> NativeName {
    let unknown = NativeName { name: UNKNOWN.to_owned(), module: None, is_function: false };
    let Some(entry) = find_mapping(maps, address).filter(|entry| entry.is_module()) else { return unknown };
    let offset = entry.offset.wrapping_add(address - entry.start);
    let image = image(entry);
    let own_address = image.and_then(|image| image.address_of_offset(offset));
    let function = image.zip(own_address).and_then(|(image, own)| image.function(own));
    let is_function = function.is_some();
    let name = function.map_or_else(
        || {
            let start =
                image.zip(own_address).and_then(|(image, own)| image.function_bounds(own)).map(|(start, _)| start);
            let shown = start.or(own_address).unwrap_or_else(|| address.wrapping_sub(module_start(maps, entry)));
            format!("{}+0x{shown:x}", entry.file_name())
        },
        |(name, _)| name,
    );
    NativeName { name, module: Some(entry.path.to_string()), is_function }
}

/// Where the module that `entry` is a part of begins: the nearest mapping of the same file's start at or below it.
fn module_start(maps: &[MapEntry], entry: &MapEntry) -> u64 {
    let same = |other: &&MapEntry| {
        other.start <= entry.start
            && other.inode == entry.inode
            && other.device == entry.device
            && other.path == entry.path
    };
    let start = maps.iter().rev().filter(same).find(|other| other.offset == 0);
    start.map_or_else(|| entry.start.wrapping_sub(entry.offset), |first| first.start)
}
