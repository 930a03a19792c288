//! Threads of the profiler's own, each with a reference of its own on the library, which it gives back when no code of the library runs on it.
//!
//! `std::thread::spawn` touches thread-locals with destructors on the thread that calls it; on a thread of the runtime that would pin
//! the library for as long as that thread lives. So threads begin with `pthread_create`, and block every signal from birth.

use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;

/// The longest name that the kernel takes, without the zero.
const LONGEST_NAME: usize = 15;

/// A thread that must be joined.
#[derive(Debug)]
pub(super) struct OwnThread(libc::pthread_t);

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

/// What is handed to a thread that begins.
struct Start {
    name: [u8; LONGEST_NAME + 1],
    reference: LibraryReference,
    work: Work,
}

impl OwnThread {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// In words: no reference on the library, or no thread.
    pub fn start(name: &str, work: Work) -> Result<OwnThread, String> {
        let mut short = [0; LONGEST_NAME + 1];
        for (place, byte) in short.iter_mut().take(LONGEST_NAME).zip(name.bytes()) {
            *place = byte;
        }
        let start = Box::new(Start { name: short, reference: LibraryReference::take()?, work });
        let argument = Box::into_raw(start).cast::<c_void>();
        let before = block_all();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `thread` is live, default attributes, and `main` has the signature that is wanted.
        let answer = unsafe { libc::pthread_create(&raw mut thread, core::ptr::null(), main, argument) };
        // SAFETY: puts back the mask that was there a moment ago.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) };
        if answer == 0 {
            return Ok(OwnThread(thread));
        }
        // SAFETY: no thread took it over.
        drop(unsafe { Box::from_raw(argument.cast::<Start>()) });
        Err(format!("the system makes no thread: error {answer}"))
    }

    /// Waits until it has ended, the destructors of its thread-locals included.
    pub fn join(self) {
        // SAFETY: made joinable, and joined once.
        unsafe { libc::pthread_join(self.0, core::ptr::null_mut()) };
    }

    /// Lets it end on its own.
    pub fn let_go(self) {
        // SAFETY: made joinable, and given up once.
        unsafe { libc::pthread_detach(self.0) };
    }
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` handed this box over.
    let Start { name, reference, work } = *unsafe { Box::from_raw(argument.cast::<Start>()) };
    // First of all: destructors of a thread run last to first, so the library goes after everything else of this thread.
    reference.give_back_at_thread_end();
    // SAFETY: a text ended by a zero, of 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic must not leave this function; whoever started the thread sees that it is over.
    let _ = crate::callback::quietly(work);
    core::ptr::null_mut()
}

fn block_all() -> libc::sigset_t {
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    // SAFETY: `all` is live.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are live.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

/// A reference on this library, so that it is not unmapped under a thread of ours (contract DET-05).
///
/// `None` where this code is part of the program itself, which nobody unmaps.
#[derive(Debug)]
pub(super) struct LibraryReference(Option<*mut c_void>);

// SAFETY: a handle of the dynamic linker may be closed on any thread.
unsafe impl Send for LibraryReference {}

impl LibraryReference {
    /// Takes one. The file may be unlinked already: the linker knows the library by its name.
    ///
    /// # Errors
    /// In words.
    pub fn take() -> Result<LibraryReference, String> {
        if is_part_of_the_program() {
            return Ok(LibraryReference(None));
        }
        let own = place_of(main as *const c_void).ok_or("the library cannot find its own name")?;
        // SAFETY: a name that the linker itself has given; with NOLOAD nothing is ever loaded.
        let handle = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return Err("the library cannot take a reference on itself".into());
        }
        Ok(LibraryReference(Some(handle)))
    }

    /// Gives it back at the calling thread's very end, from code of the C library (contract DET-08).
    ///
    /// `__cxa_thread_atexit_impl(dlclose, handle, address in the C library)` makes glibc call `dlclose(handle)` after the thread's
    /// last frame of ours is gone. The third argument must not be an address of ours: it would pin this library
    /// (measured on .NET Core 3.1 to 10, unmapped every time). Where there is no such function the library stays mapped.
    fn give_back_at_thread_end(self) {
        let (Some(handle), Some((at_exit, close))) = (ManuallyDrop::new(self).0, at_thread_end()) else { return };
        // SAFETY: the handle is ours and is closed once, by the C library, at the end of this thread.
        unsafe { at_exit(close, handle, close as *mut c_void) };
    }
}

impl Drop for LibraryReference {
    /// For a thread that never began: the runtime holds a reference of its own, so nothing is unmapped here.
    fn drop(&mut self) {
        if let Some(handle) = self.0 {
            // SAFETY: the handle is ours and is closed once.
            unsafe { libc::dlclose(handle) };
        }
    }
}

/// Whether this code is part of the program itself, as in tests, and no library.
pub(super) fn is_part_of_the_program() -> bool {
    // SAFETY: asks the kernel's list of facts about this process.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let place = |address: *const c_void| place_of(address).map(|info| info.dli_fbase);
    place(entry as *const c_void).is_some_and(|program| place(main as *const c_void) == Some(program))
}

type Close = unsafe extern "C" fn(*mut c_void) -> i32;
type AtExit = unsafe extern "C" fn(Close, *mut c_void, *mut c_void) -> i32;

/// Whether a thread can give its reference back at its end; if not, the library stays mapped after a detach.
pub(super) fn can_unmap() -> bool {
    at_thread_end().is_some()
}

/// The C library's function for destructors of thread-locals, and its `dlclose`.
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
    // SAFETY: looks up a name; nothing is loaded.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

fn place_of(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: only compares the address with the linker's list; `info` is live.
    let found = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}
