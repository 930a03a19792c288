//! Memory of the interrupted thread. Each read is checked first.

use crate::raw::read_file;

/// Checked reads of the stack, in words of eight bytes.
pub trait Memory {
    /// The word at `address`, `None` if it may not be read.
    fn word(&self, address: u64) -> Option<u64>;

    /// The word at `address` and the next one.
    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        Some((self.word(address)?, self.word(address.checked_add(8)?)?))
    }

    /// The words from `address` on, as many as may be read and fit.
    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        let mut copied = 0;
        for (place, offset) in into.iter_mut().zip((0_u64..).step_by(8)) {
            let Some(word) = self.word(address.wrapping_add(offset)) else { break };
            *place = word;
            copied += 1;
        }
        copied
    }
}

/// A stack with known bounds: plain reads inside them.
pub struct Bounded {
    /// First address that may be read.
    pub low: u64,
    /// First address beyond.
    pub high: u64,
}

impl Bounded {
    /// Whether `bytes` bytes from `address` on are aligned words of the stack.
    #[inline]
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let above = self.high.checked_sub(address);
        address >= self.low && above.is_some_and(|above| above >= bytes) && address.is_multiple_of(8)
    }
}

impl Memory for Bounded {
    #[inline]
    fn word(&self, address: u64) -> Option<u64> {
        // SAFETY: `holds` has checked that the word is aligned and in the running thread's own stack, at or above its stack pointer.
        self.holds(address, 8).then(|| unsafe { core::ptr::read_volatile(address as *const u64) })
    }

    #[inline]
    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        // SAFETY: `holds` has checked that both words are aligned and in the running thread's own stack.
        self.holds(address, 16).then(|| unsafe { core::ptr::read_volatile(address as *const [u64; 2]) }.into())
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        let there = if self.holds(address, 8) { (self.high - address) / 8 } else { 0 };
        let count = into.len().min(there as usize);
        for (place, offset) in into.iter_mut().take(count).zip((0..).step_by(8)) {
            // SAFETY: `count` whole words lie between `address` and the end of the running thread's own stack.
            *place = unsafe { core::ptr::read_volatile((address + offset) as *const u64) };
        }
        count
    }
}

/// A stack with unknown bounds. The kernel reads it, and returns an error instead of a fault.
pub struct Asked {
    /// The stack pointer: nothing below is read.
    pub low: u64,
}

impl Memory for Asked {
    fn word(&self, address: u64) -> Option<u64> {
        if address < self.low || !address.is_multiple_of(8) {
            return None;
        }
        read_checked(address).map(u64::from_le_bytes)
    }

    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        let mut words = [0; 2];
        (self.words(address, &mut words) == 2).then_some(words.into())
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        if address < self.low || !address.is_multiple_of(8) { 0 } else { read_words(address, into) }
    }
}

/// Reads eight bytes anywhere in this process. The kernel reads, and returns an error instead of a fault.
pub fn read_checked(address: u64) -> Option<[u8; 8]> {
    let mut value = [0_u64];
    (read_words(address, &mut value) == 1).then_some(value[0].to_ne_bytes())
}

/// Reads words anywhere in this process, as many as the kernel finds mapped from `address` on.
pub(crate) fn read_words(address: u64, into: &mut [u64]) -> usize {
    let bytes = into.len() * 8;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
    // SAFETY: one local and one remote vector of the same length; the local one is `into`, and the kernel checks the remote one.
    // Every number is as wide as a register: the last argument is passed on the stack, and its upper half would be garbage.
    let read = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            libc::getpid() as usize,
            &raw const local,
            1_usize,
            &raw const remote,
            1_usize,
            0_usize,
        )
    };
    if let Ok(read) = usize::try_from(read) {
        return read / 8;
    }
    // SAFETY: the C library's place for this thread's error number lives as long as the thread.
    match unsafe { *libc::__errno_location() } {
        // Nothing is mapped there.
        libc::EFAULT => 0,
        // A seccomp filter refuses the call.
        _ => read_words_by_file(address, into),
    }
}

/// [`read_words`] through `/proc/self/mem`.
fn read_words_by_file(address: u64, into: &mut [u64]) -> usize {
    // SAFETY: these are the bytes of `into`, which stays borrowed as long. All bytes are valid values.
    let bytes = unsafe { core::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), into.len() * 8) };
    read_file(c"/proc/self/mem", address, bytes).unwrap_or(0) / 8
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::vec::Vec;

    /// An invented stack: words at 0x1000, 0x1008, ...
    pub(crate) struct Words(pub(crate) Vec<u64>);

    impl Memory for Words {
        fn word(&self, address: u64) -> Option<u64> {
            let offset = address.checked_sub(0x1000)?;
            (offset % 8 == 0).then(|| self.0.get(offset as usize / 8).copied())?
        }
    }

    #[test]
    fn of_a_stack_nothing_is_read_beyond_its_end() {
        let stack = [1_u64, 2, 3, 4];
        let low = stack.as_ptr() as u64;
        let memory = Bounded { low: low + 8, high: low + 24 };
        let mut into = [0; 8];
        assert_eq!((memory.words(low + 8, &mut into), into.get(..3)), (2, Some(&[2, 3, 0][..])));
        assert_eq!((memory.words(low, &mut into), memory.words(low + 24, &mut into)), (0, 0));
        assert_eq!(
            (memory.word(low + 16), memory.word(low + 24), memory.word(low), memory.word(low + 12)),
            (Some(3), None, None, None)
        );
        assert_eq!((memory.pair(low + 8), memory.pair(low + 16), memory.pair(low)), (Some((2, 3)), None, None));
        assert_eq!((Bounded { low: 0, high: 4 }.word(0), Bounded { low: 0, high: 8 }.pair(0)), (None, None));
    }

    #[test]
    fn where_the_call_is_refused_memory_is_read_through_its_file() {
        let values = [7_u64, 8, 9];
        let mut into = [0; 2];
        assert_eq!(read_words_by_file((&raw const values[1]) as u64, &mut into), 2);
        assert_eq!(into, [8, 9]);
        assert_eq!(read_words_by_file(8, &mut into), 0);
    }

    #[test]
    fn the_kernel_refuses_what_is_not_mapped() {
        let value = 99_u64;
        let memory = Asked { low: 0 };
        assert_eq!(memory.word((&raw const value) as u64), Some(99));
        assert_eq!(memory.word(8), None);
        assert_eq!(memory.word((&raw const value) as u64 + 1), None);
    }
}
