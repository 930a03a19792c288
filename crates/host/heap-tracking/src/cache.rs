//! The live object set: every object of a heap by address, in pages of the address space. So a GC touches only the pages that it collects.

use crate::account::Account;
use crate::collection::Collection;
use crate::known::Known;
use std::collections::BTreeMap;

/// Bits of an address within a page: 1 MiB.
const PAGE_BITS: u32 = 20;
/// Alignment of objects.
const WORD: u64 = 8;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Offset in its page.
    at: u32,
    class: u32,
    bytes: u64,
    survived: u32,
    is_of_the_start: bool,
}

impl Entry {
    fn known(&self) -> Known {
        let Entry { class, bytes, survived, is_of_the_start, .. } = *self;
        Known { class, bytes, survived, is_of_the_start }
    }
}

/// Effect of a GC on the heap mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Objects that survived.
    pub survived: u64,
    /// Survivors that moved.
    pub moved: u64,
    /// Objects that died.
    pub died: u64,
    /// Objects found for the first time.
    pub born: u64,
    /// Contradictions: two objects at one address, or an object whose class or size has changed.
    pub contradictions: u64,
    /// Bytes that survived without a known object.
    pub unexplained: u64,
}

/// Differences between two object sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    /// Objects in both.
    pub same: u64,
    /// Objects only in the first.
    pub missing: u64,
    /// Objects only in the second.
    pub unknown: u64,
    /// Those of them in frozen ranges: no GC reports their birth.
    pub unknown_frozen: u64,
    /// Objects with another class or size at the same address.
    pub other: u64,
}

impl Difference {
    /// Whether they are equal, except for objects in frozen ranges.
    pub fn is_none(&self) -> bool {
        self.missing == 0 && self.other == 0 && self.unknown == self.unknown_frozen
    }
}

/// Every object of a heap by address.
#[derive(Debug, Clone, Default)]
pub struct ObjectCache {
    pages: BTreeMap<u64, Vec<Entry>>,
    /// Frozen ranges, which no GC collects, as start and end.
    frozen: Vec<(u64, u64)>,
    objects: u64,
}

fn page_of(address: u64) -> u64 {
    address >> PAGE_BITS
}

fn address_of(page: u64, at: u32) -> u64 {
    page << PAGE_BITS | u64::from(at)
}

fn taken(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(WORD).unwrap_or(u64::MAX)
}

/// Whether one of these ascending ranges contains an address.
fn within(parts: &[(u64, u64)], address: u64) -> bool {
    let behind = parts.partition_point(|(start, _)| *start <= address);
    behind.checked_sub(1).and_then(|at| parts.get(at)).is_some_and(|(_, end)| address < *end)
}

impl ObjectCache {
    /// Adds an object of a snapshot, in any order. Call [`ObjectCache::settle`] after the last.
    pub fn add(&mut self, address: u64, known: Known) {
        let at = (address & ((1 << PAGE_BITS) - 1)) as u32;
        let Known { class, bytes, survived, is_of_the_start } = known;
        self.pages.entry(page_of(address)).or_default().push(Entry { at, class, bytes, survived, is_of_the_start });
    }

    /// Adds a frozen range of the heap, which no GC collects.
    pub fn add_frozen(&mut self, start: u64, end: u64) {
        self.frozen.push((start, end));
    }

    /// Sorts the added objects. Drops objects at an address that already has one, and returns their number.
    pub fn settle(&mut self) -> u64 {
        self.frozen.sort_unstable();
        let pages: Vec<u64> = self.pages.keys().copied().collect();
        let twice = self.order(&pages);
        self.objects = self.pages.values().map(|page| page.len() as u64).sum();
        twice
    }

    /// Marks all objects as those of the first snapshot.
    pub(crate) fn is_of_the_start(&mut self) {
        self.pages.values_mut().flatten().for_each(|entry| entry.is_of_the_start = true);
    }

    /// Number of objects.
    pub fn count(&self) -> u64 {
        self.objects
    }

    /// Every object, by ascending address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Known)> + '_ {
        self.pages
            .iter()
            .flat_map(|(page, entries)| entries.iter().map(|entry| (address_of(*page, entry.at), entry.known())))
    }

    /// The object at an address; `None` if unknown: it may have been born since the last GC (contract GCH-04).
    pub fn get(&self, address: u64) -> Option<Known> {
        let entries = self.pages.get(&page_of(address))?;
        let at = (address & ((1 << PAGE_BITS) - 1)) as u32;
        let index = entries.binary_search_by_key(&at, |entry| entry.at).ok()?;
        entries.get(index).map(Entry::known)
    }

    /// Applies a GC, whose `born` have numbers of [`crate::Classes`]. Adds young, dead and born objects to `account`.
    ///
    /// `None` once the cost `is_too_much`: the objects are then a mixture from before and after the GC.
    pub fn apply(
        &mut self,
        collection: &Collection,
        account: &mut Account,
        is_too_much: &dyn Fn() -> bool,
    ) -> Option<Applied> {
        let (mut applied, mut cost) = (Applied::default(), Cost { is_too_much, unchecked: 0 });
        let (moved, explained) = self.pass(collection, account, &mut applied, &mut cost)?;
        applied.moved = moved.len() as u64;
        let twice = self.insert(moved.into_iter(), &mut cost)?;
        applied.contradictions += twice;
        let born = self.add_born(collection, account, &mut applied, &mut cost)?;
        let living: u64 = collection.lives.iter().fold(0, |sum, (.., length)| sum.saturating_add(taken(*length)));
        applied.unexplained = living.abs_diff(explained.saturating_add(born));
        self.objects = (self.objects + applied.born).saturating_sub(applied.died + twice);
        Some(applied)
    }

    /// Removes dead and moved objects from the collected ranges. Returns the moved ones by their new address, and the bytes of all
    /// survivors.
    fn pass(
        &mut self,
        collection: &Collection,
        account: &mut Account,
        applied: &mut Applied,
        cost: &mut Cost<'_>,
    ) -> Option<(Vec<(u64, Entry)>, u64)> {
        let (mut moved, mut explained) = (Vec::new(), 0_u64);
        for page in self.pages_of(collection) {
            let Some(entries) = self.pages.get_mut(&page) else { continue };
            cost.add(entries.len())?;
            let mut next =
                collection.lives.partition_point(|(old, _, length)| old.saturating_add(*length) <= address_of(page, 0));
            entries.retain_mut(|entry| {
                let address = address_of(page, entry.at);
                if within(&collection.youngest, address) {
                    account.was_young(entry.class);
                }
                if !is_collected(collection, &self.frozen, address) {
                    return true;
                }
                while collection.lives.get(next).is_some_and(|(old, _, length)| old.saturating_add(*length) <= address)
                {
                    next += 1;
                }
                let Some((old, new, _)) = collection.lives.get(next).filter(|(old, ..)| *old <= address) else {
                    applied.died += 1;
                    account.died(&entry.known());
                    return false;
                };
                applied.survived += 1;
                explained = explained.saturating_add(taken(entry.bytes));
                entry.survived = entry.survived.saturating_add(1);
                if old == new {
                    return true;
                }
                moved.push((new.wrapping_add(address - old), *entry));
                false
            });
        }
        self.pages.retain(|_, entries| !entries.is_empty());
        Some((moved, explained))
    }

    /// The pages that a GC may touch.
    fn pages_of(&self, collection: &Collection) -> Vec<u64> {
        if collection.is_whole() {
            return self.pages.keys().copied().collect();
        }
        let mut pages = Vec::new();
        for (start, end) in collection.collected.iter().filter(|(start, end)| start < end) {
            let those = self.pages.range(page_of(*start)..=page_of(end - 1)).map(|(page, _)| *page);
            pages.extend(those.filter(|page| pages.last() != Some(page)).collect::<Vec<_>>());
        }
        pages
    }

    /// Adds new objects. Returns their bytes.
    fn add_born(
        &mut self,
        collection: &Collection,
        account: &mut Account,
        applied: &mut Applied,
        cost: &mut Cost<'_>,
    ) -> Option<u64> {
        let (mut new, mut bytes) = (Vec::new(), 0_u64);
        for born in &collection.born {
            cost.add(1)?;
            let known = Known { class: born.class, bytes: born.bytes, survived: 1, is_of_the_start: false };
            match self.get(born.address) {
                Some(there) => {
                    applied.contradictions += u64::from((there.class, there.bytes) != (born.class, born.bytes));
                }
                None => {
                    bytes = bytes.saturating_add(taken(born.bytes));
                    account.born(&known);
                    let Known { class, bytes, survived, is_of_the_start } = known;
                    new.push((born.address, Entry { at: 0, class, bytes, survived, is_of_the_start }));
                }
            }
        }
        let count = new.len() as u64;
        let twice = self.insert(new.into_iter(), cost)?;
        applied.contradictions += twice;
        applied.born = count - twice;
        Some(bytes)
    }

    /// Inserts objects at their addresses. Returns the number of objects at an address that already had one.
    fn insert(&mut self, entries: impl Iterator<Item = (u64, Entry)>, cost: &mut Cost<'_>) -> Option<u64> {
        let mut touched: Vec<u64> = Vec::new();
        for (address, entry) in entries {
            cost.add(1)?;
            let page = page_of(address);
            let at = (address & ((1 << PAGE_BITS) - 1)) as u32;
            self.pages.entry(page).or_default().push(Entry { at, ..entry });
            if touched.last() != Some(&page) {
                touched.push(page);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        Some(self.order(&touched))
    }

    fn order(&mut self, pages: &[u64]) -> u64 {
        let mut twice = 0;
        for page in pages {
            let Some(entries) = self.pages.get_mut(page) else { continue };
            if !entries.is_sorted_by_key(|entry| entry.at) {
                entries.sort_by_key(|entry| entry.at);
            }
            let before = entries.len();
            entries.dedup_by_key(|entry| entry.at);
            twice += (before - entries.len()) as u64;
        }
        twice
    }

    /// Compares with `other`, the correct one.
    pub fn difference(&self, other: &ObjectCache) -> Difference {
        let mut difference = Difference::default();
        let (mut ours, mut theirs) = (self.iter().peekable(), other.iter().peekable());
        loop {
            let (left, right) = (ours.peek().copied(), theirs.peek().copied());
            match (left, right) {
                (None, None) => return difference,
                (Some((address, one)), Some((there, another))) if address == there => {
                    let is_same = (one.class, one.bytes) == (another.class, another.bytes);
                    *(if is_same { &mut difference.same } else { &mut difference.other }) += 1;
                    ours.next();
                    theirs.next();
                }
                (Some((address, _)), right) if right.is_none_or(|(there, _)| address < there) => {
                    difference.missing += 1;
                    ours.next();
                }
                (_, Some((there, _))) => {
                    difference.unknown += 1;
                    difference.unknown_frozen += u64::from(within(&other.frozen, there));
                    theirs.next();
                }
                (Some(_), None) => {
                    difference.missing += 1;
                    ours.next();
                }
            }
        }
    }
}

/// What applying a GC has cost. Each of its objects takes ten times the memory here that it takes in its report, and may be alone in its
/// page.
struct Cost<'a> {
    is_too_much: &'a dyn Fn() -> bool,
    /// Objects since it was asked.
    unchecked: usize,
}

impl Cost<'_> {
    /// Adds objects. `None` once it is too much.
    fn add(&mut self, objects: usize) -> Option<()> {
        const OBJECTS: usize = 1 << 14;
        self.unchecked += objects;
        if self.unchecked < OBJECTS {
            return Some(());
        }
        self.unchecked = 0;
        (!(self.is_too_much)()).then_some(())
    }
}

fn is_collected(collection: &Collection, frozen: &[(u64, u64)], address: u64) -> bool {
    if collection.is_whole() { !within(frozen, address) } else { within(&collection.collected, address) }
}
