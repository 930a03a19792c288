//! The agent's threads, and what it asks the system about the calling one.

use corprof::detach::OwnThread;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Starts a thread of ours with this name.
///
/// # Errors
/// The system's error number.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<OwnThread, i32> {
    let main = || {
        remora_thread_locals::begin_thread();
        work();
        remora_thread_locals::end_thread();
    };
    OwnThread::start(name, Box::new(main))
}

/// Locks. A panic of another thread does not matter: the data are used as they are.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's id.
pub fn this_thread() -> u32 {
    // SAFETY: takes no arguments.
    (unsafe { libc::syscall(libc::SYS_gettid) }) as u32
}

/// The shortest time slice that Linux grants on request, nanoseconds (`kernel/sched/syscalls.c`).
const SHORTEST_SLICE: u64 = 100_000;

/// Makes the kernel wake the calling thread, one of ours, on time instead of up to 50 us late. From Linux 6.12 on, the thread also runs
/// before the running thread has used up its slice. Older kernels do not grant a slice on request.
pub fn reduce_timer_slack() {
    /// `struct sched_attr` (Linux `include/uapi/linux/sched/types.h`), its first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        slice: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: own_niceness(),
        priority: 0,
        slice: SHORTEST_SLICE,
        deadline: 0,
        period: 0,
    };
    // SAFETY: takes numbers only, each as wide as a register.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize, 0_usize, 0_usize, 0_usize) };
    // Sampling goes on if the kernel refuses it.
    // SAFETY: affects the calling thread only. The struct is live and has its size in it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0_usize, &raw const attributes, 0_usize) };
}

/// The niceness of the calling thread.
fn own_niceness() -> i32 {
    // SAFETY: takes numbers only. The kernel returns 20 minus the niceness, which is 1 to 40, or an error below 0.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS as usize, 0_usize) };
    if answer > 0 { 20 - answer as i32 } else { 0 }
}

/// The CPU of the calling thread.
pub fn this_cpu() -> i32 {
    // SAFETY: takes no arguments.
    unsafe { libc::sched_getcpu() }
}

/// Sleeps by the system's own call: the standard library's may touch its thread-locals.
pub fn pause(nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `time` is live; a null remainder is allowed.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
}
