//! How the runtime calls a profiler: counted on its own threads, and never after the profiler is sealed.

use super::{Profiler, Runtime, Status};
use crate::lab::monitor;
use crate::mutation;
use crate::schedule;
use remora_clr_abi::ProfilerObject;
use std::sync::Arc;

/// Whether the low half of a mask has these flags (corprof.idl, COR_PRF_MONITOR).
pub(super) fn low(flags: u32) -> impl Fn((u32, u32)) -> bool {
    move |mask| mask.0 & flags == flags
}

/// The same for the high half (COR_PRF_HIGH_MONITOR).
pub(super) fn high(flags: u32) -> impl Fn((u32, u32)) -> bool {
    move |mask| mask.1 & flags == flags
}

/// Makes a callback to every profiler whose mask wants it. Arguments: the runtime, the mask test, the call.
macro_rules! call_all {
    ($runtime:expr, $wanted:expr, $callback:ident($($argument:expr),* $(,)?)) => {
        $runtime.call_all(remora_clr_abi::callback_slot!($callback).name, $wanted, |object| {
            // SAFETY: the caller owns the pointed-to data, and has reported no unload of an id in it. `call_all` keeps the object alive
            // during the call.
            unsafe { object.$callback($($argument),*) };
        })
    };
}
pub(super) use call_all;

/// The callback after which a profiler must not call Info.
const SHUTDOWN: &str = "Shutdown";

/// The callback in which [`Runtime::keep_in_callbacks`] keeps threads.
const MODULE_LOADED: &str = "ModuleLoadFinished";

impl Runtime {
    /// Makes a callback to every profiler whose mask wants it.
    pub(super) fn call_all(
        &self,
        slot: &'static str,
        wanted: impl Fn((u32, u32)) -> bool,
        call: impl Fn(&ProfilerObject),
    ) {
        if self.is_exiting() {
            return;
        }
        for profiler in self.called_profilers() {
            self.step();
            self.call(&profiler, slot, &wanted, &call);
        }
    }

    /// Profilers that get callbacks. The runtime skips notification-only ones while it counts none (`IterateProfilers`, profilepriv.inl).
    fn called_profilers(&self) -> Vec<Arc<Profiler>> {
        let state = self.lock();
        let believes = state.notification_count > 0;
        if mutation::is("SBS-03/3") && self.config.number > 0 {
            return Vec::new();
        }
        let is_first = |one: &Arc<Profiler>| !mutation::is("DET-18/3") || Arc::ptr_eq(one, &state.remembered[0]);
        let found = state.profilers.iter().filter(|profiler| !profiler.notification_only || believes);
        found.filter(|profiler| is_first(profiler)).cloned().collect()
    }

    /// Raises the evacuation counter before it checks the status. So a thread that seals the profiler sees the counter, or this call is not
    /// made.
    fn call(
        &self,
        profiler: &Profiler,
        slot: &'static str,
        wanted: &impl Fn((u32, u32)) -> bool,
        call: &impl Fn(&ProfilerObject),
    ) {
        let (thread, task) = (self.this_thread(), schedule::current());
        profiler.enter(thread, task, slot);
        self.step();
        let is_called = self.takes_calls(profiler) && wanted(profiler.mask());
        if let Some(object) = is_called.then(|| profiler.object()).flatten() {
            profiler.lock().callbacks_received += 1;
            self.run(profiler, slot, || call(&object));
            self.stay_if_asked(slot);
        }
        profiler.leave(thread, task);
    }

    /// Threads that call a profiler about a loaded module stay there, as if a debugger had frozen them, until this is set back. Returns whether
    /// that is a change.
    pub fn keep_in_callbacks(&self, keeps: bool) -> bool {
        std::mem::replace(&mut self.lock().keeps_in_callbacks, keeps) != keeps
    }

    /// Whether a thread stays in a callback.
    pub fn keeps_in_callback(&self) -> bool {
        self.lock().kept_in_callbacks > 0
    }

    fn stay_if_asked(&self, slot: &'static str) {
        if slot != MODULE_LOADED || !self.lock().keeps_in_callbacks {
            return;
        }
        self.lock().kept_in_callbacks += 1;
        schedule::wait_until(None, || !self.lock().keeps_in_callbacks || self.is_exiting());
        self.lock().kept_in_callbacks -= 1;
    }

    /// Whether callbacks are enabled.
    fn takes_calls(&self, profiler: &Profiler) -> bool {
        let is_too_early = || profiler.attached && profiler.record().attach_completes == 0;
        let is_lost = (mutation::is("CAT-01/2") || mutation::is("CAT-05")) && is_too_early()
            || mutation::is("CAT-07") && self.enumerators.count() > 0;
        let is_unsealed = mutation::is("DET-06") && profiler.status() == Status::Detaching;
        (profiler.status() == Status::Active || is_unsealed) && !is_lost
    }

    /// Makes a callback whatever the mask is. It has no counter: the runtime does not know its attach and detach threads, and counts no
    /// delivery of an event.
    pub(super) fn call_uncounted<R>(
        &self,
        profiler: &Profiler,
        slot: &'static str,
        call: impl FnOnce(&ProfilerObject) -> R,
    ) -> Option<R> {
        let task = schedule::current();
        let object = profiler.object()?;
        profiler.enter(None, task, slot);
        let answer = self.run(profiler, slot, || call(&object));
        profiler.leave(None, task);
        Some(answer)
    }

    /// Runs a callback in the profiler's library.
    fn run<R>(&self, profiler: &Profiler, slot: &'static str, call: impl FnOnce() -> R) -> R {
        schedule::note(slot, 0);
        let inside = profiler.library.enter();
        let answer = monitor::callback(slot, || {
            self.step();
            let answer = call();
            profiler.lock().exit_reported |= slot == SHUTDOWN;
            answer
        });
        self.step();
        drop(inside);
        answer
    }
}
