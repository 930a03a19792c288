//! A profiler's real library: the dynamic linker opens it when the runtime loads it, and the process's mappings show it.

use super::elf::ElfFacts;
use super::system::{self, Opened};
use super::{monitor, observer};
use crate::library::Exports;
use corprof::{Guid, HResult};
use std::ffi::{CStr, c_void};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// See the module documentation.
pub struct LibraryFile {
    path: String,
    refuses_class: Arc<AtomicBool>,
    state: Mutex<Option<Opened>>,
}

/// What the runtime looks for in a profiler's library.
const ENTRY: &CStr = c"DllGetClassObject";

type GetClassObject = unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32;

impl LibraryFile {
    /// The library at a path. It sets the flag when the library refuses to return a class object.
    pub fn new(path: &str, refuses_class: Arc<AtomicBool>) -> LibraryFile {
        LibraryFile { path: path.to_owned(), refuses_class, state: Mutex::default() }
    }
}

impl LibraryFile {
    /// Opens a file at once.
    ///
    /// # Errors
    /// The linker's message.
    pub fn open(path: &str) -> Result<LibraryFile, String> {
        let opened = system::open(path)?;
        Ok(LibraryFile { path: path.to_owned(), refuses_class: Arc::default(), state: Mutex::new(Some(opened)) })
    }

    fn is_open(&self) -> bool {
        self.state.lock().expect("no panic while locked").is_some()
    }
}

impl Exports for LibraryFile {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        let function = {
            let state = self.state.lock().expect("no panic while locked");
            let Some(opened) = state.as_ref() else { return HResult::ERROR_MOD_NOT_FOUND };
            opened.symbol(ENTRY)
        };
        let Some(function) = function else {
            let why = ElfFacts::of(&self.path).mangled("DllGetClassObject").map_or_else(
                || "a profiler's library must".to_owned(),
                |name| format!("it exports {name} instead: declare the function `extern \"C\"`"),
            );
            let message = format!("the library does not export DllGetClassObject; {why}");
            monitor::broken_in(monitor::clause_of_load(), Some("DllGetClassObject"), &message);
            return HResult::CLASS_E_CLASSNOTAVAILABLE;
        };
        // SAFETY: the export of that name has this signature.
        let function: GetClassObject = unsafe { std::mem::transmute(function) };
        let answer = monitor::callback("DllGetClassObject", || {
            // SAFETY: the caller guarantees two identifiers and a place, as COM requires.
            HResult(unsafe { function(class, interface, out) })
        });
        self.refuses_class.store(!answer.is_success(), Ordering::SeqCst);
        answer
    }

    fn contains(&self, address: usize) -> bool {
        let state = self.state.lock().expect("no panic while locked");
        let own = state.as_ref().and_then(|opened| opened.symbol(ENTRY));
        let base = own.and_then(|own| system::library_at(own as usize));
        base.is_some() && base == system::library_at(address)
    }

    fn load(&self) {
        if self.is_open() {
            return;
        }
        match monitor::callback("dlopen", || system::open(&self.path)) {
            Ok(opened) => {
                if let Some(range) = range(&self.path).flatten() {
                    system::mapped(range);
                }
                monitor::exercised("ATT-06");
                *self.state.lock().expect("no panic while locked") = Some(opened);
            }
            Err(words) => {
                if let Some(missing) = missing_here(&self.path, &words) {
                    return monitor::failed(&missing);
                }
                let machine = foreign_machine(&self.path).unwrap_or_default();
                monitor::broken_in(
                    "ATT-06",
                    Some("dlopen"),
                    &format!("the library cannot be loaded: {words}{machine}"),
                );
            }
        }
    }

    fn unload(&self) {
        let opened = self.state.lock().expect("no panic while locked").take();
        let Some(opened) = opened else { return };
        monitor::unload_begins();
        monitor::callback("dlclose", || opened.close());
        if range(&self.path) == Some(None) {
            system::unmapped();
            monitor::was_unmapped();
        } else {
            monitor::release_askers(true);
        }
    }
}

/// What this machine lacks for the library, by the linker's message. That says nothing about the profiler.
fn missing_here(path: &str, words: &str) -> Option<String> {
    let (file, why) = words.split_once(": ")?;
    let is_missing = why.starts_with("cannot open shared object file") && file != path;
    if is_missing && file.starts_with("libc.musl-") {
        return Some(format!(
            "the profiler's library is for musl ({file}), and this `remora` runs on glibc: test it where it runs"
        ));
    }
    let is_older = ["version `", "' not found"].iter().all(|part| why.contains(part));
    let remedy = "install what it needs, or set LD_LIBRARY_PATH";
    (is_missing || is_older)
        .then(|| format!("the profiler's library cannot be loaded on this machine: {words}; {remedy}"))
}

/// Detects a library for another machine. The dynamic linker does not report it: it skips the file as if it were missing.
fn foreign_machine(path: &str) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let (class, machine) = (*bytes.get(4)?, u16::from_le_bytes([*bytes.get(18)?, *bytes.get(19)?]));
    let is_own = class == OWN_CLASS && name_of_machine(machine) == std::env::consts::ARCH;
    let is_elf = bytes.starts_with(b"\x7fELF");
    (is_elf && !is_own).then(|| {
        let bits = if class == OWN_CLASS { "64-bit" } else { "32-bit" };
        let (its, own) = (name_of_machine(machine), std::env::consts::ARCH);
        format!("; it is a {bits} library for {its}, and this is a 64-bit process on {own}")
    })
}

/// ELFCLASS64: .NET on Linux is profiled in 64 bits here.
const OWN_CLASS: u8 = 2;

/// Rust's name for it (ELF, e_machine).
fn name_of_machine(machine: u16) -> &'static str {
    match machine {
        3 => "x86",
        40 => "arm",
        62 => "x86_64",
        183 => "aarch64",
        243 => "riscv64",
        _ => "another machine",
    }
}

/// Where a file is mapped, from its first byte to the end of its last; `Some(None)` if it is not mapped, and `None` if the observer did not
/// answer.
pub fn range(path: &str) -> Option<Option<(u64, u64)>> {
    let path = path.to_owned();
    observer::look(move || range_now(&path))
}

fn range_now(path: &str) -> Option<(u64, u64)> {
    let inode = fs::metadata(path).ok()?.ino().to_string();
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut whole: Option<(u64, u64)> = None;
    // A file in memory has only the name of its link.
    let name = fs::canonicalize(path).or_else(|_| fs::read_link(path)).ok()?;
    let name = name.to_string_lossy();
    let name = name.trim_end_matches(" (deleted)");
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (addresses, of_line) = (fields.next()?, fields.nth(3)?);
        // Compares inode and name: the device number is not the same everywhere.
        if of_line != inode || !line.trim_end_matches(" (deleted)").ends_with(name) {
            continue;
        }
        let (first, end) = addresses.split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        whole = Some(whole.map_or((first, end), |whole| (whole.0.min(first), whole.1.max(end))));
    }
    whole
}
