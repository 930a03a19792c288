//! Counts objects, births and deaths of each class during heap tracking.

use crate::collection::Collection;
use crate::known::Known;

/// Minimum size of a large object, bytes (source: gcconfig.h, GCLOHThreshold), unless the application sets another threshold.
const LARGE: u64 = 85_000;

/// Deaths by the number of GCs that the object survived. Objects of the first snapshot may have survived more before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ages {
    /// None: born and dead by its first GC. Without large and pinned objects, whose allocations nobody counts.
    pub none: u64,
    /// One GC.
    pub one: u64,
    /// Two to five GCs.
    pub some: u64,
    /// More GCs.
    pub more: u64,
}

impl Ages {
    fn add(&mut self, survived: u32) {
        *(match survived {
            0 => &mut self.none,
            1 => &mut self.one,
            2..=5 => &mut self.some,
            _ => &mut self.more,
        }) += 1;
    }
}

/// The counts of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Objects at the first snapshot.
    pub objects_at_start: u64,
    /// Their bytes.
    pub bytes_at_start: u64,
    /// Objects known now.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects allocated, as the runtime counts them at each GC: it does not count large and pinned ones.
    pub allocated: u64,
    /// Objects born: found by a GC after the first snapshot.
    pub born: u64,
    /// Large ones among these, which the runtime does not count as allocated.
    pub born_large: u64,
    /// Deaths among the objects born.
    pub born_died: u64,
    /// Deaths among the objects of the first snapshot.
    pub start_died: u64,
    /// Ages at death of the objects born.
    pub ages: Ages,
}

impl Tally {
    /// Adds the counts of another class.
    pub fn add(&mut self, other: &Tally) {
        for (sum, one) in [
            (&mut self.objects_at_start, other.objects_at_start),
            (&mut self.bytes_at_start, other.bytes_at_start),
            (&mut self.objects, other.objects),
            (&mut self.bytes, other.bytes),
            (&mut self.allocated, other.allocated),
            (&mut self.born, other.born),
            (&mut self.born_large, other.born_large),
            (&mut self.born_died, other.born_died),
            (&mut self.start_died, other.start_died),
            (&mut self.ages.none, other.ages.none),
            (&mut self.ages.one, other.ages.one),
            (&mut self.ages.some, other.ages.some),
            (&mut self.ages.more, other.ages.more),
        ] {
            *sum = sum.saturating_add(one);
        }
    }
}

/// Counts and times of GCs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collections {
    /// Counts by their oldest generation.
    pub by_generation: [u64; 3],
    /// Time of all GCs, nanoseconds.
    pub time: u64,
    /// The part of that time caused by heap tracking, nanoseconds.
    pub extra: u64,
}

impl Collections {
    /// Number of GCs.
    pub fn count(&self) -> u64 {
        self.by_generation.iter().sum()
    }

    pub(crate) fn add(&mut self, collection: &Collection) {
        if let Some(count) = self.by_generation.get_mut(usize::from(collection.generation)) {
            *count += 1;
        }
        self.time = self.time.saturating_add(collection.time());
        self.extra = self.extra.saturating_add(collection.time_for_watch());
    }
}

/// The counts of all classes.
#[derive(Debug, Clone, Default)]
pub struct Account {
    tallies: Vec<Tally>,
    /// By class, the known young objects at the start of the current GC.
    known_young: Vec<u64>,
}

impl Account {
    /// Counts by class number.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Adds an object of the first snapshot.
    pub(crate) fn starts_with(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects_at_start += 1;
        tally.bytes_at_start = tally.bytes_at_start.saturating_add(known.bytes);
    }

    /// Adds an object to the current ones.
    pub(crate) fn is_there(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects += 1;
        tally.bytes = tally.bytes.saturating_add(known.bytes);
    }

    /// Resets the current objects of all classes.
    pub(crate) fn forget_all(&mut self) {
        self.tallies.iter_mut().for_each(|tally| (tally.objects, tally.bytes) = (0, 0));
    }

    pub(crate) fn was_young(&mut self, class: u32) {
        *slot(&mut self.known_young, class) += 1;
    }

    /// Adds the runtime's counts of objects in the youngest generation. Objects that the previous GC left in it are not new.
    pub(crate) fn allocated(&mut self, counts: &[(u32, u64)]) {
        for (class, count) in counts {
            let known = std::mem::take(slot(&mut self.known_young, *class));
            let tally = self.of(*class);
            tally.allocated = tally.allocated.saturating_add(count.saturating_sub(known));
        }
        self.known_young.iter_mut().for_each(|known| *known = 0);
    }

    pub(crate) fn born(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.born += 1;
        tally.born_large += u64::from(known.bytes >= LARGE);
        self.is_there(known);
    }

    pub(crate) fn died(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects = tally.objects.saturating_sub(1);
        tally.bytes = tally.bytes.saturating_sub(known.bytes);
        if known.is_of_the_start {
            tally.start_died += 1;
        } else {
            tally.born_died += 1;
            tally.ages.add(known.survived);
        }
    }

    /// Objects allocated but never found died before their first GC had ended. Large objects are excluded: the number of their
    /// allocations is unknown. The same holds for objects on the pinned heap, but nothing distinguishes these.
    pub(crate) fn close(&mut self) {
        self.tallies.iter_mut().for_each(|tally| {
            tally.ages.none = tally.allocated.saturating_sub(tally.born - tally.born_large);
        });
    }

    fn of(&mut self, class: u32) -> &mut Tally {
        slot(&mut self.tallies, class)
    }
}

fn slot<T: Default + Clone>(slots: &mut Vec<T>, class: u32) -> &mut T {
    let at = class as usize;
    if slots.len() <= at {
        slots.resize(at + 1, T::default());
    }
    &mut slots[at]
}
