//! A sample of a blocked thread, read by the sampler's own thread. The blocked thread gets no signal and sleeps on.
//!
//! The kernel shows where a thread entered a system call: instruction and stack pointer (`/proc/PID/task/TID/syscall`, Linux
//! `Documentation/filesystems/proc.rst`). It does not show RBP. But the functions on the way into a wait save RBP, so the stack has it.
//! If the unwind tables do not lead to that place, the thread needs a signal.

use crate::memory::{Asked, Memory};
use crate::record::{LEAF_WORDS, MAXIMUM_DEPTH, RawSample, SCRATCH_WORDS};
use crate::session::Session;
use crate::stack::{Code, Output, Registers, walk};
use crate::{Native, Ranges, clock};
use core::sync::atomic::Ordering;
use remora_wire::{layout, sample_flags};

/// Stack words copied at once. The walk reads deeper ones when it needs them.
const COPIED_WORDS: usize = 2048;

/// A thread in a system call, and the weight of its sample.
#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    /// The thread.
    pub thread: u32,
    /// Index of its slot.
    pub slot: u32,
    /// The instruction after `syscall`.
    pub instruction: u64,
    /// RSP there.
    pub stack: u64,
    /// Nanoseconds.
    pub weight: u64,
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It is in the ring.
    Taken,
    /// The ring was full.
    Lost,
    /// The thread has run meanwhile.
    Moved,
    /// The unwind tables do not lead to the saved RBP.
    NeedsSignal,
}

/// Room for reading one stack.
pub struct StackReader {
    copied: [u64; COPIED_WORDS],
    scratch: [u64; SCRATCH_WORDS],
}

impl Default for StackReader {
    /// Some 30 KiB: too large for a stack.
    fn default() -> Self {
        StackReader { copied: [0; COPIED_WORDS], scratch: [0; SCRATCH_WORDS] }
    }
}

impl StackReader {
    /// Walks the stack of `at` and pushes the sample. `has_slept` returns whether the thread has not run since the kernel showed its
    /// registers.
    pub fn sample(&mut self, session: &Session, at: &Blocked, has_slept: impl FnOnce() -> bool) -> Reading {
        // A thread that replaces a published table frees the old one only after it saw 0 here.
        session.inside.fetch_add(1, Ordering::SeqCst);
        let reading = self.sample_inside(session, at, has_slept);
        session.inside.fetch_sub(1, Ordering::SeqCst);
        reading
    }

    fn sample_inside(&mut self, session: &Session, at: &Blocked, has_slept: impl FnOnce() -> bool) -> Reading {
        let asked = Asked { low: at.stack & !7 };
        let copied = asked.words(asked.low, &mut self.copied);
        let memory = Copied { words: self.copied.get(..copied).unwrap_or_default(), asked };
        // SAFETY: `sample` keeps `inside` raised until this function returns.
        let (ranges, native) = unsafe { (session.table(&session.ranges), session.table(&session.native)) };
        let code = Code { ranges: Ranges::new(ranges), links: session.links, native: Native::new(native) };
        let Some(frame) = code.native.frame_of_system_call(at.instruction, at.stack, &memory) else {
            return Reading::NeedsSignal;
        };
        let (addresses, rest) = self.scratch.split_at_mut(MAXIMUM_DEPTH);
        let (window, windows) = rest.split_at_mut(LEAF_WORDS);
        let registers = Registers { instruction: at.instruction, stack: at.stack, frame, result: 0 };
        let found = walk(&registers, &memory, &code, Output { addresses: &mut *addresses, windows: &mut *windows });
        let in_window = memory.words(memory.asked.low, window);
        if !has_slept() {
            return Reading::Moved;
        }
        session.count(layout::TAKEN);
        session.count(layout::WALKED);
        let sample = RawSample {
            thread: at.thread,
            slot: at.slot,
            flags: sample_flags::BLOCKED | found.flags | session.collecting(at.thread),
            time: clock::monotonic(),
            weight: at.weight,
            stack_pointer: at.stack,
            frame_pointer: frame,
            addresses: addresses.get(..found.depth).unwrap_or_default(),
            window: window.get(..in_window).unwrap_or_default(),
            windows: windows.get(..found.windows).unwrap_or_default(),
        };
        if session.push(&sample) { Reading::Taken } else { Reading::Lost }
    }
}

/// A copy of a stack, as far as there was room.
struct Copied<'a> {
    /// From `asked.low` on.
    words: &'a [u64],
    asked: Asked,
}

impl Copied<'_> {
    /// The copied words from `address` on.
    fn from(&self, address: u64) -> Option<&[u64]> {
        let offset = address.checked_sub(self.asked.low).filter(|offset| offset.is_multiple_of(8))?;
        self.words.get(offset as usize / 8..)
    }
}

impl Memory for Copied<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        self.from(address).and_then(|words| words.first().copied()).or_else(|| self.asked.word(address))
    }

    fn pair(&self, address: u64) -> Option<(u64, u64)> {
        match self.from(address) {
            Some([first, second, ..]) => Some((*first, *second)),
            _ => self.asked.pair(address),
        }
    }

    fn words(&self, address: u64, into: &mut [u64]) -> usize {
        match self.from(address).and_then(|words| words.get(..into.len())) {
            Some(words) => into.copy_from_slice(words),
            None => return self.asked.words(address, into),
        }
        into.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Links;
    use core::sync::atomic::AtomicU64;
    use remora_ring::{HEADER_WORDS, Ring};
    use remora_wire::unwind::{Module, Rule, encode, row};
    use std::vec;
    use std::vec::Vec;

    /// Code from 0x5000 on: 16 bytes for each rule. A thread begins at 0x6000.
    fn table(rules: &[Rule]) -> Vec<u64> {
        let rows: Vec<u64> = (0..).zip(rules).map(|(index, rule)| row(index * 16, *rule)).collect();
        let module =
            |start, first, count| Module { start, end: start + 0x1000, base: start, first, count, framed: false };
        let count = rows.len() as u32;
        encode(&[module(0x5000, 0, count), module(0x6000, count, 1)], &[rows, vec![row(0, Rule::End)]].concat())
    }

    /// Reads a sample from this stack of words, some of which are offsets into it, in a call at 0x5004. The thread may have `ran`
    /// meanwhile.
    fn reading(rules: &[Rule], offsets: &[usize], mut stack: Vec<u64>, ran: bool) -> (Reading, Vec<u64>) {
        let start = stack.as_ptr() as u64;
        offsets.iter().for_each(|at| stack[*at] += start);
        let words: Vec<AtomicU64> = (0..HEADER_WORDS + 256).map(|_| AtomicU64::new(0)).collect();
        let counters: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let session = Session::new(Ring::new(&words).expect("a ring"), &counters, &[], Links::default(), false);
        let table = table(rules);
        session.native.store(table.as_ptr().cast_mut(), Ordering::SeqCst);
        let at = Blocked { thread: 7, slot: 3, instruction: 0x5004, stack: start, weight: 99 };
        let reading = StackReader::default().sample(&session, &at, || !ran);
        assert_eq!(session.inside.load(Ordering::SeqCst), 0);
        let mut record = vec![];
        let popped = session.ring.pop(|word| record.push(word));
        assert_eq!(popped.is_some(), reading == Reading::Taken);
        assert_eq!(counters[layout::TAKEN].load(Ordering::Relaxed), u64::from(reading == Reading::Taken));
        let sample = RawSample::decode(&record).unwrap_or_default();
        assert!(popped.is_none() || (sample.thread, sample.slot, sample.weight) == (7, 3, 99));
        assert!(popped.is_none() || sample.flags & sample_flags::BLOCKED != 0);
        (reading, sample.addresses.iter().map(|address| address & !crate::UNKNOWN_LINK).collect())
    }

    /// The call's function does not use RBP. Its caller has saved it, and was called by code with a frame.
    const RULES: [Rule; 2] = [Rule::Stack { cfa: 16, saved: 0 }, Rule::Stack { cfa: 24, saved: 16 }];

    fn stack() -> Vec<u64> {
        // Two functions, then a frame at the seventh word.
        let frames = [[1, 0x5014, 2, 48], [0x7001, 3, 0, 0x6001]].concat();
        [frames, vec![0; 8]].concat()
    }

    #[test]
    fn the_saved_frame_pointer_leads_to_the_callers() {
        let (reading, addresses) = reading(&RULES, &[3], stack(), false);
        assert_eq!((reading, addresses), (Reading::Taken, vec![0x5004, 0x5014, 0x7001, 0x6001]));
    }

    #[test]
    fn a_thread_that_has_run_meanwhile_has_no_sample() {
        assert_eq!(reading(&RULES, &[3], stack(), true), (Reading::Moved, vec![]));
    }

    #[test]
    fn where_nobody_saved_the_frame_pointer_a_signal_is_needed() {
        let unsaved = Rule::Stack { cfa: 16, saved: 0 };
        let frame = Rule::Frame { cfa: 16, saved: 16 };
        for rules in [&[unsaved, frame][..], &[unsaved, unsaved], &[frame], &[Rule::Unknown], &[Rule::Signal], &[]] {
            assert_eq!(reading(rules, &[3], stack(), false), (Reading::NeedsSignal, vec![]), "{rules:?}");
        }
    }

    #[test]
    fn a_stack_deeper_than_the_copy_is_read_to_its_end() {
        let mut deep = stack();
        deep.resize(COPIED_WORDS + 64, 0);
        let last = COPIED_WORDS + 32;
        // The frame's link leads beyond the copy.
        (deep[6], deep[7], deep[last + 1]) = (last as u64 * 8, 0x7002, 0x6001);
        let (reading, addresses) = reading(&RULES, &[3, 6], deep, false);
        assert_eq!((reading, addresses), (Reading::Taken, vec![0x5004, 0x5014, 0x7001, 0x7002, 0x6001]));
    }
}
