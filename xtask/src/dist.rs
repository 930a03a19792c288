//! `cargo xtask dist`: the library for old systems, and the command that carries it.
//!
//! The library is linked by Zig against glibc 2.17, so that it loads wherever .NET runs. Zig and `cargo-zigbuild` come from PyPI, as files, pinned by hash.
//! What it may be is a budget, and going over it is a failure: size, the libraries it needs, the glibc it asks for, what it exports.

use crate::outcome::{Context, Outcome, bail};
use crate::packages::{self, Package, Registry};
use crate::{cache, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target, with the glibc that is asked for.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const GLIBC: (u32, u32) = (2, 17);
/// The most that the library may weigh. Whole stacks (link table, unwind tables) and the sampler took it beyond 512 KiB.
const MOST_BYTES: u64 = 576 * 1024;
/// The libraries that are libc's own family, as far as the library may need them.
const LIBC_FAMILY: [&str; 6] =
    ["libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "ld-linux-x86-64.so.2"];
/// What an ordinary linker adds for unwinding. CoreCLR needs it, too, so it is in every target; the library that is handed out does without.
const OF_THIS_LINKER: &str = "libgcc_s.so.1";
/// What the runtime looks for. Nothing else may be seen: a name of ours could take the place of one of the program's.
const EXPORTS: [&str; 1] = ["DllGetClassObject"];

const ZIG: Package = Package {
    registry: Registry::PyPi,
    name: "ziglang",
    version: "0.14.1",
    sha256: "6eb9d4d759b292c83810dbee2e9e8e3fbfbf01d864e6e9811bae711fd74e1c2f",
};

const ZIGBUILD: Package = Package {
    registry: Registry::PyPi,
    name: "cargo-zigbuild",
    version: "0.24.0",
    sha256: "484412e39e4c6039474535ce97ee75a22bab22d58233056f8ec8a8f9034bb957",
};

/// Builds both and reports on the library; with `--check`, looks at the library that an ordinary build has made.
pub fn run(arguments: &[String]) -> Outcome<()> {
    if arguments.iter().any(|argument| argument == "--check") {
        return check_built();
    }
    let library = build_library()?;
    process::run(
        process::cargo().args(["build", "--release", "--package", "remora-cli"]).env("REMORA_AGENT_LIBRARY", &library),
    )?;
    let Some(embedded) = newest_built(&crate::target_folder()?.join("release/build")) else {
        bail!("the build of the command has left no library");
    };
    let facts = Facts::of(&embedded)?;
    println!("\n{}\n{facts}", embedded.display());
    judge([facts.faults(), facts.too_new()].concat())?;
    println!("\nmade {}, with that library inside", crate::target_folder()?.join("release/remora").display());
    Ok(())
}

/// Holds the library that a build of the command has made to its budget. It is linked here, so it may ask for the glibc of this machine
/// and for what this machine's linker adds.
pub fn check_built() -> Outcome<()> {
    let Some(library) = newest_built(&crate::target_folder()?.join("debug/build")) else {
        bail!("no build of the command has left its library: run `cargo build` first");
    };
    let facts = Facts::of(&library)?;
    println!("{}\n{facts}", library.display());
    judge(facts.without_this_linkers().faults())
}

/// The library that `crates/cli/build.rs` embedded last.
pub fn newest_built(builds: &Path) -> Option<PathBuf> {
    let builds = std::fs::read_dir(builds).ok()?.flatten();
    let libraries = builds.map(|build| build.path().join("out/libremora_agent.so"));
    let dated = libraries.filter_map(|library| Some((std::fs::metadata(&library).ok()?.modified().ok()?, library)));
    dated.max().map(|(_, library)| library)
}

fn judge(faults: Vec<String>) -> Outcome<()> {
    for fault in &faults {
        eprintln!("budget: {fault}");
    }
    if !faults.is_empty() {
        bail!("the library is over its budget");
    }
    Ok(())
}

fn build_library() -> Outcome<PathBuf> {
    let (zig, zigbuild) = tools()?;
    let mut command = process::cargo();
    let mut path = vec![zigbuild];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).context(|| "PATH cannot be extended")?;
    let (major, minor) = GLIBC;
    command.env("PATH", path).env("CARGO_ZIGBUILD_ZIG_PATH", zig);
    command.args(["zigbuild", "--package", "remora-agent", "--profile", "agent"]);
    command.args(["--target", &format!("{TARGET}.{major}.{minor}")]);
    process::run(&mut command)?;
    Ok(crate::target_folder()?.join(TARGET).join("agent/libremora_agent.so"))
}

/// The Zig compiler, and the folder with `cargo-zigbuild`.
fn tools() -> Outcome<(PathBuf, PathBuf)> {
    let zig = cache::provide(&format!("tools/zig-{}", ZIG.version), |folder| {
        ZIG.unpack_into(folder)?;
        packages::make_executable(&folder.join("ziglang/zig"))
    })?;
    let programs = format!("cargo_zigbuild-{}.data/scripts", ZIGBUILD.version);
    let zigbuild = cache::provide(&format!("tools/cargo-zigbuild-{}", ZIGBUILD.version), |folder| {
        ZIGBUILD.unpack_into(folder)?;
        packages::make_executable(&folder.join(&programs).join("cargo-zigbuild"))
    })?;
    Ok((zig.join("ziglang/zig"), zigbuild.join(programs)))
}

/// What there is to say about a library.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    bytes: u64,
    needed: Vec<String>,
    exported: Vec<String>,
    /// The highest version of glibc that a symbol asks for.
    glibc: (u32, u32),
    /// It announces thread-local storage (docs/design/0009-no-thread-local-storage.md).
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

    /// The facts but for what only an ordinary build has.
    fn without_this_linkers(mut self) -> Facts {
        self.needed.retain(|library| library != OF_THIS_LINKER);
        self
    }

    /// ` 0x...01 (NEEDED)  Shared library: [libc.so.6]`
    fn read_dynamic(&mut self, text: &str) {
        let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
        self.needed = needed.filter_map(|line| Some(line.split_once('[')?.1.split(']').next()?.to_owned())).collect();
        self.needed.sort();
    }

    /// `  12: 000000000001a2b0  123 FUNC  GLOBAL DEFAULT  12 name@@version`; an undefined symbol has `UND` for its section.
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

    /// What is over the budget, wherever it was linked.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.bytes > MOST_BYTES {
            faults.push(format!("{} bytes, and {MOST_BYTES} are allowed", self.bytes));
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
        faults
    }

    /// What an old system has not got.
    fn too_new(&self) -> Vec<String> {
        let ((major, minor), (most_major, most_minor)) = (self.glibc, GLIBC);
        let fault = || format!("it asks for glibc {major}.{minor}, and {most_major}.{most_minor} must be enough");
        (self.glibc > GLIBC).then(fault).into_iter().collect()
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            formatter,
            "  size      {} bytes ({} KiB of {})",
            self.bytes,
            self.bytes.div_ceil(1024),
            MOST_BYTES / 1024
        )?;
        writeln!(formatter, "  glibc     {}.{} or newer", self.glibc.0, self.glibc.1)?;
        writeln!(formatter, "  needs     {}", self.needed.join(" "))?;
        write!(formatter, "  exports   {}", self.exported.join(" "))
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
        let over = Facts { bytes: MOST_BYTES + 1, exported: Vec::new(), ..facts() };
        let faults = [over.faults(), over.too_new()].concat().join("\n");
        for words in ["bytes", "libgcc_s", "glibc 2.34", "DllGetClassObject"] {
            assert!(faults.contains(words), "`{words}` is not in\n{faults}");
        }
        let within = Facts { bytes: MOST_BYTES, needed: vec!["libc.so.6".into()], glibc: GLIBC, ..facts() };
        assert_eq!([within.faults(), within.too_new()].concat(), Vec::<String>::new());
        let here = Facts { exported: facts().exported, bytes: 1, ..facts() };
        assert_eq!(here.faults().len(), 1);
        assert_eq!(here.without_this_linkers().faults(), Vec::<String>::new());
        let mut keeper = facts();
        keeper.read_program_headers(&HEADERS.replace("NULL", "TLS "));
        assert!(keeper.faults().join("").contains("thread-local"));
        let talkative = Facts { exported: vec![EXPORTS[0].into(), "malloc".into()], ..within };
        assert!(talkative.faults().join("").contains("exports `DllGetClassObject malloc`"));
    }

    #[test]
    fn the_library_that_was_made_last_is_found() {
        let folder = tempfile();
        let made = |build: &str| {
            let place = folder.join(build).join("out");
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("libremora_agent.so"), build).unwrap();
            let file = std::fs::File::options().write(true).open(place.join("libremora_agent.so")).unwrap();
            let seconds = if build == "remora-cli-2" { 2_000 } else { 1_000 };
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        assert_eq!(newest_built(&folder), None);
        std::fs::create_dir_all(folder.join("serde-1/out")).unwrap();
        ["remora-cli-1", "remora-cli-2", "remora-cli-3"].iter().for_each(|build| made(build));
        let newest = newest_built(&folder).unwrap();
        assert!(newest.starts_with(folder.join("remora-cli-2")), "{}", newest.display());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn tempfile() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("remora-xtask-{}-dist", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }
}
