//! Explores many schedules: random ones by their seeds, or all of a small world. It shortens a failing one until it is readable.
//!
//! Each schedule runs twice and must be the same: a schedule that its seed does not repeat cannot be investigated.

use crate::faults::Finding;
use crate::scenario::{self, Coverage, Outcome, ScheduleSetting};
use crate::schedule::{Chooser, Exhaustive, Random};
use std::ops::Range;
use std::panic::resume_unwind;

/// The result of an exploration.
#[derive(Debug, Default)]
pub struct Exploration {
    /// Schedules run.
    pub schedules: u64,
    /// Whether these are all schedules: a walk over a small world that was not cut short.
    pub is_whole: bool,
    /// The first schedule that broke the contract.
    pub failure: Option<Failure>,
    /// Coverage of all schedules together.
    pub reached: Coverage,
}

impl Exploration {
    /// Adds the outcome of a schedule. Returns whether it broke the contract.
    fn add(&mut self, seed: u64, setting: ScheduleSetting, outcome: &Outcome) -> bool {
        self.schedules += 1;
        self.reached = self.reached.and(outcome.reached);
        if outcome.findings.is_empty() {
            return false;
        }
        let (choices, findings) = (outcome.ran.choices.clone(), outcome.findings.clone());
        self.failure = Some(Failure { seed, setting, choices, findings });
        true
    }

    fn and(self, other: Exploration) -> Exploration {
        let failures = [self.failure, other.failure];
        Exploration {
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
    /// Its world.
    pub setting: ScheduleSetting,
    /// The choices that repeat it.
    pub choices: Vec<u16>,
    /// The clauses that it broke.
    pub findings: Vec<Finding>,
}

/// Runs the schedule of each seed until one breaks the contract.
pub fn at_random(seeds: Range<u64>, setting: ScheduleSetting) -> Exploration {
    let mut exploration = Exploration::default();
    for seed in seeds {
        let outcome = run_twice(seed, Chooser::Random(Random::new(seed)), setting);
        if exploration.add(seed, setting, &outcome) {
            break;
        }
    }
    exploration
}

/// Runs a schedule, then repeats it by its choices.
fn run_twice(seed: u64, chooser: Chooser, setting: ScheduleSetting) -> Outcome {
    let mut outcome = scenario::run(seed, chooser, setting);
    let again = scenario::run(seed, Chooser::Replay(outcome.ran.choices.clone()), setting);
    if again.trace() != outcome.trace() {
        let what = "the same choices led to something else when they were made again".to_owned();
        outcome.findings.push(Finding { clause: "MOD-01", what, time: outcome.ran.time });
    }
    outcome
}

/// The same on every CPU, each with a part of the seeds. The failure is that of the lowest seed found. All parts stop after their first.
pub fn on_all_processors(seeds: Range<u64>, setting: ScheduleSetting) -> Exploration {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let part = (seeds.end - seeds.start).div_ceil(processors).max(1);
    let parts: Vec<Range<u64>> = (0..processors)
        .map(|index| seeds.start + index * part..(seeds.start + (index + 1) * part).min(seeds.end))
        .collect();
    std::thread::scope(|scope| {
        let explorers: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || at_random(part, setting))).collect();
        let exploration =
            explorers.into_iter().map(|explorer| explorer.join().unwrap_or_else(|panic| resume_unwind(panic)));
        exploration.fold(Exploration::default(), Exploration::and)
    })
}

/// Runs every schedule of a seed's small world with at most `preemptions` preemptions, and at most `limit` schedules.
pub fn all_of(seed: u64, preemptions: u32, limit: u64, setting: ScheduleSetting) -> Exploration {
    let setting = ScheduleSetting { small: true, ..setting };
    let mut exploration = Exploration::default();
    let mut chooser = Chooser::Exhaustive(Exhaustive::new(preemptions));
    while exploration.schedules < limit {
        let outcome = run_twice(seed, chooser, setting);
        if exploration.add(seed, setting, &outcome) {
            break;
        }
        let Chooser::Exhaustive(mut walk) = outcome.ran.chooser else { break };
        if !walk.advance() {
            exploration.is_whole = true;
            break;
        }
        chooser = Chooser::Exhaustive(walk);
    }
    exploration
}

/// Runs one schedule by its choices.
pub fn by_choices(seed: u64, choices: Vec<u16>, setting: ScheduleSetting) -> Exploration {
    let mut exploration = Exploration::default();
    let outcome = run_twice(seed, Chooser::Replay(choices), setting);
    exploration.add(seed, setting, &outcome);
    exploration
}

/// Runs a schedule again, with its timeline.
pub fn replay(failure: &Failure) -> Outcome {
    scenario::run(
        failure.seed,
        Chooser::Replay(failure.choices.clone()),
        ScheduleSetting { records: true, ..failure.setting },
    )
}

/// The same finding in a schedule with as few preemptions as possible.
pub fn shrink(failure: &Failure) -> Failure {
    let mut findings = failure.findings.clone();
    let choices = shortened(failure.choices.clone(), |choices| {
        let outcome = run_twice(failure.seed, Chooser::Replay(choices), failure.setting);
        let clause = failure.findings.first()?.clause;
        let same = outcome.findings.iter().any(|finding| finding.clause == clause);
        same.then(|| {
            findings = outcome.findings;
            outcome.ran.choices
        })
    });
    Failure { choices, findings, ..*failure }
}

/// Shortens a list of choices to as few preemptions as possible. It sets pieces to 0, larger ones first. `fails` returns the new list if
/// the schedule still fails.
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

/// Beyond the end of a list, every choice is 0.
fn without_tail(mut choices: Vec<u16>) -> Vec<u16> {
    while choices.last() == Some(&0) {
        choices.pop();
    }
    choices
}
