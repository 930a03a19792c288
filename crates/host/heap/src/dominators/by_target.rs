//! All references as pairs of search numbers, in descending order of targets.
//!
//! Search numbers do not follow memory order, so one array filled by target would miss the cache at each reference.
//! Instead, each thread first puts the references of its objects into buckets by target range.
//! Then a separate thread sorts one bucket at a time, while the consumer processes the previous one.

use super::search::Search;
use crate::graph::HeapGraph;
use crate::workers;
use std::ops::{Range, RangeInclusive};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// Minimum targets of a bucket: their data fits into a core's own cache.
const BUCKET: usize = 1 << 15;
/// Maximum number of buckets: each thread writes at a place of its own in each.
const BUCKETS: usize = 1 << 9;
/// Sorted buckets that wait for the consumer.
const AHEAD: usize = 2;

/// Objects processed together by [`throw_some`].
const AT_ONCE: usize = 128;

/// The references of a range of targets, sorted.
pub(super) struct Bucket {
    /// The first target.
    pub(super) begin: u32,
    /// For each target the least source number, always an ancestor's.
    pub(super) least: Vec<u32>,
    /// For each target the end of its references from higher numbers; they begin where the previous target's end.
    ends: Vec<u32>,
    sources: Vec<u32>,
}

impl Bucket {
    /// The higher numbers that refer to the target at `place`.
    #[inline]
    pub(super) fn sources(&self, place: usize) -> &[u32] {
        self.sources_of(place..=place)
    }

    /// The higher numbers that refer to the targets at `places`.
    #[inline]
    pub(super) fn sources_of(&self, places: RangeInclusive<usize>) -> &[u32] {
        let begin = if *places.start() == 0 { 0 } else { self.ends[places.start() - 1] };
        &self.sources[begin as usize..self.ends[*places.end()] as usize]
    }
}

/// References bucketed by target: each a target and a source.
struct Thrown {
    shift: u32,
    buckets: Vec<Vec<(u32, u32)>>,
}

impl Thrown {
    fn new(count: usize) -> Thrown {
        let size = count.div_ceil(BUCKETS).max(BUCKET).next_power_of_two();
        Thrown { shift: size.ilog2(), buckets: vec![Vec::new(); count.div_ceil(size)] }
    }

    #[inline]
    fn add(&mut self, target: u32, source: u32) {
        self.buckets[(target >> self.shift) as usize].push((target, source));
    }
}

/// Gives `work` all buckets, highest targets first. Frees the search's table of object numbers on the way.
pub(super) fn for_each_bucket(graph: &HeapGraph, search: &mut Search, mut work: impl FnMut(Bucket, &[u32])) {
    let thrown = throw(graph, search);
    search.numbers = Vec::new();
    let (shift, parents) = (thrown[0].shift, search.parents.as_slice());
    let indexes = (0..thrown[0].buckets.len()).rev();
    let thrown = Mutex::new(thrown);
    let bucket = |index: usize| {
        let mut thrown = thrown.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<_> = thrown.iter_mut().map(|part| std::mem::take(&mut part.buckets[index])).collect();
        let begin = index << shift;
        let end = (begin + (1 << shift)).min(parents.len());
        in_order(begin as u32, &parents[begin..end], &parts)
    };
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(AHEAD);
        let (bucket, ahead) = (&bucket, indexes.clone());
        // The receiver ends early only by a panic, which the scope passes on.
        let made = move || ahead.map(bucket).map_while(|bucket| sender.send(bucket).ok()).for_each(drop);
        match Builder::new().spawn_scoped(scope, made) {
            Ok(_) => receiver.into_iter().for_each(|bucket| work(bucket, parents)),
            // The system has no thread left.
            Err(_) => indexes.for_each(|index| work(bucket(index), parents)),
        }
    });
}

fn throw(graph: &HeapGraph, search: &Search) -> Vec<Thrown> {
    let numbers = search.numbers.as_slice();
    let part = numbers.len().div_ceil(workers::parts(numbers.len())).max(1);
    let starts: Vec<usize> = (0..numbers.len()).step_by(part).collect();
    let mut thrown = workers::each(starts, |begin| {
        let mut thrown = Thrown::new(search.parents.len());
        let mut targets = Vec::new();
        let end = (begin + part).min(numbers.len());
        for begin in (begin..end).step_by(AT_ONCE) {
            throw_some(graph, search, begin..(begin + AT_ONCE).min(end), &mut targets, &mut thrown);
        }
        thrown
    });
    let mut of_roots = Thrown::new(search.parents.len());
    graph.roots().iter().for_each(|root| of_roots.add(numbers[root.object.0 as usize], 0));
    thrown.push(of_roots);
    thrown
}

/// Buckets the references of some objects. It loads all targets' numbers before it uses any, so that the loads overlap.
fn throw_some(graph: &HeapGraph, search: &Search, objects: Range<usize>, targets: &mut Vec<u32>, thrown: &mut Thrown) {
    let (begin, _) = graph.target_range(objects.start as u32);
    let (_, end) = graph.target_range(objects.end as u32 - 1);
    let edges = &graph.edges()[begin as usize..end as usize];
    targets.clear();
    targets.extend(edges.iter().map(|&target| search.numbers[target as usize]));
    for object in objects {
        let source = search.numbers[object];
        let (own, end) = graph.target_range(object as u32);
        for &target in &targets[(own - begin) as usize..(end - begin) as usize] {
            if matters(source, target, search.unreached) {
                thrown.add(target, source);
            }
        }
    }
}

/// Whether a reference can affect dominators. One to the object itself cannot, nor one to the object that the search numbered next: its
/// child.
/// References from unreached objects to reached ones cannot either.
fn matters(source: u32, target: u32, unreached: Option<u32>) -> bool {
    let living = unreached.unwrap_or(u32::MAX);
    target != source && target != source + 1 && (source < living || target > living)
}

/// Sorts a bucket. `parents` are those of its targets.
fn in_order(begin: u32, parents: &[u32], parts: &[Vec<(u32, u32)>]) -> Bucket {
    let all = || parts.iter().flatten().map(|&(target, source)| (target, (target - begin) as usize, source));
    let (mut least, mut ends) = (parents.to_vec(), vec![0; parents.len()]);
    for (target, place, source) in all() {
        if source < target {
            least[place] = source.min(least[place]);
        } else {
            ends[place] += 1;
        }
    }
    let mut sum = 0;
    for end in &mut ends {
        // Start of the target's references; after filling, their end.
        (*end, sum) = (sum, sum + *end);
    }
    let mut sources = vec![0; sum as usize];
    for (_, place, source) in all().filter(|&(target, _, source)| source > target) {
        sources[ends[place] as usize] = source;
        ends[place] += 1;
    }
    Bucket { begin, least, ends, sources }
}
