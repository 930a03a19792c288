//! A module's rows and heaps as everyone reads them. They are built again only after the module has grown: a profiler may walk a large
//! table cell by cell.

use super::super::State;
use super::super::code::ModuleId;
use super::heaps::Heaps;
use super::rows::Rows;
use std::sync::{Arc, Mutex};

/// What decides about a module's rows: everything else in them stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    framework: Option<ModuleId>,
    methods: u32,
    defined: u32,
}

/// The rows as of the last reading, and the heaps, which only grow.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Built {
    rows: Option<(Extent, Arc<Rows>)>,
    heaps: Arc<Mutex<Heaps>>,
}

impl State {
    /// A module's current rows. All that they refer to is in the heaps, so that no offset depends on who asks for what first.
    pub(super) fn rows_of(&mut self, module: ModuleId) -> Option<Arc<Rows>> {
        let framework = self.code.framework();
        let known = self.code.modules.get(&module)?;
        let extent = Extent { framework, methods: known.methods, defined: known.defined };
        let built = self.metadata.entry(module).or_default();
        if let Some((_, rows)) = built.rows.as_ref().filter(|(built, _)| *built == extent) {
            return Some(rows.clone());
        }
        let rows = Arc::new(Rows::of(self, module)?);
        let built = self.metadata.entry(module).or_default();
        built.heaps.lock().expect("no panic while locked").fill(&rows);
        built.rows = Some((extent, rows.clone()));
        Some(rows)
    }

    /// A module's heaps. Who keeps them may read them after the module is gone.
    pub(super) fn heaps_of(&mut self, module: ModuleId) -> Arc<Mutex<Heaps>> {
        match self.code.modules.contains_key(&module) {
            true => self.metadata.entry(module).or_default().heaps.clone(),
            false => Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::code::Module;
    use super::*;

    #[test]
    fn rows_are_built_once_until_the_module_grows_or_refers_to_a_framework() {
        const MODULE: ModuleId = ModuleId(2);
        let mut state = State::default();
        state.code.modules.insert(MODULE, Module { collectible: true, ..Module::default() });
        let grow: [fn(&mut State); 3] = [
            |state| state.code.modules.values_mut().for_each(|known| known.methods += 1),
            |state| state.code.modules.values_mut().for_each(|known| known.defined += 1),
            |state| _ = state.code.modules.insert(ModuleId(1), Module::default()),
        ];
        let read = |state: &mut State| state.rows_of(MODULE).expect("the module is loaded");
        for grow in grow {
            let [first, second] = [(); 2].map(|()| read(&mut state));
            assert!(Arc::ptr_eq(&first, &second));
            grow(&mut state);
            assert!(!Arc::ptr_eq(&first, &read(&mut state)));
        }
    }
}
