//! The receipt: compares two snapshots, given the facts.

use crate::comparison::{Case, why_not_looked_at};
use crate::{Facts, Kind, Left, Snapshot, Task, Totals};

/// State of the process after the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// It still runs.
    Running,
    /// It ended, and only files can be left.
    Ended,
}

/// The verdict for one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Checked, and nothing of Remora found.
    Clean,
    /// Something is left, or could not be read.
    Left,
    /// Something is left that the contract allows.
    Allowed,
    /// Not checked, for this reason.
    NotLookedAt(&'static str),
}

/// The leftovers of Remora in a process, and the durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The process id in our namespace.
    pub process_id: u32,
    /// The runtime's display name: `.NET 8.0.4`.
    pub runtime: String,
    /// The purpose of the attach.
    pub task: Task,
    /// State of the process.
    pub outcome: Outcome,
    /// Whether a recording went on beside, with its own agent.
    pub beside: bool,
    /// Leftovers, and everything unreadable.
    pub left: Vec<Left>,
    /// Leftovers that the contract allows: they do not make the receipt unclean.
    pub allowed: Vec<Left>,
    /// Unchecked kinds, with the reason.
    pub not_looked_at: Vec<(Kind, &'static str)>,
    /// Totals before the attach; shown, not checked.
    pub before: Totals,
    /// Totals after the detach, or before if the process ended; shown, not checked.
    pub after: Totals,
    /// Duration of the attach, nanoseconds.
    pub attach: u64,
    /// Duration of the task, nanoseconds.
    pub recording: u64,
    /// Duration of the detach, nanoseconds.
    pub detach: u64,
}

impl Receipt {
    /// Compares the process before the attach with the same process after the detach. If `after` is another process with the same id, the
    /// first one has ended.
    pub fn between(before: &Snapshot, after: &Snapshot, facts: &Facts) -> Receipt {
        let is_same = before.process_id == after.process_id && before.start_time == after.start_time;
        Receipt::judged(before, after, facts, if is_same { Outcome::Running } else { Outcome::Ended })
    }

    /// The receipt for a process that ended during the recording: only its placed files can be left.
    pub fn of_ended(before: &Snapshot, facts: &Facts) -> Receipt {
        let mut after = Snapshot::default();
        after.look_for(&facts.placed);
        Receipt::judged(before, &after, facts, Outcome::Ended)
    }

    /// Whether everything was readable, and nothing is left that the contract does not allow.
    pub fn clean(&self) -> bool {
        self.left.is_empty()
    }

    /// The leftovers of one kind.
    pub fn left_of(&self, kind: Kind) -> impl Iterator<Item = &Left> {
        self.left.iter().filter(move |left| left.kind == kind)
    }

    /// The verdict for one kind.
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
            beside: facts.beside,
            runtime: facts.runtime.clone(),
            task: facts.task,
            outcome,
            left,
            allowed,
            not_looked_at: Kind::ALL
                .iter()
                .filter_map(|kind| Some((*kind, why_not_looked_at(*kind, facts)?)))
                .collect(),
            before: before.totals(),
            after: if outcome == Outcome::Running { after.totals() } else { before.totals() },
            attach: facts.attach,
            recording: facts.recording,
            detach: facts.detach,
        }
    }
}
