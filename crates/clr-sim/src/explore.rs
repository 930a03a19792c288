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

/// The same finding in a schedule with as few preemptions as can be had: pieces of the list of choices are made 0, larger ones first.
pub fn shrink(failure: &Failure, setting: Setting) -> Failure {
    let mut best = failure.clone();
    let mut piece = best.choices.len().div_ceil(2).max(1);
    loop {
        let mut start = 0;
        while start < best.choices.len() {
            let end = (start + piece).min(best.choices.len());
            if best.choices[start..end].iter().any(|choice| *choice != 0) {
                let mut choices = best.choices.clone();
                choices[start..end].fill(0);
                best = still_fails(&best, choices, setting).unwrap_or(best);
            }
            start = end;
        }
        if piece == 1 {
            return best;
        }
        piece /= 2;
    }
}

fn still_fails(failure: &Failure, choices: Vec<u16>, setting: Setting) -> Option<Failure> {
    let outcome = scenario::run(failure.seed, Chooser::Replay(choices), setting);
    let clause = failure.findings.first()?.clause;
    let same = outcome.findings.iter().any(|finding| finding.clause == clause);
    same.then(|| {
        let mut choices = outcome.choices;
        while choices.last() == Some(&0) {
            choices.pop();
        }
        Failure { seed: failure.seed, choices, findings: outcome.findings }
    })
}
