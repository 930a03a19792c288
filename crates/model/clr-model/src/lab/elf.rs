//! What a library's ELF file says about its unload, and about its exports.

use super::observer;
use object::elf::{DF_1_NODELETE, DT_FLAGS_1, FileHeader64, STB_GNU_UNIQUE};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, StringTable};
use std::fs;

/// The symbols and flags of a library for the dynamic linker.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// DF_1_NODELETE is set: the linker never unmaps it.
    is_never_unmapped: bool,
    /// A symbol of its own that the linker keeps unique in the process (STB_GNU_UNIQUE). Whoever defines one in use is never unmapped.
    unique: Option<String>,
    /// Names of its symbols.
    names: Vec<String>,
}

impl ElfFacts {
    /// Nothing of a file that cannot be read.
    pub fn of(path: &str) -> ElfFacts {
        let path = path.to_owned();
        observer::look(move || {
            let bytes = fs::read(path).unwrap_or_default();
            parse(&bytes).unwrap_or_default()
        })
        .unwrap_or_default()
    }

    /// Why the linker keeps it mapped whatever its profiler does, and the remedy.
    pub fn why_it_stays(&self) -> Option<String> {
        if self.is_never_unmapped {
            return Some("its file has the flag NODELETE: link it without `-z nodelete`".to_owned());
        }
        self.unique.as_ref().map(|name| {
            format!(
                "glibc keeps libraries with unique symbols (STB_GNU_UNIQUE, such as {name}): compile it with -fno-gnu-unique"
            )
        })
    }

    /// A C++ name of this function, which the runtime does not find.
    pub fn mangled(&self, function: &str) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|name| name.starts_with("_Z") && name.contains(function))
    }
}

fn parse(bytes: &[u8]) -> object::Result<ElfFacts> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM)?;
    let text = |strings: StringTable, symbol: &object::elf::Sym64<Endianness>| {
        let name = symbol.name(endian, strings).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    let own = || symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
    let unique = own().find(|symbol| symbol.st_bind() == STB_GNU_UNIQUE);
    let flags = sections.dynamic(endian, bytes)?.into_iter().flat_map(|(entries, _)| entries);
    let is_never_unmapped = flags
        .filter(|entry| entry.d_tag(endian) == u64::from(DT_FLAGS_1))
        .any(|entry| entry.d_val(endian) & u64::from(DF_1_NODELETE) != 0);
    Ok(ElfFacts {
        is_never_unmapped,
        unique: unique.map(|symbol| text(symbols.strings(), symbol)),
        names: own().map(|symbol| text(symbols.strings(), symbol)).collect(),
    })
}
