//! Reads ELF files: architecture, exports, and the glibc version that a file needs or is.
//!
//! Reads only the necessary tables, never the names of all symbols (`.symtab`). A damaged or foreign file gives `None` or nothing, never a
//! panic.

use object::elf::{EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable, VersionTable};
use object::{Endianness, ReadRef};
use std::collections::BTreeSet;

/// The prefix of the version in every CoreCLR: `@(#)Version 8.0.424.16909 @Commit: ...`.
const VERSION_MARK: &[u8] = b"@(#)Version ";

/// Maximum symbol versions examined, and maximum files they are of; a C library has some dozens, and a damaged table could be circular.
const MOST_VERSIONS: usize = 2_048;

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
    /// 2 so far.
    pub major: u32,
    /// The increasing number.
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

type Header = FileHeader64<Endianness>;

/// A 64-bit ELF file, read on demand.
pub(crate) struct Elf<'data, R: ReadRef<'data>> {
    data: R,
    header: &'data Header,
    endian: Endianness,
    sections: SectionTable<'data, Header, R>,
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// `None` if it is not a readable 64-bit ELF file.
    pub(crate) fn parse(data: R) -> Option<Elf<'data, R>> {
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        Some(Elf { data, header, endian, sections: header.sections(endian, data).ok()? })
    }

    /// Whether it defines and exports one of `names`. The comparison ignores symbol versions.
    pub(crate) fn exports(&self, names: &[&str]) -> bool {
        !self.exported_of(names).is_empty()
    }

    /// The `names` that it defines and exports. The lookup uses the file's hash table, if it has one: a large program has millions of
    /// names.
    pub(crate) fn exported_of<'name>(&self, names: &[&'name str]) -> BTreeSet<&'name str> {
        let Some(symbols) = self.dynamic_symbols() else { return BTreeSet::new() };
        if let Some(found) = self.hashed(names, &symbols) {
            return found;
        }
        let defined = symbols.iter().filter(|symbol| symbol.is_definition(self.endian));
        let exported = defined.filter_map(|symbol| symbol.name(self.endian, symbols.strings()).ok());
        exported.filter_map(|name| names.iter().copied().find(|wanted| wanted.as_bytes() == bare(name))).collect()
    }

    /// [`Elf::exported_of`] by the hash table; `None` without a usable one.
    fn hashed<'name>(
        &self,
        names: &[&'name str],
        symbols: &SymbolTable<'data, Header, R>,
    ) -> Option<BTreeSet<&'name str>> {
        let header = self.sections.gnu_hash_header(self.endian, self.data).ok()??;
        // The lookup divides by the first, subtracts from the second, and shifts 32 bits by the third.
        let (buckets, filters) = (header.bucket_count.get(self.endian), header.bloom_count.get(self.endian));
        if buckets == 0 || filters == 0 || header.bloom_shift.get(self.endian) >= u32::BITS {
            return None;
        }
        let (table, linked) = self.sections.gnu_hash(self.endian, self.data).ok()??;
        let is_defined = |name: &&'name str| {
            let hash = object::elf::gnu_hash(name.as_bytes());
            let found = table.find(self.endian, name.as_bytes(), hash, None, symbols, &VersionTable::default());
            found.is_some_and(|(_, symbol)| symbol.is_definition(self.endian))
        };
        (linked == symbols.section()).then(|| names.iter().copied().filter(is_defined).collect())
    }

    /// Imported names except weak ones.
    pub(crate) fn required_names(&self) -> Vec<String> {
        let Some(symbols) = self.dynamic_symbols() else { return Vec::new() };
        let missing = symbols.iter().filter(|symbol| symbol.is_undefined(self.endian) && !symbol.is_weak());
        let names = missing.filter_map(|symbol| symbol.name(self.endian, symbols.strings()).ok());
        let names = names.map(|name| String::from_utf8_lossy(bare(name)).into_owned());
        names.filter(|name| !name.is_empty()).collect()
    }

    fn dynamic_symbols(&self) -> Option<SymbolTable<'data, Header, R>> {
        self.sections.symbols(self.endian, self.data, object::elf::SHT_DYNSYM).ok()
    }

    fn section(&self, name: &str) -> Option<&'data [u8]> {
        let (_, section) = self.sections.section_by_name(self.endian, name.as_bytes())?;
        section.data(self.endian, self.data).ok()
    }

    /// The highest glibc version that it needs.
    pub(crate) fn glibc_needed(&self) -> Option<GlibcVersion> {
        let (endian, sections) = (self.endian, &self.sections);
        let (needs, strings) = sections.gnu_verneed(endian, self.data).ok()??;
        let strings = sections.strings(endian, self.data, strings).ok()?;
        let needs = needs.map_while(Result::ok).take(MOST_VERSIONS);
        let versions = needs.flat_map(|(_, versions)| versions.map_while(Result::ok)).take(MOST_VERSIONS);
        versions.filter_map(|version| GlibcVersion::of_symbol_version(version.name(endian, strings).ok()?)).max()
    }

    /// The highest glibc version that it defines, if it is a glibc.
    pub(crate) fn glibc_defined(&self) -> Option<GlibcVersion> {
        let (endian, sections) = (self.endian, &self.sections);
        let (definitions, strings) = sections.gnu_verdef(endian, self.data).ok()??;
        let strings = sections.strings(endian, self.data, strings).ok()?;
        let definitions = definitions.map_while(Result::ok).take(MOST_VERSIONS);
        let versions = definitions.flat_map(|(_, versions)| versions.map_while(Result::ok)).take(MOST_VERSIONS);
        versions.filter_map(|version| GlibcVersion::of_symbol_version(version.name(endian, strings).ok()?)).max()
    }

    /// Names of the libraries that it needs.
    pub(crate) fn needed_libraries(&self) -> Vec<String> {
        let (endian, sections) = (self.endian, &self.sections);
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
            let data = self.section(name)?;
            let at = find(data, VERSION_MARK)? + VERSION_MARK.len();
            let text = data.get(at..at + 40).unwrap_or(&data[at..]);
            let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
            Some(String::from_utf8_lossy(&text[..end]).into_owned())
        })
    }

    /// Whether `mark` is in its read-only data.
    pub(crate) fn holds(&self, mark: &[u8]) -> bool {
        self.section(".rodata").is_some_and(|data| find(data, mark).is_some())
    }

    /// Its architecture.
    pub(crate) fn architecture(&self) -> Option<Architecture> {
        Architecture::of_header(self.data.read_bytes_at(0, 20).ok()?)
    }

    /// Whether it is a shared object (which a position-independent program is, too).
    pub(crate) fn is_shared_object(&self) -> bool {
        self.header.e_type(self.endian) == object::elf::ET_DYN
    }
}

/// Runs every query on `bytes`, which must return whatever they are. Entry point for fuzzing; returns whether it is an ELF file.
pub fn read_any_elf(bytes: &[u8]) -> bool {
    let Some(elf) = Elf::parse(bytes) else { return false };
    let _ = (elf.exports(&["x", "DllGetClassObject"]), elf.required_names(), elf.needed_libraries());
    let _ = (elf.glibc_defined(), elf.glibc_needed(), elf.embedded_version());
    let _ = (elf.architecture(), elf.is_shared_object(), elf.holds(b"x"));
    true
}

/// A symbol's name without a version after it.
fn bare(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == b'@').next().unwrap_or(name)
}

fn find(data: &[u8], mark: &[u8]) -> Option<usize> {
    data.windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::Requirements;
    use crate::tests::elf::library_with;

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

    fn our_libc() -> Vec<u8> {
        let maps = crate::proc::Proc::default().maps(std::process::id()).expect("readable");
        let libc = maps.iter().find(|mapping| mapping.file_name() == "libc.so.6").expect("mapped");
        std::fs::read(libc.path.to_string()).expect("readable")
    }

    #[test]
    fn names_are_looked_up_by_the_hash_table_and_a_damaged_one_never_panics() {
        let mut libc = our_libc();
        let names = ["malloc", "no_such_function", "__libc_start_main", ""];
        let found = BTreeSet::from(["malloc", "__libc_start_main"]);
        let at = {
            let elf = Elf::parse(libc.as_slice()).expect("valid");
            let symbols = elf.dynamic_symbols().expect("there");
            assert_eq!(elf.hashed(&names, &symbols), Some(found.clone()), "it has a hash table");
            let (_, section) = elf.sections.section_by_name(elf.endian, b".gnu.hash").expect("there");
            section.sh_offset.get(elf.endian) as usize
        };
        // Number of buckets, first symbol, size of the filter, its shift.
        for field in 0..4 {
            for value in [0, 1, 31, 32, 64, u32::MAX] {
                let mut damaged = std::mem::take(&mut libc);
                let place = at + 4 * field..at + 4 * (field + 1);
                let before = damaged[place.clone()].to_vec();
                damaged[place.clone()].copy_from_slice(&value.to_le_bytes());
                Elf::parse(damaged.as_slice()).expect("valid").exported_of(&names);
                damaged[place].copy_from_slice(&before);
                libc = damaged;
            }
        }
        // Without a hash table, all symbols are compared.
        libc[at..at + 4].fill(0);
        assert_eq!(Elf::parse(libc.as_slice()).expect("valid").exported_of(&names), found);
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
        let libc = our_libc();
        let defined = Elf::parse(libc.as_slice()).and_then(|elf| elf.glibc_defined()).expect("a glibc");
        assert!(needed <= defined && needed.major == 2, "{needed} {defined}");
    }
}
