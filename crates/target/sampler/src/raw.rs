//! Reads a file by system calls only. The C library's functions of these names are cancellation points: a thread could end in the middle of
//! the handler.

use core::ffi::CStr;

/// Reads from `offset` on, once. `None` if the file cannot be opened or read. Async-signal-safe.
pub(crate) fn read_file(path: &CStr, offset: u64, into: &mut [u8]) -> Option<usize> {
    // SAFETY: `path` is a live C string; every number is as wide as a register.
    let file = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD as isize,
            path.as_ptr(),
            (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
            0_usize,
        )
    };
    if file < 0 {
        return None;
    }
    // SAFETY: `into` is live and has this many bytes.
    let read = unsafe { libc::syscall(libc::SYS_pread64, file, into.as_mut_ptr(), into.len(), offset as usize) };
    // SAFETY: the descriptor was opened above, and is closed once.
    unsafe { libc::syscall(libc::SYS_close, file) };
    usize::try_from(read).ok()
}
