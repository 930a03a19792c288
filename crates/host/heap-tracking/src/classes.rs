//! One number for each class, whichever stream tells of it.

use remora_wire::heap::ClassFacts;
use std::collections::HashMap;

/// The classes of a watch. An id that comes to mean another class, since its module was unloaded, is another class from then on.
#[derive(Debug, Clone, Default)]
pub struct Classes {
    all: Vec<(u64, ClassFacts)>,
    by_id: HashMap<u64, u32>,
}

impl Classes {
    /// The number of a class, and whether it is a new one.
    pub fn number(&mut self, id: u64, facts: ClassFacts) -> u32 {
        if let Some(number) = self.by_id.get(&id).copied()
            && self.all.get(number as usize).is_some_and(|(_, known)| *known == facts)
        {
            return number;
        }
        // Bounded by what the two streams can tell.
        let number = self.all.len() as u32;
        self.all.push((id, facts));
        self.by_id.insert(id, number);
        number
    }

    /// All of them, by their numbers: ids, and what they mean.
    pub fn all(&self) -> &[(u64, ClassFacts)] {
        &self.all
    }
}
