//! A stack for signal handlers that is large enough to unwind on. Rust's standard library gives its threads the smallest size that the system
//! allows. On a machine with AVX-512 (AT_MINSIGSTKSZ 3632), each crash had one frame with that, and all frames with this one.

use std::ffi::c_void;
use std::ptr;

/// Bytes. The kernel gives pages only where they are used.
const SIZE: usize = 1 << 18;

/// The running thread's handlers use it while this lives.
#[derive(Debug)]
pub struct SignalStack {
    /// What the thread had before.
    before: libc::stack_t,
    memory: *mut c_void,
}

impl SignalStack {
    /// `None` if there is no memory for it: then the thread keeps what it has.
    pub fn begin() -> Option<SignalStack> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses the address, so no reference points into this memory.
        let memory = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let wanted = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIZE };
        let mut before = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: memory of this size that lives until `drop`, and a local place for the answer.
        unsafe { libc::sigaltstack(&raw const wanted, &raw mut before) };
        Some(SignalStack { before, memory })
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: what the thread had before, which still exists; afterwards, no handler uses the memory of `begin`.
        unsafe {
            libc::sigaltstack(&raw const self.before, ptr::null_mut());
            libc::munmap(self.memory, SIZE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> usize {
        let mut now = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: changes nothing; a local place for the answer.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut now) };
        now.ss_size
    }

    #[test]
    fn the_thread_has_it_for_a_time_and_then_what_it_had() {
        let before = size();
        let stack = SignalStack::begin().expect("memory");
        assert!(before < SIZE && size() == SIZE);
        drop(stack);
        assert_eq!(size(), before);
    }
}
