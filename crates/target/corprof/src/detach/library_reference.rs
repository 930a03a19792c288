//! The library's reference on itself, and its release at the end of a thread.

use core::ffi::{CStr, c_void};
use core::mem::ManuallyDrop;

/// A reference on this library, which keeps it mapped under the profiler's own threads (contract DET-05).
///
/// Drop it only while the runtime has its own reference, as for a thread that never started: then nothing is unmapped.
#[derive(Debug)]
pub struct LibraryReference(*mut c_void);

// SAFETY: any thread may close a handle of the dynamic linker.
unsafe impl Send for LibraryReference {}

impl LibraryReference {
    /// Takes a reference. The file may be unlinked already: the linker finds the loaded library by its name.
    /// `None` if the linker does not know the library.
    pub fn take() -> Option<LibraryReference> {
        let own = place_of(own_address())?;
        // SAFETY: the name comes from the linker itself; RTLD_NOLOAD never loads anything.
        let handle = unsafe { libc::dlopen(own.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(LibraryReference(handle))
    }

    /// Releases the reference at the very end of the calling thread, from code of the C library (contract DET-08).
    ///
    /// `__cxa_thread_atexit_impl(dlclose, handle, address in the C library)` makes glibc call `dlclose(handle)` after the thread's
    /// last frame of ours is gone. The third argument must not be an address of ours: it would pin this library
    /// (measured on .NET Core 3.1 to 10, unmapped every time). Without that function the library stays mapped: see [`can_unmap`].
    pub fn give_back_at_thread_end(self) {
        let handle = ManuallyDrop::new(self).0;
        let Some((at_exit, close)) = at_thread_end() else { return };
        // SAFETY: this value owns the handle. The C library closes it once, at the end of this thread.
        unsafe { at_exit(close, handle, close as *mut c_void) };
    }
}

impl Drop for LibraryReference {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle, and closes it once.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Whether this code is part of the executable, as in tests, and no library. An executable is never unmapped.
pub fn is_part_of_the_program() -> bool {
    // SAFETY: `getauxval` only reads the auxiliary vector.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let place = |address: *const c_void| place_of(address).map(|info| info.dli_fbase);
    place(entry as *const c_void).is_some_and(|program| place(own_address()) == Some(program))
}

type Close = unsafe extern "C" fn(*mut c_void) -> i32;
type AtExit = unsafe extern "C" fn(Close, *mut c_void, *mut c_void) -> i32;

/// Whether a thread can release its reference at its end. If not, the library stays mapped after a detach: musl never unmaps anyway.
pub fn can_unmap() -> bool {
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

/// An address inside this library.
fn own_address() -> *const c_void {
    can_unmap as *const c_void
}

fn place_of(address: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: only compares the address with the linker's list; `info` is a live local.
    let found = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}
