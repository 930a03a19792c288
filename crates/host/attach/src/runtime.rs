//! Detects the .NET runtimes of a process by its mappings and its executable.
//!
//! It distinguishes CoreCLR as a library (shared, self-contained, extracted, hosted by another program), CoreCLR linked into a single-file
//! program, NativeAOT, and Mono. If a mapping is unreadable, the version stays unknown.

use crate::elf::Elf;
use crate::program::Program;
use crate::windowed::{Budget, Tables};
use remora_symbols::{MapEntry, TargetPath};
use std::fs::File;

const CORECLR: &str = "libcoreclr.so";
const HOST_LIBRARIES: [&str; 2] = ["libhostfxr.so", "libhostpolicy.so"];
const MONO_LIBRARIES: [&str; 3] = ["libmonosgen-2.0.so", "libmonosgen-2.0.so.1", "libmono-2.0.so.1"];
const MONO_PROGRAMS: [&str; 3] = ["mono", "mono-sgen", "mono-boehm"];

/// Exported for debuggers by a program with CoreCLR linked in.
const SINGLE_FILE_EXPORTS: [&str; 2] = ["DotNetRuntimeInfo", "g_dacTable"];
/// Exported for debuggers by NativeAOT programs.
const NATIVE_AOT_EXPORT: &str = "DotNetRuntimeDebugHeader";

/// Larger files are not read: a sparse file could claim tables that fill our memory. Single-file programs are far smaller.
const LARGEST_FILE: u64 = 1 << 30;

/// Maximum runtimes of one process examined.
const MOST_RUNTIMES: usize = 4;

/// A version of .NET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 8 in 8.0.4.
    pub major: u32,
    /// 0 in 8.0.4.
    pub minor: u32,
    /// 4 in 8.0.4; `None` if only the release is known.
    pub patch: Option<u32>,
}

impl Version {
    /// From text that starts with a version: `8.0.4`, `3.1.23-servicing`, `9.0.0-rc.1+abc`.
    pub fn parse(text: &str) -> Option<Version> {
        let numbers = text.split(['-', '+', '@', ' ']).next()?;
        let mut parts = numbers.split('.');
        let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Version { major, minor, patch: parts.next().and_then(|part| part.parse().ok()) })
    }

    /// From the file version inside CoreCLR: `8.0.424.16909` is 8.0.4 of the year 24, `4.700` is 3.1, `4.6` is 2.x.
    pub fn of_file_version(text: &str) -> Option<Version> {
        let version = Version::parse(text)?;
        Some(match (version.major, version.minor) {
            (4, 700) => Version { major: 3, minor: 1, patch: None },
            (4, _) => Version { major: 2, minor: 0, patch: None },
            _ => Version { patch: version.patch.map(|patch| patch / 100), ..version },
        })
    }

    /// Whether the sampler of this runtime (EventPipe) marks nearly all samples as outside managed code: .NET 9, and .NET 10 before 10.0.4
    /// (dotnet/runtime issue 123996).
    pub fn has_wrong_sample_marks(self) -> bool {
        let version = |major, patch| Version { major, minor: 0, patch };
        (version(9, None)..version(10, Some(4))).contains(&self)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// The implementation of .NET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeKind {
    /// The profilable one.
    CoreClr,
    /// Compiled ahead of time, without a runtime that could load a profiler.
    NativeAot,
    /// Mono.
    Mono,
}

/// How the runtime was deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deployment {
    /// A shared installation.
    Shared,
    /// Beside the program, extracted from it, or in another program that hosts it.
    Private,
    /// Linked into the executable.
    SingleFile,
}

/// A runtime inside a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runtime {
    /// The implementation.
    pub kind: RuntimeKind,
    /// The version, if known.
    pub version: Option<Version>,
    /// Its file, in the process's view.
    pub file: TargetPath,
    /// Its deployment.
    pub deployment: Deployment,
}

/// All runtimes of a process.
pub(crate) fn runtimes(
    program: &Program,
    maps: &[MapEntry],
    executable: Option<&TargetPath>,
    budget: &Budget,
) -> Vec<Runtime> {
    let mut found: Vec<Runtime> = Vec::new();
    for mapping in maps {
        let kind = match mapping.file_name() {
            CORECLR => RuntimeKind::CoreClr,
            name if MONO_LIBRARIES.contains(&name) => RuntimeKind::Mono,
            _ => continue,
        };
        if found.len() < MOST_RUNTIMES && !found.iter().any(|runtime| runtime.file == mapping.path) {
            found.push(of_library(program, mapping, kind, budget));
        }
    }
    if found.is_empty() {
        found.extend(executable.and_then(|path| of_executable(program, path, budget)));
    }
    found
}

/// Whether the .NET host is loaded, even if the runtime is not.
pub(crate) fn has_host(maps: &[MapEntry], executable: Option<&TargetPath>) -> bool {
    executable.is_some_and(|path| path.file_name() == "dotnet")
        || maps.iter().any(|mapping| HOST_LIBRARIES.contains(&mapping.file_name()))
}

fn of_library(program: &Program, mapping: &MapEntry, kind: RuntimeKind, budget: &Budget) -> Runtime {
    let shared = version_in_path(&mapping.path);
    let mut runtime = Runtime {
        kind,
        version: shared,
        file: mapping.path.clone(),
        deployment: if shared.is_some() { Deployment::Shared } else { Deployment::Private },
    };
    if kind == RuntimeKind::CoreClr && shared.is_none() {
        let facts = with_elf(
            budget,
            || program.open(&mapping.path),
            |elf| {
                (elf.exports(&["mono_jit_init"]), elf.embedded_version().as_deref().and_then(Version::of_file_version))
            },
        );
        // An application may be published with Mono under CoreCLR's file name.
        if let Some((is_mono, version)) = facts {
            runtime.kind = if is_mono { RuntimeKind::Mono } else { RuntimeKind::CoreClr };
            runtime.version = version;
        }
    }
    runtime
}

fn of_executable(program: &Program, executable: &TargetPath, budget: &Budget) -> Option<Runtime> {
    let name = executable.file_name();
    let runtime = |kind, version, deployment| Runtime { kind, version, file: executable.clone(), deployment };
    if MONO_PROGRAMS.contains(&name) {
        return Some(runtime(RuntimeKind::Mono, None, Deployment::Private));
    }
    with_elf(
        budget,
        || program.open_executable().map(|(_, file)| file),
        |elf| {
            // One query for all names: a large program's tables are searched once.
            let exported = elf.exported_of(&[&[NATIVE_AOT_EXPORT][..], &SINGLE_FILE_EXPORTS].concat());
            if exported.contains(NATIVE_AOT_EXPORT) {
                return Some(runtime(RuntimeKind::NativeAot, None, Deployment::SingleFile));
            }
            (!exported.is_empty()).then(|| {
                let version = elf.embedded_version().as_deref().and_then(Version::of_file_version);
                runtime(RuntimeKind::CoreClr, version, Deployment::SingleFile)
            })
        },
    )
    .flatten()
}

/// Queries an ELF file, if it could be opened and budget remains. It may come from a hostile process.
pub(crate) fn with_elf<T, E>(
    budget: &Budget,
    open: impl FnOnce() -> Result<File, E>,
    ask: impl FnOnce(&Elf<'_, &Tables<'_>>) -> T,
) -> Option<T> {
    budget.take(0)?;
    let file = open().ok().filter(|file| file.metadata().is_ok_and(|facts| facts.len() <= LARGEST_FILE))?;
    let tables = Tables::of(file, budget);
    Elf::parse(&tables).map(|elf| ask(&elf))
}

/// `.../Microsoft.NETCore.App/8.0.4/libcoreclr.so` names its version.
fn version_in_path(path: &TargetPath) -> Option<Version> {
    let directory = path.parent()?;
    let is_shared = directory.parent()?.file_name() == "Microsoft.NETCore.App";
    is_shared.then(|| Version::parse(directory.file_name())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_runtimes_write_them() {
        let cases = [
            ("8.0.4", Some((8, 0, Some(4)))),
            ("3.1.23-servicing.1", Some((3, 1, Some(23)))),
            ("10.0.12+95017c711e6a", Some((10, 0, Some(12)))),
            ("6.0", Some((6, 0, None))),
            ("latest", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = Version::parse(text).map(|version| (version.major, version.minor, version.patch));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn the_runtimes_with_wrong_sample_marks_are_from_9_to_before_10_0_4() {
        for (text, expected) in
            [("8.0.22", false), ("9.0", true), ("9.0.7", true), ("10.0", true), ("10.0.3", true), ("10.0.4", false)]
        {
            let version = Version::parse(text).expect("a version");
            assert_eq!(version.has_wrong_sample_marks(), expected, "{text}");
        }
    }

    #[test]
    fn file_versions_become_product_versions() {
        let cases = [
            ("8.0.424.16909", "8.0.4"),
            ("10.0.1226.42308", "10.0.12"),
            ("4.700.22.11601", "3.1"),
            ("4.6.29719.3", "2.0"),
        ];
        for (text, expected) in cases {
            assert_eq!(Version::of_file_version(text).map(|version| version.to_string()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_the_shared_layout_names_a_version() {
        let version = |path: &str| version_in_path(&path.into()).map(|version| version.to_string());
        assert_eq!(
            version("/usr/share/dotnet/shared/Microsoft.NETCore.App/9.0.7/libcoreclr.so").as_deref(),
            Some("9.0.7")
        );
        assert_eq!(version("/opt/app/libcoreclr.so"), None);
        assert_eq!(version("/libcoreclr.so"), None);
    }
}
