//! A profiler as the runtime calls it.

mod support;

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use corprof::{CallbackObject, CallbackToken, Guid, HResult, ProfilerCallback, sys};
use remora_clr_abi::{CALLBACK_SLOTS, InfoObject, ProfilerObject};
use std::sync::{Arc, Mutex};
use support::Noted;
use support::generated::call_every_callback;

/// Records every callback.
#[derive(Default)]
struct Recorder {
    entered: Arc<Mutex<Vec<&'static str>>>,
    dropped: Arc<AtomicU32>,
}

impl ProfilerCallback for Recorder {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        self.entered.lock().expect("no panic while locked").push(slot);
        CallbackToken(0)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_callback_reaches_its_own_slot_in_order() {
    let recorder = Recorder::default();
    let (entered, dropped) = (Arc::clone(&recorder.entered), Arc::clone(&recorder.dropped));
    // SAFETY: gives up the reference of `create`.
    let object = unsafe { ProfilerObject::from_created(CallbackObject::create(recorder)) }.expect("a profiler");
    assert_eq!(object.version(), 11);
    let info = InfoObject::create(Noted::of_version(15));
    let mut called = Vec::new();
    // SAFETY: two live objects.
    unsafe {
        call_every_callback(&object, info.as_unknown(), |slot, answer| {
            assert!(answer.is_some(), "{slot}");
            called.push(slot);
        });
    }
    assert_eq!(called, CALLBACK_SLOTS.iter().map(|slot| slot.name).collect::<Vec<_>>());
    assert_eq!(*entered.lock().expect("no panic while locked"), called);
    assert_eq!((object.release(), dropped.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn the_slots_are_numbered_as_the_interfaces_are() {
    let interfaces = sys::INTERFACES.iter().filter(|one| one.name.starts_with("ICorProfilerCallback"));
    let mut slots = CALLBACK_SLOTS.iter();
    for (one, version) in interfaces.zip(1..) {
        for index in one.first..=one.last {
            let slot = slots.next().expect("a slot for each of the interface's");
            assert_eq!((slot.index, slot.version), (index, version), "{}", slot.name);
        }
    }
    assert_eq!(slots.next(), None);
}

/// An object with the callbacks up to a version. It counts references, and answers `S_FALSE` to `Shutdown`.
#[repr(C)]
struct Old {
    vtbl: *const [*const (); 98],
    references: AtomicU32,
    newest: usize,
    asked: Mutex<Vec<Guid>>,
}

impl Old {
    fn new(newest: usize) -> Old {
        const VTABLE: [*const (); 98] = {
            let mut slots = [never as *const (); 98];
            slots[0] = query_interface as *const ();
            slots[1] = add_ref as *const ();
            slots[2] = release as *const ();
            slots[4] = shutdown as *const ();
            slots
        };
        // The reference of `CreateInstance`.
        Old { vtbl: &VTABLE, references: AtomicU32::new(1), newest, asked: Mutex::default() }
    }

    fn unknown(&self) -> *mut sys::IUnknown {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

const VERSIONS: [(usize, Guid); 5] = [
    (1, sys::IID_ICorProfilerCallback),
    (2, sys::IID_ICorProfilerCallback2),
    (3, sys::IID_ICorProfilerCallback3),
    (4, sys::IID_ICorProfilerCallback4),
    (5, sys::IID_ICorProfilerCallback5),
];

unsafe extern "system" fn query_interface(this: *mut c_void, riid: *const Guid, answer: *mut *mut c_void) -> i32 {
    // SAFETY: called with an `Old`.
    let old = unsafe { &*this.cast::<Old>() };
    // SAFETY: the caller passes an identifier.
    let iid = unsafe { *riid };
    old.asked.lock().expect("no panic while locked").push(iid);
    let is_known = VERSIONS.iter().any(|(version, known)| *known == iid && *version <= old.newest);
    if is_known {
        old.references.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the caller passes a place for the answer.
    unsafe { answer.write(if is_known { this } else { core::ptr::null_mut() }) };
    if is_known { 0 } else { HResult::E_NOINTERFACE.0 }
}

unsafe extern "system" fn add_ref(this: *mut c_void) -> u32 {
    // SAFETY: called with an `Old`.
    unsafe { &*this.cast::<Old>() }.references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release(this: *mut c_void) -> u32 {
    // SAFETY: called with an `Old`.
    unsafe { &*this.cast::<Old>() }.references.fetch_sub(1, Ordering::Relaxed) - 1
}

unsafe extern "system" fn shutdown(_this: *mut c_void) -> i32 {
    HResult::S_FALSE.0
}

unsafe extern "system" fn never(_this: *mut c_void) -> i32 {
    panic!("a slot that the profiler does not have was called")
}

#[test]
fn one_reference_is_held_for_each_version_and_all_are_released() {
    for newest in 2..=5 {
        let old = Old::new(newest);
        // SAFETY: gives up the first reference.
        let object = unsafe { ProfilerObject::from_created(old.unknown()) }.expect("a profiler");
        assert_eq!(usize::from(object.version()), newest);
        assert_eq!(old.references.load(Ordering::Relaxed) as usize, newest - 1);
        assert_eq!((object.release(), old.references.load(Ordering::Relaxed)), (0, 0));
    }
}

#[test]
fn a_profiler_without_the_second_callback_is_refused_and_released() {
    let old = Old::new(1);
    // SAFETY: gives up the first reference.
    let refused = unsafe { ProfilerObject::from_created(old.unknown()) }.map(|object| object.version());
    assert_eq!((refused, old.references.load(Ordering::Relaxed)), (Err(HResult::E_NOINTERFACE), 0));
    // SAFETY: null is allowed; this test passes it.
    let nothing = unsafe { ProfilerObject::from_created(core::ptr::null_mut()) }.map(|object| object.version());
    assert_eq!(nothing, Err(HResult::E_POINTER));
}

#[test]
fn versions_are_asked_for_from_the_newest_down_to_the_first_that_is_there() {
    let old = Old::new(4);
    // SAFETY: gives up the first reference.
    let object = unsafe { ProfilerObject::from_created(old.unknown()) }.expect("a profiler");
    let asked = old.asked.lock().expect("no panic while locked").clone();
    let downwards = corprof::CALLBACK_IIDS.iter().rev().take(8).map(|(iid, _)| *iid);
    assert_eq!(asked, [sys::IID_ICorProfilerCallback2].into_iter().chain(downwards).collect::<Vec<_>>());
    assert_eq!(object.release(), 0);
}

#[test]
fn a_callback_that_the_profiler_does_not_have_is_not_called() {
    let old = Old::new(2);
    // SAFETY: gives up the first reference.
    let object = unsafe { ProfilerObject::from_created(old.unknown()) }.expect("a profiler");
    // SAFETY: the callback takes no pointer.
    assert_eq!(unsafe { object.shutdown() }, Some(HResult::S_FALSE));
    // SAFETY: the callback takes no pointer.
    assert_eq!(unsafe { object.profiler_attach_complete() }, None);
    // SAFETY: the callback takes no pointer.
    assert_eq!(unsafe { object.module_in_memory_symbols_updated(1) }, None);
    assert_eq!(object.release(), 0);
}
