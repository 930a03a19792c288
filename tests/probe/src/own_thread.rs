//! The probe's own thread, with its own reference on the library, released when no code of the library runs on it.

use crate::shared::Shared;
use corprof::HResult;
use std::ffi::c_void;
use std::sync::Arc;

/// What a thread does, with the state that it keeps alive.
struct Work {
    shared: Arc<Shared>,
    work: fn(&Arc<Shared>),
}

/// Starts one. It ends when `work` returns.
pub fn start(shared: &Arc<Shared>, work: fn(&Arc<Shared>)) -> HResult {
    start_with(shared, work, run)
}

/// Starts one without a reference, which no profiler should do.
pub fn start_without_reference(shared: &Arc<Shared>, work: fn(&Arc<Shared>)) -> HResult {
    start_with(shared, work, run_bare)
}

fn start_with(shared: &Arc<Shared>, work: fn(&Arc<Shared>), run: extern "C" fn(*mut c_void) -> *mut c_void) -> HResult {
    let argument = Box::into_raw(Box::new(Work { shared: Arc::clone(shared), work })).cast::<c_void>();
    // This thread must not take signals for the target's own threads.
    let before = block_all();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    let failed = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument) } != 0;
    // SAFETY: `before` is the mask that `block_all` has just read.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if failed {
        // SAFETY: the thread does not exist, so nobody else frees this box.
        drop(unsafe { Box::from_raw(argument.cast::<Work>()) });
        return HResult::E_FAIL;
    }
    // SAFETY: the thread was just created, and nobody joins it.
    unsafe { libc::pthread_detach(thread) };
    HResult::S_OK
}

/// The calling thread's kernel id.
pub fn this_thread() -> i64 {
    // SAFETY: takes no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start_with` created this pointer by `Box::into_raw`, and passed the box on.
    let Work { shared, work } = *unsafe { Box::from_raw(argument.cast::<Work>()) };
    // Before everything else: destructors of a thread run in reverse order, so the library is released last.
    if hold_library_until_thread_ends() {
        work(&shared);
    }
    drop(shared);
    std::ptr::null_mut()
}

extern "C" fn run_bare(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start_with` created this pointer by `Box::into_raw`, and passed the box on.
    let Work { shared, work } = *unsafe { Box::from_raw(argument.cast::<Work>()) };
    work(&shared);
    drop(shared);
    std::ptr::null_mut()
}

/// Takes a reference on this library, which the C library releases after the thread's last frame in this library.
fn hold_library_until_thread_ends() -> bool {
    type AtExit = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> i32, *mut c_void, *mut c_void) -> i32;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is inside this library, and `own` is valid for writing.
    if unsafe { libc::dladdr(run as *const c_void, &raw mut own) } == 0 {
        return false;
    }
    // SAFETY: the linker's name of this library is a C string; NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: the name is a C string.
    let at_exit = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
    // SAFETY: the name is a C string.
    let close = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlclose".as_ptr()) };
    if handle.is_null() || at_exit.is_null() || close.is_null() {
        return false;
    }
    // SAFETY: the C library's function of that name has this signature.
    let at_exit: AtExit = unsafe { std::mem::transmute(at_exit) };
    // SAFETY: `dlclose` has this signature.
    let close_function: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { std::mem::transmute(close) };
    // SAFETY: closes the handle once, at the thread's end. The last argument is an address in the C library, so it does not pin this
    // library.
    unsafe { at_exit(close_function, handle, close) == 0 }
}

fn block_all() -> libc::sigset_t {
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: `all` is valid for writing.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: `all` is initialised, and `before` is valid for writing.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}
