//! Filters of system calls.

use std::ffi::{c_long, c_uint, c_ulong};

/// Where a filter finds the number of the call (`struct seccomp_data`).
const NUMBER_OF_CALL: u32 = 0;

/// Filters the running thread. All calls are allowed.
pub fn filter_thread() {
    set(&[allow()], 0);
}

/// Filters every thread.
pub fn filter_all() {
    set(&[allow()], libc::SECCOMP_FILTER_FLAG_TSYNC);
}

/// Forbids these calls on every thread.
pub fn deny_all(calls: &[c_long]) {
    let denied = answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
    set(&at(calls, denied), libc::SECCOMP_FILTER_FLAG_TSYNC);
}

/// Ends the process at this call.
pub fn kill_at(call: c_long) {
    set(&at(&[call], answer(libc::SECCOMP_RET_KILL_PROCESS)), libc::SECCOMP_FILTER_FLAG_TSYNC);
}

/// Stops for the tracer at this call.
pub fn trace_at(call: c_long) {
    set(&at(&[call], answer(libc::SECCOMP_RET_TRACE)), 0);
}

/// This answer for these calls.
fn at(calls: &[c_long], answer: libc::sock_filter) -> Vec<libc::sock_filter> {
    let load = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER_OF_CALL);
    let one = |call: &c_long| {
        [libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32) }, answer]
    };
    std::iter::once(load).chain(calls.iter().flat_map(one)).chain([allow()]).collect()
}

fn allow() -> libc::sock_filter {
    answer(libc::SECCOMP_RET_ALLOW)
}

fn answer(answer: c_uint) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, answer)
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn set(filter: &[libc::sock_filter], flags: c_ulong) {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: takes numbers only. Without it, only root may set a filter.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program and its filter live until the call returns, and the kernel copies them.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
}
