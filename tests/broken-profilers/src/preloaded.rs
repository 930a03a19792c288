//! No profilers: copies for `LD_PRELOAD`, which give `remora lab` an unusual environment.

use crate::fault::{Fault, fault};
use crate::seccomp;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

/// More than the laboratory waits for a look at the process.
const DELAY: Duration = Duration::from_secs(7);

/// `PTRACE_O_TRACESECCOMP` and `PTRACE_EVENT_SECCOMP` (include/uapi/linux/ptrace.h).
const STOP_AT_FILTER: c_int = 1 << 7;
const IS_AT_FILTER: c_int = 7;

/// At the load of the library.
pub fn loaded() {
    match fault() {
        Fault::FiltersProgram => seccomp::filter_thread(),
        Fault::TracesProgram | Fault::DelaysProgram => trace(),
        _ => {}
    }
}

/// The program goes on in a child. This process traces it and its descendants, and ends as it does.
fn trace() {
    // The descendants have a tracer already.
    // SAFETY: no other thread runs yet.
    unsafe { libc::unsetenv(c"LD_PRELOAD".as_ptr()) };
    // SAFETY: no other thread runs yet.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: PTRACE_TRACEME ignores its pointers.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) };
        // The tracer sets its options.
        // SAFETY: takes a number.
        unsafe { libc::raise(libc::SIGSTOP) };
        if fault() == Fault::DelaysProgram {
            seccomp::trace_at(libc::SYS_close_range);
        }
        return;
    }
    let mut status = 0;
    // SAFETY: a local place for the status.
    unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | STOP_AT_FILTER;
    // SAFETY: takes numbers. The child is stopped, and this thread is its tracer.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, options) };
    let mut stopped = child;
    loop {
        go_on(stopped, status);
        // SAFETY: a local place for the status.
        stopped = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if stopped < 0 || (stopped == child && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status))) {
            let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 };
            // SAFETY: takes a number. Nothing of this process is wanted any more.
            unsafe { libc::_exit(code) };
        }
    }
}

/// Lets a stopped thread go on, with its signal.
fn go_on(thread: c_int, status: c_int) {
    if !libc::WIFSTOPPED(status) {
        return;
    }
    let event = status >> 16;
    if event == IS_AT_FILTER {
        std::thread::sleep(DELAY);
    }
    let signal = libc::WSTOPSIG(status);
    // New threads stop by SIGSTOP.
    let signal = if event != 0 || signal == libc::SIGSTOP { 0 } else { signal };
    // SAFETY: takes numbers. The thread is stopped, and this thread is its tracer.
    unsafe { libc::ptrace(libc::PTRACE_CONT, thread, 0, signal) };
}
