//! The harness of the end-to-end tests: the `remora` command, live runtimes, and small .NET programs to try one on the other.
//!
//! # Purpose
//! A test says which program it wants on which runtimes, what `remora` is asked, and what must be true afterwards.
//!
//! # Design constraints
//! Handshakes, never sleeps: a target says `ready` and answers questions on its standard output, a recording says that it records.
//! [`PATIENCE`] bounds every wait, so that a hang is a failure with a message; nothing is judged by how long it took.
//! What the tests need is named by the environment that `cargo xtask test` sets; whatever is missing is a panic that says so, never a skip.
//!
//! # Rejected
//! Using the product's own crates to look at the target: the judge would share the defendant's mistakes.
#![forbid(unsafe_code)]

pub mod callers;
mod debugger;
pub mod diagnostics;
mod foreign;
mod held_copy;
mod memory_group;
pub mod probe;
mod process_facts;
mod processor_time;
pub mod read_back;
pub mod recording;
mod remora;
mod results;
mod runtime;
mod runtime_messages;
mod target;

pub use debugger::Debugger;
pub use foreign::{Counts, ForeignProfiler, Kind};
pub use held_copy::{HeldCopy, WaitingCopy, state};
pub use memory_group::MemoryGroup;
pub use process_facts::{Facts, Mapping, Named};
pub use processor_time::{processor_time, scheduled, until_used};
pub use read_back::ReadBack;
pub use recording::{Recorded, Recording, readable};
pub use remora::{Finished, Remora, remora};
pub use runtime::{Runtime, message_of, on_every_runtime, on_runtimes};
pub use runtime_messages::{RuntimeMessages, message_ids};
pub use target::{Start, Target};

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long anything may take before a test gives up on it: far beyond what a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A folder for what a test writes. It goes away with the value.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"))
}

/// A program in C from `tests/targets/native`: its file, or the `.so` of a `lib*`.
pub fn native(name: &str) -> PathBuf {
    let file = if name.starts_with("lib") { format!("{name}.so") } else { name.to_owned() };
    let path = PathBuf::from(expected("REMORA_TEST_TARGETS")).join("native").join(file);
    assert!(path.is_file(), "there is no native test program {}", path.display());
    path
}

/// One of the profilers in the SDK's examples: its library.
pub fn sdk_example(name: &str) -> PathBuf {
    let path = PathBuf::from(expected("REMORA_SDK_EXAMPLES")).join(format!("lib{name}.so"));
    assert!(path.is_file(), "there is no example {}", path.display());
    path
}

/// Looks again and again until `condition` holds, for what nobody announces.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < end, "waited in vain until {what}");
        // Only so that looking does not take the processor from what is looked at.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes of what is being recorded into a folder and not finished yet.
pub fn spooled(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let spools = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(".unfinished."));
    spools.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum()
}

/// A variable that `cargo xtask test` sets.
fn expected(name: &str) -> std::ffi::OsString {
    std::env::var_os(name).unwrap_or_else(|| {
        panic!("{name} is not set: run the end-to-end tests by `cargo xtask e2e [FILTER]`, which fetches and builds what they need")
    })
}
