//! A profiler that does what a test says: it writes down every callback, and acts in those that it is told to act in.

mod versioned;

use crate::court::Court;
use crate::library::{Exports, Library};
use corprof::{
    Alive, Attached, CallbackToken, Guid, HResult, Info, ProfilerCallback, Startup, dll_get_class_object, sys,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

/// What a scripted profiler does in a callback.
pub type Act = Box<dyn Fn(&Script) + Send + Sync>;

/// What a scripted profiler answers its initialisation with.
type Decision = Box<dyn Fn(&Script) -> HResult + Send + Sync>;
/// Says something of one of the objects that the library makes, by its number from 0 on.
type OfObject = Box<dyn Fn(usize) -> bool + Send + Sync>;

/// What it is to do, and what has happened to it. A test holds one beside the library.
pub struct Script {
    /// By the callback's name in the field; `InitializeForAttach` and `Initialize` act after Info is there.
    acts: HashMap<&'static str, Act>,
    /// What initialisation answers; success if nothing is said.
    decision: Decision,
    notification_only: OfObject,
    refused: OfObject,
    version: u8,
    journal: Mutex<Vec<&'static str>>,
    steps: Mutex<Vec<&'static str>>,
    classes: Mutex<Vec<Guid>>,
    client_data: Mutex<Vec<u8>>,
    client_data_at: AtomicPtr<u8>,
    /// One for each object that was initialised, in that order.
    infos: Mutex<Vec<usize>>,
    info: AtomicPtr<sys::ICorProfilerInfo>,
    attached: Mutex<Option<Info<Attached, Alive>>>,
    startup: Mutex<Option<Info<Startup, Alive>>>,
}

impl Script {
    /// One that does nothing but write down.
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
            client_data: Mutex::default(),
            client_data_at: AtomicPtr::default(),
            infos: Mutex::default(),
            info: AtomicPtr::default(),
            attached: Mutex::default(),
            startup: Mutex::default(),
        }
    }

    /// Acts in a callback.
    #[must_use]
    pub fn on(mut self, callback: &'static str, act: impl Fn(&Script) + Send + Sync + 'static) -> Script {
        self.acts.insert(callback, Box::new(act));
        self
    }

    /// Answers its initialisation with a code.
    #[must_use]
    pub fn answering(self, code: HResult) -> Script {
        self.deciding(move |_| code)
    }

    /// Decides what its initialisation answers, with Info at hand.
    #[must_use]
    pub fn deciding(mut self, decision: impl Fn(&Script) -> HResult + Send + Sync + 'static) -> Script {
        self.decision = Box::new(decision);
        self
    }

    /// Answers to no callback newer than this.
    #[must_use]
    pub fn of_version(mut self, version: u8) -> Script {
        self.version = version;
        self
    }

    /// Refuses to make some of the objects that it is asked for, by their numbers from 0 on.
    #[must_use]
    pub fn refusing_to_make(mut self, refused: impl Fn(usize) -> bool + Send + Sync + 'static) -> Script {
        self.refused = Box::new(refused);
        self
    }

    /// Asks to be only notified.
    #[must_use]
    pub fn only_notified(self) -> Script {
        self.only_notified_where(|_| true)
    }

    /// The same of some of its objects, by their numbers from 0 on.
    #[must_use]
    pub fn only_notified_where(mut self, notified: impl Fn(usize) -> bool + Send + Sync + 'static) -> Script {
        self.notification_only = Box::new(notified);
        self
    }

    /// The callbacks so far, by their names in the field.
    pub fn journal(&self) -> Vec<&'static str> {
        self.journal.lock().expect("no panic while locked").clone()
    }

    /// All that was asked of the library and its objects, callbacks included, in order.
    pub fn steps(&self) -> Vec<&'static str> {
        self.steps.lock().expect("no panic while locked").clone()
    }

    /// The classes that objects were asked for.
    pub fn classes(&self) -> Vec<Guid> {
        self.classes.lock().expect("no panic while locked").clone()
    }

    /// How often a callback has come.
    pub fn count(&self, callback: &str) -> usize {
        self.journal().iter().filter(|known| **known == callback).count()
    }

    /// The client data as it was during InitializeForAttach.
    pub fn client_data(&self) -> Vec<u8> {
        self.client_data.lock().expect("no panic while locked").clone()
    }

    /// The bytes that are now where the client data was during InitializeForAttach: what a profiler that kept the pointer reads.
    pub fn client_data_now(&self) -> Vec<u8> {
        let (at, length) = (self.client_data_at.load(Ordering::SeqCst), self.client_data().len());
        // SAFETY: what a runtime frees of a profiler's client data the model keeps, for as long as it remembers the profiler.
        (0..length).map(|index| unsafe { at.add(index).read() }).collect()
    }

    /// Info of one of its objects, in the order in which they were initialised.
    pub fn raw_of(&self, object: usize) -> *mut sys::ICorProfilerInfo {
        let infos = self.infos.lock().expect("no panic while locked");
        infos.get(object).map_or(std::ptr::null_mut(), |info| *info as *mut sys::ICorProfilerInfo)
    }

    /// Info as the runtime gave it, for calls through [`sys`]: what must be refused can be asked as well. Null before.
    pub fn raw(&self) -> *mut sys::ICorProfilerInfo {
        self.info.load(Ordering::SeqCst)
    }

    /// Info in its type, to be taken once.
    pub fn take_attached(&self) -> Option<Info<Attached, Alive>> {
        self.attached.lock().expect("no panic while locked").take()
    }

    /// The same of a profiler from the start.
    pub fn take_startup(&self) -> Option<Info<Startup, Alive>> {
        self.startup.lock().expect("no panic while locked").take()
    }

    /// SetEventMask2, as the runtime answers it.
    pub fn set_mask(&self, low: u32, high: u32) -> HResult {
        // SAFETY: the runtime's object, which the model keeps for as long as the schedule lasts.
        HResult(unsafe { sys::ICorProfilerInfo5::SetEventMask2(self.raw().cast(), low, high) })
    }

    /// SetEventMask, as the runtime answers it.
    pub fn set_mask_low(&self, low: u32) -> HResult {
        // SAFETY: as above.
        HResult(unsafe { sys::ICorProfilerInfo::SetEventMask(self.raw(), low) })
    }

    /// RequestProfilerDetach, as the runtime answers it.
    pub fn request_detach(&self, milliseconds: u32) -> HResult {
        // SAFETY: as above.
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

/// The newest callback that there is.
const NEWEST: u8 = 11;

struct Scripted {
    script: Arc<Script>,
    /// Which of the objects of its library, from 0 on.
    number: usize,
}

impl ProfilerCallback for Scripted {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        self.script.step(slot);
        self.script.journal.lock().expect("no panic while locked").push(slot);
        if !slot.starts_with("Initialize") {
            self.script.act(slot);
        }
        CallbackToken(0)
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
        *self.script.client_data.lock().expect("no panic while locked") = client_data.to_vec();
        self.script.client_data_at.store(client_data.as_ptr().cast_mut(), Ordering::SeqCst);
        self.script.has_initialized("InitializeForAttach")
    }
}

/// The library of scripted profilers: each object that the runtime makes of it plays the same script.
pub struct ScriptedLibrary(Arc<Script>);

thread_local! {
    /// The scripts of the libraries that were asked last, by class: the factory's function takes no argument of ours.
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
        // SAFETY: the caller's promise is handed on.
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
pub fn library(script: Script, court: &Arc<Court>) -> (Arc<Library>, Arc<Script>) {
    let script = Arc::new(script);
    (Library::new(ScriptedLibrary(script.clone()), court.clone()), script)
}
