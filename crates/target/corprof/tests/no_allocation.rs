//! On the runtime's threads, a callback that does not panic allocates nothing on its way in and out.

mod support;

use corprof::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::FakeInfo;
use support::generated::call_every_slot;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator; the counter has no destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller guarantees what `GlobalAlloc` demands.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `GlobalAlloc` demands.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Quiet;

impl ProfilerCallback for Quiet {
    fn initialize_for_attach(&self, _: Info<Attached, Alive>, _: &[u8]) -> Result<(), HResult> {
        Ok(())
    }
}

#[test]
fn no_slot_allocates() {
    let fake = FakeInfo::new(15);
    let object = CallbackObject::create(Quiet);
    let before = ALLOCATIONS.get();
    let mut calls = 0;
    // SAFETY: the test holds references to both objects.
    unsafe { call_every_slot(object, fake.unknown(), |_, _| calls += 1) };
    assert_eq!((calls, ALLOCATIONS.get() - before), (SLOT_NAMES.len(), 0));
    drop(vec![1u8]);
    assert_eq!(ALLOCATIONS.get() - before, 1, "the counter counts");
    // SAFETY: gives up the test's reference.
    assert_eq!(unsafe { sys::IUnknown::Release(object) }, 0);
}
