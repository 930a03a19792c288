//! The clock of the hooks: the processor's time stamp counter where the recorder trusts it, else the monotonic clock.

use remora_call_table::Clock;

/// The clock.
#[derive(Clone, Copy)]
pub enum HookClock {
    /// A few nanoseconds a reading.
    TimeStampCounter,
    /// The system's, without a system call where the kernel allows that.
    Monotonic,
}

impl Clock for HookClock {
    #[inline]
    fn now(&self) -> u64 {
        match self {
            // SAFETY: every x86-64 processor has the instruction. It needs no rights, as the runtime itself and libc use it.
            HookClock::TimeStampCounter => unsafe { core::arch::x86_64::_rdtsc() },
            HookClock::Monotonic => monotonic(),
        }
    }
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; the call does not fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
