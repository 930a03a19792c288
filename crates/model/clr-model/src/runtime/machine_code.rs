//! Real machine code at the addresses of the model's functions, for processes whose threads are sampled.
//!
//! A sampler interrupts a thread and reads its instruction pointer. So that it points into a function of the model, each body begins with a
//! few instructions: a frame, and a loop. Elsewhere, or without memory at that address, a thread only reports its place.

use super::code::FIRST_CODE;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes for it. Bodies at higher addresses are not executed.
const LENGTH: usize = 64 << 20;

/// push rbp; mov rbp, rsp; again: dec rdi; jnz again; pop rbp; ret.
const BODY: [u64; 2] = [
    u64::from_le_bytes([0x55, 0x48, 0x89, 0xE5, 0x48, 0xFF, 0xCF, 0x75]),
    u64::from_le_bytes([0xFB, 0x5D, 0xC3, 0, 0, 0, 0, 0]),
];

/// Turns of the loop: some microseconds.
const TURNS: u64 = 30_000;

/// Whether the memory is mapped.
static GIVEN: AtomicBool = AtomicBool::new(false);

/// Maps executable memory for functions, if the address range is free. Call it once in a process. Without memory, nothing runs.
pub fn give_the_code_memory() {
    if !cfg!(target_arch = "x86_64") || GIVEN.load(Ordering::SeqCst) {
        return;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: `MAP_FIXED_NOREPLACE` maps only a free range, so no reference points into it.
    let given = unsafe { libc::mmap(FIRST_CODE as *mut libc::c_void, LENGTH, access, flags, -1, 0) };
    GIVEN.store(given as u64 == FIRST_CODE, Ordering::SeqCst);
}

/// The running thread executes the body at `start` for a moment, if functions have memory. The body must not be freed in the meantime.
pub fn execute(start: u64) {
    let is_inside = (FIRST_CODE..FIRST_CODE + LENGTH as u64 - 16).contains(&start) && start.is_multiple_of(8);
    if !is_inside || !GIVEN.load(Ordering::SeqCst) {
        return;
    }
    // SAFETY: aligned and inside the memory above; every thread writes the same words, and only by atomics.
    let words = unsafe { &*(start as *const [AtomicU64; 2]) };
    // The first word is written last: a thread that sees it sees the rest.
    words[1].store(BODY[1], Ordering::Release);
    words[0].store(BODY[0], Ordering::Release);
    // SAFETY: the instructions of `BODY` are a function of this type, and touch only their argument and their own frame.
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
        // SAFETY: this memory was just mapped, and stays mapped.
        let first = unsafe { (FIRST_CODE as *const u64).read() };
        assert_eq!(first, BODY[0]);
    }
}
