//! A short run over every entry: its seeds, its corpus, and as many mutations of them as take a moment. The same in every run.
//!
//! `REMORA_FUZZ_ROUNDS=100` makes it a hundred times as long, with other mutations.

use remora_fuzz_smoke::{ENTRIES, Entry, mutate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[test]
fn every_entry_survives_what_is_fed_to_it() {
    let times = std::env::var("REMORA_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let found: Vec<String> = ENTRIES.iter().filter_map(|entry| run(entry, times)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_corpus_and_every_target_belongs_to_an_entry() {
    let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    for corpus in files(&fuzz().join("corpus")) {
        assert!(names.iter().any(|name| corpus.ends_with(name)), "{}", corpus.display());
    }
    let mut targets: Vec<String> = files(&fuzz().join("fuzz_targets"))
        .iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    targets.sort();
    let mut expected = names.clone();
    expected.sort_unstable();
    assert_eq!(targets, expected);
    for name in names {
        let source = std::fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).expect("it is text");
        assert!(source.contains(&format!("feed(\"{name}\", bytes)")), "{name}");
        let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).expect("it is text");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

#[test]
fn mutations_are_the_same_every_time_and_differ() {
    let input = [7; 64];
    let mutated: Vec<Vec<u8>> = (0..100).map(|round| mutate(&input, round)).collect();
    assert_eq!(mutated, (0..100).map(|round| mutate(&input, round)).collect::<Vec<_>>());
    let mut distinct = mutated.clone();
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() > 80, "{}", distinct.len());
}

/// What broke the entry, if anything did.
fn run(entry: &Entry, times: u64) -> Option<String> {
    let seeds = (entry.seeds)();
    let corpus = files(&fuzz().join("corpus").join(entry.name));
    let corpus: Vec<Vec<u8>> = corpus.iter().map(|path| std::fs::read(path).expect("a file")).collect();
    let inputs: Vec<&Vec<u8>> = seeds.iter().chain(&corpus).collect();
    assert!(!inputs.is_empty(), "{} has no seeds", entry.name);
    for (number, input) in inputs.iter().enumerate() {
        match feed(entry, input) {
            None => return Some(format!("{}: input {number} breaks it", entry.name)),
            Some(false) if number < seeds.len() => return Some(format!("{}: seed {number} means nothing", entry.name)),
            Some(_) => {}
        }
    }
    for round in 0..entry.rounds * times {
        let bytes = mutate(inputs[(round % inputs.len() as u64) as usize], round);
        if feed(entry, &bytes).is_none() {
            let kept = std::env::temp_dir().join(format!("remora-fuzz-{}-{round}", entry.name));
            let _ = std::fs::write(&kept, bytes);
            return Some(format!("{}: round {round} breaks it; the bytes are in {}", entry.name, kept.display()));
        }
    }
    None
}

/// Whether the entry understood; `None` if it broke.
fn feed(entry: &Entry, bytes: &[u8]) -> Option<bool> {
    catch_unwind(AssertUnwindSafe(|| (entry.run)(bytes))).ok()
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The paths in a folder, in order; none if there is no such folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
