//! The detach thread: one for each attach. It lets the worker run the author's code, then requests the detach.
//!
//! Worker: run → close every registered resource.
//! Detach thread: prove that callbacks arrive → clear the event mask → close the callback guard → request the detach → end.
//! A step that fails undoes the earlier ones and reports a [`DetachError`]: the session is alive again.

use super::callback_guard::CallbacksInside;
use super::policy::Role;
use super::resource::until;
use super::resource_registry::{AllClosed, CloseError};
use super::session::{Events, Runtime, Session};
use super::shared_profiler::{Core, Living};
use super::slots::Profiler;
use super::thread;
use crate::detach::{can_unmap, this_thread};
use crate::panics::quietly;
use crate::{AttachMask, HResult, HighAttachMask};
use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// ProfilerAttachComplete follows InitializeForAttach at once.
/// It never comes if the runtime has miscounted its profilers.
const LONGEST_ATTACH: Duration = Duration::from_secs(60);

/// The worker's thread name.
const WORKER: &str = "corprof-worker";

/// The first Info with SuspendRuntime (.NET Core 3.0). Before it, no profiler was notification-only.
const FIRST_SUSPENSION: u8 = 10;

/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(1);

/// Why a detach failed. The session is still alive, and the runtime has accepted no detach request.
///
/// For some errors the event mask was cleared and the callback guard closed, for up to twice [`Profiler::TIMEOUT`]:
/// see [`has_missed_callbacks`](Self::has_missed_callbacks).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachError {
    /// ProfilerAttachComplete never came: the runtime does not find this profiler, and its detach would crash the process.
    AttachIncomplete,
    /// These resources could not be closed.
    ResourcesOpen(Vec<CloseError>),
    /// The runtime no longer calls this notification-only profiler, and its detach would crash the process.
    NoCallbacks,
    /// The check that the runtime still calls this notification-only profiler failed: the runtime did not suspend its threads for it.
    CallbacksUnproven(HResult),
    /// The number of callbacks that did not return in time. Others were missed.
    CallbacksRunning(u64),
    /// The runtime refused. Callbacks were missed.
    Runtime(HResult),
    /// The runtime refused to restore the event mask: no callback comes until [`Runtime::set_events`] is called. Callbacks were missed.
    EventsNotRestored {
        /// Why the detach failed.
        refusal: Box<DetachError>,
        /// The runtime's error.
        code: HResult,
    },
}

impl DetachError {
    /// Whether requested callbacks were missed, such as loads and unloads.
    ///
    /// Then every id from before is void: its object may be gone, and the id may name another one.
    /// A [`LiveSet`](super::LiveSet) empties itself, and must catch up again.
    /// Discard all other stored ids in [`Profiler::detach_failed`].
    pub fn has_missed_callbacks(&self) -> bool {
        match self {
            DetachError::CallbacksRunning(_) | DetachError::Runtime(_) | DetachError::EventsNotRestored { .. } => true,
            DetachError::AttachIncomplete
            | DetachError::ResourcesOpen(_)
            | DetachError::NoCallbacks
            | DetachError::CallbacksUnproven(_) => false,
        }
    }
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DetachError::AttachIncomplete => f.write_str(
                "the attach never completed, because a main profiler detached from this process before; \
                 the profiler stays inert until the process ends",
            ),
            DetachError::ResourcesOpen(open) => {
                let each: Vec<String> = open.iter().map(CloseError::to_string).collect();
                write!(f, "the profiler cannot detach: {}; end each of them, then detach again", each.join("; "))
            }
            DetachError::NoCallbacks => f.write_str(
                "the runtime no longer calls this profiler, because a main profiler has detached; \
                 the profiler stays inert until the process ends",
            ),
            DetachError::CallbacksUnproven(code) => write!(
                f,
                "the profiler cannot detach: the check that the runtime still calls it failed: {code}: {}; detach again",
                code.meaning()
            ),
            DetachError::CallbacksRunning(count) => {
                write!(
                    f,
                    "{count} callbacks did not return in time, and the profiler missed others; \
                     let them return, enumerate again, then detach again"
                )
            }
            DetachError::Runtime(code) => {
                write!(
                    f,
                    "the runtime refused to detach: {code}: {}; the profiler missed callbacks: enumerate again",
                    code.meaning()
                )
            }
            DetachError::EventsNotRestored { refusal, code } => write!(
                f,
                "{refusal}; the runtime refused to restore the event mask: {code}: {}; set it with set_events",
                code.meaning()
            ),
        }
    }
}

impl core::error::Error for DetachError {}

/// What a profiler does after a failed detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDetachError {
    /// It stays inert until the process ends: no requested events, no callbacks.
    Inert,
    /// The SDK calls [`Profiler::run`] again.
    RunAgain,
}

/// A summary of an accepted detach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachSummary {
    /// Whether the library gets unmapped. Not where the C library has no destructors for threads (musl).
    pub unmaps: bool,
    /// Callbacks that arrived while the callback guard was closed. The author's code did not get them.
    pub rejected_callbacks: u64,
    /// The longest duration of a callback.
    pub longest_callback: Duration,
}

/// The profiler after the runtime accepted the detach: no call to the runtime is possible.
///
/// ```compile_fail,E0599
/// fn ask<'rt>(detached: corprof::sdk::Detached<'rt>) {
///     detached.modules();
/// }
/// ```
#[derive(Debug)]
pub struct Detached<'rt>(#[allow(dead_code, reason = "whose it was")] super::id::Brand<'rt>);

/// The runtime refused the detach. Nothing has changed.
pub struct RefusedDetach<'rt> {
    /// Alive.
    pub session: Session<'rt>,
    /// Still valid.
    pub proof: AllClosed<'rt>,
    /// The runtime's error.
    pub code: HResult,
}

impl<'rt> Session<'rt> {
    /// Requests the detach. `expected` is the longest duration of a running callback.
    ///
    /// The owner of the session is its only user, and [`AllClosed`] proves that no resource is open. Without the proof:
    /// ```compile_fail,E0061
    /// fn leave<'rt>(session: corprof::sdk::Session<'rt>) {
    ///     let _ = session.request_detach(core::time::Duration::ZERO);
    /// }
    /// ```
    /// with a proof for another runtime:
    /// ```compile_fail
    /// fn leave<'rt, 'other>(session: corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'other>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    /// }
    /// ```
    /// while others may use the session:
    /// ```compile_fail,E0507
    /// fn leave<'rt>(session: &corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'rt>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    /// }
    /// ```
    /// and calls afterwards:
    /// ```compile_fail,E0382
    /// fn leave<'rt>(session: corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'rt>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    ///     let _ = session.modules();
    /// }
    /// ```
    /// do not compile. This does:
    /// ```
    /// fn leave<'rt>(session: corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'rt>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    /// }
    /// ```
    pub fn request_detach(
        self,
        proof: AllClosed<'rt>,
        expected: Duration,
    ) -> Result<Detached<'rt>, Box<RefusedDetach<'rt>>> {
        let Session { runtime: Runtime { info, common, brand }, resources, door, timeout } = self;
        match info.request_profiler_detach(expected) {
            Ok(_) => Ok(Detached(brand)),
            Err(refused) => {
                let runtime = Runtime { info: refused.info, common, brand };
                let session = Session { runtime, resources, door, timeout };
                Err(Box::new(RefusedDetach { session, proof, code: refused.code }))
            }
        }
    }
}

/// The result of one round on the worker.
enum Round {
    /// Every resource is closed: the detach thread may continue.
    Closed(AllClosed<'static>),
    /// The detach is not possible yet.
    Refused(DetachError),
    /// No more rounds.
    Over,
}

/// The detach thread's main function.
pub(super) fn run<P: Profiler<'static>>(core: &Arc<Core<P>>) {
    let complete = core.common.wait(Some(LONGEST_ATTACH), |state| state.complete || state.shutdown);
    if core.common.state().shutdown {
        return;
    }
    let mut refusal = (!complete).then_some(DetachError::AttachIncomplete);
    loop {
        refusal = match run_on_worker(core, refusal.take()) {
            Round::Over => return,
            Round::Refused(refusal) => Some(refusal),
            Round::Closed(proof) => match detach(core, proof) {
                Ok(()) => return,
                Err(refusal) => Some(refusal),
            },
        };
    }
}

/// Runs one round on a new worker thread, and joins it.
///
/// The author's calls may turn a thread into a runtime thread, for which the runtime refuses SuspendRuntime and the detach.
/// ForceGC does so, and starting or stopping an EventPipe session (measured on .NET 8.0.4).
/// So the detach thread calls nothing else itself.
fn run_on_worker<P: Profiler<'static>>(core: &Arc<Core<P>>, before: Option<DetachError>) -> Round {
    let place = Arc::new(Mutex::new(None));
    let (put, lent, reported) = (Arc::clone(&place), Arc::clone(core), before.clone());
    let work = move || {
        let came = round(&lent, reported);
        *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
    };
    match thread::start(WORKER, work) {
        Ok(worker) => worker.join(),
        // No worker thread: run the round here. The runtime may then refuse the detach.
        Err(_) => return round(core, before),
    }
    place.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(Round::Over)
}

fn round<P: Profiler<'static>>(core: &Core<P>, before: Option<DetachError>) -> Round {
    if before.is_some_and(|refusal| stay(core, &refusal) == OnDetachError::Inert) {
        return Round::Over;
    }
    work(core);
    let Some(living) = core.gate.enter() else { return Round::Over };
    let closed = living.session.resources.close_all(&living.session.info, P::TIMEOUT);
    match closed {
        // The process and its runtime are ending: there is nothing to detach from.
        _ if core.common.state().shutdown => Round::Over,
        Ok(proof) => Round::Closed(proof),
        Err(open) => Round::Refused(DetachError::ResourcesOpen(open)),
    }
}

/// Runs the author's code. A panic counts as a return.
fn work<P: Profiler<'static>>(core: &Core<P>) {
    if let Some(living) = core.gate.enter() {
        let _ = quietly(|| living.profiler.run(&living.session));
    }
    core.common.change(|state| state.detaching = true);
}

/// Lets the author decide after a failed detach.
fn stay<P: Profiler<'static>>(core: &Core<P>, refusal: &DetachError) -> OnDetachError {
    let Some(living) = core.gate.enter() else { return OnDetachError::Inert };
    if core.common.state().shutdown {
        return OnDetachError::Inert;
    }
    // Only detach requests from here on count.
    core.common.change(|state| state.detaching = false);
    let then = quietly(|| living.profiler.detach_failed(&living.session, refusal)).unwrap_or(OnDetachError::Inert);
    // An attach that never completed cannot complete later.
    if then == OnDetachError::RunAgain && *refusal != DetachError::AttachIncomplete {
        return OnDetachError::RunAgain;
    }
    // If the runtime refuses, nothing more can be done.
    let _ = living.session.set_events(Events::default());
    drop(living);
    // SAFETY: the guard is open. Only the detach thread shuts it, and it waits for this thread.
    // A callback that never returns keeps it open: the profiler cannot become more inert.
    if let Ok(Some(living)) = unsafe { core.gate.shut(P::TIMEOUT) } {
        // Dropping the author's value could run any code and call the runtime. So it is leaked.
        core::mem::forget(living);
    }
    OnDetachError::Inert
}

/// From the empty resource registry to the detach request.
///
/// It stops when the process ends: after Shutdown the profiler calls nothing more (contract DET-17).
/// Only a call that is already under way may still run.
fn detach<P: Profiler<'static>>(core: &Core<P>, proof: AllClosed<'static>) -> Result<(), DetachError> {
    if let Some(living) = core.gate.enter().filter(|_| P::ROLE == Role::Notification)
        && let Err(refusal) = prove_that_callbacks_arrive(&living.session, P::TIMEOUT)
    {
        living.session.resources.reopen(proof);
        return Err(refusal);
    }
    if core.common.state().shutdown {
        return Ok(());
    }
    let wanted = silence(core);
    // SAFETY: the guard is open, and only the detach thread shuts it.
    let living = match unsafe { core.gate.shut(P::TIMEOUT) } {
        Ok(Some(living)) => living,
        Ok(None) => return Err(DetachError::CallbacksRunning(0)),
        Err(CallbacksInside(count)) => return Err(resume(core, wanted, proof, DetachError::CallbacksRunning(count))),
    };
    ask(core, living, proof, wanted)
}

/// Requests the detach: the callback guard is closed, and the resource registry is empty.
fn ask<P: Profiler<'static>>(
    core: &Core<P>,
    Living { profiler, session }: Living<P>,
    proof: AllClosed<'static>,
    wanted: Option<Events>,
) -> Result<(), DetachError> {
    let reopened = |session: Session<'static>, proof, profiler, why| {
        // SAFETY: this thread shut and emptied the guard, and only the detach thread opens it again.
        unsafe { core.gate.open(Living { profiler, session }) };
        // Only with the guard open, so that it rejects none of the restored events.
        Err(resume(core, wanted, proof, why))
    };
    // The runtime does not wait for those that it does not count. By now no callback has a reason to block.
    let callbacks = &core.common.callbacks;
    if !until(P::TIMEOUT, || callbacks.count() == 0) {
        return reopened(session, proof, profiler, DetachError::CallbacksRunning(callbacks.count()));
    }
    if core.common.state().shutdown {
        // Leak both: even releasing a reference would call the runtime.
        core::mem::forget((session, profiler));
        return Ok(());
    }
    match session.request_detach(proof, callbacks.expected_detach_time()) {
        Ok(_) => {
            let summary = summary(core);
            let _ = quietly(|| profiler.detached(&summary));
            Ok(())
        }
        Err(alive) => {
            let RefusedDetach { session, proof, code } = *alive;
            reopened(session, proof, profiler, DetachError::Runtime(code))
        }
    }
}

fn summary<P>(core: &Core<P>) -> DetachSummary {
    let longest_callback = Duration::from_nanos(core.common.callbacks.longest());
    DetachSummary { unmaps: can_unmap(), rejected_callbacks: core.gate.rejected_callbacks(), longest_callback }
}

/// Clears the event mask, and returns the old one. `None` if it cannot be read: then it stays as it was.
fn silence<P>(core: &Core<P>) -> Option<Events> {
    let living = core.gate.enter()?;
    let wanted = wanted(&living.session).ok()?;
    if !core.common.state().shutdown {
        // If the runtime refuses, the guard rejects the callbacks.
        let _ = living.session.set_events(Events::default());
    }
    Some(wanted)
}

/// Undoes `silence`, and marks callbacks as missed. Returns the error to report.
fn resume<P>(core: &Core<P>, wanted: Option<Events>, void: AllClosed<'static>, refusal: DetachError) -> DetachError {
    let Some(living) = core.gate.enter() else { return refusal };
    // Before callbacks come: one may bring a known id that now names another object.
    // And again when they come: an enumeration made in between may lack earlier loads.
    core.common.miss();
    let taken_back = match wanted {
        Some(wanted) if !core.common.state().shutdown => living.session.set_events(wanted),
        _ => Ok(()),
    };
    core.common.miss();
    living.session.resources.reopen(void);
    match taken_back {
        Ok(()) => refusal,
        Err(code) => DetachError::EventsNotRestored { refusal: Box::new(refusal), code },
    }
}

fn wanted(session: &Session<'_>) -> Result<Events, HResult> {
    let (low, high) = session.info.get_event_mask2()?;
    // ReJIT forbids the detach whether it is requested again or not, and no mask here can hold it.
    let low = AttachMask::from_bits(low & AttachMask::ALLOWED).unwrap_or_default();
    let high = HighAttachMask::from_bits(high & HighAttachMask::ALLOWED).unwrap_or_default();
    Ok(Events { low, high })
}

/// Proves that the runtime still calls this profiler: it suspends the runtime, which must report that ([`crate::detach::CallbackProof`]).
fn prove_that_callbacks_arrive(session: &Session<'_>, timeout: Duration) -> Result<(), DetachError> {
    let ends = || session.common.state().shutdown;
    // The desktop's runtimes have loaded it as their only profiler, and cannot be suspended.
    if session.info.version() < FIRST_SUSPENSION {
        return Ok(());
    }
    let wanted = wanted(session).map_err(DetachError::CallbacksUnproven)?;
    if ends() {
        return Ok(());
    }
    let low = wanted.low | AttachMask::SUSPENDS;
    session.set_events(Events { low, high: wanted.high }).map_err(DetachError::CallbacksUnproven)?;
    if ends() {
        return Ok(());
    }
    let (stopped, reported) = session.common.proof.listen(this_thread(), || stop_once(session, timeout));
    if ends() {
        return Ok(());
    }
    // If the runtime refuses: the mask is replaced in a moment anyway.
    let _ = session.set_events(wanted);
    stopped.map_err(DetachError::CallbacksUnproven)?;
    if reported { Ok(()) } else { Err(DetachError::NoCallbacks) }
}

/// Suspends and resumes the managed threads. Another suspension under way goes first.
fn stop_once(session: &Session<'_>, timeout: Duration) -> Result<(), HResult> {
    let end = Instant::now() + timeout;
    loop {
        match session.suspend() {
            Err(HResult::CORPROF_E_SUSPENSION_IN_PROGRESS)
                if Instant::now() < end && !session.common.state().shutdown =>
            {
                std::thread::sleep(INTERVAL);
            }
            other => return other.map(drop),
        }
    }
}
