//! Profilers that block signals, or send them to every thread of the process.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// It is ignored where it has no handler.
const SENT: c_int = libc::SIGURG;

/// The end of a pipe into which the handler writes.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Sets the handler. It stays, with its pipe, until the process exits.
pub fn begin() {
    extern "C" fn handler(_: c_int) {
        // SAFETY: one byte of a static text.
        if unsafe { libc::write(PIPE.load(Ordering::SeqCst), c"!".as_ptr().cast(), 1) } < 0
            // SAFETY: the C library's place for this thread.
            && unsafe { *libc::__errno_location() } == libc::EBADF
        {
            // SAFETY: takes no arguments.
            unsafe { libc::abort() };
        }
    }
    let mut ends = [-1; 2];
    // SAFETY: a local place for both ends.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
    PIPE.store(ends[1], Ordering::SeqCst);
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: a local action, whose handler has the required signature.
    unsafe { libc::sigaction(SENT, &raw const action, null_mut()) };
}

/// Sends the signal to every thread.
pub fn send_to_all() {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads.filter_map(|thread| thread.file_name().to_str()?.parse::<i32>().ok()) {
        // SAFETY: takes numbers only. If the thread has ended, the call fails.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, SENT) };
    }
}

/// Blocks or unblocks a signal of the running thread.
pub fn block(how: c_int) {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set, and a valid signal.
    unsafe { libc::sigaddset(&raw mut signals, libc::SIGPROF) };
    // SAFETY: a local set; the old one is not wanted.
    unsafe { libc::pthread_sigmask(how, &raw const signals, null_mut()) };
}
