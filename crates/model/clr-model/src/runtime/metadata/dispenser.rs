//! Metadata without Info, as IMetaDataDispenser opens it: that of a module, by the path of its file.
//!
//! A module's file has the rows that Info shows of it. Of other files and of memory the model reads only whether they may have metadata
//! (live: tests/conformance/tests/dispenser.rs).

use super::codes::CORRUPT;
use super::{Opener, Scope};
use crate::lab::monitor;
use crate::runtime::Runtime;
use crate::runtime::code::ModuleId;
use crate::runtime::info::text;
use corprof::{HResult, sys};
use remora_clr_abi::dispenser::{DispenserObject, DispenserServer};
use remora_clr_abi::{Answer, Live, Slot};
use std::any::Any;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Mutex};

/// CLDB_E_NO_DATA: there is no byte (source: corerror.h).
const NO_DATA: HResult = HResult(0x8013_110B_u32 as i32);
/// HRESULT_FROM_WIN32 of ERROR_FILE_NOT_FOUND and ERROR_ACCESS_DENIED.
const ABSENT: HResult = HResult(0x8007_0002_u32 as i32);
const DENIED: HResult = HResult(0x8007_0005_u32 as i32);

/// The beginning of an executable file, and that of metadata (ECMA-335, II.25.2.1 and II.24.2.1).
const EXECUTABLE: &[u8] = b"MZ";
const METADATA: &[u8] = b"BSJB";
/// Bytes that decide which of them it may be.
const BEGINNING: usize = 4;

/// The server behind a dispenser, over the runtimes of a process.
pub(in crate::runtime) struct Dispenser {
    runtimes: fn() -> Vec<Arc<Runtime>>,
}

impl Dispenser {
    /// A dispenser with one reference, which the caller owns.
    pub(in crate::runtime) fn create(runtimes: fn() -> Vec<Arc<Runtime>>) -> *mut sys::IUnknown {
        DispenserObject::create(Dispenser { runtimes }, &Live::default())
    }
}

impl DispenserServer for Dispenser {
    unsafe fn open_scope(&self, path: *const u16, interface: sys::REFIID, place: *mut *mut sys::IUnknown) -> Answer {
        // SAFETY: the API requires a text that ends with a zero.
        let path = unsafe { text(path) };
        if path.is_empty() {
            return Err(HResult::E_INVALIDARG);
        }
        for runtime in (self.runtimes)() {
            if let Some(module) = runtime.module_of_file(&path) {
                // SAFETY: the API requires an identifier and a place, neither of which is null.
                return Ok(unsafe { runtime.open_file(module, interface, place) });
            }
        }
        Err(beginning(&path).map_or_else(|code| code, |beginning| why_unread(&beginning)))
    }

    unsafe fn open_scope_on_memory(
        &self,
        bytes: sys::UVCP_CONSTANT,
        length: u32,
        _: sys::REFIID,
        _: *mut *mut sys::IUnknown,
    ) -> Answer {
        // SAFETY: the API requires so many bytes, and these are not more.
        Err(why_unread(unsafe { std::slice::from_raw_parts(bytes.cast(), BEGINNING.min(length as usize)) }))
    }

    fn answered(&self, call: &'static str, answer: HResult) {
        monitor::answered(call, answer);
    }

    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>) {
        if let Some(runtime) = (self.runtimes)().first() {
            runtime.faults.model_panicked(slot.name, &*payload);
        }
    }
}

impl Runtime {
    fn module_of_file(&self, path: &str) -> Option<ModuleId> {
        self.lock().code.modules.iter().find(|(id, module)| module.path(**id) == path).map(|(id, _)| *id)
    }

    /// Opens the metadata of a module's file, for nobody in particular.
    ///
    /// # Safety
    /// The caller's identifier and place for the answer; the place is not null.
    pub(super) unsafe fn open_file(
        self: &Arc<Self>,
        module: ModuleId,
        interface: sys::REFIID,
        place: *mut *mut sys::IUnknown,
    ) -> HResult {
        let rows = self.lock().rows_of(module);
        // SAFETY: the caller guarantees the identifier and the place.
        unsafe { self.open(Opener::Dispenser(Mutex::new(rows)), &Live::default(), module, interface, place) }
    }
}

impl Scope {
    /// Opens the same metadata again, for the same user.
    ///
    /// # Safety
    /// The caller's identifier and place for the answer; the place is not null.
    pub(super) unsafe fn open_again(&self, interface: sys::REFIID, place: *mut *mut sys::IUnknown) -> Answer {
        let runtime = self.runtime()?;
        // SAFETY: the caller guarantees the identifier and the place. This holds for both calls.
        Ok(unsafe {
            match &self.opener {
                Opener::Profiler(profiler) => {
                    let profiler = profiler.upgrade().ok_or(HResult::E_INVALIDARG)?;
                    runtime.open_metadata(&profiler, self.module, interface, place)
                }
                Opener::Dispenser(_) => runtime.open_file(self.module, interface, place),
            }
        })
    }
}

/// The first bytes of a file.
fn beginning(path: &str) -> Result<Vec<u8>, HResult> {
    let code = |error: std::io::Error| if error.kind() == ErrorKind::NotFound { ABSENT } else { DENIED };
    if std::fs::metadata(path).map_err(code)?.is_file() {
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(BEGINNING as u64).read_to_end(&mut bytes)).map_err(code)?;
        return Ok(bytes);
    }
    Err(DENIED)
}

/// Why the model does not read what begins like this.
fn why_unread(beginning: &[u8]) -> HResult {
    match beginning {
        [] => NO_DATA,
        _ if beginning.starts_with(EXECUTABLE) || beginning.starts_with(METADATA) => HResult::E_NOTIMPL,
        _ => CORRUPT,
    }
}
