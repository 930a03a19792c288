//! Heap tracking in this process: reads the heap in GC callbacks, and sends records to the recorder.

use crate::process_heap::ProcessHeap;
use corprof::HeapView;
use remora_connection::Mapping;
use remora_heap_stream::watch::PIECE_BYTES;
use remora_ring::{HEADER_WORDS, Refused, Ring};
use remora_sampler::{HeapRange, HeapReader};
use remora_wire::layout;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Capacity of the list of heap ranges: with regions of 4 MiB, 256 GiB of them.
const RANGES: usize = 1 << 16;

/// How often to try to push a piece: the GC's threads push at the same time.
const TRIES: usize = 64;

/// Reads the heap, one callback at a time.
pub struct HeapLookup {
    ranges: Mapping,
    busy: AtomicBool,
}

impl HeapLookup {
    /// Maps room for the ranges; a page exists once it is touched.
    ///
    /// # Errors
    /// The system's error number.
    pub fn new() -> Result<HeapLookup, i32> {
        Ok(HeapLookup { ranges: Mapping::anonymous(RANGES * size_of::<HeapRange>())?, busy: AtomicBool::new(false) })
    }

    /// Called in a GC callback. Does nothing if another callback is reading: the runtime never does that.
    pub fn look(&self, heap: HeapView, visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {
        if self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        // SAFETY: `busy` admits one thread at a time, and the list does not leave this function.
        let ranges = unsafe { self.ranges.exclusive() };
        // SAFETY: the caller is in a GC callback until this function returns.
        let heap = unsafe { ProcessHeap::in_collection(heap) };
        visit(&heap, ranges);
        self.busy.store(false, Ordering::Release);
    }
}

/// Pushes a piece into the shared memory, or counts it as lost if there is no room.
pub fn tell(outer: &[AtomicU64], piece: &[u8]) -> bool {
    let ring = outer.get(layout::watch(HEADER_WORDS)).and_then(Ring::new);
    let is_sent = ring.is_some_and(|ring| push(&ring, piece));
    if let (false, Some(lost)) = (is_sent, outer.get(layout::WATCH_LOST)) {
        lost.fetch_add(1, Ordering::Relaxed);
    }
    is_sent
}

/// Pushes a piece: its length in bytes, then its words. Returns whether there was room.
fn push(ring: &Ring<'_>, piece: &[u8]) -> bool {
    let mut words = [0_u64; PIECE_BYTES / 8];
    let count = piece.len().div_ceil(8);
    let Some(words) = words.get_mut(..count) else { return false };
    for (word, bytes) in words.iter_mut().zip(piece.chunks(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    for _ in 0..TRIES {
        match ring.push(&[&[piece.len() as u64], words]) {
            Ok(()) => return true,
            Err(Refused::Contended) => std::hint::spin_loop(),
            Err(Refused::Full) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_out_as_it_was_and_one_without_room_is_refused() {
        let memory: Vec<AtomicU64> = (0..HEADER_WORDS + 16).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring::new(&memory).expect("a ring");
        assert!(push(&ring, b"a piece of it"));
        assert!(!push(&ring, &[1; 120]), "longer than what is left");
        let mut words = Vec::new();
        ring.pop(|word| words.push(word));
        let bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!((words[0], &bytes[..13]), (13, &b"a piece of it"[..]));
    }
}
