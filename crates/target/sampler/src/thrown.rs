//! A thrown exception with the stack of its thread, on that thread, in the runtime's callback.
//!
//! The worker learns the bounds of a thread's stack from its first sample or exception. Before that the kernel copies the stack in pieces.
//! Programs can throw more than 10,000 exceptions a second. All are counted, but only [`STACKS`] of a [`SPAN`] have a stack.

use crate::handler::{capture, trusted_end};
use crate::memory::{Bounded, Memory, read_words};
use crate::record::{LEAF_WORDS, MAXIMUM_DEPTH, RawSample, SCRATCH_WORDS, THROWN};
use crate::session::Session;
use crate::stack::{Code, Output, Registers};
use crate::{Native, Ranges, clock};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use remora_wire::layout;

/// Nanoseconds.
const SPAN: u64 = 10_000_000;
/// 5,000 a second.
const STACKS: u64 = 50;

/// Attempts to count one against other threads.
const TRIES: usize = 8;

/// Words of one piece.
const PIECE: usize = 1024;

/// Pushes an exception that the calling thread throws, unless sampling has ended. `about` gives the thread's id and the ClassID; it is called
/// for exceptions with a stack only. Never waits, allocates or locks.
pub fn thrown(session: &Session, about: impl FnOnce() -> (u32, u64)) {
    session.count(layout::THROWN);
    // A thread that replaces a published table frees the old one only after it saw 0 here.
    session.inside.fetch_add(1, Ordering::SeqCst);
    if session.armed.load(Ordering::SeqCst) && has_stack(&session.thrown, clock::monotonic()) {
        push(session, about(), &here());
    }
    session.inside.fetch_sub(1, Ordering::SeqCst);
}

/// Whether an exception at `now` is among the first [`STACKS`] of its span. `counted`: the number of a span, shifted, and of its stacks.
fn has_stack(counted: &AtomicU64, now: u64) -> bool {
    let span = (now / SPAN) << 16;
    for _ in 0..TRIES {
        let before = counted.load(Ordering::Relaxed);
        let next = if before >> 16 == span >> 16 { before + 1 } else { span + 1 };
        if next - span > STACKS {
            return false;
        }
        if counted.compare_exchange_weak(before, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return true;
        }
    }
    false
}

/// Needs some 20 KiB of stack, and 8 KiB more before the bounds are known.
#[inline(never)]
fn push(session: &Session, (thread, class): (u32, u64), registers: &Registers) {
    let low = registers.stack & !7;
    let (index, end) = session.slot_of(thread).map_or((THROWN - 1, 0), |(index, slot)| {
        let is_its_stack = slot.stack_low.load(Ordering::Relaxed) <= low;
        (index, if is_its_stack { trusted_end(session, slot, thread, low) } else { 0 })
    });
    // SAFETY: `thrown` keeps `inside` raised until this function returns.
    let (ranges, native) = unsafe { (session.table(&session.ranges), session.table(&session.native)) };
    let code = Code { ranges: Ranges::new(ranges), links: session.links, native: Native::new(native) };
    let mut scratch = [0; SCRATCH_WORDS];
    let (addresses, rest) = scratch.split_at_mut(MAXIMUM_DEPTH);
    let (window, windows) = rest.split_at_mut(LEAF_WORDS);
    let out = Output { addresses: &mut *addresses, windows: &mut *windows };
    let (found, in_window) = if low < end {
        capture(registers, &Bounded { low, high: end }, &code, out, window)
    } else {
        let pieces = Pieces { low, from: Cell::new(low), count: Cell::new(0), words: Cell::new([0; PIECE]) };
        capture(registers, &pieces, &code, out, window)
    };
    session.push_thrown(&RawSample {
        thread,
        slot: THROWN | index,
        flags: found.flags,
        time: clock::monotonic(),
        weight: class,
        stack_pointer: registers.stack,
        frame_pointer: registers.frame,
        addresses: addresses.get(..found.depth).unwrap_or_default(),
        window: window.get(..in_window).unwrap_or_default(),
        windows: windows.get(..found.windows).unwrap_or_default(),
    });
}

/// A stack. The piece that was read last is copied.
struct Pieces {
    /// The stack pointer: nothing below is read.
    low: u64,
    /// The address of the piece.
    from: Cell<u64>,
    /// Its words that could be read.
    count: Cell<usize>,
    words: Cell<[u64; PIECE]>,
}

impl Pieces {
    /// The copied words from `address` on, without system calls.
    fn copied(&self, address: u64) -> &[Cell<u64>] {
        let words: &Cell<[u64]> = &self.words;
        let offset = address.checked_sub(self.from.get()).map_or(usize::MAX, |offset| offset as usize / 8);
        words.as_slice_of_cells().get(offset..self.count.get()).unwrap_or_default()
    }

    /// At least `wanted` words from `address` on, if they can be read.
    fn at(&self, address: u64, wanted: usize) -> &[Cell<u64>] {
        if address < self.low || !address.is_multiple_of(8) {
            return &[];
        }
        if self.copied(address).len() < wanted {
            let mut words = [0; PIECE];
            self.count.set(read_words(address, &mut words));
            self.from.set(address);
            self.words.set(words);
        }
        self.copied(address)
    }
}

impl Memory for Pieces {
    fn word(&self, address: u64) -> Option<u64> {
        self.at(address, 1).first().map(Cell::get)
    }

    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        match self.at(address, 2) {
            [first, second, ..] => Some((first.get(), second.get())),
            _ => None,
        }
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        let words = self.at(address, into.len());
        into.iter_mut().zip(words).for_each(|(place, word)| *place = word.get());
        words.len().min(into.len())
    }
}

/// The registers of the calling function.
#[inline(always)]
fn here() -> Registers {
    let (instruction, stack, frame): (u64, u64, u64);
    // SAFETY: only copies registers.
    unsafe {
        core::arch::asm!(
            "lea {}, [rip]",
            "mov {}, rsp",
            "mov {}, rbp",
            out(reg) instruction,
            out(reg) stack,
            out(reg) frame,
            options(nomem, nostack, preserves_flags)
        );
    }
    Registers { instruction, stack, frame, result: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_exceptions_the_first_of_each_span_have_a_stack() {
        let counted = AtomicU64::new(0);
        let with_stack = |now| (0..3 * STACKS).filter(|_| has_stack(&counted, now)).count() as u64;
        for now in [SPAN, 2 * SPAN, 2 * SPAN + 1, 9 * SPAN, u64::MAX] {
            assert_eq!(with_stack(now), if now == 2 * SPAN + 1 { 0 } else { STACKS });
        }
    }

    #[test]
    fn pieces_have_the_words_of_the_stack_and_nothing_below_it_or_beyond_its_mapping() {
        let stack: std::vec::Vec<u64> = (0..3 * PIECE as u64).collect();
        let low = stack.as_ptr() as u64;
        let pieces = Pieces { low, from: Cell::new(low), count: Cell::new(0), words: Cell::new([0; PIECE]) };
        for index in [0, 1, PIECE as u64 - 1, PIECE as u64, 2, 2 * PIECE as u64 + 7] {
            assert_eq!(pieces.word(low + 8 * index), Some(index));
            assert_eq!(pieces.pair(low + 8 * index), Some((index, index + 1)));
        }
        let mut some = [0; 4];
        assert_eq!((pieces.words(low + 8 * 1022, &mut some), some), (4, [1022, 1023, 1024, 1025]));
        assert_eq!((pieces.word(low - 8), pieces.word(low + 4), pieces.word(low.wrapping_neg())), (None, None, None));
    }
}
