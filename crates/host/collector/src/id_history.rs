//! Resolves ids of modules and classes over time: during heap tracking modules unload, and later ones reuse their ids.
//!
//! Within an *epoch* a class id has one meaning. A snapshot's stream is one epoch. So are the GC reports between two unloads (their
//! class numbers then restart at 0). Each class also belongs to a GC, which decides the meaning of module ids.

use crate::naming_budget::NamingBudget;
use remora_heap_stream::ClassFacts;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

/// The ids of all modules and classes, and what they meant when.
#[derive(Debug, Default)]
pub(crate) struct IdHistory {
    /// By module id: the module's index from each GC on.
    modules: HashMap<u64, BTreeMap<u64, Option<u32>>>,
    /// By class number.
    described: Vec<Described>,
    numbers: HashMap<(u32, u64), u32>,
    /// All classes ever described with an id, by the hash of their facts.
    by_id: HashMap<(u64, u64), Vec<u32>>,
    of_facts: RandomState,
    epoch: u32,
    epochs: u32,
    /// The epoch of the GC reports.
    of_collections: u32,
}

/// When a class was described.
#[derive(Debug, Clone, Copy)]
struct Described {
    epoch: u32,
    /// `None` until the GC of the snapshot is known.
    collection: Option<u64>,
}

impl IdHistory {
    /// From this GC on the id belongs to this module; `None` if the module is unknown.
    pub(crate) fn module(&mut self, id: u64, since: u64, index: Option<u32>) {
        self.modules.entry(id).or_default().insert(since, index);
    }

    /// Starts the epoch of another snapshot's stream.
    pub(crate) fn snapshot_begins(&mut self) -> u32 {
        self.epochs += 1;
        self.epochs
    }

    /// The next classes are from this snapshot's stream.
    pub(crate) fn in_snapshot(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Adds the class with the next number. A snapshot without heap tracking counts as GC 0: no id changes its meaning there.
    pub(crate) fn class(&mut self, number: u32, id: u64, facts: &ClassFacts) {
        let collection = (self.epoch == 0).then_some(0);
        self.described.push(Described { epoch: self.epoch, collection });
        self.numbers.insert((self.epoch, id), number);
        self.by_id.entry((id, self.of_facts.hash_one(facts))).or_default().push(number);
    }

    /// These classes describe the heap at this GC.
    pub(crate) fn were_described(&mut self, classes: &[u32], collection: Option<u64>) {
        for class in classes {
            if let Some(described) = self.described.get_mut(*class as usize) {
                described.collection = collection;
            }
        }
    }

    /// The next class is from a GC report, with this number of its own.
    pub(crate) fn in_collection(&mut self, own: u32) {
        if own == 0 {
            self.of_collections = self.snapshot_begins();
        }
        self.epoch = self.of_collections;
    }

    /// The index of a class's module.
    pub(crate) fn module_of(&self, class: u32, id: u64) -> Option<u32> {
        let described = self.described.get(class as usize)?;
        let known = self.modules.get(&id)?;
        match described.collection {
            Some(collection) => known.range(..=collection).next_back().and_then(|(_, index)| *index),
            // The id never had another meaning.
            None if known.len() == 1 => known.first_key_value().and_then(|(_, index)| *index),
            None => None,
        }
    }

    /// The class that an id in a class's description means: an argument, or the elements.
    pub(crate) fn named_by(&self, class: u32, id: u64) -> Option<u32> {
        let epoch = self.described.get(class as usize)?.epoch;
        self.numbers.get(&(epoch, id)).copied()
    }

    /// All classes with this id and these facts, as far as the budget goes: a target can describe any number with one id.
    pub(crate) fn alike(
        &self,
        id: u64,
        facts: &ClassFacts,
        classes: &[ClassFacts],
        budget: &mut NamingBudget,
    ) -> Vec<u32> {
        let all = self
            .by_id
            .get(&(id, self.of_facts.hash_one(facts)))
            .into_iter()
            .flatten()
            .copied()
            .take_while(|_| budget.is_left());
        all.filter(|class| classes.get(*class as usize) == Some(facts)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: u64 = 0x100;
    const CLASS: u64 = 0x70;
    const LIST: u64 = 0x80;
    const FACTS: ClassFacts = ClassFacts::Unknown { code: 0 };

    fn in_collection(id_history: &mut IdHistory, number: u32, (own, id): (u32, u64), collection: u64) {
        id_history.in_collection(own);
        id_history.class(number, id, &FACTS);
        id_history.were_described(&[number], Some(collection));
    }

    #[test]
    fn a_class_is_of_the_module_that_its_id_meant_when_it_was_reported() {
        let mut id_history = IdHistory::default();
        in_collection(&mut id_history, 0, (0, CLASS), 3);
        in_collection(&mut id_history, 1, (1, LIST), 4);
        in_collection(&mut id_history, 2, (0, CLASS), 5);
        in_collection(&mut id_history, 3, (1, LIST), 5);
        // Module ids arrive later than the classes.
        assert_eq!(id_history.module_of(0, MODULE), None);
        id_history.module(MODULE, 0, Some(1));
        id_history.module(MODULE, 5, None);
        assert_eq!([0, 1, 2].map(|class| id_history.module_of(class, MODULE)), [Some(1), Some(1), None]);
        id_history.module(MODULE, 5, Some(2));
        assert_eq!([0, 1, 2].map(|class| id_history.module_of(class, MODULE)), [Some(1), Some(1), Some(2)]);
        assert_eq!([1, 3].map(|list| id_history.named_by(list, CLASS)), [Some(0), Some(2)]);
    }

    #[test]
    fn a_snapshot_that_comes_later_than_collections_behind_it_is_of_its_own_time() {
        let mut id_history = IdHistory::default();
        id_history.module(MODULE, 0, Some(1));
        id_history.module(MODULE, 5, Some(2));
        let snapshot = id_history.snapshot_begins();
        in_collection(&mut id_history, 0, (0, CLASS), 6);
        id_history.in_snapshot(snapshot);
        id_history.class(1, CLASS, &FACTS);
        id_history.class(2, LIST, &FACTS);
        assert_eq!(id_history.module_of(1, MODULE), None, "when it was made is not known, and the id was two");
        id_history.were_described(&[1, 2], Some(2));
        assert_eq!([0, 1].map(|class| id_history.module_of(class, MODULE)), [Some(2), Some(1)]);
        assert_eq!(id_history.named_by(2, CLASS), Some(1));
    }

    #[test]
    fn regression_classes_of_one_id_were_compared_with_each_other_until_no_time_for_names_was_left() {
        let (mut id_history, mut budget) = (IdHistory::default(), NamingBudget::new(|| false));
        let classes: Vec<ClassFacts> = (0..100_000).map(|code| ClassFacts::Unknown { code }).collect();
        (0..).zip(&classes).for_each(|(number, facts)| id_history.class(number, CLASS, facts));
        for (number, facts) in (0..).zip(&classes) {
            assert_eq!(id_history.alike(CLASS, facts, &classes, &mut budget), [number]);
        }
        assert!(budget.is_left());
    }

    #[test]
    fn without_a_watch_what_was_reported_last_holds() {
        let mut id_history = IdHistory::default();
        id_history.class(0, CLASS, &FACTS);
        id_history.module(MODULE, 0, Some(1));
        assert_eq!(id_history.module_of(0, MODULE), Some(1));
        id_history.module(MODULE, 0, None);
        assert_eq!(id_history.module_of(0, MODULE), None);
    }
}
