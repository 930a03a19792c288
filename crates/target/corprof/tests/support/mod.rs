//! A runtime made in Rust: COM objects that count references and write down every call, and refuse what they are not told to answer.
#![allow(dead_code, reason = "each test uses a part")]

#[rustfmt::skip]
pub mod generated;
pub mod objects;

use core::ffi::c_void;
use corprof::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The runtime's Info object.
#[repr(C)]
pub struct FakeInfo {
    vtbl: *const *const (),
    /// References that were taken and not given back.
    pub references: AtomicU32,
    /// The newest version that it answers to.
    pub newest: u8,
    /// The names of the slots that were called.
    pub calls: Mutex<Vec<&'static str>>,
    /// Numbers that a slot took or answers, by name.
    pub numbers: Mutex<HashMap<&'static str, usize>>,
    slots: Box<[*const ()]>,
}

impl FakeInfo {
    /// A runtime with Info up to `newest`, that refuses everything.
    pub fn new(newest: u8) -> Box<FakeInfo> {
        let mut slots = vec![query_interface as *const (), add_ref as *const (), release as *const ()];
        slots.extend_from_slice(generated::REFUSALS);
        let mut fake = Box::new(FakeInfo {
            vtbl: core::ptr::null(),
            references: AtomicU32::new(0),
            newest,
            calls: Mutex::default(),
            numbers: Mutex::default(),
            slots: slots.into_boxed_slice(),
        });
        fake.vtbl = fake.slots.as_ptr();
        fake
    }

    /// Lets `slot` be answered by `function`, which has that slot's signature.
    pub fn answer(mut self: Box<Self>, slot: &str, function: *const ()) -> Box<Self> {
        let index = generated::INFO_SLOTS.iter().position(|name| *name == slot).expect("a slot of Info");
        self.slots[index + 3] = function;
        self.vtbl = self.slots.as_ptr();
        self
    }

    pub fn unknown(&self) -> *mut sys::IUnknown {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// The safe wrapper of it.
    pub fn info<L: Loading>(&self) -> Info<L, Alive> {
        // SAFETY: the tests keep the fake alive, and make one wrapper of each.
        unsafe { Info::from_unknown(self.unknown()) }.expect("the fake has an Info")
    }

    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("no panic while locked").clone()
    }

    pub fn number(&self, name: &str) -> Option<usize> {
        self.numbers.lock().expect("no panic while locked").get(name).copied()
    }

    pub fn set(&self, name: &'static str, number: usize) {
        self.numbers.lock().expect("no panic while locked").insert(name, number);
    }
}

/// The fake behind a pointer that a slot was called with.
///
/// # Safety
/// `this` is a live [`FakeInfo`].
pub unsafe fn fake<'a>(this: *mut c_void) -> &'a FakeInfo {
    // SAFETY: the caller's promise.
    unsafe { &*this.cast::<FakeInfo>() }
}

/// Writes down that a slot was called.
///
/// # Safety
/// `this` is a live [`FakeInfo`].
pub unsafe fn note(this: *mut c_void, slot: &'static str) {
    // SAFETY: the caller's promise.
    unsafe { fake(this) }.calls.lock().expect("no panic while locked").push(slot);
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    riid: *const Guid,
    object: *mut *mut c_void,
) -> sys::HRESULT {
    // SAFETY: called with a fake runtime.
    let fake = unsafe { fake(this) };
    // SAFETY: the caller hands over an identifier.
    let iid = unsafe { *riid };
    let known = sys::INTERFACES.iter().filter(|one| one.name.starts_with("ICorProfilerInfo"));
    let is_known = known.take(usize::from(fake.newest)).any(|one| one.iid == iid);
    if is_known {
        fake.references.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the caller hands over a place for the answer.
    unsafe { object.write(if is_known { this } else { core::ptr::null_mut() }) };
    if is_known { 0 } else { HResult::E_NOINTERFACE.0 }
}

unsafe extern "system" fn add_ref(this: *mut c_void) -> u32 {
    // SAFETY: called with a fake runtime.
    unsafe { fake(this) }.references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    // SAFETY: called with a fake runtime.
    unsafe { fake(this) }.references.fetch_sub(1, Ordering::Relaxed) - 1
}

/// Writes `text` as the runtime does: cut to the buffer, with the length that would have been needed.
///
/// # Safety
/// `buffer` has room for `capacity` units, `needed` for the answer.
pub unsafe fn write_text(text: &str, capacity: u32, needed: *mut u32, buffer: *mut u16) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // SAFETY: the caller's promise.
    unsafe { needed.write(units.len() as u32) };
    for (index, unit) in units.iter().take(capacity as usize).enumerate() {
        // SAFETY: below the capacity.
        unsafe { buffer.add(index).write(*unit) };
    }
}
