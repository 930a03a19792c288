//! The library does not change the C library's record of thread-local storage (docs/design/0009-no-thread-local-storage.md).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Recording, Runtime, Target, native};
use remora_holds::holds;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How often the library is loaded and unloaded. With its own storage, some hundred times mostly suffice for a thread to lose its data.
const ROUNDS: &str = "3000";

/// Copies the file mapped into a target, though it is unlinked.
fn copy_library_in_use(to: &Path) {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let recording = Recording::begun(&target, &[]);
    fs::write(to, Facts::library_in(target.pid())).unwrap();
    recording.stop().is_clean();
}

#[test]
fn det_14_a_thread_keeps_its_storage_while_the_library_comes_and_goes_and_signals_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("library.so");
    copy_library_in_use(&library);
    let headers = Command::new("readelf").args(["--program-headers", "--wide"]).arg(&library).output().unwrap();
    let headers = String::from_utf8(headers.stdout).unwrap();
    assert!(headers.contains("LOAD"), "{headers}");
    assert!(!headers.contains("TLS"), "the library announces thread-local storage:\n{headers}");
    let program =
        Command::new(native("thread_storage")).arg(native("libthread_storage")).arg(&library).arg(ROUNDS).output();
    let program = program.unwrap();
    holds!(DET_14 rem, String::from_utf8_lossy(&program.stdout) == "kept\n", "{program:?}");
}
