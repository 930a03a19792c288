//! One attach, from InitializeForAttach to the last instruction of ours: the two threads.
//!
//! The *worker* does everything and may use all of the standard library: it is joined before detach is asked for.
//! The *leaver* only waits for it, asks for detach, and ends so that the C library drops the last reference on this library after
//! our last frame is gone. It uses nothing with a thread-local destructor, which would run after that.
//! Which of the two is which is decided by who gets a processor first ([`Host::start_pair`]).

use crate::clr::{Clr, HIGH_MASK, HIGH_MASK_OF_HEAP, LOW_MASK, LOW_MASK_OF_COLLECTIONS, LOW_MASK_OF_HEAP};
use crate::fault_injection::{InjectedFault, is_injected};
use crate::host::{Host, HostedPlatform, ThreadRoles};
use crate::platform::Platform;
use crate::resource_registry::{ResourceKind, ResourceRegistry};
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::worker::{Outcome, Worker};
use corprof::{Alive, Attached, HResult, Info};
use remora_wire::{Config, EventKind, FromAgent, Roots};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The runtime never sleeps less than this between two looks, and falls back to 5 s once twice the expected time has passed.
///
/// Measured: with 1 ms expected, a detach thread that wakes 2 ms late on a loaded machine sleeps 5 s at once; with 300 ms it never did.
const SHORTEST_SLEEP: Duration = Duration::from_millis(300);

/// Between two looks whether callbacks still run, nanoseconds.
const CALLBACK_LOOK: u64 = 1_000_000;

/// The two threads and what they have in common.
struct Attach<H: Host> {
    shared: Arc<Shared<H::Platform>>,
    /// Taken by the detach thread, when nobody else looks at it any more.
    info: Mutex<Option<Info<Attached, Alive>>>,
    reference: Mutex<Option<H::LibraryReference>>,
    notification_only: bool,
    outcome: Mutex<Outcome>,
}

/// Called from InitializeForAttach: asks for callbacks, calls the other side, starts both threads, returns at once.
///
/// Each of the three then waits for a processor at the same time as the others, not one after the other.
///
/// # Errors
/// The HRESULT that the trigger gets.
pub fn begin<H: Host>(
    host: &H,
    info: Info<Attached, Alive>,
    client_data: &[u8],
    notification_only: bool,
) -> Result<Arc<Shared<H::Platform>>, HResult> {
    let config = Config::decode(client_data).map_err(|_| HResult::E_INVALIDARG)?;
    if !H::Platform::TASKS.include(config.event) {
        return Err(HResult::CORPROF_E_PROFILER_CANCEL_ACTIVATION);
    }
    let reference = host.reference_library().map_err(|_| HResult::E_FAIL)?;
    if is_injected(InjectedFault::EnumerateTooEarly) {
        drop(info.enum_modules());
    }
    // What is refused here for good is told when it is needed.
    let wants_roots = config.roots == Roots::Seen || config.event == EventKind::Watch;
    let roots_refused = match (wants_roots, notification_only) {
        (false, _) => None,
        // It would be refused for good, and is not asked for.
        (true, true) => Some(HResult::E_INVALIDARG),
        (true, false) => info.set_event_mask2(LOW_MASK_OF_COLLECTIONS, HIGH_MASK_OF_HEAP).err(),
    };
    if is_injected(InjectedFault::EnableRejit) {
        let rejit = corprof::IrreversibleMask::enable_rejit(LOW_MASK, corprof::irreversible());
        info.set_event_mask2_irreversible(rejit, HIGH_MASK)?;
    } else {
        let is_heap = config.event.is_of_heap();
        let (low, high) = if is_heap { (LOW_MASK_OF_HEAP, HIGH_MASK_OF_HEAP) } else { (LOW_MASK, HIGH_MASK) };
        info.set_event_mask2(low, high)?;
    }
    let resources = Arc::new(ResourceRegistry::default());
    let platform = host.open(config, resources.clone()).map_err(|_| HResult::E_OUTOFMEMORY)?;
    // Nobody there is no reason to refuse: the worker finds the same, and leaves.
    let _ = platform.call();
    let shared = Arc::new(Shared::new(platform, resources));
    shared.roots_refused.store(roots_refused.map_or(0, |code| code.0 as u32), Ordering::SeqCst);
    let outcome = Outcome::Inert("the agent's thread panicked".into());
    let attach = Attach::<H> {
        shared: shared.clone(),
        info: Mutex::new(Some(info)),
        reference: Mutex::new(Some(reference)),
        notification_only,
        outcome: Mutex::new(outcome),
    };
    start_threads(host, &shared, attach)?;
    Ok(shared)
}

fn start_threads<H: Host>(host: &H, shared: &Shared<H::Platform>, attach: Attach<H>) -> Result<(), HResult> {
    shared.resources.acquire(ResourceKind::Thread);
    shared.resources.acquire(ResourceKind::Thread);
    host.start_pair(Arc::new(attach)).map_err(|alone| {
        if let Some(join) = alone {
            // The attach is refused and the library unloaded: the thread ends before that.
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
        // Taken only by the detach thread, after this thread.
        let Some(info) = info.as_ref() else { return };
        let runtime = Clr::new(info, shared, self.notification_only);
        let run = catch_unwind(AssertUnwindSafe(|| Worker::new(shared, &runtime).run()));
        *lock(&self.outcome) = run.unwrap_or_else(|_| close_after_panic(shared, &runtime));
    }

    fn leave(self: Arc<Self>) {
        let (info, reference) = (lock(&self.info).take(), lock(&self.reference).take());
        let shared = self.shared.clone();
        shared.resources.release(ResourceKind::Thread);
        let detaches = matches!(*lock(&self.outcome), Outcome::Detach);
        drop(self);
        match info {
            Some(info) if detaches => request_detach(&shared, info),
            _ => shared.platform.release_recording(&shared.inside),
        }
        shared.resources.release(ResourceKind::Thread);
        drop(shared);
        if let Some(reference) = reference {
            H::give_back_at_thread_end(reference);
        }
    }
}

/// The worker panicked: a recording is lost, the target is not. Everything is closed as far as it can be.
fn close_after_panic<P: HostedPlatform>(shared: &Shared<P>, runtime: &Clr<P>) -> Outcome {
    shared.unload_barrier.lower(&shared.platform);
    shared.platform.send(&FromAgent::Failed { what: "the agent panicked; it stops and detaches".into() });
    let closed = catch_unwind(AssertUnwindSafe(|| {
        let stopped = shared.platform.stop_sampling().is_ok();
        let arrives = runtime.callbacks_arrive();
        runtime.clear_event_mask();
        stopped && arrives && shared.attach_complete.load(Ordering::SeqCst)
    }));
    match closed {
        Ok(true) if shared.resources.held_besides_own_threads().is_none() => Outcome::Detach,
        _ => Outcome::Inert("the agent panicked and could not close every way into the library".into()),
    }
}

/// The runtime waits for callbacks on its own threads only. ProfilerAttachComplete runs on the diagnostics thread, which it does not
/// count: a detach asked for meanwhile would be over while that callback still runs (docs/authors/contract-findings.md, DET-07). No callback
/// of ours waits for anything but the worker, which has ended: so this ends, too.
fn wait_for_callbacks(shared: &Shared<impl Platform>) {
    while shared.inside.load(Ordering::SeqCst) != 0 && !is_injected(InjectedFault::NotWaitForOwnCallbacks) {
        shared.platform.pause(CALLBACK_LOOK);
    }
}

/// Every other way in is closed. After success nothing of the runtime is touched any more.
fn request_detach(shared: &Shared<impl HostedPlatform>, info: Info<Attached, Alive>) {
    wait_for_callbacks(shared);
    let expected = expected_time(shared.longest_callback.load(Ordering::Relaxed));
    if let Err(refused) = info.request_profiler_detach(expected) {
        shared.platform.send(&FromAgent::DetachRefused { code: refused.code.0 as u32 });
        shared.platform.release_recording(&shared.inside);
    }
}

/// What the runtime is told that a callback takes (contract DET-15): the longest that was seen, in nanoseconds, but no less than its
/// own shortest sleep.
fn expected_time(longest_callback: u64) -> Duration {
    Duration::from_nanos(longest_callback).max(SHORTEST_SLEEP)
}

/// What a panicked thread left behind is taken as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn det_15_the_expected_time_is_the_longest_callback_and_no_less_than_the_runtimes_own_sleep() {
        for (longest, expected) in [(0, 300), (299_999_999, 300), (300_000_001, 300), (450_000_000, 450)] {
            assert_eq!(expected_time(longest).as_millis(), expected, "{longest} ns");
        }
        assert_eq!(expected_time(300_000_001), Duration::from_nanos(300_000_001));
    }
}
