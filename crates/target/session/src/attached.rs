//! One attach, from InitializeForAttach to our last instruction: two threads.
//!
//! The *worker* does all the work and may use the whole standard library: it is joined before the detach request. The *detach thread* waits
//! for the worker, requests the detach, and ends. The C library drops the last reference on this library after our last frame is gone. So
//! this thread uses nothing with a thread-local destructor: that would run later. The scheduler decides which thread becomes the worker
//! ([`Host::start_pair`]).

use crate::clr::{Clr, HIGH_MASK, HIGH_MASK_OF_HEAP, LOW_MASK, LOW_MASK_OF_COLLECTIONS};
use crate::fault_injection::{InjectedFault, is_injected};
use crate::host::{Host, HostedPlatform, ThreadRoles};
use crate::platform::Platform;
use crate::resource_registry::{ResourceKind, ResourceRegistry};
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::worker::{Outcome, Worker};
use corprof::{Alive, Attached, HResult, Info};
use remora_wire::{AgentErrorCode, Config, FromAgent, STARTUP_LIMIT, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Between two checks whether callbacks still run, nanoseconds.
const CALLBACK_INTERVAL: u64 = 1_000_000;

/// How often to ask a runtime to detach that still starts.
const INITIALIZING_CHECKS: u32 = 5_000;

/// What the two threads share.
struct Attach<H: Host> {
    shared: Arc<Shared<H::Platform>>,
    /// The detach thread takes it when no other thread uses it any more.
    info: Mutex<Option<Info<Attached, Alive>>>,
    reference: Mutex<Option<H::LibraryReference>>,
    notification_only: bool,
    outcome: Mutex<Outcome>,
}

/// Called from InitializeForAttach: sets the event mask, connects to the recorder, starts both threads, returns at once.
///
/// All three then compete for a CPU at the same time, not one after the other.
///
/// # Errors
/// The HRESULT for the process that requested the attach.
pub fn begin<H: Host>(
    host: &H,
    info: Info<Attached, Alive>,
    client_data: &[u8],
    notification_only: bool,
) -> Result<Arc<Shared<H::Platform>>, HResult> {
    let attach = Attach::prepare(Opened::of(host, client_data)?, info, notification_only)?;
    // Without a recorder the attach still succeeds: the worker gets the same error, and detaches.
    let _ = attach.shared.platform.call();
    attach.start(host)
}

/// Called from Initialize of a process that a recorder starts: the same, and waits until the agent samples, so that the recording begins
/// before managed code. A process that no recorder waits for starts without the agent, at once: the second one of a script, or one whose
/// recorder is dead.
///
/// # Errors
/// The HRESULT that unloads the library again. The runtime continues its start.
pub fn begin_at_startup<H: Host>(
    host: &H,
    info: Info<Attached, Alive>,
    notification_only: bool,
) -> Result<Arc<Shared<H::Platform>>, HResult> {
    let order = host.startup_order().ok_or(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION)?;
    remora_connection::set_back_in_runtime(&info, &order);
    let opened = Opened::of(host, &order.config)?;
    if opened.platform.call().is_err() {
        opened.platform.remove_abandoned_files();
        return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
    }
    let attach = Attach::prepare(opened, info, notification_only)?;
    attach.shared.at_startup.store(true, Ordering::SeqCst);
    // No ProfilerAttachComplete follows Initialize.
    attach.shared.attach_complete.store(true, Ordering::SeqCst);
    let shared = attach.start(host)?;
    shared.platform.wait_in_callback(&shared.begun, 1, STARTUP_LIMIT.as_nanos() as u64);
    Ok(shared)
}

/// What an attach needs before it touches the runtime.
struct Opened<H: Host> {
    task: Task,
    reference: H::LibraryReference,
    platform: H::Platform,
    resources: Arc<ResourceRegistry>,
}

impl<H: Host> Opened<H> {
    fn of(host: &H, client_data: &[u8]) -> Result<Self, HResult> {
        let config = Config::decode(client_data).map_err(|_| HResult::E_INVALIDARG)?;
        let task = config.task;
        if !H::Platform::TASKS.include(task) {
            return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
        }
        let reference = host.reference_library().map_err(|_| HResult::E_FAIL)?;
        let resources = Arc::new(ResourceRegistry::default());
        let platform = host.open(config, resources.clone()).map_err(|_| HResult::E_OUTOFMEMORY)?;
        Ok(Opened { task, reference, platform, resources })
    }
}

impl<H: Host> Attach<H> {
    /// Sets the event mask.
    fn prepare(opened: Opened<H>, info: Info<Attached, Alive>, notification_only: bool) -> Result<Self, HResult> {
        let Opened { task, reference, platform, resources } = opened;
        if is_injected(InjectedFault::EnumerateTooEarly) {
            drop(info.enum_modules());
        }
        // A permanent refusal is reported when the roots are needed.
        let roots_refused = match (task.monitors_gcs(), notification_only) {
            (false, _) => None,
            // The runtime always refuses this, so do not ask.
            (true, true) => Some(HResult::E_INVALIDARG),
            (true, false) => info.set_event_mask2(LOW_MASK_OF_COLLECTIONS, HIGH_MASK_OF_HEAP).err(),
        };
        if is_injected(InjectedFault::EnableRejit) {
            let rejit = corprof::IrreversibleMask::enable_rejit(LOW_MASK, corprof::irreversible());
            info.set_event_mask2_irreversible(rejit, HIGH_MASK)?;
        } else {
            let high = if task.is_of_heap() { HIGH_MASK_OF_HEAP } else { HIGH_MASK };
            info.set_event_mask2(LOW_MASK, high)?;
        }
        let shared = Arc::new(Shared::new(platform, resources));
        shared.roots_refused.store(roots_refused.map_or(0, |code| code.0 as u32), Ordering::SeqCst);
        Ok(Attach {
            shared,
            info: Mutex::new(Some(info)),
            reference: Mutex::new(Some(reference)),
            notification_only,
            outcome: Mutex::new(Outcome::Inert(AgentErrorCode::Panicked.into())),
        })
    }

    fn start(self, host: &H) -> Result<Arc<Shared<H::Platform>>, HResult> {
        let shared = self.shared.clone();
        start_threads(host, &shared, self)?;
        Ok(shared)
    }
}

fn start_threads<H: Host>(host: &H, shared: &Shared<H::Platform>, attach: Attach<H>) -> Result<(), HResult> {
    shared.resources.acquire(ResourceKind::Thread);
    shared.resources.acquire(ResourceKind::Thread);
    host.start_pair(Arc::new(attach)).map_err(|alone| {
        if let Some(join) = alone {
            // The attach fails and the runtime unloads the library: end the thread before that.
            shared.platform.hang_up();
            shared.shutdown.store(true, Ordering::SeqCst);
            shared.platform.wake();
            join();
        }
        HResult::E_OUTOFMEMORY
    })
}

impl<H: Host> ThreadRoles for Attach<H> {
    fn work(&self) {
        let shared = &self.shared;
        let info = lock(&self.info);
        // Only the detach thread takes it, after this thread has ended.
        let Some(info) = info.as_ref() else { return };
        let runtime = Clr::new(info, shared, self.notification_only);
        let run = catch_unwind(AssertUnwindSafe(|| Worker::new(shared, &runtime).run()));
        *lock(&self.outcome) = run.unwrap_or_else(|_| close_after_panic(shared, &runtime));
        if shared.at_startup.load(Ordering::SeqCst) {
            shared.platform.remove_abandoned_files();
        }
        shared.announce_begun();
    }

    fn leave(self: Arc<Self>) {
        // First: a thread's destructors run last to first, and a panic must not drop the reference under this thread.
        if let Some(reference) = lock(&self.reference).take() {
            H::give_back_at_thread_end(reference);
        }
        let info = lock(&self.info).take();
        let shared = self.shared.clone();
        shared.resources.release(ResourceKind::Thread);
        let detaches = matches!(*lock(&self.outcome), Outcome::Detach);
        drop(self);
        match info {
            Some(info) if detaches => request_detach(&shared, info),
            _ => shared.platform.release_recording(&shared.running_callbacks),
        }
        shared.resources.release(ResourceKind::Thread);
    }
}

/// The worker panicked. The recording is lost, but the target must survive: close everything that can be closed.
fn close_after_panic<P: HostedPlatform>(shared: &Shared<P>, runtime: &Clr<P>) -> Outcome {
    shared.unload_barrier.lower(&shared.platform);
    shared.platform.send(&FromAgent::Failed(AgentErrorCode::Panicked.into()));
    let closed = catch_unwind(AssertUnwindSafe(|| {
        let stopped = shared.platform.stop_sampling().is_ok();
        let arrives = runtime.callbacks_arrive();
        runtime.clear_event_mask();
        stopped && arrives && shared.attach_complete.load(Ordering::SeqCst)
    }));
    match closed {
        Ok(true) if shared.resources.held_besides_own_threads().is_none() => Outcome::Detach,
        _ => Outcome::Inert(AgentErrorCode::NotClosedAfterPanic.into()),
    }
}

/// The runtime does not wait for all of them (contract DET-07). Ours wait only for the worker, and the worker has ended, so this loop ends.
fn wait_for_callbacks(shared: &Shared<impl Platform>) {
    while shared.running_callbacks.count() != 0 && !is_injected(InjectedFault::NotWaitForOwnCallbacks) {
        shared.platform.pause(CALLBACK_INTERVAL);
    }
}

/// Whether the runtime has refused the detach because Initialize has not returned. Core has its own code for that, the desktop the
/// documented one (live: `det_13_asking_inside_initialize_is_too_early_and_changes_nothing` in tests/conformance).
fn is_too_early(code: HResult) -> bool {
    let is_known = [HResult::CORPROF_E_PROFILER_NOT_YET_INITIALIZED, HResult::CORPROF_E_RUNTIME_UNINITIALIZED];
    is_known.contains(&code) && !is_injected(InjectedFault::AskOnce)
}

/// Every other resource is closed. After success nothing may touch the runtime any more.
fn request_detach(shared: &Shared<impl HostedPlatform>, info: Info<Attached, Alive>) {
    wait_for_callbacks(shared);
    let expected = shared.running_callbacks.expected_detach_time();
    let mut answer = info.request_profiler_detach(expected);
    for _ in 0..INITIALIZING_CHECKS {
        answer = match answer {
            // Initialize has not returned yet.
            Err(refused) if is_too_early(refused.code) && !shared.shutdown.load(Ordering::SeqCst) => {
                shared.platform.pause(CALLBACK_INTERVAL);
                refused.info.request_profiler_detach(expected)
            }
            _ => break,
        };
    }
    if let Err(refused) = answer {
        shared.platform.send(&FromAgent::DetachRefused { code: refused.code.0 as u32 });
        shared.platform.release_recording(&shared.running_callbacks);
    }
}

/// Ignores poisoning by a panicked thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
