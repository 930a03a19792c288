//! The enumerators of Info: snapshots behind the five enumerator interfaces of the API.
//!
//! They follow CoreCLR (`ProfilerEnum`, <https://github.com/dotnet/runtime/blob/v9.0.0/src/coreclr/vm/profilingenumerators.h>). `GetCount`
//! counts the remaining items, a clone begins at the start, and a null pointer is `E_INVALIDARG`.

use crate::Live;
use crate::counted::{Counted, Inner};
use crate::cursor::{Cursor, satisfied};
use core::ffi::c_void;
use corprof::{Guid, HResult, sys};

/// One of the five kinds of enumerators.
pub trait Kind: 'static {
    /// The items.
    type Item: Clone + Send + Sync + 'static;
    /// The interface.
    type Interface;
    /// Its vtable.
    #[doc(hidden)]
    type Vtbl: 'static;
    /// Its identifier.
    const IID: Guid;
    /// The answer to a null pointer.
    #[doc(hidden)]
    const NULL_POINTER: HResult = HResult::E_INVALIDARG;
    /// Whether a clone begins at the start, instead of at the original's position.
    #[doc(hidden)]
    const CLONE_AT_START: bool = true;
    #[doc(hidden)]
    const VTABLE: &'static Self::Vtbl;
}

/// Makes an enumerator of `items` with one reference, which the caller owns. `live` counts it until its release.
pub fn enumerator<K: Kind>(items: Vec<K::Item>, live: &Live) -> *mut K::Interface {
    // SAFETY: `K::VTABLE` is the vtable for `Object<K>`.
    unsafe { Object::<K>::make(K::VTABLE, const { &[(K::IID, 0)] }, live, Cursor::new(items)) }.cast()
}

pub(crate) type Object<K> = Counted<&'static <K as Kind>::Vtbl, Cursor<<K as Kind>::Item>>;

impl<T: Send + Sync + 'static> Inner for Cursor<T> {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $item:ty, $interface:ident, $vtbl:ident, $iid:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $kind {}

            impl Kind for $kind {
                type Item = $item;
                type Interface = sys::$interface;
                type Vtbl = sys::$vtbl;
                const IID: Guid = sys::$iid;
                const VTABLE: &'static sys::$vtbl = &sys::$vtbl {
                    base: Object::<$kind>::UNKNOWN,
                    Skip: skip::<$kind>,
                    Reset: reset::<$kind>,
                    Clone: clone::<$kind>,
                    GetCount: get_count::<$kind>,
                    Next: next::<$kind>,
                };
            }
        )*
    };
}

kinds! {
    /// ICorProfilerModuleEnum.
    Modules, sys::ModuleID, ICorProfilerModuleEnum, ICorProfilerModuleEnumVtbl, IID_ICorProfilerModuleEnum;
    /// ICorProfilerThreadEnum.
    Threads, sys::ThreadID, ICorProfilerThreadEnum, ICorProfilerThreadEnumVtbl, IID_ICorProfilerThreadEnum;
    /// ICorProfilerObjectEnum.
    Objects, sys::ObjectID, ICorProfilerObjectEnum, ICorProfilerObjectEnumVtbl, IID_ICorProfilerObjectEnum;
    /// ICorProfilerFunctionEnum.
    Functions, sys::COR_PRF_FUNCTION, ICorProfilerFunctionEnum, ICorProfilerFunctionEnumVtbl, IID_ICorProfilerFunctionEnum;
    /// ICorProfilerMethodEnum.
    Methods, sys::COR_PRF_METHOD, ICorProfilerMethodEnum, ICorProfilerMethodEnumVtbl, IID_ICorProfilerMethodEnum;
}

pub(crate) unsafe extern "system" fn skip<K: Kind>(this: *mut c_void, count: sys::ULONG) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let object = unsafe { Object::<K>::of(this) };
    object.map_or(HResult::E_POINTER.0, |object| satisfied(object.inner().take(count as usize).len(), count))
}

pub(crate) unsafe extern "system" fn reset<K: Kind>(this: *mut c_void) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(object) = (unsafe { Object::<K>::of(this) }) else { return HResult::E_POINTER.0 };
    object.inner().reset();
    HResult::S_OK.0
}

pub(crate) unsafe extern "system" fn clone<K: Kind>(this: *mut c_void, answer: *mut *mut K::Interface) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(object) = (unsafe { Object::<K>::of(this) }) else { return HResult::E_POINTER.0 };
    if answer.is_null() {
        return K::NULL_POINTER.0;
    }
    let cursor = object.inner();
    let copy = object.another(if K::CLONE_AT_START { cursor.at_the_start() } else { cursor.at_the_same_place() });
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { answer.write_unaligned(copy.cast()) };
    HResult::S_OK.0
}

unsafe extern "system" fn get_count<K: Kind>(this: *mut c_void, answer: *mut sys::ULONG) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(object) = (unsafe { Object::<K>::of(this) }) else { return HResult::E_POINTER.0 };
    if answer.is_null() {
        return K::NULL_POINTER.0;
    }
    // SAFETY: not null, so the caller gives a valid place for the answer.
    unsafe { answer.write_unaligned(object.inner().left() as u32) };
    HResult::S_OK.0
}

pub(crate) unsafe extern "system" fn next<K: Kind>(
    this: *mut c_void,
    count: sys::ULONG,
    items: *mut K::Item,
    fetched: *mut sys::ULONG,
) -> sys::HRESULT {
    // SAFETY: COM passes the object whose vtable is called.
    let Some(object) = (unsafe { Object::<K>::of(this) }) else { return HResult::E_POINTER.0 };
    if (fetched.is_null() && count > 1) || (items.is_null() && count > 0) {
        return K::NULL_POINTER.0;
    }
    let taken = object.inner().take(count as usize);
    for (index, item) in taken.iter().enumerate() {
        // SAFETY: the caller gives room for `count` items, and `take` returns at most `count`.
        unsafe { items.add(index).write_unaligned(item.clone()) };
    }
    if !fetched.is_null() {
        // SAFETY: not null, so the caller gives a valid place for the answer.
        unsafe { fetched.write_unaligned(taken.len() as u32) };
    }
    satisfied(taken.len(), count)
}
