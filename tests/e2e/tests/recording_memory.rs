//! Recordings that are shown with little memory: in a control group with a limit.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

use remora_e2e::{MemoryGroup, Remora};
use remora_profile::{Event, Frame, FrameIx, FrameKind, Meta, Profile, Sample, State, Thread};
use remora_recording::Writer;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Exit status of a file that takes too much memory.
const TOO_LARGE: i32 = 34;

/// A recording of some kilobytes with a million stack nodes: `Writer` packs what repeats.
fn recording_of_a_million_nodes(file: &Path) {
    let mut profile = Profile::new(Meta { event: Event::Wall, duration: 1_000_000_000, ..Meta::default() });
    // Some formats have tables for each thread.
    let threads = [7, 8, 9, 10].map(|id| profile.add_thread(Thread { id, name: format!("thread {id}") }));
    let frames: Vec<FrameIx> = (0..2000)
        .map(|index| {
            let (name, module) = (profile.string(&format!("libcoreclr.so+0x{index}")), profile.string("libcoreclr.so"));
            let module = (index % 4 == 0).then_some(module);
            profile.frame(Frame { kind: FrameKind::Native, name, module, file: None, line: None })
        })
        .collect();
    while profile.stacks().len() < 1_000_000 {
        let first = profile.samples().len() / threads.len();
        let of_sample = (0..10_000).map(|depth| frames[if depth == 0 { first } else { depth % frames.len() }]);
        let stack = profile.stack_from_root(of_sample).unwrap();
        for thread in threads {
            profile.add_sample(Sample { time: 0, thread, stack, weight: 1, state: State::Running });
        }
    }
    fs::write(file, Writer::create(Vec::new()).unwrap().finish(&profile).unwrap()).unwrap();
}

#[test]
fn a_recording_in_any_control_group_is_shown_or_refused_before_the_kernel_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("flat.remora");
    recording_of_a_million_nodes(&file);
    assert!(fs::metadata(&file).unwrap().len() < 200_000);
    let mut commands = vec![vec![OsString::from("report")], vec!["report".into(), "--expand-runtime".into()]];
    for format in ["html", "folded", "speedscope.json", "pb.gz", "firefox.json.gz", "remora"] {
        let output = directory.path().join("out").with_extension(format);
        commands.push(vec!["convert".into(), "--force".into(), "-o".into(), output.into()]);
    }
    for arguments in &commands {
        let mut answers = [0; 2];
        for limit in (16..=272).step_by(32) {
            let group = MemoryGroup::new(limit << 20);
            let mut command = group.command();
            command.arg(Remora::command().get_program()).args(arguments).arg(&file);
            let finished = Remora::spawn(command).finish();
            match finished.code() {
                0 => answers[0] += 1,
                TOO_LARGE if finished.stderr.contains("more than a quarter of the free memory") => answers[1] += 1,
                _ => panic!("{arguments:?} with {limit} MiB: {finished}"),
            }
            assert_eq!(group.kills(), 0, "{arguments:?} with {limit} MiB: {finished}");
        }
        assert!(answers.iter().all(|count| *count > 0), "{arguments:?}: {answers:?}");
    }
}
