//! The agent's library and its two threads in the modelled process.

use super::platform::ModelPlatform;
use super::{Process, this_process};
use crate::library::{Exports, Library};
use crate::schedule::{self, Task};
use corprof::{CallbackObject, Guid, HResult, dll_get_class_object, sys};
use remora_session::fault_injection::{self, InjectedFault};
use remora_session::{Agent, Host, ResourceRegistry, ThreadRoles, UnpairedThread};
use remora_wire::{AgentError, CLSID_NOTIFICATION, Config, StartupOrder};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exports of the agent's library, like those of the real one.
pub struct AgentLibrary;

impl Exports for AgentLibrary {
    unsafe fn get_class_object(&self, class: *const Guid, interface: *const Guid, out: *mut *mut c_void) -> HResult {
        // SAFETY: the caller passes two identifiers and a place, as COM demands.
        HResult(unsafe { dll_get_class_object(class, interface, out, make) })
    }
}

fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
    let process = this_process()?;
    let (data1, data2, data3, data4) = CLSID_NOTIFICATION;
    let notification_only = *class == Guid { data1, data2, data3, data4 };
    let object = CallbackObject::create(Agent::new(ModelHost { process }, notification_only));
    if fault_injection::is_injected(InjectedFault::LeakCallbackObject) {
        // SAFETY: the object was made above, with one reference.
        unsafe { sys::IUnknown::AddRef(object) };
    }
    Some(object)
}

/// The process as an attach sees it.
pub struct ModelHost {
    process: Arc<Process>,
}

/// A reference to the library.
pub struct Reference(Option<Arc<Library>>);

impl Drop for Reference {
    fn drop(&mut self) {
        if let Some(library) = self.0.take() {
            library.release();
        }
    }
}

thread_local! {
    /// References to give back after the modelled thread has run its last instruction of the library.
    static AT_END: RefCell<Vec<(Task, Arc<Library>)>> = const { RefCell::new(Vec::new()) };
}

impl Host for ModelHost {
    type Platform = ModelPlatform;
    type LibraryReference = Reference;

    fn open(&self, config: Config, resources: Arc<ResourceRegistry>) -> Result<ModelPlatform, AgentError> {
        Ok(ModelPlatform::new(self.process.clone(), &config, resources))
    }

    fn startup_order(&self) -> Option<StartupOrder> {
        self.process.link.take_startup_order()
    }

    fn reference_library(&self) -> Result<Reference, AgentError> {
        if fault_injection::is_injected(InjectedFault::TakeNoReference) {
            return Ok(Reference(None));
        }
        self.process.library.hold();
        Ok(Reference(Some(self.process.library.clone())))
    }

    fn give_back_at_thread_end(mut reference: Reference) {
        let Some(library) = reference.0.take() else { return };
        if fault_injection::is_injected(InjectedFault::DropReferenceEarly) {
            return library.release();
        }
        if !fault_injection::is_injected(InjectedFault::LeakReference) {
            AT_END.with(|waiting| waiting.borrow_mut().push((schedule::current(), library)));
        }
    }

    fn start_pair<R: ThreadRoles>(&self, roles: Arc<R>) -> Result<(), Option<UnpairedThread>> {
        let claimed = Arc::new(AtomicBool::new(false));
        let worked = Arc::new(AtomicBool::new(false));
        for name in ["the agent's first thread", "the agent's second thread"] {
            let (roles, claimed, worked) = (roles.clone(), claimed.clone(), worked.clone());
            let process = self.process.clone();
            schedule::spawn(name, move || {
                run_one(&process, roles, &claimed, &worked);
                give_back_what_waits();
            });
        }
        Ok(())
    }
}

/// One of the two threads. The first becomes the worker; the other detaches after the worker has ended.
fn run_one<R: ThreadRoles>(process: &Process, roles: Arc<R>, claimed: &AtomicBool, worked: &AtomicBool) {
    let inside = process.library.enter();
    schedule::point();
    if claimed.swap(true, Ordering::SeqCst) {
        // A loop: if the world is stopped, every wait returns at once.
        while !worked.load(Ordering::SeqCst) {
            schedule::wait_until(None, || worked.load(Ordering::SeqCst));
        }
        roles.leave();
        end_slowly(process);
        drop(inside);
    } else {
        roles.work();
        drop(roles);
        if fault_injection::is_injected(InjectedFault::SkipJoin) {
            worked.store(true, Ordering::SeqCst);
        }
        end_slowly(process);
        drop(inside);
        worked.store(true, Ordering::SeqCst);
    }
    schedule::point();
}

/// How long a thread may take from its last work to its end, nanoseconds: more than the runtime's shortest sleep.
const SLOW_END: u64 = 400_000_000;

fn end_slowly(process: &Process) {
    if process.system_faults.threads_end_slowly {
        schedule::sleep(SLOW_END);
    }
}

fn give_back_what_waits() {
    let this = schedule::current();
    let mine = AT_END.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        let at = waiting.iter().position(|(task, _)| *task == this)?;
        Some(waiting.swap_remove(at).1)
    });
    if let Some(library) = mine {
        library.release();
    }
}
