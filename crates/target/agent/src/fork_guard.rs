//! Keeps an attach's memory out of the target's children.
//!
//! A child that forks without exec inherits the handler and the callback object. The rings, shared memory and tables are not mapped in it
//! (`MADV_DONTFORK`). Otherwise the child would keep them alive, and count into a recording of another process.
//!
//! Handlers and callbacks find that memory through [`ForkGuard`], one page of pointers. The kernel empties it in a child
//! (`MADV_WIPEONFORK`, Linux 4.14), so they do nothing there. A child of `vfork` or `clone(CLONE_VM)` has its own id, but this same memory
//! with everything mapped. A comparison of process ids would be wrong for it; its page is as full as ours.
//!
//! One case remains: a handler of the application interrupts ours, forks, and returns in the child to a handler without its memory.

use remora_connection::{Mapping, advise};
use remora_sampler::Session;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Handlers and callbacks find the memory of an attach here. All zero in a child.
pub struct Pointers {
    /// The session, while threads are sampled.
    pub session: AtomicPtr<Session<'static>>,
    /// The shared memory's words, once it is mapped.
    outer: AtomicPtr<&'static [AtomicU64]>,
}

/// See the module documentation.
pub struct ForkGuard {
    page: Mapping,
    is_emptied: bool,
}

impl ForkGuard {
    /// With null pointers.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new() -> Result<ForkGuard, i32> {
        let page = Mapping::anonymous(size_of::<Pointers>())?;
        // Some emulators accept every advice and follow none. Then children keep the memory.
        let is_emptied = page.advise(i32::MAX).is_err() && page.advise(libc::MADV_WIPEONFORK).is_ok();
        Ok(ForkGuard { page, is_emptied })
    }

    /// Leaves the mapping out of children from now on. It must be found only through these pointers. If children keep the pointers, it
    /// stays mapped in them.
    pub fn keep(&self, mapping: Mapping) -> Mapping {
        if self.is_emptied {
            // If this fails, children keep the mapping, but do not use it.
            let _ = mapping.advise(libc::MADV_DONTFORK);
        }
        mapping
    }

    /// Runs `fork` so that its child has the memory at `words`, which [`ForkGuard::keep`] may have left out.
    ///
    /// # Errors
    /// The system's error number; `fork` did not run.
    pub fn shared_with<T>(&self, words: &[AtomicU64], fork: impl FnOnce() -> T) -> Result<T, i32> {
        if !self.is_emptied {
            return Ok(fork());
        }
        let (address, bytes) = (words.as_ptr().cast_mut().cast(), size_of_val(words));
        // SAFETY: it changes what a fork copies, not this process's memory.
        unsafe { advise(address, bytes, libc::MADV_DOFORK) }?;
        let forked = fork();
        // SAFETY: as above.
        let _ = unsafe { advise(address, bytes, libc::MADV_DONTFORK) };
        Ok(forked)
    }
}

impl ForkGuard {
    /// The shared memory's words, while they are mapped.
    pub fn outer(&self) -> Option<&'static [AtomicU64]> {
        // SAFETY: null, or the box that `set_outer` made. `forget_outer` frees it when no callback reads it any more.
        unsafe { self.outer.load(Ordering::Acquire).as_ref() }.copied()
    }

    /// Worker: the shared memory is mapped.
    pub fn set_outer(&self, words: &'static [AtomicU64]) {
        self.forget_outer();
        self.outer.store(Box::into_raw(Box::new(words)), Ordering::Release);
    }

    /// The shared memory will be unmapped. No callback reads it any more.
    pub fn forget_outer(&self) {
        let outer = self.outer.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !outer.is_null() {
            // SAFETY: `set_outer` made it with `Box::into_raw`, and the swap removed it from the page.
            drop(unsafe { Box::from_raw(outer) });
        }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        self.forget_outer();
    }
}

impl Deref for ForkGuard {
    type Target = Pointers;

    fn deref(&self) -> &Pointers {
        // SAFETY: the page has room for the pointers and is mapped as long as `self`. It begins as zeros, and null pointers are valid.
        unsafe { &*self.page.address().cast::<Pointers>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this process has memory at `words`.
    fn is_mapped(words: &[AtomicU64]) -> bool {
        remora_sampler::read_checked(words.as_ptr() as u64).is_some()
    }

    /// The result of `look` in a child.
    fn in_a_child(look: impl FnOnce() -> u8) -> u8 {
        // SAFETY: the child only reads memory, and ends without the C library.
        let child = unsafe { libc::fork() };
        if child == 0 {
            crate::copy_end::end_of_copy(i32::from(look()));
        }
        let mut status = 0;
        // SAFETY: an own child; `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child ended by signal {}", libc::WTERMSIG(status));
        libc::WEXITSTATUS(status) as u8
    }

    #[test]
    fn a_child_has_neither_the_memory_nor_pointers_to_it_but_the_copy_has_the_memory() {
        let here = ForkGuard::new().expect("a page");
        assert!(here.is_emptied, "Linux 4.14");
        let kept = here.keep(Mapping::anonymous(1 << 16).expect("memory"));
        // SAFETY: `kept` outlives the words.
        let words = unsafe { kept.words() };
        here.set_outer(words);
        let seen = || u8::from(here.outer().is_some()) | u8::from(is_mapped(words)) << 1;
        assert_eq!((seen(), in_a_child(seen)), (3, 0), "bit 0: the pointer, bit 1: the memory");
        assert_eq!(here.shared_with(words, || in_a_child(seen)), Ok(2));
        assert_eq!((seen(), in_a_child(seen)), (3, 0), "and it stays out of the children after the copy");
    }

    #[test]
    fn where_pointers_are_not_emptied_children_keep_the_memory() {
        let mut here = ForkGuard::new().expect("a page");
        here.is_emptied = false;
        let kept = here.keep(Mapping::anonymous(1 << 16).expect("memory"));
        // SAFETY: `kept` outlives the words.
        let words = unsafe { kept.words() };
        assert_eq!(in_a_child(|| u8::from(is_mapped(words))), 1);
        assert_eq!(here.shared_with(words, || in_a_child(|| u8::from(is_mapped(words)))), Ok(1));
        assert_eq!(in_a_child(|| u8::from(is_mapped(words))), 1);
    }

    /// A comparison of process ids would find a child here.
    #[test]
    fn a_child_that_shares_the_memory_has_the_pointers() {
        let here = ForkGuard::new().expect("a page");
        here.set_outer(&[]);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        extern "C" fn look(here: *mut libc::c_void) -> libc::c_int {
            // SAFETY: the parent keeps its `ForkGuard` while it waits for this child.
            i32::from(unsafe { &*here.cast::<ForkGuard>() }.outer().is_none())
        }
        let mut stack = vec![0_u128; 1 << 12];
        let argument = (&raw const here).cast_mut().cast();
        // SAFETY: the child has its own stack, from its end down. The parent waits until the child has ended.
        let child = unsafe { libc::clone(look, stack.as_mut_ptr_range().end.cast(), flags, argument) };
        let mut status = 0;
        // SAFETY: an own child; `status` is live.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
