//! Limits on what a target can make this process use: records per pass, memory, bytes of a heap stream, time.

use remora_receipt::Facts;
use remora_wire::floor_char_boundary;
use std::fs;
use std::time::{Duration, Instant};

/// Growth allowed to this process in any case, bytes, unless that is more than a quarter of the free memory. A sample takes 40.
const LEAST_LIMIT: u64 = 256 << 20;
/// Bytes of a heap stream beyond those computed from the process's memory.
const SPARE_STREAM: u64 = 256 << 20;
/// Bytes of a heap stream for each byte of the process's memory. An object of 24 bytes or more takes some 5, and its contents at most its
/// own size.
const STREAM_FOR_BYTE: u64 = 2;

/// Maximum time without data during a snapshot; the second value is added for each GiB of the process.
const QUIET: Duration = Duration::from_secs(60);
const QUIET_FOR_GIB: Duration = Duration::from_secs(5);
/// Maximum time of a whole snapshot; the second value is added for each GiB of the process. That is ten times the time of a disk with 100
/// MB/s. The copy has the lowest priority, and gets little CPU time on a busy machine.
const WHOLE: Duration = Duration::from_secs(600);
const WHOLE_FOR_GIB: Duration = Duration::from_secs(120);

/// Maximum time of one pass over the rings. The target decides what a record costs: an address may need the mappings read, and the first
/// one of a method that method's lines.
pub(crate) const LONGEST_PASS: Duration = Duration::from_millis(50);

/// Words that one pass may still take from the rings, and its deadline. Without a limit, a ring that never empties or has expensive records
/// would keep the caller from its other deadlines. The rest waits for the next pass.
pub(crate) struct Allowance<'a> {
    words: usize,
    until: Instant,
    clock: &'a dyn Fn() -> Instant,
}

impl<'a> Allowance<'a> {
    /// This many words, for [`LONGEST_PASS`] from now by this clock.
    pub(crate) fn of(words: usize, clock: &'a dyn Fn() -> Instant) -> Allowance<'a> {
        Allowance { words, until: clock() + LONGEST_PASS, clock }
    }

    /// Whether the pass may take another record.
    pub(crate) fn is_left(&self) -> bool {
        self.words > 0 && (self.clock)() < self.until
    }

    /// Counts a record of this many words.
    pub(crate) fn used(&mut self, words: usize) {
        self.words = self.words.saturating_sub(words.saturating_add(1));
    }
}

/// Maximum resident memory of this process, relative to its size at creation.
#[derive(Debug)]
pub struct MemoryLimit {
    most: u64,
    part: &'static str,
}

impl MemoryLimit {
    /// Half of the free memory.
    pub fn half() -> MemoryLimit {
        MemoryLimit::part(2, "half")
    }

    /// A quarter of the free memory: for a recording. Tables and files made from one take up to three times its size.
    pub fn quarter() -> MemoryLimit {
        MemoryLimit::part(4, "a quarter")
    }

    /// An eighth of the free memory, and at least 256 MiB or a quarter of it: for data that later becomes something larger.
    pub fn eighth() -> MemoryLimit {
        MemoryLimit::part(8, "an eighth")
    }

    /// Seven eighths of the free memory: for a step between two checks of another limit.
    pub fn nearly_all() -> MemoryLimit {
        let free = remora_attach::own_room();
        MemoryLimit::of(free.map_or(LEAST_LIMIT, |free| free / 8 * 7), "seven eighths")
    }

    fn part(divisor: u64, part: &'static str) -> MemoryLimit {
        // The machine's free memory, or less in a control group. Beyond it, the kernel would end this process or one beside it.
        MemoryLimit::of(growth(remora_attach::own_room(), divisor), part)
    }

    /// A limit of this many bytes; `part` names the fraction of free memory.
    pub fn of(growth: u64, part: &'static str) -> MemoryLimit {
        MemoryLimit { most: resident("/proc/self/statm").unwrap_or(0).saturating_add(growth), part }
    }

    /// Whether this process has grown beyond the limit.
    pub fn is_exceeded(&self) -> bool {
        resident("/proc/self/statm").is_some_and(|now| now > self.most)
    }

    /// The reason to end, if this process has grown beyond the limit.
    pub fn exceeded(&self) -> Option<String> {
        let why = || format!("what the target sent takes more than {} of the memory that was free", self.part);
        self.is_exceeded().then(why)
    }
}

/// The allowed growth, bytes, with this much free memory: one part of `divisor`.
fn growth(free: Option<u64>, divisor: u64) -> u64 {
    free.map_or(LEAST_LIMIT, |free| (free / divisor).max(LEAST_LIMIT.min(free / 4)))
}

/// Maximum length of a process's heap stream, bytes.
pub(crate) fn longest_stream(process_id: u32) -> u64 {
    memory_of(process_id).saturating_mul(STREAM_FOR_BYTE).saturating_add(SPARE_STREAM)
}

/// Memory of a process, bytes. At most the machine's memory: a process may map the same page many times.
fn memory_of(process_id: u32) -> u64 {
    let all = ["VmRSS:", "VmSwap:", "HugetlbPages:"];
    let memory = kibibytes(&format!("/proc/{process_id}/status"), &all).unwrap_or(0);
    memory.min(kibibytes("/proc/meminfo", &["MemTotal:", "SwapTotal:"]).unwrap_or(u64::MAX))
}

/// Deadlines of a snapshot: without data, and in all. GC and walk of a large heap take time: both grow with the process's memory.
#[derive(Debug)]
pub(crate) struct Deadlines {
    quiet: Duration,
    whole: Duration,
    begun: Instant,
    last: Instant,
}

impl Deadlines {
    /// Deadlines of a snapshot that begins now.
    pub(crate) fn of(process_id: u32) -> Deadlines {
        let gibibytes = (memory_of(process_id) >> 30) as u32;
        let now = Instant::now();
        let (quiet, whole) = (QUIET + QUIET_FOR_GIB * gibibytes, WHOLE + WHOLE_FOR_GIB * gibibytes);
        Deadlines { quiet, whole, begun: now, last: now }
    }

    /// Data has arrived.
    pub(crate) fn something_came(&mut self, now: Instant) {
        self.last = now;
    }

    /// The reason to give up the snapshot, if a deadline has passed.
    pub(crate) fn exceeded(&self, now: Instant) -> Option<String> {
        let since = |earlier| now.saturating_duration_since(earlier);
        if since(self.last) >= self.quiet {
            return Some(format!("nothing came from the agent in the process for {} s", self.quiet.as_secs()));
        }
        let most = self.whole.as_secs();
        (since(self.begun) >= self.whole)
            .then(|| format!("the snapshot has not ended within {most} s, the most for a process of this size"))
    }
}

/// The sum of these lines of a file, bytes. The lines are in KiB.
fn kibibytes(file: &str, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let words = text.lines().map(|line| line.split_ascii_whitespace());
    let named =
        words.filter_map(|mut words| names.contains(&words.next()?).then(|| words.next()?.parse::<u64>().ok())?);
    Some(named.sum::<u64>().saturating_mul(1024))
}

/// Resident memory, bytes: the second number of `statm`.
fn resident(statm: &str) -> Option<u64> {
    let text = fs::read_to_string(statm).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Adds the process id of a copy that the agent has reported. A hostile agent may report any number; the receipt searches for each of
/// them.
pub(crate) fn keep_child(facts: &mut Facts, child: u32) {
    const MOST: usize = 1 << 10;
    if facts.children.len() < MOST && !facts.children.contains(&child) {
        facts.children.push(child);
    }
}

/// Adds the agent's note. A hostile agent may send any number, so the list is bounded: its last entry says that notes were left out.
pub(crate) fn keep_note(notes: &mut Vec<String>, note: Option<String>) {
    const MOST: usize = 64;
    const LONGEST: usize = 4096;
    let Some(mut note) = note else { return };
    if notes.len() < MOST {
        note.truncate(floor_char_boundary(&note, LONGEST));
        notes.push(note);
    } else if notes.len() == MOST {
        notes.push("further messages of the agent were left out".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::SharedMemory;
    use remora_ring::{HEADER_WORDS, Ring};
    use remora_wire::{Foreign, layout};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_growth_is_a_part_of_the_free_memory_and_never_more_than_half() {
        const MIB: u64 = 1 << 20;
        for (free, allowed) in [
            (8192, [4096, 2048, 1024]),
            (2048, [1024, 512, 256]),
            (1024, [512, 256, 256]),
            (512, [256, 128, 128]),
            (256, [128, 64, 64]),
            (0, [0; 3]),
        ] {
            let growths = [2, 4, 8].map(|divisor| growth(Some(free * MIB), divisor));
            assert_eq!(growths, allowed.map(|mebibytes| mebibytes * MIB), "{free} MiB");
        }
        assert_eq!([2, 4, 8].map(|divisor| growth(None, divisor)), [256 * MIB; 3], "unknown");
    }

    #[test]
    fn notes_end_although_an_agent_never_does_and_say_so() {
        let mut notes = vec!["first".to_owned()];
        keep_note(&mut notes, None);
        for _ in 0..1000 {
            keep_note(&mut notes, Some("\u{e4}".repeat(1 << 16)));
        }
        assert_eq!((notes.len(), notes[0].as_str(), notes[1].len()), (65, "first", 4096));
        assert!(notes[64].contains("left out"), "{}", notes[64]);
    }

    /// Ends the thread that fills a ring.
    struct Ends<'a>(&'a AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_ring_that_never_runs_empty_keeps_nobody() {
        let memory = SharedMemory::new(false).expect("a memfd");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let words = memory.words_of(layout::messages(false, HEADER_WORDS));
                let ring = Ring::new(words).expect("a ring");
                while !ended.load(Ordering::Relaxed) {
                    // A full ring is fine: it only has to be refilled.
                    let _ = ring.push(&[&[1; 100]]);
                }
            });
            // Also if an assertion fails: the scope waits for the thread.
            let _ends = Ends(&ended);
            let begun = Instant::now();
            let still = || begun;
            let (mut allowance, mut words, mut taken) = (memory.allowance(&still), Foreign::default(), 0);
            while allowance.is_left() {
                taken += usize::from(memory.pop(&mut words, &mut allowance));
            }
            assert!(!memory.pop(&mut words, &mut allowance));
            assert!(taken >= layout::RING_WORDS / 101, "{taken}: less than the ring holds");
        });
    }

    #[test]
    fn growth_of_this_process_is_seen() {
        let limit = MemoryLimit::of(64 << 20, "half");
        assert_eq!(limit.exceeded(), None);
        let grown = vec![1_u8; 128 << 20];
        assert!(limit.exceeded().is_some());
        drop(grown);
    }

    #[test]
    fn a_silent_connection_is_abandoned_and_one_that_sends_is_not() {
        let mut deadlines = Deadlines::of(u32::MAX);
        let after = |seconds| deadlines.begun + Duration::from_secs(seconds);
        let (early, late, later) = (after(59), after(60), after(119));
        assert_eq!(deadlines.exceeded(early), None);
        assert_eq!(deadlines.exceeded(late).as_deref(), Some("nothing came from the agent in the process for 60 s"));
        deadlines.something_came(late);
        assert_eq!(deadlines.exceeded(later), None);
        assert!(Deadlines::of(std::process::id()).quiet >= QUIET, "a process adds to it");
    }

    #[test]
    fn endless_input_in_small_pieces_is_abandoned_in_the_end() {
        let mut deadlines = Deadlines::of(u32::MAX);
        let begun = deadlines.begun;
        let given_up = (1..10_000).map(|drop| begun + Duration::from_secs(drop)).find_map(|now| {
            deadlines.something_came(now);
            deadlines.exceeded(now).map(|why| (now - begun, why))
        });
        let why = "the snapshot has not ended within 600 s, the most for a process of this size";
        assert_eq!(given_up, Some((WHOLE, why.to_owned())));
    }

    #[test]
    fn the_longest_stream_follows_from_the_memory_of_the_process() {
        assert!(longest_stream(std::process::id()) > SPARE_STREAM);
        assert_eq!(longest_stream(u32::MAX), SPARE_STREAM);
    }
}
