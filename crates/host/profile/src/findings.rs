//! Known problems, with their evidence.

use crate::{ApplicationTime, BlockedTime, Cost, FrameIx, Profile, Wait};
use strum::IntoStaticStr;

/// Least part of the pool's time in waits for tasks, and of the CPU time of a cost.
const NOTABLE: f64 = 0.1;
/// Least average number of threads that wait for a lock, and of CPUs for a cost.
const CONVOY: f64 = 0.5;
const COSTLY: f64 = 0.05;
/// Least part of the time of threads that are ready to run or run, in which they wait for a CPU.
const SHORT_OF_CPUS: f64 = 0.3;
/// Least part of the pool's time that is blocked, and largest that is idle, if the pool starves.
const STARVED: f64 = 0.7;
const NOT_IDLE: f64 = 0.1;

/// A known problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Problem {
    /// Threads of the pool wait for tasks: `Result`, `Wait`, `GetAwaiter().GetResult()`.
    SyncOverAsync,
    /// Threads wait for each other at a lock.
    LockConvoy,
    /// Nearly all threads of the pool are blocked, and nearly none is idle.
    PoolStarvation,
    /// Threads use CPU time to wait.
    Spinning,
    /// Threads use CPU time to throw and catch exceptions.
    Exceptions,
    /// Threads use CPU time to collect garbage.
    GarbageCollection,
    /// Threads that are ready to run get no CPU.
    CpuShortage,
}

impl Problem {
    /// Its name in reports: `sync-over-async`.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// A known problem and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// A frame of the application method with most of it, with its line. `None`: no application method, such as idle threads of the pool
    /// that spin, or threads of the GC.
    pub frame: Option<FrameIx>,
    /// What is waited for; `None` if CPU time is used.
    pub wait: Option<Wait>,
    /// Nanoseconds blocked, or of CPU time.
    pub weight: u64,
    /// Number of threads; 0 if CPU time is used.
    pub threads: usize,
    /// Of [`Problem::LockConvoy`]: threads that wait at a time, on average. Of others: the part of the time of all threads of the pool, of
    /// all CPU time, or of the time of threads that run or are ready to.
    pub extent: f64,
}

impl Finding {
    /// The problems of a profile, the worst first. Only wall-clock time shows waits.
    pub fn all(profile: &Profile, time: &ApplicationTime) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        found.extend(starvation(time));
        found.extend(largest(time, Wait::Task, |row| row.pool_threads > 1).and_then(|row| {
            let extent = part(row.pool_weight, time.pool.total);
            (extent >= NOTABLE).then(|| Finding::of(Problem::SyncOverAsync, row, row.pool_threads, extent))
        }));
        found.extend(largest(time, Wait::Lock, |row| row.threads > 1).and_then(|row| {
            let extent = part(row.weight, profile.meta.duration);
            (extent >= CONVOY).then(|| Finding::of(Problem::LockConvoy, row, row.threads, extent))
        }));
        let costs = [
            (Problem::Exceptions, Cost::Exception),
            (Problem::GarbageCollection, Cost::Gc),
            (Problem::Spinning, Cost::Spinning),
        ];
        found.extend(costs.into_iter().filter_map(|(problem, cost)| costly(profile, time, problem, cost)));
        found.extend(short_of_cpus(time));
        found
    }

    fn of(problem: Problem, row: &BlockedTime, threads: usize, extent: f64) -> Finding {
        Finding { problem, frame: row.frame, wait: Some(row.wait), weight: row.weight, threads, extent }
    }
}

fn part(weight: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { weight as f64 / all as f64 }
}

fn largest(time: &ApplicationTime, wait: Wait, counts: impl Fn(&BlockedTime) -> bool) -> Option<&BlockedTime> {
    time.blocked.iter().find(|row| row.frame.is_some() && row.wait == wait && counts(row))
}

/// CPU time of a cost, with the method that has most of it.
fn costly(profile: &Profile, time: &ApplicationTime, problem: Problem, cost: Cost) -> Option<Finding> {
    let mut rows = time.costs.iter().filter(|(known, ..)| *known == cost).map(|(_, frame, weight)| (*frame, *weight));
    let (frame, largest) = rows.next()?;
    let weight = rows.fold(largest, |sum, (_, weight)| sum.saturating_add(weight));
    let extent = part(weight, time.running);
    let finding = Finding { problem, frame, wait: None, weight, threads: 0, extent };
    (extent >= NOTABLE && part(weight, profile.meta.duration) >= COSTLY).then_some(finding)
}

fn short_of_cpus(time: &ApplicationTime) -> Option<Finding> {
    let rows = || time.blocked.iter().filter(|row| row.wait == Wait::Cpu);
    let weight = rows().fold(0, |sum: u64, row| sum.saturating_add(row.weight));
    let extent = part(weight, weight.saturating_add(time.running));
    let threads = rows().map(|row| row.threads).max()?;
    let finding =
        Finding { problem: Problem::CpuShortage, frame: None, wait: Some(Wait::Cpu), weight, threads, extent };
    // Threads that hardly run lose little, however long they wait for that.
    (extent >= SHORT_OF_CPUS && part(weight, time.busy()) >= NOTABLE).then_some(finding)
}

fn starvation(time: &ApplicationTime) -> Option<Finding> {
    let pool = &time.pool;
    let blocked = part(pool.blocked, pool.total);
    if pool.members.len() < 2 || blocked < STARVED || part(pool.idle, pool.total) > NOT_IDLE {
        return None;
    }
    let rows = time.blocked.iter().filter(|row| row.frame.is_some() && row.wait != Wait::Cpu);
    let row = rows.max_by_key(|row| row.pool_weight)?;
    // A thread that waits for events is often a consumer without work. The pool of one that starves grows.
    if row.wait == Wait::Event && pool.members.len() == pool.threads_at_first {
        return None;
    }
    Some(Finding::of(Problem::PoolStarvation, row, pool.members.len(), blocked))
}
