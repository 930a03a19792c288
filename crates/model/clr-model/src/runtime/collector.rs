//! The garbage collector: it marks from the roots, moves or keeps live objects, and reports to each profiler what its mask wants.
//!
//! The mask bits of each callback: facts, gcenv.ee.cpp and profilepriv.inl. The order is the runtime's: start, allocations, finalizer
//! queue, moved and surviving objects, roots, every object with its references, finish.

use super::calls::{call_all, low};
use super::gc_mode::GcMode;
use super::heap::{HandleKind, Heap, LARGE_GENERATION, Object, ObjectKey, monitors_gc};
use super::{Profiler, Runtime, Status};
use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use corprof::{HResult, sys};
use remora_clr_abi::callbacks::slot;
use remora_clr_abi::slot_lists::NO_TRIGGER;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// This many GCs compact; then one does not.
const COMPACTING_OF: u32 = 3;
/// Generations in GarbageCollectionStarted: the small objects' and the large objects'. The pinned object heap is one more.
const GENERATIONS: u8 = 4;
/// Steps of a background GC beside the program.
const BACKGROUND_STEPS: u32 = 4;

/// Callbacks on threads that block a GC, since they get an object outside of any GC (source: eetoprofinterfaceimpl.cpp, MODE_COOPERATIVE).
const COOPERATIVE: [&str; 4] = ["ObjectAllocated", "ExceptionThrown", "ExceptionCatcherEnter", "HandleCreated"];
/// The first release with a pinned object heap.
const FIRST_WITH_PINNED_HEAP: u16 = 5;

/// The effects of one GC, as reported to profilers.
#[derive(Debug, Default)]
struct Cycle {
    compacting: bool,
    /// Surviving objects: old address, new address, bytes.
    ranges: Vec<(usize, usize, usize)>,
    queued: Vec<usize>,
    roots: Vec<Root>,
    /// Elements of ConditionalWeakTables: handle, key, value.
    dependent: Vec<(usize, usize, usize)>,
}

/// Object, kind, flags, id.
type Root = (usize, u32, u32, usize);

impl Runtime {
    /// The program needs memory: collects generations up to this one, unless a GC is in progress.
    pub fn collect(&self, generation: u8) {
        self.safepoint();
        let is_in_background = generation >= 2 && self.is_concurrent();
        if is_in_background && self.lock().heap.gc.background {
            return;
        }
        if self.lock().suspended_by.is_some() || self.is_exiting() {
            return;
        }
        if is_in_background { self.collect_in_background() } else { self.collect_now(generation.min(2), 0) }
    }

    /// The program asks for a full GC and waits for it: GC.Collect().
    pub fn collect_all(&self) {
        self.safepoint();
        if !self.is_exiting() {
            self.collect_now(2, sys::COR_PRF_GC_INDUCED);
        }
    }

    /// ForceGC, with its thread rules (facts 4.3).
    pub(super) fn force_gc(&self, profiler: &Profiler) -> HResult {
        monitor::forces_collection(wants_basics(profiler.mask()));
        // A profiler of the environment is loaded before the GC is (source: ceemain.cpp; live: startup.rs of tests/conformance).
        if profiler.status() == Status::InitializingForStartup && !mutation::is("GCH-02/5") {
            return HResult::CORPROF_E_NOT_YET_AVAILABLE;
        }
        let task = schedule::current();
        let (known, forced) = (self.this_thread().is_some(), self.lock().heap.gc.forced.contains(&task));
        let suspends = self.lock().suspended_by == Some(task);
        let in_callback = profiler.innermost_on(task).is_some_and(|slot| known || NO_TRIGGER.contains(&slot));
        let in_callback = in_callback && !mutation::is("GCH-02/2");
        if in_callback || suspends || (known && !forced && !self.is_adopted()) {
            return HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE;
        }
        self.adopt_thread();
        if !forced {
            self.lock().heap.gc.forced.push(task);
        }
        self.collect_now(if mutation::is("GCH-02") { 0 } else { 2 }, sys::COR_PRF_GC_INDUCED);
        HResult::S_OK
    }

    /// Whether this profiler may trigger a GC on the running thread. On a thread of the runtime, only inside a callback.
    pub(super) fn may_trigger(&self, profiler: &Profiler) -> bool {
        let task = schedule::current();
        match profiler.innermost_on(task) {
            Some(slot) => !NO_TRIGGER.contains(&slot),
            None => self.this_thread().is_none() || self.lock().heap.gc.forced.contains(&task),
        }
    }

    /// Whether the running thread may make calls reserved for callbacks.
    pub(super) fn may_ask(&self, profiler: &Profiler) -> bool {
        let task = schedule::current();
        profiler.runs_on(task) || self.this_thread().is_none() || self.lock().heap.gc.forced.contains(&task)
    }

    /// A blocking GC.
    fn collect_now(&self, generation: u8, reason: u32) {
        self.suspend(sys::COR_PRF_SUSPEND_FOR_GC);
        let is_server = self.lock().heap.gc.mode == GcMode::Server;
        if is_server {
            self.on_collector_thread(generation, reason)
        } else {
            self.cycle(generation, reason)
        }
        self.resume();
        schedule::note("A collection is over", 0);
    }

    /// In server mode a thread unknown to the runtime collects: its callbacks have no counter.
    fn on_collector_thread(&self, generation: u8, reason: u32) {
        let Some(runtime) = self.myself() else { return };
        let done = Arc::new(AtomicBool::new(false));
        let of_thread = done.clone();
        schedule::spawn("a thread of the collector", move || {
            runtime.cycle(generation, reason);
            of_thread.store(true, Ordering::SeqCst);
        });
        schedule::wait_until(None, || done.load(Ordering::SeqCst));
    }

    fn cycle(&self, generation: u8, reason: u32) {
        self.begins(generation, reason);
        self.tell_births();
        schedule::point();
        let cycle = self.lock().heap.collect(generation);
        self.tell_queued(&cycle);
        self.tell_places(&cycle);
        self.tell_roots(&cycle);
        self.tell_references();
        self.finishes();
    }

    /// The target is paused only at the start. Younger generations may be collected in the meantime (nested to a depth of two).
    fn collect_in_background(&self) {
        let Some(runtime) = self.myself() else { return };
        self.suspend(sys::COR_PRF_SUSPEND_FOR_GC);
        if !self.is_concurrent() {
            // Switched off since the suspension began: the runtime chooses the GC mode while the target is paused.
            self.resume();
            return self.collect_now(2, 0);
        }
        if std::mem::replace(&mut self.lock().heap.gc.background, true) {
            return self.resume();
        }
        self.begins(2, 0);
        self.resume();
        schedule::spawn("the background collection", move || {
            runtime.begin_hidden_thread();
            for _ in 0..BACKGROUND_STEPS {
                schedule::point();
            }
            runtime.suspend(sys::COR_PRF_SUSPEND_FOR_GC_PREP);
            runtime.lock().heap.sweep();
            runtime.resume();
            runtime.finishes();
            runtime.lock().heap.gc.background = false;
            runtime.end_hidden_thread();
            schedule::note("A background collection is over", 0);
        });
    }

    /// Suspends the managed threads, after any other suspension has ended.
    fn suspend(&self, reason: u32) {
        loop {
            schedule::wait_until(None, || self.lock().suspended_by.is_none());
            let mut state = self.lock();
            if state.suspended_by.is_none() || schedule::is_stopped() {
                state.suspended_by = Some(schedule::current());
                break;
            }
        }
        self.tells_suspended(reason);
    }

    /// Reports the suspension, and waits for threads that are not at a safepoint.
    pub(super) fn tells_suspended(&self, reason: u32) {
        call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_suspend_started(reason));
        self.tell_own_suspension();
        if !mutation::is("CAT-09/3") {
            self.wait_for_cooperative_threads();
        }
        call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_suspend_finished());
    }

    /// Resumes the managed threads.
    pub(super) fn resume(&self) {
        call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_resume_started());
        self.tell_own_resumption();
        self.lock().suspended_by = None;
        call_all!(self, low(sys::COR_PRF_MONITOR_SUSPENDS), runtime_resume_finished());
    }

    fn begins(&self, generation: u8, reason: u32) {
        {
            let mut state = self.lock();
            state.heap.gc.count += 1;
            state.heap.gc.in_progress = true;
        }
        self.note_bounds();
        // Large objects are collected with generation 2.
        let generations = GENERATIONS + u8::from(self.has_pinned_heap() && !mutation::is("GCH-02/4"));
        let collected: Vec<i32> = (0..generations).map(|one| i32::from(one <= generation || generation == 2)).collect();
        let (places, count) = (collected.as_ptr(), i32::from(generations));
        call_all!(self, wants_basics, garbage_collection_started(count, places, reason));
    }

    fn finishes(&self) {
        self.note_bounds();
        call_all!(self, wants_basics, garbage_collection_finished());
        self.lock().heap.gc.in_progress = false;
    }

    /// Records the generation bounds if any profiler gets GC callbacks (source: proftoeeinterfaceimpl.cpp, UpdateGenerationBounds). They
    /// outlive the profiler.
    fn note_bounds(&self) {
        let mut state = self.lock();
        if state.profilers.iter().any(|profiler| wants_basics(profiler.mask())) {
            let bounds = state.heap.ranges(self.has_pinned_heap());
            state.heap.gc.bounds = Some(bounds);
        }
    }

    /// Whether generation 4, the pinned object heap, exists (source: gcinterface.h; since .NET 5).
    pub(super) fn has_pinned_heap(&self) -> bool {
        self.is_attachable() && self.version().0 >= FIRST_WITH_PINNED_HEAP
    }

    /// Whether objects may be inspected here and now (source: proftoeeinterfaceimpl.cpp, AllowObjectInspection).
    pub(super) fn may_inspect(&self, profiler: &Profiler) -> Result<(), HResult> {
        if self.lock().heap.gc.in_progress {
            return Ok(());
        }
        if self.this_thread().is_none() {
            return Err(HResult::CORPROF_E_NOT_MANAGED_THREAD);
        }
        let is_cooperative = profiler.innermost_on(schedule::current()).is_some_and(|slot| COOPERATIVE.contains(&slot));
        if is_cooperative { Ok(()) } else { Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE) }
    }

    fn tell_births(&self) {
        let born = std::mem::take(&mut self.lock().heap.allocated);
        // The runtime never sends an empty list (source: eetoprofinterfaceimpl.cpp, MovedReferences, and its callers; live: .NET 8 and 10).
        if born.is_empty() && !mutation::is("GCH-03/5") {
            return;
        }
        let (classes, counts): (Vec<usize>, Vec<u32>) = born.into_iter().map(|(class, count)| (class.0, count)).unzip();
        let all = counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        self.call_all(slot::OBJECTS_ALLOCATED_BY_CLASS.name, monitors_gc, |object| {
            self.lock().heap.counted += all;
            // SAFETY: two lists of one length, which this function owns; `call_all` keeps the object alive during the call.
            unsafe { object.objects_allocated_by_class(counts.len() as u32, classes.as_ptr(), counts.as_ptr()) };
        });
    }

    fn tell_queued(&self, cycle: &Cycle) {
        for queued in cycle.queued.iter().filter(|_| !mutation::is("GCH-03/3")) {
            call_all!(self, monitors_gc, finalizeable_object_queued(0, *queued));
        }
    }

    /// In both versions, the newer one first. The first version has 32-bit lengths (corprof.idl, MovedReferences2).
    fn tell_places(&self, cycle: &Cycle) {
        if cycle.ranges.is_empty() {
            return;
        }
        let (old, new, lengths): (Vec<_>, Vec<_>, Vec<_>) = cycle.ranges.iter().copied().collect();
        let short: Vec<u32> = lengths.iter().map(|length| *length as u32).collect();
        let (count, old, new) = (old.len() as u32, old.as_ptr(), new.as_ptr());
        if cycle.compacting {
            let more = if mutation::is("GCH-03/4") { sys::COR_PRF_HIGH_BASIC_GC } else { 0 };
            let wanted = |mask: (u32, u32)| {
                monitors_gc(mask) || mask.1 & (sys::COR_PRF_HIGH_MONITOR_GC_MOVED_OBJECTS | more) != 0
            };
            self.call_all(slot::MOVED_REFERENCES.name, wanted, |object| {
                // SAFETY: three lists of one length, which the caller owns; `call_all` keeps the object alive during the call.
                let answer = unsafe { object.moved_references2(count, old, new, lengths.as_ptr()) };
                if !is_declined(answer) && !mutation::is("GCH-03/6") {
                    // SAFETY: three lists of one length, which the caller owns; `call_all` keeps the object alive during the call.
                    unsafe { object.moved_references(count, old, new, short.as_ptr()) };
                }
            });
        } else {
            self.call_all(slot::SURVIVING_REFERENCES.name, monitors_gc, |object| {
                // SAFETY: two lists of one length, which the caller owns; `call_all` keeps the object alive during the call.
                if !is_declined(unsafe { object.surviving_references2(count, old, lengths.as_ptr()) }) {
                    // SAFETY: two lists of one length, which the caller owns; `call_all` keeps the object alive during the call.
                    unsafe { object.surviving_references(count, old, short.as_ptr()) };
                }
            });
        }
    }

    fn tell_roots(&self, cycle: &Cycle) {
        let (objects, kinds, flags, ids): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = cycle.roots.iter().copied().collect();
        let (count, places) = (objects.len() as u32, objects.as_ptr());
        self.call_all(
            slot::ROOT_REFERENCES2.name,
            |mask| count > 0 && monitors_gc(mask),
            |object| {
                // SAFETY: four lists of one length, which the caller owns; `call_all` keeps the object alive during the call.
                let answer =
                    unsafe { object.root_references2(count, places, kinds.as_ptr(), flags.as_ptr(), ids.as_ptr()) };
                if !is_declined(answer) {
                    // SAFETY: a list of that length, which the caller owns; `call_all` keeps the object alive during the call.
                    unsafe { object.root_references(count, places) };
                }
            },
        );
        if !cycle.dependent.is_empty() {
            let (handles, keys, values): (Vec<_>, Vec<_>, Vec<_>) = cycle.dependent.iter().copied().collect();
            let (count, keys, values) = (keys.len() as u32, keys.as_ptr(), values.as_ptr());
            let handles = handles.as_ptr();
            call_all!(self, monitors_gc, conditional_weak_table_element_references(count, keys, values, handles));
        }
    }

    /// Reports every object with its references, until the profiler declines.
    fn tell_references(&self) {
        if !self.profilers().iter().any(|profiler| monitors_gc(profiler.mask())) {
            return;
        }
        let has_enough = Cell::new(false);
        for (id, class, _, references) in self.objects() {
            let references: Vec<usize> = references.iter().map(|object| object.0).collect();
            self.call_all(slot::OBJECT_REFERENCES.name, monitors_gc, |object| {
                // The runtime passes no list for an object without references (live: .NET 8 and 10).
                let places = if references.is_empty() { null() } else { references.as_ptr() };
                let count = references.len() as u32;
                // SAFETY: the ids are live, and `object` keeps the callback object alive.
                let answer = unsafe { object.object_references(id.0, class.0, count, places) };
                has_enough.set(is_declined(answer));
            });
            if has_enough.get() {
                return;
            }
        }
    }
}

/// Whether the profiler has answered that it wants no more of this.
fn is_declined(answer: Option<HResult>) -> bool {
    answer.is_some_and(|code| !code.is_success())
}

fn wants_basics(mask: (u32, u32)) -> bool {
    monitors_gc(mask) || mask.1 & sys::COR_PRF_HIGH_BASIC_GC != 0
}

impl Heap {
    /// Collects generations up to this one. Older objects stay, with everything that they reference.
    fn collect(&mut self, generation: u8) -> Cycle {
        let mut cycle = Cycle { compacting: !self.gc.count.is_multiple_of(COMPACTING_OF), ..Cycle::default() };
        let is_collected = |object: &Object| generation == 2 || object.generation <= generation;
        cycle.queued = self.free_dead(&is_collected);
        let pinned = self.pinned();
        let survivors: Vec<ObjectKey> =
            self.objects.iter().filter(|(_, object)| is_collected(object)).map(|(key, _)| *key).collect();
        for key in survivors {
            let stays = !cycle.compacting || pinned.contains(&key);
            cycle.ranges.extend(self.survive(key, stays));
        }
        self.update_statics();
        cycle.roots = self.roots();
        let id = |key: &ObjectKey| self.id_of(*key).unwrap_or_default();
        cycle.dependent = self.dependent.iter().map(|(handle, key, value)| (*handle, id(key), id(value))).collect();
        cycle
    }

    /// The work of a background GC: nothing moves, no object is reported.
    fn sweep(&mut self) {
        self.free_dead(&|_| true);
        self.update_statics();
    }

    /// Frees unreachable objects. Returns those that wait for the finalizer, which has run for those of the GC before.
    fn free_dead(&mut self, is_collected: &dyn Fn(&Object) -> bool) -> Vec<usize> {
        self.to_finalize.clear();
        let mut live = self.mark(is_collected);
        let queued = self.queue_for_finalizer(&mut live);
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !live.contains(key)).copied().collect();
        if !mutation::is("GCH-03/2") {
            gone.into_iter().for_each(|key| self.free(key));
        }
        let objects = &self.objects;
        self.dependent.retain(|(_, key, _)| objects.contains_key(key));
        queued
    }

    fn survive(&mut self, key: ObjectKey, stays: bool) -> Option<(usize, usize, usize)> {
        let object = self.objects.get(&key)?.clone();
        let stays = stays || object.generation >= LARGE_GENERATION;
        let place = if stays { object.address } else { self.place(object.size) };
        if !mutation::is("GCH-04/2") {
            self.at.remove(&object.address);
        }
        self.at.insert(place, key);
        let moved = self.objects.get_mut(&key)?;
        moved.address = place;
        if moved.generation < 2 {
            moved.generation += 1;
        }
        let reported = if mutation::is("GCH-03") { object.address } else { place };
        Some((object.address, reported, object.size))
    }

    fn mark(&self, is_collected: &dyn Fn(&Object) -> bool) -> BTreeSet<ObjectKey> {
        let older = self.objects.iter().filter(|(_, object)| !is_collected(object)).map(|(key, _)| *key);
        let mut live = BTreeSet::new();
        self.mark_from(older.chain(self.held()).collect(), &mut live);
        live
    }

    fn mark_from(&self, mut open: Vec<ObjectKey>, live: &mut BTreeSet<ObjectKey>) {
        while let Some(key) = open.pop() {
            let Some(object) = self.objects.get(&key) else { continue };
            if live.insert(key) {
                open.extend(&object.references);
                open.extend(self.dependent.iter().filter(|(_, of, _)| *of == key).map(|(_, _, value)| *value));
            }
        }
    }

    /// Objects that roots reference.
    fn held(&self) -> impl Iterator<Item = ObjectKey> {
        let handles = self.handles.values().filter(|(_, kind)| *kind != HandleKind::Weak).map(|(key, _)| *key);
        let statics = self.statics.values().filter_map(|field| field.object);
        self.locals.values().flatten().copied().chain(handles).chain(statics).chain(self.to_finalize.iter().copied())
    }

    fn queue_for_finalizer(&mut self, live: &mut BTreeSet<ObjectKey>) -> Vec<usize> {
        let dead = |(key, object): (&ObjectKey, &Object)| (object.finalizable && !live.contains(key)).then_some(*key);
        let queued: Vec<ObjectKey> = self.objects.iter().filter_map(dead).collect();
        for key in &queued {
            if let Some(object) = self.objects.get_mut(key) {
                object.finalizable = false;
            }
        }
        self.mark_from(queued.clone(), live);
        self.to_finalize.clone_from(&queued);
        queued.into_iter().filter_map(|key| self.id_of(key)).collect()
    }

    fn pinned(&self) -> BTreeSet<ObjectKey> {
        self.handles.values().filter(|(_, kind)| *kind == HandleKind::Pinned).map(|(key, _)| *key).collect()
    }

    fn roots(&self) -> Vec<Root> {
        let id = |key: &ObjectKey| self.id_of(*key).unwrap_or_default();
        let mut roots: Vec<Root> = Vec::new();
        for (thread, keys) in &self.locals {
            // In a real process the id is that of the function whose frame contains the root.
            roots.extend(keys.iter().map(|key| (id(key), sys::COR_PRF_GC_ROOT_STACK, 0, thread.0)));
        }
        for (handle, (key, kind)) in self.handles.iter().filter(|_| !mutation::is("GCH-02/3")) {
            let flags = match kind {
                HandleKind::Weak => sys::COR_PRF_GC_ROOT_WEAKREF,
                HandleKind::Strong => 0,
                HandleKind::Pinned => sys::COR_PRF_GC_ROOT_PINNING,
            };
            // A weak handle may reference a freed object.
            roots.extend(self.id_of(*key).map(|object| (object, sys::COR_PRF_GC_ROOT_HANDLE, flags, *handle)));
        }
        // Statics lie in arrays referenced by pinned handles.
        let statics = self.statics.values().filter_map(|field| field.object.as_ref());
        roots.extend(statics.map(|key| (id(key), sys::COR_PRF_GC_ROOT_HANDLE, 0, 0)));
        roots.extend(self.to_finalize.iter().map(|key| (id(key), sys::COR_PRF_GC_ROOT_FINALIZER, 0, 0)));
        roots
    }
}
