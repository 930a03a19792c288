//! The profiler's own threads.
//!
//! `std::thread::spawn` touches thread-locals with destructors on the calling thread. On a runtime thread that would pin the library for as
//! long as that thread lives. So threads start with `pthread_create`, with every signal blocked from the beginning.

use core::ffi::c_void;
use core::marker::PhantomData;

/// The longest thread name in the kernel, without the zero.
const LONGEST_NAME: usize = 15;

/// A thread that must be joined or let go.
#[derive(Debug)]
pub struct OwnThread(libc::pthread_t);

/// The argument of a new thread.
struct Start {
    name: [u8; LONGEST_NAME + 1],
    work: Box<dyn FnOnce() + Send>,
}

impl OwnThread {
    /// Starts a thread with this name; the kernel keeps 15 bytes of it. A panic ends the thread, and nothing else.
    ///
    /// # Errors
    /// The system's error number.
    pub fn start(name: &str, work: Box<dyn FnOnce() + Send>) -> Result<OwnThread, i32> {
        let mut short = [0; LONGEST_NAME + 1];
        for (place, byte) in short.iter_mut().take(LONGEST_NAME).zip(name.bytes()) {
            *place = byte;
        }
        let argument = Box::into_raw(Box::new(Start { name: short, work })).cast::<c_void>();
        let blocked = SignalsBlocked::new();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `thread` is a live local, null means default attributes, and `main` has the required signature.
        let answer = unsafe { libc::pthread_create(&raw mut thread, core::ptr::null(), main, argument) };
        drop(blocked);
        if answer == 0 {
            return Ok(OwnThread(thread));
        }
        // SAFETY: no thread started, so this function still owns the box.
        drop(unsafe { Box::from_raw(argument.cast::<Start>()) });
        Err(answer)
    }

    /// Waits until the thread has ended, after the destructors of its thread-locals.
    pub fn join(self) {
        // SAFETY: the thread was started joinable, and `join` consumes `self`, so it is joined once.
        unsafe { libc::pthread_join(self.0, core::ptr::null_mut()) };
    }

    /// Detaches the thread from its handle: it ends on its own.
    pub fn let_go(self) {
        // SAFETY: the thread was started joinable, and `let_go` consumes `self`, so it is detached once.
        unsafe { libc::pthread_detach(self.0) };
    }
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` made this box and passed it to this thread alone.
    let Start { name, work } = *unsafe { Box::from_raw(argument.cast::<Start>()) };
    // SAFETY: `name` is 16 bytes and ends with a zero, because `start` fills at most 15.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic must not leave this function. The thread's starter sees that it has ended.
    let _ = crate::panics::quietly(work);
    core::ptr::null_mut()
}

/// Every signal of the calling thread is blocked until this is dropped.
#[derive(Debug)]
pub struct SignalsBlocked {
    before: libc::sigset_t,
    /// The mask belongs to one thread.
    not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Blocks every signal.
    #[expect(clippy::new_without_default, reason = "it acts on the thread")]
    pub fn new() -> SignalsBlocked {
        // SAFETY: all-zero is a valid value of these plain structs.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
        // SAFETY: `all` is a live local.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets are live locals.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        SignalsBlocked { before, not_send: PhantomData }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `new` found on this thread: the value cannot change threads.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, core::ptr::null_mut()) };
    }
}
