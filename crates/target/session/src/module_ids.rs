//! The meanings of ModuleIDs: in a snapshot, and over the GCs of heap tracking.
//!
//! A new module may reuse the id of an unloaded one. In a snapshot such an id has no name: either module may be meant. In heap tracking the
//! GC number decides. A module's objects are gone before it unloads, and its successor's objects appear in later GCs. So each meaning of an
//! id is sent with its first GC. From the GC after the unload on, the id may belong to another module, which is described when it is
//! enumerated.
//!
//! An id disappears from the enumeration before its unload is reported (contract CAT-04; vm/loaderallocator.cpp, `GCLoaderAllocators`:
//! assemblies are removed from the domain's list first). So an id enumerated after its unload is the successor's. An unload after the
//! enumeration outranks it (CAT-07): such an id is not used again until the next enumeration.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::unload_barrier::Unload;
use remora_wire::Message;

/// The meaning of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    id: usize,
    /// The index of the module's description; `None` if the id may belong to any module.
    index: Option<u32>,
    /// The first GC with this meaning.
    since: u64,
}

/// The known ids; see the module.
#[derive(Debug, Default)]
pub(crate) struct ModuleIds {
    /// Ascending by id.
    known: Vec<Known>,
    /// Whether GCs are reported, so that an id can change its meaning.
    is_watch: bool,
    /// Before this GC, an unknown id may have belonged to any module.
    floor: u64,
    /// Unloads since the enumeration.
    gone: Vec<usize>,
    anything_is_gone: bool,
    /// Changes to send.
    changes: Vec<Known>,
    /// Whether the application domain is known.
    pub(crate) has_domain: bool,
}

impl ModuleIds {
    /// For heap tracking.
    pub(crate) fn of_watch() -> ModuleIds {
        ModuleIds { is_watch: true, ..ModuleIds::default() }
    }

    /// Begins an enumeration: it is newer than all earlier unloads.
    pub(crate) fn enumerates(&mut self) {
        self.gone.clear();
        self.anything_is_gone = false;
    }

    /// Whether to describe an enumerated id.
    pub(crate) fn wants(&self, id: usize) -> bool {
        let is_unknown = self
            .find(id)
            .is_none_or(|known| self.is_watch && known.index.is_none() && !is_injected(InjectedFault::NameModulesOnce));
        is_unknown && !self.anything_is_gone && !self.gone.contains(&id)
    }

    /// Sets the index of an id's description; `None` if the runtime failed to describe it.
    pub(crate) fn is(&mut self, id: usize, index: Option<u32>) {
        let since = self.find(id).map_or(self.floor, |known| known.since);
        self.know(Known { id, index, since });
    }

    /// Handles unloads. An id may be reused: in a snapshot before or after the fork, in heap tracking from the next GC on. `begun` GCs have
    /// started.
    pub(crate) fn forget(&mut self, unloads: &[Unload], begun: u64) {
        let unloads = if is_injected(InjectedFault::KeepUnloadedModules) { &[] } else { unloads };
        for what in unloads {
            match *what {
                Unload::Module { id, collections } => {
                    if !self.gone.contains(&id) {
                        self.gone.push(id);
                    }
                    let since = if self.is_watch { collections + 1 } else { 0 };
                    // Earlier unloads are passed again until they are released.
                    if self.find(id).is_none_or(|known| known.since < since || !self.is_watch) {
                        self.know(Known { id, index: None, since });
                    }
                }
                Unload::Function(_) => {}
                Unload::Anything => self.forget_all(begun),
            }
        }
    }

    /// Sends the changes, as far as there is room. The rest must be retried, or a new module would get its predecessor's name.
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(&Message) -> bool) {
        let released = self.changes.iter().take_while(|known| {
            tell(&Message::ModuleId { id: known.id as u64, since: known.since, index: known.index })
        });
        let released = released.count();
        self.changes.drain(..released);
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

    /// Anything may have unloaded, at an unknown time: no known meaning holds any more.
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
    use remora_holds::holds;

    fn unloads(id: usize, collections: u64) -> [Unload; 1] {
        [Unload::Module { id, collections }]
    }

    /// Everything sent: id, first GC, index.
    fn reported(modules: &mut ModuleIds) -> Vec<(u64, u64, Option<u32>)> {
        let mut reported = Vec::new();
        modules.tell(|message| match message {
            Message::ModuleId { id, since, index } => {
                reported.push((*id, *since, *index));
                true
            }
            other => panic!("{other:?}"),
        });
        reported
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
        holds!(CAT_06 rem, !modules.wants(7) && !modules.wants(8), "before the fork it was one, after it may be another");
        holds!(CAT_06 rem, reported(&mut modules) == [(7, 0, Some(1)), (7, 0, None), (8, 0, None)]);
    }

    #[test]
    fn cat_05_in_a_watch_an_id_that_has_gone_is_described_again_from_the_next_collection_on() {
        let mut modules = ModuleIds::of_watch();
        modules.enumerates();
        modules.is(7, Some(1));
        modules.forget(&unloads(7, 4), 6);
        assert!(!modules.wants(7), "it was enumerated before it went");
        modules.enumerates();
        holds!(CAT_05 rem, modules.wants(7));
        modules.is(7, Some(2));
        // The notice comes again until unloads are released, and does not concern the successor.
        modules.forget(&unloads(7, 4), 6);
        holds!(CAT_05 rem, reported(&mut modules) == [(7, 0, Some(1)), (7, 5, None), (7, 5, Some(2))]);
        // An id unloaded without having been enumerated.
        modules.forget(&unloads(9, 6), 8);
        modules.enumerates();
        modules.is(9, Some(3));
        holds!(CAT_05 rem, reported(&mut modules) == [(9, 7, None), (9, 7, Some(3))]);
    }

    #[test]
    fn cat_05_cat_09_where_anything_may_have_gone_it_is_enumerated_again_before_anything_is_asked() {
        let mut modules = ModuleIds::of_watch();
        modules.enumerates();
        modules.is(7, Some(1));
        modules.forget(&[Unload::Anything], 6);
        holds!([CAT_05 CAT_09] rem, !modules.wants(7) && !modules.wants(8));
        modules.enumerates();
        holds!([CAT_05 CAT_09] rem, modules.wants(7) && modules.wants(8));
        modules.is(7, Some(1));
        modules.is(8, Some(2));
        modules.tell(|_| false);
        // Until then these ids may have belonged to any module. Changes without room are sent again.
        holds!([CAT_05 CAT_09] rem, reported(&mut modules) == [(7, 0, Some(1)), (7, 0, None), (7, 7, Some(1)), (8, 7, Some(2))]);
    }
}
