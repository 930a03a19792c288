//! A scripted profiler: it records every callback, and acts in those that the test names.

mod versioned;

use crate::callback_data::CallbackData;
use crate::faults::Faults;
use crate::library::{Exports, Library};
use crate::runtime::FREED;
use corprof::{
    Alive, Attached, CallbackToken, ClassId, FunctionId, GcReason, Guid, HResult, HandleId, Info, MethodToken,
    ModuleId, ObjectId, ProfilerCallback, ProviderId, RejitId, RootFlags, RootKind, Startup, ThreadId,
    dll_get_class_object, sys,
};
use remora_clr_abi::slot_lists::CALLBACKS_WITH_DATA;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// An action of a scripted profiler in a callback.
pub type Act = Box<dyn Fn(&Script) + Send + Sync>;

/// How a scripted profiler answers its initialisation.
type Decision = Box<dyn Fn(&Script) -> HResult + Send + Sync>;
/// A property of the library's objects, by number from 0 on.
type OfObject = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// The script, and its record of events. A test keeps it next to the library.
pub struct Script {
    /// By callback name; `InitializeForAttach` and `Initialize` act after Info is set.
    acts: HashMap<&'static str, Act>,
    /// The answer of the initialisation; success by default.
    decision: Decision,
    notification_only: OfObject,
    refused: OfObject,
    version: u8,
    journal: Mutex<Vec<&'static str>>,
    steps: Mutex<Vec<&'static str>>,
    classes: Mutex<Vec<Guid>>,
    callback_data: Mutex<Vec<CallbackData>>,
    /// The last module or function that began to load or compile.
    begun: AtomicUsize,
    client_data: Mutex<Vec<u8>>,
    /// Address and length of the client data, for scripts that wrongly keep the pointer.
    lent: (AtomicUsize, AtomicUsize),
    faults: OnceLock<Arc<Faults>>,
    /// One per initialised object, in that order.
    infos: Mutex<Vec<usize>>,
    info: AtomicPtr<sys::ICorProfilerInfo>,
    attached: Mutex<Option<Info<Attached, Alive>>>,
    startup: Mutex<Option<Info<Startup, Alive>>>,
}

impl Script {
    /// A script that only records.
    pub fn new() -> Script {
        Script {
            acts: HashMap::new(),
            decision: Box::new(|_| HResult::S_OK),
            notification_only: Box::new(|_| false),
            refused: Box::new(|_| false),
            version: NEWEST,
            journal: Mutex::default(),
            steps: Mutex::default(),
            classes: Mutex::default(),
            callback_data: Mutex::default(),
            begun: AtomicUsize::new(0),
            client_data: Mutex::default(),
            lent: Default::default(),
            faults: OnceLock::new(),
            infos: Mutex::default(),
            info: AtomicPtr::default(),
            attached: Mutex::default(),
            startup: Mutex::default(),
        }
    }

    /// Adds an action in a callback.
    #[must_use]
    pub fn on(mut self, callback: &'static str, act: impl Fn(&Script) + Send + Sync + 'static) -> Script {
        self.acts.insert(callback, Box::new(act));
        self
    }

    /// Answers the initialisation with a code.
    #[must_use]
    pub fn answering(self, code: HResult) -> Script {
        self.deciding(move |_| code)
    }

    /// Decides the answer of the initialisation, with access to Info.
    #[must_use]
    pub fn deciding(mut self, decision: impl Fn(&Script) -> HResult + Send + Sync + 'static) -> Script {
        self.decision = Box::new(decision);
        self
    }

    /// Supports no callback newer than this.
    #[must_use]
    pub fn of_version(mut self, version: u8) -> Script {
        self.version = version;
        self
    }

    /// Refuses to make some objects, by number from 0 on.
    #[must_use]
    pub fn refusing_to_make(mut self, refused: impl Fn(usize) -> bool + Send + Sync + 'static) -> Script {
        self.refused = Box::new(refused);
        self
    }

    /// Asks to be notification-only.
    #[must_use]
    pub fn only_notified(self) -> Script {
        self.only_notified_where(|_| true)
    }

    /// The same for some objects, by number from 0 on.
    #[must_use]
    pub fn only_notified_where(mut self, notified: impl Fn(usize) -> bool + Send + Sync + 'static) -> Script {
        self.notification_only = Box::new(notified);
        self
    }

    /// The callbacks so far, by name.
    pub fn journal(&self) -> Vec<&'static str> {
        self.journal.lock().expect("no panic while locked").clone()
    }

    /// All calls of the library and its objects so far, callbacks included, in order.
    pub fn steps(&self) -> Vec<&'static str> {
        self.steps.lock().expect("no panic while locked").clone()
    }

    /// The requested classes.
    pub fn classes(&self) -> Vec<Guid> {
        self.classes.lock().expect("no panic while locked").clone()
    }

    /// How often a callback came.
    pub fn count(&self, callback: &str) -> usize {
        self.journal().iter().filter(|known| **known == callback).count()
    }

    /// The client data during InitializeForAttach.
    pub fn client_data(&self) -> Vec<u8> {
        self.client_data.lock().expect("no panic while locked").clone()
    }

    /// The current bytes at the address of the client data: a profiler that kept the pointer reads these.
    pub fn client_data_now(&self) -> Vec<u8> {
        let (start, length) = (self.lent.0.load(Ordering::SeqCst), self.lent.1.load(Ordering::SeqCst));
        // SAFETY: the model keeps freed client data while it remembers the profiler.
        (0..length).map(|index| unsafe { (start as *const u8).add(index).read() }).collect()
    }

    /// Info of an object, by order of initialisation.
    pub fn raw_of(&self, object: usize) -> *mut sys::ICorProfilerInfo {
        let infos = self.infos.lock().expect("no panic while locked");
        infos.get(object).map_or(std::ptr::null_mut(), |info| *info as *mut sys::ICorProfilerInfo)
    }

    /// The id of the last ModuleLoadStarted or JITCompilationStarted.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The data of the callbacks so far.
    pub fn callback_data(&self) -> Vec<CallbackData> {
        self.callback_data.lock().expect("no panic while locked").clone()
    }

    /// The last callback's data.
    pub fn last_callback_data(&self) -> Option<CallbackData> {
        self.callback_data.lock().expect("no panic while locked").last().cloned()
    }

    /// Reads the client data again through the pointer of InitializeForAttach. After that call, the memory belongs to the runtime, and a
    /// read is reported as a fault.
    pub fn read_client_data_again(&self) -> Vec<u8> {
        let bytes = self.client_data_now();
        if let Some(faults) = self.faults.get().filter(|_| !bytes.is_empty() && bytes.iter().all(|byte| *byte == FREED))
        {
            faults.report("ATT-11", "client data was read after InitializeForAttach had returned: it is freed memory");
        }
        bytes
    }

    /// The runtime's Info, for calls through [`sys`], including calls that must be refused. Null before the initialisation.
    pub fn raw(&self) -> *mut sys::ICorProfilerInfo {
        self.info.load(Ordering::SeqCst)
    }

    /// The typed Info; it can be taken once.
    pub fn take_attached(&self) -> Option<Info<Attached, Alive>> {
        self.attached.lock().expect("no panic while locked").take()
    }

    /// The same for a profiler loaded at startup.
    pub fn take_startup(&self) -> Option<Info<Startup, Alive>> {
        self.startup.lock().expect("no panic while locked").take()
    }

    /// SetEventMask2, with the runtime's answer.
    pub fn set_mask(&self, low: u32, high: u32) -> HResult {
        // SAFETY: the model keeps Info alive during the schedule.
        HResult(unsafe { sys::ICorProfilerInfo5::SetEventMask2(self.raw().cast(), low, high) })
    }

    /// SetEventMask, with the runtime's answer.
    pub fn set_mask_low(&self, low: u32) -> HResult {
        // SAFETY: the model keeps Info alive during the schedule.
        HResult(unsafe { sys::ICorProfilerInfo::SetEventMask(self.raw(), low) })
    }

    /// RequestProfilerDetach, with the runtime's answer.
    pub fn request_detach(&self, milliseconds: u32) -> HResult {
        // SAFETY: the model keeps Info alive during the schedule.
        HResult(unsafe { sys::ICorProfilerInfo3::RequestProfilerDetach(self.raw().cast(), milliseconds) })
    }

    fn has_initialized(&self, callback: &'static str) -> Result<(), HResult> {
        self.act(callback);
        (self.decision)(self).ok()
    }

    fn step(&self, step: &'static str) {
        self.steps.lock().expect("no panic while locked").push(step);
    }

    fn has_info(&self, info: *mut sys::ICorProfilerInfo) {
        self.info.store(info, Ordering::SeqCst);
        self.infos.lock().expect("no panic while locked").push(info as usize);
    }

    fn received(&self, callback: &'static str, callback_data: CallbackData) {
        self.callback_data.lock().expect("no panic while locked").push(callback_data);
        self.act(callback);
    }

    fn act(&self, callback: &'static str) {
        if let Some(act) = self.acts.get(callback) {
            act(self);
        }
    }
}

impl Default for Script {
    fn default() -> Script {
        Script::new()
    }
}

/// The newest callback.
const NEWEST: u8 = 11;

struct Scripted {
    script: Arc<Script>,
    /// Its number among the library's objects, from 0 on.
    number: usize,
}

impl ProfilerCallback for Scripted {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        self.script.step(slot);
        self.script.journal.lock().expect("no panic while locked").push(slot);
        if !slot.starts_with("Initialize") && !CALLBACKS_WITH_DATA.contains(&slot) {
            self.script.act(slot);
        }
        CallbackToken(0)
    }

    /// The fence hides a failed assertion from the runtime, but must not hide it from the test.
    fn on_panic(&self, slot: &'static str) {
        if let Some(faults) = self.script.faults.get() {
            faults.report("SCRIPT", format!("what the script asserts in {slot} does not hold"));
        }
    }

    fn load_as_notification_only(&self) -> bool {
        (self.script.notification_only)(self.number)
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        self.script.has_info(info.as_raw());
        *self.script.startup.lock().expect("no panic while locked") = Some(info);
        self.script.has_initialized("Initialize")
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        self.script.has_info(info.as_raw());
        *self.script.attached.lock().expect("no panic while locked") = Some(info);
        self.script.lent.0.store(client_data.as_ptr() as usize, Ordering::SeqCst);
        self.script.lent.1.store(client_data.len(), Ordering::SeqCst);
        *self.script.client_data.lock().expect("no panic while locked") = client_data.to_vec();
        self.script.has_initialized("InitializeForAttach")
    }

    fn module_load_started(&self, module: ModuleId) {
        self.script.begun.store(module.0, Ordering::SeqCst);
        self.script.act("ModuleLoadStarted");
    }

    fn jit_compilation_started(&self, function: FunctionId, _is_safe_to_block: bool) {
        self.script.begun.store(function.0, Ordering::SeqCst);
        self.script.act("JITCompilationStarted");
    }

    fn module_load_finished(&self, module: ModuleId, _status: HResult) {
        self.script.received("ModuleLoadFinished", CallbackData::ModuleLoaded(module.0));
    }

    fn module_unload_started(&self, module: ModuleId) {
        self.script.received("ModuleUnloadStarted", CallbackData::ModuleUnloads(module.0));
    }

    fn jit_compilation_finished(&self, function: FunctionId, _status: HResult, _is_safe_to_block: bool) {
        self.script.received("JITCompilationFinished", CallbackData::Compiled(function.0));
    }

    fn garbage_collection_started(&self, collected: &[i32], reason: GcReason) {
        let collected = collected.iter().map(|one| *one != 0).collect();
        self.script.received("GarbageCollectionStarted", CallbackData::CollectionBegins(collected, reason.0));
    }

    fn garbage_collection_finished(&self) {
        self.script.received("GarbageCollectionFinished", CallbackData::CollectionEnds);
    }

    fn moved_references(&self, old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[u32]) {
        let lengths: Vec<usize> = lengths.iter().map(|length| *length as usize).collect();
        self.script.received("MovedReferences", moved(old_starts, new_starts, &lengths));
    }

    fn moved_references2(&self, old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[usize]) {
        self.script.received("MovedReferences2", moved(old_starts, new_starts, lengths));
    }

    fn surviving_references(&self, starts: &[ObjectId], lengths: &[u32]) {
        let ranges = starts.iter().zip(lengths).map(|(start, length)| (start.0, *length as usize)).collect();
        self.script.received("SurvivingReferences", CallbackData::Survived(ranges));
    }

    fn surviving_references2(&self, starts: &[ObjectId], lengths: &[usize]) {
        let ranges = starts.iter().zip(lengths).map(|(start, length)| (start.0, *length)).collect();
        self.script.received("SurvivingReferences2", CallbackData::Survived(ranges));
    }

    fn root_references2(
        &self,
        roots: &[ObjectId],
        kinds: &[RootKind],
        flags: &[RootFlags],
        ids: &[usize],
    ) -> Result<(), HResult> {
        let all = roots.iter().zip(kinds).zip(flags).zip(ids);
        let roots = all.map(|(((root, kind), flags), id)| (root.0, kind.0, flags.0, *id)).collect();
        self.script.received("RootReferences2", CallbackData::Roots(roots));
        Ok(())
    }

    fn object_references(&self, object: ObjectId, class: ClassId, references: &[ObjectId]) -> Result<(), HResult> {
        let references = references.iter().map(|one| one.0).collect();
        self.script.received("ObjectReferences", CallbackData::References(object.0, class.0, references));
        Ok(())
    }

    fn object_allocated(&self, object: ObjectId, class: ClassId) {
        self.script.received("ObjectAllocated", CallbackData::Allocated(object.0, class.0));
    }

    fn objects_allocated_by_class(&self, classes: &[ClassId], counts: &[u32]) -> Result<(), HResult> {
        let counts = classes.iter().zip(counts).map(|(class, count)| (class.0, *count)).collect();
        self.script.received("ObjectsAllocatedByClass", CallbackData::AllocatedByClass(counts));
        Ok(())
    }

    fn conditional_weak_table_element_references(
        &self,
        keys: &[ObjectId],
        values: &[ObjectId],
        _ids: &[HandleId],
    ) -> Result<(), HResult> {
        let pairs = keys.iter().zip(values).map(|(key, value)| (key.0, value.0)).collect();
        self.script.received("ConditionalWeakTableElementReferences", CallbackData::Weak(pairs));
        Ok(())
    }

    fn finalizeable_object_queued(&self, _flags: u32, object: ObjectId) {
        self.script.received("FinalizeableObjectQueued", CallbackData::Queued(object.0));
    }

    fn handle_created(&self, handle: HandleId, object: ObjectId) {
        self.script.received("HandleCreated", CallbackData::HandleCreated(handle.0, object.0));
    }

    fn handle_destroyed(&self, handle: HandleId) {
        self.script.received("HandleDestroyed", CallbackData::HandleDestroyed(handle.0));
    }

    fn rejit_compilation_finished(&self, function: FunctionId, rejit: RejitId, _status: HResult, _safe: bool) {
        self.script.received("ReJITCompilationFinished", CallbackData::CompiledAgain(function.0, rejit.0));
    }

    fn rejit_error(&self, _module: ModuleId, _method: MethodToken, function: FunctionId, status: HResult) {
        self.script.received("ReJITError", CallbackData::NotCompiledAgain(function.0, status.0));
    }

    fn event_pipe_event_delivered(
        &self,
        _provider: ProviderId,
        event: u32,
        _version: u32,
        _metadata: &[u8],
        data: &[u8],
        _activity: Option<&Guid>,
        _related_activity: Option<&Guid>,
        _thread: ThreadId,
        _frames: &[usize],
    ) {
        self.script.received("EventPipeEventDelivered", CallbackData::Event(event, data.to_vec()));
    }
}

fn moved(old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[usize]) -> CallbackData {
    let ranges = old_starts.iter().zip(new_starts).zip(lengths);
    CallbackData::Moved(ranges.map(|((old, new), length)| (old.0, new.0, *length)).collect())
}

/// The library of scripted profilers: each of its objects plays the same script.
pub struct ScriptedLibrary(Arc<Script>);

thread_local! {
    /// The scripts of the last called libraries, by class: the factory function takes no argument of ours.
    static ASKED: RefCell<HashMap<Guid, Arc<Script>>> = RefCell::default();
}

impl Exports for ScriptedLibrary {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        self.0.step("DllGetClassObject");
        if !class.is_null() {
            // SAFETY: not null; identifiers need not be aligned.
            let class = unsafe { class.read_unaligned() };
            ASKED.with(|asked| asked.borrow_mut().insert(class, self.0.clone()));
        }
        // SAFETY: the caller guarantees two identifiers and a place, as COM requires.
        HResult(unsafe { dll_get_class_object(class, interface, out, make) })
    }
}

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    let script = ASKED.with(|asked| asked.borrow().get(class).cloned())?;
    script.step("CreateInstance");
    let number = {
        let mut classes = script.classes.lock().expect("no panic while locked");
        classes.push(*class);
        classes.len() - 1
    };
    (!(script.refused)(number)).then(|| versioned::create(Scripted { script: script.clone(), number }))
}

/// A library that plays a script, and the script.
pub fn library(script: Script, faults: &Arc<Faults>) -> (Arc<Library>, Arc<Script>) {
    // The first and only value.
    let _ = script.faults.set(faults.clone());
    let script = Arc::new(script);
    (Library::new(ScriptedLibrary(script.clone()), faults.clone()), script)
}
