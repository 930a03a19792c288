//! Installs each package that `cargo xtask dist` has made, as its installer does, and runs what it contains.
//!
//! The tools that open the archives share no code with those that make them, where Debian has one: `tar`, `dpkg`, `sha256sum`. The
//! registries of the build have no SDK of .NET: `nuget.rs` does its steps.

mod debian;
mod nuget;
mod reproducible;
mod tarball;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is packed.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder with the packages.
fn packages() -> PathBuf {
    expected("REMORA_PACKAGES")
}

/// The command that was packed.
fn command() -> Vec<u8> {
    std::fs::read(expected("REMORA_BIN")).expect("the command")
}

fn expected(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: `cargo xtask dist` runs these tests")).into()
}

/// What a program prints; it must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Runs an installed command: its version, and a list of the processes here.
fn runs(program: &Path) {
    assert_eq!(std::fs::read(program).expect("installed"), command(), "another command than the tested one");
    assert_eq!(output(Command::new(program).arg("--version")).trim(), format!("remora {VERSION}"));
    let processes = output(Command::new(program).args(["ps", "--json"]));
    let processes: serde_json::Value = serde_json::from_str(&processes).expect("JSON");
    assert!(processes.is_array() || processes.is_object(), "{processes}");
}

/// The commands that have a manual page: the page of `remora` names those below it.
fn manual_pages() -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    output(Command::new(expected("REMORA_BIN")).arg("man").arg(folder.path()));
    names(folder.path())
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
