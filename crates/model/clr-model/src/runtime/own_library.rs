//! The runtime's own library in a process that loads real profilers: `libcoreclr.so`, which exports MetaDataGetDispenser.
//!
//! Profilers look for it by its name, in the linker's list, or in the mappings. So it is a file, with one function, which jumps to the
//! model's. Like in a live process, the export is not global (live: tests/conformance/tests/dispenser.rs).

use super::Runtime;
use super::metadata::Dispenser;
use corprof::{Guid, HResult, sys};
use remora_clr_abi::dispenser::CLSID_CorMetaDataDispenser;
use std::ffi::{CStr, CString, c_void};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Its name.
const NAME: &str = "libcoreclr.so";
const EXPORT: &CStr = c"MetaDataGetDispenser";

/// The distance of its writable part from its code; at least the largest page.
const PAGE: u64 = 0x1_0000;

/// The runtimes of this process, if the library is mapped.
static RUNTIMES: OnceLock<Mutex<Vec<Weak<Runtime>>>> = OnceLock::new();

/// Writes the library to a folder, for any number of processes. Returns its path.
///
/// # Errors
/// The system's.
pub fn write_own_library(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join(NAME);
    let bytes = Image::new().bytes;
    // A process that has mapped it sees a replaced file as a deleted one.
    if fs::read(&path).is_ok_and(|there| there == bytes) {
        return Ok(path);
    }
    // Who finds it finds all of it, and of several writers the first one counts.
    let unfinished = folder.join(format!("{NAME}.{}", std::process::id()));
    fs::write(&unfinished, bytes)?;
    let finished = match path.exists() {
        true => fs::rename(&unfinished, &path),
        false => fs::hard_link(&unfinished, &path).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        }),
    };
    let _ = fs::remove_file(&unfinished);
    finished.map(|()| path)
}

/// Maps the library of [`write_own_library`], whose file should stay there as long as the process: profilers find its path. Call it once in a
/// process, before its first runtime.
///
/// # Errors
/// The linker's: the folder may forbid execution.
pub fn map_own_library(path: &Path) -> io::Result<()> {
    let base = export(path)? - Image::new().function;
    let target: unsafe extern "system" fn(*const Guid, *const Guid, *mut *mut c_void) -> i32 = meta_data_get_dispenser;
    // SAFETY: the linker has mapped this part of the image writable, with an aligned place for an address at its start.
    unsafe { ((base + PAGE) as *mut usize).write(target as usize) };
    RUNTIMES.get_or_init(Mutex::default);
    Ok(())
}

impl Runtime {
    /// Dispensers of the process, if it has the library, find this runtime's modules.
    pub(super) fn enter_own_library(self: &Arc<Self>) {
        if let Some(runtimes) = RUNTIMES.get() {
            let mut runtimes = runtimes.lock().expect("no panic while locked");
            runtimes.retain(|runtime| runtime.strong_count() > 0);
            runtimes.push(Arc::downgrade(self));
        }
    }
}

fn runtimes() -> Vec<Arc<Runtime>> {
    let known = RUNTIMES.get().map(|runtimes| runtimes.lock().expect("no panic while locked").clone());
    known.unwrap_or_default().iter().filter_map(Weak::upgrade).collect()
}

/// What the library exports.
unsafe extern "system" fn meta_data_get_dispenser(
    class: *const Guid,
    interface: *const Guid,
    place: *mut *mut c_void,
) -> i32 {
    if class.is_null() || interface.is_null() || place.is_null() {
        return HResult::E_INVALIDARG.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { place.write_unaligned(std::ptr::null_mut()) };
    // SAFETY: not null, so the caller gives an identifier to read.
    if unsafe { class.read_unaligned() } != CLSID_CorMetaDataDispenser {
        return HResult::CLASS_E_CLASSNOTAVAILABLE.0;
    }
    let object = Dispenser::create(runtimes);
    // SAFETY: a live object, and the caller's checked pointers.
    let code = unsafe { sys::IUnknown::QueryInterface(object, interface, place) };
    // SAFETY: releases the reference of its creation; an answer holds its own.
    unsafe { sys::IUnknown::Release(object) };
    code
}

/// Opens the library, and returns the address of its export.
fn export(path: &Path) -> io::Result<u64> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    // SAFETY: the name outlives the call; the image has no code that runs now.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(io::Error::other("the linker does not open it"));
    }
    // SAFETY: an open handle, and a name that ends with a zero.
    let function = unsafe { libc::dlsym(library, EXPORT.as_ptr()) };
    if function.is_null() { Err(io::Error::other("the linker does not find its export")) } else { Ok(function as u64) }
}

/// A shared library for this machine.
struct Image {
    bytes: Vec<u8>,
    /// The distance of its function from its start.
    function: u64,
}

impl Image {
    fn new() -> Image {
        const HEADERS: u64 = 64 + 4 * 56;
        const HASH: u64 = HEADERS;
        const SYMBOLS: u64 = HASH + 24;
        const STRINGS: u64 = SYMBOLS + 2 * 24;
        let strings = [&[0], EXPORT.to_bytes_with_nul(), NAME.as_bytes(), &[0]].concat();
        let name_of_library = 1 + EXPORT.count_bytes() as u64 + 1;
        let function = (STRINGS + strings.len() as u64).next_multiple_of(16);
        let code = jump(PAGE - function);
        let dynamic: [[u64; 2]; 7] = [
            [u64::from(object::elf::DT_HASH), HASH],
            [u64::from(object::elf::DT_SYMTAB), SYMBOLS],
            [u64::from(object::elf::DT_SYMENT), 24],
            [u64::from(object::elf::DT_STRTAB), STRINGS],
            [u64::from(object::elf::DT_STRSZ), strings.len() as u64],
            [u64::from(object::elf::DT_SONAME), name_of_library],
            [u64::from(object::elf::DT_NULL), 0],
        ];
        let (first, second) = (function + code.len() as u64, 16 + size_of_val(&dynamic) as u64);
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let mut put = |value: u64, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        // The file's header (ELF-64 Object File Format, 1.5): a shared library without sections.
        let header = [
            (3, 2),
            (MACHINE, 2),
            (1, 4),
            (0, 8),
            (64, 8),
            (0, 8),
            (0, 4),
            (64, 2),
            (56, 2),
            (4, 2),
            (0, 2),
            (0, 2),
            (0, 2),
        ];
        header.into_iter().for_each(|(value, size)| put(value, size));
        let mut segment = |kind: u32, flags: u64, start: u64, length: u64, alignment: u64| {
            [(u64::from(kind), 4), (flags, 4)].into_iter().for_each(|(value, size)| put(value, size));
            [start, start, start, length, length, alignment].into_iter().for_each(|value| put(value, 8));
        };
        let [execute, write, read] = [1, 2, 4];
        segment(object::elf::PT_LOAD, read | execute, 0, first, PAGE);
        segment(object::elf::PT_LOAD, read | write, PAGE, second, PAGE);
        segment(object::elf::PT_DYNAMIC, read | write, PAGE + 16, second - 16, 8);
        // Without it, the linker makes every stack executable.
        segment(object::elf::PT_GNU_STACK, read | write, 0, 0, 16);
        // One bucket with one symbol.
        [1, 2, 1, 0, 0, 0].into_iter().for_each(|value| put(value, 4));
        [0; 3].into_iter().for_each(|value| put(value, 8));
        // A global function in some section.
        [(1, 4), (0x12, 1), (0, 1), (1, 2), (function, 8), (code.len() as u64, 8)]
            .into_iter()
            .for_each(|(value, size)| put(value, size));
        bytes.extend_from_slice(&strings);
        bytes.resize(function as usize, 0);
        bytes.extend_from_slice(&code);
        bytes.resize(PAGE as usize + 16, 0);
        bytes.extend(dynamic.into_iter().flatten().flat_map(u64::to_le_bytes));
        Image { bytes, function }
    }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u64 = object::elf::EM_X86_64 as u64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u64 = object::elf::EM_AARCH64 as u64;

/// Jumps to the address at this distance from the jump.
#[cfg(target_arch = "x86_64")]
fn jump(distance: u64) -> Vec<u8> {
    const LENGTH: u64 = 6;
    // jmp *distance(%rip)
    [&[0xFF, 0x25][..], &((distance - LENGTH) as u32).to_le_bytes()].concat()
}

#[cfg(target_arch = "aarch64")]
fn jump(distance: u64) -> Vec<u8> {
    // ldr x16, distance; br x16
    [0x5800_0010 | (distance as u32 / 4) << 5, 0xD61F_0200].into_iter().flat_map(u32::to_le_bytes).collect()
}
