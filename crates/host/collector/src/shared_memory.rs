//! The host's end of the shared memory: creates, fills and seals it, and reads its rings.
//!
//! All pages are allocated and the size is sealed before the target maps it: no later fault can hit the target.

use crate::Error;
use crate::limits::Allowance;
use memmap2::MmapRaw;
use remora_call_table::{Table, layout as call_table};
use remora_ring::{HEADER_WORDS, MAXIMUM_RECORD_WORDS, Ring};
use remora_wire::{Foreign, MEMORY_NAME, layout};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The shared memory, mapped here; the agent gets its descriptor.
pub struct SharedMemory {
    mapping: MmapRaw,
    descriptor: OwnedFd,
}

impl SharedMemory {
    /// Creates the memory, zeroed except for the magic word. Heap tracking adds a third ring.
    ///
    /// # Errors
    /// [`Error::SharedMemory`]: not enough memory, or no memfd (kernel before 3.17).
    pub fn new(is_watched: bool) -> Result<SharedMemory, Error> {
        SharedMemory::of(layout::size_in_bytes(is_watched, HEADER_WORDS), layout::MAGIC)
    }

    /// Creates the memory for a trace of calls, with or without room for their arguments.
    ///
    /// # Errors
    /// As for [`SharedMemory::new`].
    pub fn of_calls(nodes: usize, has_values: bool) -> Result<SharedMemory, Error> {
        let memory = SharedMemory::of(call_table::size_in_bytes(nodes, has_values), call_table::MAGIC)?;
        memory.words()[call_table::HAS_VALUES].store(has_values.into(), Ordering::SeqCst);
        Ok(memory)
    }

    fn of(bytes: usize, magic: u64) -> Result<SharedMemory, Error> {
        let bytes = bytes as u64;
        let descriptor = memfd_create(MEMORY_NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fallocate(&descriptor, FallocateFlags::empty(), 0, bytes)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = MmapRaw::map_raw(&descriptor).map_err(Error::SharedMemory)?;
        let memory = SharedMemory { mapping, descriptor };
        memory.words()[layout::WORD_MAGIC].store(magic, Ordering::SeqCst);
        Ok(memory)
    }

    /// Sends the questions about static fields, at most [`SharedMemory::room_for_questions`] words. Call it once: no more may follow.
    pub fn ask(&self, questions: &[u64]) {
        let all = self.words();
        for (place, word) in all[layout::questions(HEADER_WORDS)].iter().zip(questions) {
            place.store(*word, Ordering::Relaxed);
        }
        all[layout::STATICS_ASKED].store(questions.len() as u64 + 1, Ordering::Release);
    }

    /// A sign of life for the copy, which waits for the questions: files are still read for them.
    pub fn is_preparing_questions(&self) {
        self.words()[layout::STATICS_PREPARED].fetch_add(1, Ordering::Relaxed);
    }

    /// Maximum number of words for questions.
    pub fn room_for_questions() -> usize {
        layout::questions(HEADER_WORDS).len()
    }

    /// The memory as a table of calls.
    pub(crate) fn calls(&self) -> Option<Table<'_>> {
        Table::new(self.words())
    }

    /// The descriptor for the agent.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// A counter of [`layout`].
    pub fn counter(&self, which: usize) -> Foreign<u64> {
        self.words().get(which).map_or(0, |word| word.load(Ordering::Relaxed)).into()
    }

    /// Takes the next message's words; false if the ring is empty or the allowance used up.
    pub fn pop(&self, into: &mut Foreign<Vec<u64>>, allowance: &mut Allowance) -> bool {
        self.pop_from(layout::messages(false, HEADER_WORDS), into, allowance)
    }

    /// The same, from the first of two rings.
    pub fn pop_beside_heap(&self, into: &mut Foreign<Vec<u64>>, allowance: &mut Allowance) -> bool {
        self.pop_from(layout::messages(true, HEADER_WORDS), into, allowance)
    }

    /// The next piece of a heap stream: returns its first word, and puts the bytes of its other words into `into`. `None` if the ring is
    /// empty or the allowance used up.
    pub fn pop_heap(&self, into: &mut Foreign<Vec<u8>>, allowance: &mut Allowance) -> Option<Foreign<u64>> {
        let ring = allowance.is_left().then(|| self.words().get(layout::heap(HEADER_WORDS)).and_then(Ring::new))??;
        let taken = into.refill(|bytes| {
            bytes.resize(MAXIMUM_RECORD_WORDS * 8, 0);
            let taken = ring.pop_bytes(bytes);
            bytes.truncate(taken.map_or(0, |(_, length)| length));
            taken
        });
        if taken.is_some() {
            allowance.used(into.count() / 8);
        }
        taken.map(|(head, _)| head.into())
    }

    /// Drops the unfinished record of an ended heap copy, after all its complete records were taken. Otherwise the records of the
    /// next copy could never be read.
    pub fn give_up_rest_of_heap(&self) {
        if let Some(ring) = self.words().get(layout::heap(HEADER_WORDS)).and_then(Ring::new) {
            ring.abandon();
        }
    }

    /// The next piece of the GC reports.
    pub fn pop_watch(&self, into: &mut Foreign<Vec<u64>>, allowance: &mut Allowance) -> bool {
        self.pop_from(layout::watch(HEADER_WORDS), into, allowance)
    }

    fn pop_from(&self, place: Range<usize>, into: &mut Foreign<Vec<u64>>, allowance: &mut Allowance) -> bool {
        let ring = allowance.is_left().then(|| self.words().get(place).and_then(Ring::new)).flatten();
        let is_taken = into.refill(|words| ring.is_some_and(|ring| ring.pop(|word| words.push(word)).is_some()));
        if is_taken {
            allowance.used(into.count());
        }
        is_taken
    }

    /// What one pass may take from the rings: as many words as they hold.
    pub(crate) fn allowance<'a>(&self, clock: &'a dyn Fn() -> Instant) -> Allowance<'a> {
        Allowance::of(self.words().len(), clock)
    }

    #[cfg(test)]
    pub(crate) fn words_of(&self, place: Range<usize>) -> &[AtomicU64] {
        &self.words()[place]
    }

    fn words(&self) -> &[AtomicU64] {
        let (pointer, bytes) = (self.mapping.as_ptr(), self.mapping.len());
        // SAFETY: `mapping` is page-aligned, and mapped readable and writable for as long as `self`. Both sides access it only by atomics.
        unsafe { std::slice::from_raw_parts(pointer.cast::<AtomicU64>(), bytes / 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_pushes_the_other_pops_and_the_size_is_sealed() {
        let memory = SharedMemory::new(false).expect("a memfd");
        let other = MmapRaw::map_raw(memory.descriptor()).expect("mapped again");
        // SAFETY: `other` is page-aligned, mapped readable and writable, and outlives `words`. All accesses are atomic.
        let words = unsafe { std::slice::from_raw_parts(other.as_ptr().cast::<AtomicU64>(), other.len() / 8) };
        let ring = Ring::new(&words[layout::HEADER_WORDS..]).expect("a ring");
        assert_eq!(ring.push(&[&[1, 2, 3]]), Ok(()));
        let (mut read, mut allowance) = (Foreign::default(), memory.allowance(&Instant::now));
        assert!(memory.pop(&mut read, &mut allowance));
        assert_eq!(read, vec![1, 2, 3].into());
        assert!(!memory.pop(&mut read, &mut allowance));
        assert!(rustix::fs::ftruncate(memory.descriptor(), 0).is_err());
    }

    #[test]
    fn a_copy_that_was_killed_in_the_middle_of_a_piece_does_not_keep_the_next_one_from_telling() {
        let memory = SharedMemory::new(true).expect("a memfd");
        let place = layout::heap(HEADER_WORDS);
        let ring = Ring::new(&memory.words()[place.clone()]).expect("a ring");
        ring.push_bytes(3, b"old").expect("room");
        // A producer's last step is to store the piece's length in the first word. Undo it: the piece is unfinished.
        memory.words()[place.start + HEADER_WORDS].store(0, Ordering::SeqCst);
        let (mut read, mut allowance) = (Foreign::default(), memory.allowance(&Instant::now));
        assert_eq!(memory.pop_heap(&mut read, &mut allowance), None);
        memory.give_up_rest_of_heap();
        ring.push_bytes(3, b"new").expect("room");
        assert_eq!(memory.pop_heap(&mut read, &mut allowance), Some(3.into()));
        assert_eq!(read.first(3), Some(b"new".as_slice().into()));
    }
}
