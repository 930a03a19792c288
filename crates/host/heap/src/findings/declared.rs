//! The events that types declare, by the type of their delegate.

use super::kinds::Kinds;
use crate::graph::HeapGraph;
use crate::types::TypeIx;
use std::collections::{BTreeMap, HashMap};

/// Declared events. Texts are compared once each: a hostile snapshot has many events, with long names, and many references to look up.
pub(super) struct Declared<'a> {
    /// For each delegate type of an event, the number of its definition.
    definitions: BTreeMap<TypeIx, usize>,
    /// By the declaring type and the definition of the delegate.
    names: HashMap<(TypeIx, usize), Vec<&'a str>>,
    /// Whether a type has an event of this delegate type.
    known: HashMap<(TypeIx, TypeIx), bool>,
}

impl<'a> Declared<'a> {
    /// `definitions` has the name of each delegate type's definition.
    pub(super) fn of(graph: &'a HeapGraph, definitions: &BTreeMap<TypeIx, String>) -> Declared<'a> {
        let mut numbers = HashMap::<&str, usize>::new();
        let mut names = HashMap::<_, Vec<&str>>::new();
        for index in (0..graph.types().len() as u32).map(TypeIx) {
            for event in &graph.facts(index).events {
                let next = numbers.len();
                let number = *numbers.entry(&event.delegate).or_insert(next);
                names.entry((index, number)).or_default().push(&event.name);
            }
        }
        let numbered = |(index, name): (&TypeIx, &String)| Some((*index, *numbers.get(name.as_str())?));
        Declared { definitions: definitions.iter().filter_map(numbered).collect(), names, known: HashMap::new() }
    }

    /// Whether a type declares or inherits an event with this delegate type.
    pub(super) fn has(&mut self, kinds: Kinds<'_>, publisher: TypeIx, delegate: TypeIx) -> bool {
        let Some(definition) = self.definitions.get(&delegate) else { return false };
        let find = || kinds.line(publisher).any(|at| self.names.contains_key(&(at, *definition)));
        *self.known.entry((publisher, delegate)).or_insert_with(find)
    }

    /// The names of these events.
    pub(super) fn names(
        &self,
        kinds: Kinds<'a>,
        publisher: TypeIx,
        delegate: TypeIx,
    ) -> impl Iterator<Item = &'a str> + '_ {
        let definition = self.definitions.get(&delegate);
        let own = move |at| self.names.get(&(at, *definition?));
        kinds.line(publisher).filter_map(own).flatten().copied()
    }
}
