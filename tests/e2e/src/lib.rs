//! The harness of the end-to-end tests: the `remora` command, live runtimes, and small .NET programs.
//!
//! # Purpose
//! A test names a program and runtimes, runs `remora`, and checks the result.
//!
//! # Design constraints
//! Handshakes, never sleeps. A target prints `ready` and answers questions on its standard output; a recording reports its start.
//! [`TIMEOUT`] bounds every wait, so a hang fails with a message. No test depends on speed.
//! `cargo xtask test` sets variables for everything that tests need. A missing one is a panic that says so, never a skip.
//!
//! # Rejected
//! Inspecting the target with the product's own crates: harness and product would share mistakes.
#![forbid(unsafe_code)]

pub mod callers;
mod child_process;
mod cpu_time;
mod debugger;
pub mod diagnostics;
mod foreign;
mod held_copy;
mod memory_group;
pub mod probe;
mod process_facts;
pub mod read_back;
pub mod recording;
mod remora;
mod results;
mod runtime;
mod runtime_messages;
mod target;
mod terminal;

pub use cpu_time::{cpu_time, scheduled, until_used};
pub use debugger::Debugger;
pub use foreign::{Counts, Expected, ForeignProfiler, Kind};
pub use held_copy::{HeldCopy, WaitingCopy, state};
pub use memory_group::MemoryGroup;
pub use process_facts::{Facts, Mapping, Named};
pub use read_back::ReadBack;
pub use recording::{Recorded, Recording, readable};
pub use remora::{Finished, Remora, remora};
pub use runtime::{Runtime, message_of, on_every_runtime, on_runtimes, on_runtimes_at_once};
pub use runtime_messages::{RuntimeMessages, message_ids};
pub use target::{Start, Target};
pub use terminal::on_a_terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for every wait of a test: far beyond the needs of a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A temporary folder for a test. It is removed with the value.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"))
}

/// A C program from `tests/targets/native`: its file, or the `.so` of a `lib*`.
pub fn native(name: &str) -> PathBuf {
    let file = if name.starts_with("lib") { format!("{name}.so") } else { name.to_owned() };
    let path = PathBuf::from(expected("REMORA_TEST_TARGETS")).join("native").join(file);
    assert!(path.is_file(), "there is no native test program {}", path.display());
    path
}

/// The library of an SDK example profiler.
pub fn sdk_example(name: &str) -> PathBuf {
    let path = PathBuf::from(expected("REMORA_SDK_EXAMPLES")).join(format!("lib{name}.so"));
    assert!(path.is_file(), "there is no example {}", path.display());
    path
}

/// Polls until `condition` holds, for conditions without a notification.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + TIMEOUT;
    while !condition() {
        assert!(std::time::Instant::now() < end, "waited in vain until {what}");
        // Only so that polling does not take CPU time from the target.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes of unfinished recordings in a folder.
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
