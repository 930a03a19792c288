//! Builds the library that travels inside the command.
//!
//! The library is another program's guest: it has its own profile (`agent` in the workspace's Cargo.toml), its own flags and its own target directory,
//! whatever the command around it is built with. So clippy, doc, debug and release builds all embed the same library.
//! `REMORA_AGENT_LIBRARY` names a library built elsewhere (`cargo xtask dist` builds one that loads on old systems, too).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The crates that are inside the library.
const INSIDE: [&str; 6] = ["agent", "agent-core", "agent-hot", "agent-ring", "corprof", "wire"];
/// The file that cargo makes of them.
const FILE: &str = "libremora_agent.so";
/// The variable that names a library built elsewhere.
const PREBUILT: &str = "REMORA_AGENT_LIBRARY";
/// Where a failure is explained.
const ADVICE: &str = "build it elsewhere and name it in REMORA_AGENT_LIBRARY, or repair crates/agent";

fn main() {
    println!("cargo::rerun-if-env-changed={PREBUILT}");
    let library = match env::var_os(PREBUILT) {
        Some(path) => PathBuf::from(path),
        None => built(),
    };
    println!("cargo::rerun-if-changed={}", library.display());
    match fs::read(&library) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => {}
        Ok(_) => fail(&format!("{} is not a library; {ADVICE}", library.display())),
        Err(error) => fail(&format!("{} cannot be read: {error}; {ADVICE}", library.display())),
    }
    let library = library.canonicalize().unwrap_or(library);
    println!("cargo::rustc-env=REMORA_AGENT_EMBEDDED={}", library.display());
}

/// Builds the library with the same cargo and compiler.
fn built() -> PathBuf {
    // Asked now: what it was when this script was compiled may be another checkout.
    let crates = Path::new(&required("CARGO_MANIFEST_DIR")).join("..");
    for inside in INSIDE {
        println!("cargo::rerun-if-changed={}", crates.join(inside).display());
    }
    let workspace = crates.join("..");
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }
    let directory = PathBuf::from(required("OUT_DIR")).join("agent");
    // A command linked with musl attaches to programs on glibc all the same.
    let target = required("TARGET").replace("-musl", "-gnu");
    let status = Command::new(required("CARGO"))
        .arg("build")
        .args(["--package", "remora-agent", "--profile", "agent", "--target", &target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&directory)
        // The flags of the build around are not the library's: lints of clippy, instruction sets of this machine, coverage.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .status();
    match status {
        Ok(status) if status.success() => directory.join(target).join("agent").join(FILE),
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
