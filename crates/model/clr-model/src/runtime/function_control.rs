//! ICorProfilerFunctionControl: what a profiler gets in GetReJITParameters, to give a method its new IL.
//!
//! A real runtime checks little of it (source: rejit.cpp, ProfilerFunctionControl). It releases the object when the callback has returned,
//! and reads nothing that comes later.

use crate::faults::Faults;
use crate::mutation;
use corprof::{HResult, sys};
use remora_il::Body;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The clause of this file's faults.
const CLAUSE: &str = "RJT-01";

/// See the module documentation.
#[repr(C)]
pub(super) struct FunctionControl {
    vtable: &'static sys::ICorProfilerFunctionControlVtbl,
    references: AtomicU32,
    /// The callback has not returned.
    is_open: AtomicBool,
    given: Mutex<Given>,
    faults: Arc<Faults>,
}

/// What the profiler gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// The method keeps its IL.
    Nothing,
    Whole,
    Broken,
}

impl FunctionControl {
    pub(super) fn new(faults: Arc<Faults>) -> Arc<FunctionControl> {
        Arc::new(FunctionControl {
            vtable: &VTABLE,
            references: AtomicU32::new(1),
            is_open: AtomicBool::new(true),
            given: Mutex::new(Given::Nothing),
            faults,
        })
    }

    pub(super) fn as_object(&self) -> *mut sys::ICorProfilerFunctionControl {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The callback has returned: the runtime takes what was given, and gives up its reference. Returns whether the method can be compiled.
    pub(super) fn close(&self) -> bool {
        self.is_open.store(false, Ordering::SeqCst);
        self.references.fetch_sub(1, Ordering::SeqCst);
        *self.given.lock().expect("no panic while locked") != Given::Broken
    }

    fn report(&self, what: &str) {
        if !mutation::is("RJT-01/8") {
            self.faults.report(CLAUSE, what);
        }
    }

    /// Whether a method of it may be called now.
    fn is_alive(&self, method: &str) -> bool {
        let is_freed = self.references.load(Ordering::SeqCst) == 0;
        if is_freed {
            self.report(&format!(
                "{method} was called on the function control after GetReJITParameters had returned: a use after free"
            ));
        } else if !self.is_open.load(Ordering::SeqCst) {
            self.report(&format!(
                "{method} was called after GetReJITParameters had returned: the runtime takes what it is given inside, and no more"
            ));
        }
        !is_freed
    }

    fn set_body(&self, body: &[u8]) -> HResult {
        if !self.is_alive("SetILFunctionBody") {
            return HResult::E_UNEXPECTED;
        }
        if body.is_empty() {
            self.report("SetILFunctionBody was called with an empty body, which is refused (E_INVALIDARG): the method keeps the IL that it had");
            return HResult::E_INVALIDARG;
        }
        let mut given = self.given.lock().expect("no panic while locked");
        if *given != Given::Nothing {
            self.report("a method was given two bodies in one GetReJITParameters: the runtime loses the memory of the first one, and a checked runtime ends the process");
        }
        *given = match Body::read(body) {
            Ok(_) => Given::Whole,
            Err(error) => {
                self.report(&format!(
                    "the body for SetILFunctionBody is not whole IL ({error}): every call of the method throws, or the compiler reads beyond it"
                ));
                Given::Broken
            }
        };
        crate::lab::monitor::exercised(CLAUSE);
        HResult::S_OK
    }
}

static VTABLE: sys::ICorProfilerFunctionControlVtbl = sys::ICorProfilerFunctionControlVtbl {
    base: sys::IUnknownVtbl { QueryInterface: query_interface, AddRef: add_reference, Release: release },
    SetCodegenFlags: set_codegen_flags,
    SetILFunctionBody: set_body,
    SetILInstrumentedCodeMap: set_map,
};

/// # Safety
/// `this` is the object of a [`FunctionControl`], which the runtime's state keeps for ever.
unsafe fn control<'a>(this: *mut c_void) -> &'a FunctionControl {
    // SAFETY: the caller guarantees an object that is never freed, and its vtable is its first field.
    unsafe { &*this.cast::<FunctionControl>() }
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    interface: sys::REFIID,
    out: *mut *mut c_void,
) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let control = unsafe { control(this) };
    // SAFETY: COM passes an identifier, which need not be aligned.
    let interface = unsafe { interface.read_unaligned() };
    let is_known = [sys::IID_IUnknown, sys::IID_ICorProfilerFunctionControl].contains(&interface);
    // SAFETY: COM passes a place for the answer.
    unsafe { out.write(if is_known { this } else { std::ptr::null_mut() }) };
    if !is_known {
        return HResult::E_NOINTERFACE.0;
    }
    control.is_alive("QueryInterface");
    control.references.fetch_add(1, Ordering::SeqCst);
    HResult::S_OK.0
}

unsafe extern "system" fn add_reference(this: *mut c_void) -> u32 {
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { control(this) }.references.fetch_add(1, Ordering::SeqCst) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    // SAFETY: COM passes the object whose vtable is called.
    let control = unsafe { control(this) };
    let before = control.references.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    match before {
        // The runtime's own reference is not the profiler's to release.
        Ok(1) if control.is_open.load(Ordering::SeqCst) => {
            control.report("the function control was released more often than it was referenced");
            0
        }
        Ok(before) => before - 1,
        Err(_) => {
            control.is_alive("Release");
            0
        }
    }
}

unsafe extern "system" fn set_codegen_flags(this: *mut c_void, _: sys::DWORD) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { control(this) }.is_alive("SetCodegenFlags");
    HResult::S_OK.0
}

unsafe extern "system" fn set_body(this: *mut c_void, length: sys::ULONG, bytes: *const sys::BYTE) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let control = unsafe { control(this) };
    // SAFETY: the API requires a list that is null or has the stated length.
    control.set_body(unsafe { super::info::bytes(bytes, length) }).0
}

unsafe extern "system" fn set_map(this: *mut c_void, _: sys::ULONG, _: *const sys::COR_IL_MAP) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { control(this) }.is_alive("SetILInstrumentedCodeMap");
    HResult::S_OK.0
}
