//! A roll of what is alive, from callbacks and from an enumeration that may be older than they are.
//!
//! Callbacks come before the attach is complete, and while an enumeration is read: an event outranks every enumeration that was
//! generated before it (contract CAT-07). And an id may be used as long as the callback that announces its end has not returned.

use super::id::Id;
use crate::HResult;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which ones are alive: modules, threads, whatever comes and goes with a callback each.
///
/// The methods wait for each other: what `visit` looks up cannot be unloaded meanwhile, because [`went`](Self::went) waits in the callback.
#[derive(Debug)]
pub struct Roll<'rt, T> {
    known: Mutex<Known<'rt, T>>,
}

#[derive(Debug)]
struct Known<'rt, T> {
    /// Whether it is alive. The dead are kept until the enumeration is read to its end.
    alive: BTreeMap<Id<'rt, T>, bool>,
    has_caught_up: bool,
}

impl<'rt, T: Copy + Ord> Default for Roll<'rt, T> {
    fn default() -> Self {
        Roll { known: Mutex::new(Known { alive: BTreeMap::new(), has_caught_up: false }) }
    }
}

impl<'rt, T: Copy + Ord> Roll<'rt, T> {
    /// An event says that it is there. `visit` is called unless it was known already.
    pub fn came(&self, id: Id<'rt, T>, visit: impl FnOnce()) {
        if self.lock().alive.insert(id, true) != Some(true) {
            visit();
        }
    }

    /// An event says that it goes. Whether it was known.
    pub fn went(&self, id: Id<'rt, T>) -> bool {
        let mut known = self.lock();
        let before = if known.has_caught_up { known.alive.remove(&id) } else { known.alive.insert(id, false) };
        before == Some(true)
    }

    /// An enumeration that was generated after callbacks began: visits those that no event has told of.
    ///
    /// # Errors
    /// The enumeration's first error; what came before it is visited.
    pub fn catch_up(
        &self,
        all: impl Iterator<Item = Result<Id<'rt, T>, HResult>>,
        mut visit: impl FnMut(Id<'rt, T>),
    ) -> Result<(), HResult> {
        for id in all {
            let id = id?;
            let mut known = self.lock();
            if let Entry::Vacant(place) = known.alive.entry(id) {
                place.insert(true);
                visit(id);
            }
        }
        let mut known = self.lock();
        known.alive.retain(|_, alive| *alive);
        known.has_caught_up = true;
        Ok(())
    }

    /// How many are alive.
    pub fn count(&self) -> usize {
        self.lock().alive.values().filter(|alive| **alive).count()
    }

    fn lock(&self) -> MutexGuard<'_, Known<'rt, T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModuleId;

    fn module(number: usize) -> Id<'static, ModuleId> {
        Id::brand(ModuleId(number))
    }

    #[test]
    fn cat_07_an_event_outranks_an_enumeration_that_was_generated_before_it() {
        let roll = Roll::default();
        let mut seen = Vec::new();
        // While the enumeration is read: 1 goes and 4 comes before it gets there; 2 goes and 3 comes after.
        let snapshot = [2, 1, 3, 4].map(module);
        let read = snapshot.into_iter().enumerate().map(|(at, id)| {
            if at == 1 {
                assert!(!roll.went(module(1)), "nobody knows it yet");
                assert!(roll.went(module(2)), "it was visited");
                roll.came(module(4), || ());
            }
            Ok(id)
        });
        roll.catch_up(read, |id| seen.push(id)).unwrap();
        assert_eq!(seen, [module(2), module(3)], "1 is gone, and 4 was told by an event");
        assert_eq!(roll.count(), 2);
        // The same address again is another module.
        let mut again = 0;
        roll.came(module(1), || again += 1);
        roll.came(module(1), || again += 1);
        assert_eq!((again, roll.count()), (1, 3));
    }

    #[test]
    fn an_enumeration_that_breaks_off_says_so_and_may_be_read_again() {
        let roll = Roll::default();
        let mut seen = 0;
        let broken = [Ok(module(1)), Err(HResult::E_FAIL)];
        assert_eq!(roll.catch_up(broken.into_iter(), |_| seen += 1), Err(HResult::E_FAIL));
        roll.went(module(2));
        roll.catch_up([1, 2].map(|at| Ok(module(at))).into_iter(), |_| seen += 1).unwrap();
        assert_eq!((seen, roll.count()), (1, 1));
    }
}
