//! Recordings written and read back: whole, grown, cut, changed, made up.

#[path = "golden/profile.rs"]
mod golden;
mod random;

use random::Random;
use remora_profile::{Frame, LossCause, Meta, Profile, Sample, State, Thread};
use remora_recording::{Error, Recording, Writer, is_recording, limits, read};
use std::cell::Cell;
use std::io::{self, Write};

fn written(profile: &Profile) -> Vec<u8> {
    Writer::create(Vec::new()).and_then(|writer| writer.finish(profile)).expect("memory takes everything")
}

fn complete(bytes: &[u8]) -> Recording {
    let recording = read(bytes).expect("the file is whole");
    assert!(recording.complete);
    assert_eq!((recording.unknown_chunks, recording.torn_bytes), (0, 0));
    recording
}

#[track_caller]
fn assert_same(left: &Profile, right: &Profile) {
    assert_eq!(left.meta, right.meta);
    assert_eq!(left.loss, right.loss);
    assert_eq!(left.strings(), right.strings());
    assert_eq!(left.frames(), right.frames());
    assert_eq!(left.stacks(), right.stacks());
    assert_eq!(left.threads(), right.threads());
    assert_eq!(left.samples(), right.samples());
    assert_eq!(left.thrown(), right.thrown());
}

#[test]
fn golden_v1_is_read_as_it_was_written() {
    assert_same(&complete(include_bytes!("golden/v1.remora")).profile, &golden::golden());
}

#[test]
fn an_empty_profile_comes_back() {
    let profile = Profile::new(Meta { application: "nothing ran".into(), ..Meta::default() });
    assert_same(&complete(&written(&profile)).profile, &profile);
}

#[test]
fn any_profile_grown_in_any_steps_comes_back() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut profile = Profile::default();
        let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
        for _ in 0..random.below(6) {
            random.grow(&mut profile);
            writer.append(&profile).expect("memory takes everything");
            assert_eq!(writer.watermark(), profile.watermark());
        }
        random.grow(&mut profile);
        let bytes = writer.finish(&profile).expect("memory takes everything");
        assert_same(&complete(&bytes).profile, &profile);
    }
}

#[test]
fn regression_a_recording_whose_notes_pack_to_nothing_is_read_however_often_they_are_written() {
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut profile = Profile::default();
        random.grow(&mut profile);
        // What the target counts may be anything.
        profile.loss.delivered = u64::MAX - random.next() % 2;
        profile.loss.lose(LossCause::Damaged, random.next());
        let mut writer = Writer::create(Vec::new()).unwrap();
        for _ in 0..24 + random.below(8) {
            let note = "n".repeat(random.below(32 << 10));
            profile.meta.notes = vec![note; 64];
            writer.append(&profile).unwrap();
        }
        let recording = complete(&writer.finish(&profile).unwrap());
        assert_eq!(recording.profile.samples().len(), profile.samples().len());
    }
}

#[test]
fn what_needs_more_than_one_chunk_comes_back() {
    let mut profile = Profile::default();
    for thread in 0..600 {
        profile.add_thread(Thread { id: thread, name: "x".repeat(9000) });
    }
    let mut stack = None;
    for number in 0..70_000u64 {
        let name = profile.string(&format!("{number}{}", "y".repeat(100)));
        let frame = profile.frame(Frame::unknown(name));
        let here = profile.stack(if number % 1000 == 0 { None } else { stack }, frame);
        stack = Some(here);
        let thread = remora_profile::ThreadIx(number as u32 % 600);
        profile.add_sample(Sample { time: number, thread, stack: here, weight: 1, state: State::Running });
    }
    assert_same(&complete(&written(&profile)).profile, &profile);
}

#[test]
fn a_thread_renamed_after_it_was_written_has_its_last_name() {
    let mut profile = Profile::default();
    let thread = profile.add_thread(Thread { id: 9, name: String::new() });
    let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
    writer.append(&profile).expect("memory takes everything");
    profile.thread_mut(thread).name = "Finalizer".into();
    let bytes = writer.finish(&profile).expect("memory takes everything");
    assert_eq!(complete(&bytes).profile.threads()[0].name, "Finalizer");
}

#[test]
fn every_cut_gives_what_was_appended_before_it() {
    let mut profile = Profile::default();
    let mut random = Random::new(7);
    let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
    let mut appends = Vec::new();
    for _ in 0..4 {
        random.grow(&mut profile);
        writer.append(&profile).expect("memory takes everything");
        appends.push((writer.output().len(), profile.clone()));
    }
    let bytes = writer.finish(&profile).expect("memory takes everything");
    for length in 0..bytes.len() {
        match appends.iter().rev().find(|(end, _)| *end <= length) {
            Some((end, known)) => {
                let recording = read(&bytes[..length]).expect("an append is readable");
                assert!(!recording.complete, "cut at {length}");
                assert!(recording.profile.samples().starts_with(known.samples()));
                assert!(recording.profile.loss.delivered >= recording.profile.samples().len() as u64);
                if length == *end {
                    assert_eq!(recording.torn_bytes, 0);
                    assert_eq!(recording.profile.samples(), known.samples());
                }
            }
            None if length == 0 => assert!(matches!(read(&bytes[..0]), Err(Error::NotARecording))),
            None => match read(&bytes[..length]) {
                Err(Error::Truncated { length: said }) => assert_eq!(said, length as u64),
                other => panic!("cut at {length}: {other:?}"),
            },
        }
    }
}

#[test]
fn samples_after_the_last_state_are_in_the_account() {
    let golden = golden::golden();
    let mut half = golden.clone();
    half.loss.delivered = 0;
    half.loss.taken = half.loss.total_lost();
    half.meta.duration = 0;
    let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
    writer.append(&half).expect("memory takes everything");
    let recording = read(writer.output().as_slice()).expect("an append is readable");
    assert_eq!(recording.profile.loss.delivered, golden.samples().len() as u64);
    assert!(recording.profile.loss.adds_up());
    assert_eq!(recording.profile.meta.duration, golden.samples().last().map_or(0, |sample| sample.time));
}

#[test]
fn every_single_damaged_byte_is_noticed() {
    let bytes = written(&golden::golden());
    for at in 0..bytes.len() {
        for flip in [1u8, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            // A length that has become larger than the rest looks like an interrupted write: then the recording is not complete.
            let noticed = read(changed.as_slice()).map_or(true, |recording| !recording.complete);
            assert!(noticed, "byte {at} flipped by {flip:#x}");
        }
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let mut profile = golden::golden();
    let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
    writer.append(&profile).expect("memory takes everything");
    let second = writer.output().len();
    let sample = profile.samples()[0];
    profile.add_sample(sample);
    let mut bytes = writer.finish(&profile).expect("memory takes everything");
    bytes[second + 20] ^= 0xff;
    let error = read(bytes.as_slice()).expect_err("it is damaged");
    assert_eq!(
        error.to_string(),
        format!("damaged at byte {second}: the checksum of a chunk is wrong (40 samples before it were readable)")
    );
}

#[test]
fn what_is_no_recording_is_reported() {
    for other in [&b""[..], b"\x1f\x8b\x08", b"<html>", b"Nettrace", b"REMOTE"] {
        assert!(matches!(read(other), Err(Error::NotARecording)), "{other:?}");
        assert!(!is_recording(other));
    }
    assert!(is_recording(&written(&Profile::default())));
}

#[test]
fn a_newer_version_is_reported_with_who_reads_it() {
    let mut newer = b"REMORA\x07\x003.1.0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    let sum = crc32fast::hash(&newer);
    newer.extend(sum.to_le_bytes());
    match read(newer.as_slice()).expect_err("it is newer") {
        Error::Newer { version: 7, needs, reads: 1 } => assert_eq!(needs, "Remora 3.1.0, which wrote it, or newer"),
        other => panic!("{other:?}"),
    }
    newer[9] = 0xff;
    assert!(matches!(read(newer.as_slice()), Err(Error::Newer { version: 7, .. })));
}

#[test]
fn chunks_of_unknown_kinds_are_skipped_and_counted() {
    let mut writer = Writer::create(Vec::new()).expect("memory takes everything");
    writer.append(&golden::golden()).expect("memory takes everything");
    let place = writer.output().len();
    let mut bytes = writer.finish(&golden::golden()).expect("memory takes everything");
    let unknown = made_up_chunk(77, b"from the future");
    bytes.splice(place..place, unknown);
    let recording = read(bytes.as_slice()).expect("it can be skipped");
    assert!(recording.complete);
    assert_eq!(recording.unknown_chunks, 1);
    assert_same(&recording.profile, &golden::golden());
}

#[test]
fn chunks_with_the_right_checksum_and_the_wrong_content_are_refused() {
    let header = &written(&Profile::default())[..28];
    let one_text = [1, 1, b'a'];
    let cases: [(&str, u32, Vec<u8>); 9] = [
        ("rows of nothing at all", 1, vec![]),
        ("a table longer than its chunk", 1, vec![200, 1]),
        ("a frame without its text", 1, vec![0, 1, 0, 5, 0, 0, 0, 0, 0, 0]),
        ("a frame of an unknown kind", 1, [&one_text[..], &[1, 9, 0, 0, 0, 0, 0, 0, 0, 0]].concat()),
        ("a stack that is its own caller's caller", 1, [&one_text[..], &[1, 0, 0, 0, 0, 0, 1, 1, 0]].concat()),
        ("a sample without a thread", 1, [&one_text[..], &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1]].concat()),
        ("a rename of no thread", 1, vec![0, 0, 0, 0, 1, 3, 1, 0, 0]),
        ("a state that is not JSON", 2, b"{".to_vec()),
        ("an end that counts more", 3, vec![1, 0, 0, 0, 0]),
    ];
    for (what, kind, plain) in cases {
        let file = [header, &made_up_chunk(kind, &plain)].concat();
        assert!(matches!(read(file.as_slice()), Err(Error::Damaged { offset: 28, .. })), "{what}");
    }
}

#[test]
fn a_chunk_that_unpacks_to_more_than_it_says_is_refused() {
    let header = &written(&Profile::default())[..28];
    let mut chunk = made_up_chunk(1, &vec![0; 1 << 20]);
    chunk[8..12].copy_from_slice(&64u32.to_le_bytes());
    let sum = crc32fast::hash(&[&chunk[..12], &chunk[16..]].concat());
    chunk[12..16].copy_from_slice(&sum.to_le_bytes());
    let file = [header, &chunk].concat();
    let refused = read(file.as_slice());
    assert!(
        matches!(refused, Err(Error::Damaged { what: "a chunk does not unpack to its length", .. })),
        "{refused:?}"
    );
}

#[test]
fn a_stack_deeper_than_the_limit_is_refused_on_both_sides() {
    let mut profile = Profile::default();
    let name = profile.string("Deep.Recursion()");
    let frame = profile.frame(Frame::unknown(name));
    profile.stack_from_root(std::iter::repeat_n(frame, limits::DEPTH as usize));
    complete(&written(&profile));
    profile.stack_from_root(std::iter::repeat_n(frame, limits::DEPTH as usize + 1));
    let refused = Writer::create(Vec::new()).and_then(|writer| writer.finish(&profile));
    assert!(matches!(refused, Err(Error::TooLarge { what: "frames in a stack", .. })));
    let too_deep = limits::DEPTH as usize + 1;
    let count = [(too_deep & 0x7f | 0x80) as u8, (too_deep >> 7 & 0x7f | 0x80) as u8, (too_deep >> 14) as u8];
    let nodes = [[0, 0].as_slice(), &[1, 0].repeat(too_deep - 1)].concat();
    let rows = [&[1, 1, b'a', 1, 0, 0, 0, 0, 0][..], &count, &nodes, &[0, 0, 0]].concat();
    let file = [&written(&Profile::default())[..28], &made_up_chunk(1, &rows)].concat();
    let refused = read(file.as_slice());
    assert!(matches!(refused, Err(Error::TooLarge { what: "frames in a stack", .. })), "{refused:?}");
}

#[test]
fn what_follows_the_end_is_refused() {
    let whole = written(&golden::golden());
    for more in [made_up_chunk(77, b"unknown"), made_up_chunk(2, br#"{"meta":{"event":"cpu"}}"#)] {
        let refused = read([whole.as_slice(), &more].concat().as_slice());
        assert!(matches!(refused, Err(Error::Damaged { what: "there is more after the end", .. })), "{refused:?}");
    }
}

#[test]
fn a_text_beyond_the_limit_is_cut_at_a_character() {
    let mut profile = Profile::default();
    let name = profile.string(&"é".repeat(limits::TEXT));
    profile.frame(Frame::unknown(name));
    let recording = complete(&written(&profile));
    let text = recording.profile.text(recording.profile.frames()[0].name);
    assert!(text.len() <= limits::TEXT && text.len() > limits::TEXT - 4 && text.ends_with("é…"));
}

#[test]
fn mutated_recordings_never_panic() {
    let mut random = Random::new(99);
    let mut profile = Profile::default();
    random.grow(&mut profile);
    random.grow(&mut profile);
    let whole = written(&profile);
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            random.mutate(&mut bytes);
        }
        walk_all(read(bytes.as_slice()));
    }
}

/// The same behind valid checksums, which is where the decoder itself is met.
#[test]
fn mutated_rows_with_valid_checksums_never_panic() {
    let mut random = Random::new(5);
    let header = &written(&Profile::default())[..28];
    let rows = [
        vec![2, 1, b'a', 2, b'b', b'c'],
        vec![2, 0, 0, 0, 0, 0, 1, 1, 2, 1, 9],
        vec![2, 0, 0, 1, 1],
        vec![1, 7, 1, b't', 0],
        vec![3, 2, 4, 6, 0, 1, 0, 1, 1, 0, 9, 9, 9],
    ]
    .concat();
    let state = br#"{"meta":{"event":"cpu","duration":5},"loss":{"taken":3,"delivered":3,"lost":[[99,1]]}}"#;
    let sound = [header, &made_up_chunk(1, &rows), &made_up_chunk(2, state)].concat();
    assert_eq!(read(sound.as_slice()).expect("it is sound").profile.samples().len(), 3);
    for _ in 0..20_000 {
        let (mut rows, mut state) = (rows.clone(), state.to_vec());
        random.mutate(&mut rows);
        if random.below(3) == 0 {
            random.mutate(&mut state);
        }
        let file = [header, &made_up_chunk(1, &rows), &made_up_chunk(2, &state)].concat();
        walk_all(read(file.as_slice()));
    }
}

#[test]
fn a_loss_cause_of_a_newer_remora_is_counted_and_noted() {
    let header = &written(&Profile::default())[..28];
    let state = br#"{"meta":{"event":"wall"},"loss":{"taken":4,"delivered":0,"lost":[[99,4]]}}"#;
    let recording = read([header, &made_up_chunk(2, state)].concat().as_slice()).expect("it is sound");
    assert_eq!(recording.profile.loss.total_lost(), 4);
    assert!(recording.profile.loss.adds_up());
    assert_eq!(recording.profile.meta.notes.len(), 1);
}

#[test]
fn a_full_disk_leaves_what_was_appended_before() {
    let mut profile = Profile::default();
    let mut random = Random::new(3);
    random.grow(&mut profile);
    let capacity = Cell::new(100_000);
    let mut writer = Writer::create(Disk { bytes: Vec::new(), capacity: &capacity }).expect("there is room");
    writer.append(&profile).expect("there is room");
    let kept = profile.samples().len();
    let error = loop {
        random.grow(&mut profile);
        if let Err(error) = writer.append(&profile) {
            break error;
        }
    };
    assert!(matches!(error, Error::Write(_)));
    capacity.set(usize::MAX);
    assert!(matches!(writer.append(&profile), Err(Error::Write(_))), "nothing follows a hole");
    let recording = read(writer.output().bytes.as_slice()).expect("the appends before are readable");
    assert!(!recording.complete && recording.profile.samples().len() >= kept);
}

/// A disk with so much room.
#[derive(Debug)]
struct Disk<'a> {
    bytes: Vec<u8>,
    capacity: &'a Cell<usize>,
}

impl Write for Disk<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.capacity.get() - self.bytes.len();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = room.min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A chunk as the format describes it, made without the writer.
fn made_up_chunk(kind: u32, plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).expect("memory takes everything");
    let stored = encoder.finish().expect("memory takes everything");
    let mut head = Vec::new();
    for number in [kind, stored.len() as u32, plain.len() as u32] {
        head.extend(number.to_le_bytes());
    }
    let sum = crc32fast::hash(&[head.as_slice(), &stored].concat());
    [head, sum.to_le_bytes().to_vec(), stored].concat()
}

/// Whatever was accepted can be walked and summed without a panic.
fn walk_all(result: Result<Recording, Error>) {
    match result {
        Ok(recording) => {
            let profile = recording.profile;
            let _ = remora_profile::Summary::of(&profile, None);
            let _ = profile.total_weight();
            for sample in profile.samples() {
                let _ = profile.threads()[sample.thread.0 as usize].label();
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
