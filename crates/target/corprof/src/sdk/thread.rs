//! The profiler's own threads. Each has its own reference on the library, and releases it after the last of the library's code.
//!
//! `std::thread::spawn` touches thread-locals with destructors on the calling thread. On a runtime thread that would pin the library for as
//! long as that thread lives. So threads start with `pthread_create`, with every signal blocked from the beginning.

use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;

/// The longest thread name in the kernel, without the zero.
const LONGEST_NAME: usize = 15;

/// A thread that must be joined or let go.
#[derive(Debug)]
pub(super) struct OwnThread(libc::pthread_t);

/// A thread's work.
type Work = Box<dyn FnOnce() + Send>;

/// The argument of a new thread.
struct Start {
    name: [u8; LONGEST_NAME + 1],
    reference: LibraryReference,
    work: Work,
}

impl OwnThread {
    /// Starts a thread with this name.
    ///
    /// # Errors
    /// No reference on the library, or no thread; as text.
    pub fn start(name: &str, work: Work) -> Result<OwnThread, String> {
        let mut short = [0; LONGEST_NAME + 1];
        for (place, byte) in short.iter_mut().take(LONGEST_NAME).zip(name.bytes()) {
            *place = byte;
        }
        let start = Box::new(Start { name: short, reference: LibraryReference::take()?, work });
        let argument = Box::into_raw(start).cast::<c_void>();
        let before = block_all();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `thread` is a live local, null means default attributes, and `main` has the required signature.
        let answer = unsafe { libc::pthread_create(&raw mut thread, core::ptr::null(), main, argument) };
        // SAFETY: restores the mask that `block_all` returned; `before` is a live local.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) };
        if answer == 0 {
            return Ok(OwnThread(thread));
        }
        // SAFETY: no thread started, so this function still owns the box.
        drop(unsafe { Box::from_raw(argument.cast::<Start>()) });
        Err(format!("the system makes no thread: error {answer}"))
    }

    /// Waits until the thread has ended, after the destructors of its thread-locals.
    pub fn join(self) {
        // SAFETY: the thread was started joinable, and `join` consumes `self`, so it is joined once.
        unsafe { libc::pthread_join(self.0, core::ptr::null_mut()) };
    }

    /// Detaches the thread from its handle: it ends on its own.
    pub fn let_go(self) {
        // SAFETY: the thread was started joinable, and `let_go` consumes `self`, so it is detached once.
        unsafe { libc::pthread_detach(self.0) };
    }
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` made this box and passed it to this thread alone.
    let Start { name, reference, work } = *unsafe { Box::from_raw(argument.cast::<Start>()) };
    // Before anything else: a thread's destructors run last to first, so the library's reference goes last.
    reference.give_back_at_thread_end();
    // SAFETY: `name` is 16 bytes and ends with a zero, because `start` fills at most 15.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic must not leave this function. The thread's starter sees that it has ended.
    let _ = crate::panics::quietly(work);
    core::ptr::null_mut()
}

fn block_all() -> libc::sigset_t {
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    // SAFETY: `all` is a live local.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are live locals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

/// A reference on this library, which keeps it mapped under the profiler's own threads (contract DET-05).
///
/// `None` if this code is part of the executable, which is never unmapped.
#[derive(Debug)]
pub(super) struct LibraryReference(Option<*mut c_void>);

// SAFETY: any thread may close a handle of the dynamic linker.
unsafe impl Send for LibraryReference {}

impl LibraryReference {
    /// Takes a reference. The file may be unlinked already: the linker finds the loaded library by its name.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn take() -> Result<LibraryReference, String> {
        if is_part_of_the_program() {
            return Ok(LibraryReference(None));
        }
        let own = place_of(main as *const c_void).ok_or("the library cannot find its own name")?;
        // SAFETY: the name comes from the linker itself; RTLD_NOLOAD never loads anything.
        let handle = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return Err("the library cannot take a reference on itself".into());
        }
        Ok(LibraryReference(Some(handle)))
    }

    /// Releases the reference at the very end of the calling thread, from code of the C library (contract DET-08).
    ///
    /// `__cxa_thread_atexit_impl(dlclose, handle, address in the C library)` makes glibc call `dlclose(handle)` after the thread's
    /// last frame of ours is gone. The third argument must not be an address of ours: it would pin this library
    /// (measured on .NET Core 3.1 to 10, unmapped every time). Without that function the library stays mapped.
    fn give_back_at_thread_end(self) {
        let (Some(handle), Some((at_exit, close))) = (ManuallyDrop::new(self).0, at_thread_end()) else { return };
        // SAFETY: this value owns the handle. The C library closes it once, at the end of this thread.
        unsafe { at_exit(close, handle, close as *mut c_void) };
    }
}

impl Drop for LibraryReference {
    /// For a thread that never started. The runtime holds its own reference, so this unmaps nothing.
    fn drop(&mut self) {
        if let Some(handle) = self.0 {
            // SAFETY: this value owns the handle, and closes it once.
            unsafe { libc::dlclose(handle) };
        }
    }
}

/// Whether this code is part of the executable, as in tests, and no library.
pub(super) fn is_part_of_the_program() -> bool {
    // SAFETY: `getauxval` only reads the auxiliary vector.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let place = |address: *const c_void| place_of(address).map(|info| info.dli_fbase);
    place(entry as *const c_void).is_some_and(|program| place(main as *const c_void) == Some(program))
}

type Close = unsafe extern "C" fn(*mut c_void) -> i32;
type AtExit = unsafe extern "C" fn(Close, *mut c_void, *mut c_void) -> i32;

/// Whether a thread can release its reference at its end. If not, the library stays mapped after a detach.
pub(super) fn can_unmap() -> bool {
    at_thread_end().is_some()
}

/// The C library's function that registers destructors of thread-locals, and its `dlclose`.
fn at_thread_end() -> Option<(AtExit, Close)> {
    let (at_exit, close) = (symbol(c"__cxa_thread_atexit_impl"), symbol(c"dlclose"));
    if at_exit.is_null() || close.is_null() {
        return None;
    }
    // SAFETY: the C library's function of that name has this signature (Itanium C++ ABI, destructors of thread-locals).
    let at_exit: AtExit = unsafe { core::mem::transmute(at_exit) };
    // SAFETY: `dlclose` has this signature.
    let close: Close = unsafe { core::mem::transmute(close) };
    Some((at_exit, close))
}

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: `name` ends with a zero; `dlsym` loads nothing.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

fn place_of(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: only compares the address with the linker's list; `info` is a live local.
    let found = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}
