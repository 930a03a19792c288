//! A thread of the profiler's own that asks for the detach: with a reference on the library, as it should, or without.

use crate::fault::{Fault, fault};
use crate::shared::Shared;
use corprof::sys;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is expected of the callbacks, milliseconds.
const EXPECTED: u32 = 1;

/// Between two looks whether the attach is complete, microseconds.
const PAUSE: u32 = 100;

/// So many of these is it waited for by who does not wait for it to the end.
const LONGEST_TURNS: u32 = 20;

/// Starts it. Nobody joins it: it is the last one that asks.
pub fn start(shared: &Arc<Shared>) {
    let mut thread: libc::pthread_t = 0;
    let argument = Arc::into_raw(shared.clone()).cast_mut().cast();
    // SAFETY: a live place, the usual attributes, a function of that signature, which takes over the reference.
    if unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument) } == 0 {
        // SAFETY: a thread that was just made.
        unsafe { libc::pthread_detach(thread) };
    }
}

extern "C" fn run(shared: *mut c_void) -> *mut c_void {
    // SAFETY: the reference that `start` has handed over.
    let shared = unsafe { Arc::from_raw(shared.cast_const().cast::<Shared>()) };
    if fault() != Fault::AsksWithoutReference {
        hold_library_until_thread_ends();
    }
    let mut turns = 0;
    while !shared.completed.load(Ordering::SeqCst) && (fault() != Fault::DetachesUnheard || turns < LONGEST_TURNS) {
        // SAFETY: takes a number.
        unsafe { libc::usleep(PAUSE) };
        turns += 1;
    }
    let info = shared.info();
    drop(shared);
    ask(info);
    if fault() == Fault::CallsAfterSealing {
        let mut mask = 0;
        // SAFETY: not at all in a real process: Info may be gone, which is the fault.
        unsafe { sys::ICorProfilerInfo::GetEventMask(info, &mut mask) };
    }
    std::ptr::null_mut()
}

/// Asks for the detach.
pub fn ask(info: *mut sys::ICorProfilerInfo) {
    // SAFETY: the runtime's object, alive until this is accepted.
    unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(info.cast(), EXPECTED) };
}

/// Takes a reference on this library that nobody gives back.
pub fn pin_library() -> *mut c_void {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address inside this library, and a place for the answer.
    unsafe { libc::dladdr(run as *const () as *const _, &raw mut own) };
    // SAFETY: the name that the linker has given.
    unsafe { libc::dlopen(own.dli_fname.cast::<c_char>(), libc::RTLD_NOW | libc::RTLD_NOLOAD) }
}

/// The C library gives the reference back after the thread's last frame of ours.
fn hold_library_until_thread_ends() {
    type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(close: Close, handle: *mut c_void, of: *mut c_void) -> c_int;
    }
    let handle = pin_library();
    // SAFETY: looks up a name.
    let close = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlclose".as_ptr()) };
    // SAFETY: `dlclose` has this signature.
    let function: Close = unsafe { std::mem::transmute(close) };
    // SAFETY: closes the handle once; the last argument lies in the C library, so that this library is not pinned by it.
    unsafe { __cxa_thread_atexit_impl(function, handle, close) };
}
