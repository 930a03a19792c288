//! Code that really runs where functions of the model are said to lie, in processes whose threads somebody samples.
//!
//! A sampler that interrupts a thread looks where it is. So that this is in a function of the model, a few instructions lie where each of
//! its bodies begins: a frame, and a loop. Elsewhere, and where no memory is given at that place, a thread only says where it is.

use super::code::FIRST_CODE;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes for it. Bodies that lie further up are not executed.
const LENGTH: usize = 64 << 20;

/// push rbp; mov rbp, rsp; again: dec rdi; jnz again; pop rbp; ret.
const BODY: [u64; 2] = [
    u64::from_le_bytes([0x55, 0x48, 0x89, 0xE5, 0x48, 0xFF, 0xCF, 0x75]),
    u64::from_le_bytes([0xFB, 0x5D, 0xC3, 0, 0, 0, 0, 0]),
];

/// Turns of the loop: some microseconds.
const TURNS: u64 = 30_000;

/// Whether there is such memory.
static GIVEN: AtomicBool = AtomicBool::new(false);

/// Gives functions memory to run in, where nothing else has taken the place. Once in a process; where it is not to be had, nothing runs.
pub fn give_the_code_memory() {
    if !cfg!(target_arch = "x86_64") || GIVEN.load(Ordering::SeqCst) {
        return;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: memory at a place that is free, or else it is not given; nobody has a reference into it.
    let given = unsafe { libc::mmap(FIRST_CODE as *mut libc::c_void, LENGTH, access, flags, -1, 0) };
    GIVEN.store(given as u64 == FIRST_CODE, Ordering::SeqCst);
}

/// The running thread is in the body that begins there for a little while, if functions have memory. It must not be freed meanwhile.
pub fn execute(start: u64) {
    let is_inside = (FIRST_CODE..FIRST_CODE + LENGTH as u64 - 16).contains(&start) && start.is_multiple_of(8);
    if !is_inside || !GIVEN.load(Ordering::SeqCst) {
        return;
    }
    // SAFETY: inside the memory above, aligned; everybody writes the same words there, and by atomics only.
    let words = unsafe { &*(start as *const [AtomicU64; 2]) };
    // The beginning comes last: whoever finds it finds the rest.
    words[1].store(BODY[1], Ordering::Release);
    words[0].store(BODY[0], Ordering::Release);
    // SAFETY: the instructions of `BODY` are a function of this kind, which touches its argument and its own frame.
    let body: extern "C" fn(u64) = unsafe { std::mem::transmute(start as *const ()) };
    body(TURNS);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_body_runs_and_comes_back_and_what_lies_elsewhere_is_left_alone() {
        execute(FIRST_CODE);
        give_the_code_memory();
        [FIRST_CODE, FIRST_CODE + 0x1000, 8, FIRST_CODE + LENGTH as u64].into_iter().for_each(execute);
        // SAFETY: memory that was given a moment ago, and stays.
        let first = unsafe { (FIRST_CODE as *const u64).read() };
        assert_eq!(first, BODY[0]);
    }
}
