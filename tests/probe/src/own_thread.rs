//! A thread of the probe's own, which holds its own reference on the library and gives it back when no code of the library runs on it.

use crate::profiler::Shared;
use crate::seat::Seat;
use corprof::HResult;
use std::ffi::c_void;
use std::sync::Arc;

/// Starts one. It takes a seat called `Thread`, and ends when it is told to return.
pub fn start(shared: &Arc<Shared>) -> HResult {
    start_with(shared, run)
}

/// Starts one that holds no reference, as no profiler should; its seat is called `Bare`.
pub fn start_without_reference(shared: &Arc<Shared>) -> HResult {
    start_with(shared, run_bare)
}

fn start_with(shared: &Arc<Shared>, run: extern "C" fn(*mut c_void) -> *mut c_void) -> HResult {
    let argument = Arc::into_raw(Arc::clone(shared)).cast_mut().cast::<c_void>();
    // Signals meant for the target's own threads must not be taken here.
    let before = block_all();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is live, the attributes are the usual ones, and `run` has the signature that is wanted.
    let failed = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument) } != 0;
    // SAFETY: puts back the mask that was there a moment ago.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if failed {
        // SAFETY: the thread that would have taken it does not exist.
        drop(unsafe { Arc::from_raw(argument.cast::<Shared>()) });
        return HResult::E_FAIL;
    }
    // SAFETY: a thread that was just made, and that nobody joins.
    unsafe { libc::pthread_detach(thread) };
    HResult::S_OK
}

/// The calling thread's id, as the kernel has it.
pub fn this_thread() -> i64 {
    // SAFETY: takes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` handed over this very reference.
    let shared = unsafe { Arc::from_raw(argument.cast_const().cast::<Shared>()) };
    // First of all, since destructors of a thread run last to first: the library goes after everything else of it.
    if hold_library_until_thread_ends() {
        Seat::take(&shared, "Thread", &[]).prompt();
    }
    drop(shared);
    std::ptr::null_mut()
}

extern "C" fn run_bare(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start_without_reference` handed over this very reference.
    let shared = unsafe { Arc::from_raw(argument.cast_const().cast::<Shared>()) };
    Seat::take(&shared, "Bare", &[]).prompt();
    drop(shared);
    std::ptr::null_mut()
}

/// Takes a reference on this library, which the C library gives back after the thread's last frame of ours.
fn hold_library_until_thread_ends() -> bool {
    type AtExit = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> i32, *mut c_void, *mut c_void) -> i32;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address inside this library, and a place for the answer.
    if unsafe { libc::dladdr(run as *const c_void, &raw mut own) } == 0 {
        return false;
    }
    // SAFETY: a name that the linker has given; with NOLOAD nothing is loaded.
    let handle = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: looks up a name.
    let at_exit = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
    // SAFETY: as above.
    let close = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlclose".as_ptr()) };
    if handle.is_null() || at_exit.is_null() || close.is_null() {
        return false;
    }
    // SAFETY: the C library's function of that name has this signature.
    let at_exit: AtExit = unsafe { std::mem::transmute(at_exit) };
    // SAFETY: `dlclose` has this signature.
    let close_function: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { std::mem::transmute(close) };
    // SAFETY: closes the handle once, at the thread's end; the last argument lies in the C library, so this one is not pinned.
    unsafe { at_exit(close_function, handle, close) == 0 }
}

fn block_all() -> libc::sigset_t {
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: a live set.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: two live sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}
