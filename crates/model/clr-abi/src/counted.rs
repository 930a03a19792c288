//! The reference-counted COM objects: all but Info.

use crate::Slot;
use core::ffi::c_void;
use core::ptr::null_mut;
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

/// What an object serves.
pub trait Inner: Send + Sync + 'static {
    /// One of the three slots of IUnknown is called.
    fn called(&self, _slot: Slot) {}
}

/// The identifiers of an object's interfaces, and the distance of their vtable pointers from the object's start.
pub(crate) type Interfaces = &'static [(Guid, usize)];

/// An object: its vtable pointers, its reference count, its data.
#[repr(C)]
pub struct Counted<V, S> {
    vtables: V,
    references: AtomicU32,
    interfaces: Interfaces,
    live: Live,
    inner: S,
}

impl<V: Copy + 'static, S: Inner> Counted<V, S> {
    /// IUnknown, the start of its first vtable.
    pub(crate) const UNKNOWN: sys::IUnknownVtbl = Self::unknown_at::<0>();

    /// IUnknown, the start of its vtable at this distance.
    pub(crate) const fn unknown_at<const PLACE: usize>() -> sys::IUnknownVtbl {
        sys::IUnknownVtbl {
            QueryInterface: query_interface::<V, S, PLACE>,
            AddRef: add_ref::<V, S, PLACE>,
            Release: release::<V, S, PLACE>,
        }
    }

    /// Makes an object with one reference, which the caller owns. `live` counts it until its release.
    ///
    /// # Safety
    /// `vtables` has a pointer at each distance of `interfaces`. That vtable begins with [`unknown_at`](Self::unknown_at) this distance, and
    /// its functions expect this type.
    pub(crate) unsafe fn make(vtables: V, interfaces: Interfaces, live: &Live, inner: S) -> *mut c_void {
        live.0.fetch_add(1, Ordering::AcqRel);
        let object = Counted { vtables, references: AtomicU32::new(1), interfaces, live: live.clone(), inner };
        Box::into_raw(Box::new(object)).cast()
    }

    /// The object behind a pointer to its first vtable, with everything that a copy needs.
    ///
    /// # Safety
    /// `this` is null or a live object of this type.
    pub(crate) unsafe fn of<'a>(this: *mut c_void) -> Option<&'a Self> {
        // SAFETY: the caller guarantees null or a live object of this type.
        unsafe { Self::at::<0>(this).as_ref() }
    }

    /// The object behind a pointer to its vtable at this distance.
    ///
    /// # Safety
    /// `this` is null, or points to that vtable of an object of this type.
    pub(crate) unsafe fn at<const PLACE: usize>(this: *mut c_void) -> *mut Self {
        if this.is_null() {
            return null_mut();
        }
        // SAFETY: the caller guarantees a pointer to that field, at this offset inside the object.
        unsafe { this.byte_sub(PLACE) }.cast()
    }

    /// Its data.
    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    /// Another object of the same kind, with one reference.
    pub(crate) fn another(&self, inner: S) -> *mut c_void {
        // SAFETY: same vtables and identifiers as this object.
        unsafe { Self::make(self.vtables, self.interfaces, &self.live, inner) }
    }
}

impl<V, S> Drop for Counted<V, S> {
    fn drop(&mut self) {
        self.live.0.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "system" fn query_interface<V: Copy + 'static, S: Inner, const PLACE: usize>(
    this: *mut c_void,
    riid: sys::REFIID,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    if object.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write_unaligned(null_mut()) };
    // SAFETY: COM passes the object whose vtable is called.
    let start = unsafe { Counted::<V, S>::at::<PLACE>(this) };
    // SAFETY: null, or the start of a live object.
    let Some(counted) = (unsafe { start.as_ref() }).filter(|_| !riid.is_null()) else {
        return HResult::E_POINTER.0;
    };
    counted.inner.called(Slot::QUERY_INTERFACE);
    // SAFETY: not null; the caller's identifiers need not be aligned.
    let iid = unsafe { riid.read_unaligned() };
    let known = counted.interfaces.iter().find(|(known, _)| *known == iid).map(|(_, place)| *place);
    let Some(place) = known.or((iid == sys::IID_IUnknown).then_some(0)) else {
        return HResult::E_NOINTERFACE.0;
    };
    counted.references.fetch_add(1, Ordering::Relaxed);
    // SAFETY: `make` got a vtable pointer at this distance inside the object.
    let found = unsafe { start.byte_add(place) };
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { object.write_unaligned(found.cast()) };
    HResult::S_OK.0
}

unsafe extern "system" fn add_ref<V: Copy + 'static, S: Inner, const PLACE: usize>(this: *mut c_void) -> u32 {
    // SAFETY: the caller holds a reference, so the object lives.
    let Some(counted) = (unsafe { Counted::<V, S>::at::<PLACE>(this).as_ref() }) else { return 0 };
    counted.inner.called(Slot::ADD_REF);
    counted.references.fetch_add(1, Ordering::Relaxed) + 1
}

/// Releases one reference; the last one frees the object. No `&self` may outlive the free.
unsafe extern "system" fn release<V: Copy + 'static, S: Inner, const PLACE: usize>(this: *mut c_void) -> u32 {
    // SAFETY: COM passes the object whose vtable is called.
    let start = unsafe { Counted::<V, S>::at::<PLACE>(this) };
    // SAFETY: the caller holds the reference that this releases.
    let Some(counted) = (unsafe { start.as_ref() }) else { return 0 };
    counted.inner.called(Slot::RELEASE);
    let before = counted.references.fetch_sub(1, Ordering::Release);
    if before == 1 {
        fence(Ordering::Acquire);
        // SAFETY: this was the last reference, and `make` made the object as a box.
        drop(unsafe { Box::from_raw(start) });
    }
    before.wrapping_sub(1)
}
