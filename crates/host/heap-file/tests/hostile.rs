//! Short files that hold very much: what they take of the memory follows from the limits that the reader names.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use peak_alloc::PeakAlloc;
use remora_chunks::{HEADER, Next, Unpacked};
use remora_heap_file::{Error, FORMAT, Limits, MethodRow, State, TypeRow, Writer, read};
use remora_heap_stream::{CLASS, END, FIRST_CLASS, FORM, PLAIN_CLASS, RANGE, ROOT, STACK_ROOT, written};
use std::sync::Mutex;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most that reading takes beyond what there was before, bytes; one at a time.
fn most_while_reading(file: &[u8]) -> (usize, Result<usize, Error>) {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let read = read(file, Limits::MOST).map(|snapshot| snapshot.graph.object_count());
    (MEMORY.peak_usage() - before, read)
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const BASE: u64 = 0x7f00_0000_0000;
const OBJECTS: u64 = 100_000;

/// Objects one behind the other, each held by the local of one method.
fn held_by_one_method(name: &str) -> Vec<u8> {
    let mut numbers = vec![RANGE, 2, BASE, OBJECTS * 24, CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0];
    (0..OBJECTS).for_each(|_| numbers.extend([FIRST_CLASS, 24, 0]));
    (0..OBJECTS).for_each(|index| numbers.extend([ROOT, STACK_ROOT, BASE + index * 24, 7]));
    numbers.extend([END, OBJECTS]);
    let mut writer = Writer::create(Vec::new()).unwrap();
    writer.stream(&written(&numbers)).unwrap();
    writer.types(&[TypeRow { name: "Known.Node".into(), ..TypeRow::default() }]).unwrap();
    writer.methods(&[MethodRow { id: 7, name: name.into() }]).unwrap();
    writer.finish(&State::default()).unwrap()
}

#[test]
fn one_long_name_that_a_hundred_thousand_roots_refer_to_is_not_written_a_hundred_thousand_times() {
    let _alone = ONE_AT_A_TIME.lock();
    let file = held_by_one_method(&"n".repeat(16 << 10));
    let (most, objects) = most_while_reading(&file);
    assert_eq!(objects.unwrap(), OBJECTS as usize);
    // What did not fit is counted.
    let unnamed = read(&file[..], Limits::MOST).unwrap().roots_unnamed;
    let fit = (64 << 20) / ("in ".len() as u64 + (1 << 10) + "…".len() as u64);
    assert_eq!(unnamed, OBJECTS - fit);
    // 64 MiB of words, and what so many objects and roots take.
    assert!(most < 160 << 20, "{} MiB for {} KiB", most >> 20, file.len() >> 10);
}

/// The same file, its chunks packed as well as they can be: our writer keeps to what is believed, others need not.
fn packed_well(file: &[u8]) -> Vec<u8> {
    let (mut packed, mut rest, mut unpacked) = (FORMAT.header().to_vec(), &file[HEADER..], Unpacked::default());
    while let Next::Chunk(chunk) = FORMAT.next(&mut rest, &mut unpacked).unwrap() {
        FORMAT.put(&mut packed, chunk.kind, &chunk.plain, &mut Unpacked::default());
    }
    packed
}

#[test]
fn rows_that_unpack_to_far_more_than_their_file_are_refused_before_they_are() {
    let _alone = ONE_AT_A_TIME.lock();
    let rows: Vec<TypeRow> = (0..512).map(|_| TypeRow { name: "n".repeat(16 << 10), ..TypeRow::default() }).collect();
    let mut writer = Writer::create(Vec::new()).unwrap();
    (0..6).for_each(|_| writer.types(&rows).unwrap());
    let file = writer.finish(&State::default()).unwrap();
    assert!(read(&file[..], Limits::MOST).is_ok(), "what is written is read");
    let file = packed_well(&file);
    let (most, refused) = most_while_reading(&file);
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    // 8 MiB, 64 times the file, once packed and once as rows.
    assert!(most < 3 * ((8 << 20) + 64 * file.len()), "{} MiB for {} KiB", most >> 20, file.len() >> 10);
}

/// A bound by the file's length that is tighter than this would refuse heaps as they are: millions of equal objects, one behind the other.
#[test]
fn what_a_snapshot_takes_is_bounded_by_its_length_and_the_most_uniform_heap_reaches_the_bound() {
    /// A byte of a file stands for so many bytes of the stream at most, since LZ4 can do no better.
    const STREAM: usize = 255;
    /// An object of the stream has a byte or more. In the graph it has some 20, and twice that while an array grows.
    const OBJECT: usize = 64;
    let _alone = ONE_AT_A_TIME.lock();
    let objects = 4_000_000;
    let mut numbers =
        vec![RANGE, 2, BASE, objects * 24, CLASS, 0x70, PLAIN_CLASS, 0x80, 0x0200_0003, 0, 0, FORM, 0, 24, 0];
    (0..objects).for_each(|_| numbers.push(FIRST_CLASS));
    numbers.extend([END, objects]);
    let mut writer = Writer::create(Vec::new()).unwrap();
    writer.stream(&written(&numbers)).unwrap();
    drop(numbers);
    writer.types(&[TypeRow { name: "Known.Node".into(), ..TypeRow::default() }]).unwrap();
    let file = writer.finish(&State::default()).unwrap();
    let (most, read) = most_while_reading(&file);
    assert_eq!(read.unwrap(), objects as usize);
    assert!(most < OBJECT * objects as usize, "{} MiB", most >> 20);
    let stands_for = objects as usize / file.len();
    assert!((STREAM * 9 / 10..=STREAM).contains(&stands_for), "a byte stands for {stands_for} objects");
}
