//! Which signals the runtime's threads block, and which callback has changed that for good.
//!
//! A callback may block a signal, and a later one may unblock it: so only what stays counts.

use super::system::BlockedSignals;
use crate::schedule::Task;
use std::collections::{BTreeSet, HashMap};

/// The masks of the threads.
#[derive(Debug, Default)]
pub struct SignalMasks(HashMap<Task, Mask>);

#[derive(Debug)]
struct Mask {
    /// Before the first callback.
    first: BlockedSignals,
    /// The callback that has changed it.
    changed_by: Option<&'static str>,
}

impl SignalMasks {
    /// A callback begins.
    pub fn enter(&mut self, task: Task, now: BlockedSignals) {
        self.0.entry(task).or_insert(Mask { first: now, changed_by: None });
    }

    /// It has returned.
    pub fn leave(&mut self, task: Task, callback: &'static str, (before, now): (BlockedSignals, BlockedSignals)) {
        let Some(mask) = self.0.get_mut(&task) else { return };
        if now == mask.first {
            mask.changed_by = None;
        } else if now != before {
            mask.changed_by = Some(callback);
        }
    }

    /// The callbacks whose change has stayed.
    pub fn changed_by(&self) -> BTreeSet<&'static str> {
        self.0.values().filter_map(|mask| mask.changed_by).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_until_a_callback_of_the_same_thread_changes_it_back() {
        let (mut masks, one, other) = (SignalMasks::default(), Task(1), Task(2));
        masks.enter(one, 1);
        masks.leave(one, "Started", (1, 3));
        assert_eq!(masks.changed_by(), BTreeSet::from(["Started"]));
        masks.enter(other, 3);
        masks.leave(other, "Other", (3, 3));
        assert_eq!(masks.changed_by(), BTreeSet::from(["Started"]));
        masks.enter(one, 3);
        masks.leave(one, "Finished", (3, 1));
        assert_eq!(masks.changed_by(), BTreeSet::new());
    }
}
