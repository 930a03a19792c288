//! Profilers that refuse their attach while one of their threads still runs, and correct ones.

use crate::fault::{Fault, fault};
use crate::own_thread::hold_library_until_thread_ends;
use crate::shared::never_return;
use corprof::HResult;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Time between two rounds of the thread, microseconds.
const ROUND: u32 = 50;

static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static ENDS: AtomicBool = AtomicBool::new(false);
static THREAD: AtomicU64 = AtomicU64::new(0);
/// What the thread counts in.
static COUNTER: AtomicPtr<u32> = AtomicPtr::new(null_mut());

/// Starts the thread, waits until it runs, and returns the code of the refusal.
pub fn refuse() -> HResult {
    COUNTER.store(Box::into_raw(Box::new(0)), Ordering::SeqCst);
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) };
    THREAD.store(thread, Ordering::SeqCst);
    while !HAS_BEGUN.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    if fault() == Fault::JoinsBeforeRefusal {
        join();
    }
    HResult::E_FAIL
}

/// The library's destructor.
pub fn unloaded() {
    if !HAS_BEGUN.load(Ordering::SeqCst) {
        return;
    }
    match fault() {
        Fault::JoinsAtUnload => join(),
        Fault::RefusesAndFrees => free(),
        _ => {}
    }
}

/// Takes away what the thread uses, and gives it time for that.
pub fn free() {
    COUNTER.store(null_mut(), Ordering::SeqCst);
    // SAFETY: takes no pointers.
    unsafe { libc::usleep(ROUND * 100) };
}

fn join() {
    ENDS.store(true, Ordering::SeqCst);
    // SAFETY: the thread was created, and nobody else joins or detaches it.
    unsafe { libc::pthread_join(THREAD.load(Ordering::SeqCst), null_mut()) };
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    if fault() == Fault::RefusesWithHolder {
        hold_library_until_thread_ends();
    }
    HAS_BEGUN.store(true, Ordering::SeqCst);
    if fault() == Fault::RefusesWithSleeper {
        never_return();
    }
    while !ENDS.load(Ordering::SeqCst) {
        // SAFETY: until the destructor has removed it, the counter is valid, and only this thread uses it. Its later use is a fault.
        unsafe { COUNTER.load(Ordering::SeqCst).write_volatile(1) };
        // SAFETY: takes no pointers.
        unsafe { libc::usleep(ROUND) };
    }
    null_mut()
}
