//! Type structure: the stream describes classes by their ids; this maps ids to type indexes.

use remora_heap::layout::SlotKind;
use remora_heap::{ArrayFacts, Builder, Error, Event, Place, TypeFacts, TypeIx};
use remora_heap_stream::ClassFacts;
use std::collections::HashMap;

/// The classes of a stream, and the events from type rows.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    classes: Vec<ClassFacts>,
    /// For each type, in row order.
    events: Vec<Vec<(String, String)>>,
    by_id: HashMap<u64, TypeIx>,
}

impl Lineage {
    /// The next class of the stream.
    pub(crate) fn class(&mut self, id: u64, facts: ClassFacts) {
        self.by_id.insert(id, TypeIx(self.classes.len() as u32));
        self.classes.push(facts);
    }

    /// The events of the next type.
    pub(crate) fn declares(&mut self, events: Vec<(String, String)>) {
        self.events.push(events);
    }

    /// Passes all known facts to `builder`. A class may refer to classes that appear later, or never.
    pub(crate) fn describe(&mut self, builder: &mut Builder) -> Result<(), Error> {
        let mut events = std::mem::take(&mut self.events).into_iter();
        for (index, class) in self.classes.iter().enumerate() {
            let mut facts = self.facts(class);
            let declared = events.next().unwrap_or_default().into_iter();
            facts.events = declared.map(|(name, delegate)| Event { name, delegate }).collect();
            builder.describe_type(TypeIx(index as u32), facts)?;
        }
        Ok(())
    }

    fn facts(&self, class: &ClassFacts) -> TypeFacts {
        // 0 means none, or an element without a class.
        let known = |id: &u64| self.by_id.get(id).copied().filter(|_| *id != 0);
        match class {
            ClassFacts::Unknown { .. } => TypeFacts::default(),
            ClassFacts::Plain { parent, arguments, .. } => TypeFacts {
                base: known(parent),
                // All or none: positions matter.
                arguments: arguments.iter().map(known).collect::<Option<_>>().unwrap_or_default(),
                ..TypeFacts::default()
            },
            ClassFacts::Array { element, element_kind, rank } => {
                let array = ArrayFacts { element: known(element), place: place(*element_kind), rank: *rank };
                TypeFacts { array: Some(array), ..TypeFacts::default() }
            }
        }
    }
}

/// The kind of an array's elements by `CorElementType`; for an enum the runtime reports its underlying type.
fn place(element_kind: u32) -> Place {
    match element_kind {
        // An array of any rank, and a generic parameter, which in shared code represents a class.
        0x13 | 0x14 => Place::Reference,
        // A function pointer.
        0x1b => Place::Value(Some(8)),
        kind => match u8::try_from(kind).map(SlotKind) {
            Ok(kind) if kind.is_reference() => Place::Reference,
            Ok(kind) => Place::Value(kind.bytes()),
            Err(_) => Place::Value(None),
        },
    }
}
