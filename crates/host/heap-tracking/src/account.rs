//! What a watch counts of each class.

use crate::cache::Known;
use crate::collection::Collection;

/// Objects of so many bytes and more are large ones (source: gcconfig.h, GCLOHThreshold), unless the program is set otherwise.
const LARGE: u64 = 85_000;

/// Deaths by how many collections the object had survived. What was there at the beginning may have survived more before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ages {
    /// None: it was born and had died by the first one. Large and pinned objects are not among them: nobody counts those.
    pub none: u64,
    /// One.
    pub one: u64,
    /// Two to five.
    pub some: u64,
    /// More.
    pub more: u64,
}

impl Ages {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.none.saturating_add(self.one + self.some + self.more)
    }

    fn add(&mut self, survived: u32) {
        *(match survived {
            0 => &mut self.none,
            1 => &mut self.one,
            2..=5 => &mut self.some,
            _ => &mut self.more,
        }) += 1;
    }
}

/// What is counted of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Objects at the first snapshot.
    pub objects_at_start: u64,
    /// Their bytes.
    pub bytes_at_start: u64,
    /// Objects that are known now.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were made, as the runtime counts them at each collection: without large and pinned ones, which it does not count.
    pub allocated: u64,
    /// Objects that came to be known.
    pub born: u64,
    /// Of these, large ones: they are not among those that the runtime counts as made.
    pub born_large: u64,
    /// Their bytes.
    pub born_bytes: u64,
    /// Of those, objects that have died since.
    pub born_died: u64,
    /// Of the objects of the first snapshot, those that have died.
    pub start_died: u64,
    /// Bytes of both.
    pub died_bytes: u64,
    /// How old those that were born and have died had become.
    pub ages: Ages,
}

impl Tally {
    /// Adds another class to it.
    pub fn add(&mut self, other: &Tally) {
        for (sum, one) in [
            (&mut self.objects_at_start, other.objects_at_start),
            (&mut self.bytes_at_start, other.bytes_at_start),
            (&mut self.objects, other.objects),
            (&mut self.bytes, other.bytes),
            (&mut self.allocated, other.allocated),
            (&mut self.born, other.born),
            (&mut self.born_large, other.born_large),
            (&mut self.born_bytes, other.born_bytes),
            (&mut self.born_died, other.born_died),
            (&mut self.start_died, other.start_died),
            (&mut self.died_bytes, other.died_bytes),
            (&mut self.ages.none, other.ages.none),
            (&mut self.ages.one, other.ages.one),
            (&mut self.ages.some, other.ages.some),
            (&mut self.ages.more, other.ages.more),
        ] {
            *sum = sum.saturating_add(one);
        }
    }
}

/// Collections that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collections {
    /// By their oldest generation.
    pub by_generation: [u64; 3],
    /// How long they took in all, nanoseconds.
    pub time: u64,
    /// How much of that they would not have taken without the watch.
    pub extra: u64,
}

impl Collections {
    /// How many.
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

/// The tallies of all classes.
#[derive(Debug, Clone, Default)]
pub struct Account {
    tallies: Vec<Tally>,
    /// Objects of each class that were known and young at the beginning of the collection that is being applied.
    known_young: Vec<u64>,
}

impl Account {
    /// By class.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// An object of the first snapshot.
    pub(crate) fn starts_with(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects_at_start += 1;
        tally.bytes_at_start = tally.bytes_at_start.saturating_add(known.bytes);
    }

    /// An object that is there now, whatever was thought before.
    pub(crate) fn is_there(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects += 1;
        tally.bytes = tally.bytes.saturating_add(known.bytes);
    }

    /// Nothing is known to be there.
    pub(crate) fn forget_all(&mut self) {
        self.tallies.iter_mut().for_each(|tally| (tally.objects, tally.bytes) = (0, 0));
    }

    pub(crate) fn was_young(&mut self, class: u32) {
        *slot(&mut self.known_young, class) += 1;
    }

    /// The runtime counts the objects in the youngest generation: those that stayed there at the collection before are not new.
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
        tally.born_bytes = tally.born_bytes.saturating_add(known.bytes);
        self.is_there(known);
    }

    pub(crate) fn died(&mut self, known: &Known) {
        let tally = self.of(known.class);
        tally.objects = tally.objects.saturating_sub(1);
        tally.bytes = tally.bytes.saturating_sub(known.bytes);
        tally.died_bytes = tally.died_bytes.saturating_add(known.bytes);
        if known.is_of_the_start {
            tally.start_died += 1;
        } else {
            tally.born_died += 1;
            tally.ages.add(known.survived);
        }
    }

    /// Who was made and never came to be known died before its first collection was over. Of large objects it is not known how
    /// many were made; of those on the pinned heap neither, and these are not told from others.
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
