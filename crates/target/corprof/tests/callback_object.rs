//! The COM object that the runtime holds: who it answers to, when it dies, and that nothing gets through its fence.

mod support;

use core::ffi::c_void;
use corprof::*;
use remora_holds::holds;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use support::FakeInfo;
use support::generated::{Panicking, call_every_slot};

/// Overrides nothing but the bookkeeping, and says when it is dropped.
#[derive(Default)]
struct Recorder {
    entered: Mutex<Vec<&'static str>>,
    left: Mutex<Vec<(&'static str, u64)>>,
    drops: Arc<AtomicU32>,
}

impl ProfilerCallback for Recorder {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        let mut entered = self.entered.lock().expect("no panic while locked");
        entered.push(slot);
        CallbackToken(entered.len() as u64)
    }

    fn leave(&self, slot: &'static str, token: CallbackToken) {
        self.left.lock().expect("no panic while locked").push((slot, token.0));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn query(object: *mut sys::IUnknown, iid: &Guid) -> Result<*mut c_void, HResult> {
    let mut answer = core::ptr::dangling_mut::<c_void>();
    // SAFETY: the test holds a reference to the object; identifier and place are references.
    let code = HResult(unsafe { sys::IUnknown::QueryInterface(object, iid, &mut answer) });
    if code.is_success() {
        return Ok(answer);
    }
    assert!(answer.is_null(), "a refusal must clear the answer");
    Err(code)
}

fn release(object: *mut sys::IUnknown) -> u32 {
    // SAFETY: the test holds the reference that it gives up.
    unsafe { sys::IUnknown::Release(object) }
}

#[test]
fn att_09_every_version_of_the_callback_is_answered_with_the_same_object() {
    let object = CallbackObject::create(Recorder::default());
    for (iid, _) in CALLBACK_IIDS.iter().chain(&[(sys::IID_IUnknown, 0)]) {
        holds!(ATT_09 rem, query(object, iid) == Ok(object.cast()), "{iid}");
        assert_eq!(release(object), 1);
    }
    for other in [sys::IID_ICorProfilerInfo, sys::IID_IClassFactory, Guid::from_u128(0)] {
        assert_eq!(query(object, &other), Err(HResult::E_NOINTERFACE));
    }
    assert_eq!(release(object), 0);
}

#[test]
fn bad_pointers_are_answered_not_followed() {
    let object = CallbackObject::create(Recorder::default());
    let null = core::ptr::null_mut();
    // SAFETY: the test made `object`, which checks for null.
    let answer = unsafe { sys::IUnknown::QueryInterface(object, &sys::IID_IUnknown, null) };
    assert_eq!(HResult(answer), HResult::E_POINTER);
    let mut place = core::ptr::dangling_mut::<c_void>();
    // SAFETY: the test made `object`, which checks for null.
    let answer = unsafe { sys::IUnknown::QueryInterface(object, core::ptr::null(), &mut place) };
    assert_eq!((HResult(answer), place.is_null()), (HResult::E_POINTER, true));
    // SAFETY: the test made `object`, which checks for null.
    let answer = unsafe {
        sys::ICorProfilerCallback3::InitializeForAttach(object.cast(), core::ptr::null_mut(), core::ptr::null(), 0)
    };
    assert_eq!(HResult(answer), HResult::E_POINTER);
    // SAFETY: the test made `object`, which checks for null.
    let answer = unsafe { sys::ICorProfilerCallback11::LoadAsNotificationOnly(object.cast(), core::ptr::null_mut()) };
    assert_eq!(HResult(answer), HResult::E_POINTER);
    assert_eq!(release(object), 0);
}

#[test]
fn det_10_the_last_release_and_no_other_frees_the_profiler() {
    let drops = Arc::new(AtomicU32::new(0));
    let recorder = Recorder { entered: Mutex::default(), left: Mutex::default(), drops: Arc::clone(&drops) };
    let object = CallbackObject::create(recorder) as usize;
    let held = 100;
    for _ in 0..held {
        // SAFETY: the test holds a reference.
        unsafe { sys::IUnknown::AddRef(object as *mut sys::IUnknown) };
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..held / 4 {
                    release(object as *mut sys::IUnknown);
                }
            });
        }
    });
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    assert_eq!(release(object as *mut sys::IUnknown), 0);
    holds!(DET_10 rem, drops.load(Ordering::Relaxed) == 1);
}

#[test]
fn every_slot_reaches_its_own_method_between_enter_and_leave() {
    let fake = FakeInfo::new(15);
    let object = CallbackObject::create(Recorder::default());
    let mut called = Vec::new();
    // SAFETY: the test holds references to both objects.
    unsafe {
        call_every_slot(object, fake.unknown(), |slot, answer| {
            let expected = match slot {
                "Initialize" => HResult::E_NOTIMPL,
                "InitializeForAttach" => HResult::CORPROF_E_PROFILER_NOT_ATTACHABLE,
                _ => HResult::S_OK,
            };
            assert_eq!(answer, expected, "{slot}");
            called.push(slot);
        });
    }
    assert_eq!(called, SLOT_NAMES);
    // SAFETY: the test made `object` with this type, and holds a reference to it.
    let recorder = unsafe { CallbackObject::<Recorder>::profiler(object) };
    assert_eq!(*recorder.entered.lock().expect("no panic while locked"), SLOT_NAMES);
    let left: Vec<(&str, u64)> = SLOT_NAMES.iter().copied().zip(1..).collect();
    assert_eq!(*recorder.left.lock().expect("no panic while locked"), left);
    assert_eq!(release(object), 0);
    assert_eq!(fake.references.load(Ordering::Relaxed), 0);
}

#[test]
fn a_panic_in_any_slot_stays_inside() {
    std::panic::set_hook(Box::new(|_| ()));
    let fake = FakeInfo::new(15);
    let object = CallbackObject::create(Panicking::default());
    // SAFETY: the test holds references to both objects.
    unsafe {
        call_every_slot(object, fake.unknown(), |slot, answer| {
            let is_load = matches!(slot, "Initialize" | "InitializeForAttach");
            assert_eq!(answer, if is_load { HResult::E_FAIL } else { HResult::S_OK }, "{slot}");
        });
    }
    // SAFETY: the test made `object` with this type, and holds a reference to it.
    let panicking = unsafe { CallbackObject::<Panicking>::profiler(object) };
    assert_eq!(*panicking.panics.lock().expect("no panic while locked"), SLOT_NAMES);
    assert_eq!(release(object), 0);
}

/// A panic's payload that panics when it is dropped.
struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        panic!("payload")
    }
}

/// Panics wherever the fence itself calls it, its own end included.
struct Hopeless;

impl ProfilerCallback for Hopeless {
    fn enter(&self, _: &'static str) -> CallbackToken {
        std::panic::panic_any(Trap)
    }

    fn leave(&self, _: &'static str, _: CallbackToken) {
        panic!("leave")
    }

    fn on_panic(&self, _: &'static str) {
        panic!("on_panic")
    }
}

impl Drop for Hopeless {
    fn drop(&mut self) {
        panic!("drop")
    }
}

#[test]
fn a_panic_in_the_bookkeeping_stays_inside_too() {
    std::panic::set_hook(Box::new(|_| ()));
    let fake = FakeInfo::new(15);
    let object = CallbackObject::create(Hopeless);
    let mut calls = 0;
    // SAFETY: the test holds references to both objects.
    unsafe { call_every_slot(object, fake.unknown(), |_, _| calls += 1) };
    assert_eq!(calls, SLOT_NAMES.len());
    assert_eq!(release(object), 0);
}

/// Keeps what it is told.
#[derive(Default)]
struct Listener {
    heard: Mutex<Vec<String>>,
}

impl Listener {
    fn hear(&self, text: String) {
        self.heard.lock().expect("no panic while locked").push(text);
    }
}

impl ProfilerCallback for Listener {
    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        self.hear(format!("{info:?} {client_data:?}"));
        Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION)
    }

    fn thread_name_changed(&self, thread: ThreadId, name: &[u16]) {
        self.hear(format!("{thread:?} {}", buffer::text_of(name)));
    }

    fn moved_references2(&self, old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[usize]) {
        self.hear(format!("{old_starts:?} {new_starts:?} {lengths:?}"));
    }

    fn garbage_collection_started(&self, collected: &[i32], reason: GcReason) {
        self.hear(format!("{collected:?} {reason:?}"));
    }

    fn object_references(&self, _: ObjectId, _: ClassId, references: &[ObjectId]) -> Result<(), HResult> {
        self.hear(format!("{references:?}"));
        Err(HResult::E_ABORT)
    }

    fn assembly_references(&self, path: &[u16], _: *mut sys::ICorProfilerAssemblyReferenceProvider) {
        self.hear(buffer::text_of(path));
    }

    fn load_as_notification_only(&self) -> bool {
        true
    }
}

#[test]
fn att_11_arguments_arrive_as_slices_and_answers_leave_as_codes() {
    let fake = FakeInfo::new(12);
    let object = CallbackObject::create(Listener::default());
    let data = [1u8, 2, 3];
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    let attach = unsafe {
        sys::ICorProfilerCallback3::InitializeForAttach(object.cast(), fake.unknown(), data.as_ptr().cast(), 3)
    };
    assert_eq!(HResult(attach), HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
    let name: Vec<u16> = "Worker".encode_utf16().collect();
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    unsafe { sys::ICorProfilerCallback2::ThreadNameChanged(object.cast(), 9, 6, name.as_ptr()) };
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes; a count without an array is an empty one.
    unsafe { sys::ICorProfilerCallback2::ThreadNameChanged(object.cast(), 9, 6, core::ptr::null()) };
    let (old, new, lengths) = ([10usize, 20], [30usize, 40], [5usize, 6]);
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    unsafe {
        sys::ICorProfilerCallback4::MovedReferences2(object.cast(), 2, old.as_ptr(), new.as_ptr(), lengths.as_ptr())
    };
    let collected = [1, 0];
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    unsafe { sys::ICorProfilerCallback2::GarbageCollectionStarted(object.cast(), 2, collected.as_ptr(), 1) };
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes; a count below zero is an empty array.
    unsafe { sys::ICorProfilerCallback2::GarbageCollectionStarted(object.cast(), -1, collected.as_ptr(), 77) };
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    let walk = unsafe { sys::ICorProfilerCallback::ObjectReferences(object.cast(), 1, 2, 2, old.as_ptr()) };
    assert_eq!(HResult(walk), HResult::E_ABORT);
    let path: Vec<u16> = "/app/a.dll\0beyond".encode_utf16().collect();
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    unsafe { sys::ICorProfilerCallback6::GetAssemblyReferences(object.cast(), path.as_ptr(), core::ptr::null_mut()) };
    let mut notification_only = 0;
    // SAFETY: the test owns the objects, and arrays of the lengths that it passes.
    unsafe { sys::ICorProfilerCallback11::LoadAsNotificationOnly(object.cast(), &mut notification_only) };
    assert_eq!(notification_only, 1);
    // SAFETY: the test made `object` with this type, and holds a reference to it.
    let heard = unsafe { CallbackObject::<Listener>::profiler(object) }.heard.lock().expect("unlocked").clone();
    holds!(ATT_11 rem, heard == [
        "Info<attached>(ICorProfilerInfo12) [1, 2, 3]",
        "ThreadId(9) Worker",
        "ThreadId(9) ",
        "[ObjectId(10), ObjectId(20)] [ObjectId(30), ObjectId(40)] [5, 6]",
        "[1, 0] GcReason(1)",
        "[] GcReason(77)",
        "[ObjectId(10), ObjectId(20)]",
        "/app/a.dll",
    ]);
    assert_eq!(release(object), 0);
}
