//! The C library of a process, and its version where it matters.
//!
//! The version of glibc is the highest that its file defines, read from the mapped file. A musl has no symbol versions:
//! the names that a library needs are compared one by one instead.
//! A file with an ambiguous name is examined by content: Debian maps musl as `libc.so`.

use crate::elf::GlibcVersion;
use crate::program::Program;
use crate::runtime::with_elf;
use crate::windowed::Budget;
use remora_symbols::{MapEntry, TargetPath};

/// musl's file is its own dynamic linker, too, which prints this when run: `musl libc (x86_64)`.
const MUSL_MARK: &[u8] = b"musl libc (";
/// An export of C libraries only.
const START: &str = "__libc_start_main";
/// Maximum mapped libraries examined by content.
const MOST_ASKED: usize = 16;

/// A C library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Libc {
    /// The GNU one.
    Glibc {
        /// Highest version that it defines.
        version: Option<GlibcVersion>,
        /// Its file, in the process's view.
        file: TargetPath,
    },
    /// musl, as in Alpine.
    Musl {
        /// Its file, in the process's view.
        file: TargetPath,
    },
    /// Unknown, or a static program.
    Unknown,
}

impl Libc {
    /// Detects it from the mappings: by the names of distributions, else by content.
    pub(crate) fn of(program: &Program, maps: &[MapEntry], budget: &Budget) -> Libc {
        maps.iter()
            .find_map(|mapping| by_name(program, mapping, budget))
            .or_else(|| by_content(program, maps, budget))
            .unwrap_or(Libc::Unknown)
    }
}

fn by_name(program: &Program, mapping: &MapEntry, budget: &Budget) -> Option<Libc> {
    let (name, file) = (mapping.file_name(), mapping.path.clone());
    if name.starts_with("ld-musl-") || name.starts_with("libc.musl-") {
        return Some(Libc::Musl { file });
    }
    let is_glibc = name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so"));
    is_glibc.then(|| {
        let version = with_elf(budget, || program.open(&file), |elf| elf.glibc_defined()).flatten();
        Libc::Glibc { version, file }
    })
}

/// Examines the libraries named like a C library or a dynamic linker.
fn by_content(program: &Program, maps: &[MapEntry], budget: &Budget) -> Option<Libc> {
    let may_be_one = |mapping: &&MapEntry| {
        mapping.permissions.execute
            && ["libc.", "libc-", "ld-", "ld."].iter().any(|start| mapping.file_name().starts_with(start))
    };
    maps.iter().filter(may_be_one).take(MOST_ASKED).find_map(|mapping| {
        let kind = with_elf(
            budget,
            || program.open(&mapping.path),
            |elf| {
                let (version, file) = (elf.glibc_defined(), mapping.path.clone());
                match elf.exports(&[START]) {
                    true if version.is_some() => Some(Libc::Glibc { version, file }),
                    true if elf.holds(MUSL_MARK) => Some(Libc::Musl { file }),
                    _ => None,
                }
            },
        );
        kind.flatten()
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::elf::library_with;
    use crate::tests::process::MadeUp;

    /// Debian's package maps musl as `/usr/lib/x86_64-linux-musl/libc.so`, which was not recognised.
    #[test]
    fn musl_is_recognised_however_it_is_mapped() {
        let made = MadeUp::core_clr();
        let found = |name: &str, content: &[u8]| {
            made.write("usr/lib", name, content);
            let mapped = format!("7f20-7f30 r-xp 00000000 08:01 43 /usr/lib/{name}\n");
            made.set("maps", &[&made.read("maps")[..], mapped.as_bytes()].concat());
            let libc = made.find().libc;
            made.set("maps", &made.read("maps")[..made.read("maps").len() - mapped.len()]);
            libc.to_string()
        };
        let musl = library_with(START, "musl libc (x86_64)");
        for name in ["ld-musl-x86_64.so.1", "libc.musl-x86_64.so.1", "libc.so"] {
            assert_eq!(found(name, &musl), "musl", "{name}");
        }
        assert_eq!(found("libc.so", &library_with(START, "another libc")), "unknown");
        assert_eq!(found("libc.so", &library_with("main", "made for musl libc (x86_64)")), "unknown");
        assert_eq!(found("libc.so.6", &musl), "glibc", "its name tells");
    }
}
