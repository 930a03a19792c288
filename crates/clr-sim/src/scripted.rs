//! A profiler that does what a test says: it writes down every callback, and acts in those that it is told to act in.

use crate::court::Court;
use crate::library::{Exports, Library};
use corprof::{
    Alive, Attached, CallbackObject, CallbackToken, Guid, HResult, Info, ProfilerCallback, Startup,
    dll_get_class_object, sys,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

/// What a scripted profiler does in a callback.
pub type Act = Box<dyn Fn(&Script) + Send + Sync>;

/// What it is to do, and what has happened to it. A test holds one beside the library.
#[derive(Default)]
pub struct Script {
    /// By the callback's name in the field; `InitializeForAttach` and `Initialize` act after Info is there.
    acts: HashMap<&'static str, Act>,
    /// What initialisation answers; success if nothing is said.
    initialized: Option<HResult>,
    notification_only: bool,
    journal: Mutex<Vec<&'static str>>,
    client_data: Mutex<Vec<u8>>,
    info: AtomicPtr<sys::ICorProfilerInfo>,
    attached: Mutex<Option<Info<Attached, Alive>>>,
    startup: Mutex<Option<Info<Startup, Alive>>>,
}

impl Script {
    /// One that does nothing but write down.
    pub fn new() -> Script {
        Script::default()
    }

    /// Acts in a callback.
    #[must_use]
    pub fn on(mut self, callback: &'static str, act: impl Fn(&Script) + Send + Sync + 'static) -> Script {
        self.acts.insert(callback, Box::new(act));
        self
    }

    /// Answers its initialisation with a code.
    #[must_use]
    pub fn answering(mut self, code: HResult) -> Script {
        self.initialized = Some(code);
        self
    }

    /// Asks to be only notified.
    #[must_use]
    pub fn only_notified(mut self) -> Script {
        self.notification_only = true;
        self
    }

    /// The callbacks so far, by their names in the field.
    pub fn journal(&self) -> Vec<&'static str> {
        self.journal.lock().expect("no panic while locked").clone()
    }

    /// How often a callback has come.
    pub fn count(&self, callback: &str) -> usize {
        self.journal().iter().filter(|known| **known == callback).count()
    }

    /// The client data as it was during InitializeForAttach.
    pub fn client_data(&self) -> Vec<u8> {
        self.client_data.lock().expect("no panic while locked").clone()
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
        self.initialized.unwrap_or(HResult::S_OK).ok()
    }

    fn act(&self, callback: &'static str) {
        if let Some(act) = self.acts.get(callback) {
            act(self);
        }
    }
}

struct Scripted(Arc<Script>);

impl ProfilerCallback for Scripted {
    fn enter(&self, slot: &'static str) -> CallbackToken {
        self.0.journal.lock().expect("no panic while locked").push(slot);
        if !slot.starts_with("Initialize") {
            self.0.act(slot);
        }
        CallbackToken(0)
    }

    fn load_as_notification_only(&self) -> bool {
        self.0.notification_only
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        self.0.info.store(info.as_raw(), Ordering::SeqCst);
        *self.0.startup.lock().expect("no panic while locked") = Some(info);
        self.0.has_initialized("Initialize")
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        self.0.info.store(info.as_raw(), Ordering::SeqCst);
        *self.0.attached.lock().expect("no panic while locked") = Some(info);
        *self.0.client_data.lock().expect("no panic while locked") = client_data.to_vec();
        self.0.has_initialized("InitializeForAttach")
    }
}

/// The library of scripted profilers: each object that the runtime makes of it plays the same script.
pub struct ScriptedLibrary(Arc<Script>);

thread_local! {
    /// The script of the library that is asked for an object right now: the factory's function takes no argument of ours.
    static ASKED: RefCell<Option<Arc<Script>>> = const { RefCell::new(None) };
}

impl Exports for ScriptedLibrary {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        ASKED.with(|asked| *asked.borrow_mut() = Some(self.0.clone()));
        // SAFETY: the caller's promise is handed on.
        HResult(unsafe { dll_get_class_object(class, interface, out, make) })
    }
}

fn make(_class: &Guid) -> Option<*mut sys::IUnknown> {
    let script = ASKED.with(|asked| asked.borrow().clone())?;
    Some(CallbackObject::create(Scripted(script)))
}

/// A library that plays a script, and the script.
pub fn library(script: Script, court: &Arc<Court>) -> (Arc<Library>, Arc<Script>) {
    let script = Arc::new(script);
    (Library::new(ScriptedLibrary(script.clone()), court.clone()), script)
}
