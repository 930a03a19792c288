//! The walk along frame pointers, with every read checked before it is made.
//!
//! JIT-compiled and precompiled .NET code on Linux x64 never uses RBP for anything but frames, and the runtime's own libraries
//! are built with frame pointers (dotnet/runtime: `ETW_EBP_FRAMED` in src/coreclr/jit/targetamd64.h,
//! `-fno-omit-frame-pointer` in eng/native/configurecompiler.cmake).
//! The C library is not: in its leaves RBP may hold anything. Then the stack is searched for the first two links of a chain.

use crate::{Ranges, Replaced};
use remora_wire::sample_flags;

/// How far above the stack pointer a chain is searched for when RBP is not one, bytes.
const SEARCH_BYTES: u64 = 2048;

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
    /// [`sample_flags::TRUNCATED`] and [`sample_flags::BROKEN`].
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
pub fn walk(registers: &Registers, memory: &impl Memory, code: &Code, out: &mut [u64]) -> Walk {
    let Some(leaf) = out.first_mut() else { return Walk { depth: 0, flags: sample_flags::TRUNCATED } };
    *leaf = registers.instruction;
    let mut depth = 1;
    let Start { mut frame, caller } = chain_start(registers, memory, code);
    if let (Some(address), Some(place)) = (caller, out.get_mut(depth)) {
        *place = address;
        depth += 1;
    }
    let mut lowest = registers.stack;
    loop {
        let link = link(memory, frame, lowest);
        let Some((caller, address)) = link else {
            let ended = frame == 0 || depth > 1;
            return Walk { depth, flags: if ended { 0 } else { sample_flags::BROKEN } };
        };
        if address < 4096 {
            return Walk { depth, flags: 0 };
        }
        let Some(place) = out.get_mut(depth) else { return Walk { depth, flags: sample_flags::TRUNCATED } };
        *place = true_caller(memory, frame, caller, address, code).unwrap_or(address);
        depth += 1;
        lowest = frame + 16;
        frame = caller;
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

    fn run(registers: Registers, stack: Vec<u64>, limit: usize) -> (Vec<u64>, u8) {
        let mut out = vec![0; limit];
        let code = Code {
            ranges: Ranges::new(&[0x50_0000, 0x60_0000]),
            replaced: Replaced::new(&[0x51_0000, 0x51_0100, 0x10]),
        };
        let walk = walk(&registers, &Words(stack), &code, &mut out);
        out.truncate(walk.depth);
        (out, walk.flags)
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
        assert_eq!(run(registers, stack.clone(), 8).0, vec![0x50_0000, 0x50_0001, 0x50_0002, 0x50_0003]);
        // A call out of the first body looks like it, but for what lies where its caller's frame would have been saved.
        let mut call = stack;
        call[4] = 0x1048;
        assert_eq!(run(registers, call, 8).0, vec![0x50_0000, 0x51_0042, 0x50_0002, 0x50_0003]);
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
