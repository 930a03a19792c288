//! What the library does to the C library's record of thread-local storage: nothing (docs/design/0009-no-thread-local-storage.md).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Recording, Runtime, Target, native};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How often the library comes and goes. With storage of its own, some hundred times are mostly enough for a thread to lose what it keeps.
const ROUNDS: &str = "3000";

/// The very file that is mapped into a target, though it has no name any more.
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
    assert_eq!(String::from_utf8_lossy(&program.stdout), "kept\n", "{program:?}");
}
