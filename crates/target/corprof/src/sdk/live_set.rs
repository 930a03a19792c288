//! A roll of what is alive, from callbacks and from enumerations that may be older than they are.
//!
//! Callbacks come before the attach is complete, and while an enumeration is read: an event outranks every enumeration that was
//! generated before it (contract CAT-07). So the roll has the enumeration made itself, and keeps the dead from before that on until it is
//! read: what goes is not listed any more when its event comes, so those that went earlier need no keeping.
//! An id may be used as long as the callback that announces its end has not returned. Where callbacks were missed no id may (CAT-09).

use super::common::Common;
use super::id::Id;
use super::session::Runtime;
use crate::HResult;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which ones are alive: modules, threads, whatever comes and goes with a callback each.
///
/// The methods wait for each other: what `visit` looks up cannot be unloaded meanwhile, because [`went`]() waits in the callback.
///
/// When callbacks were missed, as after [`DetachError::has_missed_callbacks`](super::DetachError::has_missed_callbacks), it forgets all by itself:
/// nobody knows which of the ids are of something that has gone. [`catch_up`](Self::catch_up) then visits what is there anew.
#[derive(Debug)]
pub struct LiveSet<'rt, T> {
    common: Arc<Common>,
    known: Mutex<Known<'rt, T>>,
}

#[derive(Debug)]
struct Known<'rt, T> {
    /// Whether it is alive. The dead are kept while enumerations are read.
    alive: BTreeMap<Id<'rt, T>, bool>,
    readers: usize,
    /// How often callbacks had been missed when this was last looked at.
    missed: u64,
    is_complete: bool,
}

impl<'rt, T: Copy + Ord> LiveSet<'rt, T> {
    /// Of this runtime, with nothing on it yet.
    pub fn new(runtime: &Runtime<'rt>) -> LiveSet<'rt, T> {
        LiveSet::of(Arc::clone(&runtime.common))
    }

    fn of(common: Arc<Common>) -> LiveSet<'rt, T> {
        let known = Known { alive: BTreeMap::new(), readers: 0, missed: common.missed(), is_complete: false };
        LiveSet { common, known: Mutex::new(known) }
    }

    /// An event says that it is there. `visit` is called unless it was known already.
    pub fn added(&self, id: Id<'rt, T>, visit: impl FnOnce()) {
        if self.lock().alive.insert(id, true) != Some(true) {
            visit();
        }
    }

    /// An event says that it goes. Whether it was known.
    pub fn removed(&self, id: Id<'rt, T>) -> bool {
        let mut known = self.lock();
        let before = if known.readers == 0 { known.alive.remove(&id) } else { known.alive.insert(id, false) };
        before == Some(true)
    }

    /// Makes an enumeration and visits those on it that no event has told of. It may be done any number of times.
    ///
    /// ```
    /// # use corprof::{sdk::*, ModuleId};
    /// fn read<'rt>(session: &Session<'rt>, roll: &LiveSet<'rt, ModuleId>) {
    ///     let read = roll.catch_up(|| session.modules(), |module| drop(session.module(module)));
    /// }
    /// ```
    /// One that was made before is not taken: what went in between would be met again.
    /// ```compile_fail
    /// # use corprof::{sdk::*, ModuleId};
    /// fn read<'rt>(session: &Session<'rt>, roll: &LiveSet<'rt, ModuleId>) {
    ///     let made_before = session.modules();
    ///     let read = made_before.and_then(|all| roll.catch_up(all, |module| drop(session.module(module))));
    /// }
    /// ```
    /// If callbacks were missed meanwhile, `enumerate` is called again and everything visited anew.
    ///
    /// # Errors
    /// The enumeration's first error; what came before it is visited.
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

    /// Whether everything that is alive is on it: an enumeration was read to its end, and no callback has been missed since.
    pub fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    /// How many are alive.
    pub fn count(&self) -> usize {
        self.lock().alive.values().filter(|alive| **alive).count()
    }

    /// What is known, which is nothing once callbacks were missed.
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

/// Somebody reads an enumeration: the dead are kept until nobody does, however the reading ends.
struct Reader<'roll, 'rt, T: Copy + Ord>(&'roll LiveSet<'rt, T>);

impl<'roll, 'rt, T: Copy + Ord> Reader<'roll, 'rt, T> {
    fn begin(roll: &'roll LiveSet<'rt, T>) -> Self {
        roll.lock().readers += 1;
        Reader(roll)
    }

    /// Whether it was read to the end, and no callback missed since there were so many.
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
    fn cat_07_an_event_outranks_an_enumeration_that_was_generated_before_it() {
        let roll = roll();
        let mut seen = Vec::new();
        // While the enumeration is read: 1 goes and 4 comes before it gets there; 2 goes and 3 comes after.
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
        assert_eq!(seen, [module(2), module(3)], "1 is gone, and 4 was told by an event");
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
                // Made, and not read yet.
                roll.removed(module(1));
                roll.added(module(4), || ());
                Ok(made)
            };
            roll.catch_up(enumerate, |id| seen.push(id)).unwrap();
            assert!(!seen.contains(&module(1)), "it is gone, and was visited: {seen:?}");
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
        roll.catch_up(enumerate, |id| panic!("{id:?} is gone")).unwrap();
        assert_eq!((roll.count(), roll.lock().alive.len()), (0, 0), "no dead are kept for ever");
    }

    #[test]
    fn cat_05_cat_09_when_callbacks_were_missed_nothing_is_known_until_it_is_met_again() {
        let roll = roll();
        assert!(!roll.is_complete());
        roll.catch_up(|| Ok(listed([1, 2])), |_| ()).unwrap();
        assert!(roll.is_complete());
        roll.common.miss();
        assert_eq!((roll.is_complete(), roll.count()), (false, 0));
        let mut seen = 0;
        roll.added(module(1), || seen += 1);
        assert_eq!(seen, 1, "another module, for all that is known");
        // Once more while an enumeration is read: it may be older than what was missed.
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
        assert_eq!(seen, [module(3), module(1)], "made anew");
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
