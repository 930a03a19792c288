//! `cargo xtask dist`: builds the libraries for old systems, and the command that embeds them. They ship, and live tests run them.
//!
//! Zig links the libraries against glibc 2.17, so that they load wherever .NET runs. Zig and `cargo-zigbuild` come from PyPI as files,
//! pinned by hash. Each library has a budget, and exceeding it is a failure: size, needed libraries, required glibc, exports.

use crate::outcome::{Context, Outcome, bail};
use crate::{packages, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library embedded in the command (docs/design/0018-two-libraries.md).
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// The feature of `remora-agent` for its build.
    kind: &'static str,
    /// Maximum size in bytes.
    most_bytes: u64,
}

/// For recordings. Measured: 294 KiB.
pub const RECORDINGS: Library = Library { kind: "recordings", most_bytes: 320 * 1024 };
/// For heap snapshots. Measured: 236 KiB.
pub const HEAP: Library = Library { kind: "heap", most_bytes: 256 * 1024 };

/// The build target, with its glibc version.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const GLIBC: (u32, u32) = (2, 17);
/// libc and its companions, which a library may need.
const LIBC_FAMILY: [&str; 6] =
    ["libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "ld-linux-x86-64.so.2"];
/// The symbol that the runtime looks for. No other may be exported: it could replace a symbol of the target.
const EXPORTS: [&str; 1] = ["DllGetClassObject"];

/// Runs the task.
pub fn run(_: &[String]) -> Outcome<()> {
    println!("\nmade {}, with these libraries inside", command()?.display());
    Ok(())
}

/// Builds the command for shipping, checks the budgets of its libraries, and returns its path.
pub fn command() -> Outcome<PathBuf> {
    let libraries = build_libraries()?;
    process::run(
        process::cargo().args(["build", "--release", "--package", "remora"]).env("REMORA_AGENT_LIBRARIES", &libraries),
    )?;
    let faults: Vec<String> = [RECORDINGS, HEAP].iter().map(check_budget).collect::<Outcome<Vec<_>>>()?.concat();
    for fault in &faults {
        eprintln!("budget: {fault}");
    }
    if !faults.is_empty() {
        bail!("a library is over its budget");
    }
    Ok(crate::target_folder()?.join("release/remora"))
}

impl Library {
    /// The file name that `crates/remora/build.rs` uses.
    fn name(&self) -> String {
        format!("libremora_agent-{}.so", self.kind)
    }

    /// The file embedded by the last release build of the command.
    pub fn embedded(&self) -> Outcome<PathBuf> {
        match newest(&crate::target_folder()?.join("release/build"), &self.name()) {
            Some(library) => Ok(library),
            None => bail!("the build of the command has left no {}", self.name()),
        }
    }
}

/// The newest file of this name from a build script.
fn newest(builds: &Path, name: &str) -> Option<PathBuf> {
    let builds = std::fs::read_dir(builds).ok()?.flatten();
    let libraries = builds.map(|build| build.path().join("out").join(name));
    let dated = libraries.filter_map(|library| Some((std::fs::metadata(&library).ok()?.modified().ok()?, library)));
    dated.max().map(|(_, library)| library)
}

/// Prints the facts of a library; returns violations of its budget.
fn check_budget(library: &Library) -> Outcome<Vec<String>> {
    let embedded = library.embedded()?;
    let facts = Facts::of(&embedded)?;
    println!("\n{}\n{facts} ({} KiB allowed)", embedded.display(), library.most_bytes / 1024);
    Ok(facts.faults(library))
}

/// Builds the libraries; returns their folder.
fn build_libraries() -> Outcome<PathBuf> {
    let (zig, zigbuild) =
        (packages::provide("zig")?.join("zig"), packages::provide("zigbuild")?.join("cargo-zigbuild"));
    let (major, minor) = GLIBC;
    let made = crate::target_folder()?.join("dist");
    for library in [RECORDINGS, HEAP] {
        let mut command = process::cargo_tool(&zigbuild);
        command.env("CARGO_ZIGBUILD_ZIG_PATH", &zig);
        command.args(["zigbuild", "--package", "remora-agent", "--no-default-features", "--features", library.kind]);
        command.args(["--profile", "agent", "--target", &format!("{TARGET}.{major}.{minor}")]);
        // Each in a separate folder: cargo's output has the same name for all features.
        let folder = made.join(library.kind);
        process::run(command.arg("--target-dir").arg(&folder))?;
        place(&folder.join(TARGET).join("agent/libremora_agent.so"), &made.join(library.name()))?;
    }
    Ok(made)
}

/// Copies a changed file only: cargo compares modification times, and would rebuild the command.
fn place(from: &Path, to: &Path) -> Outcome<()> {
    let bytes = std::fs::read(from).context(|| format!("there is no {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    std::fs::write(to, bytes).context(|| format!("cannot write {}", to.display()))
}

/// Facts about a library's file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    bytes: u64,
    needed: Vec<String>,
    exported: Vec<String>,
    /// The highest glibc version that a symbol requires.
    glibc: (u32, u32),
    /// Whether it announces thread-local storage (docs/design/0009-no-thread-local-storage.md).
    thread_local: bool,
}

impl Facts {
    fn of(library: &Path) -> Outcome<Facts> {
        let bytes = std::fs::metadata(library).context(|| format!("there is no {}", library.display()))?.len();
        let readelf = |option: &str| {
            let said =
                process::output(Command::new("readelf").args(["--wide", option]).arg(library).env("LC_ALL", "C"));
            said.context(|| "readelf (package binutils) reads the library")
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

    /// Violations of the budget.
    fn faults(&self, library: &Library) -> Vec<String> {
        let mut faults = Vec::new();
        if self.bytes > library.most_bytes {
            faults.push(format!("{} bytes, and {} are allowed", self.bytes, library.most_bytes));
        }
        for library in self.needed.iter().filter(|library| !LIBC_FAMILY.contains(&library.as_str())) {
            faults.push(format!("it needs {library}, which is not of libc's own family"));
        }
        if self.thread_local {
            faults.push("it announces thread-local storage".to_owned());
        }
        if self.exported != EXPORTS {
            faults.push(format!("it exports `{}`, and must export `{}`", self.exported.join(" "), EXPORTS.join(" ")));
        }
        let ((major, minor), (most_major, most_minor)) = (self.glibc, GLIBC);
        if self.glibc > GLIBC {
            faults.push(format!("it asks for glibc {major}.{minor}, and {most_major}.{most_minor} must be enough"));
        }
        faults.iter().map(|fault| format!("{}: {fault}", library.name())).collect()
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(formatter, "  glibc     {}.{} or newer", self.glibc.0, self.glibc.1)?;
        writeln!(formatter, "  needs     {}", self.needed.join(" "))?;
        writeln!(formatter, "  exports   {}", self.exported.join(" "))?;
        write!(formatter, "  size      {} bytes, {} KiB", self.bytes, self.bytes.div_ceil(1024))
    }
}

fn two_numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_library_that_is_the_same_keeps_its_time() {
        let folder = tempfile("same");
        std::fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("from"), folder.join("to"));
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        for (bytes, is_old) in [("one", false), ("one", true), ("two", false)] {
            std::fs::write(&from, bytes).unwrap();
            place(&from, &to).unwrap();
            assert_eq!(std::fs::read_to_string(&to).unwrap(), bytes);
            assert_eq!(to.metadata().unwrap().modified().unwrap() == long_ago, is_old, "{bytes}");
            std::fs::File::options().write(true).open(&to).unwrap().set_modified(long_ago).unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_library_that_was_made_last_is_found() {
        let folder = tempfile("newest");
        let made = |build: &str| {
            let place = folder.join(build).join("out");
            std::fs::create_dir_all(&place).unwrap();
            let path = place.join(HEAP.name());
            std::fs::write(&path, build).unwrap();
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let seconds = if build == "remora-cli-2" { 2_000 } else { 1_000 };
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        let newest = || newest(&folder, &HEAP.name());
        assert_eq!(newest(), None);
        std::fs::create_dir_all(folder.join("serde-1/out")).unwrap();
        ["remora-cli-1", "remora-cli-2", "remora-cli-3"].iter().for_each(|build| made(build));
        let newest = newest().unwrap();
        assert!(newest.starts_with(folder.join("remora-cli-2")), "{}", newest.display());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn tempfile(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("remora-xtask-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }
}
