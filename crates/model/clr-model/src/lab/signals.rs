//! Which signals the runtime's threads block, and which callback has changed that for good.
//!
//! A callback may block a signal, and a later one may unblock it: so only what stays counts.

use super::system::BlockedSignals;
use crate::schedule::Task;
use std::collections::{BTreeSet, HashMap};

/// The masks of the threads.
#[derive(Debug, Default)]
pub struct SignalMasks {
    threads: HashMap<Task, Mask>,
    /// Callbacks whose change nothing took back.
    stayed: BTreeSet<&'static str>,
}

#[derive(Debug)]
struct Mask {
    /// Before the first callback.
    first: BlockedSignals,
    /// The callback that has changed it.
    changed_by: Option<&'static str>,
}

impl SignalMasks {
    /// A callback begins. If it has changed the mask before, nothing took that back.
    pub fn enter(&mut self, task: Task, callback: &'static str, now: BlockedSignals) {
        let mask = self.threads.entry(task).or_insert(Mask { first: now, changed_by: None });
        self.stayed.extend(mask.changed_by.filter(|changed_by| *changed_by == callback));
    }

    /// It has returned.
    pub fn leave(&mut self, task: Task, callback: &'static str, (before, now): (BlockedSignals, BlockedSignals)) {
        let Some(mask) = self.threads.get_mut(&task) else { return };
        if now == mask.first {
            mask.changed_by = None;
        } else if now != before {
            mask.changed_by = Some(callback);
        }
    }

    /// The profiler gets no callbacks any more in which it could take something back.
    pub fn end(&mut self) {
        self.stayed.extend(self.threads.values().filter_map(|mask| mask.changed_by));
    }

    /// The callbacks whose change has stayed, now that the process exits. Threads of the program may be between two callbacks: then the
    /// second one never came.
    pub fn changed_by(&self, program: &[Task]) -> BTreeSet<&'static str> {
        let others = self.threads.iter().filter(|(task, _)| !program.contains(task));
        others.filter_map(|(_, mask)| mask.changed_by).chain(self.stayed.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Task = Task(1);
    const OTHER: Task = Task(2);

    fn call(masks: &mut SignalMasks, callback: &'static str, before: BlockedSignals, now: BlockedSignals) {
        masks.enter(ONE, callback, before);
        masks.leave(ONE, callback, (before, now));
    }

    #[test]
    fn a_change_counts_until_a_callback_of_the_same_thread_changes_it_back() {
        let mut masks = SignalMasks::default();
        call(&mut masks, "Started", 1, 3);
        assert_eq!(masks.changed_by(&[]), BTreeSet::from(["Started"]));
        masks.enter(OTHER, "Other", 3);
        masks.leave(OTHER, "Other", (3, 3));
        assert_eq!(masks.changed_by(&[]), BTreeSet::from(["Started"]));
        call(&mut masks, "Finished", 3, 1);
        assert_eq!(masks.changed_by(&[]), BTreeSet::new());
    }

    #[test]
    fn a_change_on_a_thread_of_the_program_counts_if_its_callback_comes_again_or_none_can_come() {
        let mut masks = SignalMasks::default();
        call(&mut masks, "Started", 1, 3);
        assert_eq!(masks.changed_by(&[ONE]), BTreeSet::new());
        call(&mut masks, "Started", 3, 3);
        assert_eq!(masks.changed_by(&[ONE]), BTreeSet::from(["Started"]));
        let mut masks = SignalMasks::default();
        call(&mut masks, "Started", 1, 3);
        masks.end();
        assert_eq!(masks.changed_by(&[ONE]), BTreeSet::from(["Started"]));
    }
}
