//! Thread-local storage without the C library: a table of the library that contains this crate has the data of each thread.
//!
//! # Purpose
//! The C library notes when a library with thread-local storage is loaded or unloaded. Every thread then updates a record at its next use
//! of *any* library's storage. On x64 glibc has a bug there. A signal may interrupt the update, and its handler may use such storage, too.
//! The thread then gets a new, empty block for the library whose storage it asked for, and loses the old one
//! (`docs/design/0009-no-thread-local-storage.md`). The runtime's handler does so at every suspension: a thread of the application loses
//! its identity, and the process crashes. So this library has no such storage, and cannot trigger the bug.
//!
//! # How
//! The compiler calls `__tls_get_addr` for the block of the calling thread. This file defines that name, visible only in this library: it
//! returns a block of the table below. `crates/remora/build.rs` embeds the library, and removes the program header that announces the
//! storage. It also refuses storage that is larger than a block or does not begin as zeros.
//!
//! # Design constraints
//! Callable from anywhere, even from a signal handler on a thread that is in this code: it neither waits nor allocates.
//!
//! # Rejected
//! Avoiding the parts of `std` with thread-locals: panics count themselves in one, and a panic must be caught.
//! `pthread_getspecific`: it needs memory for each thread, which must be freed when the thread ends.

mod backtrace;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Words of a block, the same number as in `crates/remora/build.rs`. std's data of a thread takes five.
const WORDS: usize = 8;
/// Threads that may have a block. Each attach has up to three threads; a thread of the application has a block only if a callback panicked on it.
const BLOCKS: usize = 256;

/// The data of one thread.
#[repr(C, align(64))]
struct Block {
    words: UnsafeCell<[usize; WORDS]>,
}

// SAFETY: only the thread in `OWNERS` accesses a block's words.
unsafe impl Sync for Block {}

static BLOCK: [Block; BLOCKS + 1] = [const { Block { words: UnsafeCell::new([0; WORDS]) } }; BLOCKS + 1];

/// The thread of each block, by its pointer (`fs:0`); 0 for none. Our threads give their blocks back. Under musl the library is never
/// unmapped, and serves any number of attaches.
static OWNERS: [AtomicUsize; BLOCKS] = [const { AtomicUsize::new(0) }; BLOCKS];

#[cfg(not(test))]
std::arch::global_asm!(
    // Hidden, so that only this library's calls come here. The caller may not have aligned its stack.
    ".hidden __tls_get_addr",
    ".globl __tls_get_addr",
    ".type __tls_get_addr, @function",
    "__tls_get_addr:",
    "push rbp",
    "mov rbp, rsp",
    "and rsp, -16",
    "call {answer}",
    "leave",
    "ret",
    ".size __tls_get_addr, . - __tls_get_addr",
    answer = sym answer,
);

/// The compiler's argument (x86-64 ELF ABI, thread-local storage): the module, and the offset in its block.
#[repr(C)]
struct Index {
    /// Always this library.
    _module: usize,
    offset: usize,
}

extern "C" fn answer(index: &Index) -> *mut u8 {
    let block = BLOCK[block_of(&OWNERS, this_thread())].words.get();
    block.cast::<u8>().wrapping_add(index.offset)
}

/// Must be called first on a thread of ours. An ended thread may have had the same address, and left data in the block.
pub fn begin_thread() {
    let block = BLOCK[block_of(&OWNERS, this_thread())].words.get();
    // SAFETY: the calling thread's own block. It has no borrow yet.
    unsafe { block.write([0; WORDS]) };
}

/// Must be called last on a thread of ours.
pub fn end_thread() {
    give_back(&OWNERS, this_thread());
}

/// The pointer to the thread's control block, unique among living threads.
fn this_thread() -> usize {
    let thread: usize;
    // SAFETY: on x64 the word at fs:0 has its own address (x86-64 ELF ABI, thread-local storage).
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags)) };
    thread
}

/// Finds or takes a thread's block. If all are taken, later threads share one. Two panics on two of them at once would then count as a
/// panic in a panic.
fn block_of(owners: &[AtomicUsize; BLOCKS], thread: usize) -> usize {
    // Control blocks are at least a page apart.
    let own = found(owners, thread);
    own.or_else(|| places(thread).find(|index| is_owned(&owners[*index], thread))).unwrap_or(BLOCKS)
}

/// The thread's block. Searches all: blocks before it may have been given back since.
fn found(owners: &[AtomicUsize; BLOCKS], thread: usize) -> Option<usize> {
    places(thread).find(|index| owners[*index].load(Ordering::Relaxed) == thread)
}

/// The blocks in the order in which a thread tries them.
fn places(thread: usize) -> impl Iterator<Item = usize> {
    (0..BLOCKS).map(move |step| ((thread >> 12) % BLOCKS + step) % BLOCKS)
}

/// Frees this thread's block for other threads.
fn give_back(owners: &[AtomicUsize; BLOCKS], thread: usize) {
    if let Some(index) = found(owners, thread) {
        owners[index].store(0, Ordering::Relaxed);
    }
}

/// Whether a block is this thread's; takes it if it is free. A signal handler on the same thread may have been faster.
fn is_owned(owner: &AtomicUsize, thread: usize) -> bool {
    let found = match owner.load(Ordering::Relaxed) {
        0 => owner.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(thread),
        other => other,
    };
    found == thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_block_and_keeps_it_and_who_comes_too_late_shares_one() {
        let owners = [const { AtomicUsize::new(0) }; BLOCKS];
        let block_of_page = |number: usize| block_of(&owners, number << 12);
        let blocks: Vec<usize> = (1..=BLOCKS).map(|number| block_of_page(number * 7)).collect();
        let mut different = blocks.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), BLOCKS);
        let again: Vec<usize> = (1..=BLOCKS).map(|number| block_of_page(number * 7)).collect();
        assert_eq!(again, blocks);
        assert_eq!(block_of_page(3), BLOCKS);
        give_back(&owners, 7 << 12);
        assert_eq!(block_of_page(3), blocks[0], "the place of a thread that has ended");
    }

    #[test]
    fn a_thread_keeps_its_block_when_one_that_it_had_passed_over_is_given_back() {
        let owners = [const { AtomicUsize::new(0) }; BLOCKS];
        let [first, second] = [5_usize, 5 + BLOCKS].map(|page| page << 12);
        let blocks = [first, second].map(|thread| block_of(&owners, thread));
        assert_ne!(blocks[0], blocks[1]);
        give_back(&owners, first);
        assert_eq!(block_of(&owners, second), blocks[1]);
        give_back(&owners, second);
        assert!(owners.iter().all(|owner| owner.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn each_thread_finds_what_it_has_put_there_until_it_begins_anew() {
        let place = || answer(&Index { _module: 0, offset: 8 }).cast::<usize>();
        let read_after = |before: fn()| {
            before();
            // SAFETY: the calling thread's own block.
            unsafe { place().read() }
        };
        // SAFETY: the calling thread's own block.
        unsafe { place().write(7) };
        assert_eq!(std::thread::scope(|scope| scope.spawn(|| read_after(|| ())).join().expect("it ends")), 0);
        assert_eq!(read_after(|| ()), 7);
        assert_eq!(read_after(begin_thread), 0);
    }
}
