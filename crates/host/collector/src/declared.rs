//! What the metadata says of a snapshot's classes beyond their names: finalizers, events.

use crate::heap::Classes;
use remora_symbols::DeclaredEvent;
use remora_wire::heap::ClassFacts;

/// No class derives from more: a chain that is longer goes round in a circle.
const DEEPEST: usize = 256;

impl Classes {
    /// Whether objects of a class have a finalizer: its own, or one of what it derives from. That of `System.Object`, which derives from
    /// nothing, does nothing, and is none.
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
            at = at.and_then(|class| self.meanings.named_by(class, parent));
        }
        false
    }

    /// The events that a class declares itself.
    pub fn events(&mut self, class: u32) -> Vec<DeclaredEvent> {
        let defined = self.names().definition(class);
        defined.map(|(image, token)| image.declared_events(token)).unwrap_or_default()
    }
}
