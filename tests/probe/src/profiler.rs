//! The callbacks: each is counted, interesting ones are logged with their id, and blocked on request of the test.

use crate::orders::prompt;
use crate::seat::Seat;
use crate::shared::{Loaded, Shared};
use corprof::{
    Alive, Attached, CallbackToken, ClassId, FunctionId, GcReason, Guid, HResult, HandleId, Info, Loading, MethodToken,
    ModuleId, ObjectId, ProfilerCallback, ProviderId, RejitId, RootFlags, RootKind, Startup, ThreadId, sys,
};
use std::sync::Arc;

/// The environment variable with the path of the test's socket.
const SOCKET: &str = "REMORA_PROBE_SOCKET";

/// The profiler object of the runtime. It takes a seat called `Released` when the last reference is released.
#[derive(Default)]
pub struct Probe {
    shared: Arc<Shared>,
    is_only_notified: bool,
}

impl Probe {
    /// A notification-only profiler, where the runtime has these.
    pub fn only_notified() -> Probe {
        Probe { shared: Arc::default(), is_only_notified: true }
    }

    /// Initialises: the runtime waits for the test's orders.
    fn begin<L: Loading>(
        &self,
        info: Info<L, Alive>,
        loaded: fn(Info<L, Alive>) -> Loaded,
        place: &str,
        data: &[u8],
    ) -> Result<(), HResult> {
        let path = info.get_environment_variable(SOCKET)?;
        self.shared.socket.set(path.into()).map_err(|_| HResult::E_UNEXPECTED)?;
        self.shared.loaded.set(loaded(info)).map_err(|_| HResult::E_UNEXPECTED)?;
        self.shared.journal.note(place, data.len());
        prompt(Seat::take(&self.shared, place, data)).ok()
    }

    /// Logs a callback; blocks as long as the test wants, if requested.
    fn shown(&self, slot: &str, id: usize) {
        self.answered(slot, id);
    }

    /// The same; returns the test's code.
    fn answered(&self, slot: &str, id: usize) -> HResult {
        // The runtime does not wait for every callback: this object may be freed before the test lets it return.
        let shared = Arc::clone(&self.shared);
        shared.journal.note(slot, id);
        let is_held = shared.journal.is_held(slot);
        if is_held { prompt(Seat::take(&shared, &format!("{slot} {id:#x}"), &[])) } else { HResult::S_OK }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        Seat::pass_by(&self.shared, "Released");
    }
}

impl ProfilerCallback for Probe {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        self.shared.journal.count(slot);
        CallbackToken::default()
    }

    fn load_as_notification_only(&self) -> bool {
        self.is_only_notified
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        self.begin(info, Loaded::Startup, "Initialize", &[])
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        self.begin(info, Loaded::Attached, "InitializeForAttach", client_data)
    }

    fn profiler_attach_complete(&self) {
        self.shown("ProfilerAttachComplete", 0);
    }

    fn profiler_detach_succeeded(&self) {
        let journal = &self.shared.journal;
        journal.note("ProfilerDetachSucceeded", 0);
        let seat = Seat::take(&self.shared, "ProfilerDetachSucceeded", &[]);
        if journal.is_held("ProfilerDetachSucceeded") {
            prompt(seat);
        }
    }

    fn shutdown(&self) {
        self.shown("Shutdown", 0);
    }

    fn module_load_finished(&self, module: ModuleId, _: HResult) {
        self.shown("ModuleLoadFinished", module.0);
    }

    fn module_unload_started(&self, module: ModuleId) {
        self.shown("ModuleUnloadStarted", module.0);
    }

    fn module_unload_finished(&self, module: ModuleId, _: HResult) {
        self.shown("ModuleUnloadFinished", module.0);
    }

    fn class_load_finished(&self, class: ClassId, _: HResult) {
        self.shown("ClassLoadFinished", class.0);
    }

    fn jit_compilation_started(&self, function: FunctionId, _: bool) {
        self.shown("JITCompilationStarted", function.0);
    }

    fn jit_compilation_finished(&self, function: FunctionId, _: HResult, _: bool) {
        self.shown("JITCompilationFinished", function.0);
    }

    fn dynamic_method_jit_compilation_finished(&self, function: FunctionId, _: HResult, _: bool) {
        self.shown("DynamicMethodJITCompilationFinished", function.0);
    }

    fn rejit_parameters(
        &self,
        module: ModuleId,
        method: MethodToken,
        control: *mut sys::ICorProfilerFunctionControl,
    ) -> Result<(), HResult> {
        self.shared.parameters.are_asked(module.0, method.0, control);
        self.answered("GetReJITParameters", method.0 as usize).ok()
    }

    fn rejit_compilation_finished(&self, _: FunctionId, _: RejitId, status: HResult, _: bool) {
        self.shown("ReJITCompilationFinished", status.0 as u32 as usize);
    }

    fn rejit_error(&self, _: ModuleId, _: MethodToken, _: FunctionId, status: HResult) {
        self.shown("ReJITError", status.0 as u32 as usize);
    }

    fn thread_created(&self, thread: ThreadId) {
        self.shown("ThreadCreated", thread.0);
    }

    fn exception_thrown(&self, object: ObjectId) {
        self.shown("ExceptionThrown", object.0);
    }

    fn object_allocated(&self, _: ObjectId, class: ClassId) {
        self.shown("ObjectAllocated", class.0);
    }

    fn event_pipe_event_delivered(
        &self,
        _: ProviderId,
        event: u32,
        _: u32,
        _: &[u8],
        _: &[u8],
        _: Option<&Guid>,
        _: Option<&Guid>,
        _: ThreadId,
        _: &[usize],
    ) {
        self.shown("EventPipeEventDelivered", event as usize);
    }

    fn garbage_collection_started(&self, generations: &[i32], reason: GcReason) {
        let is_whole = generations.get(2).is_some_and(|collected| *collected != 0);
        self.shared.witness.started(is_whole && reason == GcReason::INDUCED);
        let oldest = generations.iter().take(3).rposition(|collected| *collected != 0);
        self.shown("GarbageCollectionStarted", oldest.unwrap_or(0));
    }

    fn object_references(&self, object: ObjectId, class: ClassId, references: &[ObjectId]) -> Result<(), HResult> {
        if let Some(loaded) = self.shared.loaded.get() {
            self.shared.witness.object(loaded.heap_view(), object, class, references);
        }
        Ok(())
    }

    fn root_references2(
        &self,
        roots: &[ObjectId],
        kinds: &[RootKind],
        flags: &[RootFlags],
        ids: &[usize],
    ) -> Result<(), HResult> {
        self.shared.witness.roots(roots, kinds, flags, ids);
        Ok(())
    }

    fn conditional_weak_table_element_references(
        &self,
        primaries: &[ObjectId],
        secondaries: &[ObjectId],
        ids: &[HandleId],
    ) -> Result<(), HResult> {
        self.shared.witness.dependents(primaries, secondaries, ids);
        Ok(())
    }

    fn garbage_collection_finished(&self) {
        if let Some(loaded) = self.shared.loaded.get() {
            self.shared.witness.finished(loaded.heap_view());
        }
        self.shown("GarbageCollectionFinished", 0);
    }
}
