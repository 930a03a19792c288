//! The needs of a library that a process loads, read from the library itself.

use crate::elf::{Architecture, Elf, GlibcVersion};
use crate::error::Error;

/// Libraries that a C library itself consists of; musl accepts all these names.
const C_LIBRARY_NAMES: [&str; 7] = ["libc.", "libm.", "libdl.", "libpthread.", "librt.", "libutil.", "ld-linux"];

/// The profiler slot that the library uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slot {
    /// A notification-only slot where the runtime has them (.NET 6 and later), else the main one.
    #[default]
    Beside,
    /// The main one.
    Main,
}

/// The needs of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirements {
    /// Its instruction set.
    pub architecture: Option<Architecture>,
    /// The highest version of glibc that it needs.
    pub glibc: Option<GlibcVersion>,
    /// Libraries that it needs besides the C library.
    pub libraries: Vec<String>,
    /// Names that the process or the library's dependencies must provide.
    pub names: Vec<String>,
    /// Size of the file.
    pub bytes: u64,
    /// The profiler slot it uses.
    pub slot: Slot,
}

impl Requirements {
    /// Reads them from a library's bytes.
    pub fn of_library(library: &[u8]) -> Result<Requirements, Error> {
        let bad = |why: &str| Error::BadLibrary { why: why.to_owned() };
        let elf = Elf::parse(library).ok_or_else(|| bad("no 64-bit ELF header with readable tables"))?;
        if !elf.is_shared_object() {
            return Err(bad("it is no shared object"));
        }
        let mut libraries = elf.needed_libraries();
        libraries.retain(|name| !C_LIBRARY_NAMES.iter().any(|prefix| name.starts_with(prefix)));
        Ok(Requirements {
            architecture: elf.architecture(),
            glibc: elf.glibc_needed(),
            libraries,
            names: elf.required_names(),
            bytes: library.len() as u64,
            slot: Slot::default(),
        })
    }

    /// The same needs with another profiler slot.
    pub fn for_slot(self, slot: Slot) -> Requirements {
        Requirements { slot, ..self }
    }
}
