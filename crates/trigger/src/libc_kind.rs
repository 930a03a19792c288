//! Which C library a process runs on, and its version where that matters.
//!
//! glibc's version is the highest that its own file defines, read from the file that is mapped. musl has no symbol
//! versions; what a library needs from it is compared name by name instead.

use crate::elf::GlibcVersion;
use crate::proc::{Mapping, Proc};
use crate::runtime::with_elf;
use std::path::PathBuf;

/// A C library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Libc {
    /// The GNU one.
    Glibc {
        /// Highest version that it defines.
        version: Option<GlibcVersion>,
        /// Its file, in the process's view.
        file: PathBuf,
    },
    /// musl, as in Alpine.
    Musl {
        /// Its file, in the process's view.
        file: PathBuf,
    },
    /// None that is known, or a static program.
    Unknown,
}

impl Libc {
    /// Tells it from what is mapped.
    pub(crate) fn of(proc: &Proc, pid: u32, maps: &[Mapping]) -> Libc {
        for mapping in maps {
            let name = mapping.file_name();
            let file = mapping.path.clone();
            if name.starts_with("ld-musl-") || name.starts_with("libc.musl-") {
                return Libc::Musl { file };
            }
            if name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so")) {
                let version = with_elf(proc.open(pid, &file), |elf| elf.glibc_defined()).flatten();
                return Libc::Glibc { version, file };
            }
        }
        Libc::Unknown
    }
}

impl std::fmt::Display for Libc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Libc::Glibc { version: Some(version), .. } => write!(f, "glibc {version}"),
            Libc::Glibc { version: None, .. } => f.write_str("glibc"),
            Libc::Musl { .. } => f.write_str("musl"),
            Libc::Unknown => f.write_str("unknown"),
        }
    }
}
