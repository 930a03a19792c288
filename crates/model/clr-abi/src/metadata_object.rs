//! A module's metadata as a COM object: one reference count and one server behind two vtables.
//!
//! IMetaDataAssemblyImport does not extend the others. Its pointer points to the object's second field.

use crate::panics::caught;
use crate::{Answer, Live, MetadataServer, Slot};
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use corprof::{HResult, sys};

/// The object. A reference keeps it alive.
#[repr(C)]
pub struct MetadataObject<T> {
    import: &'static sys::IMetaDataImport2Vtbl,
    assembly: &'static sys::IMetaDataAssemblyImportVtbl,
    references: AtomicU32,
    live: Live,
    server: T,
}

impl<T> Drop for MetadataObject<T> {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T: MetadataServer> MetadataObject<T> {
    pub(crate) const UNKNOWN: sys::IUnknownVtbl =
        sys::IUnknownVtbl { QueryInterface: query_interface::<T>, AddRef: add_ref::<T>, Release: release::<T> };
    pub(crate) const UNKNOWN_BESIDE: sys::IUnknownVtbl = sys::IUnknownVtbl {
        QueryInterface: query_interface_beside::<T>,
        AddRef: add_ref_beside::<T>,
        Release: release_beside::<T>,
    };
    const SHARED_IMPORT: &'static sys::IMetaDataImport2Vtbl = &Self::IMPORT;
    const SHARED_ASSEMBLY: &'static sys::IMetaDataAssemblyImportVtbl = &Self::ASSEMBLY;

    /// Makes the object with one reference, which the caller owns. `live` counts it until its release.
    pub fn create(server: T, live: &Live) -> *mut sys::IUnknown {
        live.0.fetch_add(1, Ordering::AcqRel);
        Box::into_raw(Box::new(MetadataObject {
            import: Self::SHARED_IMPORT,
            assembly: Self::SHARED_ASSEMBLY,
            references: AtomicU32::new(1),
            live: live.clone(),
            server,
        }))
        .cast()
    }

    /// The object behind a pointer to its first vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the first vtable of a live object.
    pub(crate) unsafe fn of_import<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the first vtable of a live object.
        unsafe { this.cast::<Self>().as_ref() }
    }

    /// The object behind a pointer to its second vtable.
    ///
    /// # Safety
    /// `this` is null, or points to the second vtable of a live object.
    pub(crate) unsafe fn of_assembly<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a pointer to the second vtable of a live object.
        unsafe { whole::<T>(this).cast::<Self>().as_ref() }
    }
}

/// The object's start, from a pointer to its second vtable.
///
/// # Safety
/// `this` is null, or points to the second vtable of an object.
unsafe fn whole<T>(this: *mut c_void) -> *mut c_void {
    if this.is_null() {
        return null_mut();
    }
    // SAFETY: the caller guarantees a pointer to that field, at this offset inside the object.
    unsafe { this.byte_sub(offset_of!(MetadataObject<T>, assembly)) }
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
    let server = &object.server;
    let answer = || server.enter(slot).map_or_else(A::refused, |()| call(server));
    caught(answer, |payload| server.panicked(slot, payload)).unwrap_or_else(|| A::refused(HResult::E_UNEXPECTED))
}

fn called<T: MetadataServer>(object: &MetadataObject<T>, slot: Slot) {
    caught(|| object.server.unknown(slot), |payload| object.server.panicked(slot, payload));
}

unsafe extern "system" fn query_interface<T: MetadataServer>(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write(null_mut()) };
    // SAFETY: COM passes the object whose first vtable is called.
    let Some(known) = (unsafe { MetadataObject::<T>::of_import(this) }) else { return HResult::E_POINTER.0 };
    if riid.is_null() {
        return HResult::E_POINTER.0;
    }
    called(known, Slot::QUERY_INTERFACE);
    // SAFETY: not null; the caller's identifiers need not be aligned.
    let iid = unsafe { riid.read_unaligned() };
    let found = if [sys::IID_IUnknown, sys::IID_IMetaDataImport, sys::IID_IMetaDataImport2].contains(&iid) {
        this
    } else if iid == sys::IID_IMetaDataAssemblyImport {
        // SAFETY: the offset of a field lies inside the object.
        unsafe { this.byte_add(offset_of!(MetadataObject<T>, assembly)) }
    } else {
        return HResult::E_NOINTERFACE.0;
    };
    known.references.fetch_add(1, Ordering::Relaxed);
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write(found) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref<T: MetadataServer>(this: *mut c_void) -> u32 {
    // SAFETY: the caller holds a reference, so the object lives.
    let Some(known) = (unsafe { MetadataObject::<T>::of_import(this) }) else { return 0 };
    called(known, Slot::ADD_REF);
    known.references.fetch_add(1, Ordering::Relaxed) + 1
}

/// Releases one reference; the last one frees the object. No `&self` may outlive the free.
unsafe extern "system" fn release<T: MetadataServer>(this: *mut c_void) -> u32 {
    // SAFETY: the caller holds the reference that this releases.
    let Some(known) = (unsafe { MetadataObject::<T>::of_import(this) }) else { return 0 };
    called(known, Slot::RELEASE);
    let before = known.references.fetch_sub(1, Ordering::Release);
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: this was the last reference, and `create` made the object as a box.
        drop(unsafe { Box::from_raw(this.cast::<MetadataObject<T>>()) });
    }
    before.wrapping_sub(1)
}

unsafe extern "system" fn query_interface_beside<T: MetadataServer>(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    // SAFETY: COM passes the object whose second vtable is called.
    unsafe { query_interface::<T>(whole::<T>(this), riid, object) }
}

unsafe extern "system" fn add_ref_beside<T: MetadataServer>(this: *mut c_void) -> u32 {
    // SAFETY: COM passes the object whose second vtable is called, and the caller holds a reference.
    unsafe { add_ref::<T>(whole::<T>(this)) }
}

unsafe extern "system" fn release_beside<T: MetadataServer>(this: *mut c_void) -> u32 {
    // SAFETY: COM passes the object whose second vtable is called, and the caller holds a reference.
    unsafe { release::<T>(whole::<T>(this)) }
}
