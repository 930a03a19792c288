//! Streams that real runtimes wrote: what they say, in whatever pieces they come, and what is missing when something is.

mod fixture;

use fixture::{CORE_3, HEADER, NET_10, assemble, objects, stream};
use remora_nettrace::{Error, Event, Parser, SampledProfile, Sink, StreamEnd, Trace};
use remora_profile::{FrameKind, LossCause, Meta, Profile, State, Summary};

use remora_profile::Event::{Cpu, Wall};

fn profile(bytes: &[u8], event: remora_profile::Event) -> Profile {
    let mut sampled = SampledProfile::new(event);
    sampled.push(bytes.into()).expect("the stream can be read");
    assert!(sampled.ended());
    sampled.finish(Meta::default())
}

/// Own and total samples of the program's own methods, most first.
fn own_methods(profile: &Profile) -> String {
    let mut lines = Vec::new();
    for method in Summary::of(profile, None).methods {
        let frame = profile.frame_at(method.frame);
        if frame.module.is_some_and(|module| profile.text(module) == "shapes.dll") {
            lines.push((method.total_samples, method.self_samples, profile.text(frame.name).to_owned()));
        }
    }
    lines.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.cmp(&b.2)));
    lines.into_iter().map(|(total, own, name)| format!("{total} {own} {name}\n")).collect()
}

#[test]
fn methods_of_core_3_have_their_names_and_samples() {
    let wanted = "\
140 0 Shapes.Program.Main(string[])
140 140 Shapes.Program.Sleep()
131 131 Shapes.Burn.Milliseconds(int)
17 0 Shapes.Box<long>.Count.get
15 0 Shapes.Box<T>.Nested.Fill(Dictionary<string, List<T[]>>, int?)
14 0 Shapes.Box<int>.Spin(int, int, ref bool)
13 0 MadeAtRunTime(int)
13 0 Shapes.Program.Numbers
13 1 Shapes.Program.WaitAsync
11 0 Shapes.Box<long>.this[int].set
11 0 Shapes.Program.Main.lambda#0(int)
10 0 Shapes.Box<T>.Spin(T, int, ref bool)
9 0 Shapes.Box<long>.this[int].get
5 0 Shapes.Program.Dynamic()
2 0 Shapes.Program.WaitAsync(int)
";
    assert_eq!(own_methods(&profile(&stream(CORE_3), Wall)), wanted);
}

#[test]
fn methods_of_net_10_have_their_names_and_samples() {
    let wanted = "\
83 0 Shapes.Program.Main(string[])
83 0 Shapes.Program.Sleep()
75 75 Shapes.Burn.Milliseconds(int)
15 0 Shapes.Program.WaitAsync
9 0 Shapes.Box<long>.this[int].get
9 0 Shapes.Program.Main.lambda#0(int)
9 0 Shapes.Program.WaitAsync(int)
8 0 Shapes.Box<int>.Spin(int, int, ref bool)
8 0 Shapes.Box<long>.this[int].set
8 0 Shapes.Program.Main.Local(int)
7 0 Shapes.Box<T>.Nested.Fill(Dictionary<string, List<T[]>>, int?)
7 0 Shapes.Program.Numbers
5 0 Shapes.Box<T>.Spin(T, int, ref bool)
5 0 Shapes.Box<long>.Count.get
3 0 MadeAtRunTime(int)
";
    assert_eq!(own_methods(&profile(&stream(NET_10), Wall)), wanted);
}

#[test]
fn every_frame_of_a_whole_stream_is_named_and_placed() {
    for name in [CORE_3, NET_10] {
        let profile = profile(&stream(name), Wall);
        for frame in profile.frames() {
            assert_eq!(frame.kind, FrameKind::Managed, "{}", profile.text(frame.name));
            assert!(frame.module.is_some(), "{}", profile.text(frame.name));
        }
    }
}

#[test]
fn what_the_stream_says_of_itself_fills_the_gaps_of_meta() {
    let profile = profile(&stream(NET_10), Wall);
    assert_eq!(profile.meta.command_line, "/usr/share/dotnet/dotnet /srv/shapes/shapes.dll");
    assert_eq!(profile.meta.frequency, 1000);
    assert_eq!(profile.meta.engine, "EventPipe SampleProfiler");
    // 21 November 2026.
    assert_eq!(profile.meta.started_unix_nanoseconds / 86_400_000_000_000, 20_778);
    let mut sampled = SampledProfile::new(Wall);
    sampled.push((&stream(NET_10)).into()).expect("the stream can be read");
    let known = Meta { command_line: "known".into(), process_id: 7, frequency: 99, ..Meta::default() };
    let meta = sampled.finish(known).meta;
    assert_eq!((meta.command_line.as_str(), meta.process_id, meta.frequency), ("known", 7, 99));
}

#[test]
fn wall_shows_native_code_as_blocked_and_cpu_leaves_it_out() {
    let is_in = |profile: &Profile, sample: &remora_profile::Sample, name: &str| {
        profile.walk(sample.stack).any(|frame| profile.text(profile.frame_at(frame).name) == name)
    };
    let wall = profile(&stream(CORE_3), Wall);
    let sleeping: Vec<_> =
        wall.samples().iter().filter(|sample| is_in(&wall, sample, "Shapes.Program.Sleep()")).collect();
    let blocked = sleeping.iter().filter(|sample| sample.state == State::Blocked).count();
    assert!(sleeping.len() > 100 && blocked + 1 >= sleeping.len(), "{blocked} of {}", sleeping.len());
    let cpu = profile(&stream(CORE_3), Cpu);
    assert!(!cpu.samples().is_empty() && cpu.samples().len() < wall.samples().len());
    assert!(cpu.samples().iter().all(|sample| sample.state == State::Running));
    assert!(cpu.meta.notes.iter().any(|note| note.contains("not processor time")));
    assert!(wall.meta.notes.iter().any(|note| note.contains("safepoints")));
}

#[test]
fn a_thread_that_is_always_there_has_the_whole_time() {
    let profile = profile(&stream(CORE_3), Wall);
    let summary = Summary::of(&profile, None);
    let first = profile.samples().iter().map(|sample| sample.time).min().expect("there are samples");
    let last = profile.samples().iter().map(|sample| sample.time).max().expect("there are samples");
    let busiest = summary.threads[0].weight;
    // The round before the first is not in the stream, and stands for one more interval.
    assert!(busiest >= last - first && busiest < last - first + 20_000_000, "{busiest} of {}", last - first);
}

#[test]
fn pieces_of_any_size_make_the_same_profile() {
    let bytes = stream(CORE_3);
    let whole = profile(&bytes, Wall);
    for size in [1, 3, 4096, 65_537] {
        let mut sampled = SampledProfile::new(Wall);
        for piece in bytes.chunks(size) {
            sampled.push(piece.into()).expect("the stream can be read");
        }
        let pieces = sampled.finish(Meta::default());
        assert_eq!(pieces.samples(), whole.samples(), "pieces of {size}");
        assert_eq!(pieces.meta, whole.meta);
    }
}

#[test]
fn a_stream_that_is_cut_off_is_worth_what_came_before() {
    let bytes = stream(CORE_3);
    let all = profile(&bytes, Wall).samples().len();
    let mut before = 0;
    for end in (0..bytes.len()).step_by(991) {
        let mut sampled = SampledProfile::new(Wall);
        sampled.push(bytes[..end].into()).expect("what is there can be read");
        assert!(!sampled.ended());
        let profile = sampled.finish(Meta::default());
        assert!((before..=all).contains(&profile.samples().len()));
        assert!(profile.meta.notes.iter().any(|note| note.contains("cut off")), "at {end}");
        before = profile.samples().len();
    }
    assert_eq!(before, all, "the names come last");
}

#[test]
fn without_the_names_at_the_end_frames_are_unknown_and_that_is_said() {
    let bytes = stream(NET_10);
    let mut sampled = SampledProfile::new(Wall);
    sampled.push(bytes[..bytes.len() / 4].into()).expect("what is there can be read");
    let profile = sampled.finish(Meta::default());
    assert!(profile.frames().iter().any(|frame| frame.kind == FrameKind::Unknown));
    assert!(profile.meta.notes.iter().any(|note| note.contains("[unknown]")));
}

/// Counts what comes.
#[derive(Default)]
struct Counter {
    events: u64,
    samples: u64,
    dropped: u64,
}

impl Sink for Counter {
    fn trace(&mut self, _: &Trace) {}

    fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        self.samples += u64::from(event.event_type.provider == remora_nettrace::providers::SAMPLER);
    }

    fn dropped(&mut self, _: u64, count: u64) {
        self.dropped += count;
    }
}

fn count(bytes: &[u8]) -> (Counter, StreamEnd) {
    let mut counter = Counter::default();
    let mut parser = Parser::new();
    parser.push(bytes.into(), &mut counter).expect("the stream can be read");
    (counter, parser.finish())
}

#[test]
fn what_is_missing_is_counted_by_the_numbers_of_the_threads() {
    for name in [CORE_3, NET_10] {
        let bytes = stream(name);
        let objects = objects(&bytes);
        assert_eq!(assemble(&objects), bytes, "nothing gets lost by taking it apart");
        let (all, end) = count(&bytes);
        assert_eq!((all.dropped, end.dropped, end.incomplete, end.truncated), (0, 0, 0, false));
        let blocks: Vec<usize> = (0..objects.len()).filter(|&index| objects[index].name() == "EventBlock").collect();
        for &block in &blocks {
            let mut others = objects.clone();
            others.remove(block);
            let (rest, end) = count(&assemble(&others));
            assert!(rest.events < all.events);
            assert_eq!(rest.events + rest.dropped, all.events, "block {block}");
            assert_eq!(end.dropped, rest.dropped);
        }
    }
}

#[test]
fn lost_samples_are_distinguished_from_other_lost_events() {
    let mut objects = objects(&stream(NET_10));
    let all = profile(&assemble(&objects), Wall).loss.delivered;
    let first = objects.iter().position(|object| object.name() == "EventBlock").expect("there are events");
    objects.remove(first);
    let bytes = assemble(&objects);
    let (counter, _) = count(&bytes);
    let mut sampled = SampledProfile::new(Wall);
    assert_eq!(sampled.lost(), 0);
    sampled.push((&bytes).into()).expect("it can be read");
    assert_eq!(sampled.lost(), all - counter.samples, "reported while it is recorded");
    let profile = profile(&bytes, Wall);
    assert_eq!(profile.loss.delivered, counter.samples);
    assert_eq!(profile.loss.lost, [(LossCause::RuntimeDropped, all - counter.samples)]);
    assert!(profile.loss.adds_up());
    assert!(counter.dropped > all - counter.samples, "names of methods are missing too");
    assert!(profile.meta.notes.iter().any(|note| note.contains("other events")));
}

#[test]
fn an_unknown_kind_of_block_is_passed_over() {
    let bytes = stream(CORE_3);
    let mut objects = objects(&bytes);
    let mut new = objects[1].clone();
    let name = b"NewerBlock\x06";
    new.header.truncate(11);
    new.header.extend_from_slice(&10u32.to_le_bytes());
    new.header.extend_from_slice(name);
    new.content = vec![0xff; 77];
    objects.insert(2, new);
    assert_eq!(profile(&assemble(&objects), Wall).samples(), profile(&bytes, Wall).samples());
}

#[test]
fn other_formats_are_refused_by_name() {
    let refusal = |bytes: &[u8]| SampledProfile::new(Wall).push(bytes.into()).expect_err("it is refused");
    assert_eq!(refusal(b"NOT a trace"), Error::NotNettrace);
    assert_eq!(refusal(b"Nettrace\x14\0\0\0!SlowSerialization.1"), Error::NotNettrace);
    assert_eq!(refusal(b"Nettrace\0\0\0\0\x06\0\0\0\0\0\0\0"), Error::Version { version: 6 });
    let mut newer = stream(CORE_3);
    newer[HEADER + 7] = 5;
    assert_eq!(refusal(&newer), Error::Version { version: 5 });
    assert!(Error::Version { version: 6 }.to_string().contains("only 4"));
}

#[test]
fn a_failed_stream_stays_failed_and_keeps_what_came() {
    let mut bytes = stream(CORE_3);
    let end = bytes.len() - 1;
    bytes[end] = 9;
    let mut sampled = SampledProfile::new(Wall);
    let error = sampled.push((&bytes).into()).expect_err("there is no such mark");
    assert!(matches!(error, Error::Damaged { offset, .. } if offset == end as u64));
    assert_eq!(sampled.push(b"more".as_slice().into()), Err(error));
    let profile = sampled.finish(Meta::default());
    assert!(profile.samples().len() > 100);
    assert!(profile.meta.notes.iter().any(|note| note.contains("damaged at byte")));
}
