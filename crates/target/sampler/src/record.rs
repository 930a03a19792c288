//! A raw sample on its way from the handler to the worker.

use remora_wire::sample_flags;

/// Words from the stack pointer on, sent with each sample. The worker finds the caller of a frameless leaf in them.
pub const LEAF_WORDS: usize = 32;

/// Stack words above a return address without a link, sent with the sample for the same reason.
pub const WINDOW_WORDS: usize = 16;

/// The maximum of such windows in a sample. Further return addresses have none.
const MAXIMUM_WINDOWS: usize = 64;

/// Marks a return address without a link.
pub const UNKNOWN_LINK: u64 = 1 << 63;

/// A flag of [`RawSample`] only: an unwind table gave the leaf's caller. It has the bit of a flag that only the worker sets.
pub const EXACT: u8 = sample_flags::REPAIRED;

/// Marks the slot of a raw sample that is a thrown exception. Its weight is the ClassID.
pub const THROWN: u32 = 1 << 31;

/// The deepest stack. A deeper one is cut at the root's side, and its sample marked.
pub const MAXIMUM_DEPTH: usize = 512;

/// Room to build a sample.
pub(crate) type Scratch = [u64; SCRATCH_WORDS];
pub(crate) const SCRATCH_WORDS: usize = MAXIMUM_DEPTH + LEAF_WORDS + MAXIMUM_WINDOWS * WINDOW_WORDS;

const FIXED_WORDS: usize = 6;

/// A sample with unresolved instruction addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawSample<'a> {
    /// The thread.
    pub thread: u32,
    /// Index of its slot.
    pub slot: u32,
    /// [`remora_wire::sample_flags`] and [`EXACT`].
    pub flags: u8,
    /// Monotonic time, nanoseconds.
    pub time: u64,
    /// Its weight, nanoseconds.
    pub weight: u64,
    /// The stack pointer.
    pub stack_pointer: u64,
    /// The frame pointer register, unchecked.
    pub frame_pointer: u64,
    /// The leaf's instruction, then return addresses. Those without a link have [`UNKNOWN_LINK`].
    pub addresses: &'a [u64],
    /// Words of the stack from the stack pointer on; fewer than [`LEAF_WORDS`] near the end of the stack.
    pub window: &'a [u64],
    /// For each marked return address, the [`WINDOW_WORDS`] stack words above it, as far as there was room.
    pub windows: &'a [u64],
}

impl<'a> RawSample<'a> {
    /// The words before addresses and windows.
    pub(crate) fn fixed(&self) -> [u64; FIXED_WORDS] {
        [
            u64::from(self.flags)
                | (self.addresses.len() as u64) << 16
                | (self.window.len() as u64) << 32
                | (self.windows.len() as u64) << 48,
            u64::from(self.thread) | u64::from(self.slot) << 32,
            self.time,
            self.weight,
            self.stack_pointer,
            self.frame_pointer,
        ]
    }

    /// A sample without addresses and windows, as a record of the ring.
    pub fn words(&self) -> [u64; FIXED_WORDS] {
        RawSample { addresses: &[], window: &[], windows: &[], ..self.clone() }.fixed()
    }

    /// Decodes a record of the ring; `None` if it is invalid.
    pub fn decode(words: &'a [u64]) -> Option<RawSample<'a>> {
        let (fixed, rest) = words.split_first_chunk::<FIXED_WORDS>()?;
        let depth = (fixed[0] >> 16) as usize & 0xffff;
        let (addresses, rest) = rest.split_at_checked(depth)?;
        let (window, windows) = rest.split_at_checked((fixed[0] >> 32) as usize & 0xffff)?;
        (windows.len() == (fixed[0] >> 48) as usize).then_some(RawSample {
            thread: fixed[1] as u32,
            slot: (fixed[1] >> 32) as u32,
            flags: fixed[0] as u8,
            time: fixed[2],
            weight: fixed[3],
            stack_pointer: fixed[4],
            frame_pointer: fixed[5],
            addresses,
            window,
            windows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_sample_comes_back_as_it_was() {
        let sample = RawSample {
            thread: 7,
            slot: 3,
            flags: 5,
            time: 1,
            weight: 2,
            stack_pointer: 3,
            frame_pointer: 4,
            addresses: &[10, 20, 30],
            window: &[1, 2],
            windows: &[5, 6, 7],
        };
        let mut words: Vec<u64> = sample.fixed().to_vec();
        words.extend_from_slice(sample.addresses);
        words.extend_from_slice(sample.window);
        words.extend_from_slice(sample.windows);
        assert_eq!(RawSample::decode(&words), Some(sample));
        for cut in 0..words.len() {
            assert_eq!(RawSample::decode(&words[..cut]), None);
        }
    }
}
