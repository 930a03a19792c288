//! Builds the three libraries that the command embeds: the agent, once for recordings and once for heaps
//! (docs/design/0018-two-libraries.md), and the tracer (docs/design/0024-tracer.md).
//!
//! They run in another program, so their build does not depend on the command's. It has its own profile (`agent` in the workspace's
//! Cargo.toml), its own flags and its own target directory.
//! So clippy, doc, debug and release builds all embed the same libraries.
//! The embedded libraries announce no thread-local storage, see [`without_thread_local_storage`].
//! `REMORA_AGENT_LIBRARIES` names a folder with prebuilt libraries. `cargo xtask dist` builds some that also load on old systems.

use object::elf::{FileHeader64, PT_NULL, PT_TLS, ProgramHeader64, R_X86_64_TLSDESC, R_X86_64_TPOFF64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, RelocationFlags};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A library.
struct Library {
    /// Its crate.
    package: &'static str,
    /// The feature of the crate for its build.
    feature: Option<&'static str>,
    /// The file that cargo builds.
    file: &'static str,
    /// The variable by which the command finds it.
    variable: &'static str,
}

const fn agent(feature: &'static str, variable: &'static str) -> Library {
    let file = "libremora_agent.so";
    Library { package: "remora-agent", feature: Some(feature), file, variable }
}

const LIBRARIES: [Library; 3] = [
    agent("recordings", "REMORA_AGENT_FOR_RECORDINGS"),
    agent("heap", "REMORA_AGENT_FOR_HEAPS"),
    Library { package: "remora-tracer", feature: None, file: "libremora_tracer.so", variable: "REMORA_TRACER" },
];
/// The layers that the libraries contain.
const INSIDE: [&str; 2] = ["target", "protocol"];
/// The variable that names a folder with prebuilt libraries, each named by [`Library::name`].
const PREBUILT: &str = "REMORA_AGENT_LIBRARIES";
/// Bytes of thread-local storage that the library can provide itself for each thread: `WORDS` in
/// `crates/target/thread-locals/src/lib.rs`.
const LARGEST_STORAGE: u64 = 8 * 8;
/// The fix that a build error suggests.
const ADVICE: &str = "build it elsewhere and name its folder in REMORA_AGENT_LIBRARIES, or repair crates/target/agent";

fn main() {
    println!("cargo::rerun-if-env-changed={PREBUILT}");
    let prebuilt = env::var_os(PREBUILT).map(PathBuf::from);
    for kind in &LIBRARIES {
        let library = prebuilt.as_ref().map_or_else(|| built(kind), |folder| folder.join(kind.name()));
        // The next kind's build overwrites this one's file.
        if prebuilt.is_some() {
            println!("cargo::rerun-if-changed={}", library.display());
        }
        let embedded = PathBuf::from(required("OUT_DIR")).join(kind.name());
        embed(&library, &embedded);
        println!("cargo::rustc-env={}={}", kind.variable, embedded.display());
    }
}

impl Library {
    /// The name of the embedded file.
    fn name(&self) -> String {
        match self.feature {
            Some(feature) => self.file.replace(".so", &format!("-{feature}.so")),
            None => self.file.to_owned(),
        }
    }
}

fn embed(library: &Path, embedded: &Path) {
    let bytes = fs::read(library)
        .unwrap_or_else(|error| fail(&format!("{} cannot be read: {error}; {ADVICE}", library.display())));
    let bytes = without_thread_local_storage(bytes)
        .unwrap_or_else(|reason| fail(&format!("{} {reason}; {ADVICE}", library.display())));
    if let Err(error) = fs::write(embedded, bytes) {
        fail(&format!("{} cannot be written: {error}", embedded.display()));
    }
}

/// Removes the program header that announces thread-local storage to the C library: the library provides its own
/// (`crates/target/thread-locals/src/lib.rs`).
fn without_thread_local_storage(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let (header, headers) = program_headers(&bytes).map_err(|error| format!("is not a library: {error}"))?;
    if asks_the_c_library(&bytes).map_err(|error| format!("is not a library: {error}"))? {
        return Err("asks the C library for thread-local storage instead of keeping its own".into());
    }
    for (index, segment) in headers.iter().enumerate() {
        if segment.p_type(Endianness::Little) != PT_TLS {
            continue;
        }
        if segment.p_filesz(Endianness::Little) > 0 {
            return Err("has thread-local storage that does not begin as zeros, which it cannot keep itself".into());
        }
        if segment.p_memsz(Endianness::Little) > LARGEST_STORAGE || segment.p_align(Endianness::Little) > 64 {
            return Err(format!("has thread-local storage that its blocks of {LARGEST_STORAGE} bytes do not hold"));
        }
        // The type is a header's first word.
        let place = header + index * size_of::<ProgramHeader64<Endianness>>();
        bytes[place..place + 4].copy_from_slice(&PT_NULL.to_le_bytes());
        return Ok(bytes);
    }
    Ok(bytes)
}

/// Whether the library gets its storage from the C library: by its function, or by relocations that need no function.
fn asks_the_c_library(bytes: &[u8]) -> object::Result<bool> {
    let file = object::File::parse(bytes)?;
    let mut symbols = file.dynamic_symbols();
    let by_function = symbols.any(|symbol| symbol.is_undefined() && symbol.name() == Ok("__tls_get_addr"));
    let mut relocations = file.dynamic_relocations().into_iter().flatten();
    let without = relocations.any(|(_, relocation)| {
        matches!(relocation.flags(), RelocationFlags::Elf { r_type: R_X86_64_TPOFF64 | R_X86_64_TLSDESC })
    });
    Ok(by_function || without)
}

/// Where the program headers begin in the file, and a copy of them.
fn program_headers(bytes: &[u8]) -> object::Result<(usize, Vec<ProgramHeader64<Endianness>>)> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let headers = header.program_headers(Endianness::Little, bytes)?;
    Ok((header.e_phoff(Endianness::Little) as usize, headers.to_vec()))
}

/// Builds a library with the same cargo and compiler.
fn built(kind: &Library) -> PathBuf {
    // Read at run time: the value at compile time may be another checkout.
    let crates = Path::new(&required("CARGO_MANIFEST_DIR")).join("..");
    for inside in INSIDE {
        println!("cargo::rerun-if-changed={}", crates.join(inside).display());
    }
    let workspace = crates.join("..");
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }
    let directory = PathBuf::from(required("OUT_DIR")).join("agent");
    // A command linked with musl still attaches to programs on glibc.
    let target = required("TARGET").replace("-musl", "-gnu");
    let status = Command::new(required("CARGO"))
        .arg("build")
        .args(["--package", kind.package, "--no-default-features"])
        .args(kind.feature.iter().flat_map(|feature| ["--features", feature]))
        .args(["--profile", "agent", "--target", &target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&directory)
        // The outer build's flags do not apply to the library: lints of clippy, instruction sets of this machine, coverage.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .status();
    match status {
        Ok(status) if status.success() => directory.join(target).join("agent").join(kind.file),
        Ok(status) => fail(&format!("the library was not built ({status}), see above; {ADVICE}")),
        Err(error) => fail(&format!("cargo did not start: {error}; {ADVICE}")),
    }
}

fn required(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| fail(&format!("{variable} is not set: this is run by cargo")))
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
