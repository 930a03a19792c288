//! Faults in the copy of the process, which reads what the process goes on to write.
//!
//! A copy is not frozen in all it sees: where the runtime keeps what can be written apart from what can be executed (.NET 7 and later), its
//! heaps of classes lie in a file that a fork shares. Most of that a copy makes its own at once ([`crate::private_pages`]); what was reserved and
//! not readable then, or not there at all, it may still meet.
//! Seen on 9.0.7, by hand, when nothing was made its own: 16 of 80 first copies of a server that had just started ended by SIGSEGV at one
//! instruction of libcoreclr, which copies type arguments (GetClassIDInfo2, by its code); in the core that was looked at, the page was of
//! that file, `PROT_NONE` in the copy, and written by then. That a dictionary of type arguments had grown in between is a guess.
//!
//! So a page that cannot be read is made readable; one that is not there is empty, and counted. What then makes no sense the walk
//! finds as it finds any other nonsense.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Faults that are forgiven: whoever has more is lost.
const MOST: u32 = 4096;

/// Faults that end in something else, one in the handler of the other: each takes some kilobytes of a stack that may have no more than 1.5 MiB.
const MOST_ABANDONED: u32 = 32;
/// Below this no page is made: what leads there leads nowhere, and a page of zeros would only hide it.
const LOWEST: usize = 1 << 16;

/// What is done in place of an access that cannot be made good.
pub type Instead = unsafe fn(*mut c_void) -> !;

// All are written in the copy alone, which is a process of its own: no two attaches share them.
static FORGIVEN: AtomicU32 = AtomicU32::new(0);
static ABSENT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
static ABANDONED: AtomicU32 = AtomicU32::new(0);
/// An [`Instead`], and what it is given.
static INSTEAD: AtomicUsize = AtomicUsize::new(0);
static INSTEAD_WITH: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// In the copy, whose only thread this is: from now on faults are forgiven, pages that are not there counted in `absent`, and other signals
/// of the kind end it, which the kernel's log tells. (The runtime's handlers are not for here.)
pub fn skip_faults(absent: &'static AtomicU64) {
    ABSENT.store(std::ptr::from_ref(absent).cast_mut(), Ordering::SeqCst);
    for signal in [libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
        // SAFETY: plain numbers; dispositions are the copy's own.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut action, mut faults): (libc::sigaction, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_fault as *const () as usize;
    // The handler may not return, and then another fault is to be heard, too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: live structs. The signal is let through when its handler is there.
    unsafe {
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        libc::sigaddset(&raw mut faults, libc::SIGSEGV);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const faults, std::ptr::null_mut());
    }
}

/// In the copy: from now on an access that cannot be made good is abandoned, and `act` is called with `data` in its place.
///
/// # Safety
/// `act` bears being called with `data` at any fault from now on, in the midst of whatever this thread does.
pub unsafe fn instead(act: Instead, data: *mut c_void) {
    INSTEAD_WITH.store(data, Ordering::SeqCst);
    INSTEAD.store(act as usize, Ordering::SeqCst);
}

fn abandon() {
    let act = INSTEAD.load(Ordering::SeqCst);
    if act != 0 && ABANDONED.fetch_add(1, Ordering::Relaxed) < MOST_ABANDONED {
        // SAFETY: what `instead` was given, whose caller promised the rest.
        unsafe { std::mem::transmute::<usize, Instead>(act)(INSTEAD_WITH.load(Ordering::SeqCst)) };
    }
}

extern "C" fn on_fault(_: c_int, about: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands a live struct, and of this signal the address is filled in.
    let page = unsafe { (*about).si_addr() } as usize & !(PAGE - 1);
    if FORGIVEN.fetch_add(1, Ordering::Relaxed) >= MOST
        || !(page >= LOWEST && (made_readable(page) || made_empty(page)))
    {
        abandon();
        // SAFETY: plain numbers. The access is tried again, and ends the copy.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }
}

fn made_readable(page: usize) -> bool {
    // SAFETY: gives a right and takes none that is needed: nothing is written there in the copy.
    (unsafe { libc::mprotect(page as *mut c_void, PAGE, libc::PROT_READ) }) == 0
}

fn made_empty(page: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new page where there is none.
    let made = unsafe { libc::mmap(page as *mut c_void, PAGE, libc::PROT_READ, flags, -1, 0) };
    if made as usize != page {
        return false;
    }
    // SAFETY: null, or what `skip_faults` was given, which lives for good.
    if let Some(absent) = unsafe { ABSENT.load(Ordering::Relaxed).as_ref() } {
        absent.fetch_add(1, Ordering::Relaxed);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a copy of this process: a page that may not be read, and one that is not there.
    fn read_what_cannot_be_read() -> bool {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: two new pages, the first of which is written before it is closed, and the second given back.
        let page = unsafe {
            let both = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            both.cast::<u64>().write(7);
            libc::mprotect(both, PAGE, libc::PROT_NONE);
            libc::munmap(both.byte_add(PAGE), PAGE);
            both.cast::<u64>()
        };
        skip_faults(&COUNTER);
        // SAFETY: aligned; what else there is to it is what is tried here.
        let read = unsafe { (page.read_volatile(), page.byte_add(PAGE).read_volatile()) };
        read == (7, 0) && COUNTER.load(Ordering::Relaxed) == 1
    }

    #[test]
    fn regression_a_page_that_the_process_made_after_the_copy_does_not_end_the_copy() {
        // SAFETY: the child calls nothing that allocates or locks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = c_int::from(!read_what_cannot_be_read());
            // SAFETY: ends this process, without a word to anybody.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
