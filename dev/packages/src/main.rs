//! `remora-packages COMMAND FOLDER`: packs a built command into the files of a release: two NuGet packages, a Debian package, a tarball
//! and their checksums.
//!
//! The same command and commit give the same bytes. A separate program, since archives and checksums need crates, and the demo has to
//! build xtask. `cargo xtask dist` runs it, then the tests, which open each package like its installer does.
#![forbid(unsafe_code)]
// Printing the files is the purpose of this program.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod contents;
mod debian;
mod glibc;
mod nuget;
mod release;
mod tarball;
mod third_party;
mod tree;

use contents::Contents;
use release::Release;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// A result with the message for the person at the terminal.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The name in package registries: `remora` alone does not say what it is.
const PACKAGE: &str = "remora-profiler";
/// What Remora is, in a line.
const SUMMARY: &str = "profiler for running .NET processes on Linux";
/// What Remora is, in a paragraph.
const DESCRIPTION: &str = "Remora attaches to a running .NET process, samples its CPU or wall-clock time, writes a flame graph, detaches, \
    and verifies that nothing remains. It also takes snapshots of the managed heap while the process continues.";
/// The list of checksums.
const CHECKSUMS: &str = "SHA256SUMS";

/// A finished package.
struct Package {
    name: String,
    bytes: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, folder] = arguments.as_slice() else {
        eprintln!("usage: remora-packages COMMAND FOLDER");
        return ExitCode::from(2);
    };
    match make(Path::new(command), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Makes every package of `command` in `folder`.
fn make(command: &Path, folder: &Path) -> Outcome<()> {
    let release = Release::of_the_repository()?;
    let contents = Contents::of(command)?;
    let packages = [
        nuget::tool(&release)?,
        nuget::program(&release, &contents)?,
        debian::package(&release, &contents)?,
        tarball::package(&release, &contents)?,
    ];
    fs::create_dir_all(folder)?;
    let mut checksums = String::new();
    for Package { name, bytes } in &packages {
        fs::write(folder.join(name), bytes)?;
        checksums.push_str(&format!("{}  {name}\n", hexadecimal(&Sha256::digest(bytes))));
        println!("  {:>6} KiB  {}", bytes.len().div_ceil(1024), folder.join(name).display());
    }
    fs::write(folder.join(CHECKSUMS), checksums)?;
    Ok(())
}

/// A checksum as the coreutils print it.
fn hexadecimal(checksum: &[u8]) -> String {
    checksum.iter().map(|byte| format!("{byte:02x}")).collect()
}
