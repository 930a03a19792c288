//! A short file that unpacks to very much: it is refused before it takes the memory.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use peak_alloc::PeakAlloc;
use remora_chunks::{HEADER, Next, Unpacked};
use remora_profile::{Frame, LossCause, Profile, Sample, State, Thread};
use remora_recording::{Error, FORMAT, Writer, limits, read};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Samples of which each takes four bytes of the content, and all are the same.
const SAMPLES: usize = 6 << 20;

/// The same file, its chunks packed as well as they can be: our writer keeps to what is believed, others need not.
fn packed_well(file: &[u8]) -> Vec<u8> {
    let (mut packed, mut rest, mut unpacked) = (FORMAT.header().to_vec(), &file[HEADER..], Unpacked::default());
    while let Next::Chunk(chunk) = FORMAT.next(&mut rest, &mut unpacked).unwrap() {
        FORMAT.put(&mut packed, chunk.kind, &chunk.plain, &mut Unpacked::default());
    }
    packed
}

#[test]
fn losses_that_a_target_made_up_do_not_make_the_file_unreadable() {
    let mut profile = Profile::default();
    profile.loss.taken = u64::MAX;
    profile.loss.lost = vec![(LossCause::RingFull, u64::MAX), (LossCause::TransportFull, 7)];
    let file = Writer::create(Vec::new()).unwrap().finish(&profile).unwrap();
    let lost = read(&file[..]).unwrap().profile.loss.lost;
    assert_eq!(lost[0], (LossCause::RingFull, limits::NANOSECONDS));
}

#[test]
fn samples_that_are_all_the_same_do_not_fill_the_memory_from_a_file_of_some_kilobytes() {
    let file = {
        let mut profile = Profile::default();
        let name = profile.string("Busy.Work()");
        let frame = profile.frame(Frame::unknown(name));
        let stack = profile.stack(None, frame);
        let thread = profile.add_thread(Thread { id: 1, name: String::new() });
        let sample = Sample { time: 0, thread, stack, weight: 0, state: State::Running };
        (0..SAMPLES).for_each(|_| profile.add_sample(sample));
        Writer::create(Vec::new()).unwrap().finish(&profile).unwrap()
    };
    assert_eq!(read(&file[..]).unwrap().profile.samples().len(), SAMPLES, "what is written is read");
    let file = packed_well(&file);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let refused = read(&file[..]);
    let most = MEMORY.peak_usage() - before;
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{} bytes were read", file.len());
    // What may be unpacked takes eight times as much as samples, and an array that grows is three times as long for a moment.
    let may_unpack = (8 << 20) + limits::RATIO as usize * file.len();
    assert!(most < 24 * may_unpack, "{} MiB for {} KiB", most >> 20, file.len() >> 10);
}
