//! What a watched heap needs in the callbacks: each collection is told of while it runs, and nothing of it is kept here.
//!
//! The runtime says which ranges of what it collects live on, and where they lie now (MONITOR_GC). They go outside as they come, from
//! whichever of the collector's threads they come on: packed on its stack, into a ring that refuses and never waits. Of what was born since
//! the collection before nobody outside knows anything. So ranges that lay in the youngest generation, or among large or pinned objects,
//! which are never moved up, are remembered until the end of the collection: then the objects in them are asked about, in their new places.
//!
//! What does not fit anywhere is counted, and makes the picture outside a stale one.
//!
//! Callbacks of a collection of which no beginning was heard are ignored (contract GCH-01). If that was the one under way when the watch began,
//! nothing is lost by it. A later one is known to be missing: its number stays free, which outside is a hole.

mod classes;
mod ranges;

use crate::platform::Words;
use crate::young_object_cost::{MOST_STEPS, YOUNGEST, YoungObjectCost};
use classes::Classes;
use corprof::{GcReason, HeapView};
use ranges::{MOST_REMEMBERED, MOST_YOUNG, RangeSet, TrackedRanges};
use remora_sampler::{HeapRange, HeapReader};
use remora_wire::watch::{ALLOCATED, BEGINS, BORN, BOUNDS, ENDS, MOST_CLASSES, MOVED, PieceWriter, SURVIVED};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Newborn objects that are asked about in one collection, at most: the program stands meanwhile.
const MOST_BORN: u64 = 1 << 23;
/// Objects begin at multiples of this.
const WORD: u64 = 8;

/// Of generations: those that no other grows into.
const LARGE: i32 = 3;

/// Takes a piece, or says that there is no room.
pub type Put<'a> = &'a dyn Fn(&[u8]) -> bool;

/// See the module's text.
pub struct HeapTracker {
    view: Option<HeapView>,
    /// Whether the runtime tells what lives on.
    is_told: AtomicBool,
    /// Whether the beginning of the collection that is under way was heard.
    runs: AtomicBool,
    collection: AtomicU64,
    /// The last one at whose end a copy was made.
    copied: AtomicU64,
    /// What could not be told of it.
    lost: AtomicU64,
    /// When its parts began, nanoseconds.
    begun: AtomicU64,
    roots: AtomicU64,
    /// What of its time is ours, or the runtime's for our sake.
    extra: AtomicU64,
    young: RangeSet,
    /// Where everything lies that is collected, unless that is all.
    collected: RangeSet,
    is_whole: AtomicBool,
    /// Whether something lived on that is not collected: then two collections follow each other under one beginning, and what the first
    /// one told of its survivors' places is no longer true. (In provisional mode a collector that is short of memory does so: gc.cpp,
    /// `garbage_collect_pm_full_gc`; seen with GCProvModeStress on 3.1, 8, 9 and 10.)
    are_two: AtomicBool,
    /// Whether something came of a collection of which no beginning was heard, behind one that was heard. (In provisional mode the second of
    /// two collections may also come behind the end of the first one, without a beginning of its own: `pm_full_gc_init_or_clear`, gc.cpp; seen
    /// with GCProvModeStress on 3.1, 8, 9 and 10.)
    is_one_unheard: AtomicBool,
    /// Whether no collection is to be told of any more.
    is_over: AtomicBool,
    /// Whether that is so because the runtime would have taken too long to count what was made.
    is_too_expensive: AtomicBool,
    /// Whether a callback is about to ask for no more callbacks.
    gives_up: AtomicBool,
    /// Whether ids of classes may have come to mean others.
    classes_changed: AtomicBool,
    remembered: TrackedRanges,
    classes: Classes,
}

impl HeapTracker {
    /// One that has heard of nothing yet, with places made by `words`. `None` if there is no memory for them.
    pub fn new(view: Option<HeapView>, words: impl Fn(usize) -> Option<Words>) -> Option<HeapTracker> {
        Some(HeapTracker {
            view,
            is_told: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            collection: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            roots: AtomicU64::new(0),
            extra: AtomicU64::new(0),
            young: RangeSet::new(words(MOST_YOUNG)?, words(MOST_YOUNG)?),
            collected: RangeSet::new(words(MOST_YOUNG)?, words(MOST_YOUNG)?),
            is_whole: AtomicBool::new(false),
            are_two: AtomicBool::new(false),
            is_one_unheard: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_too_expensive: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
            classes_changed: AtomicBool::new(false),
            remembered: TrackedRanges::new(words(MOST_REMEMBERED)?, words(MOST_REMEMBERED)?),
            classes: Classes::new(words(MOST_CLASSES * 2)?, words(MOST_CLASSES * 2)?, words(MOST_CLASSES)?),
        })
    }

    /// The heap, to be asked in callbacks of collections.
    pub fn view(&self) -> Option<HeapView> {
        self.view
    }

    /// Whether a collection is under way whose beginning was heard.
    pub fn runs(&self) -> bool {
        self.runs.load(Ordering::SeqCst)
    }

    /// How many collections have begun.
    pub fn collections(&self) -> u64 {
        self.collection.load(Ordering::SeqCst)
    }

    /// The number of the last collection at whose end a copy of the process was made.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::SeqCst)
    }

    /// In GarbageCollectionStarted, before [`HeapTracker::begins`]: from this collection on the runtime tells what lives on.
    pub fn is_told(&self) {
        self.is_told.store(true, Ordering::SeqCst);
    }

    /// Agent's thread: the runtime will tell no more of what lives on. A collection that is under way is not told to its end. If a callback is
    /// just asking for the same, `pause` is called until it has: what is asked for next is not to be undone.
    pub fn is_over(&self, pause: &dyn Fn()) {
        self.is_over.store(true, Ordering::SeqCst);
        while self.gives_up.load(Ordering::SeqCst) {
            pause();
        }
    }

    /// In GarbageCollectionStarted, behind `HeapTracker::bounds`: if the runtime would take too long to count what was made, `hear_no_more` asks it
    /// for no more of that. It looks at what is asked for when the callback has returned (`DiagGCStart`, vm/gcenv.ee.cpp).
    pub fn stop_if_too_expensive(&self, hear_no_more: impl FnOnce()) {
        if !self.is_too_expensive() {
            return;
        }
        self.gives_up.store(true, Ordering::SeqCst);
        // Either this is seen here, or the other thread sees that it must wait.
        if !self.is_over.swap(true, Ordering::SeqCst) {
            hear_no_more();
        }
        self.gives_up.store(false, Ordering::SeqCst);
    }

    /// Whether the runtime would have taken too long to count what was made: it was asked for no more.
    pub fn is_too_expensive(&self) -> bool {
        self.is_too_expensive.load(Ordering::SeqCst)
    }

    /// In ModuleUnloadStarted: classes go, and others may come in their places.
    pub fn classes_change(&self) {
        self.classes_changed.store(true, Ordering::SeqCst);
    }

    /// In GarbageCollectionStarted.
    pub fn begins(&self, now: u64, collected: &[i32], reason: GcReason, put: Put<'_>) {
        if self.is_over.load(Ordering::SeqCst) || !self.is_told.load(Ordering::SeqCst) {
            return;
        }
        if self.classes_changed.swap(false, Ordering::SeqCst) {
            self.classes.forget();
        }
        let new = 1 + u64::from(self.is_one_unheard.swap(false, Ordering::SeqCst));
        let collection = self.collection.fetch_add(new, Ordering::SeqCst) + new;
        self.lost.store(0, Ordering::SeqCst);
        self.extra.store(0, Ordering::SeqCst);
        self.begun.store(now, Ordering::SeqCst);
        self.roots.store(0, Ordering::SeqCst);
        self.young.clear();
        self.collected.clear();
        self.is_whole.store(is_collected(collected, 2), Ordering::SeqCst);
        self.are_two.store(false, Ordering::SeqCst);
        self.remembered.clear();
        let oldest = (0..3).rev().find(|generation| is_collected(collected, *generation)).unwrap_or(0);
        let mut piece = PieceWriter::new(BEGINS, collection);
        piece.number(now);
        piece.number(oldest as u64);
        piece.number(u64::from(reason == GcReason::INDUCED));
        self.put(piece.bytes(), put);
        self.runs.store(true, Ordering::SeqCst);
    }

    /// In GarbageCollectionStarted, behind [`HeapTracker::begins`]: where what is collected lies; and what counting what is young would take, unless
    /// that is known already.
    pub(crate) fn bounds(
        &self,
        heap: &dyn HeapReader,
        into: &mut [HeapRange],
        collected: &[i32],
        counting: Option<&YoungObjectCost>,
        put: Put<'_>,
    ) {
        if !self.runs() {
            return;
        }
        let total = heap.ranges(into);
        let Some(ranges) = into.get_mut(..total) else { return self.lose() };
        if ranges.is_empty() {
            // The runtime refused: what is young is not known.
            self.lose();
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let is_whole = is_collected(collected, 2);
        let mut piece = PieceWriter::new(BOUNDS, self.collection.load(Ordering::SeqCst));
        for range in ranges.iter().filter(|range| is_collected(collected, range.kind)) {
            if (range.kind == YOUNGEST || range.kind >= LARGE) && !self.young.add(range.start, range.length) {
                self.lose();
            }
            if !is_whole && !self.collected.add(range.start, range.length) {
                self.lose();
            }
            // Of a whole collection everything is collected; how much of it is young must be known all the same.
            if !is_whole || range.kind == YOUNGEST {
                piece.make_room(&mut |bytes| _ = self.put(bytes, put));
                piece.bounds(range.kind.unsigned_abs(), range.start, range.length);
            }
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
        let is_too_expensive = counting.is_some_and(|counting| counting.is_too_expensive(heap, ranges, MOST_STEPS));
        self.is_too_expensive.fetch_or(is_too_expensive, Ordering::SeqCst);
    }

    /// In ObjectsAllocatedByClass: how many of each class were made since the last collection.
    pub fn allocated(&self, now: u64, heap: &dyn HeapReader, counts: impl Iterator<Item = (u64, u32)>, put: Put<'_>) {
        if !self.runs() {
            return;
        }
        // Between the beginning and this the runtime has walked the youngest generation, for our sake alone.
        self.extra.store(now.saturating_sub(self.begun.load(Ordering::SeqCst)), Ordering::SeqCst);
        let mut piece = PieceWriter::new(ALLOCATED, self.collection.load(Ordering::SeqCst));
        for (class, count) in counts {
            let Some(number) = self.class(class, heap, put) else { continue };
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.number(u64::from(number));
            piece.number(u64::from(count));
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// In MovedReferences2 and SurvivingReferences2, on any of the collector's threads: where ranges lay, where they lie, their lengths.
    pub fn live(&self, ranges: impl Iterator<Item = (u64, u64, u64)>, put: Put<'_>) {
        if !self.runs() {
            return self.misses_one();
        }
        let collection = self.collection.load(Ordering::SeqCst);
        let mut piece = PieceWriter::new(MOVED, collection);
        for (old, new, length) in ranges {
            self.remember(old, new, length);
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.range(old, new, length);
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// The same of ranges that have not moved.
    pub fn stay(&self, ranges: impl Iterator<Item = (u64, u64)>, put: Put<'_>) {
        if !self.runs() {
            return self.misses_one();
        }
        let mut piece = PieceWriter::new(SURVIVED, self.collection.load(Ordering::SeqCst));
        for (place, length) in ranges {
            self.remember(place, place, length);
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.range(place, place, length);
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// Time that a callback of ours took.
    pub fn took(&self, nanoseconds: u64) {
        self.extra.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    /// In RootReferences2: from here to the end the runtime works for us alone.
    pub fn roots_begin(&self, now: u64) {
        let _ = self.roots.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// In GarbageCollectionFinished: what was born.
    pub fn born(&self, heap: &dyn HeapReader, put: Put<'_>) {
        if !self.runs() {
            return;
        }
        self.lost.fetch_add(self.remembered.forgotten(), Ordering::SeqCst);
        if self.are_two.load(Ordering::SeqCst) {
            // What is remembered may lie elsewhere by now: the heap is not asked about it.
            return self.lose();
        }
        let mut piece = PieceWriter::new(BORN, self.collection.load(Ordering::SeqCst));
        let mut left = MOST_BORN;
        for (start, length) in self.remembered.iter() {
            if !self.born_in(heap, (start, start.saturating_add(length)), &mut left, &mut piece, put) {
                self.lose();
            }
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// The objects of a range. False if it could not be walked to its end.
    fn born_in(
        &self,
        heap: &dyn HeapReader,
        (start, end): (u64, u64),
        left: &mut u64,
        piece: &mut PieceWriter,
        put: Put<'_>,
    ) -> bool {
        let mut object = start;
        while object < end {
            let Some(rest) = left.checked_sub(1) else { return false };
            *left = rest;
            let Some(size) = heap.size_of(object).filter(|size| *size >= WORD) else { return false };
            let Some(class) = heap.class_of(object) else { return false };
            let Some(head) = size.checked_next_multiple_of(WORD) else { return false };
            // Room between objects is of class 0.
            if class != 0 {
                let Some(number) = self.class(class, heap, put) else { return false };
                piece.make_room(&mut |bytes| _ = self.put(bytes, put));
                piece.born_at(object);
                piece.born(number, size, head);
            }
            object = object.saturating_add(head);
        }
        true
    }

    /// In GarbageCollectionFinished, behind [`HeapTracker::born`] and before a copy is made.
    pub fn ends(&self, now: u64, is_copied: bool, put: Put<'_>) {
        if !self.runs.swap(false, Ordering::SeqCst) {
            return self.misses_one();
        }
        if self.is_over.load(Ordering::SeqCst) {
            self.lose();
        }
        if is_copied {
            self.copied.store(self.collections(), Ordering::SeqCst);
        }
        let roots = self.roots.load(Ordering::SeqCst);
        let since = if roots == 0 { 0 } else { now.saturating_sub(roots) };
        let mut piece = PieceWriter::new(ENDS, self.collection.load(Ordering::SeqCst));
        piece.number(now);
        piece.number(self.lost.load(Ordering::SeqCst));
        piece.number(u64::from(is_copied));
        piece.number(self.extra.load(Ordering::SeqCst).saturating_add(since));
        self.put(piece.bytes(), put);
    }

    /// The number of a class, which is told of if it is new; `None`, and counted, if there are too many.
    fn class(&self, id: u64, heap: &dyn HeapReader, put: Put<'_>) -> Option<u32> {
        let number = self.classes.number(id);
        if number.is_none() {
            self.lose();
        }
        self.classes.tell_new(self.collections(), heap, &mut |bytes| self.put(bytes, put));
        number
    }

    fn remember(&self, old: u64, new: u64, length: u64) {
        let last = old.saturating_add(length).saturating_sub(1);
        if !self.is_whole.load(Ordering::Relaxed) && !self.collected.has(old) {
            self.are_two.store(true, Ordering::SeqCst);
        }
        if self.young.has(old) || self.young.has(last) {
            self.remembered.add(new, length);
        }
    }

    /// Something came of a collection of which no beginning was heard.
    fn misses_one(&self) {
        self.is_one_unheard.store(self.collections() > 0, Ordering::SeqCst);
    }

    /// Whether there was room.
    fn put(&self, bytes: &[u8], put: Put<'_>) -> bool {
        let has_room = put(bytes);
        if !has_room {
            self.lose();
        }
        has_room
    }

    /// Something could not be told.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_collected(collected: &[i32], generation: i32) -> bool {
    usize::try_from(generation).is_ok_and(|at| collected.get(at).is_some_and(|collected| *collected != 0))
}

#[cfg(test)]
mod tests;
