//! Divides work among several threads. Where the system has no thread left, the caller does it all.

use crate::limits::WORKERS;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Shorter arrays are done before a second thread has started.
const WORTH_SHARING: usize = 1 << 16;

/// The best number of parts for `length` items.
pub(crate) fn parts(length: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if length < WORTH_SHARING { 1 } else { processors.min(WORKERS) }
}

/// Runs `work` on each job, all but the first on threads of their own. Results keep the order of the jobs.
pub(crate) fn each<J: Send, R: Send>(jobs: impl IntoIterator<Item = J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let jobs: Vec<Mutex<Option<J>>> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let run = |job: &Mutex<Option<J>>| job.lock().unwrap_or_else(PoisonError::into_inner).take().map(&work);
    let Some((first, others)) = jobs.split_first() else { return Vec::new() };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = others.iter().map(|job| Builder::new().spawn_scoped(scope, move || run(job))).collect();
        let mut results = vec![run(first)];
        results.extend(threads.into_iter().zip(others).map(|(thread, job)| match thread.map(|thread| thread.join()) {
            Ok(Ok(result)) => result,
            // A panic in a part becomes a panic of the caller.
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => run(job),
        }));
        results.into_iter().flatten().collect()
    })
}

/// Runs `beside` on a thread of its own, and `here` meanwhile.
pub fn both<A: Send, B>(beside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let beside = Mutex::new(Some(beside));
    let run = || beside.lock().unwrap_or_else(PoisonError::into_inner).take().map(|beside| beside());
    let (done, here) = thread::scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, run);
        let here = here();
        let done = thread.ok().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (done.flatten(), here)
    });
    // Without a thread it has not begun.
    (done.or_else(run).expect("it ran once"), here)
}
