//! The agent's threads, started without the standard library on a thread of the runtime.
//!
//! `std::thread::spawn` touches thread-locals with destructors on the calling thread. On a thread of the runtime, that would pin the
//! library as long as that thread lives. So the agent uses `pthread_create`, and its threads block every signal from the start.

use crate::thread_locals;
use remora_wire::AgentError;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread of ours that can be joined.
pub struct OwnThread(libc::pthread_t);

impl OwnThread {
    /// Starts a thread that gets `argument`.
    ///
    /// # Errors
    /// The system's error number.
    pub fn start(main: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> Result<OwnThread, i32> {
        let before = block_all();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `thread` is live, null means default attributes, and `main` has the required signature.
        let answer = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), main, argument) };
        // SAFETY: restores the mask that `block_all` returned.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        if answer == 0 { Ok(OwnThread(thread)) } else { Err(answer) }
    }

    /// Waits until the thread has ended.
    pub fn join(self) {
        join(self.0);
    }

    /// The handle for [`join`].
    pub fn handle(&self) -> libc::pthread_t {
        self.0
    }
}

/// Waits until the thread with this handle has ended. Only one thread may do so, once.
pub fn join(handle: libc::pthread_t) {
    // SAFETY: the thread is joinable, and the callers join it once.
    unsafe { libc::pthread_join(handle, std::ptr::null_mut()) };
}

/// Detaches the calling thread, one of ours: no thread will join it.
pub fn detach_this() {
    // SAFETY: the thread is joinable, and is detached once.
    unsafe { libc::pthread_detach(libc::pthread_self()) };
}

/// Locks. A panic of another thread does not matter: the data are used as they are.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks every signal of the calling thread. Returns the previous mask.
pub fn block_all() -> libc::sigset_t {
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: `all` is live.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are live.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    before
}

/// Must be called first on a thread of ours: resets the standard library's data of the thread, and sets its name.
pub fn begin_this(suffix: &str) {
    thread_locals::begin_thread();
    let mut name = [0_u8; 16];
    for (place, byte) in name.iter_mut().take(15).zip(remora_wire::THREAD_NAME.bytes().chain(suffix.bytes())) {
        *place = byte;
    }
    // SAFETY: a zero-terminated text of at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Must be called last on a thread of ours.
pub fn end_this() {
    thread_locals::end_thread();
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

/// A reference to this library. It keeps the library mapped under our threads (contract DET-05).
pub struct LibraryReference(*mut c_void);

// SAFETY: a handle of the dynamic linker may be closed on any thread.
unsafe impl Send for LibraryReference {}
// SAFETY: a shared handle allows no access to it.
unsafe impl Sync for LibraryReference {}

impl Drop for LibraryReference {
    /// For an attach that fails early. The runtime has its own reference, so this unmaps nothing.
    fn drop(&mut self) {
        // SAFETY: the handle is ours and is closed once.
        unsafe { libc::dlclose(self.0) };
    }
}

impl LibraryReference {
    /// Takes a reference. The file may already be unlinked: the linker knows the library by its name.
    ///
    /// # Errors
    /// `ENOENT`: the linker does not know the library.
    pub fn take() -> Result<LibraryReference, AgentError> {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        let own = block_all as *const c_void;
        // SAFETY: `own` is an address inside this library; `info` is live.
        if unsafe { libc::dladdr(own, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return Err(AgentError::system(libc::ENOENT));
        }
        // SAFETY: the linker returned this name. With NOLOAD nothing is loaded.
        let handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if handle.is_null() { Err(AgentError::system(libc::ENOENT)) } else { Ok(LibraryReference(handle)) }
    }

    /// Gives the reference back at the very end of the calling thread, from code of the C library (contract DET-08).
    ///
    /// `__cxa_thread_atexit_impl(dlclose, handle, address in the C library)` makes glibc call `dlclose(handle)` after our last frame of the
    /// thread is gone. The third argument must not be an address of ours: it would pin this library.
    /// Returns false if there is no such function (musl, which never unmaps anyway).
    pub fn give_back_at_thread_end(self) -> bool {
        let handle = std::mem::ManuallyDrop::new(self).0;
        type AtExit = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> i32, *mut c_void, *mut c_void) -> i32;
        // SAFETY: only looks up a name.
        let at_exit = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
        // SAFETY: only looks up a name.
        let close = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlclose".as_ptr()) };
        if at_exit.is_null() || close.is_null() {
            return false;
        }
        // SAFETY: the C library's function of that name has this signature (Itanium C++ ABI for thread-local destructors).
        let at_exit: AtExit = unsafe { std::mem::transmute(at_exit) };
        // SAFETY: the C library's `dlclose` has this signature.
        let close_function: unsafe extern "C" fn(*mut c_void) -> i32 = unsafe { std::mem::transmute(close) };
        // SAFETY: the handle is ours. The C library closes it once, at the end of this thread.
        unsafe { at_exit(close_function, handle, close) == 0 }
    }
}
