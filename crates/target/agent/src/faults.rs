//! Faults in the forked copy, which reads memory that the process still writes.
//!
//! Not all memory of a copy is frozen. .NET 7 and later keep writable memory apart from executable memory (W^X). The loader heaps lie in a
//! file that a fork shares. The copy replaces most of it by its own pages at once ([`crate::private_pages`]). It may still reach pages that
//! were reserved and unreadable then, or absent. Seen on 9.0.7, by hand, without the replacement: 16 of 80 first copies of a server that
//! had just started ended by SIGSEGV. It was always the same instruction of libcoreclr, which copies type arguments (GetClassIDInfo2, by
//! its code). One core was examined: the page belonged to that file, was `PROT_NONE` in the copy, and had been written by then. That a
//! dictionary of type arguments had grown in between is a guess.
//!
//! So the handler makes an unreadable page readable. It maps an absent page as empty, and counts it. The walk handles senseless content
//! like any other nonsense.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// The maximum of handled faults: a copy with more ends.
const MOST: u32 = 4096;

/// The maximum of abandoned accesses. Each runs in the handler of the one before, and takes some kilobytes of a stack, which may have only
/// 1.5 MiB.
const MOST_ABANDONED: u32 = 32;
/// Below this no page is mapped: such an address is wrong, and a page of zeros would hide that.
const LOWEST: usize = 1 << 16;

/// Called in place of an access whose page cannot be mapped.
pub type Instead = unsafe fn(*mut c_void) -> !;

// Only the copy writes them. The copy is a process of its own, so no two attaches share them.
static FORGIVEN: AtomicU32 = AtomicU32::new(0);
static ABSENT: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
static ABANDONED: AtomicU32 = AtomicU32::new(0);
/// An [`Instead`], and its argument.
static INSTEAD: AtomicUsize = AtomicUsize::new(0);
static INSTEAD_WITH: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// In the copy, on its only thread: from now on faults are handled, and absent pages counted in `absent`. The runtime's handlers are not
/// for here: signals like SIGBUS end the copy, and the kernel logs that.
pub fn skip_faults(absent: &'static AtomicU64) {
    ABSENT.store(std::ptr::from_ref(absent).cast_mut(), Ordering::SeqCst);
    for signal in [libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
        // SAFETY: takes numbers only; dispositions are the copy's own.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: all-zero is a valid value of these plain structs.
    let (mut action, mut faults): (libc::sigaction, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = on_fault as *const () as usize;
    // The handler may not return, and must catch another fault, too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // The signal is unblocked last, when its handler is installed.
    // SAFETY: the structs are live; dispositions and masks are the copy's own.
    unsafe {
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        libc::sigaddset(&raw mut faults, libc::SIGSEGV);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const faults, std::ptr::null_mut());
    }
}

/// In the copy: from now on, an access whose page cannot be mapped is abandoned, and `act` runs with `data` in its place.
///
/// # Safety
/// `act` may run with `data` at any fault from now on, in the middle of any code of this thread.
pub unsafe fn instead(act: Instead, data: *mut c_void) {
    INSTEAD_WITH.store(data, Ordering::SeqCst);
    INSTEAD.store(act as usize, Ordering::SeqCst);
}

fn abandon() {
    let act = INSTEAD.load(Ordering::SeqCst);
    if act != 0 && ABANDONED.fetch_add(1, Ordering::Relaxed) < MOST_ABANDONED {
        // SAFETY: `instead` stored this pair, and its caller allows the call at any fault.
        unsafe { std::mem::transmute::<usize, Instead>(act)(INSTEAD_WITH.load(Ordering::SeqCst)) };
    }
}

extern "C" fn on_fault(_: c_int, about: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a live struct, and fills in the address for SIGSEGV.
    let page = unsafe { (*about).si_addr() } as usize & !(PAGE - 1);
    if FORGIVEN.fetch_add(1, Ordering::Relaxed) >= MOST
        || !(page >= LOWEST && (made_readable(page) || made_empty(page)))
    {
        abandon();
        // The access runs again, and ends the copy.
        // SAFETY: takes numbers only.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }
}

fn made_readable(page: usize) -> bool {
    // SAFETY: the page only becomes readable, and the copy never writes there.
    (unsafe { libc::mprotect(page as *mut c_void, PAGE, libc::PROT_READ) }) == 0
}

fn made_empty(page: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: maps a new page, and only where there is none.
    let made = unsafe { libc::mmap(page as *mut c_void, PAGE, libc::PROT_READ, flags, -1, 0) };
    if made as usize != page {
        return false;
    }
    // SAFETY: null, or the static that `skip_faults` stored.
    if let Some(absent) = unsafe { ABSENT.load(Ordering::Relaxed).as_ref() } {
        absent.fetch_add(1, Ordering::Relaxed);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a copy of this process: reads an unreadable page and an absent one.
    fn read_what_cannot_be_read() -> bool {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: two new pages. The first is written before it becomes unreadable, and the second is unmapped.
        let page = unsafe {
            let both = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            both.cast::<u64>().write(7);
            libc::mprotect(both, PAGE, libc::PROT_NONE);
            libc::munmap(both.byte_add(PAGE), PAGE);
            both.cast::<u64>()
        };
        skip_faults(&COUNTER);
        // SAFETY: the address is aligned. The reads fault, and the handler under test makes them valid.
        let read = unsafe { (page.read_volatile(), page.byte_add(PAGE).read_volatile()) };
        read == (7, 0) && COUNTER.load(Ordering::Relaxed) == 1
    }

    #[test]
    fn regression_a_page_that_the_process_made_after_the_copy_does_not_end_the_copy() {
        // SAFETY: the child neither allocates nor locks, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = c_int::from(!read_what_cannot_be_read());
            // SAFETY: ends this process; no exit handler runs.
            unsafe { libc::_exit(status) };
        }
        let mut status = -1;
        // SAFETY: an own child; `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
