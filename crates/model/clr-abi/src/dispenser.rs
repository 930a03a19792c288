//! The dispenser of metadata as a COM object: a profiler gets it from the runtime's library, without Info.
//!
//! What IMetaDataDispenserEx adds is refused.

use crate::counted::{Counted, Inner};
use crate::panics::caught;
use crate::{Answer, Live, Slot, code};
use core::any::Any;
use core::ffi::c_void;
use corprof::sys::{
    DWORD, HRESULT, IMetaDataDispenserExVtbl, IMetaDataDispenserVtbl, IUnknown, PVOID, REFGUID, REFIID, ULONG,
    UVCP_CONSTANT, WCHAR,
};
use corprof::{Guid, HResult, sys};

/// The class for `MetaDataGetDispenser`.
#[allow(non_upper_case_globals, reason = "names stay as in cor.h")]
pub const CLSID_CorMetaDataDispenser: Guid = Guid::from_u128(0xE5CB7A31_7512_11D2_89CE_0080C792E5D8);

/// What a dispenser opens. A method that is not overridden refuses.
pub trait DispenserServer: Send + Sync + Sized + 'static {
    /// The metadata of a file.
    ///
    /// # Safety
    /// The caller's own pointers: a text that ends with a zero, an identifier, and a place.
    unsafe fn open_scope(&self, path: *const WCHAR, interface: REFIID, place: *mut *mut IUnknown) -> Answer;

    /// Metadata in memory.
    ///
    /// # Safety
    /// The caller's own pointers: `length` bytes, an identifier, and a place.
    unsafe fn open_scope_on_memory(
        &self,
        bytes: UVCP_CONSTANT,
        length: u32,
        interface: REFIID,
        place: *mut *mut IUnknown,
    ) -> Answer;

    /// A call was answered.
    fn answered(&self, call: &'static str, answer: HResult);

    /// A call panicked: its caller gets `E_UNEXPECTED`, and this method owns the payload.
    fn panicked(&self, slot: Slot, payload: Box<dyn Any + Send>);
}

/// A server behind its object.
pub struct Served<T>(T);

impl<T: DispenserServer> Inner for Served<T> {}

type Text = *const WCHAR;

/// A slot that answers E_NOTIMPL, whatever its arguments are.
macro_rules! refused {
    ($server:ty, $slot:literal, $name:literal, $($argument:ty),+) => {{
        unsafe extern "system" fn refused<T: DispenserServer>(this: *mut c_void, $(_: $argument),+) -> HRESULT {
            // SAFETY: COM passes the object whose vtable is called.
            unsafe { served::<T>(this, ($slot, $name), |_| Err(HResult::E_NOTIMPL)) }
        }
        refused::<$server>
    }};
}

/// The object. A reference keeps it alive.
pub type DispenserObject<T> = Counted<&'static IMetaDataDispenserExVtbl, Served<T>>;

impl<T: DispenserServer> DispenserObject<T> {
    const DISPENSER: &'static IMetaDataDispenserExVtbl = &IMetaDataDispenserExVtbl {
        base: IMetaDataDispenserVtbl {
            base: Self::UNKNOWN,
            DefineScope: define_scope::<T>,
            OpenScope: open_scope::<T>,
            OpenScopeOnMemory: open_scope_on_memory::<T>,
        },
        SetOption: refused!(T, 6, "SetOption", REFGUID, PVOID),
        GetOption: refused!(T, 7, "GetOption", REFGUID, PVOID),
        OpenScopeOnITypeInfo: refused!(T, 8, "OpenScopeOnITypeInfo", PVOID, DWORD, REFIID, *mut *mut IUnknown),
        GetCORSystemDirectory: refused!(T, 9, "GetCORSystemDirectory", *mut WCHAR, DWORD, *mut DWORD),
        FindAssembly: refused!(T, 10, "FindAssembly", Text, Text, Text, Text, *mut WCHAR, ULONG, *mut ULONG),
        FindAssemblyModule: refused!(
            T,
            11,
            "FindAssemblyModule",
            Text,
            Text,
            Text,
            Text,
            Text,
            *mut WCHAR,
            ULONG,
            *mut ULONG
        ),
    };

    /// Makes the object with one reference, which the caller owns. `live` counts it until its release.
    pub fn create(server: T, live: &Live) -> *mut IUnknown {
        const INTERFACES: &[(Guid, usize)] = &[(sys::IID_IMetaDataDispenser, 0), (sys::IID_IMetaDataDispenserEx, 0)];
        // SAFETY: the vtable is that of this type, and begins with its IUnknown.
        unsafe { Self::make(Self::DISPENSER, INTERFACES, live, Served(server)) }.cast()
    }
}

/// Calls a server behind the fence.
///
/// # Safety
/// `this` is null or a live object of this type.
unsafe fn served<T: DispenserServer>(
    this: *mut c_void,
    (index, name): (usize, &'static str),
    call: impl FnOnce(&T) -> Answer,
) -> HRESULT {
    // SAFETY: the caller guarantees null or a live object of this type.
    let Some(object) = (unsafe { DispenserObject::<T>::of(this) }) else { return HResult::E_POINTER.0 };
    let Served(server) = object.inner();
    let answer = || {
        let answer = code(call(server));
        server.answered(name, answer);
        answer
    };
    let slot = Slot { index, name, version: 1 };
    caught(answer, |payload| server.panicked(slot, payload)).unwrap_or(HResult::E_UNEXPECTED).0
}

unsafe extern "system" fn define_scope<T: DispenserServer>(
    this: *mut c_void,
    _: REFGUID,
    _: DWORD,
    _: REFIID,
    place: *mut *mut IUnknown,
) -> HRESULT {
    if !place.is_null() {
        // SAFETY: not null, so the caller gives a valid place for the answer.
        unsafe { place.write_unaligned(core::ptr::null_mut()) };
    }
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { served::<T>(this, (3, "DefineScope"), |_| Err(HResult::E_NOTIMPL)) }
}

unsafe extern "system" fn open_scope<T: DispenserServer>(
    this: *mut c_void,
    path: *const WCHAR,
    _: DWORD,
    interface: REFIID,
    place: *mut *mut IUnknown,
) -> HRESULT {
    let open = |server: &T| {
        if path.is_null() || interface.is_null() || place.is_null() {
            return Err(HResult::E_INVALIDARG);
        }
        // SAFETY: not null, so the caller gives a valid place for the answer.
        unsafe { place.write_unaligned(core::ptr::null_mut()) };
        // SAFETY: the caller's own pointers, none of which is null.
        unsafe { server.open_scope(path, interface, place) }
    };
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { served(this, (4, "OpenScope"), open) }
}

unsafe extern "system" fn open_scope_on_memory<T: DispenserServer>(
    this: *mut c_void,
    bytes: UVCP_CONSTANT,
    length: ULONG,
    _: DWORD,
    interface: REFIID,
    place: *mut *mut IUnknown,
) -> HRESULT {
    let open = |server: &T| {
        if bytes.is_null() || interface.is_null() || place.is_null() {
            return Err(HResult::E_INVALIDARG);
        }
        // SAFETY: not null, so the caller gives a valid place for the answer.
        unsafe { place.write_unaligned(core::ptr::null_mut()) };
        // SAFETY: the caller's own pointers, none of which is null.
        unsafe { server.open_scope_on_memory(bytes, length, interface, place) }
    };
    // SAFETY: COM passes the object whose vtable is called.
    unsafe { served(this, (5, "OpenScopeOnMemory"), open) }
}
