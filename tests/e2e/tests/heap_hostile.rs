//! Damaged or forged snapshot files: every command that reads one ends with a result or a clear error.
#![forbid(unsafe_code)]

use remora_e2e::{Finished, Runtime, Target, remora};
use remora_fuzz_smoke::mutate;
use remora_heap_file::{State, TypeRow, Writer};
use std::fs;
use std::path::Path;

/// Forged files, and damage to a complete one.
const ROUNDS: u64 = 40;

/// The exit codes of docs/reference/exit-codes.md for a file: read, unreadable, part of a heap, and for `show` a missing object.
const ENDS: [i32; 7] = [0, 2, 30, 31, 32, 33, 42];

/// The start of a terminal control sequence.
const ESCAPE: u8 = 0x1b;

fn comes_back(file: &Path, target: &Path) {
    let name = file.to_str().expect("a name");
    let export = |ending: &str| target.with_extension(ending).to_str().expect("a name").to_owned();
    let (dump, snapshot, tables) = (export("gcdump"), export("heapsnapshot"), export("parquet"));
    let commands: [&[&str]; 8] = [
        &["heap", "report", name],
        &["heap", "report", name, "--json"],
        &["heap", "show", name, "@0x1000"],
        &["heap", "show", name, "Known.Node"],
        &["heap", "diff", name, name],
        &["heap", "convert", name, "--force", "-o", &dump],
        &["heap", "convert", name, "--force", "-o", &snapshot],
        &["heap", "convert", name, "--force", "-o", &tables],
    ];
    for command in commands {
        let finished: Finished = remora(command.iter().copied());
        assert!(ENDS.contains(&finished.code()), "{command:?}: {finished}");
        let is_reported =
            finished.code() == 0 || finished.stderr.lines().last().is_some_and(|line| line.starts_with("remora: "));
        assert!(is_reported, "{command:?}: {finished}");
        // Type names in the file must not reach the terminal as control sequences.
        let obeyed = finished.stdout.contains(&ESCAPE) || finished.stderr.as_bytes().contains(&ESCAPE);
        assert!(!obeyed, "{command:?}: {finished}");
    }
}

#[test]
fn a_file_with_a_made_up_graph_is_answered_about_or_refused_and_nothing_breaks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, target) = (folder.path().join("hostile.remora-heap"), folder.path().join("made"));
    let entry = remora_fuzz_smoke::ENTRIES.iter().find(|entry| entry.name == "heap_questions").expect("an entry");
    let seeds = (entry.seeds)();
    for round in 0..ROUNDS {
        let stream = mutate(&seeds[(round % seeds.len() as u64) as usize], round);
        let rows = ["Known.Node", "\u{1b}[31mRed\u{202e}", "", "<,>[]?"].map(|name| TypeRow {
            name: name.to_owned(),
            assembly: name.to_owned(),
            flags: u32::MAX,
            events: vec![(name.to_owned(), name.to_owned())],
        });
        let made = Writer::create(Vec::new()).and_then(|mut made| {
            made.stream(&stream)?;
            made.types(&rows)?;
            made.finish(&State { complete: true, notes: vec!["\u{1b}]0;x".to_owned()], ..State::default() })
        });
        fs::write(&file, made.expect("memory takes everything")).expect("a file");
        comes_back(&file, &target);
    }
}

#[test]
fn a_damaged_file_of_a_live_heap_is_answered_about_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, file) = (folder.path().join("whole.remora-heap"), folder.path().join("damaged.remora-heap"));
    let target = Target::start(&Runtime::newest(), "kinds", &["2"]);
    remora(["heap", "-p", &target.pid().to_string(), "-o", whole.to_str().expect("a name")]).succeeded();
    let bytes = fs::read(&whole).expect("a snapshot");
    for round in 0..ROUNDS {
        fs::write(&file, mutate(&bytes, round)).expect("a file");
        comes_back(&file, &folder.path().join("made"));
    }
}
