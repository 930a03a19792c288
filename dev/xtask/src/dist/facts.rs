//! Facts about a built file, as readelf reports them, and what they must be for it to load on old systems.

use super::{GLIBC, Library};
use crate::outcome::{Context, Outcome};
use crate::process;
use std::path::Path;
use std::process::Command;

/// libc and its companions, which a file may need.
const LIBC_FAMILY: [&str; 6] =
    ["libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "ld-linux-x86-64.so.2"];
/// The symbol that the runtime looks for. No other may be exported: it could replace a symbol of the target.
const EXPORTS: [&str; 1] = ["DllGetClassObject"];

/// Facts about a library, or the command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    bytes: u64,
    needed: Vec<String>,
    exported: Vec<String>,
    /// The highest glibc version that a symbol requires.
    glibc: (u32, u32),
    /// Whether it announces thread-local storage (docs/design/0009-no-thread-local-storage.md).
    thread_local: bool,
}

impl Facts {
    /// Reads a library or a program.
    pub fn of(file: &Path) -> Outcome<Facts> {
        let bytes = std::fs::metadata(file).context(|| format!("there is no {}", file.display()))?.len();
        let readelf = |option: &str| {
            let said = process::output(Command::new("readelf").args(["--wide", option]).arg(file).env("LC_ALL", "C"));
            said.context(|| "readelf (package binutils) reads what was built")
        };
        let mut facts = Facts { bytes, ..Facts::default() };
        facts.read_dynamic(&readelf("--dynamic")?);
        facts.read_symbols(&readelf("--dyn-syms")?);
        facts.read_program_headers(&readelf("--program-headers")?);
        Ok(facts)
    }

    /// ` 0x...01 (NEEDED)  Shared library: [libc.so.6]`
    fn read_dynamic(&mut self, text: &str) {
        let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
        self.needed = needed.filter_map(|line| Some(line.split_once('[')?.1.split(']').next()?.to_owned())).collect();
        self.needed.sort();
    }

    /// `  12: 000000000001a2b0  123 FUNC  GLOBAL DEFAULT  12 name@@version`; an undefined symbol has the section `UND`.
    fn read_symbols(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [number, _, _, _, binding, visibility, section, name, ..] = words[..] else { continue };
            if !number.ends_with(':') || number == "Num:" {
                continue;
            }
            if section != "UND" && binding != "LOCAL" && visibility == "DEFAULT" {
                self.exported.push(name.split('@').next().unwrap_or(name).to_owned());
            } else if let Some((_, version)) = name.split_once("@GLIBC_") {
                self.glibc = self.glibc.max(two_numbers(version));
            }
        }
        self.exported.sort();
    }

    /// `  TLS            0x069440 0x000000000006a440 ...`
    fn read_program_headers(&mut self, text: &str) {
        self.thread_local = text.lines().any(|line| line.split_whitespace().next() == Some("TLS"));
    }

    /// Violations of a library's budget.
    pub fn faults(&self, library: &Library) -> Vec<String> {
        let name = library.name();
        let mut faults = self.needs_too_much(&name);
        if self.bytes > library.most_bytes {
            faults.push(format!("{name}: {} bytes, and {} are allowed", self.bytes, library.most_bytes));
        }
        if self.thread_local && library.keeps_own_storage {
            faults.push(format!("{name}: it announces thread-local storage"));
        }
        if self.exported != EXPORTS {
            let (found, expected) = (self.exported.join(" "), EXPORTS.join(" "));
            faults.push(format!("{name}: it exports `{found}`, and must export `{expected}`"));
        }
        faults
    }

    /// What the file needs and an old system does not have.
    pub fn needs_too_much(&self, name: &str) -> Vec<String> {
        let foreign = self.needed.iter().filter(|library| !LIBC_FAMILY.contains(&library.as_str()));
        let mut faults: Vec<String> =
            foreign.map(|library| format!("{name}: it needs {library}, which is not of libc's own family")).collect();
        let ((major, minor), (most_major, most_minor)) = (self.glibc, GLIBC);
        if self.glibc > GLIBC {
            faults.push(format!(
                "{name}: it asks for glibc {major}.{minor}, and {most_major}.{most_minor} must be enough"
            ));
        }
        faults
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "  glibc     {}.{} or newer", self.glibc.0, self.glibc.1)?;
        writeln!(formatter, "  needs     {}", self.needed.join(" "))?;
        if !self.exported.is_empty() {
            writeln!(formatter, "  exports   {}", self.exported.join(" "))?;
        }
        write!(formatter, "  size      {} bytes, {} KiB", self.bytes, self.bytes.div_ceil(1024))
    }
}

fn two_numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::HEAP;
    use super::*;

    const DYNAMIC: &str = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
         0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]\n\
         0x000000000000000e (SONAME)             Library soname: [libremora_agent.so]\n";
    const SYMBOLS: &str = "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n\
             1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.14 (2)\n\
             2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND pthread_create@GLIBC_2.34 (3)\n\
             3: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __cxa_finalize@GLIBC_2.2.5 (3)\n\
             4: 0000000000012340    90 FUNC    GLOBAL DEFAULT   12 DllGetClassObject\n";

    const HEADERS: &str = "  Type           Offset   VirtAddr           PhysAddr           FileSiz  MemSiz   Flg Align\n\
          LOAD           0x000000 0x0000000000000000 0x0000000000000000 0x0166d4 0x0166d4 R   0x1000\n\
          NULL           0x069440 0x000000000006a440 0x000000000006a440 0x000000 0x000028 R   0x8\n";

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.read_dynamic(DYNAMIC);
        facts.read_symbols(SYMBOLS);
        facts.read_program_headers(HEADERS);
        facts
    }

    #[test]
    fn the_words_of_readelf_are_understood() {
        let facts = facts();
        assert_eq!(facts.needed, ["libc.so.6", "libgcc_s.so.1"]);
        assert_eq!(facts.exported, ["DllGetClassObject"]);
        assert_eq!(facts.glibc, (2, 34));
    }

    #[test]
    fn each_part_of_the_budget_is_held() {
        let over = Facts { bytes: HEAP.most_bytes + 1, exported: Vec::new(), ..facts() };
        let faults = over.faults(&HEAP).join("\n");
        for words in ["bytes", "libgcc_s", "glibc 2.34", "DllGetClassObject"] {
            assert!(faults.contains(words), "`{words}` is not in\n{faults}");
        }
        let within = Facts { bytes: HEAP.most_bytes, needed: vec!["libc.so.6".into()], glibc: GLIBC, ..facts() };
        assert_eq!(within.faults(&HEAP), Vec::<String>::new());
        let mut keeper = facts();
        keeper.read_program_headers(&HEADERS.replace("NULL", "TLS "));
        assert!(keeper.faults(&HEAP).join("").contains("thread-local"));
        let talkative = Facts { exported: vec![EXPORTS[0].into(), "malloc".into()], ..within };
        assert!(talkative.faults(&HEAP).join("").contains("exports `DllGetClassObject malloc`"));
    }
}
