//! A watch of an agent's reports, in any order in which they may arrive: snapshots late, pieces lost, collections that began before.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_heap_stream::watch::{ALLOCATED, BEGINS, BORN, BOUNDS, CLASS, ENDS, MOVED, PieceWriter, SURVIVED};
use remora_heap_stream::{CLASS as CLASS_RECORD, END, FIRST_CLASS, PLAIN_CLASS, RANGE, written};
use remora_heap_tracking::{Compared, Difference, Known, Watch};
use remora_holds::holds;

/// ClassIDs; a snapshot numbers them in this order, a watch in the other.
const NODE: u64 = 0x70;
const PAIR: u64 = 0x71;

/// The youngest generation lies here, the oldest there.
const YOUNG: u64 = 0x10_0000;
const OLD: u64 = 0x20_0000;

fn stream(objects: &[(u64, u64)]) -> Vec<u8> {
    let mut numbers = vec![];
    for id in [NODE, PAIR] {
        numbers.extend([CLASS_RECORD, id, PLAIN_CLASS, 1, id, 0, 0]);
    }
    for (address, id) in objects {
        numbers.extend([RANGE, 2, *address, 24, FIRST_CLASS + (id - NODE), 24, 0]);
    }
    numbers.extend([END, objects.len() as u64]);
    written(&numbers)
}

fn piece(kind: u64, collection: u64, numbers: &[u64]) -> Vec<u8> {
    let mut piece = PieceWriter::new(kind, collection);
    numbers.iter().for_each(|number| piece.number(*number));
    piece.bytes().to_vec()
}

/// The reports of one GC.
struct Gc(Vec<Vec<u8>>, u64);

impl Gc {
    fn begins(collection: u64, generation: u64) -> Gc {
        let mut bounds = PieceWriter::new(BOUNDS, collection);
        bounds.bounds(0, YOUNG, 0x10_0000);
        Gc(vec![piece(BEGINS, collection, &[1000, generation, 1]), bounds.bytes().to_vec()], collection)
    }

    fn class(mut self, number: u64, id: u64) -> Gc {
        self.0.push(piece(CLASS, number, &[self.1, id, PLAIN_CLASS, 1, id, 0, 0]));
        self
    }

    fn moved(mut self, old: u64, new: u64) -> Gc {
        let mut moved = PieceWriter::new(MOVED, self.1);
        moved.range(old, new, 24);
        self.0.push(moved.bytes().to_vec());
        self
    }

    fn stays(mut self, place: u64) -> Gc {
        let mut stays = PieceWriter::new(SURVIVED, self.1);
        stays.range(place, place, 24);
        self.0.push(stays.bytes().to_vec());
        self
    }

    fn born(mut self, place: u64, class: u32) -> Gc {
        let mut born = PieceWriter::new(BORN, self.1);
        born.born_at(place);
        born.born(class, 24, 24);
        self.0.push(born.bytes().to_vec());
        self
    }

    fn allocated(mut self, class: u64, count: u64) -> Gc {
        self.0.push(piece(ALLOCATED, self.1, &[class, count]));
        self
    }

    fn ends(self, lost: u64, is_copied: u64) -> Vec<Vec<u8>> {
        self.takes(500, 200, lost, is_copied)
    }

    /// So long in all, so much of it for the watch.
    fn takes(mut self, time: u64, extra: u64, lost: u64, is_copied: u64) -> Vec<Vec<u8>> {
        self.0.push(piece(ENDS, self.1, &[1000 + time, lost, is_copied, extra]));
        self.0
    }
}

fn feed(watch: &mut Watch, pieces: Vec<Vec<u8>>) {
    pieces.iter().for_each(|piece| watch.piece(piece.into()).unwrap());
}

fn addresses(watch: &Watch) -> Vec<u64> {
    watch.cache().unwrap().iter().map(|(address, _)| address).collect()
}

/// A watch whose first snapshot, at the end of the first collection, has these objects.
fn begun(objects: &[(u64, u64)]) -> Watch {
    let mut watch = Watch::default();
    feed(&mut watch, Gc::begins(1, 2).ends(0, 1));
    watch.stream((&stream(objects)).into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    watch.go_on();
    watch
}

#[test]
fn gch_01_what_is_reported_of_a_collection_before_its_beginning_was_heard_is_ignored() {
    let mut watch = Watch::default();
    // The rest of one that was under way, and one whose end makes no copy.
    feed(&mut watch, Gc::begins(7, 2).moved(YOUNG, OLD).ends(0, 0).split_off(2));
    feed(&mut watch, Gc::begins(8, 0).stays(YOUNG).ends(0, 0));
    holds!(GCH_01 rem, watch.cache().is_none() && watch.collections().count() == 0);
    feed(&mut watch, Gc::begins(9, 2).ends(0, 1));
    watch.stream((&stream(&[(OLD, NODE)])).into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    assert_eq!((addresses(&watch), watch.stales()), (vec![OLD], 0));
}

#[test]
fn gch_03_collections_that_came_before_the_snapshot_had_arrived_are_applied_behind_it() {
    let mut watch = Watch::default();
    feed(&mut watch, Gc::begins(1, 2).ends(0, 1));
    watch.stream(stream(&[(YOUNG, NODE), (YOUNG + 24, PAIR), (OLD, NODE)])[..20].into());
    // Two collections later the rest arrives.
    feed(&mut watch, Gc::begins(2, 0).moved(YOUNG, YOUNG + 0x100).ends(0, 0));
    feed(&mut watch, Gc::begins(3, 0).moved(YOUNG + 0x100, OLD + 24).ends(0, 0));
    assert!(watch.cache().is_none());
    watch.stream(stream(&[(YOUNG, NODE), (YOUNG + 24, PAIR), (OLD, NODE)])[20..].into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    assert_eq!(addresses(&watch).len(), 3);
    watch.go_on();
    holds!(GCH_03 rem, addresses(&watch) == [OLD, OLD + 24]);
    assert_eq!(watch.cache().unwrap().get(OLD + 24).unwrap().survived, 2);
    assert_eq!(watch.collections().by_generation, [2, 0, 0]);
    assert_eq!((watch.collections().time, watch.collections().extra), (1000, 400));
}

#[test]
fn the_longest_collection_is_known_even_if_the_mirror_is_stale() {
    let mut watch = Watch::default();
    assert_eq!(watch.longest_extra(), 0);
    feed(&mut watch, Gc::begins(1, 2).takes(500, 300, 0, 1));
    assert_eq!(watch.longest_extra(), 300, "that of a snapshot which has not arrived yet");
    watch.stream((&stream(&[(OLD, NODE)])).into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    watch.go_on();
    feed(&mut watch, Gc::begins(2, 0).takes(900, 800, 5, 0));
    assert_eq!((watch.longest_extra(), watch.is_stale()), (800, true), "something of it was lost");
    feed(&mut watch, Gc::begins(3, 0).takes(850, 2000, 0, 0));
    assert_eq!(watch.longest_extra(), 850, "no more than it took");
    feed(&mut watch, Gc::begins(4, 0).takes(100, 10, 0, 0));
    assert_eq!(watch.longest_extra(), 850);
}

#[test]
fn gch_04_who_is_born_is_unknown_until_a_collection_and_counted_by_how_many_it_survives() {
    let mut watch = begun(&[(OLD, NODE)]);
    holds!(GCH_04 rem, watch.cache().unwrap().get(YOUNG).is_none());
    // A watch numbers classes otherwise than a snapshot. Of three that were made one is alive.
    let reported = Gc::begins(2, 0).class(0, PAIR).class(1, NODE).allocated(1, 3).moved(YOUNG, YOUNG + 0x100);
    feed(&mut watch, reported.born(YOUNG + 0x100, 1).ends(0, 0));
    let newborn = Known { class: 0, bytes: 24, survived: 1, is_of_the_start: false };
    holds!(GCH_04 rem, watch.cache().unwrap().get(YOUNG + 0x100) == Some(newborn));
    // It stays young, so that the runtime counts it again; then it is reported again, and dies.
    feed(&mut watch, Gc::begins(3, 0).allocated(1, 1).stays(YOUNG + 0x100).born(YOUNG + 0x100, 1).ends(0, 0));
    feed(&mut watch, Gc::begins(4, 0).allocated(1, 1).ends(0, 0));
    let tally = watch.account().tallies()[0];
    assert_eq!((tally.allocated, tally.born, tally.born_died, tally.objects), (3, 1, 1, 1));
    assert_eq!((tally.ages.none, tally.ages.one, tally.ages.some, tally.ages.more), (2, 0, 1, 0));
    assert_eq!((watch.sum().born, watch.sum().contradictions, watch.sum().unexplained), (1, 0, 0));
}

#[test]
fn gch_03_the_last_snapshot_confirms_the_mirror_or_counts_what_is_not_true() {
    let last = |objects: &[(u64, u64)]| {
        let mut watch = begun(&[(OLD, NODE), (OLD + 24, PAIR)]);
        feed(&mut watch, Gc::begins(2, 2).stays(OLD).stays(OLD + 24).ends(0, 1));
        watch.stream((&stream(objects)).into());
        let compared = watch.snapshot();
        watch.end();
        // What comes later is of no interest.
        feed(&mut watch, Gc::begins(3, 2).ends(0, 0));
        assert_eq!(addresses(&watch).len(), 2);
        compared.unwrap()
    };
    let same = Difference { same: 2, ..Difference::default() };
    holds!(GCH_03 rem, last(&[(OLD, NODE), (OLD + 24, PAIR)]) == Compared::With(same));
    let other = Difference { same: 1, other: 1, unknown: 1, ..Difference::default() };
    assert_eq!(last(&[(OLD, NODE), (OLD + 24, NODE), (OLD + 48, NODE)]), Compared::With(other));
}

#[test]
fn any_loss_makes_the_mirror_stale_until_the_next_snapshot() {
    let with = |pieces: Vec<Vec<u8>>| {
        let mut watch = begun(&[(OLD, NODE)]);
        pieces.iter().for_each(|piece| _ = watch.piece(piece.into()));
        assert!(watch.is_stale() && watch.stales() == 1, "{pieces:?}");
        // Reports meanwhile change nothing.
        let number = 20;
        feed(&mut watch, Gc::begins(number, 2).ends(0, 1));
        watch.stream((&stream(&[(OLD + 48, PAIR)])).into());
        assert_eq!(watch.snapshot(), Some(Compared::Stale));
        watch.go_on();
        assert!(!watch.is_stale());
        assert_eq!(addresses(&watch), [OLD + 48]);
        let tallies = watch.account().tallies().to_vec();
        assert_eq!((tallies[0].objects, tallies[1].objects, tallies[0].objects_at_start), (0, 1, 1));
    };
    // A piece of it; its end; its beginning; what a class is; and what is none.
    with(Gc::begins(2, 0).ends(1, 0));
    with([Gc::begins(2, 0).0, Gc::begins(3, 0).ends(0, 0)].concat());
    with([Gc::begins(2, 0).ends(0, 0).split_off(2), Gc::begins(3, 0).ends(0, 0)].concat());
    with(Gc::begins(2, 0).stays(YOUNG).born(YOUNG, 5).ends(0, 0));
    with(vec![vec![99]]);
}

#[test]
fn what_is_lost_behind_a_snapshot_that_has_not_arrived_makes_it_stale_at_once() {
    let mut watch = Watch::default();
    feed(&mut watch, Gc::begins(1, 2).ends(0, 1));
    feed(&mut watch, Gc::begins(3, 0).ends(0, 0));
    watch.stream((&stream(&[(OLD, NODE)])).into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    watch.go_on();
    assert!(watch.is_stale() && watch.stales() == 1);
    // The same behind a later snapshot, with which the mirror can still be compared.
    let mut watch = begun(&[(OLD, NODE)]);
    feed(&mut watch, Gc::begins(2, 2).stays(OLD).ends(0, 1));
    feed(&mut watch, Gc::begins(4, 2).ends(0, 0));
    watch.stream((&stream(&[(OLD, NODE)])).into());
    let same = Difference { same: 1, ..Difference::default() };
    assert_eq!(watch.snapshot(), Some(Compared::With(same)));
    watch.go_on();
    assert!(watch.is_stale() && watch.stales() == 1 && addresses(&watch) == [OLD]);
}

#[test]
fn a_snapshot_whose_collection_was_not_heard_of_is_of_no_use() {
    let mut watch = begun(&[(OLD, NODE)]);
    watch.stream((&stream(&[(OLD, PAIR)])).into());
    assert_eq!(watch.snapshot(), None);
    assert_eq!(addresses(&watch), [OLD]);
}

#[test]
fn an_incomplete_snapshot_starts_no_mirror_unless_it_is_the_last() {
    let part = |objects: &[(u64, u64)]| {
        let mut bytes = stream(objects);
        bytes.truncate(bytes.len() - 2);
        bytes
    };
    let mut watch = Watch::default();
    feed(&mut watch, Gc::begins(1, 2).ends(0, 1));
    watch.stream((&part(&[(OLD, NODE)])).into());
    // Whatever is lost meanwhile is no loss to the next one.
    feed(&mut watch, Gc::begins(3, 0).ends(0, 0));
    assert_eq!(watch.snapshot(), None);
    watch.go_on();
    feed(&mut watch, Gc::begins(4, 2).ends(0, 1));
    watch.stream((&stream(&[(OLD, NODE)])).into());
    assert_eq!(watch.snapshot(), Some(Compared::First));
    watch.go_on();
    assert!(!watch.is_stale());
    // After something was lost one that is not whole leaves it as stale as it was.
    feed(&mut watch, Gc::begins(6, 2).ends(0, 1));
    watch.stream((&part(&[(OLD, NODE)])).into());
    assert_eq!(watch.snapshot(), Some(Compared::Stale));
    watch.go_on();
    assert!(watch.is_stale() && !watch.is_complete());
}
