//! A profiler's callback object as the runtime holds it.

use crate::callbacks::VERSIONS;
use core::ffi::c_void;
use corprof::{HResult, sys};

/// The oldest callback that the runtime takes.
const OLDEST: u8 = 2;

/// A profiler's callback object: one reference for each version that it answers to.
///
/// As CoreCLR holds it: it asks for ICorProfilerCallback2, then for the newest version and downwards; what has a version
/// has all earlier ones, for which a reference is added to the same pointer (`EEToProfInterfaceImpl::CreateProfiler`,
/// <https://github.com/dotnet/runtime/blob/v9.0.0/src/coreclr/vm/eetoprofinterfaceimpl.cpp>).
/// Dropped without [`release`](Self::release) it keeps its references, as a runtime does that exits.
#[derive(Debug)]
pub struct ProfilerObject {
    oldest: *mut sys::IUnknown,
    newest: *mut sys::IUnknown,
    version: u8,
}

// SAFETY: a profiler must take calls from any thread, and from several at a time.
unsafe impl Send for ProfilerObject {}
// SAFETY: a profiler must take calls from several threads at a time, by the API.
unsafe impl Sync for ProfilerObject {}

impl ProfilerObject {
    /// Takes what `CreateInstance` made, and the reference that came with it, on a refusal too.
    ///
    /// # Safety
    /// `raw` is null or a live COM object, of which the caller gives up one reference.
    pub unsafe fn from_created(raw: *mut sys::IUnknown) -> Result<Self, HResult> {
        // SAFETY: the caller vouches for a live object and gives up a reference.
        unsafe { ProfilerObject::from_created_for(raw, VERSIONS.len() as u8) }
    }

    /// The same, by a runtime that knows no callback newer than `newest`: a profiler's later versions are never asked for.
    ///
    /// # Safety
    /// As for [`from_created`](Self::from_created).
    pub unsafe fn from_created_for(raw: *mut sys::IUnknown, newest: u8) -> Result<Self, HResult> {
        if raw.is_null() {
            return Err(HResult::E_POINTER);
        }
        // SAFETY: not null, so it is a live object, as the caller vouches.
        let oldest = unsafe { query(raw, OLDEST.min(newest)) };
        // SAFETY: gives up the reference that the caller gave.
        unsafe { sys::IUnknown::Release(raw) };
        let oldest = oldest?;
        let mut object = ProfilerObject { oldest, newest: oldest, version: OLDEST.min(newest) };
        for version in (OLDEST + 1..=newest).rev() {
            // SAFETY: `object` holds a reference, so the COM object lives.
            unsafe { object.hold(version) };
        }
        Ok(object)
    }

    /// The newest ICorProfilerCallback that it answers to.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Releases every reference, in the order in which they are numbered: what the last call answered.
    pub fn release(self) -> u32 {
        // SAFETY: nobody else has this object, which is consumed.
        unsafe { self.release_under_its_callers() }
    }

    /// The same while somebody still calls it, as a runtime does that has not counted that call.
    ///
    /// # Safety
    /// Never called or released afterwards. What is on its way inside returns into memory that may be gone: the caller answers for a
    /// process that may crash of it.
    pub unsafe fn release_under_its_callers(&self) -> u32 {
        // SAFETY: the first reference was got by asking for the oldest version.
        let mut left = unsafe { sys::IUnknown::Release(self.oldest) };
        for _ in OLDEST..self.version {
            // SAFETY: one reference for each later version was got on this pointer.
            left = unsafe { sys::IUnknown::Release(self.newest) };
        }
        left
    }

    /// The object as the interface of that version, if it has it.
    pub(crate) fn at(&self, version: u8) -> Option<*mut c_void> {
        let raw = if version <= OLDEST { self.oldest } else { self.newest };
        (version <= self.version).then_some(raw.cast())
    }

    /// Takes a reference for `version`: by asking, unless a later version was had already.
    ///
    /// # Safety
    /// The object is alive.
    unsafe fn hold(&mut self, version: u8) {
        if self.version > version {
            // SAFETY: a later version was got by a reference that is still held, so the object lives.
            unsafe { sys::IUnknown::AddRef(self.newest) };
        // SAFETY: the caller vouches that the object lives.
        } else if let Ok(newest) = unsafe { query(self.oldest, version) } {
            (self.newest, self.version) = (newest, version);
        }
    }
}

/// Asks for one version of the callback; success without an object is no success.
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
