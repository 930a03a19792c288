//! Values that are stored once, with an index each.

use hashbrown::HashTable;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

/// Different values, in order of their first use. The map to their indexes stores only these, so that a value costs little more than itself.
#[derive(Debug, Clone)]
pub(crate) struct Table<T, S = foldhash::fast::RandomState> {
    values: Vec<T>,
    indexes: HashTable<u32>,
    hasher: S,
}

impl<T, S: Default> Default for Table<T, S> {
    fn default() -> Self {
        Table { values: Vec::new(), indexes: HashTable::new(), hasher: S::default() }
    }
}

impl<T, S: BuildHasher> Table<T, S> {
    /// The index of `value`; adds it if new.
    pub(crate) fn index<Q>(&mut self, value: &Q) -> u32
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        let Table { values, indexes, hasher } = self;
        let is_it = |index: &u32| values[*index as usize].borrow() == value;
        let hash_of = |index: &u32| hasher.hash_one(values[*index as usize].borrow());
        let entry = indexes.entry(hasher.hash_one(value), is_it, hash_of);
        let index = *entry.or_insert(values.len() as u32).get();
        if index as usize == values.len() {
            values.push(value.to_owned());
        }
        index
    }

    /// The values, in the order of their indexes.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// The values alone.
    pub(crate) fn into_values(self) -> Vec<T> {
        self.values
    }
}
