//! The worker thread: from the first hello to the moment before the detach request.
//!
//! Nothing here delays a detach command (contract DET-16). Between two checks of the control channel, the worker handles a bounded number
//! of samples. Its waits for room in the transport are bounded in all. In every case the worker disables all callbacks at the end. The
//! exception is a runtime in shutdown: the worker asks it nothing.

use crate::batch::{BATCH, BATCHES, Samples};
use crate::fault_injection::{InjectedFault, is_injected};
use crate::guarded_runtime::GuardedRuntime;
use crate::method_cache::MethodCache;
use crate::platform::{Platform, Started};
use crate::runtime::Runtime;
use crate::sample_writer::FinalMessages;
use crate::shared::Shared;
use remora_wire::Received;
use remora_wire::{AgentError, AgentErrorCode, FromAgent, Task, ToAgent, layout};
use std::sync::atomic::Ordering;

/// How long the worker sleeps if nothing wakes it, nanoseconds. If the process ends in that time, its samples are lost. The ring has room
/// for the deepest stacks of all signals in that time.
pub(crate) const ROUND: u64 = 20_000_000;

/// The same if few samples arrive, nanoseconds: then waking the thread is most of its cost. The ring has room for all samples of this time.
const CALM_ROUND: u64 = 60_000_000;
const CALM_ROUNDS: u32 = 8;

/// How often to look for threads without a callback, nanoseconds.
const SCAN: u64 = 500_000_000;

/// How long to wait for room in the transport between two checks of the control channel, nanoseconds.
const ROOM_TIMEOUT: u64 = 20_000_000;

/// How long to wait for room after the recording, nanoseconds.
const LAST_ROOM_TIMEOUT: u64 = 200_000_000;

/// Rounds in which the runtime may still confirm the attach after the recorder is gone: 10 s in all. The runtime does that next, in the
/// thread of InitializeForAttach. Rounds are counted, not time: a stopped process has no time to confirm anything.
const CONFIRMING_ROUNDS: u64 = 500;

/// How the worker thread ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is closed: request the detach.
    Detach,
    /// The detach must not be requested; the reason. Everything that could be closed is.
    Inert(AgentError),
}

/// The worker thread's state.
pub struct Worker<'a, P: Platform, R: Runtime> {
    pub(crate) shared: &'a Shared<P>,
    pub(crate) runtime: &'a R,
    pub(crate) samples: Samples,
    scanned: u64,
    /// Whether the last pass left samples behind.
    more: bool,
    /// Consecutive passes with few samples.
    calm: u32,
}

impl<'a, P: Platform, R: Runtime> Worker<'a, P, R> {
    /// A new worker.
    pub fn new(shared: &'a Shared<P>, runtime: &'a R) -> Self {
        Worker { shared, runtime, samples: Samples::default(), scanned: 0, more: false, calm: 0 }
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Outcome {
        let platform = &self.shared.platform;
        let is_wanted = platform.connect().is_ok() && self.begin();
        if !is_wanted && !is_injected(InjectedFault::SampleWithoutRecorder) {
            self.shared.announce_begun();
            return match platform.task() {
                // It stays in any case, and the runtime may never call it: that is what it is for.
                Task::Placeholder if P::TASKS.recordings => self.inert(AgentErrorCode::Placeholder),
                _ => self.leave_when_confirmed(),
            };
        }
        if !self.shared.attach_complete.load(Ordering::SeqCst) {
            return self.inert(AgentErrorCode::NoCallbacks);
        }
        self.shared.unload_barrier.raise();
        // The guards are constants: they keep code for other tasks out of the library.
        match platform.task() {
            Task::HeapSnapshot(snapshot) if P::TASKS.heap => self.take_snapshot(snapshot),
            Task::HeapTracking if P::TASKS.heap => self.track_heap(),
            Task::Placeholder if P::TASKS.recordings => return self.inert(AgentErrorCode::Placeholder),
            Task::CpuSampling(_) | Task::WallSampling(_) | Task::CallbackCheck if P::TASKS.recordings => self.sample(),
            _ => {}
        }
        self.leave()
    }

    /// Samples until it is time to detach.
    fn sample(&mut self) {
        let platform = &self.shared.platform;
        self.samples.method_cache = MethodCache::over(platform.links());
        match platform.start_sampling() {
            Ok(started) => {
                self.report_started(started);
                self.scanned = platform.now();
                while self.round() {}
            }
            Err(error) => platform.send(&FromAgent::Failed(error)),
        }
    }

    /// Reports that the work has begun, and on which threads.
    pub(crate) fn report_started(&mut self, started: Started) {
        let platform = &self.shared.platform;
        let threads = started.threads.len() as u32;
        self.samples.writer.queue_new_threads(platform, started.threads);
        platform.send(&FromAgent::Started {
            signal: started.signal,
            thread: started.thread,
            threads,
            time: platform.now(),
            engine: started.engine,
        });
        self.shared.announce_begun();
    }

    /// Waits for the welcome, and for ProfilerAttachComplete. [`ToAgent::Begin`] replaces the latter: the runtime has answered the attach,
    /// so that callback should have come. False if the recorder is gone.
    fn begin(&self) -> bool {
        let mut welcome = false;
        loop {
            match self.shared.platform.receive() {
                Received::Message(ToAgent::Begin) => return true,
                Received::Message(ToAgent::Welcome) => welcome = true,
                Received::Message(ToAgent::Detach) | Received::HungUp => return false,
                Received::Message(_) => {}
                Received::Nothing if welcome && self.shared.attach_complete.load(Ordering::SeqCst) => return true,
                // The runtime undoes the attach, or the process ends.
                Received::Nothing if self.shared.shutdown.load(Ordering::SeqCst) => return false,
                Received::Nothing => self.shared.platform.wait(ROUND),
            }
        }
    }

    /// One round: commands, samples, threads. False when it is time to detach.
    fn round(&mut self) -> bool {
        let platform = &self.shared.platform;
        platform.wait(match self.more {
            true => 0,
            false if self.calm >= CALM_ROUNDS => CALM_ROUND,
            false => ROUND,
        });
        loop {
            match platform.receive() {
                Received::Message(ToAgent::SetFrequency(hertz)) => {
                    platform.set_frequency(hertz);
                    self.shared.threads_changed.store(true, Ordering::SeqCst);
                }
                Received::Message(ToAgent::WatchExceptions(watches)) => self.watch_exceptions(watches),
                Received::Message(ToAgent::Detach) if !is_injected(InjectedFault::IgnoreDetachRequest) => return false,
                Received::HungUp if is_injected(InjectedFault::IgnoreDisconnect) => break,
                Received::HungUp => {
                    self.samples.writer.transport.disconnect();
                    return false;
                }
                Received::Message(_) => {}
                Received::Nothing => break,
            }
        }
        if self.shared.panicked.load(Ordering::SeqCst) {
            platform.send(&FromAgent::Failed(AgentErrorCode::CallbackPanicked.into()));
            return false;
        }
        self.samples.writer.transport.grant_wait(ROOM_TIMEOUT);
        let count = self.samples.pass(self.shared, self.runtime);
        self.more = count == BATCH * BATCHES;
        self.calm = if count < BATCH { self.calm.saturating_add(1) } else { 0 };
        let now = platform.now();
        let is_time = now - self.scanned >= SCAN;
        if self.shared.threads_changed.swap(false, Ordering::SeqCst) || is_time {
            let new = platform.follow_threads();
            // Before the new threads: one of them may reuse an ended thread's id.
            self.samples.writer.queue_thread_times(platform, platform.ended_threads());
            self.samples.writer.queue_new_threads(platform, new);
        }
        if is_time {
            self.scanned = now;
            if let Some(times) = platform.cpu_times() {
                // Finding threads may have taken a while.
                self.samples.writer.set_times(platform.now(), times);
            }
        }
        true
    }

    fn watch_exceptions(&self, watches: bool) {
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        let answer = guarded.watch_exceptions(watches);
        // A refused end changes nothing: they are still watched.
        let watches = if is_injected(InjectedFault::HideRefusal) { watches } else { watches == answer.is_ok() };
        self.shared.platform.send(&FromAgent::WatchesExceptions { watches, code: answer.err().unwrap_or(0) });
    }

    /// Stops sampling, sends the remaining samples, and says goodbye.
    fn leave(&mut self) -> Outcome {
        let platform = &self.shared.platform;
        self.samples.writer.transport.grant_wait(LAST_ROOM_TIMEOUT);
        let last = FinalMessages {
            names: platform.thread_names(),
            times: platform.cpu_times().map(|times| (platform.now(), times)),
        };
        let stopped = platform.stop_sampling();
        self.samples.last(self.shared, self.runtime, last);
        platform.count(layout::FAILED_LOOKUPS, self.samples.method_cache.failed);
        if let Err(why) = stopped {
            return self.inert(why);
        }
        if let Some(open) = self.shared.resources.held_besides_own_threads()
            && !is_injected(InjectedFault::IgnoreRegistry)
        {
            return self.inert(AgentErrorCode::ResourceHeld.with(open as u64));
        }
        if self.shared.shutdown.load(Ordering::SeqCst) && !is_injected(InjectedFault::AskAfterShutdown) {
            // The recorder notices the end of the process.
            return Outcome::Inert(AgentErrorCode::ProcessEnds.into());
        }
        if !self.clear_masks_if_called() {
            return self.inert(AgentErrorCode::NoCallbacks);
        }
        platform.send(&FromAgent::Leaving {
            longest_callback: self.shared.running_callbacks.longest(),
            callbacks: self.shared.callbacks.load(Ordering::Relaxed),
            early_unloads: self.shared.unload_barrier.timeouts(),
        });
        Outcome::Detach
    }

    /// The recorder is gone. The attach may still be in progress, and a detach is possible only after ProfilerAttachComplete, so wait for that
    /// callback. It never comes if an earlier main profiler has made .NET miscount its profilers: then the library stays, inert.
    fn leave_when_confirmed(&self) -> Outcome {
        let platform = &self.shared.platform;
        let mut rounds = 0;
        while !self.shared.attach_complete.load(Ordering::SeqCst)
            && !is_injected(InjectedFault::NotWaitForAttachComplete)
        {
            if self.shared.shutdown.load(Ordering::SeqCst) {
                return Outcome::Inert(AgentErrorCode::ProcessEnds.into());
            }
            if rounds == CONFIRMING_ROUNDS {
                return Outcome::Inert(AgentErrorCode::NoCallbacks.into());
            }
            // `pause`, not `wait`: a closed channel would wake it at once.
            platform.pause(ROUND);
            rounds += 1;
        }
        // A runtime that still starts refuses to suspend its threads.
        let tries = if self.shared.at_startup.load(Ordering::SeqCst) { CONFIRMING_ROUNDS } else { 1 };
        for _ in 0..tries {
            if self.clear_masks_if_called() {
                return Outcome::Detach;
            }
            platform.pause(ROUND);
        }
        Outcome::Inert(AgentErrorCode::NoCallbacks.into())
    }

    /// Everything is closed, but the detach must not be requested.
    fn inert(&self, why: impl Into<AgentError>) -> Outcome {
        let why = why.into();
        self.shared.unload_barrier.lower(&self.shared.platform);
        self.clear_event_mask();
        self.shared.platform.send(&FromAgent::Inert(why));
        Outcome::Inert(why)
    }

    /// Whether the runtime still calls us. Disables all callbacks in any case.
    fn clear_masks_if_called(&self) -> bool {
        let arrive = self.runtime.callbacks_arrive() || is_injected(InjectedFault::DetachWithoutCallbacks);
        self.clear_event_mask();
        arrive
    }

    fn clear_event_mask(&self) {
        if !self.shared.shutdown.load(Ordering::SeqCst) || is_injected(InjectedFault::AskAfterShutdown) {
            self.runtime.clear_event_mask();
        }
    }
}
