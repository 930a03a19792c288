//! What metadata adds to the classes of a snapshot: finalizers and events.

use crate::classes::Classes;
use remora_heap_stream::ClassFacts;
use remora_symbols::DeclaredEvent;

/// No class has more base classes: a longer chain is a cycle.
const DEEPEST: usize = 256;

impl Classes {
    /// Whether objects of a class have a finalizer, declared or inherited. The one of `System.Object`, which has no base class, does
    /// nothing and does not count.
    pub fn has_finalizer(&mut self, class: u32) -> bool {
        let mut at = Some(class);
        for _ in 0..DEEPEST {
            let Some(ClassFacts::Plain { parent, .. }) = at.and_then(|class| self.facts(class)) else { return false };
            let parent = *parent;
            if parent == 0 {
                return false;
            }
            let defined = at.and_then(|class| self.names().definition(class));
            if defined.is_some_and(|(image, token)| image.declares_finalizer(token)) {
                return true;
            }
            at = at.and_then(|class| self.id_history.named_by(class, parent));
        }
        false
    }

    /// The events that a class declares itself.
    pub fn events(&mut self, class: u32) -> Vec<DeclaredEvent> {
        let defined = self.names().definition(class);
        defined.map(|(image, token)| image.declared_events(token)).unwrap_or_default()
    }
}
