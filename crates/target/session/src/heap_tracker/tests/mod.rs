//! The reports of heap tracking, and its count of losses.

use super::*;
use crate::platform::words;
use remora_heap_stream::ClassFacts;
use remora_heap_stream::watch::{BornObject, Bounds, WatchPiece};
use remora_holds::holds;
use remora_sampler::{HeapClass, MOST_ARGUMENTS};
use std::cell::{Cell, RefCell};

/// A heap of 24-byte objects. Every third one is free space; those at odd hundreds are of another class.
struct Heap;

const YOUNG: u64 = 0x1_0000;
const OLD: u64 = 0x2_0000;
const LARGE_PLACE: u64 = 0x3_0000;

impl HeapReader for Heap {
    fn ranges(&self, into: &mut [HeapRange]) -> usize {
        // Unordered.
        let all = [(3, LARGE_PLACE), (2, OLD), (0, YOUNG)];
        for (place, (kind, start)) in into.iter_mut().zip(all) {
            *place = HeapRange { kind, start, length: 0x1000, reserved: 0x1000 };
        }
        all.len()
    }

    fn class_of(&self, object: u64) -> Option<u64> {
        Some(if (object / 24).is_multiple_of(3) { 0 } else { 0x70 + (object >> 8 & 1) })
    }

    fn size_of(&self, object: u64) -> Option<u64> {
        (object != BROKEN).then_some(22)
    }

    fn references(&self, _: u64, _: &mut dyn FnMut(u64)) {}

    fn class(&self, class: u64, arguments: &mut [u64; MOST_ARGUMENTS]) -> HeapClass {
        arguments[0] = 0x99;
        let count = usize::from(class == 0x70);
        HeapClass::Plain { module: 1, token: class as u32, parent: 0, arguments: count }
    }
}

/// The size of this object is unavailable.
const BROKEN: u64 = 0x1_0a00;

fn watch(room: usize) -> HeapTracker {
    let watch = HeapTracker::new(None, |count| Some(words(count.min(room)))).expect("memory");
    watch.gets_survivors();
    watch
}

/// At most half of the slots may be used. Two classes need four slots; two slots are too few.
fn counting(places: usize) -> YoungObjectCost {
    YoungObjectCost::new(words(places), words(places))
}

/// Collects pieces until there is no room.
struct Pieces {
    pieces: RefCell<Vec<WatchPiece>>,
    room: usize,
}

impl Pieces {
    fn new(room: usize) -> Pieces {
        Pieces { pieces: RefCell::default(), room }
    }

    fn put(&self, bytes: &[u8]) -> bool {
        let mut pieces = self.pieces.borrow_mut();
        let fits = pieces.len() < self.room;
        if fits {
            pieces.push(WatchPiece::decode(bytes.into()).expect("own piece"));
        }
        fits
    }

    fn take(&self) -> Vec<WatchPiece> {
        self.pieces.take()
    }
}

fn begins(watch: &HeapTracker, sent: &Pieces, collected: &[i32]) {
    begins_counting(watch, sent, collected, 64);
}

fn begins_counting(watch: &HeapTracker, sent: &Pieces, collected: &[i32], places: usize) {
    let put = |piece: &[u8]| sent.put(piece);
    watch.begins(100, collected, GcReason::INDUCED, &put);
    watch.bounds(&Heap, &mut [HeapRange::default(); 8], collected, Some(&counting(places)), &put);
}

fn ends(watch: &HeapTracker, sent: &Pieces) {
    let put = |piece: &[u8]| sent.put(piece);
    watch.born(&Heap, &put);
    watch.ends(500, true, &put);
}

#[test]
fn gch_01_what_comes_before_a_beginning_is_reported_to_nobody() {
    let (watch, sent) = (watch(64), Pieces::new(99));
    let put = |piece: &[u8]| sent.put(piece);
    watch.live([(YOUNG, OLD, 24)].into_iter(), &put);
    watch.stay([(YOUNG, 24)].into_iter(), &put);
    watch.allocated(1, &Heap, [(0x70, 5)].into_iter(), &put);
    ends(&watch, &sent);
    holds!(GCH_01 rem, sent.take() == []);
    begins(&watch, &sent, &[1, 0, 0, 0]);
    ends(&watch, &sent);
    assert_eq!(sent.take().len(), 3, "a beginning, bounds, an end");
    // After its end, too: then one GC is known to be missing.
    watch.stay([(YOUNG, 24)].into_iter(), &put);
    ends(&watch, &sent);
    holds!(GCH_01 rem, sent.take() == []);
    begins(&watch, &sent, &[1, 0, 0, 0]);
    let first = sent.take().swap_remove(0);
    assert!(matches!(first, WatchPiece::Begins { collection: 3, .. }), "{first:?}");
}

#[test]
fn gch_03_a_collection_of_which_nothing_more_is_asked_for_yet_is_none_of_the_watch() {
    let sent = Pieces::new(99);
    let watch = HeapTracker::new(None, |count| Some(words(count.min(64)))).expect("memory");
    begins_counting(&watch, &sent, &[1, 0, 0, 0], 2);
    ends(&watch, &sent);
    holds!(GCH_03 rem, (sent.take(), watch.collections(), watch.is_too_expensive()) == (vec![], 0, false));
    watch.gets_survivors();
    begins(&watch, &sent, &[1, 0, 0, 0]);
    assert_eq!(watch.collections(), 1);
}

#[test]
fn gch_03_a_count_that_would_take_too_long_is_not_asked_for_and_the_watch_is_over() {
    // Gen 0 has two classes, one more than there is room for.
    let (dear, sent, asked) = (watch(64), Pieces::new(99), Cell::new(0));
    let give_up = |watch: &HeapTracker| watch.stop_if_too_expensive(|| asked.set(asked.get() + 1));
    begins_counting(&dear, &sent, &[1, 0, 0, 0], 2);
    give_up(&dear);
    holds!(GCH_03 rem, dear.is_too_expensive() && asked.get() == 1);
    ends(&dear, &sent);
    assert!(matches!(sent.take().pop(), Some(WatchPiece::Ends { lost: 1.., .. })), "it is not told to its end");
    begins(&dear, &sent, &[1, 0, 0, 0]);
    give_up(&dear);
    assert_eq!((sent.take(), asked.get()), (vec![], 1), "once is enough");
    let cheap = watch(64);
    begins(&cheap, &sent, &[1, 0, 0, 0]);
    give_up(&cheap);
    assert!(!cheap.is_too_expensive() && asked.get() == 1);
    // A worker that detaches has already reduced the event mask.
    let leaving = watch(64);
    begins_counting(&leaving, &sent, &[1, 0, 0, 0], 2);
    leaving.is_over(&|| panic!("nobody is asking"));
    give_up(&leaving);
    assert_eq!(asked.get(), 1);
}

#[test]
fn gch_03_who_leaves_waits_for_a_callback_that_is_asking_for_less() {
    let (watch, sent, pauses) = (watch(64), Pieces::new(99), Cell::new(0));
    begins_counting(&watch, &sent, &[1, 0, 0, 0], 2);
    watch.stop_if_too_expensive(|| {
        watch.is_over(&|| {
            pauses.set(pauses.get() + 1);
            // As if the callback had returned.
            watch.gives_up.store(pauses.get() < 3, Ordering::SeqCst);
        });
    });
    holds!(GCH_03 rem, pauses.get() == 3);
}

#[test]
fn gch_03_what_is_collected_is_reported_and_of_a_whole_collection_what_is_young() {
    let (watch, sent) = (watch(64), Pieces::new(99));
    let part = |kind, start| Bounds { kind, start, length: 0x1000 };
    let bounds = |sent: &Pieces| match sent.take().get(1) {
        Some(WatchPiece::Bounds { ranges, .. }) => ranges.clone(),
        other => panic!("{other:?}"),
    };
    begins(&watch, &sent, &[1, 1, 0, 0, 0]);
    holds!(GCH_03 rem, bounds(&sent) == [part(0, YOUNG)]);
    begins(&watch, &sent, &[1, 1, 1, 1, 1]);
    let first = sent.pieces.borrow()[0].clone();
    assert_eq!(first, WatchPiece::Begins { collection: 2, time: 100, generation: 2, is_induced: true });
    holds!(GCH_03 rem, bounds(&sent) == [part(0, YOUNG)]);
}

#[test]
fn gch_04_newborn_objects_are_reported_in_their_new_places_with_class_and_size() {
    let (watch, sent) = (watch(64), Pieces::new(99));
    let put = |piece: &[u8]| sent.put(piece);
    begins(&watch, &sent, &[1, 1, 1, 1, 1]);
    // Old objects are known, large ones may be new. The whole range is reported.
    watch.live([(YOUNG, 0x5_0100, 72), (OLD, 0x5_1000, 24)].into_iter(), &put);
    watch.stay([(LARGE_PLACE + 48, 24)].into_iter(), &put);
    sent.take();
    ends(&watch, &sent);
    let pieces = sent.take();
    let classes: Vec<(u32, u64)> = pieces
        .iter()
        .filter_map(|piece| match piece {
            WatchPiece::Class { number, id, facts: ClassFacts::Plain { .. }, collection: 1 } => Some((*number, *id)),
            _ => None,
        })
        .collect();
    // Each class comes with those it refers to, and before its objects.
    holds!(GCH_04 rem, classes == [(0, 0x71), (1, 0x70), (2, 0x99)]);
    let born: Vec<BornObject> = pieces
        .iter()
        .filter_map(|piece| if let WatchPiece::Born { objects, .. } = piece { Some(objects.clone()) } else { None })
        .flatten()
        .collect();
    let expected: Vec<BornObject> = [0x5_0100, 0x5_0118, 0x5_0130, LARGE_PLACE + 48]
        .into_iter()
        .filter(|object| Heap.class_of(*object) != Some(0))
        .map(|address| BornObject { address, class: u32::from(Heap.class_of(address) == Some(0x70)), bytes: 22 })
        .collect();
    holds!(GCH_04 rem, (born, expected.len()) == (expected, 3));
}

fn lost(sent: &Pieces) -> u64 {
    match sent.take().last() {
        Some(WatchPiece::Ends { lost, .. }) => *lost,
        other => panic!("{other:?}"),
    }
}

#[test]
fn gch_03_whatever_cannot_be_reported_is_counted_in_the_end() {
    let sent = Pieces::new(99);
    let put = |piece: &[u8]| sent.put(piece);
    let lossless = watch(64);
    begins(&lossless, &sent, &[1, 0, 0]);
    ends(&lossless, &sent);
    assert_eq!(lost(&sent), 0);
    // Losses: remembered ranges and classes.
    let narrow = watch(2);
    begins(&narrow, &sent, &[1, 0, 0]);
    narrow.stay((0..5).map(|index| (YOUNG + index * 24, 24)), &put);
    narrow.allocated(1, &Heap, [(0x70, 1), (0x71, 1), (0x72, 1), (0x73, 1)].into_iter(), &put);
    ends(&narrow, &sent);
    holds!(GCH_03 rem, lost(&sent) >= 3 + 2, "three ranges, two classes");
    // Losses: an object without a size, ranges beyond the buffer, and an unavailable heap.
    let broken = watch(64);
    begins(&broken, &sent, &[1, 0, 0]);
    broken.live([(YOUNG, BROKEN, 24)].into_iter(), &put);
    broken.bounds(&Heap, &mut [HeapRange::default(); 2], &[1, 0, 0], None, &put);
    broken.lose();
    ends(&broken, &sent);
    holds!(GCH_03 rem, lost(&sent) == 3);
    // Losses: pieces without room.
    let full = Pieces::new(2);
    let watch = watch(64);
    begins(&watch, &full, &[1, 0, 0]);
    watch.stay([(YOUNG, 24)].into_iter(), &|piece: &[u8]| full.put(piece));
    ends(&watch, &sent);
    // The range, and the new objects in it.
    holds!(GCH_03 rem, lost(&sent) == 1);
}

#[test]
fn gch_03_what_a_collection_takes_longer_is_what_the_runtime_and_the_callbacks_did_for_the_watch() {
    let (watch, sent) = (watch(64), Pieces::new(99));
    let put = |piece: &[u8]| sent.put(piece);
    begins(&watch, &sent, &[1, 0, 0]);
    watch.took(1);
    // The runtime counted from 100 to 130, a callback took 5, and roots were reported from 450 to 500.
    watch.allocated(130, &Heap, [(0x70, 1)].into_iter(), &put);
    watch.took(5);
    watch.roots_begin(450);
    watch.roots_begin(470);
    ends(&watch, &sent);
    let pieces = sent.take();
    let Some(WatchPiece::Ends { extra, is_copied: true, time: 500, .. }) = pieces.last() else { panic!("{pieces:?}") };
    holds!(GCH_03 rem, *extra == 30 + 5 + 50);
}
