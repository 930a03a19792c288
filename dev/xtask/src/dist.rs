//! `cargo xtask dist`: builds the command as it ships, and packs it. Live tests run this command.
//!
//! Zig links the command and its libraries against glibc 2.17, so that they load wherever .NET runs. Zig and `cargo-zigbuild` come from
//! PyPI as files, pinned by hash. Each library has a budget, and exceeding it is a failure: size, needed libraries, required glibc,
//! exports. `dev/packages` packs the command, and its tests install each package and run what it contains.

mod facts;

use crate::outcome::{Context, Outcome, bail};
use crate::test_output::{Count, conclude, nextest};
use crate::{cache, packages, process};
use facts::Facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library embedded in the command (docs/design/0018-two-libraries.md, docs/design/0024-tracer.md).
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// Its crate.
    package: &'static str,
    /// The file that cargo builds.
    file: &'static str,
    /// The feature of the crate for its build.
    feature: Option<&'static str>,
    /// Maximum size in bytes.
    most_bytes: u64,
    /// Whether it must not announce thread-local storage (docs/design/0009-no-thread-local-storage.md).
    keeps_own_storage: bool,
}

/// For recordings. Measured: 294 KiB.
pub const RECORDINGS: Library = agent("recordings", 320 * 1024);
/// For heap snapshots. Measured: 236 KiB.
pub const HEAP: Library = agent("heap", 256 * 1024);
/// For traces of calls and methods. Measured: 486 KiB.
pub const TRACER: Library = Library {
    package: "remora-tracer",
    file: "libremora_tracer.so",
    feature: None,
    most_bytes: 512 * 1024,
    keeps_own_storage: false,
};

const LIBRARIES: [Library; 3] = [RECORDINGS, HEAP, TRACER];

const fn agent(feature: &'static str, most_bytes: u64) -> Library {
    Library {
        package: "remora-agent",
        file: "libremora_agent.so",
        feature: Some(feature),
        most_bytes,
        keeps_own_storage: true,
    }
}

/// The crate that packs the command, and tests the packages.
pub const PACKER: &str = "remora-packages";

/// The build target, with its glibc version.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const GLIBC: (u32, u32) = (2, 17);

/// Runs the task.
pub fn run(_: &[String]) -> Outcome<()> {
    conclude(packages()?)
}

/// Builds the command and packs it; runs the tests that open each package.
pub fn packages() -> Outcome<Count> {
    let command = command()?;
    let folder = cache::empty_folder(&folder()?.join("packages"))?;
    println!("\n{}", folder.display());
    process::run(process::cargo().args(["run", "--quiet", "--package", PACKER, "--"]).args([&command, &folder]))?;
    let environment: [(_, OsString); 2] = [("REMORA_BIN", command.into()), ("REMORA_PACKAGES", folder.into())];
    nextest(&["--package", PACKER], &environment)
}

/// Builds the command for shipping, checks what it and its libraries need, and returns its path.
pub fn command() -> Outcome<PathBuf> {
    let libraries = build_libraries()?;
    let mut build = zigbuild()?;
    build.args(["--release", "--package", "remora", "--target-dir"]).arg(folder()?.join("command"));
    // Names are enough for the backtrace of a panic; lines would be 50 of 65 MB.
    build.env("CARGO_PROFILE_RELEASE_DEBUG", "none").env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    process::run(build.env("REMORA_AGENT_LIBRARIES", &libraries))?;
    let command = built()?.join("remora");
    let mut faults: Vec<String> = LIBRARIES.iter().map(check_budget).collect::<Outcome<Vec<_>>>()?.concat();
    let facts = Facts::of(&command)?;
    println!("\n{}\n{facts}", command.display());
    faults.extend(facts.needs_too_much("remora"));
    for fault in &faults {
        eprintln!("budget: {fault}");
    }
    if !faults.is_empty() {
        bail!("what ships is over its budget");
    }
    Ok(command)
}

impl Library {
    /// The file name that `crates/remora/build.rs` uses.
    fn name(&self) -> String {
        match self.feature {
            Some(feature) => self.file.replace(".so", &format!("-{feature}.so")),
            None => self.file.to_owned(),
        }
    }

    /// The file embedded by the last build of the command.
    pub fn embedded(&self) -> Outcome<PathBuf> {
        match newest(&built()?.join("build"), &self.name()) {
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
    let made = folder()?;
    for library in LIBRARIES {
        let mut build = zigbuild()?;
        build.args(["--profile", "agent", "--package", library.package, "--no-default-features"]);
        build.args(library.feature.iter().flat_map(|feature| ["--features", feature]));
        // Each in a separate folder: cargo's output has the same name for all features.
        let folder = made.join(library.feature.unwrap_or(library.package));
        process::run(build.arg("--target-dir").arg(&folder))?;
        place(&folder.join(TARGET).join("agent").join(library.file), &made.join(library.name()))?;
    }
    Ok(made)
}

/// Cargo's build, linked by Zig against the old glibc.
fn zigbuild() -> Outcome<Command> {
    let (major, minor) = GLIBC;
    let mut command = process::cargo_tool(packages::provide("zigbuild")?.join("cargo-zigbuild"));
    command.env("CARGO_ZIGBUILD_ZIG_PATH", packages::provide("zig")?.join("zig"));
    command.args(["zigbuild", "--target", &format!("{TARGET}.{major}.{minor}")]);
    Ok(command)
}

/// The folder of everything that is built for shipping.
fn folder() -> Outcome<PathBuf> {
    Ok(crate::target_folder()?.join("dist"))
}

/// Where the build of the command leaves its files.
fn built() -> Outcome<PathBuf> {
    Ok(folder()?.join("command").join(TARGET).join("release"))
}

/// Copies a changed file only: cargo compares modification times, and would rebuild the command.
fn place(from: &Path, to: &Path) -> Outcome<()> {
    let bytes = std::fs::read(from).context(|| format!("there is no {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    std::fs::write(to, bytes).context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
