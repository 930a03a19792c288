//! The receipt for the terminal, without colour (the command may add it).
//!
//! A clean receipt has two lines: more would push the answer off the screen. Any other has a dozen at most, with one mark per kind.

use crate::comparison::UNTOUCHED;
use crate::{Kind, Left, Outcome, Receipt, Verdict};
use std::fmt;

/// Maximum number of leftovers listed. More are counted; the JSON has them all.
const LISTED: usize = 3;
/// Kinds on one line.
const COLUMNS: usize = 4;

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Receipt {
    /// The receipt as text, line by line. It quotes text of the target: the printing code must make sure that a line stays one line.
    pub fn lines(&self) -> Vec<String> {
        let is_explained = self.outcome == Outcome::Running && !self.clean();
        let mut lines = vec![self.headline()];
        lines.extend(is_explained.then(|| self.kinds()).into_iter().flatten());
        lines.extend(self.reasons(is_explained));
        lines.extend(list('✗', &self.left.iter().collect::<Vec<_>>()));
        // The runtime's thread is in the line of times.
        let is_shown = |left: &&Left| is_explained || left.kind != Kind::Thread;
        lines.extend(list('~', &self.allowed.iter().filter(is_shown).collect::<Vec<_>>()));
        lines.push(self.times(is_explained));
        lines.extend(is_explained.then(|| self.totals()));
        lines
    }

    fn headline(&self) -> String {
        let runtime = if self.runtime.is_empty() { String::new() } else { format!(" ({})", self.runtime) };
        let which = format!("{}{runtime}", self.process_id);
        let process = format!("process {which}");
        match (self.outcome, self.clean()) {
            (Outcome::Running, true) if self.verdict(Kind::ProfilerSlot) == Verdict::Allowed => {
                format!("Receipt: clean, except for what was announced. This stays in {process}, inert:")
            }
            (Outcome::Running, true) if self.verdict(Kind::Mapping) == Verdict::Allowed => {
                format!("Receipt: clean, except for an inert library. This stays in {process} and does nothing:")
            }
            (Outcome::Running, true) if self.beside => {
                format!("Receipt: clean. Beside the recording, nothing of Remora is left in {process}.")
            }
            (Outcome::Running, true) => format!("Receipt: clean. Nothing of Remora is left in {process}."),
            (Outcome::Running, false) => {
                format!("Receipt: NOT clean. This is left in {process}, or could not be read:")
            }
            (Outcome::Ended, true) => format!("Receipt: clean. Process {which} ended meanwhile; no file is left."),
            (Outcome::Ended, false) => {
                format!("Receipt: NOT clean. Process {which} ended meanwhile; this is left of it:")
            }
        }
    }

    fn kinds(&self) -> Vec<String> {
        let line = |kinds: &[Kind]| {
            let cells: Vec<String> = kinds.iter().map(|kind| format!("{} {:<18}", self.mark(*kind), kind)).collect();
            format!("  {}", cells.join(" ").trim_end())
        };
        Kind::ALL.chunks(COLUMNS).map(line).collect()
    }

    /// Why kinds were not looked at. If nothing of a kind was touched, a clean receipt does not say so.
    fn reasons(&self, is_explained: bool) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (kind, why) in self.passed_over().filter(|(_, why)| is_explained || *why != UNTOUCHED) {
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, kinds)) => kinds.push(kind.name()),
                None => reasons.push((why, vec![kind.name()])),
            }
        }
        let line = |(why, kinds): &(&str, Vec<&str>)| format!("  · {}: not looked at, since {why}", kinds.join(", "));
        reasons.iter().map(line).collect()
    }

    /// One line. The runtime's own thread has a word in it where it has no line of its own.
    fn times(&self, is_explained: bool) -> String {
        let (attach, recording, detach) = (duration(self.attach), duration(self.recording), duration(self.detach));
        let has_thread = !is_explained && self.allowed.iter().any(|allowed| allowed.kind == Kind::Thread);
        let thread = if has_thread { " · ~ .NET's detach thread" } else { "" };
        format!("  attach {attach} · {} {recording} · detach {detach}{thread}", self.task.name())
    }

    fn mark(&self, kind: Kind) -> char {
        match self.verdict(kind) {
            Verdict::Clean => '✓',
            Verdict::Allowed => '~',
            Verdict::Left => '✗',
            Verdict::NotLookedAt(_) => '·',
        }
    }

    fn totals(&self) -> String {
        let (before, after) = (&self.before, &self.after);
        format!(
            "  before → after: {} → {} MiB resident, {} → {} threads, {} → {} descriptors (shown, not judged)",
            before.memory.resident >> 20,
            after.memory.resident >> 20,
            before.threads,
            after.threads,
            before.descriptors,
            after.descriptors
        )
    }
}

fn list(mark: char, list: &[&Left]) -> Vec<String> {
    // "and 1 more" would take the same line as the leftover itself: list it instead.
    let listed = if list.len() == LISTED + 1 { list.len() } else { list.len().min(LISTED) };
    let mut lines: Vec<String> =
        list[..listed].iter().map(|left| format!("  {mark} {}: {}", left.what, left.why)).collect();
    if list.len() > listed {
        lines.push(format!("  {mark} and {} more (--receipt FILE lists them all)", list.len() - listed));
    }
    lines
}

fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        10_000_000..1_000_000_000 => format!("{:.0} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}
