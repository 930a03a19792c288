//! Waiting for a counter to change, without a lock: a callback's one wait, and the sampler's rest.

use std::sync::atomic::AtomicU64;

/// Returns when the counter's low half is no longer `low`, when somebody wakes those who wait for it, or after so many nanoseconds.
pub fn futex_wait(counter: &AtomicU64, low: u32, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the address of the counter's low half (little-endian), a live time-out; no other argument is used.
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

/// Wakes who waits for the counter.
pub fn futex_wake(counter: &AtomicU64) {
    // SAFETY: wakes whoever waits on this address; nothing is read or written.
    unsafe { libc::syscall(libc::SYS_futex, counter.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}
