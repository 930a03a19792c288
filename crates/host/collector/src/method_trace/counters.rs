//! The shared memory of a trace, and what its counters say about a method.

use crate::Error;
use memmap2::MmapRaw;
use remora_ring::{HEADER_WORDS as RING_HEADER, MAXIMUM_RECORD_WORDS, Ring};
use remora_wire::method_trace::{TraceRecord, memory};
use remora_wire::{Foreign, MEMORY_NAME};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// The shared memory.
pub(super) struct Memory {
    mapping: MmapRaw,
    pub(super) descriptor: OwnedFd,
}

impl Memory {
    pub(super) fn new() -> Result<Memory, Error> {
        let descriptor = memfd_create(MEMORY_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fallocate(&descriptor, FallocateFlags::empty(), 0, memory::size_in_bytes(RING_HEADER) as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = MmapRaw::map_raw(&descriptor).map_err(Error::SharedMemory)?;
        let memory = Memory { mapping, descriptor };
        memory.words()[memory::WORD_MAGIC].store(memory::MAGIC, Ordering::SeqCst);
        Ok(memory)
    }

    fn words(&self) -> &[AtomicU64] {
        let (pointer, bytes) = (self.mapping.as_ptr(), self.mapping.len());
        // SAFETY: `mapping` is page-aligned, and mapped readable and writable for as long as `self`. Both sides access it only by atomics.
        unsafe { std::slice::from_raw_parts(pointer.cast::<AtomicU64>(), bytes / 8) }
    }

    /// A word of the header. It is only shown.
    pub(super) fn counter(&self, which: usize) -> u64 {
        self.words()[which].load(Ordering::Relaxed)
    }

    /// The next record; `Err` for one that is damaged.
    pub(super) fn record(&self, buffer: &mut Vec<u8>) -> Option<Result<TraceRecord, remora_wire::Malformed>> {
        let ring = Ring::new(&self.words()[memory::ring(RING_HEADER)])?;
        buffer.resize(MAXIMUM_RECORD_WORDS * 8, 0);
        let (_, length) = ring.pop_bytes(buffer)?;
        Some(TraceRecord::decode(Foreign::from(&buffer[..length.min(buffer.len())])))
    }

    /// What the rows of a method say.
    pub(super) fn calls(&self, method: u32) -> Calls {
        let mut calls = Calls { shortest: u64::MAX, ..Calls::default() };
        for stripe in 0..memory::STRIPES {
            let row = &self.words()[memory::row(method as usize, stripe)..][..memory::ROW_WORDS];
            let word = |which: usize| row[which].load(Ordering::Relaxed);
            calls.entered = calls.entered.saturating_add(word(memory::ENTERED));
            calls.ended = calls.ended.saturating_add(word(memory::LEFT));
            calls.thrown = calls.thrown.saturating_add(word(memory::THROWN));
            calls.total = calls.total.saturating_add(word(memory::TOTAL));
            calls.steps = calls.steps.saturating_add(word(memory::STEPS));
            calls.running = calls.running.saturating_add(word(memory::RUNNING));
            calls.longest = calls.longest.max(word(memory::LONGEST));
            calls.shortest = calls.shortest.min(!word(memory::SHORTEST_COMPLEMENT));
            for (bucket, sum) in calls.buckets.iter_mut().enumerate() {
                *sum = sum.saturating_add(word(memory::BUCKETS + bucket));
            }
        }
        calls
    }
}

/// The calls of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// Begun.
    pub entered: u64,
    /// Ended.
    pub ended: u64,
    /// Ended by an exception.
    pub thrown: u64,
    /// The sum of durations, nanoseconds.
    pub total: u64,
    /// Steps begun, of an asynchronous method.
    pub steps: u64,
    /// The sum of the durations of its steps, nanoseconds.
    pub running: u64,
    /// The shortest duration; the highest number if none ended.
    pub shortest: u64,
    /// The longest duration.
    pub longest: u64,
    buckets: [u64; memory::BUCKET_COUNT],
}

impl Default for Calls {
    fn default() -> Calls {
        let buckets = [0; memory::BUCKET_COUNT];
        Calls { entered: 0, ended: 0, thrown: 0, total: 0, steps: 0, running: 0, shortest: 0, longest: 0, buckets }
    }
}

impl Calls {
    /// How often a pair of probes ran: for each call, or for each step.
    pub fn probed(&self) -> u64 {
        self.ended.max(self.steps)
    }

    /// The mean duration.
    pub fn mean(&self) -> Option<u64> {
        self.total.checked_div(self.ended)
    }

    /// A duration that this share of the calls does not exceed, from 0 to 1: at most an eighth wrong, by the buckets.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket));
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut sum = 0_u64;
        for (bucket, count) in self.buckets.iter().enumerate() {
            sum = sum.saturating_add(*count);
            if sum >= wanted && *count > 0 {
                let begin = memory::bucket_begin(bucket);
                let end = memory::bucket_begin(bucket + 1);
                let middle = begin + (end - begin) / 2;
                return Some(middle.clamp(self.shortest.min(self.longest), self.longest));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_shortest_and_the_longest_call() {
        let mut calls = Calls { shortest: 100, longest: 5_000_000, ended: 100, entered: 100, ..Calls::default() };
        calls.buckets[memory::bucket(100)] = 90;
        calls.buckets[memory::bucket(5_000_000)] = 10;
        let half = calls.percentile(0.5).expect("calls");
        assert!((100..=114).contains(&half), "{half}");
        let high = calls.percentile(0.99).expect("calls");
        assert!((4_300_000..=5_000_000).contains(&high), "{high}");
        assert_eq!(Calls::default().percentile(0.5), None);
        assert_eq!(Calls::default().mean(), None);
    }

    #[test]
    fn rows_of_all_stripes_are_added() {
        let memory = Memory::new().expect("a memfd");
        for stripe in 0..memory::STRIPES {
            let row = memory::row(3, stripe);
            memory.words()[row + memory::ENTERED].store(2, Ordering::SeqCst);
            memory.words()[row + memory::SHORTEST_COMPLEMENT].store(!(7 + stripe as u64), Ordering::SeqCst);
        }
        let calls = memory.calls(3);
        assert_eq!((calls.entered, calls.shortest), (2 * memory::STRIPES as u64, 7));
        assert_eq!(memory.calls(4).shortest, u64::MAX);
    }
}
