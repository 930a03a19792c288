//! A watch: snapshots and collections, in the order in which they were, whichever arrives first.

use crate::account::{Account, Collections};
use crate::cache::{Applied, Difference, ObjectCache};
use crate::classes::Classes;
use crate::collection::{Collection, Gathering, Heard};
use crate::picture::Picture;
use remora_wire::Malformed;
use remora_wire::watch::WatchPiece;
use std::collections::{HashMap, VecDeque};

/// Collections that wait for a snapshot, at most, by their ranges and newborn objects: beyond it the picture is stale.
const MOST_WAITING: usize = 1 << 24;

/// What a snapshot was found to say of the picture that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It is the first one.
    First,
    /// Something had been lost: it takes the place of the picture, and nothing is compared.
    Stale,
    /// What is not the same.
    With(Difference),
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Watch {
    gathering: Gathering,
    classes: Classes,
    /// What the agent's numbers of classes mean.
    numbers: HashMap<u32, u32>,
    cache: Option<ObjectCache>,
    is_stale: bool,
    is_stale_behind: bool,
    /// How often something was lost.
    stales: u64,
    picture: Picture,
    /// A collection at whose end a copy was made, of which the snapshot has not arrived yet; and the collections behind it.
    is_awaiting: bool,
    waiting: VecDeque<Collection>,
    waiting_size: usize,
    account: Account,
    collections: Collections,
    dearest: u64,
    sum: Applied,
    is_complete: bool,
    is_over: bool,
}

impl Watch {
    /// The next piece of what the agent tells of collections.
    ///
    /// # Errors
    /// It is none; the picture is stale.
    pub fn piece(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let piece = WatchPiece::decode(bytes).inspect_err(|_| self.stale())?;
        match self.gathering.take(piece) {
            Heard::Nothing => {}
            Heard::Hole => self.stale(),
            Heard::Class { number, id, facts } => {
                let class = self.classes.number(id, facts);
                self.numbers.insert(number, class);
            }
            Heard::Collection(collection) => {
                self.dearest = self.dearest.max(collection.time_for_watch());
                let collection = self.renumbered(*collection);
                self.collection(collection);
            }
        }
        Ok(())
    }

    /// The next bytes of a snapshot's stream.
    pub fn stream(&mut self, bytes: &[u8]) {
        self.picture.push(bytes, &mut self.classes);
    }

    /// The snapshot has arrived, and so have all pieces that were told before it was made: what it says of the picture that was kept. `None`
    /// if the end of its collection was lost, or if it is the first and not whole: then it is of no use, and another one is wanted. [`Watch::go_on`] or [`Watch::end`] comes next.
    pub fn snapshot(&mut self) -> Option<Compared> {
        let picture = std::mem::take(&mut self.picture);
        if !self.is_awaiting {
            return None;
        }
        let (truth, is_complete) = picture.finish();
        self.is_complete = is_complete;
        self.is_awaiting = false;
        let compared = match &self.cache {
            // A picture of a part would be found otherwise by every collection.
            None if !is_complete => return None,
            None => Compared::First,
            Some(_) if self.is_stale => Compared::Stale,
            Some(cache) => Compared::With(cache.difference(&truth)),
        };
        match compared {
            Compared::First => self.begin(truth),
            Compared::Stale => self.begin_anew(truth, is_complete),
            // Ages are not in a snapshot.
            Compared::With(_) => {}
        }
        Some(compared)
    }

    /// The snapshot before was not the last one: what was told meanwhile comes behind it.
    pub fn go_on(&mut self) {
        self.is_stale |= std::mem::take(&mut self.is_stale_behind);
        self.waiting_size = 0;
        for collection in std::mem::take(&mut self.waiting) {
            self.collection(collection);
        }
    }

    /// It was: whatever comes later is of no interest.
    pub fn end(&mut self) {
        self.is_over = true;
        self.waiting.clear();
    }

    /// Whether something was lost since the last snapshot: another one is wanted.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// How often something was lost.
    pub fn stales(&self) -> u64 {
        self.stales
    }

    /// Whether the last snapshot has told everything.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Every object that is known, once there has been a snapshot.
    pub fn cache(&self) -> Option<&ObjectCache> {
        self.cache.as_ref()
    }

    /// The classes, by the numbers of the tallies.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// What was counted, and what became of it.
    pub fn account(&mut self) -> &Account {
        self.account.close();
        &self.account
    }

    /// The collections since the first snapshot.
    pub fn collections(&self) -> &Collections {
        &self.collections
    }

    /// By how much the watch has prolonged a collection at most, nanoseconds: of all that were heard, also of those of which something was
    /// lost, and of those of snapshots.
    pub fn dearest(&self) -> u64 {
        self.dearest
    }

    /// All collections together.
    pub fn sum(&self) -> &Applied {
        &self.sum
    }

    /// With classes as they are numbered here.
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
            // The piece that says what they are was lost.
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
            self.waiting_size += collection.lives.len() + collection.born.len();
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
        let applied = cache.apply(collection, &mut self.account);
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

    /// Something is missing. What is missing behind the collection of a snapshot that has not arrived yet, that snapshot does not make good.
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
        // What was lost before it is no loss to it.
        self.is_stale = false;
    }

    /// A picture of a part is as stale as the one before.
    fn begin_anew(&mut self, truth: ObjectCache, is_complete: bool) {
        self.account.forget_all();
        truth.iter().for_each(|(_, known)| self.account.is_there(&known));
        self.cache = Some(truth);
        self.is_stale = !is_complete;
        self.stales += u64::from(!is_complete);
    }
}
