//! The profiler callbacks: each sets state for the worker thread and returns.

use crate::attached;
use crate::clr::{HIGH_MASK_OF_HEAP, LOW_MASK, LOW_MASK_OF_COLLECTIONS};
use crate::gc_monitor::GcMonitor;
use crate::heap_tracker::HeapTracker;
use crate::host::{Host, HostedPlatform};
use crate::platform::Platform;
use crate::shared::Shared;
use crate::unload_barrier::Unload;
use corprof::{
    Alive, Attached, CallbackToken, ClassId, FunctionId, GcReason, HResult, HandleId, Info, ModuleId, ObjectId,
    ProfilerCallback, RootFlags, RootKind, Startup, SuspendReason, ThreadId,
};
use remora_heap_stream::{DEPENDENT_ROOT, FINALIZER_ROOT, HANDLE_ROOT, OTHER_ROOT, PINNED_ROOT, STACK_ROOT};
use remora_sampler::{HeapRange, HeapReader};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The callback object. Does nothing before InitializeForAttach.
pub struct Agent<H: Host> {
    host: H,
    notification_only: bool,
    shared: OnceLock<Arc<Shared<H::Platform>>>,
}

impl<H: Host> Agent<H> {
    /// A callback object: a main profiler or a notification-only one.
    pub fn new(host: H, notification_only: bool) -> Agent<H> {
        Agent { host, notification_only, shared: OnceLock::new() }
    }

    /// The attach, in a library built for heaps.
    fn of_heap(&self) -> Option<&Shared<H::Platform>> {
        self.shared.get().filter(|_| H::Platform::TASKS.heap).map(Arc::as_ref)
    }

    fn unloading(&self, what: Unload) {
        if let Some(shared) = self.shared.get() {
            shared.unload_barrier.before_unload(&shared.platform, what);
        }
    }

    /// If the heap is tracked: calls `tell`, and measures its time.
    fn watching(&self, tell: impl FnOnce(&Shared<H::Platform>, &HeapTracker)) {
        if let Some(shared) = self.of_heap()
            && let Some(watch) = shared.heap_tracker.get()
        {
            let begun = shared.platform.now();
            tell(shared, watch);
            watch.took(shared.platform.now().saturating_sub(begun));
        }
    }

    /// This thread begins to suspend the runtime for a GC, or the runtime resumes.
    fn collects(&self, is_begun: bool) {
        if let Some(shared) = self.shared.get().filter(|_| H::Platform::TASKS.recordings) {
            shared.platform.collects(is_begun);
        }
    }

    fn threads_changed(&self) {
        if let Some(shared) = self.shared.get() {
            shared.threads_changed.store(true, Ordering::SeqCst);
            shared.platform.wake();
        }
    }
}

/// The stream's number for a root's kind. `None` for a weak reference.
fn holding(kind: RootKind, flags: RootFlags) -> Option<u64> {
    if flags.contains(RootFlags::WEAKREF) {
        return None;
    }
    Some(match kind {
        RootKind::FINALIZER => FINALIZER_ROOT,
        _ if flags.contains(RootFlags::PINNING) => PINNED_ROOT,
        RootKind::STACK => STACK_ROOT,
        RootKind::HANDLE => HANDLE_ROOT,
        _ => OTHER_ROOT,
    })
}

impl<P: HostedPlatform> Shared<P> {
    /// In GarbageCollectionStarted of a snapshot's GC: enables the reports that the snapshot needs. False: skip this GC.
    fn enable_gc_monitoring(&self, monitor: &GcMonitor) -> bool {
        let Some(heap) = self.snapshot.view() else { return false };
        // If the heap is unavailable, it counts as too expensive.
        let mut is_too_expensive = true;
        self.platform.look(heap, &mut |heap, into| is_too_expensive = monitor.is_too_expensive(heap, into));
        let answer =
            monitor.enable(is_too_expensive, |high| self.platform.set_event_mask(heap, LOW_MASK_OF_COLLECTIONS, high));
        if let Err(code) = answer {
            self.roots_refused.store(code, Ordering::SeqCst);
        }
        let is_reported = answer == Ok(true);
        if let Some(watch) = self.heap_tracker.get().filter(|_| is_reported) {
            watch.gets_survivors();
        }
        is_reported
    }

    /// In a GC callback: shows the heap, or counts a loss.
    fn looking(&self, watch: &HeapTracker, visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {
        let mut has_looked = false;
        if let Some(heap) = watch.view() {
            self.platform.look(heap, &mut |heap, into| {
                has_looked = true;
                visit(heap, into);
            });
        }
        if !has_looked {
            watch.lose();
        }
    }
}

impl<H: Host> ProfilerCallback for Agent<H> {
    fn enter(&self, _slot: &'static str) -> CallbackToken {
        self.shared.get().map(|shared| shared.enter_callback()).unwrap_or_default()
    }

    fn leave(&self, _slot: &'static str, token: CallbackToken) {
        // A callback that started before InitializeForAttach set the shared state was not counted. Its token says so.
        if let Some(shared) = self.shared.get() {
            shared.leave_callback(token);
        }
    }

    fn on_panic(&self, _slot: &'static str) {
        if let Some(shared) = self.shared.get() {
            shared.panicked.store(true, Ordering::SeqCst);
            shared.platform.wake();
        }
    }

    fn load_as_notification_only(&self) -> bool {
        self.notification_only
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        let shared = attached::begin_at_startup(&self.host, info.into_common(), self.notification_only)?;
        // As in InitializeForAttach.
        let _ = self.shared.set(shared);
        Ok(())
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        let shared = attached::begin(&self.host, info, client_data, self.notification_only)?;
        // The first and only value: the runtime initialises a callback object once.
        let _ = self.shared.set(shared);
        Ok(())
    }

    fn profiler_attach_complete(&self) {
        if let Some(shared) = self.shared.get() {
            shared.attach_complete.store(true, Ordering::SeqCst);
            shared.platform.wake();
        }
    }

    fn shutdown(&self) {
        if let Some(shared) = self.shared.get() {
            shared.shutdown.store(true, Ordering::SeqCst);
            shared.platform.wake();
        }
    }

    fn profiler_detach_succeeded(&self) {
        if let Some(shared) = self.shared.get() {
            shared.platform.tell_detached();
        }
    }

    fn module_unload_started(&self, module: ModuleId) {
        let watch = self.of_heap().and_then(|shared| shared.heap_tracker.get());
        let collections = watch.map_or(0, HeapTracker::collections);
        if let Some(watch) = watch {
            watch.classes_change();
        }
        self.unloading(Unload::Module { id: module.0, collections });
    }

    fn dynamic_method_unloaded(&self, function: FunctionId) {
        self.unloading(Unload::Function(function.0));
    }

    fn thread_assigned_to_os_thread(&self, _thread: ThreadId, _os_thread: u32) {
        self.threads_changed();
    }

    fn thread_destroyed(&self, _thread: ThreadId) {
        self.threads_changed();
    }

    fn exception_thrown(&self, exception: ObjectId) {
        if let Some(shared) = self.shared.get().filter(|_| H::Platform::TASKS.recordings)
            && let Some(view) = shared.exceptions.get()
        {
            shared.platform.thrown(*view, exception);
        }
    }

    fn garbage_collection_started(&self, collected: &[i32], reason: GcReason) {
        let Some(shared) = self.of_heap() else { return };
        let monitor = shared.gc_monitor.get();
        let mut counting = monitor.map(GcMonitor::counting);
        let begun = shared.platform.now();
        if shared.snapshot.collection_starts(collected, reason) {
            if let Some(monitor) = monitor.filter(|monitor| monitor.is_requested()) {
                if !shared.enable_gc_monitoring(monitor) {
                    return shared.snapshot.skip_collection();
                }
                counting = None;
            }
            shared.platform.roots_begin();
        }
        self.watching(|shared, watch| {
            let put = |piece: &[u8]| shared.platform.tell_of_collection(piece);
            watch.begins(begun, collected, reason, &put);
            shared.looking(watch, &mut |heap, into| watch.bounds(heap, into, collected, counting, &put));
            if let Some(heap) = watch.view() {
                // Cannot be refused: it only clears flags.
                watch.stop_if_too_expensive(|| {
                    _ = shared.platform.set_event_mask(heap, LOW_MASK, HIGH_MASK_OF_HEAP);
                });
            }
        });
    }

    fn objects_allocated_by_class(&self, classes: &[ClassId], counts: &[u32]) -> Result<(), HResult> {
        self.watching(|shared, watch| {
            let now = shared.platform.now();
            shared.looking(watch, &mut |heap, _| {
                let counted = classes.iter().map(|class| class.0 as u64).zip(counts.iter().copied());
                watch.allocated(now, heap, counted, &|piece| shared.platform.tell_of_collection(piece));
            });
        });
        Ok(())
    }

    fn moved_references2(&self, old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[usize]) {
        let places = old_starts.iter().zip(new_starts).zip(lengths);
        let ranges = places.map(|((old, new), length)| (old.0 as u64, new.0 as u64, *length as u64));
        self.watching(|shared, watch| watch.live(ranges, &|piece| shared.platform.tell_of_collection(piece)));
    }

    fn surviving_references2(&self, starts: &[ObjectId], lengths: &[usize]) {
        let ranges = starts.iter().zip(lengths).map(|(start, length)| (start.0 as u64, *length as u64));
        self.watching(|shared, watch| watch.stay(ranges, &|piece| shared.platform.tell_of_collection(piece)));
    }

    fn root_references2(
        &self,
        roots: &[ObjectId],
        kinds: &[RootKind],
        flags: &[RootFlags],
        ids: &[usize],
    ) -> Result<(), HResult> {
        if let Some(shared) = self.of_heap()
            && let Some(watch) = shared.heap_tracker.get()
        {
            watch.roots_begin(shared.platform.now());
        }
        if let Some(shared) = self.of_heap().filter(|shared| shared.snapshot.collects()) {
            for (((object, kind), flags), id) in roots.iter().zip(kinds).zip(flags).zip(ids) {
                if let Some(kind) = holding(*kind, *flags).filter(|_| object.0 != 0) {
                    shared.platform.keep_root(kind, object.0 as u64, *id as u64);
                }
            }
        }
        Ok(())
    }

    fn conditional_weak_table_element_references(
        &self,
        keys: &[ObjectId],
        values: &[ObjectId],
        _: &[HandleId],
    ) -> Result<(), HResult> {
        if let Some(shared) = self.of_heap().filter(|shared| shared.snapshot.collects()) {
            for (key, value) in keys.iter().zip(values).filter(|(_, value)| value.0 != 0) {
                shared.platform.keep_root(DEPENDENT_ROOT, value.0 as u64, key.0 as u64);
            }
        }
        Ok(())
    }

    fn object_references(&self, _: ObjectId, _: ClassId, _: &[ObjectId]) -> Result<(), HResult> {
        // The forked copy walks the heap. An error at the first object ends the runtime's own walk, and it still reports roots (seen on
        // 3.1, 8, 9 and 10).
        Err(HResult::E_ABORT)
    }

    fn garbage_collection_finished(&self) {
        let Some(shared) = self.of_heap() else { return };
        let wanted = shared.snapshot.collection_ends();
        if let Some(watch) = shared.heap_tracker.get() {
            let put = |piece: &[u8]| shared.platform.tell_of_collection(piece);
            shared.looking(watch, &mut |heap, _| watch.born(heap, &put));
            watch.ends(shared.platform.now(), wanted.is_some(), &put);
        }
        let Some(heap) = wanted else { return };
        if let Some(monitor) = shared.gc_monitor.get().filter(|_| shared.heap_tracker.get().is_none()) {
            // Cannot be refused: it only clears flags.
            monitor.disable(|high| _ = shared.platform.set_event_mask(heap, LOW_MASK, high));
        }
        shared.platform.fork_snapshot(heap);
    }

    fn runtime_suspend_aborted(&self) {
        self.collects(false);
    }

    fn runtime_resume_started(&self) {
        self.collects(false);
        if let Some(shared) = self.of_heap() {
            shared.snapshot.application_resumes();
        }
    }

    fn runtime_suspend_started(&self, reason: SuspendReason) {
        self.collects(reason == SuspendReason::FOR_GC || reason == SuspendReason::FOR_GC_PREP);
        if let Some(shared) = self.shared.get() {
            shared.callback_proof.suspension_begins(reason, shared.platform.this_thread());
        }
    }
}
