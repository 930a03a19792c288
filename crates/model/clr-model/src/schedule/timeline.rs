//! The steps of a schedule as numbered lines, in the format of the founding documents.

use std::fmt;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds since the schedule began.
    pub time: u64,
    /// The thread, by start order.
    pub task: usize,
    /// The text; `{}` is replaced by the value.
    pub what: &'static str,
    /// An id, a number, or 0.
    pub value: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what.split_once("{}") {
            Some((before, after)) => write!(out, "{before}{:#x}{after}", self.value),
            None => out.write_str(self.what),
        }
    }
}

/// All steps. The hash is always kept, the lines only if they will be read.
#[derive(Debug, Default, Clone)]
pub struct Timeline {
    records: bool,
    lines: Vec<Line>,
    hash: u64,
}

impl Timeline {
    /// A timeline that keeps its lines.
    pub fn recording() -> Timeline {
        Timeline { records: true, ..Timeline::default() }
    }

    pub(super) fn add(&mut self, line: Line) {
        let fold = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        let words = line.what.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| fold(hash, u64::from(byte)));
        self.hash = [line.time, line.task as u64, words, line.value].into_iter().fold(self.hash, fold);
        if self.records {
            self.lines.push(line);
        }
    }

    /// A hash of the schedule: the same schedule gives the same hash, and no other does.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if they were kept.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(out, "{}. {line}", number + 1)?;
        }
        Ok(())
    }
}
