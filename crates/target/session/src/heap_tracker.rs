//! Heap tracking in the callbacks: reports each GC while it runs, and keeps nothing of it.
//!
//! The runtime reports which ranges of the collected generations survive, and where they are now (MONITOR_GC). The callbacks forward them
//! at once, on whichever GC thread they arrive: packed on its stack, into a ring that may refuse and never waits. The recorder does not
//! know objects allocated since the previous GC. So ranges from gen 0, and from the large and pinned object heaps, which never promote, are
//! remembered until the end of the GC. Then the callback reads the objects in them, at their new addresses.
//!
//! Events without room are counted as lost: then the recorder's heap mirror is stale.
//!
//! Callbacks of a GC without a GarbageCollectionStarted are ignored (contract GCH-01). If that GC was in progress when tracking began,
//! nothing is lost. A later one is known to be missing: its number stays unused, and the recorder sees the gap.

mod classes;
mod ranges;

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::Words;
use crate::young_object_cost::{MOST_STEPS, YOUNGEST, YoungObjectCost};
use classes::Classes;
use corprof::{GcReason, HeapView};
use ranges::{MOST_REMEMBERED, MOST_YOUNG, RangeSet, TrackedRanges};
use remora_heap_stream::watch::{ALLOCATED, BEGINS, BORN, BOUNDS, ENDS, MOST_CLASSES, MOVED, PieceWriter, SURVIVED};
use remora_sampler::{HeapRange, HeapReader};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// New objects to read in one GC, at most: this pauses the application.
const MOST_BORN: u64 = 1 << 23;
/// Objects begin at multiples of this.
const WORD: u64 = 8;

/// From this generation on (large and pinned objects), no object is promoted from another one.
const LARGE: i32 = 3;

/// Takes a piece. Returns false if there is no room.
pub type Put<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Reports GCs; see the module.
pub struct HeapTracker {
    view: Option<HeapView>,
    /// Whether the runtime reports survivors.
    gets_survivors: AtomicBool,
    /// Whether a GC with a reported start is in progress.
    runs: AtomicBool,
    collection: AtomicU64,
    /// The last GC with a forked copy at its end.
    copied: AtomicU64,
    /// Lost events of the current GC.
    lost: AtomicU64,
    /// When the GC and its report of roots began, nanoseconds.
    begun: AtomicU64,
    roots: AtomicU64,
    /// The part of the GC's time spent in our callbacks, or by the runtime for us.
    extra: AtomicU64,
    young: RangeSet,
    /// The collected ranges, unless everything is collected.
    collected: RangeSet,
    is_whole: AtomicBool,
    /// Whether an object survived outside the collected ranges. Then two GCs follow each other after one start, and the survivor addresses
    /// of the first one are stale. (In provisional mode a collector short of memory does so: gc.cpp, `garbage_collect_pm_full_gc`; seen
    /// with GCProvModeStress on 3.1, 8, 9 and 10.)
    are_two: AtomicBool,
    /// Whether a GC without a reported start followed one with it. (In provisional mode the second of two GCs may also come after the end
    /// of the first, without a start of its own: `pm_full_gc_init_or_clear`, gc.cpp; seen with GCProvModeStress on 3.1, 8, 9 and 10.)
    is_one_unheard: AtomicBool,
    /// Whether no further GC is reported.
    is_over: AtomicBool,
    /// Whether the reason is that the runtime would have counted new objects for too long.
    is_too_expensive: AtomicBool,
    /// Whether a callback is about to reduce the event mask.
    gives_up: AtomicBool,
    /// Whether ClassIDs may have been reused.
    classes_changed: AtomicBool,
    remembered: TrackedRanges,
    classes: Classes,
}

impl HeapTracker {
    /// A tracker without any GC, with memory from `words`. `None` if there is not enough.
    pub fn new(view: Option<HeapView>, words: impl Fn(usize) -> Option<Words>) -> Option<HeapTracker> {
        Some(HeapTracker {
            view,
            gets_survivors: AtomicBool::new(false),
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

    /// The heap, for use in GC callbacks.
    pub fn view(&self) -> Option<HeapView> {
        self.view
    }

    /// Whether a GC with a reported start is in progress.
    pub fn runs(&self) -> bool {
        self.runs.load(Ordering::SeqCst)
    }

    /// How many GCs have started.
    pub fn collections(&self) -> u64 {
        self.collection.load(Ordering::SeqCst)
    }

    /// The number of the last GC with a forked copy at its end.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::SeqCst)
    }

    /// In GarbageCollectionStarted, before [`HeapTracker::begins`]: from this GC on the runtime reports survivors.
    pub fn gets_survivors(&self) {
        self.gets_survivors.store(true, Ordering::SeqCst);
    }

    /// Worker thread: no survivors will be reported any more. A GC in progress is not reported to its end. If a callback is just reducing
    /// the event mask, calls `pause` until it has: it must not undo the next mask.
    pub fn is_over(&self, pause: &dyn Fn()) {
        self.is_over.store(true, Ordering::SeqCst);
        while self.gives_up.load(Ordering::SeqCst) {
            pause();
        }
    }

    /// In GarbageCollectionStarted, after `HeapTracker::bounds`: if the runtime's count of new objects would take too long, `hear_no_more`
    /// disables it. The runtime checks the event mask after this callback (`DiagGCStart`, vm/gcenv.ee.cpp).
    pub fn stop_if_too_expensive(&self, hear_no_more: impl FnOnce()) {
        if !self.is_too_expensive() {
            return;
        }
        self.gives_up.store(true, Ordering::SeqCst);
        // Either this code sees that tracking is over, or the worker thread sees that it must wait.
        if !self.is_over.swap(true, Ordering::SeqCst) {
            hear_no_more();
        }
        self.gives_up.store(false, Ordering::SeqCst);
    }

    /// Whether the runtime's count of new objects would have taken too long, and was disabled.
    pub fn is_too_expensive(&self) -> bool {
        self.is_too_expensive.load(Ordering::SeqCst)
    }

    /// In ModuleUnloadStarted: classes unload, and new ones may reuse their ids.
    pub fn classes_change(&self) {
        self.classes_changed.store(true, Ordering::SeqCst);
    }

    /// In GarbageCollectionStarted.
    pub fn begins(&self, now: u64, collected: &[i32], reason: GcReason, put: Put<'_>) {
        if self.is_over.load(Ordering::SeqCst) || !self.gets_survivors.load(Ordering::SeqCst) {
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

    /// In GarbageCollectionStarted, after [`HeapTracker::begins`]: reports the collected ranges. With `counting`, also estimates the cost
    /// of the runtime's count of gen 0.
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
            // The runtime refused: gen 0 is unknown.
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
            // A full GC collects everything, but the recorder still needs the ranges of gen 0.
            if !is_whole || range.kind == YOUNGEST {
                piece.make_room(&mut |bytes| _ = self.put(bytes, put));
                piece.bounds(range.kind.unsigned_abs(), range.start, range.length);
            }
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
        let is_too_expensive = counting.is_some_and(|counting| counting.is_too_expensive(heap, ranges, MOST_STEPS));
        self.is_too_expensive.fetch_or(is_too_expensive, Ordering::SeqCst);
    }

    /// In ObjectsAllocatedByClass: how many objects of each class were allocated since the last GC.
    pub fn allocated(&self, now: u64, heap: &dyn HeapReader, counts: impl Iterator<Item = (u64, u32)>, put: Put<'_>) {
        if !self.runs() {
            return;
        }
        // Since the start of the GC, the runtime has walked gen 0 for us alone.
        self.extra.store(now.saturating_sub(self.begun.load(Ordering::SeqCst)), Ordering::SeqCst);
        let mut piece = PieceWriter::new(ALLOCATED, self.collection.load(Ordering::SeqCst));
        for (class, count) in counts.filter(|_| !is_injected(InjectedFault::ForgetAllocations)) {
            let Some(number) = self.class(class, heap, put) else { continue };
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.number(u64::from(number));
            piece.number(u64::from(count));
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// In MovedReferences2, on any GC thread: old and new addresses of ranges, and their lengths.
    pub fn live(&self, ranges: impl Iterator<Item = (u64, u64, u64)>, put: Put<'_>) {
        if !self.runs() && !is_injected(InjectedFault::ReportLeftovers) {
            return self.misses_one();
        }
        let collection = self.collection.load(Ordering::SeqCst);
        let mut piece = PieceWriter::new(MOVED, collection);
        for (old, new, length) in ranges {
            self.remember(old, new, length);
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.range(old, if is_injected(InjectedFault::KeepOldAddresses) { old } else { new }, length);
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// In SurvivingReferences2, on any GC thread: unmoved ranges.
    pub fn stay(&self, ranges: impl Iterator<Item = (u64, u64)>, put: Put<'_>) {
        if !self.runs() && !is_injected(InjectedFault::ReportLeftovers) {
            return self.misses_one();
        }
        let mut piece = PieceWriter::new(SURVIVED, self.collection.load(Ordering::SeqCst));
        for (place, length) in ranges.filter(|_| !is_injected(InjectedFault::ForgetSurvivors)) {
            self.remember(place, place, length);
            piece.make_room(&mut |bytes| _ = self.put(bytes, put));
            piece.range(place, place, length);
        }
        piece.flush(&mut |bytes| _ = self.put(bytes, put));
    }

    /// Adds the time of a callback.
    pub fn took(&self, nanoseconds: u64) {
        self.extra.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    /// In RootReferences2: from here to the end of the GC the runtime works for us alone.
    pub fn roots_begin(&self, now: u64) {
        let _ = self.roots.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// In GarbageCollectionFinished: reports the new objects.
    pub fn born(&self, heap: &dyn HeapReader, put: Put<'_>) {
        if !self.runs() {
            return;
        }
        self.lost.fetch_add(self.remembered.forgotten(), Ordering::SeqCst);
        if self.are_two.load(Ordering::SeqCst) {
            // The remembered ranges may have moved again: do not read the heap there.
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

    /// Reports the objects of a range. False if its end was not reached.
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
            // Free space between objects has class 0.
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

    /// In GarbageCollectionFinished, after [`HeapTracker::born`] and before the fork.
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

    /// The number of a class; a new class is reported first. `None`, and a loss, if there are too many classes.
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
        let is_new = self.young.has(old) || self.young.has(last);
        if is_new && !is_injected(InjectedFault::ForgetNewborns) {
            self.remembered.add(new, length);
        }
    }

    /// An event arrived for a GC without a reported start.
    fn misses_one(&self) {
        self.is_one_unheard.store(self.collections() > 0, Ordering::SeqCst);
    }

    /// Sends a piece, or counts it as lost. Returns whether there was room.
    fn put(&self, bytes: &[u8], put: Put<'_>) -> bool {
        let has_room = put(bytes);
        if !has_room && !is_injected(InjectedFault::HideTrackingLoss) {
            self.lose();
        }
        has_room
    }

    /// Counts a lost event.
    pub fn lose(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_collected(collected: &[i32], generation: i32) -> bool {
    usize::try_from(generation).is_ok_and(|at| collected.get(at).is_some_and(|collected| *collected != 0))
}

#[cfg(test)]
mod tests;
