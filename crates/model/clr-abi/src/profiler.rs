//! A profiler's callback object as the runtime holds it.

use crate::callbacks::VERSIONS;
use core::ffi::c_void;
use corprof::{HResult, sys};

/// The oldest callback that the runtime accepts.
const OLDEST: u8 = 2;

/// A profiler's callback object, with one reference for each version that it supports.
///
/// This follows CoreCLR. It asks for ICorProfilerCallback2, then for the newest version and downwards. An object with one version has all
/// earlier ones, and each adds a reference to the same pointer (`EEToProfInterfaceImpl::CreateProfiler`,
/// <https://github.com/dotnet/runtime/blob/v9.0.0/src/coreclr/vm/eetoprofinterfaceimpl.cpp>). Dropped without [`release`](Self::release),
/// it keeps its references, as in a runtime that exits.
#[derive(Debug)]
pub struct ProfilerObject {
    oldest: *mut sys::IUnknown,
    newest: *mut sys::IUnknown,
    version: u8,
}

// SAFETY: the API requires a profiler to accept calls from any thread, several at a time.
unsafe impl Send for ProfilerObject {}
// SAFETY: the API requires a profiler to accept calls from several threads at a time.
unsafe impl Sync for ProfilerObject {}

impl ProfilerObject {
    /// Takes over the object from `CreateInstance` with its reference, even on a refusal.
    ///
    /// # Safety
    /// `raw` is null or a live COM object. The caller gives up one reference.
    pub unsafe fn from_created(raw: *mut sys::IUnknown) -> Result<Self, HResult> {
        // SAFETY: the caller guarantees a live object and gives up a reference.
        unsafe { ProfilerObject::from_created_for(raw, VERSIONS.len() as u8) }
    }

    /// The same for a runtime with no callback newer than `newest`. It never asks for later versions.
    ///
    /// # Safety
    /// As for [`from_created`](Self::from_created).
    pub unsafe fn from_created_for(raw: *mut sys::IUnknown, newest: u8) -> Result<Self, HResult> {
        if raw.is_null() {
            return Err(HResult::E_POINTER);
        }
        // SAFETY: not null, so the caller guarantees a live object.
        let oldest = unsafe { query(raw, OLDEST.min(newest)) };
        // SAFETY: releases the reference that the caller gave.
        unsafe { sys::IUnknown::Release(raw) };
        let oldest = oldest?;
        let mut object = ProfilerObject { oldest, newest: oldest, version: OLDEST.min(newest) };
        for version in (OLDEST + 1..=newest).rev() {
            // SAFETY: `object` holds a reference, which keeps the COM object alive.
            unsafe { object.hold(version) };
        }
        Ok(object)
    }

    /// The newest ICorProfilerCallback that it supports.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Its address: of the object's oldest interface.
    pub fn address(&self) -> usize {
        self.oldest as usize
    }

    /// Releases every reference in order of version. Returns the answer of the last call.
    pub fn release(self) -> u32 {
        // SAFETY: `self` is consumed, so no caller can use it again.
        unsafe { self.release_under_its_callers() }
    }

    /// The same while calls are still running, as in a runtime that did not count them.
    ///
    /// # Safety
    /// The object is never called or released afterwards. A running call returns into memory that may be unmapped: the caller accepts a
    /// crash.
    pub unsafe fn release_under_its_callers(&self) -> u32 {
        // SAFETY: `from_created_for` got the first reference for the oldest version.
        let mut left = unsafe { sys::IUnknown::Release(self.oldest) };
        for _ in OLDEST..self.version {
            // SAFETY: `hold` got one reference on this pointer for each later version.
            left = unsafe { sys::IUnknown::Release(self.newest) };
        }
        left
    }

    /// The object as the interface of that version, if it has it.
    pub(crate) fn at(&self, version: u8) -> Option<*mut c_void> {
        let raw = if version <= OLDEST { self.oldest } else { self.newest };
        (version <= self.version).then_some(raw.cast())
    }

    /// Takes a reference for `version`: by QueryInterface, unless the object has a later version.
    ///
    /// # Safety
    /// The object is alive.
    unsafe fn hold(&mut self, version: u8) {
        if self.version > version {
            // SAFETY: the reference for a later version is still held, so the object lives.
            unsafe { sys::IUnknown::AddRef(self.newest) };
        // SAFETY: the caller guarantees a live object.
        } else if let Ok(newest) = unsafe { query(self.oldest, version) } {
            (self.newest, self.version) = (newest, version);
        }
    }
}

/// Asks for one version of the callback. Success without an object is a failure.
///
/// # Safety
/// `raw` is a live COM object.
unsafe fn query(raw: *mut sys::IUnknown, version: u8) -> Result<*mut sys::IUnknown, HResult> {
    let iid = VERSIONS.get(usize::from(version) - 1).ok_or(HResult::E_NOINTERFACE)?;
    let mut object = core::ptr::null_mut();
    // SAFETY: a live object, an identifier and a place for the answer.
    HResult(unsafe { sys::IUnknown::QueryInterface(raw, iid, &mut object) }).ok()?;
    if object.is_null() { Err(HResult::E_NOINTERFACE) } else { Ok(object.cast()) }
}
