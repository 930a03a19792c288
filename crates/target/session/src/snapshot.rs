//! A heap snapshot, on the worker thread: enumerate modules, force a GC, and watch the forked copy that walks the heap.
//!
//! The copy identifies classes by ModuleIDs, which it finds in the frozen heap. So the worker enumerates modules before the fork (contract
//! CAT-02, CAT-05) and after it. That finds every module loaded at the fork, unless it loaded and unloaded in between. An id that may have
//! belonged to two modules gets no name (`module_ids.rs`): its classes have none.

use crate::gc_monitor::GcMonitor;
use crate::guarded_runtime::GuardedRuntime;
use crate::heap_tracker::HeapTracker;
use crate::module_ids::ModuleIds;
use crate::platform::{Child, Platform};
use crate::resource_registry::ResourceKind;
use crate::runtime::Runtime;
use crate::worker::{ROUND, Worker};
use remora_wire::Received;
use remora_wire::{AgentError, AgentErrorCode, FromAgent, HeapSnapshot, Message, Moment, Roots, ToAgent, layout};
use std::sync::atomic::Ordering;

/// How long to wait for room in the transport for all modules, nanoseconds.
const ROOM_TIMEOUT: u64 = 1_000_000_000;

/// How many GCs to request, at most. If another full GC is already running, for the runtime or the application, our request ends with that
/// one. Ours then never starts (seen on 10.0.12 in an application that collects without pause).
const MOST_TRIES: usize = 8;

/// Modules described before unloads may continue.
const BATCH: usize = 64;

/// A copy that walks no object for this long hangs, nanoseconds; unless the recorder does not read its output.
const LONGEST_STANDSTILL: u64 = 30_000_000_000;

fn refused(moment: Moment, code: u32) -> AgentError {
    match moment {
        Moment::Collected => AgentErrorCode::GcRefused.with(code.into()),
        Moment::AsItIs => AgentErrorCode::SuspensionRefused.with(code.into()),
    }
}

impl<P: Platform, R: Runtime> Worker<'_, P, R> {
    /// Takes a snapshot, from the first module to the end of the forked copy.
    pub(crate) fn take_snapshot(&mut self, wanted: HeapSnapshot) {
        // Held from before the fork until no copy can exist any more.
        self.shared.resources.acquire(ResourceKind::Child);
        if let Err(error) = self.try_to_take(wanted) {
            self.shared.platform.send(&FromAgent::Failed(error));
        }
        self.end_copy();
        self.shared.resources.release(ResourceKind::Child);
    }

    fn try_to_take(&mut self, wanted: HeapSnapshot) -> Result<(), AgentError> {
        let platform = &self.shared.platform;
        let started = platform.prepare_snapshot()?;
        self.report_started(started);
        let mut modules = ModuleIds::default();
        self.take(wanted, &mut modules)?;
        self.watch();
        Ok(())
    }

    /// Takes the snapshot up to the point where the copy walks and the modules are known.
    pub(crate) fn take(&mut self, wanted: HeapSnapshot, modules: &mut ModuleIds) -> Result<(), AgentError> {
        let platform = &self.shared.platform;
        self.catch_up(modules)?;
        let begun = platform.now();
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        for tries in 0..MOST_TRIES {
            if tries > 0 {
                self.check_still_wanted()?;
            }
            match wanted.moment {
                Moment::Collected => guarded.collect(),
                Moment::AsItIs => guarded.suspend_and_fork(),
            }
            .map_err(|code| refused(wanted.moment, code))?;
            if platform.child() != Child::None || self.gives_up() {
                break;
            }
        }
        let collection = platform.now() - begun;
        let at = self.shared.heap_tracker.get().map_or(0, HeapTracker::copied);
        match platform.child() {
            Child::Walks { pid, took } => platform.send(&FromAgent::Forked { child: pid, collection, fork: took, at }),
            Child::Refused(error) => return Err(AgentErrorCode::ForkRefused.with(error as u64)),
            Child::Ended { took, .. } => platform.send(&FromAgent::Forked { child: 0, collection, fork: took, at }),
            Child::None if self.gives_up() => return Err(AgentErrorCode::TooMuchAllocated.into()),
            Child::None => return Err(AgentErrorCode::GcNotReported.into()),
        }
        if wanted.roots == Roots::Seen {
            self.describe_methods(modules);
        }
        self.catch_up(modules)?;
        self.tell(modules);
        self.shared.platform.send(&FromAgent::Described);
        Ok(())
    }

    /// Whether the GC monitor has given up: no GC is requested any more.
    fn gives_up(&self) -> bool {
        self.shared.gc_monitor.get().is_some_and(GcMonitor::has_timed_out)
    }

    /// Between two GCs: do not pause the application again if the recorder no longer wants the snapshot.
    fn check_still_wanted(&self) -> Result<(), AgentError> {
        loop {
            match self.shared.platform.receive() {
                Received::Message(ToAgent::Detach) | Received::HungUp => return Err(AgentErrorCode::NotWanted.into()),
                _ if self.shared.panicked.load(Ordering::SeqCst) => {
                    return Err(AgentErrorCode::CallbackPanicked.into());
                }
                Received::Message(_) => {}
                Received::Nothing => return Ok(()),
            }
        }
    }

    /// Describes the loaded modules that were not known.
    pub(crate) fn catch_up(&mut self, modules: &mut ModuleIds) -> Result<(), AgentError> {
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        let failed = |code: u32| AgentErrorCode::ModulesRefused.with(code.into());
        modules.enumerates();
        let mut rest = self.runtime.modules().map_err(failed)?;
        let platform = &self.shared.platform;
        self.samples.writer.transport.grant_wait(ROOM_TIMEOUT);
        while !rest.is_empty() {
            let batch: Vec<usize> = rest.drain(..rest.len().min(BATCH)).collect();
            let (mut messages, samples) = (Vec::new(), &mut self.samples);
            self.shared.unload_barrier.begin_batch(&mut samples.notices, &mut |unloads| {
                samples.method_cache.forget(unloads);
                modules.forget(unloads, self.shared.collections());
            });
            // Skip modules unloaded since the enumeration.
            for module in batch {
                if !modules.wants(module) {
                    continue;
                }
                let index = samples.method_cache.resolve_module(&guarded, module, &mut messages);
                modules.is(module, index);
                if !modules.has_domain
                    && let Some(domain) = guarded.app_domain_of(module)
                {
                    platform.app_domain_is(domain);
                    modules.has_domain = true;
                }
            }
            self.shared.unload_barrier.end_batch(platform, &mut samples.notices, &mut |unloads| {
                samples.method_cache.forget(unloads);
                modules.forget(unloads, self.shared.collections());
            });
            for message in messages {
                self.publish(&message);
            }
        }
        Ok(())
    }

    /// Describes the methods whose locals hold objects. The runtime reported them in the GC. After any unload each of them may be gone, so
    /// the rest is not resolved.
    fn describe_methods(&mut self, modules: &mut ModuleIds) {
        let platform = &self.shared.platform;
        let guarded = GuardedRuntime { shared: self.shared, runtime: self.runtime };
        let mut rest = platform.methods_with_roots();
        self.samples.writer.transport.grant_wait(ROOM_TIMEOUT);
        while !rest.is_empty() {
            let batch: Vec<u64> = rest.drain(..rest.len().min(BATCH)).collect();
            let (mut messages, mut has_unloaded, samples) = (Vec::new(), false, &mut self.samples);
            self.shared.unload_barrier.begin_batch(&mut samples.notices, &mut |unloads| {
                has_unloaded |= !unloads.is_empty();
                samples.method_cache.forget(unloads);
                modules.forget(unloads, self.shared.collections());
            });
            let left = if has_unloaded { batch.len() as u64 } else { 0 };
            for id in batch.into_iter().filter(|_| !has_unloaded) {
                let method = samples.method_cache.resolve_method(&guarded, id as usize, &mut messages);
                messages.push(Message::FunctionId { id, method });
            }
            self.shared.unload_barrier.end_batch(platform, &mut samples.notices, &mut |unloads| {
                has_unloaded |= !unloads.is_empty();
                samples.method_cache.forget(unloads);
                modules.forget(unloads, self.shared.collections());
            });
            for message in messages {
                self.publish(&message);
            }
            if has_unloaded {
                platform.count(layout::HEAP_METHODS_UNNAMED, left + rest.len() as u64);
                break;
            }
        }
        guarded.methods_described();
    }

    /// Sends the changed meanings of ids. The next call retries those without room.
    pub(crate) fn tell(&mut self, modules: &mut ModuleIds) {
        self.samples.writer.transport.grant_wait(ROOM_TIMEOUT);
        modules.tell(|message| self.publish(message));
    }

    /// Sends a description, or counts it as lost. Returns whether there was room.
    fn publish(&mut self, message: &Message) -> bool {
        let platform = &self.shared.platform;
        let is_sent = self.samples.writer.transport.publish(platform, &[&message.encode()]);
        if !is_sent {
            platform.count(layout::LOST_DESCRIPTIONS, 1);
        }
        is_sent
    }

    /// Waits for the end of the copy, or until the recorder no longer wants it. Returns whether the copy ended on its own.
    pub(crate) fn watch(&mut self) -> bool {
        let platform = &self.shared.platform;
        let (mut walked, mut since) = (0, platform.now());
        loop {
            if let Child::Ended { status, .. } = platform.child() {
                platform.send(&FromAgent::Walked { status });
                return true;
            }
            match platform.receive() {
                Received::Message(ToAgent::Detach) | Received::HungUp => return false,
                _ if self.shared.panicked.load(Ordering::SeqCst) => return false,
                _ => {}
            }
            let objects = platform.counter(layout::HEAP_OBJECTS);
            if objects != walked {
                (walked, since) = (objects, platform.now());
            } else if platform.now() - since > LONGEST_STANDSTILL {
                platform.send(&FromAgent::Failed(AgentErrorCode::CopyHung.into()));
                return false;
            }
            platform.wait(ROUND);
        }
    }

    /// Kills the copy if it still runs, and waits until it is gone.
    pub(crate) fn end_copy(&self) {
        let platform = &self.shared.platform;
        while let Child::Walks { .. } = platform.child() {
            platform.end_child();
            platform.pause(ROUND / 20);
        }
    }
}
