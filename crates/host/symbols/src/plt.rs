//! Names for the jump stubs of the procedure linkage table: `memcpy@plt`.
//!
//! A stub has no symbol. Its name comes from its code: an indirect jump through a slot that the dynamic linker fills with one symbol's
//! address. Only x86-64 stubs are recognized; other code remains without a name.

use crate::elf_file::{Elf, section, strings};
use crate::elf_symbols::{NameBudget, Symbol};
use object::read::elf::Sym;
use object::{Architecture, Object, ObjectSymbolTable, RelocationTarget};
use std::collections::HashMap;

/// Maximum number of stubs in one section.
const STUB_LIMIT: usize = 1 << 16;
/// Maximum number of relocations that are read.
const SLOT_LIMIT: usize = 1 << 20;
const RANK: u8 = 3;

/// The stubs of `file`, each as a symbol.
pub(crate) fn plt_symbols<'a>(file: &'a Elf<'a>) -> impl Iterator<Item = Symbol> {
    let mut symbols = Vec::new();
    if file.architecture() == Architecture::X86_64 {
        let slots = slot_names(file);
        let strings = strings(file, file.elf_dynamic_symbol_table().string_section()).unwrap_or_default();
        let mut budget = NameBudget::of_stubs();
        for name in [".plt", ".plt.sec", ".plt.got"] {
            let Some((address, code, entry_size)) = section(file, name) else { continue };
            let step = if entry_size == 8 { 8 } else { 16 };
            for (index, stub) in code.chunks_exact(step).take(STUB_LIMIT).enumerate() {
                let start = address.wrapping_add((index * step) as u64);
                let target = jump_slot(stub, start).and_then(|slot| slots.get(&slot));
                if let Some(target) = target.and_then(|name| budget.name(strings, *name)) {
                    symbols.push(Symbol {
                        address: start,
                        size: step as u64,
                        rank: RANK,
                        name: format!("{target}@plt"),
                    });
                }
            }
        }
    }
    symbols.into_iter()
}

/// For every slot that the dynamic linker fills, where the name of its symbol begins.
fn slot_names(file: &Elf<'_>) -> HashMap<u64, u32> {
    let (Some(relocations), Some(table)) = (file.dynamic_relocations(), file.dynamic_symbol_table()) else {
        return HashMap::new();
    };
    let name = |target| match target {
        RelocationTarget::Symbol(index) => Some(table.symbol_by_index(index).ok()?.elf_symbol().st_name(file.endian())),
        _ => None,
    };
    let slots = relocations.take(SLOT_LIMIT).filter_map(|(slot, relocation)| Some((slot, name(relocation.target())?)));
    slots.collect()
}

/// The slot that a stub at `address` jumps through: `[endbr64] [bnd] jmp *offset(%rip)`.
fn jump_slot(stub: &[u8], address: u64) -> Option<u64> {
    let mut code = stub;
    code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    code = code.strip_prefix(&[0xf2]).unwrap_or(code);
    let (offset, rest) = code.strip_prefix(&[0xff, 0x25])?.split_first_chunk::<4>()?;
    let next = address.wrapping_add((stub.len() - rest.len()) as u64);
    Some(next.wrapping_add_signed(i64::from(i32::from_le_bytes(*offset))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_of_every_shape_are_read() {
        for (stub, slot) in [
            (&[0xff, 0x25, 0x10, 0, 0, 0, 0x68, 0, 0, 0, 0][..], Some(0x1016)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0], Some(0x101a)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xff, 0xff, 0xff, 0xff], Some(0x100a)),
            (&[0xff, 0x35, 0x10, 0, 0, 0], None),
            (&[0xff, 0x25, 0x10], None),
            (&[], None),
        ] {
            assert_eq!(jump_slot(stub, 0x1000), slot, "{stub:x?}");
        }
    }
}
