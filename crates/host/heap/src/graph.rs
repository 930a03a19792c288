//! The object graph: references by index, in address order.

use crate::completeness::Completeness;
use crate::object_ix::ObjectIx;
use crate::order::gathered;
use crate::root::{Root, RootKind};
use crate::types::{Type, TypeFacts, TypeIx};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// All objects of a heap and their references at one instant, in arrays; these have one item per object unless noted.
#[derive(Debug, Clone)]
pub struct HeapGraph {
    pub(crate) addresses: Vec<u64>,
    pub(crate) type_of: Vec<u32>,
    pub(crate) sizes: Sizes,
    /// Start of its references; one more entry for the end.
    pub(crate) first: Vec<u32>,
    /// One item per reference: its target.
    pub(crate) edges: Vec<u32>,
    pub(crate) types: Vec<Type>,
    /// Those whose name another assembly has, too.
    pub(crate) ambiguous: HashSet<usize>,
    /// One item per type.
    pub(crate) facts: Vec<TypeFacts>,
    pub(crate) roots: Vec<Root>,
    /// Details of some roots.
    pub(crate) notes: BTreeMap<(u32, RootKind), String>,
    pub(crate) completeness: Completeness,
}

impl HeapGraph {
    /// Number of objects.
    pub fn object_count(&self) -> usize {
        self.addresses.len()
    }

    /// Number of references.
    pub fn reference_count(&self) -> usize {
        self.edges.len()
    }

    /// All objects, in address order.
    pub fn objects(&self) -> impl DoubleEndedIterator<Item = ObjectIx> + ExactSizeIterator + use<> {
        (0..self.object_count() as u32).map(ObjectIx)
    }

    /// An object's address.
    pub fn address(&self, object: ObjectIx) -> u64 {
        self.addresses[object.0 as usize]
    }

    /// The object that begins at `address`.
    pub fn object_at(&self, address: u64) -> Option<ObjectIx> {
        self.addresses.binary_search(&address).ok().map(|index| ObjectIx(index as u32))
    }

    /// The object whose bytes contain `address`.
    pub fn object_around(&self, address: u64) -> Option<ObjectIx> {
        let behind = self.addresses.partition_point(|begin| *begin <= address);
        let object = ObjectIx(behind.checked_sub(1)? as u32);
        (address - self.address(object) < self.bytes(object)).then_some(object)
    }

    /// An object's size.
    pub fn bytes(&self, object: ObjectIx) -> u64 {
        self.sizes.at(object.0)
    }

    /// The index of an object's type.
    pub fn type_ix(&self, object: ObjectIx) -> TypeIx {
        TypeIx(self.type_of[object.0 as usize])
    }

    /// An object's type.
    pub fn type_of(&self, object: ObjectIx) -> &Type {
        self.type_at(self.type_ix(object))
    }

    /// The type at an index.
    pub fn type_at(&self, index: TypeIx) -> &Type {
        &self.types[index.0 as usize]
    }

    /// The name of a type for people: with its assembly (`App.Node, Orders`) where a type of another assembly has that name.
    pub fn shown_type(&self, index: TypeIx) -> Cow<'_, str> {
        let known = self.type_at(index);
        match self.ambiguous.contains(&(index.0 as usize)) {
            true => Cow::Owned(format!("{}, {}", known.name, known.assembly)),
            false => Cow::Borrowed(&known.name),
        }
    }

    /// The same of an object's type.
    pub fn shown_type_of(&self, object: ObjectIx) -> Cow<'_, str> {
        self.shown_type(self.type_ix(object))
    }

    /// A type's structure.
    pub fn facts(&self, index: TypeIx) -> &TypeFacts {
        &self.facts[index.0 as usize]
    }

    /// All types, in index order; some may have no object.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The targets of an object's references, one item per reference, in input order.
    pub fn references(&self, object: ObjectIx) -> impl ExactSizeIterator<Item = ObjectIx> + '_ {
        self.targets(object.0).iter().copied().map(ObjectIx)
    }

    /// All roots, in input order; inferred ones last.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// The kinds of roots that hold an object.
    pub fn roots_of(&self, object: ObjectIx) -> impl Iterator<Item = RootKind> {
        self.roots.iter().filter(move |root| root.object == object).map(|root| root.kind)
    }

    /// The kind of the first root that holds an object.
    pub fn root_of(&self, object: ObjectIx) -> Option<RootKind> {
        self.roots_of(object).next()
    }

    /// Details of an object's roots of this kind: `MyApp.Worker.Run()`.
    pub fn root_note(&self, object: ObjectIx, kind: RootKind) -> Option<&str> {
        self.notes.get(&(object.0, kind)).map(String::as_str)
    }

    /// All details of roots, by object.
    pub fn root_notes(&self) -> impl Iterator<Item = (ObjectIx, RootKind, &str)> {
        self.notes.iter().map(|((object, kind), note)| (ObjectIx(*object), *kind, note.as_str()))
    }

    /// Sets the details of an object's roots of this kind.
    pub fn note_root(&mut self, object: ObjectIx, kind: RootKind, note: String) {
        self.notes.insert((object.0, kind), note);
    }

    /// The completeness account of the graph.
    pub fn completeness(&self) -> &Completeness {
        &self.completeness
    }

    /// Adds roots behind the others.
    pub(crate) fn add_roots(&mut self, roots: impl Iterator<Item = Root>) {
        self.roots.extend(roots);
    }

    /// The targets of an object's references, as numbers.
    #[inline]
    pub(crate) fn targets(&self, object: u32) -> &[u32] {
        let (begin, end) = self.target_range(object);
        &self.edges[begin as usize..end as usize]
    }

    /// Their range in [`HeapGraph::edges`].
    #[inline]
    pub(crate) fn target_range(&self, object: u32) -> (u32, u32) {
        (self.first[object as usize], self.first[object as usize + 1])
    }

    pub(crate) fn edges(&self) -> &[u32] {
        &self.edges
    }
}

/// Object sizes: 32 bits suffice for nearly all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sizes {
    small: Vec<u32>,
    /// The larger sizes by object, ascending.
    large: Vec<(u32, u64)>,
}

/// Marks a size stored among the large ones.
const LARGE: u32 = u32::MAX;

impl Sizes {
    pub(crate) fn push(&mut self, bytes: u64) {
        match u32::try_from(bytes) {
            Ok(small) if small != LARGE => self.small.push(small),
            _ => {
                self.large.push((self.small.len() as u32, bytes));
                self.small.push(LARGE);
            }
        }
    }

    #[inline]
    pub(crate) fn at(&self, object: u32) -> u64 {
        match self.small[object as usize] {
            LARGE => self.large_at(object),
            small => u64::from(small),
        }
    }

    /// The sizes of the objects at `places`, in that order.
    pub(crate) fn gathered(&self, places: &[u32]) -> Sizes {
        let small = gathered(&self.small, places);
        let large = places.iter().enumerate().filter(|(_, place)| self.small[**place as usize] == LARGE);
        let large = large.map(|(new, place)| (new as u32, self.large_at(*place))).collect();
        Sizes { small, large }
    }

    #[cold]
    fn large_at(&self, object: u32) -> u64 {
        // Every object marked large is in the table.
        self.large.binary_search_by_key(&object, |entry| entry.0).map_or(0, |place| self.large[place].1)
    }
}
