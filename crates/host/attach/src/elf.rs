//! What an ELF file tells: architecture, exports, and which glibc it needs or is.
//!
//! Reads only the tables that are asked for. A damaged or foreign file gives `None` or nothing, never a panic.

use object::elf::{EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadRef};
use std::collections::BTreeSet;

/// Mark before the version in every CoreCLR: `@(#)Version 8.0.424.16909 @Commit: ...`.
const VERSION_MARK: &[u8] = b"@(#)Version ";

/// Symbol versions looked at; a C library has some dozens, and a damaged table could send us in circles.
const MOST_VERSIONS: usize = 4_096;

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// x86-64.
    X64,
    /// 64-bit ARM.
    Arm64,
    /// 32-bit x86.
    X86,
    /// 32-bit ARM.
    Arm,
    /// Another, by its ELF number.
    Other(u16),
}

impl Architecture {
    /// Reads it from the first bytes of a file.
    pub fn of_header(bytes: &[u8]) -> Option<Architecture> {
        if bytes.get(..4)? != b"\x7fELF" {
            return None;
        }
        let machine: [u8; 2] = bytes.get(18..20)?.try_into().ok()?;
        let machine = if bytes.get(5)? == &2 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
        Some(match machine {
            EM_X86_64 => Architecture::X64,
            EM_AARCH64 => Architecture::Arm64,
            EM_386 => Architecture::X86,
            EM_ARM => Architecture::Arm,
            other => Architecture::Other(other),
        })
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            Architecture::X64 => "x64",
            Architecture::Arm64 => "arm64",
            Architecture::X86 => "x86",
            Architecture::Arm => "arm",
            Architecture::Other(EM_S390) => "s390x",
            Architecture::Other(EM_PPC64) => "ppc64le",
            Architecture::Other(EM_RISCV) => "riscv64",
            Architecture::Other(EM_LOONGARCH) => "loongarch64",
            Architecture::Other(machine) => return write!(f, "ELF machine {machine}"),
        })
    }
}

/// A version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlibcVersion {
    /// 2, as yet.
    pub major: u32,
    /// The number that grows.
    pub minor: u32,
}

impl GlibcVersion {
    /// From a symbol version such as `GLIBC_2.17`; `GLIBC_PRIVATE` is none.
    fn of_symbol_version(name: &[u8]) -> Option<GlibcVersion> {
        let text = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
        let mut numbers = text.split('.').map(|part| part.parse().ok());
        Some(GlibcVersion { major: numbers.next()??, minor: numbers.next()?? })
    }
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A 64-bit ELF file, read on demand.
pub(crate) struct Elf<'data, R: ReadRef<'data>> {
    data: R,
    file: ElfFile64<'data, Endianness, R>,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// `None` if it is not a readable 64-bit ELF file.
    pub(crate) fn parse(data: R) -> Option<Elf<'data, R>> {
        Some(Elf { data, file: ElfFile64::parse(data).ok()? })
    }

    /// Whether one of `names` is defined for others to use. Names are compared without their symbol version.
    pub(crate) fn exports(&self, names: &[&str]) -> bool {
        self.file
            .dynamic_symbols()
            .any(|symbol| symbol.is_definition() && symbol.name().is_ok_and(|name| names.contains(&bare(name))))
    }

    /// All names that are defined for others to use.
    pub(crate) fn exported_names(&self) -> BTreeSet<String> {
        let defined = self.file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        defined.filter_map(|symbol| Some(bare(symbol.name().ok()?).to_owned())).collect()
    }

    /// Names that must be found elsewhere; weak ones are left out.
    pub(crate) fn required_names(&self) -> Vec<String> {
        let missing = self.file.dynamic_symbols().filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
        let mut names: Vec<String> = missing.filter_map(|symbol| Some(bare(symbol.name().ok()?).to_owned())).collect();
        names.retain(|name| !name.is_empty());
        names
    }

    /// The highest glibc version that it needs.
    pub(crate) fn glibc_needed(&self) -> Option<GlibcVersion> {
        let (endian, sections) = (self.file.endian(), self.file.elf_section_table());
        let (mut needs, strings) = sections.gnu_verneed(endian, self.data).ok()??;
        let strings = sections.strings(endian, self.data, strings).ok()?;
        let (mut highest, mut left) = (None, MOST_VERSIONS);
        while let (Some(fewer), Ok(Some((_, mut files)))) = (left.checked_sub(1), needs.next()) {
            left = fewer;
            while let (Some(fewer), Ok(Some(version))) = (left.checked_sub(1), files.next()) {
                left = fewer;
                let name = version.name(endian, strings).unwrap_or_default();
                highest = highest.max(GlibcVersion::of_symbol_version(name));
            }
        }
        highest
    }

    /// The highest glibc version that it defines, if it is a glibc.
    pub(crate) fn glibc_defined(&self) -> Option<GlibcVersion> {
        let (endian, sections) = (self.file.endian(), self.file.elf_section_table());
        let (mut definitions, strings) = sections.gnu_verdef(endian, self.data).ok()??;
        let strings = sections.strings(endian, self.data, strings).ok()?;
        let (mut highest, mut left) = (None, MOST_VERSIONS);
        while let (Some(fewer), Ok(Some((_, mut names)))) = (left.checked_sub(1), definitions.next()) {
            left = fewer;
            while let (Some(fewer), Ok(Some(name))) = (left.checked_sub(1), names.next()) {
                left = fewer;
                let name = name.name(endian, strings).unwrap_or_default();
                highest = highest.max(GlibcVersion::of_symbol_version(name));
            }
        }
        highest
    }

    /// Names of the libraries that it needs.
    pub(crate) fn needed_libraries(&self) -> Vec<String> {
        let (endian, sections) = (self.file.endian(), self.file.elf_section_table());
        let Ok(Some((entries, strings))) = sections.dynamic(endian, self.data) else { return Vec::new() };
        let Ok(strings) = sections.strings(endian, self.data, strings) else { return Vec::new() };
        let needed = entries.iter().filter(|entry| entry.d_tag.get(endian) == u64::from(object::elf::DT_NEEDED));
        needed
            .filter_map(|entry| strings.get(u32::try_from(entry.d_val.get(endian)).ok()?).ok())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// The version that CoreCLR writes into its binaries, `8.0.424.16909` for example.
    pub(crate) fn embedded_version(&self) -> Option<String> {
        [".rodata", ".data"].into_iter().find_map(|name| {
            let data = self.file.section_by_name(name)?.data().ok()?;
            let at = find(data, VERSION_MARK)? + VERSION_MARK.len();
            let text = data.get(at..at + 40).unwrap_or(&data[at..]);
            let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
            Some(String::from_utf8_lossy(&text[..end]).into_owned())
        })
    }

    /// Whether `mark` is among its constants.
    pub(crate) fn holds(&self, mark: &[u8]) -> bool {
        let constants = self.file.section_by_name(".rodata").and_then(|section| section.data().ok());
        constants.is_some_and(|data| find(data, mark).is_some())
    }

    /// Its architecture.
    pub(crate) fn architecture(&self) -> Option<Architecture> {
        Architecture::of_header(self.data.read_bytes_at(0, 20).ok()?)
    }

    /// Whether it is a shared object (which a position-independent program is, too).
    pub(crate) fn is_shared_object(&self) -> bool {
        let header: &FileHeader64<Endianness> = self.file.elf_header();
        header.e_type(self.file.endian()) == object::elf::ET_DYN
    }
}

/// Asks `bytes` everything that an ELF file is asked; it must return whatever they are. Entry point for fuzzing: whether it was one.
pub fn read_any_elf(bytes: &[u8]) -> bool {
    let Some(elf) = Elf::parse(bytes) else { return false };
    let _ = (elf.exports(&["x"]), elf.exported_names(), elf.required_names(), elf.needed_libraries());
    let _ = (elf.glibc_defined(), elf.glibc_needed(), elf.embedded_version());
    let _ = (elf.architecture(), elf.is_shared_object(), elf.holds(b"x"));
    true
}

/// A symbol's name without a version after it.
fn bare(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

fn find(data: &[u8], mark: &[u8]) -> Option<usize> {
    data.windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::Requirements;
    use crate::test_elf::library_with;

    #[test]
    fn a_file_tells_its_architecture_exports_and_version() {
        let bytes = library_with("DllGetClassObject", "@(#)Version 9.0.725.31616 @Commit");
        let elf = Elf::parse(bytes.as_slice()).expect("valid");
        assert_eq!(elf.architecture(), Some(Architecture::X64));
        assert!(elf.exports(&["DllGetClassObject"]) && !elf.exports(&["DllGetClass"]));
        assert_eq!(elf.embedded_version().as_deref(), Some("9.0.725.31616"));
    }

    #[test]
    fn damaged_files_never_panic() {
        let bytes = library_with("DllGetClassObject", "@(#)Version 9.0.725.31616 @Commit");
        for at in 0..bytes.len() {
            read_any_elf(&bytes[..at]);
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                read_any_elf(&damaged);
            }
        }
    }

    #[test]
    fn glibc_versions_are_compared_as_numbers() {
        let version = |name: &str| GlibcVersion::of_symbol_version(name.as_bytes());
        assert!(version("GLIBC_2.9") < version("GLIBC_2.17"));
        assert_eq!(version("GLIBC_2.2.5"), version("GLIBC_2.2"));
        assert_eq!((version("GLIBC_PRIVATE"), version("CXXABI_1.3")), (None, None));
    }

    #[test]
    fn what_this_program_needs_of_glibc_is_no_more_than_the_glibc_that_it_runs_on() {
        let ourselves = std::fs::read("/proc/self/exe").expect("readable");
        let needed = Requirements::of_library(&ourselves).expect("position-independent").glibc.expect("uses glibc");
        let maps = crate::proc::Proc::default().maps(std::process::id()).expect("readable");
        let libc = maps.iter().find(|mapping| mapping.file_name() == "libc.so.6").expect("mapped");
        let libc = std::fs::read(libc.path.to_string()).expect("readable");
        let defined = Elf::parse(libc.as_slice()).and_then(|elf| elf.glibc_defined()).expect("a glibc");
        assert!(needed <= defined && needed.major == 2, "{needed} {defined}");
    }
}
