//! Profilers whose fault is how a process ends, or a load that takes its time.

use crate::fault::{Fault, fault};
use crate::shared::never_return;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::time::Duration;

/// Longer than any other callback may take, and shorter than Shutdown may.
const SLOW: Duration = Duration::from_secs(6);
/// Until then, callbacks run.
const SOON: Duration = Duration::from_millis(30);
/// Set by the first load of the library.
const LOADED: &CStr = c"REMORA_TEST_LOADED";

/// For [`Fault::LoadsInShutdown`]: a library whose constructor is slow.
static SLOW_LIBRARY: OnceLock<CString> = OnceLock::new();

/// At the load of the library.
pub fn loaded() {
    match fault() {
        Fault::SlowOnLoad => std::thread::sleep(SLOW),
        Fault::CrashesOnSecondLoad => {
            // SAFETY: a static C string, and the program's threads change no variable meanwhile.
            let is_first = unsafe { libc::getenv(LOADED.as_ptr()) }.is_null();
            if !is_first {
                // SAFETY: none: the invalid write is the fault.
                unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
            }
            // SAFETY: static C strings, and the program's threads read no variable meanwhile.
            unsafe { libc::setenv(LOADED.as_ptr(), c"1".as_ptr(), 1) };
        }
        _ => {}
    }
}

/// At its unload, or at the exit of the process.
pub fn unloaded() {
    if fault() == Fault::EndsAtExit {
        // SAFETY: takes a number. It ends the process with another status, which is the fault.
        unsafe { libc::_exit(0) };
    }
}

/// In InitializeForAttach.
pub fn begin(client_data: &[u8]) {
    match fault() {
        Fault::EndsOnOwnThread => {
            std::thread::spawn(|| {
                std::thread::sleep(SOON);
                // SAFETY: takes a number. It ends the process, which is the fault.
                unsafe { libc::_exit(9) };
            });
        }
        Fault::LoadsInShutdown => {
            // The first and only attach.
            let _ = SLOW_LIBRARY.set(CString::new(client_data).unwrap_or_default());
            std::thread::spawn(never_return);
        }
        Fault::NeedsCppLibrary => {
            // SAFETY: a static C string; nothing is loaded.
            let library = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            assert!(!library.is_null(), "a runtime's process has this library");
            // SAFETY: a library that was just opened.
            unsafe { libc::dlclose(library) };
        }
        _ => {}
    }
}

/// In Shutdown.
pub fn shut_down() {
    if let Some(library) = SLOW_LIBRARY.get() {
        // SAFETY: a C string. The library has a slow constructor, and nothing else.
        unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY) };
    }
}
