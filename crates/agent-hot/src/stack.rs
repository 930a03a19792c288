//! The walk along frame pointers, with every read checked before it is made.
//!
//! JIT-compiled and precompiled .NET code on Linux x64 never uses RBP for anything but frames, and the runtime's own libraries
//! are built with frame pointers (dotnet/runtime: `ETW_EBP_FRAMED` in src/coreclr/jit/targetamd64.h,
//! `-fno-omit-frame-pointer` in eng/native/configurecompiler.cmake).
//! The C library is not: in its leaves RBP may hold anything. Then the stack is searched for the first two links of a chain.
//! Small methods have no frame at all: their return addresses are put in where [`crate::Links`] knows of them.

use crate::record::{UNKNOWN_LINK, WINDOW_WORDS};
use crate::{Link, Links, Ranges};
use remora_wire::sample_flags;

/// How far above the stack pointer a chain is searched for when RBP is not one, bytes.
const SEARCH_BYTES: u64 = 2048;

/// Return addresses put in behind one link of the chain, at most.
const MAXIMUM_HIDDEN: usize = 64;

/// Words between a saved frame pointer and the return address, at most: the callee-saved registers pushed before it.
const SAVED_REGISTERS: u64 = 7;

/// The registers of the interrupted thread that matter here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    /// RIP.
    pub instruction: u64,
    /// RSP.
    pub stack: u64,
    /// RBP.
    pub frame: u64,
    /// RAX: the answer of a system call, if the thread has just returned from one.
    pub result: u64,
}

/// What is known of the code that a walk meets.
#[derive(Clone, Copy, Default)]
pub struct Code<'a> {
    /// Where there is code at all.
    pub ranges: Ranges<'a>,
    /// What is known of return addresses.
    pub links: Links<'a>,
}

impl Code<'_> {
    fn contains(&self, address: u64) -> bool {
        self.ranges.contains(address)
    }
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Addresses written.
    pub depth: usize,
    /// Words written of the stack above return addresses of which nothing is known.
    pub windows: usize,
    /// [`sample_flags::TRUNCATED`] and [`sample_flags::BROKEN`].
    pub flags: u8,
}

/// Reads eight bytes of the stack, or not.
pub trait Memory {
    /// The word at `address`, `None` if it may not be read.
    fn word(&self, address: u64) -> Option<u64>;

    /// The word at `address` and the one behind it.
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

/// A stack whose bounds are known: plain reads inside them.
pub struct Bounded {
    /// First address that may be read.
    pub low: u64,
    /// First address beyond.
    pub high: u64,
}

impl Bounded {
    /// Whether so many bytes from `address` on are aligned words of the stack.
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let above = self.high.checked_sub(address);
        address >= self.low && above.is_some_and(|above| above >= bytes) && address.is_multiple_of(8)
    }
}

impl Memory for Bounded {
    #[inline]
    fn word(&self, address: u64) -> Option<u64> {
        // SAFETY: inside the mapping of the running thread's own stack, at or above its stack pointer, aligned: mapped and readable.
        self.holds(address, 8).then(|| unsafe { core::ptr::read_volatile(address as *const u64) })
    }

    #[inline]
    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        // SAFETY: as for one word; the check is of both.
        self.holds(address, 16).then(|| unsafe { core::ptr::read_volatile(address as *const [u64; 2]) }.into())
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        let there = if self.holds(address, 8) { (self.high - address) / 8 } else { 0 };
        let count = into.len().min(there as usize);
        for (place, offset) in into.iter_mut().take(count).zip((0..).step_by(8)) {
            // SAFETY: as for one word; so many whole words lie below the end.
            *place = unsafe { core::ptr::read_volatile((address + offset) as *const u64) };
        }
        count
    }
}

/// A stack whose bounds are not known yet: the kernel reads, and says no instead of faulting.
pub struct Asked {
    /// The stack pointer: nothing below is asked for.
    pub low: u64,
}

impl Memory for Asked {
    fn word(&self, address: u64) -> Option<u64> {
        if address < self.low || !address.is_multiple_of(8) {
            return None;
        }
        read_checked(address).map(u64::from_le_bytes)
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        if address < self.low || !address.is_multiple_of(8) { 0 } else { read_words(address, into) }
    }
}

/// Reads eight bytes of this process anywhere: the kernel says no instead of faulting.
pub fn read_checked(address: u64) -> Option<[u8; 8]> {
    let mut value = [0_u64];
    (read_words(address, &mut value) == 1).then_some(value[0].to_ne_bytes())
}

/// Reads words of this process anywhere, as many as the kernel finds mapped from `address` on.
fn read_words(address: u64, into: &mut [u64]) -> usize {
    let bytes = into.len() * 8;
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
    // SAFETY: one local and one remote vector of the same length; the local one is `into`. A plain system call.
    // Every number has the register's full width: the last argument travels on the stack, and its upper half would be garbage.
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
    // -1 if nothing could be read.
    usize::try_from(read).unwrap_or(0) / 8
}

/// Where a walk writes to.
pub struct Output<'a> {
    /// The leaf's instruction, then return addresses, marked with [`UNKNOWN_LINK`] where nothing is known of their code.
    pub addresses: &'a mut [u64],
    /// For the first of those that are marked: the [`WINDOW_WORDS`] words above each.
    pub windows: &'a mut [u64],
}

/// Writes the leaf's instruction and the return addresses of its callers, leaf first.
pub fn walk(registers: &Registers, memory: &impl Memory, code: &Code, out: Output) -> Walk {
    let mut walker = Walker { memory, code, out, depth: 0, windows: 0 };
    if !walker.push(registers.instruction) {
        return walker.ends(sample_flags::TRUNCATED);
    }
    let Start { mut frame, caller } = chain_start(registers, memory, code);
    if let Some(place) = caller
        && let Some(address) = memory.word(place)
        && !walker.callers(Found { place, address, saved: frame })
    {
        return walker.ends(sample_flags::TRUNCATED);
    }
    let mut lowest = registers.stack;
    loop {
        let Some((saved, address)) = link(memory, frame, lowest) else {
            let ended = frame == 0 || walker.depth > 1;
            return walker.ends(if ended { 0 } else { sample_flags::BROKEN });
        };
        if address < 4096 {
            return walker.ends(0);
        }
        if !walker.callers(Found { place: frame + 8, address, saved }) {
            return walker.ends(sample_flags::TRUNCATED);
        }
        lowest = frame + 16;
        frame = saved;
    }
}

/// A return address on the stack.
struct Found {
    /// Where it is.
    place: u64,
    /// What is there.
    address: u64,
    /// The frame pointer that leads on.
    saved: u64,
}

struct Walker<'a, M> {
    memory: &'a M,
    code: &'a Code<'a>,
    out: Output<'a>,
    depth: usize,
    windows: usize,
}

impl<M: Memory> Walker<'_, M> {
    fn ends(&self, flags: u8) -> Walk {
        Walk { depth: self.depth, windows: self.windows, flags }
    }

    /// Whether there was room.
    #[inline]
    fn push(&mut self, address: u64) -> bool {
        let Some(place) = self.out.addresses.get_mut(self.depth) else { return false };
        *place = address;
        self.depth += 1;
        true
    }

    /// Writes a return address, and those behind it that lie below the next frame. False if there was no room.
    #[inline]
    fn callers(&mut self, found: Found) -> bool {
        match self.code.links.find(found.address) {
            Some(Link::Framed) => self.push(found.address),
            _ => self.hidden_callers(found),
        }
    }

    #[inline(never)]
    fn hidden_callers(&mut self, mut found: Found) -> bool {
        for _ in 0..MAXIMUM_HIDDEN {
            let next = match self.code.links.find(found.address) {
                Some(Link::Framed) => return self.push(found.address),
                Some(Link::Frameless(bytes)) => self.above(&found, bytes),
                Some(Link::Replaced(distance)) => match self.replaced(&found, distance) {
                    Some(next) => {
                        found = next;
                        continue;
                    }
                    None => return self.push(found.address),
                },
                None => None,
            };
            let Some(next) = next else { break };
            if !self.push(found.address) {
                return false;
            }
            found = next;
        }
        self.push_unknown(&found)
    }

    /// The return address above that of a frameless method.
    fn above(&self, found: &Found, bytes: u64) -> Option<Found> {
        let place = found.place.checked_add(8)?.checked_add(bytes)?;
        let address = self.memory.word(place).filter(|address| self.code.contains(*address))?;
        Some(Found { place, address, saved: found.saved })
    }

    /// The return address of a method that was exchanged while it ran ([`Link::Replaced`]). The first body's frame saved the same frame
    /// pointer, which is the proof that it is one and not a call out of that body.
    fn replaced(&self, found: &Found, distance: u64) -> Option<Found> {
        let first = found.place.checked_add(8)?.checked_add(distance)?;
        let (saved, address) = link(self.memory, first, found.place)?;
        (saved == found.saved && self.code.contains(address)).then_some(Found { place: first + 8, address, saved })
    }

    /// Writes a return address whose code is not known to have a frame, and a piece of the stack above it if there is room for that.
    fn push_unknown(&mut self, found: &Found) -> bool {
        if let Some(window) = self.out.windows.get_mut(self.windows..self.windows + WINDOW_WORDS) {
            let copied = self.memory.words(found.place.wrapping_add(8), window);
            window.iter_mut().skip(copied).for_each(|word| *word = 0);
            self.windows += WINDOW_WORDS;
        }
        self.push(found.address | UNKNOWN_LINK)
    }
}

/// The saved frame pointer and return address at `frame`, if it can be a frame at or above `lowest`.
fn link(memory: &impl Memory, frame: u64, lowest: u64) -> Option<(u64, u64)> {
    if frame < lowest {
        return None;
    }
    memory.pair(frame)
}

/// Where the chain of frames begins.
struct Start {
    /// The first frame.
    frame: u64,
    /// Where the leaf's return address is, if not in the chain.
    caller: Option<u64>,
}

/// RBP if it is a frame. Else the first word above the stack pointer that leads to two links of a chain: the frame pointer that
/// the leaf has saved. Its return address is then the first address of code above that word. Else RBP all the same.
fn chain_start(registers: &Registers, memory: &impl Memory, code: &Code) -> Start {
    let as_it_is = Start { frame: registers.frame, caller: None };
    if is_frame(memory, registers.frame, registers.stack, code) {
        return as_it_is;
    }
    let first = registers.stack & !7;
    let mut candidate = first;
    while candidate < first.saturating_add(SEARCH_BYTES) {
        let Some(frame) = memory.word(candidate) else { break };
        if leads_on(memory, frame, candidate.saturating_add(8), code) {
            return Start { frame, caller: return_address(memory, candidate.saturating_add(8), frame, code) };
        }
        candidate += 8;
    }
    as_it_is
}

/// Whether `frame` is one and its caller's frame is one too, or the outermost.
fn leads_on(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    if !is_frame(memory, frame, lowest, code) {
        return false;
    }
    let outer = memory.word(frame).unwrap_or(0);
    outer == 0 || is_frame(memory, outer, frame.saturating_add(16), code)
}

/// Where the first address of code is between a saved frame pointer and the frame that it points to.
fn return_address(memory: &impl Memory, from: u64, to: u64, code: &Code) -> Option<u64> {
    let saved_registers = (0..SAVED_REGISTERS).map(|register| from + register * 8);
    saved_registers.take_while(|at| *at < to).find(|at| memory.word(*at).is_some_and(|word| code.contains(word)))
}

fn is_frame(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    link(memory, frame, lowest).is_some_and(|(_, address)| code.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;
    use std::vec;
    use std::vec::Vec;

    /// A made-up stack: words at 0x1000, 0x1008, ...
    struct Words(Vec<u64>);

    impl Memory for Words {
        fn word(&self, address: u64) -> Option<u64> {
            let offset = address.checked_sub(0x1000)?;
            (offset % 8 == 0).then(|| self.0.get(offset as usize / 8).copied())?
        }
    }

    /// With nothing known, all that is code is taken to have a frame.
    fn run(registers: Registers, stack: Vec<u64>, limit: usize) -> (Vec<u64>, u8) {
        let (addresses, _, flags) = run_with(&[], registers, stack, limit);
        (addresses.iter().map(|address| address & !UNKNOWN_LINK).collect(), flags)
    }

    /// Addresses, windows, flags.
    fn run_with(
        known: &[(u64, Link)],
        registers: Registers,
        stack: Vec<u64>,
        limit: usize,
    ) -> (Vec<u64>, Vec<u64>, u8) {
        let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
        let links = Links::new(&words);
        assert!(known.iter().all(|(address, link)| links.learn(*address, *link)));
        let (mut addresses, mut windows) = (vec![0; limit], vec![99; 3 * WINDOW_WORDS]);
        let code = Code { ranges: Ranges::new(&[0x50_0000, 0x60_0000]), links };
        let out = Output { addresses: &mut addresses, windows: &mut windows };
        let walk = walk(&registers, &Words(stack), &code, out);
        addresses.truncate(walk.depth);
        windows.truncate(walk.windows);
        (addresses, windows, walk.flags)
    }

    fn unknown(address: u64) -> u64 {
        address | UNKNOWN_LINK
    }

    #[test]
    fn a_chain_is_followed_to_its_zero() {
        let stack = vec![0, 0, 0x1020, 0x50_0001, 0, 0x50_0002];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1010, result: 0 };
        assert_eq!(run(registers, stack, 8), (vec![0x50_0000, 0x50_0001, 0x50_0002], 0));
    }

    #[test]
    fn a_cycle_or_a_backward_link_ends_the_walk() {
        let stack = vec![0x1000, 0x50_0001, 0, 0];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        assert_eq!(run(registers, stack, 8).0, vec![0x50_0000, 0x50_0001]);
    }

    #[test]
    fn a_leaf_without_frame_pointer_finds_its_chain_on_the_stack() {
        // A local, the saved frame pointer, another saved register, the return address; then two frames.
        let stack = vec![7, 0x1020, 3, 0x50_0009, 0x1030, 0x50_0001, 0, 0x50_0002];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0xdead, result: 0 };
        assert_eq!(run(registers, stack, 8).0, vec![0x50_0000, 0x50_0009, 0x50_0001, 0x50_0002]);
    }

    #[test]
    fn a_method_exchanged_while_it_ran_is_met_once_and_its_caller_is_not_lost() {
        // The optimised body's frame; the first body's: two locals, what it saved, its return address; two more frames.
        let stack = vec![0x1040, 0x51_0042, 7, 7, 0x1040, 0x50_0001, 3, 3, 0x1050, 0x50_0002, 0, 0x50_0003];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        let framed = [0x50_0001, 0x50_0002, 0x50_0003].map(|address| (address, Link::Framed));
        let known = [(0x51_0042, Link::Replaced(0x10)), framed[0], framed[1], framed[2]];
        let addresses = |stack| run_with(&known, registers, stack, 8).0;
        assert_eq!(addresses(stack.clone()), [0x50_0000, 0x50_0001, 0x50_0002, 0x50_0003]);
        // A call out of the first body looks like it, but for what lies where its caller's frame would have been saved.
        let mut call = stack;
        call[4] = 0x1048;
        assert_eq!(addresses(call), [0x50_0000, 0x51_0042, 0x50_0002, 0x50_0003]);
    }

    #[test]
    fn the_callers_of_frameless_methods_are_put_in() {
        // The leaf's frame, called from a frameless method with 8 bytes, from another one with 24, from one with a frame.
        let stack = vec![0x1048, 0x50_0001, 7, 0x50_0002, 7, 7, 7, 0x50_0003, 7, 0, 0x50_0004];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        let known = [
            (0x50_0001, Link::Frameless(8)),
            (0x50_0002, Link::Frameless(24)),
            (0x50_0003, Link::Framed),
            (0x50_0004, Link::Framed),
        ];
        let all = vec![0x50_0000, 0x50_0001, 0x50_0002, 0x50_0003, 0x50_0004];
        assert_eq!(run_with(&known, registers, stack.clone(), 8), (all.clone(), vec![], 0));
        for limit in 1..5 {
            let cut = (all[..limit].to_vec(), vec![], sample_flags::TRUNCATED);
            assert_eq!(run_with(&known, registers, stack.clone(), limit), cut);
        }
        // What lies there is no address of code: the agent's thread is to look.
        let mut other = stack;
        other[3] = 0x99;
        let (addresses, windows, _) = run_with(&known, registers, other, 8);
        assert_eq!(addresses, [0x50_0000, unknown(0x50_0001), 0x50_0004]);
        assert_eq!(windows[..3], [7, 0x99, 7]);
    }

    #[test]
    fn of_what_is_not_known_the_stack_above_is_kept_as_long_as_there_is_room() {
        let mut stack: Vec<u64> = (0..5).flat_map(|at| [0x1010 + at * 0x10, 0x50_0001 + at]).collect();
        stack.extend([0, 0x50_0009]);
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        let (addresses, windows, _) = run_with(&[(0x50_0002, Link::Framed)], registers, stack.clone(), 8);
        let marked = [0x50_0003, 0x50_0004, 0x50_0005, 0x50_0009].map(unknown);
        assert_eq!(addresses[..3], [0x50_0000, unknown(0x50_0001), 0x50_0002]);
        assert_eq!(addresses[3..], marked);
        assert_eq!(windows.len(), 3 * WINDOW_WORDS, "one for each, as far as there was room");
        assert_eq!(windows[..10], stack[2..]);
        assert_eq!(windows[10..WINDOW_WORDS], [0; WINDOW_WORDS - 10], "beyond the stack");
        assert_eq!(windows[WINDOW_WORDS..WINDOW_WORDS + 6], stack[6..]);
    }

    #[test]
    fn frameless_methods_that_never_end_do() {
        let stack = vec![0x50_0001; 4096];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1ff0, result: 0 };
        let (addresses, ..) = run_with(&[(0x50_0001, Link::Frameless(0))], registers, stack, 512);
        assert_eq!(addresses.len(), 1 + MAXIMUM_HIDDEN + 1);
    }

    #[test]
    fn nothing_to_follow_is_marked_broken_and_too_deep_is_marked_truncated() {
        let registers = Registers { instruction: 1, stack: 0x1000, frame: 0xdead, result: 0 };
        assert_eq!(run(registers, vec![0; 4], 8), (vec![1], sample_flags::BROKEN));
        let stack = vec![0x1010, 0x50_0001, 0x1020, 0x50_0002, 0, 0x50_0003];
        let registers = Registers { instruction: 1, stack: 0x1000, frame: 0x1000, result: 0 };
        assert_eq!(run(registers, stack, 2), (vec![1, 0x50_0001], sample_flags::TRUNCATED));
    }

    #[test]
    fn of_a_stack_nothing_is_read_beyond_its_end() {
        let stack = [1_u64, 2, 3, 4];
        let low = stack.as_ptr() as u64;
        let memory = Bounded { low: low + 8, high: low + 24 };
        let mut into = [0; 8];
        assert_eq!((memory.words(low + 8, &mut into), into[..3].to_vec()), (2, vec![2, 3, 0]));
        assert_eq!((memory.words(low, &mut into), memory.words(low + 24, &mut into)), (0, 0));
        assert_eq!(
            (memory.word(low + 16), memory.word(low + 24), memory.word(low), memory.word(low + 12)),
            (Some(3), None, None, None)
        );
        assert_eq!((memory.pair(low + 8), memory.pair(low + 16), memory.pair(low)), (Some((2, 3)), None, None));
        assert_eq!((Bounded { low: 0, high: 4 }.word(0), Bounded { low: 0, high: 8 }.pair(0)), (None, None));
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
