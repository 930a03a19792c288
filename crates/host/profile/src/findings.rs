//! Known problems, with their evidence.

use crate::runtime_names::RUNTIME;
use crate::{ApplicationTime, BlockedTime, Cost, CostShare, FrameIx, Profile, Wait, WaitTime};
use std::cmp::Reverse;
use std::collections::HashMap;
use strum::IntoStaticStr;

/// Least part of the pool's time in waits for tasks, and of the CPU time of a cost.
const NOTABLE: f64 = 0.1;
/// Least average number of threads that wait for a lock or for a CPU, and of CPUs for a cost. One thread that always waits is a fault of
/// the program or the machine. In recordings of idle services, all their threads together were ready without a CPU for a sixth of the time.
const CONVOY: f64 = 0.5;
const COSTLY: f64 = 0.05;
/// Least part of the time of the JIT that one call has. A program that starts compiles methods for many of them.
const OF_ONE_CALL: f64 = 0.5;
/// Least part of that call's time in the second half of the recording: half, less what chance takes from a few samples.
const LATE: f64 = 0.3;
/// Least part of the time of threads that are ready to run or run, in which they wait for a CPU.
const SHORT_OF_CPUS: f64 = 0.3;
/// Least part of the pool's time that is blocked, and largest that is idle, if the pool starves.
const STARVED: f64 = 0.7;
const NOT_IDLE: f64 = 0.1;
/// Most places of a wait, and how many times more the first may have than another.
const PLACES: usize = 3;
const LESSER: u64 = 4;

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
    /// Threads use CPU time to compile methods, for one call of an application method, and do not stop.
    Jit,
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
    /// The frame that this method calls; without a method, the frame of the work itself.
    pub callee: Option<FrameIx>,
    /// Of waits: where most threads wait, the most first, the first being `frame` and `callee`. Places with much less time are left out.
    pub places: Vec<WaitPlace>,
    /// Number of all places.
    pub place_count: usize,
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

/// A place where threads wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPlace {
    /// A frame of the application method, with its line.
    pub frame: Option<FrameIx>,
    /// Without a method, the frame of the work itself.
    pub via: Option<FrameIx>,
    /// Nanoseconds blocked there.
    pub weight: u64,
}

impl Finding {
    /// The problems of a profile, the worst first. Only wall-clock time shows waits.
    pub fn all(profile: &Profile, time: &ApplicationTime) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        found.extend(starvation(time));
        found.extend(sync_over_async(time));
        found.extend([Wait::Lock, Wait::RwLock].into_iter().filter_map(|lock| convoy(profile, time, lock)));
        let costs = [
            (Problem::Exceptions, Cost::Exception),
            (Problem::GarbageCollection, Cost::Gc),
            (Problem::Spinning, Cost::Spinning),
        ];
        found.extend(costs.into_iter().filter_map(|(problem, cost)| costly(profile, time, problem, cost)));
        found.extend(compiles(profile, time));
        // The machine's fault rather than the program's: last.
        found.extend(short_of_cpus(profile, time));
        found
    }

    /// A problem that uses CPU time.
    fn of_cpu(
        problem: Problem,
        (frame, callee): (Option<FrameIx>, Option<FrameIx>),
        weight: u64,
        extent: f64,
    ) -> Finding {
        let places = Vec::new();
        Finding { problem, frame, callee, places, place_count: 0, wait: None, weight, threads: 0, extent }
    }

    /// A problem of waits at `places`.
    fn of_waits(problem: Problem, wait: Wait, mut places: Vec<WaitPlace>) -> Option<Finding> {
        places.sort_by_key(|place| (Reverse(place.weight), place.frame, place.via));
        let (most, place_count) = (*places.first()?, places.len());
        places.retain(|place| place.weight.saturating_mul(LESSER) >= most.weight);
        places.truncate(PLACES);
        let weight = most.weight;
        let (frame, callee, wait) = (most.frame, most.via, Some(wait));
        Some(Finding { problem, frame, callee, places, place_count, wait, weight, threads: 0, extent: 0.0 })
    }
}

fn part(weight: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { weight as f64 / all as f64 }
}

/// The places of a wait that `weight` counts in.
fn places(time: &ApplicationTime, wait: Wait, weight: impl Fn(&BlockedTime) -> u64) -> Vec<WaitPlace> {
    let rows = time.blocked.iter().filter(|row| !row.is_idle && row.wait == wait);
    let place = |row: &BlockedTime| WaitPlace { frame: row.frame, via: row.via, weight: weight(row) };
    rows.map(place).filter(|place| place.weight > 0).collect()
}

/// Only the pool lacks the threads that wait for tasks.
fn sync_over_async(time: &ApplicationTime) -> Option<Finding> {
    let waits = time.waits.iter().find(|waits| waits.wait == Wait::Task && waits.pool_threads > 1)?;
    let extent = part(waits.pool_weight, time.pool.total);
    let finding =
        Finding::of_waits(Problem::SyncOverAsync, Wait::Task, places(time, Wait::Task, |row| row.pool_weight))?;
    let (weight, threads) = (waits.pool_weight, waits.pool_threads);
    (extent >= NOTABLE).then_some(Finding { weight, threads, extent, ..finding })
}

/// No frame shows which lock it is: places of one kind count together.
fn convoy(profile: &Profile, time: &ApplicationTime, lock: Wait) -> Option<Finding> {
    let waits = time.waits.iter().find(|waits| waits.wait == lock && waits.threads > 1)?;
    let extent = part(waits.weight, profile.meta.duration);
    let finding = Finding::of_waits(Problem::LockConvoy, lock, places(time, lock, |row| row.weight))?;
    let WaitTime { weight, threads, .. } = *waits;
    (extent >= CONVOY).then_some(Finding { weight, threads, extent, ..finding })
}

/// CPU time of a cost, with the method that has most of it.
fn costly(profile: &Profile, time: &ApplicationTime, problem: Problem, cost: Cost) -> Option<Finding> {
    let weight = sum(time.costs.iter().filter(|share| share.cost == cost).map(|share| share.weight));
    let extent = part(weight, time.running);
    if extent < NOTABLE || part(weight, profile.meta.duration) < COSTLY {
        return None;
    }
    let (frame, callee) = match cost {
        Cost::Gc => allocates(profile, time, weight),
        _ => (most(time, |share| share.cost == cost)?.0, None),
    };
    Some(Finding::of_cpu(problem, (frame, callee), weight, extent))
}

/// The application method with most of the costs, and its time.
fn most(time: &ApplicationTime, counts: impl Fn(&CostShare) -> bool) -> Option<(Option<FrameIx>, u64)> {
    let mut of_frames: HashMap<Option<FrameIx>, u64> = HashMap::new();
    for share in time.costs.iter().filter(|share| counts(share)) {
        let weight = of_frames.entry(share.frame).or_default();
        *weight = weight.saturating_add(share.weight);
    }
    of_frames.into_iter().max_by_key(|(frame, weight)| (*weight, Reverse(*frame)))
}

/// Beginning of the names of methods that begin a collection.
pub const COLLECT: &str = "System.GC.Collect";

/// Who causes collections: a method and, if known, its callee. In this order:
/// 1. the caller of `GC.Collect`;
/// 2. the method whose allocations collect most;
/// 3. the method with most time in the runtime; the callee is `[runtime]` then.
///
/// Each only from a tenth of the time of the GC on.
fn allocates(profile: &Profile, time: &ApplicationTime, collecting: u64) -> (Option<FrameIx>, Option<FrameIx>) {
    let is_enough = |weight: u64| part(weight, collecting) >= NOTABLE;
    let is_call = |frame: FrameIx| profile.text(profile.frame_at(frame).name).starts_with(COLLECT);
    let calls = time.costs.iter().find(|share| share.cost == Cost::Gc && share.callee.is_some_and(is_call));
    if let Some(call) = calls.filter(|call| is_enough(call.weight)) {
        return (call.frame, call.callee);
    }
    let known = most(time, |share| matches!(share.cost, Cost::Gc | Cost::Allocation) && share.frame.is_some());
    if let Some((frame, _)) = known.filter(|(_, weight)| is_enough(*weight)) {
        return (frame, None);
    }
    let of_runtime = time.methods.iter().filter_map(|method| {
        let mut callees = method.callees.iter();
        let callee = callees.find(|callee| profile.text(profile.frame_at(callee.frame).name) == RUNTIME)?;
        let line = method.lines.first().map_or(method.frame, |line| line.frame);
        is_enough(callee.weight).then_some((callee.weight, line, callee.frame))
    });
    // The first of equals, as in the table.
    let most = of_runtime.reduce(|most, other| if other.0 > most.0 { other } else { most });
    most.map_or((None, None), |(_, frame, callee)| (Some(frame), Some(callee)))
}

/// Methods that one call compiles, throughout the recording.
fn compiles(profile: &Profile, time: &ApplicationTime) -> Option<Finding> {
    let of_jit = || time.costs.iter().filter(|share| share.cost == Cost::Jit);
    let weight = sum(of_jit().map(|share| share.weight));
    let extent = part(weight, time.running);
    let call = of_jit().find(|share| share.frame.is_some())?;
    // A program that starts compiles much, and less and less.
    let is_steady = part(sum(of_jit().map(|share| share.late)), time.running_late) >= NOTABLE
        && part(call.late, call.weight) >= LATE;
    let counts = extent >= NOTABLE && part(weight, profile.meta.duration) >= COSTLY;
    let is_of_one_call = part(call.weight, weight) >= OF_ONE_CALL;
    let CostShare { frame, callee, .. } = *call;
    let finding = Finding::of_cpu(Problem::Jit, (frame, callee), weight, extent);
    (counts && is_of_one_call && is_steady).then_some(finding)
}

fn short_of_cpus(profile: &Profile, time: &ApplicationTime) -> Option<Finding> {
    let rows = || time.blocked.iter().filter(|row| row.wait == Wait::Cpu);
    let weight = sum(rows().map(|row| row.weight));
    let extent = part(weight, weight.saturating_add(time.running));
    let threads = rows().map(|row| row.threads).max()?;
    // An application method can be changed, if what it lacks is worth it.
    let of_application = rows().find(|row| row.frame.is_some()).filter(|row| part(row.weight, weight) >= NOTABLE);
    let row = of_application.or(rows().next())?;
    let place = WaitPlace { frame: row.frame, via: row.via, weight: row.weight };
    let finding = Finding::of_waits(Problem::CpuShortage, Wait::Cpu, vec![place])?;
    // Threads that hardly run lose little, however long they wait for that.
    let matters = part(weight, time.busy()) >= NOTABLE && part(weight, profile.meta.duration) >= CONVOY;
    (extent >= SHORT_OF_CPUS && matters).then_some(Finding { weight, threads, extent, ..finding })
}

fn sum(weights: impl Iterator<Item = u64>) -> u64 {
    weights.fold(0, u64::saturating_add)
}

fn starvation(time: &ApplicationTime) -> Option<Finding> {
    let pool = &time.pool;
    let blocked = part(pool.blocked, pool.total);
    if pool.members.len() < 2 || blocked < STARVED || part(pool.idle, pool.total) > NOT_IDLE {
        return None;
    }
    let of_application = |row: &BlockedTime| if row.frame.is_some() { row.pool_weight } else { 0 };
    let of_wait = |wait: Wait| sum(places(time, wait, of_application).iter().map(|place| place.weight));
    let waits = time.waits.iter().map(|waits| waits.wait).filter(|wait| *wait != Wait::Cpu);
    // The first of equals.
    let most = waits.map(|wait| (of_wait(wait), wait)).reduce(|most, next| if next.0 > most.0 { next } else { most });
    let (_, wait) = most?;
    // A thread that waits for a signal is often a consumer without work. The pool of one that starves grows.
    if wait.is_for_signal() && pool.members.len() == pool.threads_at_first {
        return None;
    }
    let finding = Finding::of_waits(Problem::PoolStarvation, wait, places(time, wait, of_application))?;
    let weight = of_wait(wait);
    Some(Finding { weight, threads: pool.members.len(), extent: blocked, ..finding })
}
