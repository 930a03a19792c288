//! The profiler's own thread, which requests the detach: with a reference on the library, as required, or without.

use crate::fault::{Fault, fault};
use crate::shared::Shared;
use corprof::sys;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The expected duration of callbacks, milliseconds.
const EXPECTED: u32 = 1;

/// Time between two checks whether the attach is complete, microseconds.
const PAUSE: u32 = 100;

/// Later than the laboratory waits by default, microseconds.
const LATE: u32 = 1_500_000;

/// The number of checks after which an impatient profiler stops waiting.
const LONGEST_TURNS: u32 = 20;

/// What the object of [`Fault::UsesObjectAfterDetach`] owns: null when it is gone.
pub static MEMBER: AtomicPtr<u8> = AtomicPtr::new(VALUE.as_ptr().cast_mut());
static VALUE: [u8; 1] = [1];

/// Starts it. Nobody joins it: it makes the last call into the runtime.
pub fn start(shared: &Arc<Shared>) {
    let mut thread: libc::pthread_t = 0;
    let argument = Arc::into_raw(shared.clone()).cast_mut().cast();
    // SAFETY: `thread` is valid for writing, the attributes are the default, `run` has the required signature, and takes over the
    // reference in `argument`.
    if unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument) } == 0 {
        // SAFETY: the thread was just created, and nobody joins it.
        unsafe { libc::pthread_detach(thread) };
    }
}

extern "C" fn run(shared: *mut c_void) -> *mut c_void {
    // SAFETY: `start` created this pointer by `Arc::into_raw`, and passed its reference on.
    let shared = unsafe { Arc::from_raw(shared.cast_const().cast::<Shared>()) };
    if fault() != Fault::AsksWithoutReference {
        hold_library_until_thread_ends();
    }
    let mut turns = 0;
    while !shared.completed.load(Ordering::SeqCst) && (fault() != Fault::DetachesUnheard || turns < LONGEST_TURNS) {
        // SAFETY: takes no pointers.
        unsafe { libc::usleep(PAUSE) };
        turns += 1;
    }
    if fault() == Fault::DetachesLate {
        // SAFETY: takes no pointers.
        unsafe { libc::usleep(LATE) };
    }
    let info = shared.info();
    drop(shared);
    ask(info);
    if fault() == Fault::CallsAfterSealing {
        let mut mask = 0;
        // SAFETY: unsound in a real process: Info may be freed, which is the fault.
        unsafe { sys::ICorProfilerInfo::GetEventMask(info, &mut mask) };
    }
    if fault() == Fault::UsesObjectAfterDetach {
        use_member();
    }
    std::ptr::null_mut()
}

/// Reads what the object owns until its destructor has taken that away.
fn use_member() {
    loop {
        // SAFETY: none once the destructor has run: that read is the fault.
        unsafe { MEMBER.load(Ordering::SeqCst).read_volatile() };
    }
}

/// Requests the detach.
pub fn ask(info: *mut sys::ICorProfilerInfo) {
    // SAFETY: the runtime keeps Info valid until it accepts this request.
    unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(info.cast(), EXPECTED) };
}

/// Takes a reference on this library that nobody releases.
pub fn pin_library() -> *mut c_void {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is inside this library, and `own` is valid for writing.
    unsafe { libc::dladdr(run as *const () as *const _, &raw mut own) };
    // SAFETY: the linker's name of this library is a C string; NOLOAD loads nothing.
    unsafe { libc::dlopen(own.dli_fname.cast::<c_char>(), libc::RTLD_NOW | libc::RTLD_NOLOAD) }
}

/// Takes a reference on this library for the running thread.
/// The C library releases it after the thread's last frame in this library.
pub fn hold_library_until_thread_ends() {
    type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(close: Close, handle: *mut c_void, of: *mut c_void) -> c_int;
    }
    let handle = pin_library();
    // SAFETY: the name is a C string.
    let close = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlclose".as_ptr()) };
    // SAFETY: `dlclose` has this signature.
    let function: Close = unsafe { std::mem::transmute(close) };
    // SAFETY: closes the handle once. The last argument is an address in the C library, so it does not pin this library.
    unsafe { __cxa_thread_atexit_impl(function, handle, close) };
}
