//! Known problems, with their evidence.

use crate::{ApplicationTime, BlockedTime, FrameIx, Profile, Wait};
use strum::IntoStaticStr;

/// Least part of the pool's time in waits for tasks, and of the CPU time in spinning.
const NOTABLE: f64 = 0.1;
/// Least average number of threads that wait for a lock, and of CPUs that spin.
const CONVOY: f64 = 0.5;
const SPINNING: f64 = 0.05;
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
    /// A frame of the application method, with its line. `None`: no application method spins, but idle threads of the pool.
    pub frame: Option<FrameIx>,
    /// What is waited for; `None` of spinning.
    pub wait: Option<Wait>,
    /// Nanoseconds blocked, or spinning.
    pub weight: u64,
    /// Number of threads; of spinning 0.
    pub threads: usize,
    /// Of [`Problem::LockConvoy`]: threads that wait at a time, on average. Of others: the part of the time of all threads of the pool, or of
    /// all CPU time.
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
        found.extend(time.spinning.first().and_then(|(frame, weight)| {
            let extent = part(*weight, time.running);
            let finding =
                Finding { problem: Problem::Spinning, frame: *frame, wait: None, weight: *weight, threads: 0, extent };
            (extent >= NOTABLE && part(*weight, profile.meta.duration) >= SPINNING).then_some(finding)
        }));
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

fn starvation(time: &ApplicationTime) -> Option<Finding> {
    let pool = &time.pool;
    let blocked = part(pool.blocked, pool.total);
    if pool.members.len() < 2 || blocked < STARVED || part(pool.idle, pool.total) > NOT_IDLE {
        return None;
    }
    let rows = time.blocked.iter().filter(|row| row.frame.is_some() && row.wait != Wait::Cpu);
    let row = rows.max_by_key(|row| row.pool_weight)?;
    Some(Finding::of(Problem::PoolStarvation, row, pool.members.len(), blocked))
}
