//! Properties of types that findings need, computed once for each type so that objects need no names.

use super::values::FieldValues;
use crate::graph::HeapGraph;
use crate::object_ix::ObjectIx;
use crate::root::RootKind;
use crate::types::{ArrayFacts, Place, TypeFlags, TypeIx};
use std::collections::BTreeSet;

/// No type has more base types: a longer chain is a cycle.
const DEEPEST: usize = 256;

/// Bytes of an array besides its elements: class pointer, length and object header (`vm/object.h`, ArrayBase).
const ARRAY_HEAD: u64 = 24;
/// For each dimension of a multidimensional array: lower bound and length.
const DIMENSION: u64 = 8;
/// The runtime keeps static fields in arrays of this type.
const STATICS: &str = "System.Object[]";
/// Size of a reference.
pub(super) const REFERENCE: u64 = 8;

/// Properties of types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds<'a> {
    graph: &'a HeapGraph,
    /// For each type.
    arrays: &'a [Option<ArrayFacts>],
}

/// The array facts of each type, with the size of values where `values` has it.
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
    /// The kinds of a graph.
    pub(super) fn of(graph: &'a HeapGraph, arrays: &'a [Option<ArrayFacts>]) -> Kinds<'a> {
        Kinds { graph, arrays }
    }

    /// Computes an item for each type.
    pub(super) fn each<T>(self, of: impl FnMut(TypeIx) -> T) -> Vec<T> {
        (0..self.graph.types().len() as u32).map(TypeIx).map(of).collect()
    }

    /// A type and its base types.
    pub(super) fn line(self, of: TypeIx) -> impl Iterator<Item = TypeIx> + 'a {
        let (graph, types) = (self.graph, self.graph.types().len());
        let known = move |index: &TypeIx| (index.0 as usize) < types;
        std::iter::successors(Some(of), move |at| graph.facts(*at).base.filter(known)).take(DEEPEST)
    }

    /// Whether a type is, or derives from, this type of the core library.
    pub(super) fn derives_from(self, of: TypeIx, name: &str) -> bool {
        self.line(of).any(|at| self.is_of_runtime(at, name))
    }

    /// Whether it is this type of the core library.
    pub(super) fn is_of_runtime(self, at: TypeIx, name: &str) -> bool {
        let known = self.graph.type_at(at);
        known.assembly == CORE && known.name == name
    }

    /// Whether a type is a reference type; `None` if unknown.
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

    /// The type argument at `place`.
    pub(super) fn argument(self, of: TypeIx, place: usize) -> Option<TypeIx> {
        let argument = self.graph.facts(of).arguments.get(place).copied()?;
        ((argument.0 as usize) < self.graph.types().len()).then_some(argument)
    }

    /// The arrays in which the runtime keeps static fields: the runtime holds them, and no object refers to them. There are few.
    /// An application's array of this type looks alike if only a local or a handle holds it. An array in a known static field does not
    /// count.
    pub(super) fn statics(self) -> impl Iterator<Item = ObjectIx> + 'a {
        let graph = self.graph;
        let mut held: BTreeSet<ObjectIx> = graph.roots().iter().map(|root| root.object).collect();
        for root in graph.roots().iter().filter(|root| root.kind == RootKind::Static) {
            held.remove(&root.object);
        }
        held.into_iter().filter(move |object| self.is_of_runtime(graph.type_ix(*object), STATICS))
    }

    /// The slots of an array; `None` for other objects.
    pub(super) fn places(self, array: ObjectIx) -> Option<Places> {
        let ArrayFacts { place, rank, .. } = self.arrays[self.graph.type_ix(array).0 as usize]?;
        let head = ARRAY_HEAD + if rank > 1 { u64::from(rank) * DIMENSION } else { 0 };
        let bytes = self.graph.bytes(array).checked_sub(head)?;
        Some(Places { bytes, place })
    }
}

/// The part of an array after its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// Its size.
    pub(super) bytes: u64,
    /// The kind of its slots.
    pub(super) place: Place,
}

impl Places {
    /// Number of slots, if known.
    pub(super) fn count(self) -> Option<u64> {
        Some(self.bytes / self.each()?)
    }

    /// Size of one slot.
    pub(super) fn each(self) -> Option<u64> {
        match self.place {
            Place::Reference => Some(REFERENCE),
            Place::Value(bytes) => bytes.map(u64::from).filter(|bytes| *bytes > 0),
        }
    }
}

/// The name of a definition, without type arguments.
pub(super) fn bare(name: &str) -> String {
    let (mut bare, mut depth) = (String::with_capacity(name.len()), 0_u32);
    let mut before = '.';
    for letter in name.chars() {
        match letter {
            // This starts a compiler-generated name, not an argument: `<>c`.
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

/// The class with the lambda, if `name` is a class the compiler made for lambdas: `App.Shop.<>c`, or with captures
/// `App.Shop.<>c__DisplayClass3_0`.
pub(super) fn written_in(name: &str) -> Option<&str> {
    name.find(".<>c").map(|end| &name[..end])
}

/// Whether its lambdas captured nothing: a static field keeps its only object.
pub(super) fn captures_nothing(name: &str) -> bool {
    name.find(".<>c").is_some_and(|at| !name[at..].starts_with(".<>c__DisplayClass"))
}

/// The core library, the same from 3.1 to 10.
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
    fn classes_for_lambdas_are_recognized_by_their_names() {
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
