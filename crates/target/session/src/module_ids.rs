//! What the modules' ids mean: in a snapshot, and through the collections of a watch.
//!
//! A module that has unloaded leaves its id to whoever comes. In a snapshot such an id names nothing: who of the two is meant cannot be told.
//! In a watch it can. Objects of a module are gone before it unloads, and its successor's are met in collections that begin later. So what
//! an id means is told with the first collection in which it does: from the one after the unload on it may be another module's, which is
//! described when it is enumerated.
//!
//! An id ceases to be enumerable before its unload is told (contract CAT-04; vm/loaderallocator.cpp, `GCLoaderAllocators`: assemblies are
//! removed from the domain's list first). So what is enumerated after an unload was heard is the successor. What is heard after the
//! enumeration outranks it (CAT-07): such an id is asked about no more, until it is enumerated again.

use crate::unload_barrier::Unload;
use remora_wire::Message;

/// What is known of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    id: usize,
    /// The index under which the module was described; `None` if it may be anybody's.
    index: Option<u32>,
    /// The first collection in which that is so.
    since: u64,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct ModuleIds {
    /// Ascending by ids.
    known: Vec<Known>,
    /// Whether collections are told of, so that an id can mean one and then another.
    is_watch: bool,
    /// Before this collection an id may have been anybody's of which nothing is known.
    floor: u64,
    /// What was heard to unload since the enumeration.
    gone: Vec<usize>,
    anything_is_gone: bool,
    /// What has changed and was not told yet.
    changes: Vec<Known>,
    /// Whether one has said which application domain it is in.
    pub(crate) has_domain: bool,
}

impl ModuleIds {
    /// Those of a watch.
    pub(crate) fn of_watch() -> ModuleIds {
        ModuleIds { is_watch: true, ..ModuleIds::default() }
    }

    /// What is enumerated comes after everything that was heard by now.
    pub(crate) fn enumerates(&mut self) {
        self.gone.clear();
        self.anything_is_gone = false;
    }

    /// Whether an id that was enumerated is to be asked about.
    pub(crate) fn wants(&self, id: usize) -> bool {
        let is_unknown = self.find(id).is_none_or(|known| self.is_watch && known.index.is_none());
        is_unknown && !self.anything_is_gone && !self.gone.contains(&id)
    }

    /// It was described under this index, or nothing was said of it.
    pub(crate) fn is(&mut self, id: usize, index: Option<u32>) {
        let since = self.find(id).map_or(self.floor, |known| known.since);
        self.know(Known { id, index, since });
    }

    /// An id that has gone may be used anew: before the fork or after it, or from the next collection on. So many have begun by now.
    pub(crate) fn forget(&mut self, told: &[Unload], begun: u64) {
        for what in told {
            match *what {
                Unload::Module { id, collections } => {
                    if !self.gone.contains(&id) {
                        self.gone.push(id);
                    }
                    let since = if self.is_watch { collections + 1 } else { 0 };
                    // What was heard before is told again, until unloads were let go.
                    if self.find(id).is_none_or(|known| known.since < since || !self.is_watch) {
                        self.know(Known { id, index: None, since });
                    }
                }
                Unload::Function(_) => {}
                Unload::Anything => self.forget_all(begun),
            }
        }
    }

    /// Hands to `tell` what has to be told, as far as there is room for it. The rest has to be told again: else what comes would be called after
    /// who was there.
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(&Message) -> bool) {
        let told = self.changes.iter().take_while(|known| {
            tell(&Message::ModuleId { id: known.id as u64, since: known.since, index: known.index })
        });
        let told = told.count();
        self.changes.drain(..told);
    }

    fn place(&self, id: usize) -> Result<usize, usize> {
        self.known.binary_search_by_key(&id, |known| known.id)
    }

    fn find(&self, id: usize) -> Option<Known> {
        self.place(id).ok().and_then(|at| self.known.get(at)).copied()
    }

    fn know(&mut self, new: Known) {
        match self.place(new.id) {
            Ok(at) => match self.known.get_mut(at) {
                Some(known) if *known != new => *known = new,
                _ => return,
            },
            Err(at) => self.known.insert(at, new),
        }
        self.changes.push(new);
    }

    /// Anything may have gone, and nobody knows when: of what was known of the ids nothing holds.
    fn forget_all(&mut self, begun: u64) {
        self.anything_is_gone = true;
        self.floor = if self.is_watch { begun + 1 } else { 0 };
        for known in &mut self.known {
            if known.index.take().is_some() {
                self.changes.push(*known);
            }
            known.since = self.floor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unloads(id: usize, collections: u64) -> [Unload; 1] {
        [Unload::Module { id, collections }]
    }

    /// Everything that is to be told: id, since when, what.
    fn told(modules: &mut ModuleIds) -> Vec<(u64, u64, Option<u32>)> {
        let mut told = Vec::new();
        modules.tell(|message| match message {
            Message::ModuleId { id, since, index } => {
                told.push((*id, *since, *index));
                true
            }
            other => panic!("{other:?}"),
        });
        told
    }

    #[test]
    fn cat_06_in_a_snapshot_an_id_that_has_gone_names_nothing_any_more() {
        let mut modules = ModuleIds::default();
        modules.enumerates();
        assert!(modules.wants(7));
        modules.is(7, Some(1));
        assert!(!modules.wants(7));
        modules.forget(&unloads(7, 0), 0);
        modules.forget(&unloads(8, 0), 0);
        modules.enumerates();
        assert!(!modules.wants(7) && !modules.wants(8), "before the fork it was one, after it may be another");
        assert_eq!(told(&mut modules), [(7, 0, Some(1)), (7, 0, None), (8, 0, None)]);
    }

    #[test]
    fn cat_05_in_a_watch_an_id_that_has_gone_is_described_again_from_the_next_collection_on() {
        let mut modules = ModuleIds::of_watch();
        modules.enumerates();
        modules.is(7, Some(1));
        modules.forget(&unloads(7, 4), 6);
        assert!(!modules.wants(7), "it was enumerated before it went");
        modules.enumerates();
        assert!(modules.wants(7));
        modules.is(7, Some(2));
        // The notice is told again until unloads were let go, and says nothing of the successor.
        modules.forget(&unloads(7, 4), 6);
        assert_eq!(told(&mut modules), [(7, 0, Some(1)), (7, 5, None), (7, 5, Some(2))]);
        // One that came and went without having been enumerated.
        modules.forget(&unloads(9, 6), 8);
        modules.enumerates();
        modules.is(9, Some(3));
        assert_eq!(told(&mut modules), [(9, 7, None), (9, 7, Some(3))]);
    }

    #[test]
    fn cat_05_cat_09_where_anything_may_have_gone_it_is_enumerated_again_before_anything_is_asked() {
        let mut modules = ModuleIds::of_watch();
        modules.enumerates();
        modules.is(7, Some(1));
        modules.forget(&[Unload::Anything], 6);
        assert!(!modules.wants(7) && !modules.wants(8));
        modules.enumerates();
        assert!(modules.wants(7) && modules.wants(8));
        modules.is(7, Some(1));
        modules.is(8, Some(2));
        modules.tell(|_| false);
        // What was met under these ids until then may have been anybody's; and what found no room is told again.
        assert_eq!(told(&mut modules), [(7, 0, Some(1)), (7, 0, None), (7, 7, Some(1)), (8, 7, Some(2))]);
    }
}
