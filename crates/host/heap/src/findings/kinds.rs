//! What types are, as far as findings ask: found out once for each type, so that objects need no names.

use super::values::FieldValues;
use crate::graph::{HeapGraph, ObjectIx};
use crate::root::RootKind;
use crate::types::{ArrayFacts, Place, TypeFlags, TypeIx};
use std::collections::BTreeSet;

/// No type derives from more others: what seems to goes round in a circle.
const DEEPEST: usize = 256;

/// Where the elements of an array begin, and the head that is counted to it: its class, its length, its own head
/// (`vm/object.h`, ArrayBase).
const ARRAY_HEAD: u64 = 24;
/// For each dimension of an array of several: where it begins and how long it is.
const DIMENSION: u64 = 8;
/// Arrays in which the runtime keeps static fields.
const STATICS: &str = "System.Object[]";
/// A reference.
pub(super) const REFERENCE: u64 = 8;

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds<'a> {
    graph: &'a HeapGraph,
    /// For each type.
    arrays: &'a [Option<ArrayFacts>],
}

/// What arrays hold, for each type: also the size of values, where somebody else knows it.
pub(super) fn arrays(graph: &HeapGraph, values: &dyn FieldValues) -> Vec<Option<ArrayFacts>> {
    let known = |index: u32| {
        let facts = graph.facts(TypeIx(index)).array?;
        match facts.place {
            Place::Value(None) => Some(ArrayFacts { place: Place::Value(values.place_bytes(TypeIx(index))), ..facts }),
            _ => Some(facts),
        }
    };
    (0..graph.types().len() as u32).map(known).collect()
}

impl<'a> Kinds<'a> {
    /// Those of a graph.
    pub(super) fn of(graph: &'a HeapGraph, arrays: &'a [Option<ArrayFacts>]) -> Kinds<'a> {
        Kinds { graph, arrays }
    }

    /// Something for each type.
    pub(super) fn each<T>(self, of: impl FnMut(TypeIx) -> T) -> Vec<T> {
        (0..self.graph.types().len() as u32).map(TypeIx).map(of).collect()
    }

    /// A type, what it derives from, and so on.
    pub(super) fn line(self, of: TypeIx) -> impl Iterator<Item = TypeIx> + 'a {
        let (graph, types) = (self.graph, self.graph.types().len());
        let known = move |index: &TypeIx| (index.0 as usize) < types;
        std::iter::successors(Some(of), move |at| graph.facts(*at).base.filter(known)).take(DEEPEST)
    }

    /// Whether a type is one, or derives from one, of this name in the runtime's own library.
    pub(super) fn derives_from(self, of: TypeIx, name: &str) -> bool {
        self.line(of).any(|at| self.is_of_runtime(at, name))
    }

    /// Whether it is this type of the runtime's own library.
    pub(super) fn is_of_runtime(self, at: TypeIx, name: &str) -> bool {
        let known = self.graph.type_at(at);
        known.assembly == CORE && known.name == name
    }

    /// Whether objects of a type are called by references: `None` where that is not known.
    pub(super) fn is_reference(self, of: TypeIx) -> Option<bool> {
        if self.graph.facts(of).array.is_some() {
            return Some(true);
        }
        let last = self.line(of).last()?;
        if !self.is_of_runtime(last, "System.Object") {
            return None;
        }
        Some(!self.derives_from(of, "System.ValueType"))
    }

    /// The argument of a type at a place.
    pub(super) fn argument(self, of: TypeIx, place: usize) -> Option<TypeIx> {
        let argument = self.graph.facts(of).arguments.get(place).copied()?;
        ((argument.0 as usize) < self.graph.types().len()).then_some(argument)
    }

    /// The arrays in which the runtime keeps static fields: it holds them itself, and no object refers to them. There are few; a program's own
    /// array of this type that a local or a handle alone holds looks alike, but one that a known static field holds is none.
    pub(super) fn statics(self) -> impl Iterator<Item = ObjectIx> + 'a {
        let graph = self.graph;
        let mut held: BTreeSet<ObjectIx> = graph.roots().iter().map(|root| root.object).collect();
        for root in graph.roots().iter().filter(|root| root.kind == RootKind::Static) {
            held.remove(&root.object);
        }
        held.into_iter().filter(move |object| self.is_of_runtime(graph.type_ix(*object), STATICS))
    }

    /// What an array has places for; `None` for what is none.
    pub(super) fn places(self, array: ObjectIx) -> Option<Places> {
        let ArrayFacts { place, rank, .. } = self.arrays[self.graph.type_ix(array).0 as usize]?;
        let head = ARRAY_HEAD + if rank > 1 { u64::from(rank) * DIMENSION } else { 0 };
        let bytes = self.graph.bytes(array).checked_sub(head)?;
        Some(Places { bytes, place })
    }
}

/// The part of an array behind its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// How large it is.
    pub(super) bytes: u64,
    /// What is in each.
    pub(super) place: Place,
}

impl Places {
    /// How many there are, if that can be told.
    pub(super) fn count(self) -> Option<u64> {
        Some(self.bytes / self.each()?)
    }

    /// Bytes of one.
    pub(super) fn each(self) -> Option<u64> {
        match self.place {
            Place::Reference => Some(REFERENCE),
            Place::Value(bytes) => bytes.map(u64::from).filter(|bytes| *bytes > 0),
        }
    }
}

/// The name of a definition: without type arguments.
pub(super) fn bare(name: &str) -> String {
    let (mut bare, mut depth) = (String::with_capacity(name.len()), 0_u32);
    let mut before = '.';
    for letter in name.chars() {
        match letter {
            // What the compiler made begins with it, and is no argument: `<>c`.
            '<' if depth > 0 || before != '.' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
        before = letter;
    }
    bare
}

/// Whether objects of a type have a finalizer.
pub(super) fn is_finalizable(flags: TypeFlags) -> bool {
    flags.contains(TypeFlags::FINALIZABLE)
}

/// Whether a name is that of a class that the compiler made for lambdas: `App.Shop.<>c`, or with what they captured
/// `App.Shop.<>c__DisplayClass3_0`. If so, the class that they were written in.
pub(super) fn written_in(name: &str) -> Option<&str> {
    name.find(".<>c").map(|end| &name[..end])
}

/// Whether it is one whose lambdas captured nothing: its only object is kept for good.
pub(super) fn captures_nothing(name: &str) -> bool {
    name.find(".<>c").is_some_and(|at| !name[at..].starts_with(".<>c__DisplayClass"))
}

/// The assembly of the runtime's own types, the same from 3.1 to 10.
pub(super) const CORE: &str = "System.Private.CoreLib";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_no_arguments_and_what_the_compiler_made_keeps_its_name() {
        for (name, expected) in [
            ("System.EventHandler", "System.EventHandler"),
            ("System.EventHandler<Args<int, string>>", "System.EventHandler"),
            ("A.Outer<int>.Inner<string>[]", "A.Outer.Inner[]"),
            ("A.<>c__DisplayClass1_0<int>", "A.<>c__DisplayClass1_0"),
            ("<Module>", "<Module>"),
            ("a>b<c", "a>b"),
        ] {
            assert_eq!(bare(name), expected);
        }
    }

    #[test]
    fn classes_for_lambdas_are_told_by_their_names() {
        for (name, within, nothing) in [
            ("App.Shop.<>c", Some("App.Shop"), true),
            ("App.Shop<int>.<>c<int>", Some("App.Shop<int>"), true),
            ("App.Shop.<>c__DisplayClass3_0", Some("App.Shop"), false),
            ("App.Shop", None, false),
        ] {
            assert_eq!((written_in(name), captures_nothing(name)), (within, nothing), "{name}");
        }
    }
}
