//! What ids of modules and classes mean, and when: in a watch modules unload, and others come to bear their ids.
//!
//! Each class is told in a *telling*, in which an id means one class: a snapshot's stream is one, and so is what a watch tells between two
//! unloads (its numbers then begin with 0 again). And it is told at a collection, which says what the ids of modules meant.

use remora_wire::heap::ClassFacts;
use std::collections::{BTreeMap, HashMap};

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    /// Of each module's id, from which collection on it is which.
    modules: HashMap<u64, BTreeMap<u64, Option<u32>>>,
    /// Of each class, by its number.
    told: Vec<Told>,
    numbers: HashMap<(u32, u64), u32>,
    /// All classes that were told of under an id.
    by_id: HashMap<u64, Vec<u32>>,
    telling: u32,
    tellings: u32,
    /// The telling of what is told of collections.
    of_collections: u32,
}

/// When a class was told of.
#[derive(Debug, Clone, Copy)]
struct Told {
    telling: u32,
    /// `None` until it is known which collection the snapshot was made in.
    collection: Option<u64>,
}

impl Meanings {
    /// From this collection on a module's id is this one's; `None`: anybody's.
    pub(crate) fn module(&mut self, id: u64, since: u64, index: Option<u32>) {
        self.modules.entry(id).or_default().insert(since, index);
    }

    /// Another snapshot's stream begins.
    pub(crate) fn snapshot_begins(&mut self) -> u32 {
        self.tellings += 1;
        self.tellings
    }

    /// What comes next is of this snapshot's stream.
    pub(crate) fn in_snapshot(&mut self, telling: u32) {
        self.telling = telling;
    }

    /// A class, the next number's. Of a snapshot without a watch, and so of none but the time in which everything means what it always did.
    pub(crate) fn class(&mut self, number: u32, id: u64) {
        let collection = (self.telling == 0).then_some(0);
        self.told.push(Told { telling: self.telling, collection });
        self.numbers.insert((self.telling, id), number);
        self.by_id.entry(id).or_default().push(number);
    }

    /// These classes were told of the heap as it was in this collection.
    pub(crate) fn were_told(&mut self, classes: &[u32], collection: Option<u64>) {
        for class in classes {
            if let Some(told) = self.told.get_mut(*class as usize) {
                told.collection = collection;
            }
        }
    }

    /// What comes next is the class that this collection tells of under a number of its own.
    pub(crate) fn in_collection(&mut self, own: u32) {
        if own == 0 {
            self.of_collections = self.snapshot_begins();
        }
        self.telling = self.of_collections;
    }

    /// The index of the module that a class is of.
    pub(crate) fn module_of(&self, class: u32, id: u64) -> Option<u32> {
        let told = self.told.get(class as usize)?;
        let known = self.modules.get(&id)?;
        match told.collection {
            Some(collection) => known.range(..=collection).next_back().and_then(|(_, index)| *index),
            // The one that it ever was.
            None if known.len() == 1 => known.first_key_value().and_then(|(_, index)| *index),
            None => None,
        }
    }

    /// What an id means where a class names it: its arguments, its elements.
    pub(crate) fn named_by(&self, class: u32, id: u64) -> Option<u32> {
        let telling = self.told.get(class as usize)?.telling;
        self.numbers.get(&(telling, id)).copied()
    }

    /// All classes that were told of so under an id.
    pub(crate) fn alike<'a>(
        &'a self,
        id: u64,
        facts: &'a ClassFacts,
        classes: &'a [ClassFacts],
    ) -> impl Iterator<Item = u32> + 'a {
        let all = self.by_id.get(&id).into_iter().flatten().copied();
        all.filter(move |class| classes.get(*class as usize) == Some(facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: u64 = 0x100;
    const CLASS: u64 = 0x70;
    const LIST: u64 = 0x80;

    fn in_collection(meanings: &mut Meanings, number: u32, (own, id): (u32, u64), collection: u64) {
        meanings.in_collection(own);
        meanings.class(number, id);
        meanings.were_told(&[number], Some(collection));
    }

    #[test]
    fn a_class_is_of_the_module_that_its_id_meant_when_it_was_told() {
        let mut meanings = Meanings::default();
        in_collection(&mut meanings, 0, (0, CLASS), 3);
        in_collection(&mut meanings, 1, (1, LIST), 4);
        in_collection(&mut meanings, 2, (0, CLASS), 5);
        in_collection(&mut meanings, 3, (1, LIST), 5);
        // The modules are told of later than the classes.
        assert_eq!(meanings.module_of(0, MODULE), None);
        meanings.module(MODULE, 0, Some(1));
        meanings.module(MODULE, 5, None);
        assert_eq!([0, 1, 2].map(|class| meanings.module_of(class, MODULE)), [Some(1), Some(1), None]);
        meanings.module(MODULE, 5, Some(2));
        assert_eq!([0, 1, 2].map(|class| meanings.module_of(class, MODULE)), [Some(1), Some(1), Some(2)]);
        assert_eq!([1, 3].map(|list| meanings.named_by(list, CLASS)), [Some(0), Some(2)]);
    }

    #[test]
    fn a_snapshot_that_comes_later_than_collections_behind_it_is_of_its_own_time() {
        let mut meanings = Meanings::default();
        meanings.module(MODULE, 0, Some(1));
        meanings.module(MODULE, 5, Some(2));
        let snapshot = meanings.snapshot_begins();
        in_collection(&mut meanings, 0, (0, CLASS), 6);
        meanings.in_snapshot(snapshot);
        meanings.class(1, CLASS);
        meanings.class(2, LIST);
        assert_eq!(meanings.module_of(1, MODULE), None, "when it was made is not known, and the id was two");
        meanings.were_told(&[1, 2], Some(2));
        assert_eq!([0, 1].map(|class| meanings.module_of(class, MODULE)), [Some(2), Some(1)]);
        assert_eq!(meanings.named_by(2, CLASS), Some(1));
    }

    #[test]
    fn without_a_watch_what_was_told_last_holds() {
        let mut meanings = Meanings::default();
        meanings.class(0, CLASS);
        meanings.module(MODULE, 0, Some(1));
        assert_eq!(meanings.module_of(0, MODULE), Some(1));
        meanings.module(MODULE, 0, None);
        assert_eq!(meanings.module_of(0, MODULE), None);
    }
}
