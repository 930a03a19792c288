//! The walk along frame pointers. Each read is checked first.
//!
//! JIT-compiled and precompiled .NET code on Linux x64 uses RBP only for frames. The runtime's own libraries are built with frame pointers.
//! (dotnet/runtime: `ETW_EBP_FRAMED` in src/coreclr/jit/targetamd64.h, `-fno-omit-frame-pointer` in eng/native/configurecompiler.cmake.)
//! The C library and others are not: the walk unwinds them with the collector's tables (`native.rs`). In a leaf without a table, RBP may
//! hold anything. The walk then searches the stack for the first two links of a chain. Small methods have no frame at all. The walk adds
//! their return addresses where [`crate::Links`] has them.

use crate::memory::{Asked, Memory};
use crate::native::{Activation, Native, Step};
use crate::record::{EXACT, UNKNOWN_LINK, WINDOW_WORDS};
use crate::{Link, Links, Ranges};
use remora_wire::sample_flags;

/// How far above the stack pointer a chain is searched for when RBP is not one, bytes.
const SEARCH_BYTES: u64 = 2048;

/// Lookups in the link table during one `climb`, at most.
const MAXIMUM_HIDDEN: usize = 64;

/// No code lies below: the kernel keeps the first page unmapped.
const LOWEST_CODE: u64 = 4096;

/// Words between a saved frame pointer and the return address, at most: the callee-saved registers pushed before it.
const SAVED_REGISTERS: u64 = 7;

/// The registers of the interrupted thread that a walk needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    /// RIP.
    pub instruction: u64,
    /// RSP.
    pub stack: u64,
    /// RBP.
    pub frame: u64,
    /// RAX: the result of a system call, if the thread has just returned from one.
    pub result: u64,
}

/// The known facts about code.
#[derive(Clone, Copy, Default)]
pub struct Code<'a> {
    /// The ranges with code.
    pub ranges: Ranges<'a>,
    /// The link table.
    pub links: Links<'a>,
    /// Unwind tables of native code.
    pub native: Native<'a>,
}

impl Code<'_> {
    fn contains(&self, address: u64) -> bool {
        self.ranges.contains(address)
    }
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Addresses written.
    pub depth: usize,
    /// Stack words written to [`Output::windows`].
    pub windows: usize,
    /// [`sample_flags::TRUNCATED`], [`sample_flags::BROKEN`] and [`EXACT`].
    pub flags: u8,
}

/// The destination of a walk's result.
pub struct Output<'a> {
    /// The leaf's instruction, then return addresses. Those in unknown code are marked with [`UNKNOWN_LINK`].
    pub addresses: &'a mut [u64],
    /// The [`WINDOW_WORDS`] stack words above each marked address, for as many as fit.
    pub windows: &'a mut [u64],
}

/// Writes the leaf's instruction and its callers' return addresses, leaf first.
///
/// The stack is complete if a thread begins at its last address, by the tables. Otherwise the walk is [`sample_flags::BROKEN`].
pub fn walk(registers: &Registers, memory: &impl Memory, code: &Code, out: Output) -> Walk {
    let mut walker = Walker { memory, code, out, depth: 0, windows: 0 };
    let leaf = Activation {
        instruction: registers.instruction,
        stack: registers.stack,
        frame: registers.frame,
        interrupted: true,
    };
    let first = walker.climb(leaf);
    let is_exact = walker.depth > 1 || matches!(first, Climb::Elsewhere(_));
    let exact = if is_exact { EXACT } else { 0 };
    match walker.rest(first) {
        Ok(flags) => walker.ends(flags | exact),
        Err(at) => {
            let other = Asked { low: at.stack & !7 };
            let mut walker = walker.on(&other);
            let first = walker.climb(at);
            let flags = walker.rest(first).unwrap_or(sample_flags::BROKEN);
            walker.ends(flags | exact)
        }
    }
}

/// Where a climb ended, after it wrote an activation and its callers.
enum Climb {
    /// At the beginning of the thread.
    Root,
    /// There is no room for more.
    Full,
    /// At code to leave along the frame chain.
    Chain(Activation),
    /// At code whose caller no table gives.
    Lost(Activation),
    /// At a function that a signal interrupted, on a stack that `memory` does not read. It is not written yet.
    Elsewhere(Activation),
}

/// What follows an activation.
enum Next {
    /// Its caller.
    Caller(Activation),
    /// The caller of an OSR method. The activation is its first body; the optimised body, already written, represents both.
    FirstBody(Activation),
    /// Follow the frame chain.
    Frame,
    /// The code is unknown: assume a frame, and follow the chain.
    Unknown,
    /// The climb ends here.
    Ends(Climb),
}

/// Where a chain of callers ended.
enum Chain {
    /// At code for `climb`. It is not written yet.
    Leads(Activation),
    /// There is no room for more.
    Full,
    /// At the last frame.
    Ends,
}

struct Walker<'a, M> {
    memory: &'a M,
    code: &'a Code<'a>,
    out: Output<'a>,
    depth: usize,
    windows: usize,
}

impl<'a, M: Memory> Walker<'a, M> {
    /// The same walk on another stack.
    fn on<N: Memory>(self, memory: &'a N) -> Walker<'a, N> {
        let Walker { code, out, depth, windows, .. } = self;
        Walker { memory, code, out, depth, windows }
    }

    fn ends(&self, flags: u8) -> Walk {
        Walk { depth: self.depth, windows: self.windows, flags }
    }

    /// Follows the frame chain and returns the flags. The error is a function that a signal interrupted on another stack. The bounds of one
    /// stack only are known, so the kernel has to read the other.
    fn rest(&mut self, first: Climb) -> Result<u8, Activation> {
        let mut climbed = first;
        loop {
            let (frame, lowest) = match climbed {
                Climb::Root => return Ok(0),
                Climb::Full => return Ok(sample_flags::TRUNCATED),
                Climb::Elsewhere(at) => return Err(at),
                Climb::Chain(at) if !at.interrupted => (at.frame, at.stack),
                Climb::Chain(at) | Climb::Lost(at) => {
                    let Start { frame, caller } = chain_start(&at, self.memory, self.code);
                    if let Some(caller) = caller {
                        climbed = self.climb(caller);
                        continue;
                    }
                    (frame, at.stack)
                }
            };
            climbed = match self.known_callers(frame, lowest) {
                Chain::Leads(at) => self.climb(at),
                Chain::Full => return Ok(sample_flags::TRUNCATED),
                Chain::Ends if self.is_whole() => return Ok(0),
                Chain::Ends => return Ok(sample_flags::BROKEN),
            };
        }
    }

    /// The fast path: writes return addresses while their methods' frames are known. Most of a stack is like this.
    #[inline]
    fn known_callers(&mut self, first: u64, lowest: u64) -> Chain {
        let Some((mut frame, mut address)) = caller_of_frame(self.memory, first, lowest) else { return Chain::Ends };
        // Above the saved frame pointer and the return address.
        let mut stack = first.saturating_add(16);
        loop {
            let (next, behind) = match self.code.links.find(address) {
                Some(Link::Framed) => (caller_of_frame(self.memory, frame, stack), frame.saturating_add(16)),
                Some(Link::Frameless(bytes)) => {
                    let place = stack.saturating_add(bytes);
                    (self.word_of_code(place).map(|next| (frame, next)), place.saturating_add(8))
                }
                _ => (None, 0),
            };
            let Some(next) = next else {
                // The code has no such link, or no caller: `climb` finds out.
                return Chain::Leads(Activation { instruction: address, stack, frame, interrupted: false });
            };
            if !self.push(address) {
                return Chain::Full;
            }
            stack = behind;
            (frame, address) = next;
        }
    }

    /// The stack word at `place`, if it is an address of code.
    fn word_of_code(&self, place: u64) -> Option<u64> {
        self.memory.word(place).filter(|address| self.code.contains(*address))
    }

    /// Whether the stack is complete, if the chain ends at the last address.
    fn is_whole(&self) -> bool {
        let last = self.depth.checked_sub(1).filter(|last| *last > 0);
        let address = last.and_then(|last| self.out.addresses.get(last));
        address.is_some_and(|address| self.code.native.ends_at(address & !UNKNOWN_LINK))
    }

    /// Writes an activation and its callers, as far as unwind tables and links lead. Each takes room, so the loop ends.
    fn climb(&mut self, from: Activation) -> Climb {
        let (mut at, mut hidden) = (from, 0);
        loop {
            match self.next(&at, &mut hidden) {
                Next::Caller(caller) => {
                    if !self.push(self.shown(&at)) {
                        return Climb::Full;
                    }
                    if caller.interrupted && self.memory.word(caller.stack & !7).is_none() {
                        return Climb::Elsewhere(caller);
                    }
                    at = caller;
                }
                Next::FirstBody(first) => at = first,
                Next::Frame if self.push(self.shown(&at)) => return Climb::Chain(at),
                Next::Unknown if self.push_unknown(&at) => return Climb::Chain(at),
                Next::Ends(climb) if self.push(self.shown(&at)) => return climb,
                Next::Frame | Next::Unknown | Next::Ends(_) => return Climb::Full,
            }
        }
    }

    /// `hidden` counts the lookups in the link table.
    fn next(&self, at: &Activation, hidden: &mut usize) -> Next {
        match self.code.native.step(at, self.memory) {
            Step::Caller(caller) if caller.instruction >= LOWEST_CODE => return Next::Caller(caller),
            Step::Caller(_) | Step::Unknown => return Next::Ends(Climb::Lost(*at)),
            Step::End => return Next::Ends(Climb::Root),
            Step::Chain => {}
        }
        // The leaf is not a return address.
        if self.depth == 0 {
            return Next::Frame;
        }
        *hidden += 1;
        match self.code.links.find(self.shown(at)).filter(|_| *hidden <= MAXIMUM_HIDDEN) {
            Some(Link::Framed | Link::Native) => Next::Frame,
            Some(Link::Frameless(bytes)) => self.above(at, bytes).map_or(Next::Unknown, Next::Caller),
            Some(Link::Replaced(distance)) => self.replaced(at, distance).map_or(Next::Frame, Next::FirstBody),
            None => Next::Unknown,
        }
    }

    /// The address to write. Return addresses are moved back into the call later, so an interrupted instruction is moved forward here. The
    /// leaf's stays.
    fn shown(&self, at: &Activation) -> u64 {
        if self.depth == 0 { at.instruction } else { at.shown() }
    }

    /// Returns whether there was room.
    #[inline]
    fn push(&mut self, address: u64) -> bool {
        let Some(place) = self.out.addresses.get_mut(self.depth) else { return false };
        *place = address;
        self.depth += 1;
        true
    }

    /// The caller of a frameless method.
    fn above(&self, at: &Activation, bytes: u64) -> Option<Activation> {
        let place = at.stack.checked_add(bytes)?;
        Some(caller_at(place, self.word_of_code(place)?, at.frame))
    }

    /// The caller of an OSR method ([`Link::Replaced`]), from its first body. If the first body's frame saved the same frame pointer, the
    /// optimised body runs on top of it. Otherwise this is a call out of the first body.
    fn replaced(&self, at: &Activation, distance: u64) -> Option<Activation> {
        let first = at.stack.checked_add(distance)?;
        let (saved, address) = link(self.memory, first, at.stack.checked_sub(8)?)?;
        (saved == at.frame && self.code.contains(address)).then_some(caller_at(first + 8, address, saved))
    }

    /// Writes a return address in code without a known frame. Adds the stack words above it, if there is room.
    fn push_unknown(&mut self, at: &Activation) -> bool {
        if let Some(window) = self.out.windows.get_mut(self.windows..self.windows + WINDOW_WORDS) {
            let copied = self.memory.words(at.stack, window);
            window.iter_mut().skip(copied).for_each(|word| *word = 0);
            self.windows += WINDOW_WORDS;
        }
        self.push(self.shown(at) | UNKNOWN_LINK)
    }
}

/// The caller that continues at a return address. `place` is its location on the stack, `frame` the caller's frame pointer.
fn caller_at(place: u64, address: u64, frame: u64) -> Activation {
    Activation { instruction: address, stack: place.wrapping_add(8), frame, interrupted: false }
}

/// The saved frame pointer and return address at `frame`, if it can be a frame at or above `lowest`.
#[inline]
fn link(memory: &impl Memory, frame: u64, lowest: u64) -> Option<(u64, u64)> {
    if frame < lowest {
        return None;
    }
    memory.pair(frame)
}

/// The saved frame pointer and return address at `frame`, if the latter can be an address of code.
#[inline]
fn caller_of_frame(memory: &impl Memory, frame: u64, lowest: u64) -> Option<(u64, u64)> {
    link(memory, frame, lowest).filter(|(_, address)| *address >= LOWEST_CODE)
}

/// The beginning of the frame chain.
struct Start {
    /// The first frame.
    frame: u64,
    /// The leaf's caller, if it is not in the chain.
    caller: Option<Activation>,
}

/// RBP if it is a frame. Otherwise the first word above the stack pointer that leads to two links of a chain: the leaf's saved frame
/// pointer. Its return address is then the first address of code above that word. If there is no such word, RBP anyway.
fn chain_start(at: &Activation, memory: &impl Memory, code: &Code) -> Start {
    let as_it_is = Start { frame: at.frame, caller: None };
    if is_frame(memory, at.frame, at.stack, code) {
        return as_it_is;
    }
    let first = at.stack & !7;
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

/// Whether `frame` is a frame, and its caller's frame is one, too, or the outermost.
fn leads_on(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    if !is_frame(memory, frame, lowest, code) {
        return false;
    }
    let outer = memory.word(frame).unwrap_or(0);
    outer == 0 || is_frame(memory, outer, frame.saturating_add(16), code)
}

/// The caller at the first address of code between a saved frame pointer and the frame it points to.
fn return_address(memory: &impl Memory, from: u64, to: u64, code: &Code) -> Option<Activation> {
    let saved_registers = (0..SAVED_REGISTERS).map(|register| from + register * 8).take_while(|at| *at < to);
    let words = saved_registers.filter_map(|at| Some((at, memory.word(at)?)));
    let (place, address) = words.into_iter().find(|(_, word)| code.contains(*word))?;
    Some(caller_at(place, address, to))
}

fn is_frame(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    link(memory, frame, lowest).is_some_and(|(_, address)| code.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::Words;
    use core::sync::atomic::AtomicU64;
    use remora_wire::unwind::{Module, Rule, encode, row};
    use std::vec;
    use std::vec::Vec;

    /// Code starts at 0x50_0000. A thread begins at 0x5f_0000. Functions at 0x58_0000 have 32 bytes and no frame pointer; RBP is in their
    /// second word. Those at 0x58_0100 have no rule. A signal returns at 0x58_0200.
    fn table() -> Vec<u64> {
        let rows = [
            row(0, Rule::Stack { cfa: 32, saved: 24 }),
            row(0x100, Rule::Unknown),
            row(0x200, Rule::Signal),
            row(0, Rule::End),
        ];
        let module =
            |start, first, count| Module { start, end: start + 0x1000, base: start, first, count, framed: false };
        encode(&[module(0x58_0000, 0, 3), module(0x5f_0000, 3, 1)], &rows)
    }

    /// Without links, the walk assumes that all code has a frame.
    fn run(registers: Registers, stack: Vec<u64>, limit: usize) -> (Vec<u64>, u8) {
        let (addresses, _, flags) = run_with(&[], registers, stack, limit);
        (addresses.iter().map(|address| address & !UNKNOWN_LINK).collect(), flags)
    }

    /// Returns addresses, windows, flags.
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
        let table = table();
        let code = Code { ranges: Ranges::new(&[0x50_0000, 0x60_0000]), links, native: Native::new(&table[1..]) };
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
    fn native_code_without_frames_is_left_by_its_table_at_the_leaf_and_in_the_middle() {
        let stack = [
            // The leaf and its caller, both without a frame.
            [7, 0xdead, 7, 0x58_0010],
            [7, 0x1048, 7, 0x50_0001],
            // A frame. Its return address is in such code again.
            [7, 0xdead, 0x58_0020, 7],
            [0x1098, 7, 0x50_0002, 7],
            // The outermost frame.
            [7, 7, 7, 0],
            [0x5f_0001, 7, 7, 7],
        ]
        .concat();
        let registers = Registers { instruction: 0x58_0000, stack: 0x1000, frame: 0xbeef, result: 0 };
        let expected = vec![0x58_0000, 0x58_0010, 0x50_0001, 0x58_0020, 0x50_0002, 0x5f_0001];
        assert_eq!(run(registers, stack, 8), (expected, EXACT));
    }

    #[test]
    fn a_stack_is_whole_only_if_it_ends_where_a_thread_begins() {
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        assert_eq!(run(registers, vec![0, 0x5f_0001], 8), (vec![0x50_0000, 0x5f_0001], 0));
        assert_eq!(run(registers, vec![0, 0x50_0001], 8), (vec![0x50_0000, 0x50_0001], sample_flags::BROKEN));
        // Through code without a rule, the walk follows the frames as far as they lead.
        let unknown = vec![0x1010, 0x58_0101, 0, 0x5f_0001];
        assert_eq!(run(registers, unknown, 8), (vec![0x50_0000, 0x58_0101, 0x5f_0001], 0));
    }

    #[test]
    fn a_chain_is_followed_to_its_zero() {
        let stack = vec![0, 0, 0x1020, 0x50_0001, 0, 0x50_0002];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1010, result: 0 };
        assert_eq!(run(registers, stack, 8).0, vec![0x50_0000, 0x50_0001, 0x50_0002]);
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
        // A call out of the first body looks the same, except for the word where its caller's frame would have been saved.
        let mut call = stack;
        call[4] = 0x1048;
        assert_eq!(addresses(call), [0x50_0000, 0x51_0042, 0x50_0002, 0x50_0003]);
    }

    #[test]
    fn the_callers_of_frameless_methods_are_put_in() {
        // The leaf's frame. Its callers: a frameless method with 8 bytes, another with 24, one with a frame.
        let stack = vec![0x1048, 0x50_0001, 7, 0x50_0002, 7, 7, 7, 0x50_0003, 7, 0, 0x5f_0001];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        let known = [(0x50_0001, Link::Frameless(8)), (0x50_0002, Link::Frameless(24)), (0x50_0003, Link::Framed)];
        let all = vec![0x50_0000, 0x50_0001, 0x50_0002, 0x50_0003, 0x5f_0001];
        assert_eq!(run_with(&known, registers, stack.clone(), 8), (all.clone(), vec![], 0));
        for limit in 1..5 {
            let cut = (all[..limit].to_vec(), vec![], sample_flags::TRUNCATED);
            assert_eq!(run_with(&known, registers, stack.clone(), limit), cut);
        }
        // That word is not an address of code: the worker must look.
        let mut other = stack;
        other[3] = 0x99;
        let (addresses, windows, _) = run_with(&known, registers, other, 8);
        assert_eq!(addresses, [0x50_0000, unknown(0x50_0001), 0x5f_0001]);
        assert_eq!(windows[..3], [7, 0x99, 7]);
    }

    #[test]
    fn native_code_by_table_and_callers_of_frameless_methods_follow_each_other() {
        let stack = [
            // The native leaf, called by a frameless method with 8 bytes.
            [7, 0x1080, 7, 0x50_0001],
            // Native code called that method, and a frameless method called the native code.
            [7, 0x58_0010, 7, 0x1080],
            [7, 0x50_0002, 7, 0x50_0003],
            [7; 4],
            // The frame of the next caller.
            [0, 0x5f_0001, 7, 7],
        ]
        .concat();
        let registers = Registers { instruction: 0x58_0000, stack: 0x1000, frame: 0xbeef, result: 0 };
        let known = [(0x50_0001, Link::Frameless(8)), (0x50_0002, Link::Frameless(8)), (0x50_0003, Link::Framed)];
        let expected = vec![0x58_0000, 0x50_0001, 0x58_0010, 0x50_0002, 0x50_0003, 0x5f_0001];
        assert_eq!(run_with(&known, registers, stack.clone(), 8), (expected, vec![], EXACT));
        // The worker gets the stack above an unknown method.
        let (addresses, windows, flags) = run_with(&known[1..], registers, stack.clone(), 8);
        assert_eq!((addresses, flags), (vec![0x58_0000, unknown(0x50_0001), 0x5f_0001], EXACT));
        assert_eq!(windows[..6], stack[4..10]);
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
    fn frameless_methods_without_an_end_take_all_room_and_no_more() {
        let stack = vec![0x50_0001; 4096];
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1ff0, result: 0 };
        let (addresses, ..) = run_with(&[(0x50_0001, Link::Frameless(0))], registers, stack, 512);
        assert_eq!(addresses.len(), 512);
    }

    #[test]
    fn a_signal_handler_on_a_stack_of_its_own_leads_back_to_the_other_stack() {
        let other: [u64; 8] = [0, 0x50_0001, 7, 7, 0, 0x5f_0001, 7, 7];
        let at = |index: usize| (&raw const other[index]) as u64;
        let mut stack = vec![0; 30];
        // The kernel stored RBP, RSP and RIP. The interrupted function keeps a frame pointer.
        (stack[15], stack[20], stack[21]) = (at(4), at(2), 0x50_0042);
        let registers = Registers { instruction: 0x58_0200, stack: 0x1000, frame: 0, result: 0 };
        assert_eq!(run(registers, stack.clone(), 8), (vec![0x58_0200, 0x50_0043, 0x5f_0001], EXACT));
        // The same from a function with a frame, called by the handler.
        stack.splice(0..0, [0, 0x58_0201]);
        let registers = Registers { instruction: 0x50_0000, stack: 0x1000, frame: 0x1000, result: 0 };
        assert_eq!(run(registers, stack, 8), (vec![0x50_0000, 0x58_0201, 0x50_0043, 0x5f_0001], 0));
    }

    #[test]
    fn nothing_to_follow_is_marked_broken_and_too_deep_is_marked_truncated() {
        let registers = Registers { instruction: 1, stack: 0x1000, frame: 0xdead, result: 0 };
        assert_eq!(run(registers, vec![0; 4], 8), (vec![1], sample_flags::BROKEN));
        let stack = vec![0x1010, 0x50_0001, 0x1020, 0x50_0002, 0, 0x50_0003];
        let registers = Registers { instruction: 1, stack: 0x1000, frame: 0x1000, result: 0 };
        assert_eq!(run(registers, stack, 2), (vec![1, 0x50_0001], sample_flags::TRUNCATED));
    }
}
