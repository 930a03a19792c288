//! Waits for a counter to change, without a lock: for the wait in a callback, and for the sampler's rest.

use std::sync::atomic::AtomicU64;

/// Returns when the counter's low half is no longer `low`, when [`futex_wake`] wakes it, or after this many nanoseconds.
pub fn futex_wait(counter: &AtomicU64, low: u32, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the counter and the timeout are live. The address is that of the low half (little-endian), and no other argument is used.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            counter.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            low,
            &raw const time,
        )
    };
}

/// Wakes the threads that wait for the counter.
pub fn futex_wake(counter: &AtomicU64) {
    // SAFETY: only wakes threads that wait on this address; reads and writes no memory.
    unsafe { libc::syscall(libc::SYS_futex, counter.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}
