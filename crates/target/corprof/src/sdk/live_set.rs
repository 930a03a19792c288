//! The set of live modules, threads and the like, from callbacks and from enumerations that may be older than the callbacks.
//!
//! Callbacks come before the attach is complete, and while an enumeration is read.
//! An event outranks every enumeration that was generated before it (contract CAT-07).
//! So the set calls the enumerating function itself. It remembers unloads from before that call until the reading has ended.
//! Earlier unloads need no memory: an enumeration no longer lists an entity when its unload event arrives.
//! An id is valid until the callback that announces its unload returns. After missed callbacks no id is valid (CAT-09).

use super::common::Common;
use super::id::Id;
use super::session::Runtime;
use crate::HResult;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The live entities of one kind: modules, threads, or others with a load and an unload callback.
///
/// The methods exclude each other. So an entity cannot be unloaded while `visit` looks it up:
/// its unload callback waits in [`removed`](Self::removed).
///
/// After missed callbacks, as in [`DetachError::has_missed_callbacks`](super::DetachError::has_missed_callbacks), the set empties itself:
/// any of its ids may be stale. [`catch_up`](Self::catch_up) then visits all existing entities again.
#[derive(Debug)]
pub struct LiveSet<'rt, T> {
    common: Arc<Common>,
    known: Mutex<Known<'rt, T>>,
}

#[derive(Debug)]
struct Known<'rt, T> {
    /// Whether the entity is alive. Dead ones are kept while enumerations are read.
    alive: BTreeMap<Id<'rt, T>, bool>,
    readers: usize,
    /// The count of missed callbacks at the last access.
    missed: u64,
    is_complete: bool,
}

impl<'rt, T: Copy + Ord> LiveSet<'rt, T> {
    /// An empty set for this runtime.
    pub fn new(runtime: &Runtime<'rt>) -> LiveSet<'rt, T> {
        LiveSet::of(Arc::clone(&runtime.common))
    }

    fn of(common: Arc<Common>) -> LiveSet<'rt, T> {
        let known = Known { alive: BTreeMap::new(), readers: 0, missed: common.missed(), is_complete: false };
        LiveSet { common, known: Mutex::new(known) }
    }

    /// Adds an entity from a load event. Calls `visit` unless it was known already.
    pub fn added(&self, id: Id<'rt, T>, visit: impl FnOnce()) {
        if self.lock().alive.insert(id, true) != Some(true) {
            visit();
        }
    }

    /// Removes an entity from an unload event. Returns whether it was known.
    pub fn removed(&self, id: Id<'rt, T>) -> bool {
        let mut known = self.lock();
        let before = if known.readers == 0 { known.alive.remove(&id) } else { known.alive.insert(id, false) };
        before == Some(true)
    }

    /// Enumerates, and visits the entities that no event has reported. You may call it any number of times.
    ///
    /// ```
    /// # use corprof::{sdk::*, ModuleId};
    /// fn read<'rt>(session: &Session<'rt>, roll: &LiveSet<'rt, ModuleId>) {
    ///     let read = roll.catch_up(|| session.modules(), |module| drop(session.module(module)));
    /// }
    /// ```
    /// It does not take an enumeration made earlier, which may list entities that were unloaded since:
    /// ```compile_fail
    /// # use corprof::{sdk::*, ModuleId};
    /// fn read<'rt>(session: &Session<'rt>, roll: &LiveSet<'rt, ModuleId>) {
    ///     let made_before = session.modules();
    ///     let read = made_before.and_then(|all| roll.catch_up(all, |module| drop(session.module(module))));
    /// }
    /// ```
    /// If callbacks are missed during the reading, it calls `enumerate` again and visits everything anew.
    ///
    /// # Errors
    /// The enumeration's first error; the entities before it are visited.
    pub fn catch_up<All: Iterator<Item = Result<Id<'rt, T>, HResult>>>(
        &self,
        mut enumerate: impl FnMut() -> Result<All, HResult>,
        mut visit: impl FnMut(Id<'rt, T>),
    ) -> Result<(), HResult> {
        let reader = Reader::begin(self);
        loop {
            let missed = self.lock().missed;
            if reader.read(enumerate()?, missed, &mut visit)? {
                return Ok(());
            }
        }
    }

    /// Whether the set has everything alive: an enumeration was read to its end, and no callback was missed since.
    pub fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    /// The number of live entities.
    pub fn count(&self) -> usize {
        self.lock().alive.values().filter(|alive| **alive).count()
    }

    /// The set, emptied if callbacks were missed.
    fn lock(&self) -> MutexGuard<'_, Known<'rt, T>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = self.common.missed();
        if known.missed != missed {
            known.alive.clear();
            (known.missed, known.is_complete) = (missed, false);
        }
        known
    }
}

/// The reading of an enumeration. Dead entities are kept until the last reader ends, even early.
struct Reader<'roll, 'rt, T: Copy + Ord>(&'roll LiveSet<'rt, T>);

impl<'roll, 'rt, T: Copy + Ord> Reader<'roll, 'rt, T> {
    fn begin(roll: &'roll LiveSet<'rt, T>) -> Self {
        roll.lock().readers += 1;
        Reader(roll)
    }

    /// Returns whether it read to the end without a missed callback; `missed` is the count before the enumeration.
    fn read(
        &self,
        all: impl Iterator<Item = Result<Id<'rt, T>, HResult>>,
        missed: u64,
        visit: &mut impl FnMut(Id<'rt, T>),
    ) -> Result<bool, HResult> {
        for id in all {
            let id = id?;
            let mut known = self.0.lock();
            if known.missed != missed {
                return Ok(false);
            }
            if let Entry::Vacant(place) = known.alive.entry(id) {
                place.insert(true);
                visit(id);
            }
        }
        let mut known = self.0.lock();
        known.is_complete |= known.missed == missed;
        Ok(known.missed == missed)
    }
}

impl<T: Copy + Ord> Drop for Reader<'_, '_, T> {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.readers -= 1;
        if known.readers == 0 {
            known.alive.retain(|_, alive| *alive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModuleId;
    use remora_holds::holds;

    fn module(number: usize) -> Id<'static, ModuleId> {
        Id::brand(ModuleId(number))
    }

    fn roll() -> LiveSet<'static, ModuleId> {
        LiveSet::of(Arc::default())
    }

    /// An enumeration of these modules.
    fn listed<const N: usize>(modules: [usize; N]) -> impl Iterator<Item = Result<Id<'static, ModuleId>, HResult>> {
        modules.into_iter().map(|number| Ok(module(number)))
    }

    #[test]
    fn cat_03_cat_07_an_event_outranks_an_enumeration_that_was_generated_before_it() {
        let roll = roll();
        let mut seen = Vec::new();
        // At the second item: 1 unloads and 4 loads before the reading reaches them, 2 unloads after it was read. No event reports 3.
        let read = || {
            let read = listed([2, 1, 3, 4]).enumerate().map(|(at, id)| {
                if at == 1 {
                    assert!(!roll.removed(module(1)), "nobody knows it yet");
                    assert!(roll.removed(module(2)), "it was visited");
                    roll.added(module(4), || ());
                }
                id
            });
            Ok(read)
        };
        roll.catch_up(read, |id| seen.push(id)).unwrap();
        // The list is a snapshot: it still has 1, and has 4 although that is known by now.
        holds!([CAT_03 CAT_07] rem, seen == [module(2), module(3)], "1 is gone, and 4 was told by an event");
        assert_eq!(roll.count(), 2);
        // The same address again is another module.
        let mut again = 0;
        roll.added(module(1), || again += 1);
        roll.added(module(1), || again += 1);
        assert_eq!((again, roll.count()), (1, 3));
    }

    #[test]
    fn cat_07_an_event_outranks_every_later_enumeration_that_is_older_as_well() {
        let roll = roll();
        roll.catch_up(|| Ok(listed([1, 2])), |_| ()).unwrap();
        for _ in 0..2 {
            let mut seen = Vec::new();
            let enumerate = || {
                let made = listed([1, 2, 3]);
                // Generated, and not read yet.
                roll.removed(module(1));
                roll.added(module(4), || ());
                Ok(made)
            };
            roll.catch_up(enumerate, |id| seen.push(id)).unwrap();
            holds!(CAT_07 rem, !seen.contains(&module(1)), "it is gone, and was visited: {seen:?}");
            assert!(!roll.removed(module(1)), "it is gone already");
            assert_eq!(roll.count(), 3);
            roll.added(module(1), || ());
        }
    }

    #[test]
    fn cat_07_the_dead_are_kept_until_the_last_of_several_enumerations_is_read() {
        let roll = roll();
        let enumerate = || {
            let made = listed([1]);
            roll.removed(module(1));
            roll.catch_up(|| Ok(listed([])), |_| ()).unwrap();
            Ok(made)
        };
        let mut seen = Vec::new();
        roll.catch_up(enumerate, |id| seen.push(id)).unwrap();
        holds!(CAT_07 rem, seen.is_empty(), "it is gone, and was visited: {seen:?}");
        assert_eq!((roll.count(), roll.lock().alive.len()), (0, 0), "no dead are kept for ever");
    }

    #[test]
    fn cat_05_cat_09_when_callbacks_were_missed_nothing_is_known_until_it_is_met_again() {
        let roll = roll();
        assert!(!roll.is_complete());
        roll.catch_up(|| Ok(listed([1, 2])), |_| ()).unwrap();
        assert!(roll.is_complete());
        roll.common.miss();
        holds!([CAT_05 CAT_09] rem, (roll.is_complete(), roll.count()) == (false, 0));
        let mut seen = 0;
        roll.added(module(1), || seen += 1);
        assert_eq!(seen, 1, "another module, for all that is known");
        // Again during a reading: the enumeration may be older than the missed callbacks.
        let mut made = 0;
        let enumerate = || {
            made += 1;
            if made == 1 {
                roll.common.miss();
            }
            Ok(listed([3, 1]))
        };
        let mut seen = Vec::new();
        roll.catch_up(enumerate, |id| seen.push(id)).unwrap();
        holds!([CAT_05 CAT_09] rem, seen == [module(3), module(1)], "made anew");
        assert!(roll.is_complete());
    }

    #[test]
    fn an_enumeration_that_breaks_off_says_so_and_may_be_read_again() {
        let roll = roll();
        let mut seen = 0;
        let broken = || Ok([Ok(module(1)), Err(HResult::E_FAIL)].into_iter());
        assert_eq!(roll.catch_up(broken, |_| seen += 1), Err(HResult::E_FAIL));
        assert!(!roll.is_complete());
        let enumerate = || {
            roll.removed(module(2));
            Ok(listed([1, 2]))
        };
        roll.catch_up(enumerate, |_| seen += 1).unwrap();
        assert_eq!((seen, roll.count()), (1, 1));
    }
}
