//! The functions in the symbol tables of a native module.

use crate::elf_file::Elf;
use object::elf::{STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::{Object, ObjectSymbol, ObjectSymbolTable};

/// A symbol that covers at least one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Lower is preferred: global, weak, local, generated.
    pub(crate) rank: u8,
    pub(crate) name: String,
}

/// The functions of both symbol tables.
pub(crate) fn symbols<'a>(file: &'a Elf<'a>) -> impl Iterator<Item = Symbol> + 'a {
    let tables = [file.symbol_table(), file.dynamic_symbol_table()];
    let mut budget = NameBudget::of(file);
    tables.into_iter().flatten().flat_map(|table| table.symbols()).filter_map(move |symbol| {
        let raw = symbol.elf_symbol();
        let size = symbol.size();
        let named = matches!(raw.st_type(), STT_FUNC | STT_GNU_IFUNC | STT_NOTYPE) && size > 0;
        if !named || symbol.is_undefined() || symbol.section_index().is_none() {
            return None;
        }
        let rank = match raw.st_bind() {
            // The C library's public names are weak aliases of global ones with underscores.
            object::elf::STB_GLOBAL | object::elf::STB_WEAK => 0,
            _ => 1,
        };
        let name = budget.take(symbol.name_bytes().ok()?)?;
        Some(Symbol { address: symbol.address(), size, rank, name })
    })
}

/// Remaining bytes for names from a file, where all symbols may share one long name. A symbol beyond the budget is left out, and its code
/// is shown as module and offset.
pub(crate) struct NameBudget(usize);

impl NameBudget {
    /// Maximum bytes of one name: [`crate::demangle_native`] returns at most 2,048.
    const LONGEST: usize = 1 << 16;
    /// Maximum bytes of all names of a file, in addition to twice its length.
    const MOST: usize = 1 << 20;

    pub(crate) fn of(file: &Elf<'_>) -> NameBudget {
        NameBudget(Self::MOST.saturating_add(file.data().len().saturating_mul(2)))
    }

    /// The name as text; `None` if it is empty, too long or beyond the budget.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<String> {
        if name.is_empty() || name.len() > Self::LONGEST {
            return None;
        }
        self.0 = self.0.checked_sub(name.len())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_budget_and_shorter_ones_still_fit() {
        let mut budget = NameBudget(10);
        assert_eq!(budget.take(b"sevenby"), Some("sevenby".to_owned()));
        assert_eq!((budget.take(b"four"), budget.take(b"")), (None, None));
        assert_eq!(budget.take(b"abc"), Some("abc".to_owned()));
        let mut budget = NameBudget(usize::MAX);
        assert_eq!(budget.take(&vec![b'a'; NameBudget::LONGEST + 1]), None);
        assert!(budget.take(&vec![b'a'; NameBudget::LONGEST]).is_some());
    }
}
