//! Agents of heap tracking. Each takes a first snapshot, without objects.

use remora_heap_stream::watch::{BEGINS, BORN, CLASS, ENDS};
use remora_heap_stream::{BESIDE, CLASS as CLASS_OF_SNAPSHOT, END, UNKNOWN_CLASS, written};
use remora_ring::{HEADER_WORDS, Ring};
use remora_wire::{AgentErrorCode, Frame, FromAgent, ToAgent, layout};
use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Distance of objects: a reader that keeps objects by pages of the heap has a page for each.
const FAR: u64 = 1 << 20;
/// Objects of one piece: each takes four bytes.
const OF_A_PIECE: u64 = 16_000;

/// Unknown numbers of a class.
const ANY_CLASS: [u64; 3] = [77, UNKNOWN_CLASS, 5];

/// A GC of millions of objects, each far from the others. `rounds` is how often the ring is filled with births: eight million each time.
pub(crate) fn bear(agent: &mut UnixStream, memory: &File, rounds: u64) -> Result<()> {
    let class = written(&[&[CLASS, 0, 1][..], &ANY_CLASS].concat());
    take_snapshot(agent, memory, (1, [class, begins(1), ends(1, true)]))?;
    deliver(memory, layout::watch(HEADER_WORDS), [headed(begins(2))])?;
    for round in 0..rounds {
        let from = round << 52;
        let births = (0..500).map(|piece| headed(born(from + piece * OF_A_PIECE * FAR)));
        deliver(memory, layout::watch(HEADER_WORDS), births)?;
    }
    deliver(memory, layout::watch(HEADER_WORDS), [headed(ends(2, false))])?;
    agent.write_all(&FromAgent::Failed(AgentErrorCode::Panicked.into()).encode())
}

/// Two snapshots at the end, and the end of the GC of the first of them is not in the reports. Then it leaves.
pub(crate) fn lose_the_last_one_once(agent: &mut UnixStream, memory: &File) -> Result<()> {
    take_snapshot(agent, memory, (1, [begins(1), ends(1, true)]))?;
    next_request(agent)?;
    take_snapshot(agent, memory, (2, [begins(2)]))?;
    next_request(agent)?;
    take_snapshot(agent, memory, (3, [begins(3), ends(3, true)]))?;
    next_request(agent)
}

/// Waits for the request of a snapshot or of the end.
fn next_request(agent: &mut UnixStream) -> Result<()> {
    let (mut frame, mut bytes) = (Frame::default(), [0; 64]);
    loop {
        match frame.take().ok().flatten().map(|body| ToAgent::decode(body.all())) {
            Some(Ok(ToAgent::TakeAnother | ToAgent::Detach)) => return Ok(()),
            Some(_) => continue,
            None => {}
        }
        match agent.read(&mut bytes)? {
            0 => return Err(Error::other("no message comes any more")),
            length => frame.push(&bytes[..length]),
        }
    }
}

/// A snapshot without objects, and the reports of its GC.
fn take_snapshot<const N: usize>(
    agent: &mut UnixStream,
    memory: &File,
    (collection, reports): (u64, [Vec<u8>; N]),
) -> Result<()> {
    let snapshot = written(&[&[CLASS_OF_SNAPSHOT][..], &ANY_CLASS, &[END, 0]].concat());
    let length = snapshot.len() as u64;
    deliver(memory, layout::heap(HEADER_WORDS), [(length, snapshot.clone()), (length | BESIDE, snapshot)])?;
    deliver(memory, layout::watch(HEADER_WORDS), reports.map(headed))?;
    let forked = FromAgent::Forked { child: 0, collection: 1, fork: 1, at: collection };
    for message in [forked, FromAgent::Walked { status: 0 }] {
        agent.write_all(&message.encode())?;
    }
    Ok(())
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

/// Writes records into the empty ring at this place of the shared memory, as many as find room, and waits until all are taken.
fn deliver(memory: &File, place: Range<usize>, records: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Result<()> {
    /// The reader's position in the header, on its own cache line.
    const TAKEN: usize = 8;
    let start = place.start as u64 * 8;
    let mut bytes = vec![0; place.len() * 8];
    memory.read_exact_at(&mut bytes, start)?;
    let words: Vec<AtomicU64> =
        bytes.as_chunks().0.iter().map(|word| AtomicU64::new(u64::from_le_bytes(*word))).collect();
    let word = |at: usize| words[at].load(Ordering::Relaxed);
    let first = HEADER_WORDS + word(TAKEN) as usize % (words.len() - HEADER_WORDS);
    if let Some(ring) = Ring::new(&words) {
        let _full = records.into_iter().find(|(head, bytes)| ring.push_bytes(*head, bytes).is_err());
    }
    let written = |range: Range<usize>| range.flat_map(|at| word(at).to_le_bytes()).collect::<Vec<u8>>();
    // The first word of the first record last: the reader takes nothing before it.
    for range in [0..first, first + 1..words.len(), first..first + 1] {
        memory.write_all_at(&written(range.clone()), start + range.start as u64 * 8)?;
    }
    let mut taken = [0; 8];
    while u64::from_le_bytes(taken) != word(0) {
        std::thread::sleep(Duration::from_millis(1));
        memory.read_exact_at(&mut taken, start + TAKEN as u64 * 8)?;
    }
    Ok(())
}
