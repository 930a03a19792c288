//! Many schedules: at random by their seeds, or all of a small world; and a failing one made short enough to read.

use crate::court::Finding;
use crate::scenario::{self, Outcome, Reached, Setting};
use crate::schedule::{Chooser, Exhaustive, Random};
use std::ops::Range;

/// What an exploration found.
#[derive(Debug, Default)]
pub struct Explored {
    /// Schedules that were run.
    pub schedules: u64,
    /// Whether these are all there are: of a walk over a small world that was not broken off.
    pub is_whole: bool,
    /// The first that broke the contract.
    pub failure: Option<Failure>,
    /// What they reached, all together.
    pub reached: Reached,
}

impl Explored {
    fn and(self, other: Explored) -> Explored {
        let failures = [self.failure, other.failure];
        Explored {
            schedules: self.schedules + other.schedules,
            is_whole: false,
            failure: failures.into_iter().flatten().min_by_key(|failure| failure.seed),
            reached: self.reached.and(other.reached),
        }
    }
}

/// A schedule that broke the contract.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The choices that repeat it.
    pub choices: Vec<u16>,
    /// What it broke.
    pub findings: Vec<Finding>,
}

/// Runs the schedule of each seed until one breaks the contract.
pub fn at_random(seeds: Range<u64>, setting: Setting) -> Explored {
    let mut explored = Explored::default();
    for seed in seeds {
        let outcome = scenario::run(seed, Chooser::Random(Random::new(seed)), setting);
        explored.schedules += 1;
        explored.reached = explored.reached.and(outcome.reached);
        if !outcome.findings.is_empty() {
            explored.failure = Some(Failure { seed, choices: outcome.choices, findings: outcome.findings });
            break;
        }
    }
    explored
}

/// The same on every processor, each with a part of the seeds. The failure is that of the lowest seed that was found; all parts stop
/// after their first.
pub fn on_all_processors(seeds: Range<u64>, setting: Setting) -> Explored {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let part = (seeds.end - seeds.start).div_ceil(processors).max(1);
    let parts: Vec<Range<u64>> = (0..processors)
        .map(|index| seeds.start + index * part..(seeds.start + (index + 1) * part).min(seeds.end))
        .collect();
    std::thread::scope(|scope| {
        let explorers: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || at_random(part, setting))).collect();
        let explored = explorers.into_iter().filter_map(|explorer| explorer.join().ok());
        explored.fold(Explored::default(), Explored::and)
    })
}

/// Runs every schedule of the small world of a seed with so many preemptions at most, `limit` of them at most.
pub fn all_of(seed: u64, preemptions: u32, limit: u64, setting: Setting) -> Explored {
    let setting = Setting { small: true, ..setting };
    let mut explored = Explored::default();
    let mut chooser = Chooser::Exhaustive(Exhaustive::new(preemptions));
    while explored.schedules < limit {
        let outcome = scenario::run(seed, chooser, setting);
        explored.schedules += 1;
        explored.reached = explored.reached.and(outcome.reached);
        if !outcome.findings.is_empty() {
            explored.failure = Some(Failure { seed, choices: outcome.choices, findings: outcome.findings });
            break;
        }
        let Chooser::Exhaustive(mut walk) = outcome.chooser else { break };
        if !walk.advance() {
            explored.is_whole = true;
            break;
        }
        chooser = Chooser::Exhaustive(walk);
    }
    explored
}

/// Runs a schedule again, with its timeline.
pub fn replay(failure: &Failure, setting: Setting) -> Outcome {
    scenario::run(failure.seed, Chooser::Replay(failure.choices.clone()), Setting { records: true, ..setting })
}

/// The same finding in a schedule with as few preemptions as can be had.
pub fn shrink(failure: &Failure, setting: Setting) -> Failure {
    let mut findings = failure.findings.clone();
    let choices = shortened(failure.choices.clone(), |choices| {
        let outcome = scenario::run(failure.seed, Chooser::Replay(choices), setting);
        let clause = failure.findings.first()?.clause;
        let same = outcome.findings.iter().any(|finding| finding.clause == clause);
        same.then(|| {
            findings = outcome.findings;
            outcome.choices
        })
    });
    Failure { seed: failure.seed, choices, findings }
}

/// A list of choices with as few preemptions as can be had: pieces of it are made 0, larger ones first. `fails` says what a list becomes
/// with which the schedule still fails.
pub fn shortened(choices: Vec<u16>, mut fails: impl FnMut(Vec<u16>) -> Option<Vec<u16>>) -> Vec<u16> {
    let mut best = choices;
    let mut piece = best.len().div_ceil(2).max(1);
    loop {
        let mut start = 0;
        while start < best.len() {
            let end = (start + piece).min(best.len());
            if best[start..end].iter().any(|choice| *choice != 0) {
                let mut choices = best.clone();
                choices[start..end].fill(0);
                best = fails(choices).map_or(best, without_tail);
            }
            start = end;
        }
        if piece == 1 {
            return best;
        }
        piece /= 2;
    }
}

/// Beyond the end of a list every choice is 0.
fn without_tail(mut choices: Vec<u16>) -> Vec<u16> {
    while choices.last() == Some(&0) {
        choices.pop();
    }
    choices
}
