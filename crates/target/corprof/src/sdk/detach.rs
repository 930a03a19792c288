//! The detach thread: the thread that every attach has, which has the author's work done by the worker and then goes the only road to
//! RequestProfilerDetach.
//!
//! Worker: run → close every entry of the register. Detach thread: prove that callbacks arrive → want nothing → shut the gate → ask → end.
//! Each step that fails goes back, opens what it shut, and says why: the session is alive again.

use super::adapter::{Core, Living};
use super::callback_guard::CallbacksInside;
use super::policy::Role;
use super::resource_registry::{AllClosed, CloseError};
use super::session::{Events, Runtime, Session};
use super::slots::Profiler;
use super::thread::{self, OwnThread};
use crate::callback::quietly;
use crate::{AttachMask, HResult, HighAttachMask};
use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// ProfilerAttachComplete follows InitializeForAttach at once, unless the runtime has lost count of its profilers and it never comes.
const LONGEST_ATTACH: Duration = Duration::from_secs(60);

/// The runtime never sleeps less than this between two looks, and 5 s once twice the expected time has passed.
/// Measured: with 1 ms expected, a detach thread that wakes 2 ms late sleeps 5 s at once; with 300 ms it never did.
const SHORTEST_SLEEP: Duration = Duration::from_millis(300);

/// The worker's name, as the system shows it.
const WORKER: &str = "corprof-worker";

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Why a profiler that wanted to leave is still there. The session is alive, and nothing was asked of the runtime that it took.
///
/// Some of them come when callbacks were wanted no more, and the gate was shut, for up to twice [`Profiler::TIMEOUT`]:
/// [`has_missed_callbacks`](Self::has_missed_callbacks).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DetachError {
    /// ProfilerAttachComplete never came: the runtime does not find this profiler, and would crash on its detach.
    AttachIncomplete,
    /// These ways into the library could not be closed.
    ResourcesOpen(Vec<CloseError>),
    /// The runtime does not call a notification-only profiler any more, and would crash on its detach.
    NoCallbacks,
    /// Whether the runtime still calls a notification-only profiler could not be seen, since it did not stop its threads for it.
    CallbacksUnproven(HResult),
    /// So many callbacks did not return in time. Others were missed.
    CallbacksRunning(u64),
    /// The runtime refused. Callbacks were missed.
    Runtime(HResult),
    /// The runtime did not take back what was wanted before: no callback comes until [`Runtime::set_events`] is called. Callbacks were missed.
    EventsNotRestored {
        /// Why it could not leave.
        refusal: Box<DetachError>,
        /// What the runtime answered.
        code: HResult,
    },
}

impl DetachError {
    /// Whether callbacks were missed: loads, unloads, whatever was wanted. What is known by an id from before is void, since that one may
    /// have gone and its id may be another's by now. A [`LiveSet`](super::LiveSet) has forgotten it already, and is to catch up again;
    /// what an author keeps by id elsewhere is to be thrown away in [`Profiler::detach_failed`].
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
                "the attach was never completed, since another main profiler has left this process before; \
                 the profiler stays, and does nothing until the process ends",
            ),
            DetachError::ResourcesOpen(open) => {
                let each: Vec<String> = open.iter().map(CloseError::to_string).collect();
                write!(f, "the profiler cannot detach: {}; let each end, then leave again", each.join("; "))
            }
            DetachError::NoCallbacks => f.write_str(
                "the runtime does not call this profiler any more, since a main profiler has left; \
                 the profiler stays, and does nothing until the process ends",
            ),
            DetachError::CallbacksUnproven(code) => write!(
                f,
                "the profiler cannot detach before it has seen that the runtime still calls it, and the runtime did not stop \
                 its threads to show that: {code}: {}; leave again",
                code.meaning()
            ),
            DetachError::CallbacksRunning(count) => {
                write!(
                    f,
                    "the profiler cannot detach while {count} of its callbacks do not return, and has missed others meanwhile; \
                     let them, enumerate again what is there, then leave again"
                )
            }
            DetachError::Runtime(code) => {
                write!(
                    f,
                    "the runtime refused to detach: {code}: {}; callbacks were missed meanwhile: enumerate again what is there",
                    code.meaning()
                )
            }
            DetachError::EventsNotRestored { refusal, code } => write!(
                f,
                "{refusal}; and the runtime does not take back which callbacks were wanted: {code}: {}; \
                 ask for others with set_events",
                code.meaning()
            ),
        }
    }
}

impl core::error::Error for DetachError {}

/// What a profiler does that could not detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDetachError {
    /// It stays until the process ends, wants no callbacks, and gets none.
    Inert,
    /// [`Profiler::run`] is called again.
    RunAgain,
}

/// What can be said when the runtime has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachSummary {
    /// Whether the library is unmapped in the end. Not where the C library has no destructors for threads (musl).
    pub unmaps: bool,
    /// Callbacks that came while the gate was shut and that the author's code was not told of.
    pub rejected_callbacks: u64,
    /// The longest that a callback took.
    pub longest_callback: Duration,
}

/// After the detach was accepted: nothing of the runtime is left to be asked.
///
/// ```compile_fail,E0599
/// fn ask<'rt>(detached: corprof::sdk::Detached<'rt>) {
///     detached.modules();
/// }
/// ```
#[derive(Debug)]
pub struct Detached<'rt>(#[allow(dead_code, reason = "whose it was")] super::id::Brand<'rt>);

/// The runtime refused: everything as it was.
pub struct RefusedDetach<'rt> {
    /// Alive.
    pub session: Session<'rt>,
    /// Still true.
    pub proof: AllClosed<'rt>,
    /// Why.
    pub code: HResult,
}

impl<'rt> Session<'rt> {
    /// Asks the runtime to let the profiler go. `expected` is the longest that a running callback takes.
    ///
    /// Whoever owns the session is the only one who has it, and [`AllClosed`] says that nothing else runs. Without that:
    /// ```compile_fail,E0061
    /// fn leave<'rt>(session: corprof::sdk::Session<'rt>) {
    ///     let _ = session.request_detach(core::time::Duration::ZERO);
    /// }
    /// ```
    /// with that of another runtime:
    /// ```compile_fail
    /// fn leave<'rt, 'other>(session: corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'other>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    /// }
    /// ```
    /// while others may use it:
    /// ```compile_fail,E0507
    /// fn leave<'rt>(session: &corprof::sdk::Session<'rt>, proof: corprof::sdk::AllClosed<'rt>) {
    ///     let _ = session.request_detach(proof, core::time::Duration::ZERO);
    /// }
    /// ```
    /// and asking anything afterwards:
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

/// How far a round of the author's work came.
enum Round {
    /// Everything is closed: the detach thread may go on.
    Closed(AllClosed<'static>),
    /// Not everything is.
    Refused(DetachError),
    /// There are no more rounds.
    Over,
}

/// What the detach thread does from the beginning to its end.
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

/// A round on the worker, a thread that ends with it.
///
/// What an author asks may make a thread one of the runtime's, from which it takes neither SuspendRuntime nor the detach: ForceGC
/// does, and the start or stop of an EventPipe session (measured on .NET 8.0.4). So the detach thread itself never asks anything else.
fn run_on_worker<P: Profiler<'static>>(core: &Arc<Core<P>>, before: Option<DetachError>) -> Round {
    let place = Arc::new(Mutex::new(None));
    let (put, lent, told) = (Arc::clone(&place), Arc::clone(core), before.clone());
    let work = move || {
        let came = round(&lent, told);
        *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(came);
    };
    match OwnThread::start(WORKER, Box::new(work)) {
        Ok(worker) => worker.join(),
        // Without a thread it is done here, and the runtime will say if it minds.
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
        // The process ends, and the runtime with it: nobody detaches from that.
        _ if core.common.state().shutdown => Round::Over,
        Ok(proof) => Round::Closed(proof),
        Err(open) => Round::Refused(DetachError::ResourcesOpen(open)),
    }
}

/// The author's part. A panic ends it like a return.
fn work<P: Profiler<'static>>(core: &Core<P>) {
    if let Some(living) = core.gate.enter() {
        let _ = quietly(|| living.profiler.run(&living.session));
    }
    core.common.change(|state| state.detaching = true);
}

/// What next, where it could not leave.
fn stay<P: Profiler<'static>>(core: &Core<P>, refusal: &DetachError) -> OnDetachError {
    let Some(living) = core.gate.enter() else { return OnDetachError::Inert };
    if core.common.state().shutdown {
        return OnDetachError::Inert;
    }
    // Who asks from here on, asks again.
    core.common.change(|state| state.detaching = false);
    let then = quietly(|| living.profiler.detach_failed(&living.session, refusal)).unwrap_or(OnDetachError::Inert);
    // One that never was complete cannot be so later.
    if then == OnDetachError::RunAgain && *refusal != DetachError::AttachIncomplete {
        return OnDetachError::RunAgain;
    }
    // Refused or not, there is nothing more that could be done about it.
    let _ = living.session.set_events(Events::default());
    drop(living);
    // SAFETY: open, and only the detach thread shuts it, which waits for this thread. Who is inside for ever keeps it open: that is as inert as it gets.
    if let Ok(Some(living)) = unsafe { core.gate.shut(P::TIMEOUT) } {
        // Dropping what the author has could run anything, and the runtime may still be asked through it: it stays as it is.
        core::mem::forget(living);
    }
    OnDetachError::Inert
}

/// The road from the empty register on. A process that ends on the way is left alone: whoever has told of its end is asked nothing more
/// (contract DET-17), but for the one question that may be on its way.
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
    // SAFETY: open, and only the detach thread shuts it.
    let living = match unsafe { core.gate.shut(P::TIMEOUT) } {
        Ok(Some(living)) => living,
        Ok(None) => return Err(DetachError::CallbacksRunning(0)),
        Err(CallbacksInside(count)) => return Err(resume(core, wanted, proof, DetachError::CallbacksRunning(count))),
    };
    ask(core, living, proof, wanted)
}

/// The gate is shut and the register empty: asks the runtime.
fn ask<P: Profiler<'static>>(
    core: &Core<P>,
    Living { profiler, session }: Living<P>,
    proof: AllClosed<'static>,
    wanted: Option<Events>,
) -> Result<(), DetachError> {
    let reopened = |session: Session<'static>, proof, profiler, why| {
        // SAFETY: shut and emptied by this thread, and only the detach thread opens it.
        unsafe { core.gate.open(Living { profiler, session }) };
        // Now that it is open: what is wanted again is not turned away.
        Err(resume(core, wanted, proof, why))
    };
    // ProfilerAttachComplete runs on the diagnostics thread, which the runtime does not wait for; no callback has anything to wait for now.
    if !until(P::TIMEOUT, || core.common.running() == 0) {
        let running = core.common.running();
        return reopened(session, proof, profiler, DetachError::CallbacksRunning(running));
    }
    if core.common.state().shutdown {
        // Not even a reference on the runtime is given back any more.
        core::mem::forget((session, profiler));
        return Ok(());
    }
    let longest = core.common.longest_callback();
    match session.request_detach(proof, longest.max(SHORTEST_SLEEP)) {
        Ok(_) => {
            let summary = summary(core, longest);
            let _ = quietly(|| profiler.detached(&summary));
            Ok(())
        }
        Err(alive) => {
            let RefusedDetach { session, proof, code } = *alive;
            reopened(session, proof, profiler, DetachError::Runtime(code))
        }
    }
}

fn summary<P>(core: &Core<P>, longest_callback: Duration) -> DetachSummary {
    DetachSummary { unmaps: thread::can_unmap(), rejected_callbacks: core.gate.rejected_callbacks(), longest_callback }
}

/// Wants nothing any more; what was wanted. `None` if that cannot be told: then it is wanted still.
fn silence<P>(core: &Core<P>) -> Option<Events> {
    let living = core.gate.enter()?;
    let wanted = wanted(&living.session).ok()?;
    if !core.common.state().shutdown {
        // Refused or not: what still comes is turned away at the gate.
        let _ = living.session.set_events(Events::default());
    }
    Some(wanted)
}

/// Undoes `silence`, and says that callbacks were missed. Why it stays.
fn resume<P>(core: &Core<P>, wanted: Option<Events>, void: AllClosed<'static>, refusal: DetachError) -> DetachError {
    let Some(living) = core.gate.enter() else { return refusal };
    // Before callbacks come, since one may bring an id that is known and was another's; and when they come, since an enumeration
    // that was made in between may lack what was loaded before.
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
    // ReJIT, which no mask here can hold, forbids the detach, whether it is asked for again or not.
    let low = AttachMask::from_bits(low & AttachMask::ALLOWED).unwrap_or_default();
    let high = HighAttachMask::from_bits(high & HighAttachMask::ALLOWED).unwrap_or_default();
    Ok(Events { low, high })
}

/// Whether the runtime still calls this profiler: it is made to stop its threads, which it tells.
///
/// A main profiler that leaves makes the runtime lose count of the notification-only ones, and the detach of one that is
/// not found crashes the target (measured on .NET 8.0.4, 9.0.7 and 10.0.12). Only what the runtime tells of this very stop shows
/// anything (contract DET-18): see [`Common::listen`](super::common::Common::listen).
fn prove_that_callbacks_arrive(session: &Session<'_>, timeout: Duration) -> Result<(), DetachError> {
    let ends = || session.common.state().shutdown;
    let wanted = wanted(session).map_err(DetachError::CallbacksUnproven)?;
    if ends() {
        return Ok(());
    }
    let low = wanted.low | AttachMask::SUSPENDS;
    session.set_events(Events { low, high: wanted.high }).map_err(DetachError::CallbacksUnproven)?;
    if ends() {
        return Ok(());
    }
    let (stopped, told) = session.common.listen(|| stop_once(session, timeout));
    if ends() {
        return Ok(());
    }
    // Refused or not: what is wanted is replaced in a moment.
    let _ = session.set_events(wanted);
    stopped.map_err(DetachError::CallbacksUnproven)?;
    if told { Ok(()) } else { Err(DetachError::NoCallbacks) }
}

/// Stops the managed threads and lets them go. Whoever else is stopping them comes first.
fn stop_once(session: &Session<'_>, timeout: Duration) -> Result<(), HResult> {
    let end = Instant::now() + timeout;
    loop {
        match session.suspend() {
            Err(HResult::CORPROF_E_SUSPENSION_IN_PROGRESS)
                if Instant::now() < end && !session.common.state().shutdown =>
            {
                std::thread::sleep(LOOK);
            }
            other => return other.map(drop),
        }
    }
}

fn until(timeout: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
