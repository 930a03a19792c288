//! The sampler thread for clock time: goes round all threads, asks those that ran since their last sample for a new one, and lets
//! the others repeat their last.
//!
//! The cost is bounded twice: signals a second for the whole process (the budget), and visits a second. A signal that wakes a sleeper
//! takes the processor from who works, and counts as several.
//! When there are more threads than the budget allows at the requested frequency, every thread is visited less often, whatever it does;
//! each sample weighs the time since the thread's last one. Both are needed for true shares: to look more often where something happens
//! would find more there than there is.

use crate::follow::Followed;
use crate::threads::{self, OwnThread, pause};
use remora_agent_core::REPEATED;
use remora_agent_hot::{RawSample, Session, Slot, arm, jittered, monotonic, thread_cpu_of};
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Visits a second, at most: one is a look at a clock, about a microsecond.
const VISITS_A_SECOND: u64 = 20_000;

/// As how many signals one counts that wakes a thread. It interrupts who works, and the
/// sleeper goes back to sleep: two switches of threads besides the signal.
const WAKE: u64 = 4;

/// Who used less than this part of the time since its last visit is taken for a sleeper.
const SLEEPING_PART: u64 = 8;

/// With many threads, as many are visited at once as are due in this time, nanoseconds: to sleep and wake costs more than a visit.
const SHORTEST_PAUSE: u64 = 1_000_000;

/// After a sample a thread needs some processor time to get back to where it waited; less than this is not "ran since".
const SETTLING: u64 = 50_000;

/// What the sampler thread works on.
pub struct Wall {
    /// The attach's memory.
    pub session: &'static Session<'static>,
    /// Who is followed; shared with the agent's thread, which scans.
    pub followed: Arc<Mutex<Followed>>,
    /// Signals a second.
    pub budget: u64,
    /// Requested mean time between two samples of a thread, nanoseconds.
    pub interval: AtomicU64,
    /// Ends the thread.
    pub stop: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Visited {
    /// Up to when its samples account.
    accounted: u64,
    /// Its processor time when it was seen settled after its last sample.
    settled: Option<u64>,
    /// Its processor time at its last visit.
    used: u64,
    generation: u32,
}

/// The first instant of the recording, and how long one round takes, nanoseconds.
struct Round {
    start: u64,
    length: u64,
}

/// Starts the sampler thread.
///
/// # Errors
/// The system's error number.
pub fn start(wall: Arc<Wall>) -> Result<OwnThread, i32> {
    let pointer = Arc::into_raw(wall);
    OwnThread::start(main, pointer.cast_mut().cast()).inspect_err(|_| {
        // SAFETY: no thread took it over.
        drop(unsafe { Arc::from_raw(pointer) });
    })
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    threads::begin_this("-w");
    // SAFETY: `start` handed this reference over.
    let wall = unsafe { Arc::from_raw(argument.cast::<Wall>()) };
    // A panic ends the sampling, not the process; the agent's thread finds the thread ended and goes on without samples.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&wall)));
    std::ptr::null_mut()
}

fn run(wall: &Wall) {
    let random = AtomicU64::new(monotonic() | 1);
    let mut visited: HashMap<u32, Visited> = HashMap::new();
    let start = monotonic();
    // What the last round cost, in signals.
    let mut cost = 0;
    while !wall.stop.load(Ordering::Acquire) {
        let threads: Vec<(u32, u32)> = {
            let followed = wall.followed.lock().unwrap_or_else(PoisonError::into_inner);
            followed.threads().collect()
        };
        let known: HashSet<u32> = threads.iter().map(|(thread, _)| *thread).collect();
        visited.retain(|thread, _| known.contains(thread));
        let count = threads.len().max(1) as u64;
        let affordable = (cost * 1_000_000_000 / wall.budget.max(1)).max(count * 1_000_000_000 / VISITS_A_SECOND);
        let length = wall.interval.load(Ordering::Relaxed).max(affordable);
        let round = Round { start, length };
        let at_once = (count * SHORTEST_PAUSE).div_ceil(length).max(1);
        cost = 0;
        for some in threads.chunks(at_once as usize) {
            if wall.stop.load(Ordering::Acquire) {
                return;
            }
            for (thread, slot) in some {
                cost += visit(wall, visited.entry(*thread).or_default(), *thread, *slot, &round);
            }
            pause(jittered(&random, length * some.len() as u64 / count));
        }
        // More than the budget allows in this time: rest before the next round.
        let allowed = cost * 1_000_000_000 / wall.budget.max(1);
        if allowed > length {
            pause(allowed - length);
        }
        if threads.is_empty() {
            pause(length);
        }
    }
}

/// Visits one thread. Returns what it cost, in signals.
fn visit(wall: &Wall, visited: &mut Visited, thread: u32, index: u32, round: &Round) -> u64 {
    let Some(slot) = wall.session.slots.get(index as usize) else { return 0 };
    let generation = slot.generation.load(Ordering::Relaxed);
    let now = monotonic();
    if visited.accounted == 0 || visited.generation != generation {
        // One that is new stands for the round in which it was found, whatever of it was left when it came.
        let accounted = round.start.max(now.saturating_sub(round.length)).min(now - 1);
        *visited = Visited { accounted, generation, ..Visited::default() };
    }
    if slot.asked.load(Ordering::Acquire) != 0 {
        // Still owes its last answer: this visit's time is added to what it owes.
        return 0;
    }
    let answered = slot.answered_at.load(Ordering::Acquire);
    let used = thread_cpu_of(thread);
    if used == 0 {
        return 0;
    }
    let weight = now - visited.accounted;
    let rested = answered != 0
        && match visited.settled {
            Some(settled) => used == settled,
            None => used.saturating_sub(answered) < SETTLING,
        };
    let sleeps = used.saturating_sub(visited.used) < weight / SLEEPING_PART;
    visited.accounted = now;
    visited.used = used;
    if rested {
        visited.settled = Some(used);
        repeat(wall.session, thread, index, now, weight);
        return 0;
    }
    visited.settled = None;
    match ask(slot, weight) {
        true if sleeps => WAKE,
        asked => u64::from(asked),
    }
}

fn repeat(session: &Session, thread: u32, slot: u32, time: u64, weight: u64) {
    session.count(remora_wire::layout::TAKEN);
    let sample = RawSample { thread, slot, flags: REPEATED, time, weight, ..RawSample::default() };
    if session.ring.push(&[&sample.words()]).is_err() {
        session.count(remora_wire::layout::LOST_RING_FULL);
    }
}

/// Has the thread's timer fire at once. A timer's signal, unlike one that is sent, is gone with its timer when the process becomes
/// another program, which would not survive it.
fn ask(slot: &Slot, weight: u64) -> bool {
    slot.asked.store(weight.max(1), Ordering::Release);
    let asked = slot.clock_timer.load(Ordering::Acquire).checked_sub(1).is_some_and(|timer| arm(timer as i32, 1));
    if !asked {
        slot.asked.store(0, Ordering::Release);
    }
    asked
}
