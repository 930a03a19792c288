//! Streams made up event by event, for what a recorded one does not happen to hold: unloading, addresses used again, deep stacks, later sequence points.

use remora_nettrace::providers::{RUNDOWN, RUNTIME, SAMPLER};
use remora_nettrace::{Error, Event, Parser, SampledProfile, Sink, StreamEnd, Trace};
use remora_profile::{Event::Wall, Meta, Profile};

const SAMPLE: u32 = 1;
const LOADED: u32 = 2;
const UNLOADED: u32 = 3;
const LISTED: u32 = 4;
const MODULE: u32 = 5;
const OTHER: u32 = 6;

/// Writes a stream; events are all of one thread, numbered from 1.
struct Stream {
    bytes: Vec<u8>,
    sequence: u32,
}

impl Stream {
    fn new() -> Stream {
        let mut stream = Stream { bytes: b"Nettrace\x14\0\0\0!FastSerialization.1".to_vec(), sequence: 0 };
        let mut trace = vec![0; 16];
        for number in [0u64, 1_000_000_000] {
            trace.extend_from_slice(&number.to_le_bytes());
        }
        for number in [8u32, 77, 2, 1_000_000] {
            trace.extend_from_slice(&number.to_le_bytes());
        }
        stream.header("Trace");
        stream.bytes.extend_from_slice(&trace);
        stream.bytes.push(6);
        let kinds = [
            (SAMPLE, SAMPLER, 0u32),
            (LOADED, RUNTIME, 143),
            (UNLOADED, RUNTIME, 144),
            (LISTED, RUNDOWN, 144),
            (MODULE, RUNTIME, 152),
            (OTHER, RUNTIME, 4),
        ];
        let mut block = vec![4, 0, 1, 0];
        for (id, provider, number) in kinds {
            let mut payload = id.to_le_bytes().to_vec();
            payload.extend(utf16(provider));
            payload.extend_from_slice(&number.to_le_bytes());
            payload.extend(utf16(""));
            payload.extend_from_slice(&[0; 20]);
            block.extend([0x80, 0]);
            block.extend(compressed(payload.len() as u64));
            block.extend(payload);
        }
        stream.block("MetadataBlock", &block);
        stream
    }

    fn header(&mut self, name: &str) {
        self.bytes.extend([5, 5, 1, 2, 0, 0, 0, 2, 0, 0, 0]);
        self.bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(6);
    }

    fn block(&mut self, name: &str, content: &[u8]) {
        self.header(name);
        self.bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend_from_slice(content);
        self.bytes.push(6);
    }

    fn stack(&mut self, id: u32, addresses: &[u64]) {
        let mut block = id.to_le_bytes().to_vec();
        block.extend_from_slice(&1u32.to_le_bytes());
        block.extend_from_slice(&(addresses.len() as u32 * 8).to_le_bytes());
        for address in addresses {
            block.extend_from_slice(&address.to_le_bytes());
        }
        self.block("StackBlock", &block);
    }

    /// One event in a block of its own, with every field that a header can have.
    fn event(&mut self, kind: u32, time: u64, stack: u32, payload: &[u8]) {
        let mut block = vec![4, 0, 1, 0, 0xbf];
        block.extend(compressed(kind.into()));
        block.extend(compressed(self.sequence.into()));
        block.extend([9, 0, 7]);
        block.extend(compressed(stack.into()));
        block.extend(compressed(time));
        block.extend([0xaa; 32]);
        block.extend(compressed(payload.len() as u64));
        block.extend_from_slice(payload);
        self.sequence += 1;
        self.block("EventBlock", &block);
    }

    fn sample(&mut self, time: u64, stack: u32) {
        self.event(SAMPLE, time, stack, &2u32.to_le_bytes());
    }

    fn method(&mut self, kind: u32, time: u64, start: u64, size: u32, name: &str) {
        let mut payload = Vec::new();
        for number in [start, 42, start] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        for number in [size, 0, 0] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        for text in ["A", name, "void  ()"] {
            payload.extend(utf16(text));
        }
        self.event(kind, time, 0, &payload);
    }

    fn module(&mut self, path: &str) {
        let mut payload = 42u64.to_le_bytes().to_vec();
        payload.extend_from_slice(&[0; 16]);
        payload.extend(utf16(path));
        payload.extend(utf16(""));
        self.event(MODULE, 0, 0, &payload);
    }

    /// A sequence point: stack ids begin anew.
    fn point(&mut self) {
        let mut block = 0u64.to_le_bytes().to_vec();
        block.extend_from_slice(&0u32.to_le_bytes());
        self.block("SPBlock", &block);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(1);
        self.bytes
    }

    fn profile(self) -> Profile {
        let mut sampled = SampledProfile::new(Wall);
        sampled.push((&self.finish()).into()).expect("the stream is whole");
        sampled.finish(Meta::default())
    }
}

fn compressed(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Each sample's frames, root first.
fn stacks(profile: &Profile) -> Vec<String> {
    let name = |frame| profile.text(profile.frame_at(frame).name).to_owned();
    let stack = |sample: &remora_profile::Sample| {
        let mut names: Vec<String> = profile.walk(sample.stack).map(name).collect();
        names.reverse();
        names.join(" ")
    };
    profile.samples().iter().map(stack).collect()
}

#[test]
fn a_caller_is_named_by_where_the_call_is() {
    let mut stream = Stream::new();
    // The call is the caller's last instruction: it returns to where the next method begins.
    stream.stack(1, &[0x100, 0x300, 0x250]);
    stream.sample(1_000, 1);
    stream.method(LISTED, 9_000, 0x100, 0x10, "Leaf");
    stream.method(LISTED, 9_000, 0x200, 0x100, "Caller");
    stream.method(LISTED, 9_000, 0x300, 0x100, "Next");
    assert_eq!(stacks(&stream.profile()), ["A.Caller() A.Caller() A.Leaf()"]);
}

#[test]
fn code_that_was_unloaded_keeps_its_name_and_its_address_may_be_used_again() {
    let mut stream = Stream::new();
    stream.module("/srv/app/App.dll");
    stream.stack(1, &[0x100]);
    stream.method(LOADED, 1_000, 0x100, 0x10, "First");
    stream.sample(2_000, 1);
    stream.method(UNLOADED, 3_000, 0x100, 0x10, "First");
    stream.method(LOADED, 5_000, 0x100, 0x10, "Second");
    stream.sample(6_000, 1);
    stream.method(UNLOADED, 7_000, 0x100, 0x10, "Second");
    let profile = stream.profile();
    assert_eq!(stacks(&profile), ["A.First()", "A.Second()"]);
    assert!(profile.frames().iter().all(|frame| frame.module.map(|module| profile.text(module)) == Some("App.dll")));
}

#[test]
fn code_that_was_unloaded_does_not_name_what_ran_there_before() {
    let mut stream = Stream::new();
    stream.stack(1, &[0x108]);
    stream.sample(1_000, 1);
    stream.method(LOADED, 2_000, 0x100, 0x10, "Passing");
    stream.method(UNLOADED, 3_000, 0x100, 0x10, "Passing");
    stream.sample(4_000, 1);
    stream.method(LISTED, 9_000, 0x100, 0x20, "Staying");
    assert_eq!(stacks(&stream.profile()), ["A.Staying()", "A.Staying()"]);
}

#[test]
fn stacks_that_the_runtime_cut_are_marked() {
    let mut stream = Stream::new();
    stream.stack(1, &[0x101; 100]);
    stream.stack(2, &[0x101; 99]);
    stream.sample(1_000, 1);
    stream.sample(2_000, 2);
    stream.sample(3_000, 0);
    stream.method(LISTED, 9_000, 0x100, 0x10, "Deep");
    let profile = stream.profile();
    let stacks = stacks(&profile);
    assert!(stacks[0].starts_with("[truncated] A.Deep()"));
    assert!(stacks[1].starts_with("A.Deep()"));
    assert_eq!(stacks[2], "[no managed frames]");
    assert_eq!(profile.loss.truncated_stacks, 1);
}

#[test]
fn stack_ids_begin_anew_at_a_sequence_point() {
    let mut stream = Stream::new();
    stream.stack(1, &[0x100]);
    stream.sample(1_000, 1);
    stream.point();
    stream.sample(2_000, 1);
    stream.stack(1, &[0x200]);
    stream.sample(3_000, 1);
    stream.method(LISTED, 9_000, 0x100, 0x10, "Old");
    stream.method(LISTED, 9_000, 0x200, 0x10, "New");
    let profile = stream.profile();
    assert_eq!(stacks(&profile), ["A.Old()", "[no managed frames]", "A.New()"]);
    assert!(profile.meta.notes.iter().any(|note| note.starts_with("1 events were not understood")));
}

#[test]
fn events_that_do_not_matter_are_no_trouble_and_short_ones_are_counted() {
    let mut stream = Stream::new();
    stream.event(OTHER, 1_000, 0, b"");
    assert!(!stream.profile().meta.notes.iter().any(|note| note.contains("not understood")));
    let mut stream = Stream::new();
    stream.event(LOADED, 1_000, 0, b"short");
    assert!(stream.profile().meta.notes.iter().any(|note| note.starts_with("1 events were not understood")));
}

#[test]
fn times_without_sense_cannot_overflow_sums() {
    let mut stream = Stream::new();
    stream.stack(1, &[0x100]);
    stream.sample(0, 1);
    for round in 1..16 {
        stream.sample(u64::MAX / 16 * round, 1);
    }
    let profile = stream.profile();
    assert_eq!(profile.samples().len(), 16);
    assert!(profile.samples().iter().all(|sample| sample.weight <= 1 << 38));
}

#[test]
fn a_block_longer_than_any_is_refused_before_it_is_waited_for() {
    let mut stream = Stream::new();
    stream.header("EventBlock");
    stream.bytes.extend_from_slice(&(64u32 << 20).to_le_bytes());
    let error = SampledProfile::new(Wall).push((&stream.bytes).into()).expect_err("nobody writes such a block");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

/// A sample for each method that has been at one of these root addresses, each below a stack of `depth` addresses.
fn reused(depth: usize, roots: u64) -> Vec<u8> {
    let mut stream = Stream::new();
    let mut addresses = vec![0x9000_0000_u64; depth];
    addresses.extend((0..roots).map(|root| 0x1001 + root * 0x1000));
    stream.stack(1, &addresses);
    for method in 0..roots * 32 {
        stream.method(LOADED, 1_000 + method * 10, 0x1000 + method / 32 * 0x1000, 0x10, &format!("M{method}"));
        stream.sample(1_005 + method * 10, 1);
    }
    stream.finish()
}

#[test]
fn regression_a_stack_deeper_than_any_of_the_runtime_was_kept_for_each_method_that_had_its_root() {
    let bytes = reused(10_000, 4);
    let mut sampled = SampledProfile::new(Wall);
    sampled.push((&bytes).into()).expect("the stream is whole");
    let profile = sampled.finish(Meta::default());
    assert_eq!(profile.samples().len(), 128);
    assert!(profile.stacks().len() <= 101, "{}", profile.stacks().len());
    assert_eq!(profile.loss.truncated_stacks, 128);
}

#[test]
fn regression_the_long_name_of_a_module_was_hashed_again_for_each_of_its_methods() {
    let mut stream = Stream::new();
    stream.module(&format!("/app/{}.dll", "m".repeat(1 << 20)));
    let addresses: Vec<u64> = (1..100).map(|method| method * 0x1000).collect();
    addresses.iter().for_each(|start| stream.method(LISTED, 1_000, *start, 0x10, "F"));
    stream.stack(1, &addresses);
    stream.sample(1_005, 1);
    let profile = stream.profile();
    let modules: Vec<&str> =
        profile.frames().iter().filter_map(|frame| frame.module).map(|module| profile.text(module)).collect();
    assert!(modules.len() == 1 && modules[0].starts_with("mmm") && modules[0].len() <= 4096, "{}", modules[0].len());
}

/// Keeps the last event's fields.
#[derive(Default)]
struct Last {
    trace: Option<Trace>,
    kind: (String, u32),
    numbers: [u64; 3],
    stack: Vec<u64>,
    payload: Vec<u8>,
}

impl Sink for Last {
    fn trace(&mut self, trace: &Trace) {
        self.trace = Some(trace.clone());
    }

    fn event(&mut self, event: &Event<'_>) {
        self.kind = (event.event_type.provider.clone(), event.event_type.id);
        self.numbers = [event.time, event.thread, event.written_by];
        self.stack = event.stack.to_vec();
        self.payload = event.payload.to_vec();
    }

    fn dropped(&mut self, _: u64, _: u64) {}
}

#[test]
fn every_field_of_a_header_is_read() {
    let mut stream = Stream::new();
    stream.stack(1, &[3, 4]);
    stream.event(OTHER, 1_234, 1, b"content");
    let mut last = Last::default();
    let mut parser = Parser::new();
    parser.push((&stream.finish()).into(), &mut last).expect("the stream is whole");
    assert_eq!(parser.finish(), StreamEnd { events: 1, ..StreamEnd::default() });
    let trace = last.trace.expect("it comes first");
    assert_eq!(
        (trace.process_id, trace.pointer_size, trace.processors, trace.sampling_interval),
        (77, 8, 2, 1_000_000)
    );
    assert_eq!(trace.started_unix_nanoseconds, 0, "no such date");
    assert_eq!((last.kind, last.numbers), ((RUNTIME.to_owned(), 4), [1_234, 7, 9]));
    assert_eq!((last.stack, last.payload), (vec![3, 4], b"content".to_vec()));
}
