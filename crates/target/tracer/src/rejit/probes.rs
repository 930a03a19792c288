//! What the wrapped methods call.
//!
//! [`enter`] and [`leave`] run in cooperative mode, like a helper of the JIT: the IL calls them by `calli` with the managed convention, and a
//! GC waits for them. So they take nanoseconds, and never wait, allocate or call the runtime. The begin of a call travels through a local of
//! the method: there is no shadow stack, whatever a thread does between the two.

use super::shared::{count, get, words};
use super::waiting;
use remora_wire::method_trace::memory::{
    BUCKETS, ENTERED, LEFT, LONGEST, RECORDS_LEFT, RECORDS_LOST, RUNNING, SESSION, SHORTEST_COMPLEMENT, STEPS,
    THRESHOLD, THROWN, TOTAL, bucket, row,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a method's number; the session's number is above them.
const METHOD_BITS: u32 = 16;

/// Iterations of the calibration.
const CALIBRATION: u64 = 10_000;

/// What the IL passes to the probes: the session, so that calls from an earlier one are ignored, and the method.
pub(crate) fn id(session: u64, method: u32) -> u32 {
    (session as u32) << METHOD_BITS | method
}

/// The session's number, as it appears in an id; never 0.
pub(crate) fn short(session: u64) -> u64 {
    session & 0xFFFF
}

/// The number of the method of an id.
pub(crate) fn method(id: u32) -> u32 {
    id & ((1 << METHOD_BITS) - 1)
}

/// A call begins. Returns the time, or 0 if nothing is traced.
pub(crate) extern "C" fn enter(id: u32) -> u64 {
    let Some(row) = counters(id) else { return 0 };
    row[ENTERED].fetch_add(1, Ordering::Relaxed);
    now()
}

/// A call has returned. Returns its duration if it is slow enough for a record, otherwise 0.
pub(crate) extern "C" fn leave(id: u32, begin: u64) -> u64 {
    end(id, begin, false)
}

/// An exception leaves a call. As [`leave`].
pub(crate) extern "C" fn throw(id: u32, begin: u64) -> u64 {
    end(id, begin, true)
}

fn end(id: u32, begin: u64, is_thrown: bool) -> u64 {
    if begin == 0 {
        return 0;
    }
    let duration = now().saturating_sub(begin);
    counters(id).map_or(0, |row| account(row, duration, is_thrown))
}

/// Counts the end of a call. Returns its duration if it is slow enough for a record, otherwise 0.
fn account(row: &[AtomicU64], duration: u64, is_thrown: bool) -> u64 {
    row[LEFT].fetch_add(1, Ordering::Relaxed);
    row[TOTAL].fetch_add(duration, Ordering::Relaxed);
    row[BUCKETS + bucket(duration)].fetch_add(1, Ordering::Relaxed);
    if is_thrown {
        row[THROWN].fetch_add(1, Ordering::Relaxed);
    }
    raise(&row[LONGEST], duration);
    raise(&row[SHORTEST_COMPLEMENT], !duration);
    if duration < get(THRESHOLD) || !claim_record() {
        return 0;
    }
    duration.max(1)
}

/// In what [`suspend`] and [`finish`] return: an exception ended the call.
pub(crate) const IS_THROWN: u64 = 1 << 63;

/// A step of an asynchronous call begins; `task` is 0 for the first one. As [`enter`].
pub(crate) extern "C" fn step(id: u32, task: u64) -> u64 {
    let Some(row) = counters(id) else { return 0 };
    if task == 0 {
        row[ENTERED].fetch_add(1, Ordering::Relaxed);
    }
    row[STEPS].fetch_add(1, Ordering::Relaxed);
    now()
}

/// A step is over, and the call waits. Returns the call's duration if it has ended by now and was slow, otherwise 0.
pub(crate) extern "C" fn suspend(id: u32, task: u64, begin: u64, is_first: u32) -> u64 {
    let Some(row) = running(id, begin, now()) else { return 0 };
    if is_first == 0 { 0 } else { account_waited(row, waiting::begin(id, task, begin)) }
}

/// A call is about to complete its task. `task` is 0 in the first step. Returns the call's duration if it was slow, otherwise 0.
pub(crate) extern "C" fn finish(id: u32, task: u64, begin: u64, is_thrown: u32) -> u64 {
    let (end, is_thrown) = (now(), is_thrown != 0);
    let Some(row) = running(id, begin, end) else { return 0 };
    let call = match task {
        0 => Some(waiting::Ended { begin, end, is_thrown }),
        _ => waiting::end(id, task, end, is_thrown),
    };
    account_waited(row, call)
}

/// Counts the time of a step.
fn running(id: u32, begin: u64, end: u64) -> Option<&'static [AtomicU64]> {
    let row = counters(id).filter(|_| begin != 0)?;
    row[RUNNING].fetch_add(end.saturating_sub(begin), Ordering::Relaxed);
    Some(row)
}

fn account_waited(row: &[AtomicU64], call: Option<waiting::Ended>) -> u64 {
    let Some(call) = call else { return 0 };
    match account(row, call.end.saturating_sub(call.begin), call.is_thrown) {
        0 => 0,
        slow if call.is_thrown => slow | IS_THROWN,
        slow => slow,
    }
}

/// Sets `word` to at least `value`.
fn raise(word: &AtomicU64, value: u64) {
    if word.load(Ordering::Relaxed) < value {
        word.fetch_max(value, Ordering::Relaxed);
    }
}

fn claim_record() -> bool {
    if get(RECORDS_LEFT) == 0 {
        return false;
    }
    let left = &words()[RECORDS_LEFT];
    let claimed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    if !claimed {
        count(RECORDS_LOST);
    }
    claimed
}

/// The counters of a method for the calling thread; `None` if it belongs to no session.
fn counters(id: u32) -> Option<&'static [AtomicU64]> {
    let words = words();
    if words.get(SESSION)?.load(Ordering::Relaxed) != u64::from(id >> METHOD_BITS) {
        return None;
    }
    let begin = row(method(id) as usize, stripe());
    words.get(begin..begin + remora_wire::method_trace::memory::ROW_WORDS)
}

/// Stacks of threads are at least a megabyte apart: their address spreads the threads.
fn stripe() -> usize {
    let place = 0_u8;
    (&raw const place as usize) >> 20
}

/// Monotonic time, nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The cost of a pair of probes in picoseconds, measured on the last method's row, which is cleared again. Call it before any method is
/// wrapped.
pub(crate) fn calibrate(session: u64) -> u64 {
    let id = id(session, remora_wire::method_trace::memory::MOST_METHODS as u32 - 1);
    let begin = now();
    for _ in 0..CALIBRATION {
        std::hint::black_box(leave(id, enter(id)));
    }
    let cost = now().saturating_sub(begin).saturating_mul(1000) / CALIBRATION;
    counters(id).into_iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    cost
}
