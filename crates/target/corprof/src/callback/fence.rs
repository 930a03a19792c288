//! The panic fence between the runtime and the profiler. Every slot checks its pointers, catches panics, makes one call and answers.
//!
//! No panic crosses into the runtime. The fence touches no thread-local with a destructor on the runtime's threads, and allocates nothing
//! unless a callback panics.

use super::CallbackToken;
use super::object::CallbackObject;
use super::slots::ProfilerCallback;
use crate::buffer::LONGEST_TEXT;
use crate::info::Info;
use crate::panics::quietly;
use crate::{Alive, HResult, Loading, sys};
use core::ffi::c_void;

/// A result type of a safe callback.
pub(super) trait Answer {
    fn code(self) -> HResult;
}

impl Answer for () {
    fn code(self) -> HResult {
        HResult::S_OK
    }
}

impl Answer for Result<(), HResult> {
    fn code(self) -> HResult {
        self.into()
    }
}

/// A notification slot: returns the profiler's result, or `S_OK` if it panics.
///
/// # Safety
/// `this` is null or a live [`CallbackObject`] of this type.
pub(super) unsafe fn fence<T: ProfilerCallback, R: Answer>(
    this: *mut c_void,
    slot: &'static str,
    call: impl FnOnce(&T) -> R,
) -> sys::HRESULT {
    // SAFETY: this function's caller guarantees `this`.
    match unsafe { inside(this, slot, call) } {
        Err(refused) => refused.0,
        Ok(answer) => answer.map_or(HResult::S_OK, Answer::code).0,
    }
}

/// A yes-or-no slot: writes the profiler's answer, or `usual` if it panics.
///
/// # Safety
/// As for [`fence`]; `out` is null or writable.
pub(super) unsafe fn answer_bool<T: ProfilerCallback>(
    this: *mut c_void,
    slot: &'static str,
    out: *mut sys::BOOL,
    usual: bool,
    call: impl FnOnce(&T) -> bool,
) -> sys::HRESULT {
    if out.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: this function's caller guarantees `this`.
    match unsafe { inside(this, slot, call) } {
        Err(refused) => refused.0,
        Ok(answer) => {
            // SAFETY: `out` is not null, so the caller guarantees that it is writable.
            unsafe { out.write(sys::BOOL::from(answer.unwrap_or(usual))) };
            HResult::S_OK.0
        }
    }
}

/// Slot 3: loaded at startup.
///
/// # Safety
/// As for [`fence`]; `info` is null or the runtime's Info object.
pub(super) unsafe fn initialize<T: ProfilerCallback>(this: *mut c_void, info: *mut sys::IUnknown) -> sys::HRESULT {
    // SAFETY: this function's caller guarantees `this` and `info`.
    unsafe { begin(this, "Initialize", info, T::initialize) }
}

/// Slot 80: attached to a running process.
///
/// # Safety
/// As for [`initialize`]; `data` is null or `length` readable bytes.
pub(super) unsafe fn initialize_for_attach<T: ProfilerCallback>(
    this: *mut c_void,
    info: *mut sys::IUnknown,
    data: *const u8,
    length: u32,
) -> sys::HRESULT {
    // SAFETY: the caller guarantees `length` readable bytes; the slice is used during the call only.
    let data = unsafe { slice(data, length) };
    // SAFETY: this function's caller guarantees `this` and `info`.
    unsafe { begin(this, "InitializeForAttach", info, |profiler: &T, info| profiler.initialize_for_attach(info, data)) }
}

/// Queries the newest Info interface, and passes it to the profiler. A panic refuses the load.
///
/// # Safety
/// As for [`initialize`].
unsafe fn begin<T: ProfilerCallback, L: Loading>(
    this: *mut c_void,
    slot: &'static str,
    info: *mut sys::IUnknown,
    call: impl FnOnce(&T, Info<L, Alive>) -> Result<(), HResult>,
) -> sys::HRESULT {
    if info.is_null() {
        return HResult::E_POINTER.0;
    }
    // SAFETY: `info` is the runtime's own object, valid until the detach is over: the caller guarantees it.
    let info = match unsafe { Info::from_unknown(info) } {
        Ok(info) => info,
        Err(refused) => return refused.0,
    };
    // SAFETY: this function's caller guarantees `this`.
    match unsafe { inside(this, slot, |profiler| call(profiler, info)) } {
        Err(refused) => refused.0,
        Ok(answer) => answer.map_or(HResult::E_FAIL, Answer::code).0,
    }
}

/// Calls `enter`, `call` and `leave`, and `on_panic` after a panic. `Ok(None)` if `call` panicked.
///
/// # Safety
/// As for [`fence`].
unsafe fn inside<T: ProfilerCallback, R>(
    this: *mut c_void,
    slot: &'static str,
    call: impl FnOnce(&T) -> R,
) -> Result<Option<R>, HResult> {
    if this.is_null() {
        return Err(HResult::E_POINTER);
    }
    // SAFETY: `this` is a live object of this type: the caller guarantees it, and the runtime holds a reference during the call.
    let profiler = unsafe { CallbackObject::<T>::profiler(this.cast()) };
    let token: Option<CallbackToken> = quietly(|| profiler.enter(slot));
    let answer = quietly(|| call(profiler));
    if token.is_none() || answer.is_none() {
        let _ = quietly(|| profiler.on_panic(slot));
    }
    if let Some(token) = token
        && quietly(|| profiler.leave(slot, token)).is_none()
    {
        let _ = quietly(|| profiler.on_panic(slot));
    }
    Ok(answer)
}

/// The runtime's array as a slice; empty for a null or misaligned pointer.
///
/// # Safety
/// `data` is null or `count` elements, which stay valid while the slice is used.
pub(super) unsafe fn slice<'a, R>(data: *const R, count: u32) -> &'a [R] {
    if data.is_null() || count == 0 || !data.is_aligned() {
        return &[];
    }
    // SAFETY: the caller guarantees `count` valid elements; 2^32 elements of at most 8 bytes do not overflow an address.
    unsafe { core::slice::from_raw_parts(data, count as usize) }
}

/// The runtime's zero-terminated text, without the zero.
///
/// # Safety
/// `data` is null or zero-terminated UTF-16, valid while the slice is used.
pub(super) unsafe fn text<'a>(data: *const u16) -> &'a [u16] {
    let mut length = 0;
    // SAFETY: the caller guarantees that every unit up to the zero is readable.
    while !data.is_null() && length < LONGEST_TEXT && unsafe { data.add(length).read_unaligned() } != 0 {
        length += 1;
    }
    // SAFETY: the loop has just read that many units.
    unsafe { slice(data, length as u32) }
}
