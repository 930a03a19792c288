//! A module's metadata as a COM object: one reference count and one server behind two vtables.
//!
//! IMetaDataAssemblyImport does not extend the others. Its pointer points to the object's second field.

use crate::counted::{Counted, Inner, Interfaces};
use crate::panics::caught;
use crate::{Answer, Live, MetadataServer, Slot};
use core::ffi::c_void;
use core::mem::offset_of;
use corprof::{HResult, sys};

/// The two vtables.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Vtables {
    import: &'static sys::IMetaDataImport2Vtbl,
    assembly: &'static sys::IMetaDataAssemblyImportVtbl,
}

/// The distance of the second vtable from the object's start.
const BESIDE: usize = offset_of!(Vtables, assembly);

const INTERFACES: Interfaces =
    &[(sys::IID_IMetaDataImport, 0), (sys::IID_IMetaDataImport2, 0), (sys::IID_IMetaDataAssemblyImport, BESIDE)];

/// The object. A reference keeps it alive.
pub type MetadataObject<T> = Counted<Vtables, T>;

impl<T: MetadataServer> Inner for T {
    fn called(&self, slot: Slot) {
        caught(|| self.unknown(slot), |payload| self.panicked(slot, payload));
    }
}

impl<T: MetadataServer> MetadataObject<T> {
    pub(crate) const UNKNOWN_BESIDE: sys::IUnknownVtbl = Self::unknown_at::<BESIDE>();
    const VTABLES: Vtables = Vtables { import: &Self::IMPORT, assembly: &Self::ASSEMBLY };

    /// Makes the object with one reference, which the caller owns. `live` counts it until its release.
    pub fn create(server: T, live: &Live) -> *mut sys::IUnknown {
        // SAFETY: both vtables are those of this type, and begin with their IUnknown.
        unsafe { Self::make(Self::VTABLES, INTERFACES, live, server) }.cast()
    }

    /// The object behind a pointer to its first vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the first vtable of a live object.
    pub(crate) unsafe fn of_import<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the first vtable of a live object.
        unsafe { Self::of(this) }
    }

    /// The object behind a pointer to its second vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the second vtable of a live object.
    pub(crate) unsafe fn of_assembly<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the second vtable of a live object.
        unsafe { Self::at::<BESIDE>(this).as_ref() }
    }
}

/// The answer of a slot whose call is refused: an error code, or zero where it returns no code.
pub(crate) trait Refused {
    fn refused(code: HResult) -> Self;
}

impl Refused for Answer {
    fn refused(code: HResult) -> Answer {
        Err(code)
    }
}

impl Refused for bool {
    fn refused(_: HResult) -> bool {
        false
    }
}

impl Refused for () {
    fn refused(_: HResult) {}
}

/// One call of a slot: enter and call. If one panics, `panicked` gets the payload.
pub(crate) fn served<T: MetadataServer, A: Refused>(
    object: Option<&MetadataObject<T>>,
    slot: Slot,
    call: impl FnOnce(&T) -> A,
) -> A {
    let Some(object) = object else { return A::refused(HResult::E_POINTER) };
    let server = object.inner();
    let answer = || server.enter(slot).map_or_else(A::refused, |()| call(server));
    caught(answer, |payload| server.panicked(slot, payload)).unwrap_or_else(|| A::refused(HResult::E_UNEXPECTED))
}
