//! A short run over every entry: its seeds, its corpus, and some mutations of them. The same in every run.
//!
//! `REMORA_FUZZ_ROUNDS=100` makes it a hundred times as long, with other mutations.
//!
//! An entry may allocate memory in proportion to its input ([`BESIDE`], [`EACH`]) and take limited CPU time ([`TIME`]). If an entry hangs
//! or exhausts memory, a kernel limit ends the test; standard error names the entry.

#![allow(clippy::print_stderr, reason = "what the kernel ends is named before")]

use peak_alloc::PeakAlloc;
use remora_fuzz_smoke::{ENTRIES, Entry, mutate, with_counts};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that an entry may allocate for any input: buffers of writers.
const BESIDE: usize = 4 << 20;
/// Additional bytes for each byte of input.
const EACH: usize = 256;
/// CPU time for one input (no seed's length is exceeded by much): a thousand times the slowest.
const TIME: Duration = Duration::from_secs(10);
/// CPU time limit for an entry, in seconds: the kernel ends a hanging one.
const HANGS: u64 = 600;
/// Address space beyond that at the start of the test: a larger allocation fails, and the test ends.
const ADDRESSES: u64 = 16 << 30;

#[test]
fn every_entry_survives_what_is_fed_to_it() {
    let times = std::env::var("REMORA_FUZZ_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    limit(Resource::As, ADDRESSES);
    // In the same test: memory is counted for the whole process.
    let greedy = |bytes: &[u8]| vec![0_u8; BESIDE + EACH * bytes.len() + 1].len() > bytes.len();
    let greedy = Entry { name: "greedy", run: greedy, seeds: || vec![vec![7; 9]], rounds: 0 };
    let found = run(&greedy, 1).unwrap_or_default();
    assert!(found.starts_with("greedy: input 0 takes"), "{found}");
    // Trusts a count in the middle of the input.
    let believes = |bytes: &[u8]| {
        let count = bytes[60..].iter().take(4).rev().fold(0, |count, byte| count << 7 | usize::from(byte & 0x7f));
        Vec::<u64>::with_capacity(count).capacity() >= count
    };
    let believes = Entry { name: "believes", run: believes, seeds: || vec![vec![0; 100]], rounds: 200 };
    let found = run(&believes, 0).unwrap_or_default();
    assert!(found.starts_with("believes: round 1"), "{found}");
    let kept = found.split("; the bytes are in ").nth(1).unwrap_or_default();
    assert!(kept.starts_with(env!("CARGO_TARGET_TMPDIR")), "another user may have made {kept}");
    assert!(std::fs::remove_file(kept).is_ok(), "{kept}");
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

/// The failure of the entry, if any.
fn run(entry: &Entry, times: u64) -> Option<String> {
    eprintln!("{}", entry.name);
    limit(Resource::Cpu, spent(ClockId::ProcessCPUTime).as_secs() + HANGS);
    let seeds = (entry.seeds)();
    let corpus = files(&fuzz().join("corpus").join(entry.name));
    let corpus: Vec<Vec<u8>> = corpus.iter().map(|path| std::fs::read(path).expect("a file")).collect();
    let inputs: Vec<&Vec<u8>> = seeds.iter().chain(&corpus).collect();
    assert!(!inputs.is_empty(), "{} has no seeds", entry.name);
    for (number, input) in inputs.iter().enumerate() {
        match feed(entry, input) {
            Err(what) => return Some(format!("{}: input {number} {what}", entry.name)),
            Ok(false) if number < seeds.len() => return Some(format!("{}: seed {number} means nothing", entry.name)),
            Ok(_) => {}
        }
    }
    let each = (entry.rounds / inputs.len() as u64).max(1);
    let counts = inputs.iter().flat_map(|input| with_counts(input, each));
    let mutations =
        (0..entry.rounds * times).map(|round| mutate(inputs[(round % inputs.len() as u64) as usize], round));
    for (round, bytes) in counts.chain(mutations).enumerate() {
        if let Err(what) = feed(entry, &bytes) {
            // In a folder that no other user can write to: the name can be guessed.
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("remora-fuzz-{}-{round}", entry.name));
            let _ = std::fs::write(&kept, bytes);
            return Some(format!("{}: round {round} {what}; the bytes are in {}", entry.name, kept.display()));
        }
    }
    None
}

/// Whether the input was valid; or the violation.
fn feed(entry: &Entry, bytes: &[u8]) -> Result<bool, String> {
    MEMORY.reset_peak_usage();
    let (before, begun) = (MEMORY.current_usage(), spent(ClockId::ThreadCPUTime));
    let understood = catch_unwind(AssertUnwindSafe(|| (entry.run)(bytes)));
    let (taken, time) = (MEMORY.peak_usage().saturating_sub(before), spent(ClockId::ThreadCPUTime) - begun);
    let understood = understood.map_err(|_| "breaks it".to_owned())?;
    let most = BESIDE + EACH * bytes.len();
    if taken > most {
        return Err(format!("takes {taken} bytes of memory for {} of input, more than {most}", bytes.len()));
    }
    if time > TIME {
        return Err(format!("takes {time:?} of CPU time for {} bytes", bytes.len()));
    }
    Ok(understood)
}

fn spent(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Lowers a limit of this process, unless it is lower already.
fn limit(what: Resource, most: u64) {
    let Rlimit { maximum, .. } = getrlimit(what);
    let current = Some(maximum.map_or(most, |maximum| maximum.min(most)));
    setrlimit(what, Rlimit { current, maximum }).expect("a limit can be lowered");
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The sorted paths in a folder; none if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
