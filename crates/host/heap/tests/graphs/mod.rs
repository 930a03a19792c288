//! Seeded small graphs, and the plainest code that answers questions about them.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop")]

use remora_heap::{Builder, HeapGraph, Object, ObjectIx, RootKind, Type, TypeFlags, TypeIx};

/// Where the first object of a small graph is.
const BASE: u64 = 0x7f3a_0000_0010;

/// A generator (xorshift64*), for tests only.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    /// A graph of up to `most` objects: sparse or dense, with cycles, references to itself and twice, several roots or none.
    pub fn plain(&mut self, most: usize) -> Plain {
        let count = self.below(most + 1);
        let mut plain = Plain { types: 4, ..Plain::default() };
        let density = 1 + self.below(4);
        for _ in 0..count {
            plain.types_of.push(self.below(plain.types) as u32);
            plain.bytes.push(self.below(100) as u64);
            plain.references.push((0..self.below(2 * density)).map(|_| self.below(count)).collect());
        }
        if count > 0 {
            plain.roots = (0..self.below(4)).map(|_| self.below(count)).collect();
        }
        plain
    }
}

/// A graph by index, as naively as can be.
#[derive(Debug, Clone, Default)]
pub struct Plain {
    pub types: usize,
    pub types_of: Vec<u32>,
    pub bytes: Vec<u64>,
    pub references: Vec<Vec<usize>>,
    pub roots: Vec<usize>,
}

impl Plain {
    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    pub fn address(&self, object: usize) -> u64 {
        BASE + 24 * object as u64
    }

    /// A builder that has the types, whose assemblies are two.
    pub fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        for index in 0..self.types {
            let (name, assembly) = (format!("N.T{index}"), format!("A{}", index % 2));
            builder.add_type(Type { name, assembly, flags: TypeFlags::default() }).unwrap();
        }
        builder
    }

    pub fn add(&self, builder: &mut Builder, object: usize) {
        let type_ix = TypeIx(self.types_of[object]);
        let described = Object { address: self.address(object), type_ix, bytes: self.bytes[object] };
        let references = self.references[object].iter().map(|&target| self.address(target));
        builder.add_object(described, references).unwrap();
    }

    pub fn graph(&self) -> HeapGraph {
        let mut builder = self.builder();
        (0..self.count()).for_each(|object| self.add(&mut builder, object));
        for &root in &self.roots {
            builder.add_root(self.address(root), RootKind::Static).unwrap();
        }
        builder.finish().unwrap()
    }

    /// What `starts` reach if `without` were not there.
    pub fn reach(&self, starts: &[usize], without: Option<usize>) -> Vec<bool> {
        let mut reached = vec![false; self.count()];
        let mut waiting = starts.to_vec();
        while let Some(object) = waiting.pop() {
            if Some(object) != without && !std::mem::replace(&mut reached[object], true) {
                waiting.extend(&self.references[object]);
            }
        }
        reached
    }

    /// An object for each source component of those that are not `held`: the lowest of its component.
    pub fn sources(&self, held: &[bool]) -> Vec<usize> {
        let from: Vec<Vec<bool>> = (0..self.count()).map(|object| self.reach(&[object], None)).collect();
        let all = || (0..self.count()).filter(|&object| !held[object]);
        let is_source = |object: usize| all().all(|other| !from[other][object] || from[object][other]);
        let is_lowest =
            |object: usize| all().all(|other| !(from[other][object] && from[object][other]) || object <= other);
        all().filter(|&object| is_source(object) && is_lowest(object)).collect()
    }

    /// For each object those that dominate it, itself included, and whether a root reaches it. What no root reaches is held by its sources.
    pub fn dominators(&self) -> Vec<(Vec<usize>, bool)> {
        let living = self.reach(&self.roots, None);
        let sources = self.sources(&living);
        let starts = |alive: bool| if alive { &self.roots } else { &sources };
        let without: Vec<[Vec<bool>; 2]> = (0..self.count())
            .map(|object| [false, true].map(|alive| self.reach(starts(alive), Some(object))))
            .collect();
        let dominates = |upper: usize, lower: usize| {
            living[upper] == living[lower] && !without[upper][usize::from(living[lower])][lower]
        };
        let of = |lower: usize| (0..self.count()).filter(|&upper| dominates(upper, lower)).collect();
        (0..self.count()).map(|lower| (of(lower), living[lower])).collect()
    }
}

/// For each object that a root reaches its immediate dominator, if that is an object: by going round until nothing changes
/// (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm"). Quick enough for graphs of some hundred thousand objects.
pub fn immediate_dominators(plain: &Plain) -> Vec<Option<Option<usize>>> {
    let root = plain.count();
    let targets = |object: usize| if object == root { &plain.roots } else { &plain.references[object] };
    let mut finished = Vec::new();
    let mut seen = vec![false; root + 1];
    let mut open = vec![(root, 0)];
    seen[root] = true;
    while let Some((object, next)) = open.last_mut() {
        if let Some(&target) = targets(*object).get(*next) {
            *next += 1;
            if !std::mem::replace(&mut seen[target], true) {
                open.push((target, 0));
            }
        } else {
            finished.push(*object);
            open.pop();
        }
    }
    let mut rank = vec![usize::MAX; root + 1];
    finished.iter().enumerate().for_each(|(place, &object)| rank[object] = place);
    let mut sources = vec![Vec::new(); root + 1];
    for &source in &finished {
        targets(source).iter().for_each(|&target| sources[target].push(source));
    }
    let mut immediate = vec![None; root + 1];
    immediate[root] = Some(root);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &object in finished.iter().rev().skip(1) {
            let known = sources[object].iter().copied().filter(|&source| immediate[source].is_some());
            let met = known.reduce(|mut one, mut other| {
                while one != other {
                    let lower = if rank[one] < rank[other] { &mut one } else { &mut other };
                    *lower = immediate[*lower].unwrap();
                }
                one
            });
            changed |= immediate[object] != met;
            immediate[object] = met;
        }
    }
    immediate.truncate(root);
    immediate.into_iter().map(|found| found.map(|above| (above != root).then_some(above))).collect()
}

/// A list of `count` objects, each of which refers to the next and to what `more` says.
pub fn chain(count: usize, more: impl Fn(usize) -> Vec<usize>) -> HeapGraph {
    let plain = Plain::default();
    let mut builder = plain.builder();
    for object in 0..count {
        let next = Some(object + 1).filter(|&next| next < count);
        let references = next.into_iter().chain(more(object)).map(|target| plain.address(target));
        let described = Object { address: plain.address(object), type_ix: TypeIx(0), bytes: 24 };
        builder.add_object(described, references.collect::<Vec<_>>()).unwrap();
    }
    builder.add_root(plain.address(0), RootKind::Handle).unwrap();
    builder.finish().unwrap()
}

/// Numbers of objects.
pub fn numbers(objects: impl IntoIterator<Item = ObjectIx>) -> Vec<usize> {
    objects.into_iter().map(|object| object.0 as usize).collect()
}
