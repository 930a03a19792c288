//! The reference-counted COM objects: all but Info.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use corprof::{Guid, HResult, sys};
use std::sync::Arc;

/// Counts live objects of one kind. A leaked object stays in the count.
#[derive(Debug, Clone, Default)]
pub struct Live(pub(crate) Arc<AtomicUsize>);

impl Live {
    /// Live objects now.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl From<Arc<AtomicUsize>> for Live {
    fn from(counter: Arc<AtomicUsize>) -> Live {
        Live(counter)
    }
}

/// An object: the vtable of its interface, its reference count, its data.
#[repr(C)]
pub(crate) struct Counted<V: 'static, S> {
    vtbl: &'static V,
    references: AtomicU32,
    iid: Guid,
    live: Live,
    inner: S,
}

impl<V: 'static, S: Send + Sync + 'static> Counted<V, S> {
    /// IUnknown, the start of its vtable.
    pub(crate) const UNKNOWN: sys::IUnknownVtbl = sys::IUnknownVtbl {
        QueryInterface: query_interface::<V, S>,
        AddRef: add_ref::<V, S>,
        Release: release::<V, S>,
    };

    /// Makes an object with one reference, which the caller owns.
    ///
    /// # Safety
    /// `vtbl` begins with [`UNKNOWN`](Self::UNKNOWN), its functions expect this type, and `iid` names its interface.
    pub(crate) unsafe fn create(vtbl: &'static V, iid: Guid, live: &Live, inner: S) -> *mut c_void {
        live.0.fetch_add(1, Ordering::AcqRel);
        let object = Counted { vtbl, references: AtomicU32::new(1), iid, live: live.clone(), inner };
        Box::into_raw(Box::new(object)).cast()
    }

    /// The object behind a pointer, with everything that a copy needs.
    ///
    /// # Safety
    /// `this` is null or a live object of this type.
    pub(crate) unsafe fn of<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a live object of this type.
        unsafe { this.cast::<Self>().as_ref() }
    }

    /// Its data.
    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    /// Another object of the same kind, with one reference.
    pub(crate) fn another(&self, inner: S) -> *mut c_void {
        // SAFETY: same vtable and identifier as this object.
        unsafe { Self::create(self.vtbl, self.iid, &self.live, inner) }
    }
}

impl<V: 'static, S> Drop for Counted<V, S> {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "system" fn query_interface<V: 'static, S: Send + Sync + 'static>(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write(core::ptr::null_mut()) };
    // SAFETY: COM passes the object whose vtable is called.
    let Some(counted) = (unsafe { Counted::<V, S>::of(this) }) else {
        return HResult::E_POINTER.0;
    };
    if riid.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null; the caller's identifiers need not be aligned.
    let iid = unsafe { riid.read_unaligned() };
    if iid != sys::IID_IUnknown && iid != counted.iid {
        return HResult::E_NOINTERFACE.0;
    }
    counted.references.fetch_add(1, Ordering::Relaxed);
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write(this) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref<V: 'static, S: Send + Sync + 'static>(this: *mut c_void) -> u32 {
    // SAFETY: the caller holds a reference, so the object lives.
    let counted = unsafe { Counted::<V, S>::of(this) };
    counted.map_or(0, |counted| counted.references.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Releases one reference; the last one frees the object. No `&self` may outlive the free.
unsafe extern "system" fn release<V: 'static, S: Send + Sync + 'static>(this: *mut c_void) -> u32 {
    if this.is_null() {
        return 0;
    }
    let counted = this.cast::<Counted<V, S>>();
    // SAFETY: the caller holds the reference that this releases.
    let before = unsafe { (*counted).references.fetch_sub(1, Ordering::Release) };
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: this was the last reference, and `create` made the object as a box.
        drop(unsafe { Box::from_raw(counted) });
    }
    before.wrapping_sub(1)
}
