//! A profiler's library in the modelled process: its references, and the threads in its code.

use crate::faults::Faults;
use crate::mutation;
use crate::schedule::{self, Task, threads};
use corprof::{Guid, HResult};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// A library's exports.
pub trait Exports: Send + Sync + 'static {
    /// `DllGetClassObject`.
    ///
    /// # Safety
    /// The pointers are those of the COM protocol: two identifiers and a place for an interface pointer.
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult;

    /// Whether an address is in its code or its static data.
    fn contains(&self, _address: usize) -> bool {
        false
    }

    /// Its first reference was taken.
    fn load(&self) {}

    /// Its last reference was released.
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
    /// Frames of its code on each thread's stack.
    inside: HashMap<Task, u32>,
    /// Entries into it besides threads: an armed timer, a registered handler.
    resources: HashMap<&'static str, u32>,
    /// The thread that has asked for the detach.
    asker: Option<Task>,
    /// Threads that have released a reference while they executed its code.
    released_inside: HashSet<Task>,
    unmapped: u32,
}

impl State {
    /// The clause that a thread in the code of an unmapped library breaks.
    fn clause_of(&self, thread: &Task) -> &'static str {
        match (self.asker.as_ref() == Some(thread), self.released_inside.contains(thread)) {
            (true, true) => "DET-08",
            (true, false) => "DET-05",
            (false, _) => "DET-04",
        }
    }
}

/// A thread executes the library's code while this lives.
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
    /// A library that is not loaded yet.
    pub fn new(exports: impl Exports, faults: Arc<Faults>) -> Arc<Library> {
        Arc::new(Library { exports: Box::new(exports), faults, state: Mutex::default() })
    }

    /// Its exports.
    pub fn exports(&self) -> &dyn Exports {
        &*self.exports
    }

    /// Loads it, or takes another reference.
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

    /// Releases a reference; the last one unmaps it. A thread in its code then crashes.
    pub fn release(&self) {
        let mut state = self.lock();
        let Some(left) = state.references.checked_sub(1) else {
            drop(state);
            self.faults.report("DET-05", "the library was given back more often than it was held");
            return;
        };
        let this = schedule::current();
        if state.inside.contains_key(&this) {
            state.released_inside.insert(this);
        }
        let left = if mutation::is("DET-05") { 0 } else { left };
        state.references = left;
        if left > 0 {
            return;
        }
        state.unmapped += 1;
        let resources = state.resources.clone();
        let clauses: BTreeSet<&str> = state.inside.keys().map(|thread| state.clause_of(thread)).collect();
        drop(state);
        self.exports.unload();
        schedule::note("the library is unmapped", 0);
        for clause in clauses.into_iter().filter(|_| !mutation::is("DET-04")) {
            self.faults.report(clause, "the library was unmapped while a thread executed its code");
        }
        for (kind, _) in resources.into_iter().filter(|(_, count)| *count > 0 && !mutation::is("DET-04/2")) {
            self.faults.report("DET-04", format!("the library was unmapped while a way into it was open: {kind}"));
        }
    }

    /// The running thread has asked for the detach of a profiler in it.
    pub fn is_asked_to_leave(&self) {
        self.lock().asker = Some(schedule::current());
    }

    /// The running thread enters the library's code. Entering an unmapped library is a crash.
    pub fn enter(&self) -> Inside<'_> {
        threads::also_end_with_parent();
        let mut state = self.lock();
        *state.inside.entry(schedule::current()).or_default() += 1;
        let unmapped = state.references == 0;
        drop(state);
        if unmapped {
            self.faults.report("DET-04", "code of the library was called after it was unmapped");
        }
        Inside(self)
    }

    /// Opens a resource that enters the library.
    pub fn open(&self, kind: &'static str) {
        *self.lock().resources.entry(kind).or_default() += 1;
    }

    /// Closes a resource that enters the library.
    pub fn close(&self, kind: &'static str) {
        if let Some(count) = self.lock().resources.get_mut(kind) {
            *count = count.saturating_sub(1);
        }
    }

    /// Its reference count.
    pub fn references(&self) -> u32 {
        self.lock().references
    }

    /// Whether it is mapped.
    pub fn is_mapped(&self) -> bool {
        self.lock().references > 0
    }

    /// How often it was unmapped.
    pub fn unmapped(&self) -> u32 {
        self.lock().unmapped
    }

    /// The kinds of its open resources.
    pub fn ways_in(&self) -> Vec<&'static str> {
        let state = self.lock();
        state.resources.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| *kind).collect()
    }

    /// Its open resources.
    pub fn open_entrances(&self) -> u32 {
        self.lock().resources.values().sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }
}
