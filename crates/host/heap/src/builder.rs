//! Builds a graph of indexes from objects with addresses, as a heap walk finds them.

use crate::completeness::Completeness;
use crate::error::Error;
use crate::graph::{HeapGraph, Sizes};
use crate::limits::{ADDRESSES, Limits};
use crate::lookup::Lookup;
use crate::object_ix::ObjectIx;
use crate::order::{ascending, gathered};
use crate::root::{Root, RootKind};
use crate::types::{Type, TypeFacts, TypeFlags, TypeIx, ambiguous};
use crate::workers;
use std::collections::BTreeMap;

/// A reference that leads to no object of the graph.
const ABSENT: u32 = u32::MAX;
/// The type name of objects with an unknown type.
const UNKNOWN_TYPE: &str = "[unknown type]";

/// One object of the heap walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its first byte.
    pub address: u64,
    /// Its type, from [`Builder::add_type`]; the type may be added after the object.
    pub type_ix: TypeIx,
    /// Its size in the heap.
    pub bytes: u64,
}

/// Builds a graph. Objects may come in any order; ranges of ascending addresses, in ascending order, cost the least.
#[derive(Debug, Default)]
pub struct Builder {
    limits: Limits,
    addresses: Vec<u64>,
    type_of: Vec<u32>,
    sizes: Sizes,
    /// Start of each object's references; the last object's end with the array.
    first: Vec<u32>,
    /// Addresses of referenced objects: the lower 32 bits, replaced by indexes in place, and the 16 bits above.
    low: Vec<u32>,
    high: Vec<u16>,
    types: Vec<Type>,
    facts: Vec<(TypeIx, TypeFacts)>,
    roots: Vec<(u64, RootKind)>,
    /// Size of all objects together.
    bytes: u64,
    completeness: Completeness,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A builder for untrusted input: it refuses more than `limits`.
    pub fn with_limits(limits: Limits) -> Builder {
        Builder { limits, ..Builder::default() }
    }

    /// Adds a type.
    pub fn add_type(&mut self, new: Type) -> Result<TypeIx, Error> {
        let index = room(self.types.len(), "types", self.limits.types)?;
        self.types.push(new);
        Ok(TypeIx(index))
    }

    /// Describes a type, at any time. The last description wins.
    pub fn describe_type(&mut self, index: TypeIx, facts: TypeFacts) -> Result<(), Error> {
        room(self.facts.len(), "types", self.limits.types)?;
        self.facts.push((index, facts));
        Ok(())
    }

    /// Adds an object and the addresses it refers to, one for each reference.
    ///
    /// Null references are counted and omitted. The referenced objects may be added later; two references to one object stay two.
    /// An object with an invalid or a repeated address is counted and omitted.
    pub fn add_object(&mut self, object: Object, references: impl IntoIterator<Item = u64>) -> Result<(), Error> {
        if object.address == 0 || object.address >= ADDRESSES {
            self.completeness.objects_refused += 1;
            return Ok(());
        }
        room(self.addresses.len(), "objects", self.limits.objects)?;
        self.bytes = self.bytes.saturating_add(object.bytes);
        if self.bytes > self.limits.bytes {
            return Err(Error::TooMany { what: "bytes", limit: self.limits.bytes });
        }
        let begin = self.low.len();
        for address in references {
            self.add_reference(address)?;
        }
        // The limit was checked above.
        self.first.push(begin as u32);
        self.sizes.push(object.bytes);
        self.addresses.push(object.address);
        self.type_of.push(object.type_ix.0);
        Ok(())
    }

    /// Adds a root: something of this kind holds the object at `address`.
    pub fn add_root(&mut self, address: u64, kind: RootKind) -> Result<(), Error> {
        room(self.roots.len(), "roots", self.limits.roots)?;
        self.roots.push((address, kind));
        Ok(())
    }

    /// The completeness account, where the walker adds losses that the graph cannot know.
    pub fn completeness_mut(&mut self) -> &mut Completeness {
        &mut self.completeness
    }

    /// Builds the graph.
    pub fn finish(mut self) -> Result<HeapGraph, Error> {
        self.name_unknown_types()?;
        let places = ascending(&self.addresses);
        if let Some(places) = &places {
            self.completeness.objects_refused += (self.addresses.len() - places.len()) as u64;
            self.addresses = gathered(&self.addresses, places);
            self.type_of = gathered(&self.type_of, places);
            self.sizes = self.sizes.gathered(places);
        }
        let lookup = Lookup::new(&self.addresses);
        resolve(&mut self.low, &std::mem::take(&mut self.high), &lookup);
        let roots = resolve_roots(&self.roots, &lookup);
        // Static values may arrive after the objects.
        let not_static = |kind: &RootKind| *kind != RootKind::Static;
        let added = self.roots.iter().filter(|(_, kind)| not_static(kind)).count();
        let found = roots.iter().filter(|root| not_static(&root.kind)).count();
        self.completeness.roots_dangling += (added - found) as u64;
        drop(lookup);
        self.completeness.references_dangling += match &places {
            Some(places) => self.gather_references(places),
            None => self.close_gaps(),
        };
        Ok(HeapGraph {
            addresses: shrunk(self.addresses),
            type_of: shrunk(self.type_of),
            sizes: self.sizes,
            first: shrunk(self.first),
            edges: shrunk(self.low),
            facts: described(self.types.len(), self.facts),
            ambiguous: ambiguous(self.types.iter().map(|of| (&*of.name, &*of.assembly))),
            types: self.types,
            roots,
            notes: BTreeMap::new(),
            completeness: self.completeness,
        })
    }

    fn add_reference(&mut self, address: u64) -> Result<(), Error> {
        match address {
            0 => self.completeness.references_null += 1,
            ADDRESSES.. => self.completeness.references_dangling += 1,
            _ => {
                room(self.low.len(), "references", self.limits.references)?;
                self.low.push(address as u32);
                self.high.push((address >> 32) as u16);
            }
        }
        Ok(())
    }

    fn name_unknown_types(&mut self) -> Result<(), Error> {
        let known = self.types.len() as u32;
        let unknown = self.type_of.iter().filter(|&&index| index >= known).count();
        if unknown > 0 {
            let flags = TypeFlags::default();
            self.add_type(Type { name: UNKNOWN_TYPE.to_owned(), assembly: String::new(), flags })?;
            self.type_of.iter_mut().for_each(|index| *index = (*index).min(known));
            self.completeness.types_unknown += unknown as u64;
        }
        Ok(())
    }

    /// Sorts references by the objects at `places`. Returns how many had no target and were omitted.
    fn gather_references(&mut self, places: &[u32]) -> u64 {
        let mut edges = Vec::with_capacity(self.low.len());
        let mut first = Vec::with_capacity(places.len() + 1);
        let mut absent = 0;
        self.first.push(self.low.len() as u32);
        for &place in places {
            first.push(edges.len() as u32);
            let own = &self.low[self.first[place as usize] as usize..self.first[place as usize + 1] as usize];
            let before = edges.len();
            edges.extend(own.iter().copied().filter(|&target| target != ABSENT));
            absent += own.len() - (edges.len() - before);
        }
        first.push(edges.len() as u32);
        (self.low, self.first) = (edges, first);
        absent as u64
    }

    /// Removes absent references in place; returns their number.
    fn close_gaps(&mut self) -> u64 {
        let before = self.low.len();
        self.first.push(before as u32);
        if !self.low.contains(&ABSENT) {
            return 0;
        }
        let mut kept = 0;
        for object in 0..self.addresses.len() {
            let own = self.first[object] as usize..self.first[object + 1] as usize;
            self.first[object] = kept as u32;
            for at in own {
                self.low[kept] = self.low[at];
                kept += usize::from(self.low[kept] != ABSENT);
            }
        }
        self.low.truncate(kept);
        self.first[self.addresses.len()] = kept as u32;
        (before - kept) as u64
    }
}

/// The next index after `length`, unless that exceeds the limit.
fn room(length: usize, what: &'static str, limit: u32) -> Result<u32, Error> {
    if length >= limit as usize { Err(Error::TooMany { what, limit: limit.into() }) } else { Ok(length as u32) }
}

/// Replaces the lower half of each address by the index of its object.
fn resolve(low: &mut [u32], high: &[u16], lookup: &Lookup) {
    let part = low.len().div_ceil(workers::parts(low.len())).max(1);
    workers::each(low.chunks_mut(part).zip(high.chunks(part)), |(low, high)| {
        for (low, high) in low.iter_mut().zip(high) {
            *low = lookup.find(u64::from(*high) << 32 | u64::from(*low)).unwrap_or(ABSENT);
        }
    });
}

fn resolve_roots(roots: &[(u64, RootKind)], lookup: &Lookup) -> Vec<Root> {
    let found =
        roots.iter().filter_map(|&(address, kind)| Some(Root { object: ObjectIx(lookup.find(address)?), kind }));
    found.collect()
}

/// The facts of each type.
fn described(types: usize, known: Vec<(TypeIx, TypeFacts)>) -> Vec<TypeFacts> {
    let mut facts = vec![TypeFacts::default(); types];
    for (index, known) in known {
        if let Some(place) = facts.get_mut(index.0 as usize) {
            *place = known;
        }
    }
    facts
}

fn shrunk<T>(mut items: Vec<T>) -> Vec<T> {
    items.shrink_to_fit();
    items
}
