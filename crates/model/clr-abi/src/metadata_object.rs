//! A module's metadata as a COM object: one reference count and one server behind five vtables.
//!
//! The interfaces do not all extend one another. Each further vtable has a pointer to its own field of the object.

use crate::counted::{Counted, Inner, Interfaces};
use crate::panics::caught;
use crate::{Answer, Live, MetadataServer, Slot};
use core::ffi::c_void;
use core::mem::offset_of;
use corprof::{HResult, sys};

/// The vtables.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Vtables {
    import: &'static sys::IMetaDataImport2Vtbl,
    assembly: &'static sys::IMetaDataAssemblyImportVtbl,
    emit: &'static sys::IMetaDataEmit2Vtbl,
    assembly_emit: &'static sys::IMetaDataAssemblyEmitVtbl,
    tables: &'static sys::IMetaDataTables2Vtbl,
}

/// The distances of the further vtables from the object's start.
const ASSEMBLY: usize = offset_of!(Vtables, assembly);
const EMIT: usize = offset_of!(Vtables, emit);
const ASSEMBLY_EMIT: usize = offset_of!(Vtables, assembly_emit);
const TABLES: usize = offset_of!(Vtables, tables);

const INTERFACES: Interfaces = &[
    (sys::IID_IMetaDataImport, 0),
    (sys::IID_IMetaDataImport2, 0),
    (sys::IID_IMetaDataAssemblyImport, ASSEMBLY),
    (sys::IID_IMetaDataEmit, EMIT),
    (sys::IID_IMetaDataEmit2, EMIT),
    (sys::IID_IMetaDataAssemblyEmit, ASSEMBLY_EMIT),
    (sys::IID_IMetaDataTables, TABLES),
    (sys::IID_IMetaDataTables2, TABLES),
];

/// The object. A reference keeps it alive.
pub type MetadataObject<T> = Counted<Vtables, T>;

impl<T: MetadataServer> Inner for T {
    fn called(&self, slot: Slot) {
        caught(|| self.unknown(slot), |payload| self.panicked(slot, payload));
    }
}

impl<T: MetadataServer> MetadataObject<T> {
    pub(crate) const UNKNOWN_OF_IMPORT: sys::IUnknownVtbl = Self::UNKNOWN;
    pub(crate) const UNKNOWN_OF_ASSEMBLY_IMPORT: sys::IUnknownVtbl = Self::unknown_at::<ASSEMBLY>();
    pub(crate) const UNKNOWN_OF_EMIT: sys::IUnknownVtbl = Self::unknown_at::<EMIT>();
    pub(crate) const UNKNOWN_OF_ASSEMBLY_EMIT: sys::IUnknownVtbl = Self::unknown_at::<ASSEMBLY_EMIT>();
    pub(crate) const UNKNOWN_OF_TABLES: sys::IUnknownVtbl = Self::unknown_at::<TABLES>();
    const VTABLES: Vtables = Vtables {
        import: &Self::IMPORT,
        assembly: &Self::ASSEMBLY_IMPORT,
        emit: &Self::EMIT,
        assembly_emit: &Self::ASSEMBLY_EMIT,
        tables: &Self::TABLES,
    };

    /// Makes the object with one reference, which the caller owns. `live` counts it until its release.
    pub fn create(server: T, live: &Live) -> *mut sys::IUnknown {
        // SAFETY: the vtables are those of this type, and begin with their IUnknown.
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
        unsafe { Self::at::<ASSEMBLY>(this).as_ref() }
    }

    /// The object behind a pointer to its third vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the third vtable of a live object.
    pub(crate) unsafe fn of_emit<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the third vtable of a live object.
        unsafe { Self::at::<EMIT>(this).as_ref() }
    }

    /// The object behind a pointer to its fourth vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the fourth vtable of a live object.
    pub(crate) unsafe fn of_assembly_emit<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the fourth vtable of a live object.
        unsafe { Self::at::<ASSEMBLY_EMIT>(this).as_ref() }
    }

    /// The object behind a pointer to its fifth vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the fifth vtable of a live object.
    pub(crate) unsafe fn of_tables<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the fifth vtable of a live object.
        unsafe { Self::at::<TABLES>(this).as_ref() }
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
