//! A profiler's library in the modelled process: who holds it, and who executes its code.

use crate::faults::Faults;
use crate::mutation;
use crate::schedule::{self, Task};
use corprof::{Guid, HResult};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// What a library exports.
pub trait Exports: Send + Sync + 'static {
    /// `DllGetClassObject`.
    ///
    /// # Safety
    /// The pointers are those of the COM protocol: two identifiers and a place for an interface pointer.
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult;

    /// Its first reference is taken.
    fn load(&self) {}

    /// Its last one is given back.
    fn unload(&self) {}
}

/// A library as the dynamic linker of the process keeps it.
pub struct Library {
    exports: Box<dyn Exports>,
    faults: Arc<Faults>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    references: u32,
    /// Frames of its code on the stack of each thread.
    inside: HashMap<Task, u32>,
    /// Ways into it that are not a thread: an armed timer, a handler that is registered.
    resources: HashMap<&'static str, u32>,
    unmapped: u32,
}

/// A thread executes the library's code for as long as this lives.
pub struct Inside<'a>(&'a Library);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let this = schedule::current();
        if let Some(frames) = state.inside.get_mut(&this) {
            *frames -= 1;
            if *frames == 0 {
                state.inside.remove(&this);
            }
        }
    }
}

impl Library {
    /// One that nobody has loaded yet.
    pub fn new(exports: impl Exports, faults: Arc<Faults>) -> Arc<Library> {
        Arc::new(Library { exports: Box::new(exports), faults, state: Mutex::default() })
    }

    /// What it exports.
    pub fn exports(&self) -> &dyn Exports {
        &*self.exports
    }

    /// Loads it, or holds it once more.
    pub fn hold(&self) {
        let is_first = {
            let mut state = self.lock();
            state.references += 1;
            state.references == 1
        };
        if is_first {
            self.exports.load();
        }
    }

    /// Gives a reference back; the last one unmaps it. Whoever executes it then crashes.
    pub fn release(&self) {
        let mut state = self.lock();
        let Some(left) = state.references.checked_sub(1) else {
            drop(state);
            self.faults.report("DET-05", "the library was given back more often than it was held");
            return;
        };
        let left = if mutation::is("DET-05") { 0 } else { left };
        state.references = left;
        if left > 0 {
            return;
        }
        state.unmapped += 1;
        let (threads, resources) = (state.inside.len(), state.resources.clone());
        drop(state);
        self.exports.unload();
        schedule::note("the library is unmapped", 0);
        if threads > 0 && !mutation::is("DET-04") {
            self.faults.report("DET-04", "the library was unmapped while a thread executed its code");
        }
        for (kind, _) in resources.into_iter().filter(|(_, count)| *count > 0 && !mutation::is("DET-04/2")) {
            self.faults.report("DET-04", format!("the library was unmapped while a way into it was open: {kind}"));
        }
    }

    /// The running thread enters the library's code. To enter one that is unmapped is a crash.
    pub fn enter(&self) -> Inside<'_> {
        let mut state = self.lock();
        *state.inside.entry(schedule::current()).or_default() += 1;
        let unmapped = state.references == 0;
        drop(state);
        if unmapped {
            self.faults.report("DET-04", "code of the library was called after it was unmapped");
        }
        Inside(self)
    }

    /// A way in is opened.
    pub fn open(&self, kind: &'static str) {
        *self.lock().resources.entry(kind).or_default() += 1;
    }

    /// A way in is closed.
    pub fn close(&self, kind: &'static str) {
        if let Some(count) = self.lock().resources.get_mut(kind) {
            *count = count.saturating_sub(1);
        }
    }

    /// How often it is held.
    pub fn references(&self) -> u32 {
        self.lock().references
    }

    /// Whether it is mapped.
    pub fn is_mapped(&self) -> bool {
        self.lock().references > 0
    }

    /// How often it has been unmapped.
    pub fn unmapped(&self) -> u32 {
        self.lock().unmapped
    }

    /// The kinds of ways into it that are open now.
    pub fn ways_in(&self) -> Vec<&'static str> {
        let state = self.lock();
        state.resources.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| *kind).collect()
    }

    /// Ways into it that are open now.
    pub fn open_entrances(&self) -> u32 {
        self.lock().resources.values().sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }
}
