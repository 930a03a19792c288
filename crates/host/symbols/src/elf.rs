//! Native modules: finds the function at an address of an ELF file.
//!
//! A function covers the addresses from its symbol's value up to its size, and no more: the nearest symbol before an address is not its
//! name. A symbol of size 0 therefore names nothing. The bounds of functions without a symbol are in `unwind.rs`. Among several symbols
//! that cover an address, the innermost wins. Among aliases, the most public one with the plainest name wins.

use crate::debug_file::DebugFile;
use crate::elf_file::{Segment, is_code, open, segments};
use crate::elf_symbols::{Symbol, symbols};
use crate::error::SymbolError;
use crate::plt::plt_symbols;
use crate::target_path::TargetPath;
use crate::unwind::UnwindBounds;
use std::collections::BinaryHeap;

/// A native module: its symbols and segments, decoded from the bytes of its file.
#[derive(Debug, Clone)]
pub struct ElfImage {
    /// Sorted by address.
    symbols: Vec<Symbol>,
    /// Sorted by their start.
    ranges: Vec<Range>,
    bounds: UnwindBounds,
    segments: Vec<Segment>,
    debug_file: DebugFile,
}

impl ElfImage {
    /// Parses a 64-bit ELF file.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<ElfImage, SymbolError> {
        let file = open(bytes.as_ref())?;
        let segments = segments(&file);
        let mut image = ElfImage {
            symbols: Vec::new(),
            ranges: Vec::new(),
            bounds: UnwindBounds::read(&file, |start, length| is_code(&segments, start, length)),
            segments,
            debug_file: DebugFile::of(&file),
        };
        image.add(symbols(&file).chain(plt_symbols(&file)));
        Ok(image)
    }

    /// Adds the symbols of a separate debug file (`bytes`) if it is of the same build. Returns whether it is.
    pub fn add_debug_file(&mut self, bytes: impl AsRef<[u8]>) -> Result<bool, SymbolError> {
        let file = open(bytes.as_ref())?;
        if !self.debug_file.is(&file, bytes.as_ref()) {
            return Ok(false);
        }
        self.add(symbols(&file));
        Ok(true)
    }

    /// Possible paths of the debug file in a directory with symbols, best first; `module` is the module's own path.
    pub fn debug_file_names(&self, module: &TargetPath) -> Vec<String> {
        self.debug_file.names(module)
    }

    /// Possible paths of the debug file in the process's view, best first; `module` is the module's own path.
    pub fn debug_file_paths(&self, module: &TargetPath) -> Vec<TargetPath> {
        self.debug_file.paths(module)
    }

    /// The build id, if the linker wrote one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.debug_file.build_id.as_deref()
    }

    /// The raw symbol that covers an address of the file's own address space; `None` outside every symbol.
    pub fn symbol(&self, address: u64) -> Option<&str> {
        self.symbol_at(address).map(|symbol| symbol.name.as_str())
    }

    /// The readable name of the function at an address, and the function's first address.
    pub fn function(&self, address: u64) -> Option<(String, u64)> {
        self.symbol_at(address).map(|symbol| (crate::demangle::native(&symbol.name), symbol.address))
    }

    /// Start and length of the function at an address, from the file's unwind table (`.eh_frame`).
    ///
    /// Stripped files keep that table. `None` outside its entries. A part that the compiler moved away has an entry of its own.
    pub fn function_bounds(&self, address: u64) -> Option<(u64, u64)> {
        self.bounds.at(address)
    }

    /// Converts a file offset to an address of the file's own address space.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let held = |segment: &&Segment| offset >= segment.offset && offset - segment.offset < segment.file_size;
        self.segments.iter().find(held).map(|segment| segment.address.wrapping_add(offset - segment.offset))
    }

    /// Converts an address of the file's own address space to a file offset.
    pub fn offset_of_address(&self, address: u64) -> Option<u64> {
        let held = |segment: &&Segment| address >= segment.address && address - segment.address < segment.file_size;
        self.segments.iter().find(held).map(|segment| segment.offset.wrapping_add(address - segment.address))
    }

    fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        self.ranges.get(after.checked_sub(1)?)?.symbol.map(|symbol| &self.symbols[symbol as usize])
    }

    fn add(&mut self, symbols: impl Iterator<Item = Symbol>) {
        self.symbols.extend(symbols);
        // The last one that has begun is the innermost; of those with one address the smallest, then the preferred.
        self.symbols.sort_by(|a, b| {
            a.address.cmp(&b.address).then(b.size.cmp(&a.size)).then_with(|| preference(b).cmp(&preference(a)))
        });
        self.symbols.dedup();
        self.ranges = ranges(&self.symbols);
    }
}

/// Addresses up to the next range's start, and their symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u64,
    symbol: Option<u32>,
}

/// Splits sorted symbols where the last one that covers an address changes. A lookup among them would otherwise pass all symbols within a
/// large one.
fn ranges(symbols: &[Symbol]) -> Vec<Range> {
    let end = |symbol: &u32| symbols[*symbol as usize].address.saturating_add(symbols[*symbol as usize].size);
    let mut ranges: Vec<Range> = Vec::new();
    // Symbols that have begun, the last one on top. One below the top may have ended.
    let mut begun: BinaryHeap<u32> = BinaryHeap::new();
    let end_up_to = |address: u64, begun: &mut BinaryHeap<u32>, ranges: &mut Vec<Range>| {
        while let Some(ended) = begun.peek().map(end).filter(|end| *end <= address) {
            while begun.peek().is_some_and(|symbol| end(symbol) <= ended) {
                begun.pop();
            }
            ranges.push(Range { start: ended, symbol: begun.peek().copied() });
        }
    };
    for (index, symbol) in symbols.iter().enumerate() {
        end_up_to(symbol.address, &mut begun, &mut ranges);
        begun.push(index as u32);
        ranges.push(Range { start: symbol.address, symbol: Some(index as u32) });
    }
    end_up_to(u64::MAX, &mut begun, &mut ranges);
    ranges
}

/// Looks at the beginning of a name only: a file may have a million long names for one address.
fn preference(symbol: &Symbol) -> (u8, usize, usize, &[u8]) {
    const BEGINNING: usize = 64;
    let name = symbol.name.as_bytes();
    let beginning = &name[..name.len().min(BEGINNING)];
    let underscores = beginning.iter().take_while(|byte| **byte == b'_').count();
    (symbol.rank, underscores, name.len(), beginning)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with these symbols (address, size, rank, name).
    fn image(symbols: &[(u64, u64, u8, &str)]) -> ElfImage {
        let mut image = ElfImage {
            symbols: Vec::new(),
            ranges: Vec::new(),
            bounds: UnwindBounds::default(),
            segments: Vec::new(),
            debug_file: DebugFile::default(),
        };
        let symbol =
            |&(address, size, rank, name): &(u64, u64, u8, &str)| Symbol { address, size, rank, name: name.into() };
        image.add(symbols.iter().map(symbol));
        image
    }

    /// A lookup passed every symbol within a large one: twenty minutes for a record, with a file of 512 MiB.
    #[test]
    fn regression_a_symbol_around_all_others_made_each_lookup_linear() {
        let within = (0..1000).map(|index| (2 * index, 1, 0, "within"));
        let symbols: Vec<_> = [(0, 10_000, 0, "around")].into_iter().chain(within).collect();
        let image = image(&symbols);
        assert_eq!(
            ["around", "within"].map(|name| image.symbol(if name == "around" { 1001 } else { 1002 })),
            [Some("around"), Some("within")]
        );
        // Each symbol begins a range and ends one; nothing else is looked at.
        assert!(image.ranges.len() <= 2 * symbols.len() && image.ranges.is_sorted_by_key(|range| range.start));
    }

    #[test]
    fn a_lookup_finds_the_last_symbol_that_covers_an_address() {
        let mut seed = 1_u64;
        let mut number = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % most
        };
        for _ in 0..300 {
            let names: Vec<String> = (0..number(20)).map(|index| format!("s{index}")).collect();
            let symbols: Vec<_> = names.iter().map(|name| (number(60), 1 + number(20), 0, name.as_str())).collect();
            let image = image(&symbols);
            for address in 0..90 {
                let covers = |symbol: &&Symbol| address >= symbol.address && address - symbol.address < symbol.size;
                let expected = image.symbols.iter().rev().find(covers).map(|symbol| symbol.name.as_str());
                assert_eq!(image.symbol(address), expected, "{address} of {symbols:?}");
            }
        }
    }

    #[test]
    fn the_innermost_symbol_and_the_plainest_alias_win() {
        let all = [(10, 100, 0, "outer"), (10, 5, 2, "start"), (20, 10, 0, "inner"), (200, u64::MAX, 0, "endless")];
        let aliases = [(120, 4, 1, "weak"), (120, 4, 0, "__global"), (120, 4, 0, "global"), (120, 4, 2, "a")];
        let image = image(&[&all[..], &aliases].concat());
        for (address, name) in [
            (9, None),
            (10, Some("start")),
            (14, Some("start")),
            (15, Some("outer")),
            (20, Some("inner")),
            (29, Some("inner")),
            (30, Some("outer")),
            (109, Some("outer")),
            (110, None),
            (120, Some("global")),
            (124, None),
            (u64::MAX - 1, Some("endless")),
        ] {
            assert_eq!(image.symbol(address), name, "{address}");
        }
    }
}
