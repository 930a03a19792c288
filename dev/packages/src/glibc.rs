//! The version of the C library that a program needs: the highest that its symbols ask for.
//!
//! A program that needs another library is refused: the packages have no dependency for it.

use crate::Outcome;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;

/// The prefix of the C library's versions.
const PREFIX: &str = "GLIBC_";
/// The libraries that Debian's `libc6` contains.
const LIBC: [&str; 6] =
    ["ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"];

/// `2.17` of a program that needs `GLIBC_2.17` and `GLIBC_2.4`.
pub(crate) fn needed(program: &[u8]) -> Outcome<String> {
    highest(versions(program)?)
}

/// The highest of some libraries' versions.
fn highest(versions: impl IntoIterator<Item = (String, String)>) -> Outcome<String> {
    let mut highest: Vec<u32> = Vec::new();
    for (library, version) in versions {
        if !LIBC.contains(&library.as_str()) {
            return Err(format!("the command needs {library}, which the packages do not ask for").into());
        }
        let numbers = version.strip_prefix(PREFIX).unwrap_or_default();
        highest = highest.max(numbers.split('.').filter_map(|number| number.parse().ok()).collect());
    }
    match highest.is_empty() {
        true => Err("the command is not linked against glibc; build it with `cargo xtask dist`".into()),
        false => Ok(highest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")),
    }
}

/// The versions that a program needs, each with its library.
fn versions(program: &[u8]) -> Outcome<Vec<(String, String)>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let Some((mut libraries, strings)) = sections.gnu_verneed(endian, program)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, program, strings)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut found = Vec::new();
    while let Some((library, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            found.push((text(library.file(endian, strings)?), text(version.name(endian, strings)?)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_more_than_the_c_library_is_refused() {
        // Rust's own build of this test unwinds by GCC's library.
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("this test");
        let refused = needed(&own).expect_err("it needs another library").to_string();
        assert!(refused.starts_with("the command needs libgcc_s.so.1"), "{refused}");
        assert!(needed(b"#!/bin/sh\n").is_err());
    }

    #[test]
    fn the_highest_version_counts() {
        let versions = [("libc.so.6", "GLIBC_2.4"), ("libm.so.6", "GLIBC_2.17"), ("libc.so.6", "GLIBC_2.9")];
        let versions = versions.map(|(library, version)| (library.to_owned(), version.to_owned()));
        assert_eq!(highest(versions).expect("all are known"), "2.17");
        assert!(highest([]).is_err(), "a static program");
    }
}
