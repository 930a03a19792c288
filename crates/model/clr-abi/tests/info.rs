//! Info as a profiler sees it: through `corprof`, and slot by slot.

mod support;

use core::any::Any;
use corprof::{Alive, Attached, HResult, Info, ModuleId, sys};
use remora_clr_abi::enumerators::{Modules, enumerator};
use remora_clr_abi::info::args;
use remora_clr_abi::{Answer, INFO_SLOTS, InfoObject, InfoServer, Live, Slot, info};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::generated::call_every_info_slot;
use support::{Event, Noted};

/// A runtime with modules, which accepts a detach.
struct Runtime {
    version: u8,
    refuses: Option<(Slot, HResult)>,
    modules: Vec<usize>,
    live: Live,
    waited: AtomicU32,
    references: Mutex<Vec<&'static str>>,
}

impl Runtime {
    fn of_version(version: u8) -> Runtime {
        let (live, waited, references) = (Live::default(), AtomicU32::new(0), Mutex::default());
        Runtime { version, refuses: None, modules: (1..=150).collect(), live, waited, references }
    }
}

impl InfoServer for Runtime {
    fn enter(&self, slot: Slot) -> Result<(), HResult> {
        match self.refuses {
            Some((refused, code)) if refused == slot => Err(code),
            _ => Ok(()),
        }
    }

    fn panicked(&self, slot: Slot, _payload: Box<dyn Any + Send>) {
        unreachable!("nothing here panics, not even {}", slot.name)
    }

    fn unknown(&self, slot: Slot) {
        self.references.lock().expect("no panic while locked").push(slot.name);
    }

    fn version(&self) -> u8 {
        self.version
    }

    unsafe fn request_profiler_detach(&self, args: args::RequestProfilerDetach) -> Answer {
        self.waited.store(args.dwExpectedCompletionMilliseconds, Ordering::Relaxed);
        Ok(HResult::S_OK)
    }

    unsafe fn enum_modules(&self, args: args::EnumModules) -> Answer {
        // SAFETY: the test's profiler gives a place for the answer.
        unsafe { args.ppEnum.write(enumerator::<Modules>(self.modules.clone(), &self.live)) };
        Ok(HResult::S_OK)
    }
}

fn profilers_side(object: &InfoObject<Runtime>) -> Info<Attached, Alive> {
    // SAFETY: the tests keep the object alive, and make one wrapper for each.
    unsafe { Info::from_unknown(object.as_unknown()) }.expect("it has an Info")
}

#[test]
fn the_request_to_detach_reaches_the_runtime_with_its_milliseconds() {
    let object = InfoObject::create(Runtime::of_version(15));
    let sealed = profilers_side(&object).request_profiler_detach(Duration::from_millis(1234));
    assert!(sealed.is_ok());
    assert_eq!(object.server().waited.load(Ordering::Relaxed), 1234);
}

#[test]
fn a_refusal_at_the_door_is_the_answer_and_the_method_is_not_called() {
    let code = HResult::CORPROF_E_PROFILER_DETACHING;
    let refuses = Some((info::slot::REQUEST_PROFILER_DETACH, code));
    let object = InfoObject::create(Runtime { refuses, ..Runtime::of_version(15) });
    let refused = profilers_side(&object).request_profiler_detach(Duration::from_millis(5)).expect_err("refused");
    assert_eq!(refused.code, code);
    assert_eq!(object.server().waited.load(Ordering::Relaxed), 0);
    assert!(refused.info.enum_modules().is_ok(), "no other slot is refused");
}

#[test]
fn modules_go_round_and_the_enumerator_is_missed_until_it_is_released() {
    let object = InfoObject::create(Runtime::of_version(15));
    let profiler = profilers_side(&object);
    let modules = profiler.enum_modules().expect("served");
    assert_eq!(modules.total(), Ok(150));
    assert_eq!(object.server().live.count(), 1);
    let seen: Vec<ModuleId> = modules.map(|one| one.expect("no error")).collect();
    assert_eq!(seen, (1..=150).map(ModuleId).collect::<Vec<_>>());
    assert_eq!(object.server().live.count(), 0);
}

#[test]
fn a_runtime_answers_to_its_version_and_to_no_later_one() {
    for newest in 1..=15 {
        let object = InfoObject::create(Runtime::of_version(newest));
        assert_eq!(profilers_side(&object).version(), newest);
    }
    let object = InfoObject::create(Runtime::of_version(13));
    for (iid, answer) in [
        (sys::IID_IUnknown, HResult::S_OK),
        (sys::IID_ICorProfilerInfo, HResult::S_OK),
        (sys::IID_ICorProfilerInfo13, HResult::S_OK),
        (sys::IID_ICorProfilerInfo14, HResult::E_NOINTERFACE),
        (sys::IID_ICorProfilerCallback, HResult::E_NOINTERFACE),
    ] {
        let mut place = core::ptr::dangling_mut();
        // SAFETY: a live object, an identifier and a place for the answer.
        let code = HResult(unsafe { sys::IUnknown::QueryInterface(object.as_unknown(), &iid, &mut place) });
        assert_eq!((code, place.is_null()), (answer, answer != HResult::S_OK), "{iid}");
    }
}

#[test]
fn references_are_reported_and_not_counted() {
    let object = InfoObject::create(Runtime::of_version(15));
    let unknown = object.as_unknown();
    for _ in 0..3 {
        // SAFETY: a live object.
        assert_eq!(unsafe { sys::IUnknown::AddRef(unknown) }, 1);
        // SAFETY: a live object: references do not free it.
        assert_eq!(unsafe { sys::IUnknown::Release(unknown) }, 1);
    }
    let reported = object.server().references.lock().expect("no panic while locked").clone();
    assert_eq!(reported, ["AddRef", "Release"].repeat(3));
}

#[test]
fn bad_pointers_are_answered_not_followed() {
    let object = InfoObject::create(Runtime::of_version(15));
    // SAFETY: a live object; null is allowed, and this test passes it.
    let code = unsafe { sys::IUnknown::QueryInterface(object.as_unknown(), &sys::IID_IUnknown, core::ptr::null_mut()) };
    assert_eq!(HResult(code), HResult::E_POINTER);
    let mut place = core::ptr::dangling_mut();
    // SAFETY: a live object; null is allowed, and this test passes it.
    let code = unsafe { sys::IUnknown::QueryInterface(object.as_unknown(), core::ptr::null(), &mut place) };
    assert_eq!((HResult(code), place.is_null()), (HResult::E_POINTER, true));
}

#[test]
fn every_slot_reaches_its_own_method_between_enter_and_leave() {
    let object = InfoObject::create(Noted::of_version(15));
    let mut called = Vec::new();
    // SAFETY: a live object of the newest version.
    unsafe {
        call_every_info_slot(object.as_unknown(), |slot, answer| {
            let expected = [Event::Entered(slot), Event::Called(slot), Event::Left(slot, HResult::S_FALSE)];
            assert_eq!((answer, object.server().events()), (HResult::S_FALSE, expected.to_vec()));
            called.push(slot);
        });
    }
    assert_eq!(called, INFO_SLOTS.iter().map(|slot| slot.name).collect::<Vec<_>>());
}

#[test]
fn the_slots_are_numbered_as_the_interfaces_are() {
    let interfaces = sys::INTERFACES.iter().filter(|one| one.name.starts_with("ICorProfilerInfo"));
    let mut slots = INFO_SLOTS.iter();
    for (one, version) in interfaces.zip(1..) {
        for index in one.first..=one.last {
            let slot = slots.next().expect("a slot for each of the interface's");
            assert_eq!((slot.index, slot.version), (index, version), "{}", slot.name);
        }
    }
    assert_eq!(slots.next(), None);
}

#[test]
fn a_panic_of_the_runtime_crosses_nothing_and_is_handed_over() {
    let object = InfoObject::create(Noted { panics: Some("ForceGC"), ..Noted::of_version(15) });
    // SAFETY: a live object.
    let code = unsafe { sys::ICorProfilerInfo::ForceGC(object.as_unknown().cast()) };
    assert_eq!(HResult(code), HResult::E_UNEXPECTED);
    let expected =
        [Event::Entered("ForceGC"), Event::Called("ForceGC"), Event::Panicked("ForceGC", "ForceGC".to_owned())];
    assert_eq!(object.server().events(), expected);
}

#[test]
fn a_refused_slot_is_left_with_its_refusal() {
    let refused = Some(("ForceGC", HResult::E_ABORT));
    let object = InfoObject::create(Noted { refused, ..Noted::of_version(15) });
    // SAFETY: a live object.
    let code = unsafe { sys::ICorProfilerInfo::ForceGC(object.as_unknown().cast()) };
    assert_eq!(HResult(code), HResult::E_ABORT);
    assert_eq!(object.server().events(), [Event::Entered("ForceGC"), Event::Left("ForceGC", HResult::E_ABORT)]);
}
