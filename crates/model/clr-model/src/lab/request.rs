//! What is open while the profiler asks for its detach.

use super::leftovers::Leftover;
use super::{around, monitor};
use crate::schedule::{self, threads};
use corprof::HResult;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long something may still pass that was there when the profiler asked for its detach.
const PASSING: Duration = Duration::from_millis(200);

/// Time between two looks at that.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The profiler requests its detach with `ask`. Leftovers are collected first, since the requesting thread may end in the call.
pub fn detach(ways_in: impl FnOnce() -> Vec<&'static str>, ask: impl FnOnce() -> HResult) -> HResult {
    let Some(monitor) = monitor::of_this_process() else { return ask() };
    let is_own = threads::os_threads().is_some_and(|os_threads| !os_threads.is_own());
    let asker = is_own.then(threads::this_thread);
    let task = schedule::current();
    let mut open = OpenWays::look(|| monitor.beyond(asker), || monitor.is_called_beside(task));
    open.left.extend(ways_in().into_iter().map(|kind| Leftover { is_a_way_in: true, what: kind.to_owned() }));
    // Every look comes before the request: the callback must return before the runtime looks for it.
    let is_hidden = monitor::is_hidden();
    let count = open.of_callbacks.len();
    let callback = monitor.callback_of(task);
    postponed().add(open.of_callbacks, callback);
    let answer = ask();
    if answer.is_success() {
        if open.is_seen && !is_hidden {
            monitor::exercised("DET-04");
        } else {
            around::not_seen("DET-04");
        }
        monitor.accepted();
        open.left.iter().for_each(|open| was_open(open, callback));
        if is_own {
            monitor.has_asked();
        }
    } else {
        postponed().remove(count);
        refused(answer);
    }
    answer
}

/// After an accepted request, every callback has returned: none of them can take anything back any more.
pub fn callbacks_have_returned() {
    let Some(monitor) = monitor::of_this_process() else { return };
    let postponed = postponed().take();
    if postponed.is_empty() {
        return;
    }
    let left = OpenWays::look(|| monitor.beyond(None), || false).left;
    for (open, callback) in postponed.into_iter().filter(|(open, _)| left.contains(open)) {
        was_open(&open, callback);
    }
}

/// Something was open at the request of a detach, in this callback.
fn was_open(open: &Leftover, callback: Option<&'static str>) {
    if open.is_a_way_in {
        let what = &open.what;
        let message =
            format!("{what} was still there when the profiler asked for its detach; close it verifiably before asking");
        monitor::broken_in("DET-04", callback, &message);
    }
}

/// A detach was refused. An irreversible action of the profiler is its fault. Otherwise it may ask again.
fn refused(answer: HResult) {
    let cause = match answer {
        HResult::CORPROF_E_IMMUTABLE_FLAGS_SET => "an immutable flag is in its event mask",
        HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT => {
            "it has set a hook, replaced a method's IL or asked for rejit"
        }
        _ => return,
    };
    let answer = answer.0;
    let message = format!(
        "the detach was refused (answered {answer:#x}): {cause}, which forbids every detach; a profiler that means to leave must never do that"
    );
    monitor::broken("DET-02", &message);
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OpenWays {
    /// It counts.
    pub left: Vec<Leftover>,
    /// It counts if it is still there when every callback has returned: the runtime waits for them.
    pub of_callbacks: Vec<Leftover>,
    /// Whether every look came.
    pub is_seen: bool,
}

impl OpenWays {
    /// Looks. A child, or a handler, may be there for a moment only: another thread may wait for the end of a child, as `system` does. So
    /// these count only if they stay, and not while a callback of another thread runs.
    pub fn look(look: impl Fn() -> Option<Vec<Leftover>>, is_callback_beside: impl Fn() -> bool) -> OpenWays {
        // Asked before each look: what a callback takes back is gone when it has returned.
        let mut is_beside = is_callback_beside();
        let Some(mut left) = look() else { return OpenWays::default() };
        let begun = Instant::now();
        let mut is_last = false;
        while left.iter().any(Leftover::may_pass) && !is_last {
            std::thread::sleep(BETWEEN_LOOKS);
            is_last = begun.elapsed() >= PASSING;
            is_beside = is_callback_beside();
            let Some(now) = look() else {
                left.retain(|open| !open.may_pass());
                return OpenWays { left, ..OpenWays::default() };
            };
            left.retain(|open| !open.may_pass() || now.contains(open));
        }
        let (of_callbacks, left) = left.into_iter().partition(|open| is_beside && open.may_pass());
        OpenWays { left, of_callbacks, is_seen: true }
    }
}

static POSTPONED: Mutex<Postponed> = Mutex::new(Postponed(Vec::new()));

fn postponed() -> MutexGuard<'static, Postponed> {
    POSTPONED.lock().expect("no panic while locked")
}

/// What [`OpenWays::of_callbacks`] was, until the callbacks have returned.
#[derive(Debug)]
struct Postponed(Vec<(Leftover, Option<&'static str>)>);

impl Postponed {
    /// Found at a request in this callback.
    fn add(&mut self, found: Vec<Leftover>, callback: Option<&'static str>) {
        self.0.extend(found.into_iter().map(|open| (open, callback)));
    }

    /// The request was refused.
    fn remove(&mut self, count: usize) {
        self.0.truncate(self.0.len().saturating_sub(count));
    }

    /// Every callback has returned: what is still there, with the callbacks of the requests.
    fn take(&mut self) -> Vec<(Leftover, Option<&'static str>)> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn child() -> Vec<Leftover> {
        vec![Leftover { is_a_way_in: true, what: "a child process".into() }]
    }

    #[test]
    fn a_child_counts_at_once_only_if_it_stays_and_no_callback_of_another_thread_runs() {
        let stays = || Some(child());
        assert_eq!(OpenWays::look(stays, || false).left, child());
        let found = OpenWays::look(stays, || true);
        assert_eq!((found.left, found.of_callbacks, found.is_seen), (Vec::new(), child(), true));
        let looks = Cell::new(0);
        let passes = || Some(if looks.replace(looks.get() + 1) < 3 { child() } else { Vec::new() });
        assert_eq!(OpenWays::look(passes, || false), OpenWays { is_seen: true, ..OpenWays::default() });
    }

    #[test]
    fn a_look_that_does_not_come_leaves_what_may_pass_open() {
        let looks = Cell::new(0);
        let once = || (looks.replace(looks.get() + 1) == 0).then(child);
        assert_eq!(OpenWays::look(once, || false), OpenWays::default());
        assert_eq!(OpenWays::look(|| None, || false), OpenWays::default());
    }
}
