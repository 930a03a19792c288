//! The functions in the symbol tables of a native module.

use crate::elf_file::{Elf, strings};
use object::elf::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, Sym64};
use object::read::elf::Sym;
use object::{Endianness, elf};
use std::iter;

/// A symbol that covers at least one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Lower is preferred: global, weak, local, generated.
    pub(crate) rank: u8,
    pub(crate) name: String,
}

/// Maximum number of functions of a file: each takes some 150 bytes.
const SYMBOL_LIMIT: usize = 1 << 21;

/// The functions of both symbol tables.
pub(crate) fn symbols<'a>(file: &'a Elf<'a>) -> impl Iterator<Item = Symbol> + 'a {
    let mut budget = NameBudget::of(file);
    let tables = [file.elf_symbol_table(), file.elf_dynamic_symbol_table()];
    let named = tables.into_iter().filter_map(|table| Some((table, strings(file, table.string_section())?)));
    let all = named.flat_map(|(table, strings)| table.symbols().iter().zip(iter::repeat(strings)));
    all.filter_map(move |(symbol, strings)| function(symbol, file.endian(), strings, &mut budget)).take(SYMBOL_LIMIT)
}

fn function(symbol: &Sym64<Endianness>, endian: Endianness, strings: &[u8], budget: &mut NameBudget) -> Option<Symbol> {
    let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
    let is_code = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE) && size > 0;
    // Defined in a section of the file.
    let is_here = !matches!(symbol.st_shndx(endian), elf::SHN_UNDEF | elf::SHN_ABS | elf::SHN_COMMON);
    (is_code && is_here).then_some(())?;
    // The C library's public names are weak aliases of global ones with underscores.
    let rank = if matches!(symbol.st_bind(), STB_GLOBAL | STB_WEAK) { 0 } else { 1 };
    Some(Symbol { address, size, rank, name: budget.name(strings, symbol.st_name(endian))? })
}

/// Remaining bytes that may be searched for names of a file, where all symbols may share one long name. A symbol beyond the budget is left
/// out, and its code is shown as module and offset.
pub(crate) struct NameBudget(usize);

impl NameBudget {
    /// Maximum bytes of one name: [`crate::demangle_native`] returns at most 2,048.
    const LONGEST: usize = 1 << 16;
    /// Maximum bytes of all names of a file, in addition to its length: the names are in it, and few share their bytes.
    const MOST: usize = 1 << 20;
    const MOST_OF_STUBS: usize = 8 << 20;

    pub(crate) fn of(file: &Elf<'_>) -> NameBudget {
        NameBudget(Self::MOST.saturating_add(file.data().len()))
    }

    /// The budget of the stubs, whose names others have, too: that of the file is not spent twice.
    pub(crate) fn of_stubs() -> NameBudget {
        NameBudget(Self::MOST_OF_STUBS)
    }

    /// The name at an offset of a section with names; `None` if it is empty, too long, no UTF-8 or beyond the budget. As text, what is no
    /// UTF-8 would take three times its length.
    pub(crate) fn name(&mut self, strings: &[u8], offset: u32) -> Option<String> {
        let rest = strings.get(offset as usize..)?;
        let searched = &rest[..rest.len().min(Self::LONGEST + 1).min(self.0)];
        let Some(end) = searched.iter().position(|byte| *byte == 0) else {
            self.0 -= searched.len();
            return None;
        };
        self.0 -= end;
        let name = str::from_utf8(&searched[..end]).ok()?;
        (end > 0).then(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_searched_within_the_budget_of_its_file_only() {
        let mut budget = NameBudget(21);
        let mut name = |strings: &[u8], offset| budget.name(strings, offset);
        assert_eq!(name(b"\0seven by\0four\0", 1), Some("seven by".to_owned()));
        assert_eq!((name(b"\0", 0), name(b"\0", 1), name(b"\0", 7)), (None, None, None));
        assert_eq!(name(b"abc\0", 1), Some("bc".to_owned()));
        assert_eq!(name(b"\xff\0", 0), None, "as text it would be longer than its bytes");
        assert_eq!(name(b"without an end", 0), None, "and it took what was left");
        assert_eq!(name(b"abc\0", 1), None);
        let named = |length| NameBudget(usize::MAX).name(&[vec![b'a'; length], vec![0]].concat(), 0);
        assert_eq!(named(NameBudget::LONGEST + 1), None);
        assert!(named(NameBudget::LONGEST).is_some());
    }
}
