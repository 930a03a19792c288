//! The cache against a heap that is kept object by object, without pages and ranges: random births, deaths and moves, in collections of every
//! generation. And what it makes of what does not fit together.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_heap_stream::watch::BornObject;
use remora_heap_tracking::{Account, Collection, Difference, Known, ObjectCache};
use remora_holds::holds;
use std::collections::BTreeMap;

/// Numbers that look like chance, the same for the same seed.
struct Random(u64);

impl Random {
    fn of(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Object {
    class: u32,
    bytes: u64,
    generation: u8,
    /// Collections since it is known; `None` if no report had it.
    survived: Option<u32>,
    is_of_the_start: bool,
}

/// Where generations lie: far apart, each with room for all.
const PLACES: [u64; 3] = [0x7f10_0000_0000, 0x7f20_0000_0000, 0x7f30_0000_0000];
const FROZEN: u64 = 0x7f40_0000_0000;
const SPAN: u64 = 0x10_0000_0000;

#[derive(Default)]
struct Naive {
    objects: BTreeMap<u64, Object>,
    /// Where each generation goes on.
    next: [u64; 3],
    number: u64,
    deaths: u64,
    births: u64,
}

impl Naive {
    fn place(&mut self, generation: u8, bytes: u64) -> u64 {
        let at = usize::from(generation);
        let place = PLACES[at] + self.next[at];
        self.next[at] += bytes.next_multiple_of(8);
        place
    }

    fn bear(&mut self, random: &mut Random, count: u64) {
        for _ in 0..count {
            let bytes = 24 + random.of(40) * if random.of(50) == 0 { 5000 } else { 1 };
            let address = self.place(0, bytes);
            let class = random.of(5) as u32;
            let object = Object { class, bytes, generation: 0, survived: None, is_of_the_start: false };
            self.objects.insert(address, object);
        }
    }

    /// Some die, others move up or stay; what an agent would tell of it.
    fn collect(&mut self, random: &mut Random) -> Collection {
        self.number += 1;
        let generation = random.of(3) as u8;
        let compacts = random.of(3) > 0;
        let mut collection = Collection { number: self.number, generation, ..Collection::default() };
        collection.youngest.push((PLACES[0], PLACES[0] + SPAN));
        if generation < 2 {
            collection.collected = (0..=usize::from(generation)).map(|at| (PLACES[at], PLACES[at] + SPAN)).collect();
        } else {
            collection.collected.clone_from(&collection.youngest);
        }
        let collected: Vec<(u64, Object)> =
            self.objects.iter().filter(|(_, one)| one.generation <= generation).map(|(at, one)| (*at, *one)).collect();
        let deadly = random.of(4) == 0;
        let mut last_end = 0;
        let mut allocated: BTreeMap<u32, u64> = BTreeMap::new();
        for (address, object) in collected {
            if object.generation == 0 {
                *allocated.entry(object.class).or_default() += 1;
            }
            self.objects.remove(&address);
            if deadly && random.of(2) == 0 || random.of(8) == 0 {
                self.deaths += u64::from(object.survived.is_some());
                continue;
            }
            self.lives(random, (address, object), compacts, &mut collection, &mut last_end);
        }
        collection.allocated = allocated.into_iter().collect();
        collection.lives.sort_unstable();
        collection
    }

    fn lives(
        &mut self,
        random: &mut Random,
        (address, mut object): (u64, Object),
        compacts: bool,
        collection: &mut Collection,
        last_end: &mut u64,
    ) {
        let taken = object.bytes.next_multiple_of(8);
        // Some are pinned, and stay where they are.
        let new = if compacts && random.of(20) > 0 {
            object.generation = (object.generation + 1).min(2);
            self.place(object.generation, object.bytes)
        } else {
            address
        };
        match collection.lives.last_mut() {
            Some((old, there, length))
                if *old + *length == address && *there + *length == new && *last_end == address =>
            {
                *length += taken;
            }
            _ => collection.lives.push((address, new, taken)),
        }
        *last_end = address + taken;
        if (PLACES[0]..PLACES[0] + SPAN).contains(&address) {
            collection.born.push(BornObject { address: new, class: object.class, bytes: object.bytes });
            self.births += u64::from(object.survived.is_none());
        }
        object.survived = Some(object.survived.unwrap_or(0) + 1);
        assert!(self.objects.insert(new, object).is_none(), "the model's own mistake");
    }

    /// What can be known of it.
    fn known(&self) -> Vec<(u64, Known)> {
        let of = |(address, object): (&u64, &Object)| {
            let Object { class, bytes, survived, is_of_the_start, .. } = *object;
            Some((*address, Known { class, bytes, survived: survived?, is_of_the_start }))
        };
        self.objects.iter().filter_map(of).collect()
    }
}

fn cache_of(known: &[(u64, Known)]) -> ObjectCache {
    let mut cache = ObjectCache::default();
    known.iter().for_each(|(address, known)| cache.add(*address, *known));
    cache.add_frozen(FROZEN, FROZEN + SPAN);
    assert_eq!(cache.settle(), 0);
    cache
}

#[test]
fn gch_03_gch_04_the_cache_is_what_a_heap_kept_object_by_object_is() {
    for seed in 1..200_u64 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut heap = Naive::default();
        let count = random.of(400);
        heap.bear(&mut random, count);
        for object in heap.objects.values_mut() {
            (object.survived, object.is_of_the_start) = (Some(0), true);
        }
        let frozen = Known { class: 9, bytes: 40, survived: 0, is_of_the_start: true };
        let mut start = heap.known();
        start.push((FROZEN, frozen));
        let (mut cache, mut account) = (cache_of(&start), Account::default());
        for _ in 0..12 {
            let count = random.of(200);
            heap.bear(&mut random, count);
            let mut unborn = heap.objects.iter().filter(|(_, object)| object.survived.is_none());
            holds!(GCH_04 rem, unborn.all(|(address, _)| cache.get(*address).is_none()), "seed {seed}");
            let (deaths, births) = (heap.deaths, heap.births);
            let collection = heap.collect(&mut random);
            let applied = cache.apply(&collection, &mut account, &|| false).unwrap();
            assert_eq!((applied.contradictions, applied.unexplained), (0, 0), "seed {seed}, {collection:?}");
            assert_eq!((applied.died, applied.born), (heap.deaths - deaths, heap.births - births), "seed {seed}");
            let mut truth = heap.known();
            truth.push((FROZEN, frozen));
            holds!([GCH_03 GCH_04] rem, cache.iter().collect::<Vec<_>>() == truth, "seed {seed}");
            assert_eq!(cache.count(), truth.len() as u64);
            assert!(cache.difference(&cache_of(&truth)).is_none());
        }
        let all = account.tallies().iter();
        assert_eq!(all.map(|tally| tally.born_died + tally.start_died).sum::<u64>(), heap.deaths);
    }
}

fn known(class: u32, bytes: u64) -> Known {
    Known { class, bytes, survived: 0, is_of_the_start: true }
}

#[test]
fn what_differs_is_counted_by_how_it_differs() {
    let ours = cache_of(&[(0x1000, known(1, 24)), (0x2000, known(1, 24)), (0x3000, known(1, 24))]);
    let theirs =
        cache_of(&[(0x2000, known(1, 24)), (0x3000, known(2, 24)), (0x4000, known(1, 24)), (FROZEN + 8, known(1, 24))]);
    let difference = ours.difference(&theirs);
    assert_eq!(difference, Difference { same: 1, missing: 1, unknown: 2, unknown_frozen: 1, other: 1 });
    assert!(!difference.is_none());
    assert_eq!(theirs.difference(&ours), Difference { same: 1, missing: 2, unknown: 1, unknown_frozen: 0, other: 1 });
}

#[test]
fn what_does_not_fit_together_is_counted_and_nothing_else_happens() {
    let mut cache = cache_of(&[(0x1000, known(1, 24)), (0x1018, known(1, 24))]);
    // Both are said to lie at one place now, and what is born there is another; half of what lives is nobody's.
    let collection = Collection {
        number: 1,
        generation: 2,
        lives: vec![(0x1000, 0x5000, 24), (0x1018, 0x5000, 24), (0x9000, 0x9000, 4800)],
        born: vec![BornObject { address: 0x5000, class: 7, bytes: 32 }],
        ..Collection::default()
    };
    let applied = cache.apply(&collection, &mut Account::default(), &|| false).unwrap();
    assert_eq!((applied.survived, applied.moved, applied.contradictions, applied.unexplained), (2, 2, 2, 4800));
}
