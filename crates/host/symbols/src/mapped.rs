//! Resolves an address of a process: to the function of the mapped file, else module and offset, else `[unknown]`.
//!
//! Outside every symbol, the offset is the start of the function in the file's unwind table: the samples of one function share one name.
//! Nothing is guessed; an address outside the table keeps its own offset.

use crate::elf::ElfImage;
use crate::maps::{MapEntry, find_mapping};

/// The name of an address in no file mapping.
pub const UNKNOWN: &str = "[unknown]";

/// The name and module of a native address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NativeName {
    /// `memcpy`, `libcoreclr.so+0x1a2b30` (the function's start), `[vdso]+0x10`, `[unknown]`.
    pub name: String,
    /// The module's path as the process sees it; `None` without a module.
    pub module: Option<String>,
    /// Whether `name` is a function's name (not a module and an offset, nor unknown).
    pub is_function: bool,
}

/// Resolves `address` of a process with these mappings (sorted by address).
///
/// `image` opens the file of a mapping, if possible. It is called only for mappings of modules, including `[vdso]`. For a caller's frame
/// pass the return address less 1: the return address itself may belong to the next function.
///
/// The offset after a module is the start of the function in the file's unwind table, else the address's own. Both are in the file's own
/// address space, so that `addr2line` accepts them.
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

/// Start of the module with `entry`: the nearest mapping at or below it that maps the beginning of the same file.
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
