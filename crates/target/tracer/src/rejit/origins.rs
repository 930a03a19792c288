//! Callers of asynchronous calls that wait: at their end they are on no stack.

use super::probes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stacks kept: those of the last calls.
const MOST: usize = 8192;
/// Nanoseconds between two stacks. Each costs tens of microseconds: so they take a few percent of a CPU at most.
const INTERVAL: u64 = 1_000_000;

/// When the last stack was kept.
static LAST: AtomicU64 = AtomicU64::new(0);
static KEPT: Mutex<VecDeque<(u32, u64, Vec<u64>)>> = Mutex::new(VecDeque::new());

fn kept() -> MutexGuard<'static, VecDeque<(u32, u64, Vec<u64>)>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a stack may be walked now.
pub(crate) fn is_due() -> bool {
    let (now, last) = (probes::now(), LAST.load(Ordering::Relaxed));
    now.saturating_sub(last) >= INTERVAL
        && LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Keeps the callers of a call.
pub(crate) fn keep(id: u32, task: u64, stack: Vec<u64>) {
    let mut kept = kept();
    if kept.len() >= MOST {
        kept.pop_front();
    }
    kept.push_back((id, task, stack));
}

/// The callers of a call; empty if they were not kept.
pub(crate) fn take(id: u32, task: u64) -> Vec<u64> {
    let mut kept = kept();
    let place = kept.iter().rposition(|(of, call, _)| (*of, *call) == (id, task));
    place.and_then(|place| kept.remove(place)).map(|(_, _, stack)| stack).unwrap_or_default()
}

/// A session ends.
pub(crate) fn forget_all() {
    *kept() = VecDeque::new();
}
