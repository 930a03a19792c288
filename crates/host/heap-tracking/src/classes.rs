//! Numbers the classes, across all streams.

use remora_heap_stream::ClassFacts;
use std::collections::HashMap;

/// The classes in heap tracking. If a module unloads and a class id is reused, the new class gets another number.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    all: Vec<(u64, ClassFacts)>,
    by_id: HashMap<u64, u32>,
}

impl Classes {
    /// The number of a class; a new one on first use.
    pub fn number(&mut self, id: u64, facts: ClassFacts) -> u32 {
        if let Some(number) = self.by_id.get(&id).copied()
            && self.all.get(number as usize).is_some_and(|(_, known)| *known == facts)
        {
            return number;
        }
        // The lengths of the two streams bound this number.
        let number = self.all.len() as u32;
        self.all.push((id, facts));
        self.by_id.insert(id, number);
        number
    }

    /// All classes by number: ids and facts.
    pub fn all(&self) -> &[(u64, ClassFacts)] {
        &self.all
    }
}
