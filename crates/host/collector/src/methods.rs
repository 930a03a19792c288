//! Names of the methods whose locals hold objects of a heap.
//!
//! The agent describes them like those of samples. It numbers their types differently from the classes of the forked copy: so they have
//! [`Names`] of their own.

use crate::files::Files;
use crate::names::Names;
use crate::naming_budget::NamingBudget;
use remora_wire::Message;
use std::collections::BTreeMap;

/// The methods, and the files to resolve them with.
#[derive(Default)]
pub(crate) struct Methods {
    files: Files,
    /// Created with the first description: most snapshots have none.
    names: Option<Names>,
    modules: Vec<Message>,
    by_id: BTreeMap<u64, u32>,
}

impl Methods {
    /// Resolves names with these files.
    pub(crate) fn new(files: Files) -> Methods {
        Methods { files, ..Methods::default() }
    }

    pub(crate) fn message(&mut self, message: Message) {
        match message {
            Message::Module { .. } if self.names.is_none() => self.modules.push(message),
            Message::Module { index, path, mvid } => self.names().module(index, path, mvid),
            Message::Type { index, kind } => self.names().type_(index, kind),
            Message::Method { index, kind } => self.names().method(index, kind),
            Message::FunctionId { id, method } => _ = self.by_id.insert(id, method),
            _ => {}
        }
    }

    /// FunctionIDs and names.
    pub(crate) fn named(&mut self, budget: &mut NamingBudget) -> Vec<(u64, String)> {
        let all = std::mem::take(&mut self.by_id).into_iter().take_while(|_| budget.is_left());
        all.filter_map(|(id, method)| Some((id, self.names().method_name(method)?))).collect()
    }

    fn names(&mut self) -> &mut Names {
        let (files, modules) = (&self.files, &mut self.modules);
        self.names.get_or_insert_with(|| {
            let mut files = files.for_another();
            files.refresh_maps();
            let mut names = Names::new(files);
            for module in modules.drain(..) {
                if let Message::Module { index, path, mvid } = module {
                    names.module(index, path, mvid);
                }
            }
            names
        })
    }
}
