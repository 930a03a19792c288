//! An agent of heap tracking: a first snapshot without objects, then a GC of millions of objects, each far from the others.

use remora_heap_stream::watch::{BEGINS, BORN, CLASS, ENDS};
use remora_heap_stream::{BESIDE, CLASS as CLASS_OF_SNAPSHOT, END, UNKNOWN_CLASS, written};
use remora_ring::{HEADER_WORDS, Ring};
use remora_wire::{AgentErrorCode, FromAgent, layout};
use std::fs::File;
use std::io::{Result, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Distance of objects: a reader that keeps objects by pages of the heap has a page for each.
const FAR: u64 = 1 << 20;
/// Objects of one piece: each takes four bytes.
const OF_A_PIECE: u64 = 16_000;

/// Plays it. `rounds` is how often the ring is filled with births: eight million each time.
pub(crate) fn bear(agent: &mut UnixStream, memory: &File, rounds: u64) -> Result<()> {
    let class = [77, UNKNOWN_CLASS, 5];
    let snapshot = written(&[&[CLASS_OF_SNAPSHOT][..], &class, &[END, 0]].concat());
    let length = snapshot.len() as u64;
    deliver(memory, layout::heap(HEADER_WORDS), [(length, snapshot.clone()), (length | BESIDE, snapshot)])?;
    let first = [written(&[&[CLASS, 0, 1][..], &class].concat()), begins(1), ends(1, true)];
    deliver(memory, layout::watch(HEADER_WORDS), first.map(headed))?;
    for message in [FromAgent::Forked { child: 0, collection: 1, fork: 1, at: 1 }, FromAgent::Walked { status: 0 }] {
        agent.write_all(&message.encode())?;
    }
    deliver(memory, layout::watch(HEADER_WORDS), [headed(begins(2))])?;
    for round in 0..rounds {
        let from = round << 52;
        let births = (0..500).map(|piece| headed(born(from + piece * OF_A_PIECE * FAR)));
        deliver(memory, layout::watch(HEADER_WORDS), births)?;
    }
    deliver(memory, layout::watch(HEADER_WORDS), [headed(ends(2, false))])?;
    agent.write_all(&FromAgent::Failed(AgentErrorCode::Panicked.into()).encode())
}

fn begins(collection: u64) -> Vec<u8> {
    written(&[BEGINS, collection, 0, 2, 0])
}

fn ends(collection: u64, is_copied: bool) -> Vec<u8> {
    written(&[ENDS, collection, 1, 0, is_copied.into(), 0])
}

/// Births from this address on.
fn born(address: u64) -> Vec<u8> {
    // A distance is in words, its lowest bit the sign.
    let mut numbers = vec![BORN, 2, 0, (address / 8) << 1];
    (0..OF_A_PIECE).for_each(|_| numbers.extend([1, FAR]));
    written(&numbers)
}

/// A piece with its length.
fn headed(piece: Vec<u8>) -> (u64, Vec<u8>) {
    (piece.len() as u64, piece)
}

/// Writes records into the empty ring at this place of the shared memory, and waits until all are taken.
fn deliver(memory: &File, place: Range<usize>, records: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Result<()> {
    let words: Vec<AtomicU64> = place.clone().map(|_| AtomicU64::new(0)).collect();
    let mut used = 0;
    if let Some(ring) = Ring::new(&words) {
        let _full = records.into_iter().find(|(head, bytes)| ring.push_bytes(*head, bytes).is_err());
        used = ring.used() as u64;
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(|word| word.into_inner().to_le_bytes()).collect();
    let (start, first) = (place.start as u64 * 8, HEADER_WORDS * 8);
    // The first word last: the reader takes nothing before it.
    memory.write_all_at(&bytes[first + 8..], start + first as u64 + 8)?;
    memory.write_all_at(&bytes[..first], start)?;
    memory.write_all_at(&bytes[first..first + 8], start + first as u64)?;
    let mut positions = vec![0; first];
    // The reader's position is the second one, on its own cache line.
    while positions[64..72] != used.to_le_bytes() {
        std::thread::sleep(Duration::from_millis(1));
        memory.read_exact_at(&mut positions, start)?;
    }
    Ok(())
}
