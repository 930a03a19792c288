//! The wrapped bodies, until the runtime asks for them.

use corprof::{HResult, MethodToken, ModuleId, sys};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A wrapped body.
pub(crate) struct Replacement {
    /// The method's number.
    pub(crate) index: u32,
    /// The new body.
    pub(crate) body: Vec<u8>,
    /// Whether the method is to keep its old body, also if the runtime asks because it inlines another one.
    pub(crate) is_out: bool,
}

static TABLE: Mutex<Option<BTreeMap<(usize, u32), Replacement>>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<BTreeMap<(usize, u32), Replacement>>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a body.
pub(crate) fn add(module: ModuleId, method: MethodToken, replacement: Replacement) {
    table().get_or_insert_default().insert((module.0, method.0), replacement);
}

/// Uses the body of a method no more, or again.
pub(crate) fn switch(module: ModuleId, method: MethodToken, is_out: bool) {
    if let Some(replacement) = table().as_mut().and_then(|table| table.get_mut(&(module.0, method.0))) {
        replacement.is_out = is_out;
    }
}

/// The session has ended.
pub(crate) fn clear() {
    *table() = None;
}

/// The number of a method.
pub(crate) fn index(module: ModuleId, method: MethodToken) -> Option<u32> {
    table().as_ref()?.get(&(module.0, method.0)).map(|replacement| replacement.index)
}

/// Gives the runtime the new body of a method. Without one, the runtime compiles the old one.
pub(crate) fn hand_over(
    module: ModuleId,
    method: MethodToken,
    control: *mut sys::ICorProfilerFunctionControl,
) -> Result<(), HResult> {
    let table = table();
    let replacement = table.as_ref().and_then(|table| table.get(&(module.0, method.0)));
    let Some(replacement) = replacement.filter(|replacement| !replacement.is_out) else { return Ok(()) };
    if control.is_null() {
        return Err(HResult::E_POINTER);
    }
    let (length, bytes) = (replacement.body.len() as u32, replacement.body.as_ptr());
    // SAFETY: the runtime's own object, alive for the callback. It copies the bytes.
    HResult(unsafe { sys::ICorProfilerFunctionControl::SetILFunctionBody(control, length, bytes) }).ok()
}
