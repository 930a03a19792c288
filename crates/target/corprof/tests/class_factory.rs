//! The class factory: what it makes, what it refuses, and that a refused attach finds nothing set in motion.

use core::ffi::c_void;
use corprof::*;
use remora_holds::holds;
use std::cell::Cell;

thread_local! {
    static MADE: Cell<u32> = const { Cell::new(0) };
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

struct Quiet;

impl ProfilerCallback for Quiet {}

impl Drop for Quiet {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

const CLASS: Guid = Guid::from_u128(0x1234);
const PANICS: Guid = Guid::from_u128(0x5678);

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    assert_ne!(*class, PANICS);
    (*class == CLASS).then(|| {
        MADE.set(MADE.get() + 1);
        CallbackObject::create(Quiet)
    })
}

fn factory(class: &Guid) -> *mut sys::IClassFactory {
    let mut factory = core::ptr::null_mut::<c_void>();
    // SAFETY: two identifiers and a place for the answer.
    let answer = unsafe { dll_get_class_object(class, &sys::IID_IClassFactory, &mut factory, make) };
    assert_eq!(HResult(answer), HResult::S_OK);
    factory.cast()
}

fn create(factory: *mut sys::IClassFactory, outer: *mut sys::IUnknown, iid: &Guid) -> (HResult, *mut sys::IUnknown) {
    let mut object = core::ptr::dangling_mut::<c_void>();
    // SAFETY: a live factory, an identifier and a place for the answer.
    let answer = unsafe { sys::IClassFactory::CreateInstance(factory, outer, iid, &mut object) };
    (HResult(answer), object.cast())
}

#[test]
fn att_20_the_factory_makes_the_object_when_the_runtime_asks_for_it_and_not_before() {
    let factory = factory(&CLASS);
    holds!(ATT_20 rem, MADE.get() == 0);
    let (answer, object) = create(factory, core::ptr::null_mut(), &sys::IID_ICorProfilerCallback2);
    holds!(ATT_20 rem, (answer, MADE.get(), DROPPED.get()) == (HResult::S_OK, 1, 0));
    // SAFETY: a live factory, whose one reference is given up.
    assert_eq!(unsafe { sys::IUnknown::Release(factory.cast()) }, 0);
    // SAFETY: a live object, whose one reference is given up.
    assert_eq!(unsafe { sys::IUnknown::Release(object) }, 0);
    assert_eq!(DROPPED.get(), 1);
}

#[test]
fn what_cannot_be_made_is_refused_with_a_reason_and_leaves_nothing() {
    let known = factory(&CLASS);
    let (answer, object) = create(known, core::ptr::null_mut(), &sys::IID_ICorProfilerInfo);
    assert_eq!((answer, object.is_null(), MADE.get(), DROPPED.get()), (HResult::E_NOINTERFACE, true, 1, 1));
    let (answer, object) = create(known, known.cast(), &sys::IID_IUnknown);
    assert_eq!((answer, object.is_null(), MADE.get()), (HResult::CLASS_E_NOAGGREGATION, true, 1));
    let unknown = factory(&Guid::from_u128(0x9999));
    let (answer, object) = create(unknown, core::ptr::null_mut(), &sys::IID_IUnknown);
    assert_eq!((answer, object.is_null()), (HResult::CLASS_E_CLASSNOTAVAILABLE, true));
    std::panic::set_hook(Box::new(|_| ()));
    let panics = factory(&PANICS);
    let (answer, object) = create(panics, core::ptr::null_mut(), &sys::IID_IUnknown);
    assert_eq!((answer, object.is_null()), (HResult::E_FAIL, true));
    for factory in [known, unknown, panics] {
        // SAFETY: a live factory, whose one reference is given up.
        assert_eq!(unsafe { sys::IUnknown::Release(factory.cast()) }, 0);
    }
}

#[test]
fn the_export_checks_its_pointers_and_its_interface() {
    let mut place = core::ptr::dangling_mut::<c_void>();
    let null = core::ptr::null();
    // SAFETY: null is the point of the test.
    let answers = unsafe {
        [
            dll_get_class_object(null, &sys::IID_IClassFactory, &mut place, make),
            dll_get_class_object(&CLASS, null, &mut place, make),
            dll_get_class_object(&CLASS, &sys::IID_IClassFactory, core::ptr::null_mut(), make),
        ]
    };
    assert_eq!(answers.map(HResult), [HResult::E_POINTER; 3]);
    // SAFETY: two identifiers and a place for the answer.
    let answer = unsafe { dll_get_class_object(&CLASS, &sys::IID_ICorProfilerCallback2, &mut place, make) };
    assert_eq!((HResult(answer), place.is_null()), (HResult::E_NOINTERFACE, true));
}
