//! One load of the profiler: the inside of the callback object, from `InitializeForAttach` to the last release.
//!
//! It is inert until then, because a refused attach leaks the object (.NET 6+ runs the factory even for attaches that it refuses later).

use super::callback_guard::CallbackGuard;
use super::common::{Common, now};
use super::detach;
use super::policy::{RuntimeSlot, RuntimeSlots};
use super::resource_registry::ResourceRegistry;
use super::session::{Beginning, Door, Runtime, Session};
use super::shared_profiler::{Core, Living};
use super::slots::Profiler;
use super::thread;
use crate::detach::{OwnThread, is_part_of_the_program, this_thread};
use crate::{Alive, CallbackObject, CallbackToken, HResult, Info, Loading, SuspendReason, sys};
use core::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};

/// The detach thread's name.
const DETACH_THREAD: &str = "corprof-detach";

/// The author's profiler inside a callback object.
pub(super) struct Adapter<P> {
    core: OnceLock<Arc<Core<P>>>,
    places: &'static RuntimeSlots,
    /// Freed with the last release.
    place: OnceLock<RuntimeSlot>,
}

/// Makes the callback object of one more load; `None` if the policy has no slot for it.
///
/// # Safety
/// `P` is `X<'static>` of an `X<'rt>` that implements [`Profiler<'rt>`] for every `'rt`. Otherwise ids of two runtimes could be mixed up.
#[doc(hidden)]
pub unsafe fn create<P: Profiler<'static>>(places: &'static RuntimeSlots) -> Option<*mut sys::IUnknown> {
    if places.is_full(P::SIDE_BY_SIDE) {
        return None;
    }
    let adapter = Adapter::<P> { core: OnceLock::new(), places, place: OnceLock::new() };
    Some(CallbackObject::create(adapter))
}

impl<P: Profiler<'static>> Adapter<P> {
    /// Runs the author's part of a callback if the callback guard is open.
    pub fn inside<R>(&self, call: impl FnOnce(&P, &Runtime<'static>) -> R) -> Option<R> {
        let living = self.core.get()?.gate.enter()?;
        Some(call(&living.profiler, &living.session))
    }

    /// Counts a callback that begins. Before the attach nothing counts it.
    pub fn callback_begins(&self) -> CallbackToken {
        self.core.get().map(|core| core.common.callbacks.begin(now)).unwrap_or_default()
    }

    /// Ends that callback. It must be the last access to the profiler's state.
    pub fn callback_ends(&self, slot: &'static str, begun: CallbackToken) {
        let Some(core) = self.core.get() else { return };
        if slot == "Shutdown" {
            core.common.change(|state| (state.detaching, state.shutdown) = (true, true));
        }
        core.common.callbacks.end(begun, now);
    }

    /// Notes that the runtime begins a suspension.
    pub fn suspension_begins(&self, reason: SuspendReason) {
        if let Some(core) = self.core.get() {
            core.common.proof.suspension_begins(reason, this_thread());
        }
    }

    /// Attach or startup: makes the author's profiler, opens the callback guard, requests events and starts the detach thread.
    pub fn begin<L: Loading>(
        &self,
        info: Info<L, Alive>,
        make: impl FnOnce(&Beginning<'static, L>) -> Result<P, HResult>,
    ) -> Result<(), HResult> {
        if !is_part_of_the_program() {
            // The standard hook prints to the target's standard error, and touches a thread-local that pins the library.
            // The hook is this library's own copy, so the target's stays.
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
        // SAFETY: the guard is new, so closed and empty. Only the detach thread would use it too, and it does not run yet.
        unsafe { core.gate.open(Living { profiler, session }) };
        // Before the events are requested: from then on callbacks need the profiler.
        let _ = self.core.set(Arc::clone(&core));
        let begun = core.ask_for_callbacks(wants).and_then(|()| start_detach_thread(&core));
        if begun.is_err() {
            // SAFETY: the guard is open, and there is no detach thread. The runtime makes no callbacks before the attach call returns.
            drop(unsafe { core.gate.shut(P::TIMEOUT) });
            return begun;
        }
        let _ = self.place.set(place);
        Ok(())
    }

    /// The last callback of the attach: the detach thread may continue.
    pub fn complete(&self) {
        let Some(core) = self.core.get() else { return };
        if let Some(living) = core.gate.enter() {
            living.profiler.attach_complete(&living.session);
        }
        core.common.change(|state| state.complete = true);
    }
}

fn start_detach_thread<P: Profiler<'static>>(core: &Arc<Core<P>>) -> Result<(), HResult> {
    let core = Arc::clone(core);
    let started = thread::start(DETACH_THREAD, move || detach::run(&core));
    // Nobody joins the detach thread: it ends last, and holds its own reference on the library.
    started.map(OwnThread::let_go).map_err(|_| HResult::E_OUTOFMEMORY)
}

/// The slots that the SDK implements itself. The generated code has the others.
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
