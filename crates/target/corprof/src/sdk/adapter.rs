//! One load of the profiler: the callback object's inside, from `InitializeForAttach` to the last release.
//!
//! Inert until then, since a refused attach leaves the object behind (.NET 6+ runs the factory for attaches that it refuses afterwards).

use super::callback_guard::CallbackGuard;
use super::common::Common;
use super::detach;
use super::policy::{RuntimeSlot, RuntimeSlots};
use super::resource_registry::ResourceRegistry;
use super::session::{Beginning, Events, Runtime, Session};
use super::slots::Profiler;
use super::thread::{self, OwnThread};
use crate::{Alive, CallbackObject, CallbackToken, HResult, Info, Loading, SuspendReason, sys};
use core::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};

/// The detach thread's name, as the system shows it.
const DETACH_THREAD: &str = "corprof-detach thread";

/// A session that threads can borrow.
pub(super) trait Door: Send + Sync {
    fn with_session(&self, work: &mut dyn FnMut(&Session<'static>));
}

/// What may be reached inside the gate.
pub(super) struct Living<P> {
    pub profiler: P,
    pub session: Session<'static>,
}

pub(super) struct Core<P> {
    pub gate: CallbackGuard<Living<P>>,
    pub common: Arc<Common>,
}

/// The author's profiler as a callback object has it.
pub(super) struct Adapter<P> {
    core: OnceLock<Arc<Core<P>>>,
    places: &'static RuntimeSlots,
    /// Given back with the last release.
    place: OnceLock<RuntimeSlot>,
}

/// The callback object of one more load, or `None` if the policy has no place for it.
///
/// # Safety
/// `P` is `X<'static>` of an `X<'rt>` that is a [`Profiler<'rt>`] for every `'rt`: else ids of two runtimes could be confused.
#[doc(hidden)]
pub unsafe fn create<P: Profiler<'static>>(places: &'static RuntimeSlots) -> Option<*mut sys::IUnknown> {
    if places.is_full(P::SIDE_BY_SIDE) {
        return None;
    }
    let adapter = Adapter::<P> { core: OnceLock::new(), places, place: OnceLock::new() };
    Some(CallbackObject::create(adapter))
}

impl<P: Profiler<'static>> Adapter<P> {
    /// Runs the author's part of a callback, if the gate is open.
    pub fn inside<R>(&self, call: impl FnOnce(&P, &Runtime<'static>) -> R) -> Option<R> {
        let living = self.core.get()?.gate.enter()?;
        Some(call(&living.profiler, &living.session))
    }

    /// A callback begins, which is counted from the attach on: zero for one that is not.
    pub fn callback_begins(&self) -> CallbackToken {
        CallbackToken(self.core.get().map_or(0, |core| core.common.callback_begins()))
    }

    /// The same callback is over; its last touch of anything of ours.
    pub fn callback_ends(&self, slot: &'static str, begun: CallbackToken) {
        let Some(core) = self.core.get().filter(|_| begun.0 != 0) else { return };
        if slot == "Shutdown" {
            core.common.change(|state| (state.detaching, state.shutdown) = (true, true));
        }
        core.common.callback_ends(begun.0);
    }

    /// The runtime begins to stop its threads, for this reason.
    pub fn suspension_begins(&self, reason: SuspendReason) {
        if let Some(core) = self.core.get().filter(|_| reason == SuspendReason::FOR_PROFILER) {
            core.common.suspension_begins();
        }
    }

    /// Attached or started: asks the author for a profiler, opens the gate around it, asks for callbacks, starts the detach thread.
    pub fn begin<L: Loading>(
        &self,
        info: Info<L, Alive>,
        make: impl FnOnce(&Beginning<'static, L>) -> Result<P, HResult>,
    ) -> Result<(), HResult> {
        if !thread::is_part_of_the_program() {
            // The standard hook prints on the target's standard error and touches a thread-local that pins the library.
            // This library's copy of the hook is its own.
            std::panic::set_hook(Box::new(|_| {}));
        }
        let Some(place) = self.places.take(P::SIDE_BY_SIDE, &info.get_runtime_information()?) else {
            return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        };
        let common = Arc::new(Common::default());
        let runtime = Runtime { info: info.common(), common: Arc::clone(&common), brand: PhantomData };
        let beginning = Beginning { runtime, own: info };
        let profiler = make(&beginning)?;
        let (wants, core) = (profiler.events(), Arc::new(Core { gate: CallbackGuard::new(), common }));
        let session = Session {
            runtime: beginning.runtime,
            resources: ResourceRegistry::new(),
            door: OnceLock::new(),
            timeout: P::TIMEOUT,
        };
        let door: Weak<dyn Door> = Arc::downgrade(&(Arc::clone(&core) as Arc<dyn Door>));
        let _ = session.door.set(door);
        // SAFETY: new, so shut and empty; the detach thread, the only other one, does not run yet.
        unsafe { core.gate.open(Living { profiler, session }) };
        // From here on callbacks may come: the profiler is there to take them.
        let _ = self.core.set(Arc::clone(&core));
        let begun = core.ask_for_callbacks(wants).and_then(|()| Core::start_detach_thread(&core));
        if begun.is_err() {
            // SAFETY: open, and there is no detach thread. No callback comes to a profiler whose attach is not over yet.
            drop(unsafe { core.gate.shut(P::TIMEOUT) });
            return begun;
        }
        let _ = self.place.set(place);
        Ok(())
    }

    /// The last callback of the attach: the detach thread may work.
    pub fn complete(&self) {
        let Some(core) = self.core.get() else { return };
        if let Some(living) = core.gate.enter() {
            living.profiler.attach_complete(&living.session);
        }
        core.common.change(|state| state.complete = true);
    }
}

impl<P: Profiler<'static>> Core<P> {
    fn ask_for_callbacks(&self, wants: Events) -> Result<(), HResult> {
        let living = self.gate.enter().ok_or(HResult::E_UNEXPECTED)?;
        living.session.set_events(wants)
    }

    fn start_detach_thread(core: &Arc<Core<P>>) -> Result<(), HResult> {
        let core = Arc::clone(core);
        let started = OwnThread::start(DETACH_THREAD, Box::new(move || detach::run(&core)));
        // Nobody joins it: it is the last, and holds a reference of its own on the library.
        started.map(OwnThread::let_go).map_err(|_| HResult::E_OUTOFMEMORY)
    }
}

impl<P: Profiler<'static>> Door for Core<P> {
    fn with_session(&self, work: &mut dyn FnMut(&Session<'static>)) {
        if let Some(living) = self.gate.enter() {
            work(&living.session);
        }
    }
}

/// The slots that the SDK answers itself, for the generated rest of the implementation.
macro_rules! own_slots {
    () => {
        fn enter(&self, _slot: &'static str) -> CallbackToken {
            self.callback_begins()
        }

        fn leave(&self, slot: &'static str, begun: CallbackToken) {
            self.callback_ends(slot, begun);
        }

        fn on_panic(&self, slot: &'static str) {
            self.inside(|profiler, runtime| profiler.on_panic(runtime, slot));
        }

        fn load_as_notification_only(&self) -> bool {
            P::ROLE == Role::Notification
        }

        fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
            self.begin(info, P::start)?;
            self.complete();
            Ok(())
        }

        fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
            self.begin(info, |beginning| P::attach(beginning, client_data))
        }

        fn profiler_attach_complete(&self) {
            self.complete();
        }
    };
}
pub(super) use own_slots;
