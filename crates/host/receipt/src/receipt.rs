//! The receipt: two snapshots compared, with what is known between them.

use crate::judge::{Case, why_not_looked_at};
use crate::{Facts, Kind, Left, Snapshot, Task, Totals};

/// What became of the process meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It runs on.
    Running,
    /// It ended, and took everything with it that was not a file.
    Ended,
}

/// What is known of one kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Looked at, and nothing of Remora found.
    Clean,
    /// Something is left, or could not be read.
    Left,
    /// What is left is named in the contract.
    Allowed,
    /// Not looked at, for this reason.
    NotLookedAt(&'static str),
}

/// What is left of Remora in a process, and how long everything took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The process as this side numbers it.
    pub process_id: u32,
    /// The runtime as it is shown: `.NET 8.0.4`.
    pub runtime: String,
    /// What it was attached to for.
    pub task: Task,
    /// What became of the process.
    pub outcome: Outcome,
    /// What is left, and what could not be read.
    pub left: Vec<Left>,
    /// What is left and named in the contract: it does not make the receipt unclean.
    pub allowed: Vec<Left>,
    /// Kinds that were not looked at, with why.
    pub not_looked_at: Vec<(Kind, &'static str)>,
    /// Numbers before the attach; shown, not judged.
    pub before: Totals,
    /// Numbers after the detach, or before if the process ended; shown, not judged.
    pub after: Totals,
    /// How long the attach took, nanoseconds.
    pub attach: u64,
    /// How long what it was for took, nanoseconds.
    pub recording: u64,
    /// How long the detach took, nanoseconds.
    pub detach: u64,
}

impl Receipt {
    /// Compares the process before the attach with the same process after the detach.
    /// If `after` turns out to be another process with the same id, the first one has ended.
    pub fn between(before: &Snapshot, after: &Snapshot, facts: &Facts) -> Receipt {
        if before.process_id == after.process_id && before.start_time == after.start_time {
            Receipt::judged(before, after, facts, Outcome::Running)
        } else {
            Receipt::judged(before, after, facts, Outcome::Ended)
        }
    }

    /// The receipt for a process that ended during the recording: only what was placed for it can be left.
    pub fn of_ended(before: &Snapshot, facts: &Facts) -> Receipt {
        let mut after = Snapshot::default();
        after.look_for(&facts.placed);
        Receipt::judged(before, &after, facts, Outcome::Ended)
    }

    /// Whether nothing is left that the contract does not allow, and everything could be read.
    pub fn clean(&self) -> bool {
        self.left.is_empty()
    }

    /// What is left of one kind.
    pub fn left_of(&self, kind: Kind) -> impl Iterator<Item = &Left> {
        self.left.iter().filter(move |left| left.kind == kind)
    }

    /// What is known of one kind.
    pub fn verdict(&self, kind: Kind) -> Verdict {
        if self.left_of(kind).next().is_some() {
            Verdict::Left
        } else if self.allowed.iter().any(|allowed| allowed.kind == kind) {
            Verdict::Allowed
        } else {
            let passed_over = self.not_looked_at.iter().find(|(other, _)| *other == kind);
            passed_over.map_or(Verdict::Clean, |(_, why)| Verdict::NotLookedAt(why))
        }
    }

    fn judged(before: &Snapshot, after: &Snapshot, facts: &Facts, outcome: Outcome) -> Receipt {
        let mut case = Case { before, after, facts, left: Vec::new(), allowed: Vec::new() };
        match outcome {
            Outcome::Running => case.judge(),
            Outcome::Ended => case.judge_ended(),
        }
        let (left, allowed) = (case.left, case.allowed);
        Receipt {
            process_id: before.process_id,
            runtime: facts.runtime.clone(),
            task: facts.task,
            outcome,
            left,
            allowed,
            not_looked_at: Kind::ALL
                .into_iter()
                .filter_map(|kind| Some((kind, why_not_looked_at(kind, facts)?)))
                .collect(),
            before: before.totals(),
            after: if outcome == Outcome::Running { after.totals() } else { before.totals() },
            attach: facts.attach,
            recording: facts.recording,
            detach: facts.detach,
        }
    }
}
