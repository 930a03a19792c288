//! Divides an array among several threads.

use crate::limits::WORKERS;
use std::num::NonZero;
use std::thread;

/// Shorter arrays are done before a second thread has started.
const WORTH_SHARING: usize = 1 << 16;

/// The best number of parts for `length` items.
pub(crate) fn parts(length: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if length < WORTH_SHARING { 1 } else { processors.min(WORKERS) }
}

/// Runs `work` on each job, all but the first on threads of their own. Results keep the order of the jobs.
pub(crate) fn each<J: Send, R: Send>(jobs: impl IntoIterator<Item = J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let work = &work;
    let mut jobs = jobs.into_iter();
    let Some(first) = jobs.next() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = jobs.map(|job| scope.spawn(move || work(job))).collect();
        let mut results = vec![work(first)];
        // A panic in a part becomes a panic of the caller.
        results.extend(others.into_iter().map(|other| match other.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    })
}
