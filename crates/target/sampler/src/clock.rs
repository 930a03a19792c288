//! Clocks: the system's monotonic clock, and the CPU time of threads and the process.

/// Monotonic time, nanoseconds. No system call on ordinary machines.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, nanoseconds.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a thread of this process, nanoseconds; 0 if it has ended.
pub fn thread_cpu_of(thread: u32) -> u64 {
    read(thread_clock(thread))
}

/// CPU time of this process with its ended threads, nanoseconds. For threads that run now, the kernel counts up to its last tick.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The clock of another thread's CPU time, for [`libc::clock_gettime`] and timers.
///
/// The kernel packs the thread id, inverted, above three bits: 4 for "one thread", 2 for "scheduler's time"
/// (Linux `include/linux/posix-timers_types.h`: `CPUCLOCK_PERTHREAD_MASK`, `CPUCLOCK_SCHED`).
pub fn thread_clock(thread: u32) -> libc::clockid_t {
    (!(thread as libc::clockid_t) << 3) | 4 | 2
}

/// Reads a clock; 0 if it does not exist (any more).
pub(crate) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for one timespec; the call is async-signal-safe by POSIX.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if answer != 0 {
        return 0;
    }
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
