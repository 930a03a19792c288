//! POSIX timers by the kernel's own numbers. They send a real-time signal to a thread, and exec deletes it with the timer.
//!
//! The C library's wrappers are not used: they moved between libraries (glibc 2.34), and the kernel's calls suffice.

/// A kernel timer id.
pub type TimerId = i32;

/// `struct sigevent` in the kernel's layout for SIGEV_THREAD_ID (Linux `include/uapi/asm-generic/siginfo.h`): 64 bytes.
#[repr(C)]
struct Notify {
    value: u64,
    signal: i32,
    notify: i32,
    thread: i32,
    rest: [i32; 11],
}

/// Creates a timer on `clock` that sends `signal` with `value` to `thread`. It is not armed yet.
///
/// # Errors
/// The system's error number: EAGAIN if RLIMIT_SIGPENDING is used up, EINVAL if the thread has ended.
pub fn create(clock: libc::clockid_t, signal: i32, thread: u32, value: u64) -> Result<TimerId, i32> {
    let mut event = Notify { value, signal, notify: libc::SIGEV_THREAD_ID, thread: thread as i32, rest: [0; 11] };
    let mut id: TimerId = -1;
    // SAFETY: both pointers are to live places, in the layout of the kernel's call.
    let answer = unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw mut event, &raw mut id) };
    if answer == 0 { Ok(id) } else { Err(errno()) }
}

/// Arms the timer to fire once after `nanoseconds` (0 disarms). Async-signal-safe.
pub fn arm(timer: TimerId, nanoseconds: u64) -> bool {
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
        },
    };
    // SAFETY: `value` is live, and a null old value is allowed. For an invalid id, the kernel answers EINVAL.
    unsafe { libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const value, core::ptr::null_mut::<u8>()) == 0 }
}

/// Deletes the timer.
pub fn delete(timer: TimerId) {
    // SAFETY: takes a number only. For an invalid one, the kernel answers EINVAL.
    unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
}

pub(crate) fn errno() -> i32 {
    // SAFETY: the C library's place for this thread's error number lives as long as the thread.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_the_layout_of_the_event() {
        assert_eq!(size_of::<Notify>(), 64);
        // SAFETY: gettid takes no arguments.
        let thread = unsafe { libc::gettid() } as u32;
        let timer = create(libc::CLOCK_MONOTONIC, libc::SIGRTMAX(), thread, 7).expect("a timer");
        assert!(arm(timer, 1_000_000_000_000));
        delete(timer);
        assert!(!arm(timer, 0));
    }
}
