//! The walk along frame pointers, with every read checked before it is made.
//!
//! JIT-compiled and precompiled .NET code on Linux x64 never uses RBP for anything but frames, and the runtime's own libraries
//! are built with frame pointers (dotnet/runtime: `ETW_EBP_FRAMED` in src/coreclr/jit/targetamd64.h,
//! `-fno-omit-frame-pointer` in eng/native/configurecompiler.cmake).
//! The C library and others are not: through them the walk goes by the collector's tables (`native.rs`). In a leaf without a table RBP may
//! hold anything, and the stack is searched for the first two links of a chain.

use crate::native::{Activation, Native, Step};
use crate::record::EXACT;
use crate::{Ranges, Replaced};
use remora_wire::sample_flags;

/// How far above the stack pointer a chain is searched for when RBP is not one, bytes.
const SEARCH_BYTES: u64 = 2048;

/// No code lies below: the kernel keeps the first page unmapped.
const LOWEST_CODE: u64 = 4096;

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
    /// Methods that were exchanged while they ran.
    pub replaced: Replaced<'a>,
    /// How to leave native code.
    pub native: Native<'a>,
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
    /// [`sample_flags::TRUNCATED`], [`sample_flags::BROKEN`] and [`EXACT`].
    pub flags: u8,
}

/// Reads eight bytes of the stack, or not.
pub trait Memory {
    /// The word at `address`, `None` if it may not be read.
    fn word(&self, address: u64) -> Option<u64>;
}

/// A stack whose bounds are known: plain reads inside them.
pub struct Bounded {
    /// First address that may be read.
    pub low: u64,
    /// First address beyond.
    pub high: u64,
}

impl Memory for Bounded {
    fn word(&self, address: u64) -> Option<u64> {
        let inside = address >= self.low && address <= self.high.saturating_sub(8) && address.is_multiple_of(8);
        // SAFETY: inside the mapping of the running thread's own stack, at or above its stack pointer, aligned: mapped and readable.
        inside.then(|| unsafe { core::ptr::read_volatile(address as *const u64) })
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
}

/// Reads eight bytes of this process anywhere: the kernel says no instead of faulting.
pub fn read_checked(address: u64) -> Option<[u8; 8]> {
    let mut value = [0_u8; 8];
    let local = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 8 };
    // SAFETY: one local and one remote vector of eight bytes; the local one is `value`. A plain system call.
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
    (read == 8).then_some(value)
}

/// Writes the leaf's instruction and the return addresses of its callers into `out`, leaf first.
///
/// The stack is whole if its last address is where a thread begins, by the tables; else the walk is [`sample_flags::BROKEN`].
pub fn walk(registers: &Registers, memory: &impl Memory, code: &Code, out: &mut [u64]) -> Walk {
    let mut found = Found { addresses: out, depth: 0 };
    let leaf = Activation {
        instruction: registers.instruction,
        stack: registers.stack,
        frame: registers.frame,
        interrupted: true,
    };
    if !found.push(leaf.instruction) {
        return Walk { depth: 0, flags: sample_flags::TRUNCATED };
    }
    let first = climb(leaf, memory, code, &mut found);
    let exact = if found.depth > 1 { EXACT } else { 0 };
    let flags = rest(first, memory, code, &mut found).unwrap_or_else(|at| {
        let other = Asked { low: at.stack & !7 };
        let first = climb(at, &other, code, &mut found);
        rest(first, &other, code, &mut found).unwrap_or(sample_flags::BROKEN)
    });
    Walk { depth: found.depth, flags: flags | exact }
}

/// Goes on from where the first steps have led, along the chain of frames, and by the tables again where they cover a caller. The flags;
/// or whom a signal has interrupted on another stack: the bounds of one stack only are known, and the kernel has to read the other.
fn rest(first: Climb, memory: &impl Memory, code: &Code, found: &mut Found) -> Result<u8, Activation> {
    let mut climbed = first;
    loop {
        let (frame, lowest) = match climbed {
            Climb::Root => return Ok(0),
            Climb::Full => return Ok(sample_flags::TRUNCATED),
            Climb::Chain(at) if !at.interrupted => (at.frame, at.stack),
            Climb::Chain(at) | Climb::Lost(at) if at.interrupted && memory.word(at.stack & !7).is_none() => {
                return Err(at);
            }
            Climb::Chain(at) | Climb::Lost(at) => {
                let Start { frame, caller } = chain_start(&at, memory, code);
                if caller.is_some_and(|address| !found.push(address)) {
                    return Ok(sample_flags::TRUNCATED);
                }
                (frame, at.stack)
            }
        };
        let Some((saved, address)) = link(memory, frame, lowest).filter(|(_, address)| *address >= LOWEST_CODE) else {
            let whole = found.last().is_some_and(|last| code.native.ends_at(last));
            return Ok(if whole { 0 } else { sample_flags::BROKEN });
        };
        let instruction = true_caller(memory, frame, saved, address, code).unwrap_or(address);
        if !found.push(instruction) {
            return Ok(sample_flags::TRUNCATED);
        }
        let caller = Activation { instruction, stack: frame + 16, frame: saved, interrupted: false };
        climbed = climb(caller, memory, code, found);
    }
}

/// The addresses found so far.
struct Found<'a> {
    addresses: &'a mut [u64],
    depth: usize,
}

impl Found<'_> {
    /// Adds an address; false if there is no room.
    fn push(&mut self, address: u64) -> bool {
        let Some(place) = self.addresses.get_mut(self.depth) else { return false };
        *place = address;
        self.depth += 1;
        true
    }

    /// The outermost return address, if there is one.
    fn last(&self) -> Option<u64> {
        self.addresses.get(self.depth.checked_sub(1).filter(|last| *last > 0)?).copied()
    }
}

/// Where steps by the tables have led.
enum Climb {
    /// To where the thread begins.
    Root,
    /// There is no room for more.
    Full,
    /// To code from which the chain of frames leads on.
    Chain(Activation),
    /// To code whose caller no table knows.
    Lost(Activation),
}

/// Steps by the tables as far as they lead. Each step takes room, so that there is an end to them.
fn climb(from: Activation, memory: &impl Memory, code: &Code, found: &mut Found) -> Climb {
    let mut at = from;
    loop {
        match code.native.step(&at, memory) {
            Step::Caller(caller) if caller.instruction >= LOWEST_CODE => {
                if !found.push(caller.shown()) {
                    return Climb::Full;
                }
                at = caller;
            }
            Step::Caller(_) | Step::Unknown => return Climb::Lost(at),
            Step::End => return Climb::Root,
            Step::Chain => return Climb::Chain(at),
        }
    }
}

/// The saved frame pointer and return address at `frame`, if it can be a frame at or above `lowest`.
fn link(memory: &impl Memory, frame: u64, lowest: u64) -> Option<(u64, u64)> {
    if frame < lowest {
        return None;
    }
    Some((memory.word(frame)?, memory.word(frame.checked_add(8)?)?))
}

/// The return address of a method that was exchanged while it ran: see [`crate::Replaced`]. The first body's frame saved the same frame
/// pointer, which is the proof that it is one and not a call out of that body.
fn true_caller(memory: &impl Memory, frame: u64, caller: u64, address: u64, code: &Code) -> Option<u64> {
    let first = frame.checked_add(16)?.checked_add(code.replaced.distance(address)?)?;
    let (saved, found) = link(memory, first, frame)?;
    (saved == caller && code.contains(found)).then_some(found)
}

/// Where the chain of frames begins.
struct Start {
    /// The first frame.
    frame: u64,
    /// The leaf's return address, where the chain does not hold it.
    caller: Option<u64>,
}

/// RBP if it is a frame. Else the first word above the stack pointer that leads to two links of a chain: the frame pointer that
/// the leaf has saved. Its return address is then the first address of code above that word. Else RBP all the same.
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

/// Whether `frame` is one and its caller's frame is one too, or the outermost.
fn leads_on(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    if !is_frame(memory, frame, lowest, code) {
        return false;
    }
    let outer = memory.word(frame).unwrap_or(0);
    outer == 0 || is_frame(memory, outer, frame.saturating_add(16), code)
}

/// The first address of code between a saved frame pointer and the frame that it points to.
fn return_address(memory: &impl Memory, from: u64, to: u64, code: &Code) -> Option<u64> {
    let saved_registers = (0..SAVED_REGISTERS).map(|register| from + register * 8);
    saved_registers.take_while(|at| *at < to).find_map(|at| memory.word(at).filter(|word| code.contains(*word)))
}

fn is_frame(memory: &impl Memory, frame: u64, lowest: u64, code: &Code) -> bool {
    link(memory, frame, lowest).is_some_and(|(_, address)| code.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_wire::unwind::{Module, Rule, encode, row};
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

    /// There is code at 0x50_0000. A thread begins at 0x5f_0000. At 0x58_0000 functions have 32 bytes and no frame pointer; RBP is in their
    /// second word. Nothing is known of 0x58_0100. A signal returns at 0x58_0200.
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

    fn run(registers: Registers, stack: Vec<u64>, limit: usize) -> (Vec<u64>, u8) {
        let mut out = vec![0; limit];
        let table = table();
        let code = Code {
            ranges: Ranges::new(&[0x50_0000, 0x60_0000]),
            replaced: Replaced::new(&[0x51_0000, 0x51_0100, 0x10]),
            native: Native::new(&table[1..]),
        };
        let walk = walk(&registers, &Words(stack), &code, &mut out);
        out.truncate(walk.depth);
        (out, walk.flags)
    }

    #[test]
    fn native_code_without_frames_is_left_by_its_table_at_the_leaf_and_in_the_middle() {
        let stack = [
            // The leaf and its caller, both without a frame.
            [7, 0xdead, 7, 0x58_0010],
            [7, 0x1048, 7, 0x50_0001],
            // A frame, whose return address is into such code again.
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
        // What the table does not know is followed along the frames, as far as they lead.
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
        assert_eq!(run(registers, stack.clone(), 8).0, vec![0x50_0000, 0x50_0001, 0x50_0002, 0x50_0003]);
        // A call out of the first body looks like it, but for what lies where its caller's frame would have been saved.
        let mut call = stack;
        call[4] = 0x1048;
        assert_eq!(run(registers, call, 8).0, vec![0x50_0000, 0x51_0042, 0x50_0002, 0x50_0003]);
    }

    #[test]
    fn a_signal_handler_on_a_stack_of_its_own_leads_back_to_the_other_stack() {
        let other: [u64; 8] = [0, 0x50_0001, 7, 7, 0, 0x5f_0001, 7, 7];
        let at = |index: usize| (&raw const other[index]) as u64;
        let mut stack = vec![0; 30];
        // What the kernel stored: RBP, RSP, RIP. Whoever was interrupted keeps a frame pointer.
        (stack[15], stack[20], stack[21]) = (at(4), at(2), 0x50_0042);
        let registers = Registers { instruction: 0x58_0200, stack: 0x1000, frame: 0, result: 0 };
        assert_eq!(run(registers, stack.clone(), 8), (vec![0x58_0200, 0x50_0043, 0x5f_0001], EXACT));
        // The same from a function that the handler has called, which has a frame.
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

    #[test]
    fn the_kernel_refuses_what_is_not_mapped() {
        let value = 99_u64;
        let memory = Asked { low: 0 };
        assert_eq!(memory.word((&raw const value) as u64), Some(99));
        assert_eq!(memory.word(8), None);
        assert_eq!(memory.word((&raw const value) as u64 + 1), None);
    }
}
