//! Heap tracking: applies snapshots and GCs in their real order, whichever arrives first.

use crate::account::{Account, Collections};
use crate::cache::{Applied, Difference, ObjectCache};
use crate::classes::Classes;
use crate::collection::{Collection, Gathering, Received};
use crate::snapshot::Snapshot;
use remora_heap_stream::watch::WatchPiece;
use remora_heap_stream::{Foreign, Malformed};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Maximum time for the GCs that waited for a snapshot. Each of the whole heap walks all objects.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(10);
/// Maximum time for one GC. Those of heaps of 100 million objects take some seconds.
const LONGEST_APPLY: Duration = Duration::from_secs(10);
/// Maximum size of the GCs that wait for a snapshot ([`Collection::size`]). Beyond it the mirror is stale.
const MOST_WAITING: usize = 1 << 24;

/// Result of the comparison of a snapshot with the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The first snapshot.
    First,
    /// Events were lost: the snapshot replaces the mirror without a comparison.
    Stale,
    /// The differences.
    With(Difference),
}

/// Whether this process is short of memory: applying a GC then ends, and the mirror is stale.
#[derive(Default)]
struct Shortage(Option<Box<dyn Fn() -> bool + Send>>);

impl std::fmt::Debug for Shortage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shortage")
    }
}

/// Heap tracking of one process.
#[derive(Debug, Default)]
pub struct Watch {
    shortage: Shortage,
    gathering: Gathering,
    classes: Classes,
    /// From the agent's class numbers to those of [`Classes`].
    numbers: HashMap<u32, u32>,
    cache: Option<ObjectCache>,
    is_stale: bool,
    is_stale_behind: bool,
    /// Number of times the mirror became stale.
    stales: u64,
    snapshot: Snapshot,
    /// Whether a GC ended with a fork whose snapshot has not arrived yet. Later GCs wait in `waiting`.
    is_awaiting: bool,
    waiting: VecDeque<Collection>,
    waiting_size: usize,
    account: Account,
    collections: Collections,
    longest_extra: u64,
    sum: Applied,
    is_complete: bool,
    is_over: bool,
}

impl Watch {
    /// A watch that applies a GC only as long as this process is not short of memory.
    pub fn guarded(is_short_of_memory: impl Fn() -> bool + Send + 'static) -> Watch {
        Watch { shortage: Shortage(Some(Box::new(is_short_of_memory))), ..Watch::default() }
    }

    /// Adds the next piece of the agent's GC reports.
    ///
    /// # Errors
    /// The piece is malformed; the mirror is stale.
    pub fn piece(&mut self, bytes: Foreign<&[u8]>) -> Result<(), Malformed> {
        let piece = WatchPiece::decode(bytes).inspect_err(|_| self.stale())?;
        match self.gathering.take(piece) {
            Received::Nothing => {}
            Received::Hole => self.stale(),
            Received::Class { number, id, facts } => {
                let class = self.classes.number(id, facts);
                self.numbers.insert(number, class);
            }
            Received::Collection(collection) => {
                self.longest_extra = self.longest_extra.max(collection.time_for_watch());
                let collection = self.renumbered(*collection);
                self.collection(collection);
            }
        }
        Ok(())
    }

    /// The next bytes of a snapshot's stream.
    pub fn stream(&mut self, bytes: Foreign<&[u8]>) {
        self.snapshot.push(bytes, &mut self.classes);
    }

    /// Compares the snapshot with the mirror, once its stream has ended. All pieces from before it must have arrived. Call [`Watch::go_on`]
    /// or [`Watch::end`] next.
    ///
    /// `None` means that the snapshot is unusable and another one is needed: the end of its GC was lost, or it is the first one and
    /// incomplete.
    pub fn snapshot(&mut self) -> Option<Compared> {
        let snapshot = std::mem::take(&mut self.snapshot);
        if !self.is_awaiting {
            return None;
        }
        let (truth, is_complete) = snapshot.finish();
        self.is_complete = is_complete;
        self.is_awaiting = false;
        let compared = match &self.cache {
            // A mirror of a part of the heap would contradict every GC.
            None if !is_complete => return None,
            None => Compared::First,
            Some(_) if self.is_stale => Compared::Stale,
            Some(cache) => Compared::With(cache.difference(&truth)),
        };
        match compared {
            Compared::First => self.begin(truth),
            Compared::Stale => self.begin_anew(truth, is_complete),
            // Keep the mirror: a snapshot has no ages.
            Compared::With(_) => {}
        }
        Some(compared)
    }

    /// Continues after a snapshot, except the last: applies the GCs that waited for it.
    pub fn go_on(&mut self) {
        self.is_stale |= std::mem::take(&mut self.is_stale_behind);
        let begun = Instant::now();
        self.catch_up(|| begun.elapsed() > LONGEST_CATCH_UP);
    }

    /// Applies the GCs that waited. Once it `is_late`, the mirror is stale, and the others only say whether a snapshot follows.
    fn catch_up(&mut self, is_late: impl Fn() -> bool) {
        self.waiting_size = 0;
        for collection in std::mem::take(&mut self.waiting) {
            if is_late() {
                self.stale();
            }
            self.collection(collection);
        }
    }

    /// Stops after the last snapshot: ignores later GCs.
    pub fn end(&mut self) {
        self.is_over = true;
        self.waiting.clear();
    }

    /// Whether events were lost since the last snapshot: another one is needed.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Number of times that events were lost.
    pub fn stales(&self) -> u64 {
        self.stales
    }

    /// Whether the last snapshot was complete.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Every known object; `None` before the first snapshot.
    pub fn cache(&self) -> Option<&ObjectCache> {
        self.cache.as_ref()
    }

    /// The classes, by number.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The counts of each class.
    pub fn account(&mut self) -> &Account {
        self.account.close();
        &self.account
    }

    /// The GCs since the first snapshot.
    pub fn collections(&self) -> &Collections {
        &self.collections
    }

    /// Maximum extra time of a GC, nanoseconds. Includes GCs with lost pieces and those of snapshots.
    pub fn longest_extra(&self) -> u64 {
        self.longest_extra
    }

    /// The sum of all GCs.
    pub fn sum(&self) -> &Applied {
        &self.sum
    }

    /// Converts class numbers to those of [`Classes`].
    fn renumbered(&self, mut collection: Collection) -> Collection {
        let mut unknown = 0;
        let mut number = |class: u32| {
            let known = self.numbers.get(&class).copied();
            unknown += u64::from(known.is_none());
            known.unwrap_or(class)
        };
        collection.born.iter_mut().for_each(|born| born.class = number(born.class));
        collection.allocated.iter_mut().for_each(|(class, _)| *class = number(*class));
        if unknown > 0 {
            // The piece that describes the class was lost.
            collection.lost = collection.lost.saturating_add(unknown);
            collection.born.clear();
            collection.allocated.clear();
        }
        collection
    }

    fn collection(&mut self, collection: Collection) {
        if self.is_over {
            return;
        }
        if self.is_awaiting {
            self.waiting_size = self.waiting_size.saturating_add(collection.size());
            if self.waiting_size > MOST_WAITING {
                self.stale();
                return;
            }
            return self.waiting.push_back(collection);
        }
        self.happened(&collection);
        self.is_awaiting = collection.is_copied;
    }

    fn happened(&mut self, collection: &Collection) {
        let Some(cache) = &mut self.cache else { return };
        self.collections.add(collection);
        if collection.lost > 0 {
            return self.stale();
        }
        if self.is_stale {
            return;
        }
        let begun = Instant::now();
        let is_short = || self.shortage.0.as_ref().is_some_and(|is_short| is_short());
        let is_too_much = || begun.elapsed() > LONGEST_APPLY || is_short();
        let Some(applied) = cache.apply(collection, &mut self.account, &is_too_much) else {
            *cache = ObjectCache::default();
            self.account.forget_all();
            return self.stale();
        };
        self.account.allocated(&collection.allocated);
        let sum = &mut self.sum;
        for (sum, one) in [
            (&mut sum.survived, applied.survived),
            (&mut sum.moved, applied.moved),
            (&mut sum.died, applied.died),
            (&mut sum.born, applied.born),
            (&mut sum.contradictions, applied.contradictions),
            (&mut sum.unexplained, applied.unexplained),
        ] {
            *sum = sum.saturating_add(one);
        }
    }

    /// Marks the mirror as stale. A pending snapshot does not repair losses after its own GC.
    fn stale(&mut self) {
        if self.is_over {
            return;
        }
        let place = if self.is_awaiting { &mut self.is_stale_behind } else { &mut self.is_stale };
        let counts = (self.cache.is_some() || self.is_awaiting) && !*place;
        *place |= counts;
        self.stales += u64::from(counts);
    }

    fn begin(&mut self, mut truth: ObjectCache) {
        truth.is_of_the_start();
        for (_, known) in truth.iter() {
            self.account.starts_with(&known);
            self.account.is_there(&known);
        }
        self.cache = Some(truth);
        // Losses before the first snapshot do not matter to it.
        self.is_stale = false;
    }

    /// An incomplete snapshot leaves the mirror stale.
    fn begin_anew(&mut self, truth: ObjectCache, is_complete: bool) {
        self.account.forget_all();
        truth.iter().for_each(|(_, known)| self.account.is_there(&known));
        self.cache = Some(truth);
        self.is_stale = !is_complete;
        self.stales += u64::from(!is_complete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_heap_stream::watch::BornObject;

    #[test]
    fn collections_that_waited_too_long_make_the_mirror_stale_and_a_snapshot_behind_them_is_still_awaited() {
        for is_late in [false, true] {
            let mut watch = Watch { cache: Some(ObjectCache::default()), ..Watch::default() };
            watch.waiting.extend([false, true].map(|is_copied| Collection { is_copied, ..Collection::default() }));
            watch.catch_up(|| is_late);
            assert_eq!((watch.is_stale(), watch.is_awaiting), (is_late, true));
        }
    }

    #[test]
    fn a_collection_that_takes_too_much_memory_makes_the_mirror_stale_and_is_forgotten() {
        for is_short in [false, true] {
            let mut watch = Watch { cache: Some(ObjectCache::default()), ..Watch::guarded(move || is_short) };
            let born = |number: u64| BornObject { address: number << 20, class: 0, bytes: 24 };
            let collection = Collection { born: (1..40_000).map(born).collect(), ..Collection::default() };
            watch.collection(collection);
            let objects = watch.cache().map(|cache| (cache.count(), cache.iter().count()));
            let expected = if is_short { (0, 0) } else { (39_999, 39_999) };
            assert_eq!((watch.is_stale(), objects), (is_short, Some(expected)));
            assert!(watch.account().tallies().iter().all(|tally| tally.objects == expected.0));
        }
    }
}
