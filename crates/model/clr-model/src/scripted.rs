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
use remora_clr_abi::callback_slot;
use remora_clr_abi::slot_lists::CALLBACKS_WITH_DATA;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

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
    faults: OnceLock<Arc<Faults>>,
    record: Mutex<Record>,
}

/// What happened to the library and its objects.
#[derive(Default)]
struct Record {
    journal: Vec<&'static str>,
    steps: Vec<&'static str>,
    classes: Vec<Guid>,
    callback_data: Vec<CallbackData>,
    /// The last module or function that began to load or compile.
    begun: usize,
    client_data: Vec<u8>,
    /// The address of the client data, for scripts that wrongly keep the pointer.
    lent: usize,
    /// One per initialised object, in that order.
    infos: Vec<usize>,
    startup: Option<Info<Startup, Alive>>,
    /// The last function control.
    control: usize,
    /// The answer of GetReJITParameters, 0 by default.
    parameters: i32,
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
            faults: OnceLock::new(),
            record: Mutex::default(),
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
        self.record().journal.clone()
    }

    /// All calls of the library and its objects so far, callbacks included, in order.
    pub fn steps(&self) -> Vec<&'static str> {
        self.record().steps.clone()
    }

    /// The requested classes.
    pub fn classes(&self) -> Vec<Guid> {
        self.record().classes.clone()
    }

    /// How often a callback came.
    pub fn count(&self, callback: &str) -> usize {
        self.journal().iter().filter(|known| **known == callback).count()
    }

    /// The client data during InitializeForAttach.
    pub fn client_data(&self) -> Vec<u8> {
        self.record().client_data.clone()
    }

    /// The current bytes at the address of the client data: a profiler that kept the pointer reads these.
    pub fn client_data_now(&self) -> Vec<u8> {
        let (start, length) = {
            let record = self.record();
            (record.lent, record.client_data.len())
        };
        // SAFETY: the model keeps freed client data while it remembers the profiler.
        (0..length).map(|index| unsafe { (start as *const u8).add(index).read() }).collect()
    }

    /// Info of an object, by order of initialisation.
    pub fn raw_of(&self, object: usize) -> *mut sys::ICorProfilerInfo {
        self.record().infos.get(object).copied().unwrap_or_default() as *mut sys::ICorProfilerInfo
    }

    /// The id of the last ModuleLoadStarted or JITCompilationStarted.
    pub fn begun(&self) -> usize {
        self.record().begun
    }

    /// The data of the callbacks so far.
    pub fn callback_data(&self) -> Vec<CallbackData> {
        self.record().callback_data.clone()
    }

    /// The last callback's data.
    pub fn last_callback_data(&self) -> Option<CallbackData> {
        self.record().callback_data.last().cloned()
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
        self.record().infos.last().copied().unwrap_or_default() as *mut sys::ICorProfilerInfo
    }

    /// The typed Info of a profiler loaded at startup; it can be taken once.
    pub fn take_startup(&self) -> Option<Info<Startup, Alive>> {
        self.record().startup.take()
    }

    /// The object of the last GetReJITParameters.
    pub fn control(&self) -> *mut sys::ICorProfilerFunctionControl {
        self.record().control as *mut sys::ICorProfilerFunctionControl
    }

    /// Answers GetReJITParameters with this code from now on.
    pub fn answer_parameters(&self, code: HResult) {
        self.record().parameters = code.0;
    }

    fn has_initialized(&self, callback: &'static str) -> Result<(), HResult> {
        self.act(callback);
        (self.decision)(self).ok()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no panic while locked")
    }

    fn received(&self, callback: &'static str, callback_data: CallbackData) {
        self.record().callback_data.push(callback_data);
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

impl Scripted {
    /// The first version of a callback, whose data is kept only if there was no newer version.
    fn received_as_first(&self, callback: &'static str, data: impl Fn() -> CallbackData) {
        let is_known = self.script.record().journal.iter().any(|slot| slot.strip_suffix('2') == Some(callback));
        if is_known { self.script.act(callback) } else { self.script.received(callback, data()) }
    }
}

/// Callbacks whose data the script keeps before it acts.
macro_rules! kept {
    ($($method:ident($($arg:ident: $ty:ty),*) $(-> $answer:ty)? => $data:expr;)*) => {
        $(
            fn $method(&self, $($arg: $ty),*) $(-> $answer)? {
                self.script.received(callback_slot!($method).name, $data);
                $(<$answer>::Ok(()))?
            }
        )*
    };
}

impl ProfilerCallback for Scripted {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        {
            let mut record = self.script.record();
            record.steps.push(slot);
            record.journal.push(slot);
        }
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
        {
            let mut record = self.script.record();
            record.infos.push(info.as_raw() as usize);
            record.startup = Some(info);
        }
        self.script.has_initialized("Initialize")
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        {
            let mut record = self.script.record();
            record.infos.push(info.as_raw() as usize);
            record.lent = client_data.as_ptr() as usize;
            record.client_data = client_data.to_vec();
        }
        self.script.has_initialized("InitializeForAttach")
    }

    fn module_load_started(&self, module: ModuleId) {
        self.script.record().begun = module.0;
        self.script.act("ModuleLoadStarted");
    }

    fn jit_compilation_started(&self, function: FunctionId, _is_safe_to_block: bool) {
        self.script.record().begun = function.0;
        self.script.act("JITCompilationStarted");
    }

    fn moved_references(&self, old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[u32]) {
        let data = || moved(old_starts, new_starts, lengths.iter().map(|length| *length as usize));
        self.received_as_first("MovedReferences", data);
    }

    fn surviving_references(&self, starts: &[ObjectId], lengths: &[u32]) {
        let data = || CallbackData::Survived(pairs(starts, lengths, |start, length| (start.0, *length as usize)));
        self.received_as_first("SurvivingReferences", data);
    }

    fn rejit_parameters(
        &self,
        _module: ModuleId,
        _method: MethodToken,
        control: *mut sys::ICorProfilerFunctionControl,
    ) -> Result<(), HResult> {
        self.script.record().control = control as usize;
        self.script.act("GetReJITParameters");
        HResult(self.script.record().parameters).ok()
    }

    kept! {
        module_load_finished(module: ModuleId, _status: HResult) => CallbackData::ModuleLoaded(module.0);
        module_unload_started(module: ModuleId) => CallbackData::ModuleUnloads(module.0);
        jit_compilation_finished(function: FunctionId, _status: HResult, _safe: bool) => CallbackData::Compiled(function.0);
        garbage_collection_started(collected: &[i32], reason: GcReason)
            => CallbackData::CollectionBegins(collected.iter().map(|one| *one != 0).collect(), reason.0);
        garbage_collection_finished() => CallbackData::CollectionEnds;
        moved_references2(old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: &[usize])
            => moved(old_starts, new_starts, lengths.iter().copied());
        surviving_references2(starts: &[ObjectId], lengths: &[usize])
            => CallbackData::Survived(pairs(starts, lengths, |start, length| (start.0, *length)));
        root_references2(roots: &[ObjectId], kinds: &[RootKind], flags: &[RootFlags], ids: &[usize])
            -> Result<(), HResult> => roots_of(roots, kinds, flags, ids);
        object_references(object: ObjectId, class: ClassId, references: &[ObjectId]) -> Result<(), HResult>
            => CallbackData::References(object.0, class.0, references.iter().map(|one| one.0).collect());
        object_allocated(object: ObjectId, class: ClassId) => CallbackData::Allocated(object.0, class.0);
        exception_thrown(object: ObjectId) => CallbackData::Thrown(object.0);
        objects_allocated_by_class(classes: &[ClassId], counts: &[u32]) -> Result<(), HResult>
            => CallbackData::AllocatedByClass(pairs(classes, counts, |class, count| (class.0, *count)));
        conditional_weak_table_element_references(keys: &[ObjectId], values: &[ObjectId], _ids: &[HandleId])
            -> Result<(), HResult> => CallbackData::Weak(pairs(keys, values, |key, value| (key.0, value.0)));
        finalizeable_object_queued(_flags: u32, object: ObjectId) => CallbackData::Queued(object.0);
        handle_created(handle: HandleId, object: ObjectId) => CallbackData::HandleCreated(handle.0, object.0);
        handle_destroyed(handle: HandleId) => CallbackData::HandleDestroyed(handle.0);
        rejit_compilation_finished(function: FunctionId, rejit: RejitId, _status: HResult, _safe: bool)
            => CallbackData::CompiledAgain(function.0, rejit.0);
        rejit_error(_module: ModuleId, _method: MethodToken, function: FunctionId, status: HResult)
            => CallbackData::NotCompiledAgain(function.0, status.0);
        event_pipe_event_delivered(_provider: ProviderId, event: u32, _version: u32, _metadata: &[u8], data: &[u8],
            _activity: Option<&Guid>, _related: Option<&Guid>, _thread: ThreadId, _frames: &[usize])
            => CallbackData::Event(event, data.to_vec());
    }
}

/// Two lists as one.
fn pairs<A, B, T>(first: &[A], second: &[B], pair: impl Fn(&A, &B) -> T) -> Vec<T> {
    first.iter().zip(second).map(|(one, other)| pair(one, other)).collect()
}

fn moved(old_starts: &[ObjectId], new_starts: &[ObjectId], lengths: impl Iterator<Item = usize>) -> CallbackData {
    let ranges = old_starts.iter().zip(new_starts).zip(lengths);
    CallbackData::Moved(ranges.map(|((old, new), length)| (old.0, new.0, length)).collect())
}

fn roots_of(roots: &[ObjectId], kinds: &[RootKind], flags: &[RootFlags], ids: &[usize]) -> CallbackData {
    let all = roots.iter().zip(kinds).zip(flags).zip(ids);
    CallbackData::Roots(all.map(|(((root, kind), flags), id)| (root.0, kind.0, flags.0, *id)).collect())
}

/// The library of scripted profilers: each of its objects plays the same script.
pub struct ScriptedLibrary(Arc<Script>);

thread_local! {
    /// The scripts of the last called libraries, by class: the factory function takes no argument of ours.
    static ASKED: RefCell<HashMap<Guid, Arc<Script>>> = RefCell::default();
}

impl Exports for ScriptedLibrary {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        self.0.record().steps.push("DllGetClassObject");
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

    let number = {
        let mut record = script.record();
        record.steps.push("CreateInstance");
        record.classes.push(*class);
        record.classes.len() - 1
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
