//! The enumerators, call by call, compared with CoreCLR.

use core::ffi::c_void;
use corprof::{Guid, HResult, sys};
use remora_clr_abi::Live;
use remora_clr_abi::enumerators::{Functions, Kind, Methods, Modules, Objects, Threads, enumerator};

/// Fetches up to `count` modules.
fn next(list: *mut sys::ICorProfilerModuleEnum, count: u32) -> (HResult, Vec<usize>) {
    let mut items = vec![0; count as usize];
    let mut fetched = u32::MAX;
    // SAFETY: a live enumerator, room for that many, and a place for the answer.
    let code = unsafe { sys::ICorProfilerModuleEnum::Next(list, count, items.as_mut_ptr(), &mut fetched) };
    items.truncate(fetched as usize);
    (HResult(code), items)
}

fn left(list: *mut sys::ICorProfilerModuleEnum) -> u32 {
    let mut count = u32::MAX;
    // SAFETY: a live enumerator, and a place for the answer.
    assert_eq!(unsafe { sys::ICorProfilerModuleEnum::GetCount(list, &mut count) }, 0);
    count
}

fn skip(list: *mut sys::ICorProfilerModuleEnum, count: u32) -> HResult {
    // SAFETY: a live enumerator.
    HResult(unsafe { sys::ICorProfilerModuleEnum::Skip(list, count) })
}

fn release<I>(object: *mut I) -> u32 {
    // SAFETY: the test holds the reference that this releases.
    unsafe { sys::IUnknown::Release(object.cast()) }
}

#[test]
fn items_come_in_order_and_the_end_is_s_false() {
    let live = Live::default();
    let list = enumerator::<Modules>(vec![10, 20, 30, 40, 50], &live);
    assert_eq!(left(list), 5);
    assert_eq!(next(list, 2), (HResult::S_OK, vec![10, 20]));
    assert_eq!(left(list), 3);
    assert_eq!(skip(list, 1), HResult::S_OK);
    assert_eq!(next(list, 0), (HResult::S_OK, vec![]));
    assert_eq!(next(list, 3), (HResult::S_FALSE, vec![40, 50]));
    assert_eq!(next(list, 1), (HResult::S_FALSE, vec![]));
    assert_eq!(skip(list, 1), HResult::S_FALSE);
    // SAFETY: a live enumerator.
    assert_eq!(unsafe { sys::ICorProfilerModuleEnum::Reset(list) }, 0);
    assert_eq!(next(list, 5), (HResult::S_OK, vec![10, 20, 30, 40, 50]));
    assert_eq!((release(list), live.count()), (0, 0));
}

#[test]
fn a_clone_begins_at_the_start_and_is_counted() {
    let live = Live::default();
    let list = enumerator::<Modules>(vec![1, 2], &live);
    assert_eq!(next(list, 1), (HResult::S_OK, vec![1]));
    let mut copy = core::ptr::null_mut();
    // SAFETY: a live enumerator, and a place for the answer.
    assert_eq!(unsafe { sys::ICorProfilerModuleEnum::Clone(list, &mut copy) }, 0);
    assert_eq!(live.count(), 2);
    assert_eq!(release(list), 0);
    assert_eq!(live.count(), 1, "the copy was not released");
    assert_eq!(next(copy, 2), (HResult::S_OK, vec![1, 2]));
    assert_eq!((release(copy), live.count()), (0, 0));
}

#[test]
fn bad_pointers_are_invalid_arguments() {
    let list = enumerator::<Modules>(vec![1, 2], &Live::default());
    let (mut item, null) = (0, core::ptr::null_mut());
    // SAFETY: a live enumerator; null is allowed, and this test passes it.
    let code = unsafe { sys::ICorProfilerModuleEnum::Next(list, 2, &mut item, null) };
    assert_eq!(HResult(code), HResult::E_INVALIDARG);
    // SAFETY: a live enumerator; null is allowed, and this test passes it.
    let code = unsafe { sys::ICorProfilerModuleEnum::Next(list, 1, core::ptr::null_mut(), null) };
    assert_eq!(HResult(code), HResult::E_INVALIDARG);
    // SAFETY: a live enumerator; null is allowed, and this test passes it.
    assert_eq!(HResult(unsafe { sys::ICorProfilerModuleEnum::GetCount(list, null) }), HResult::E_INVALIDARG);
    // SAFETY: a live enumerator; null is allowed, and this test passes it.
    let code = unsafe { sys::ICorProfilerModuleEnum::Clone(list, core::ptr::null_mut()) };
    assert_eq!(HResult(code), HResult::E_INVALIDARG);
    // SAFETY: a live enumerator; the count may be null for one item.
    let code = unsafe { sys::ICorProfilerModuleEnum::Next(list, 1, &mut item, null) };
    assert_eq!((HResult(code), item), (HResult::S_OK, 1));
    assert_eq!(release(list), 0);
}

/// Asks an enumerator of a kind for its own interface and for others.
fn answers_to_itself<K: Kind>(items: Vec<K::Item>, others: &[Guid]) {
    let live = Live::default();
    let list: *mut sys::IUnknown = enumerator::<K>(items, &live).cast();
    for iid in [K::IID, sys::IID_IUnknown] {
        let mut answer = core::ptr::null_mut::<c_void>();
        // SAFETY: a live object, an identifier and a place for the answer.
        assert_eq!(unsafe { sys::IUnknown::QueryInterface(list, &iid, &mut answer) }, 0);
        assert_eq!((answer, release(list)), (list.cast(), 1));
    }
    for iid in others.iter().filter(|iid| **iid != K::IID) {
        let mut answer = core::ptr::dangling_mut::<c_void>();
        // SAFETY: a live object, an identifier and a place for the answer.
        let code = unsafe { sys::IUnknown::QueryInterface(list, iid, &mut answer) };
        assert_eq!((HResult(code), answer.is_null()), (HResult::E_NOINTERFACE, true));
    }
    assert_eq!((release(list), live.count()), (0, 0));
}

#[test]
fn each_kind_answers_to_its_own_interface_alone() {
    let all = [Modules::IID, Threads::IID, Objects::IID, Functions::IID, Methods::IID];
    answers_to_itself::<Modules>(vec![1], &all);
    answers_to_itself::<Threads>(vec![1], &all);
    answers_to_itself::<Objects>(vec![1], &all);
    answers_to_itself::<Functions>(vec![sys::COR_PRF_FUNCTION { functionId: 1, reJitId: 0 }], &all);
    answers_to_itself::<Methods>(vec![sys::COR_PRF_METHOD { moduleId: 1, methodId: 2 }], &all);
}

#[test]
fn methods_arrive_whole() {
    let methods = (1..=3).map(|one| sys::COR_PRF_METHOD { moduleId: one, methodId: 0x0600_0000 + one as u32 });
    let list = enumerator::<Methods>(methods.collect(), &Live::default());
    let mut items = [sys::COR_PRF_METHOD { moduleId: 0, methodId: 0 }; 4];
    let mut fetched = 0;
    // SAFETY: a live enumerator, room for four, and a place for the answer.
    let code = unsafe { sys::ICorProfilerMethodEnum::Next(list, 4, items.as_mut_ptr(), &mut fetched) };
    assert_eq!((HResult(code), fetched), (HResult::S_FALSE, 3));
    let seen = items.map(|one| (one.moduleId, one.methodId));
    assert_eq!(seen, [(1, 0x0600_0001), (2, 0x0600_0002), (3, 0x0600_0003), (0, 0)]);
    assert_eq!(release(list), 0);
}
