//! From the detach request to the unload: sealing, evacuation of callbacks, the end.

use super::{Entry, Profiler, Runtime, Status};
use crate::lab::{monitor, request};
use crate::mutation;
use crate::schedule::{self, MILLISECOND};
use corprof::HResult;
use std::sync::Arc;

impl Runtime {
    /// RequestProfilerDetach, with its checks in order (facts: vm/profdetach.cpp). On success the profiler is sealed when this returns.
    pub(super) fn request_detach(&self, profiler: &Arc<Profiler>, expected: u32) -> HResult {
        self.requested_detach(profiler, expected).err().unwrap_or(HResult::S_OK)
    }

    fn requested_detach(&self, profiler: &Arc<Profiler>, expected: u32) -> Result<(), HResult> {
        let differences = self.differences();
        match profiler.status() {
            Status::InitializingForStartup => {
                schedule::note("RequestProfilerDetach comes inside Initialize", 0);
                return Err(HResult(differences.detach_in_initialize as i32));
            }
            Status::InitializingForAttach if mutation::is("DET-13") => {}
            Status::InitializingForAttach => return Err(HResult::CORPROF_E_PROFILER_NOT_YET_INITIALIZED),
            Status::Detaching if mutation::is("DET-13/2") => {}
            Status::Active => {}
            Status::Detaching | Status::Gone => return Err(HResult::CORPROF_E_PROFILER_DETACHING),
        }
        self.wait_for_other_detaches(profiler)?;
        if mutation::is("DET-01") && self.this_thread().is_none() || mutation::is("DET-03") && !profiler.attached {
            return Err(HResult::E_FAIL);
        }
        if !differences.detach_in_any_callback && !self.may_trigger(profiler) && !mutation::is("DET-19") {
            return Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE);
        }
        if profiler.callback_version < 3 {
            return Err(HResult::CORPROF_E_CALLBACK3_REQUIRED);
        }
        let (low, high) = profiler.mask();
        let is_immutable = low & differences.immutable != 0 || high & differences.immutable_high != 0;
        if is_immutable && !mutation::is("DET-02") {
            return Err(HResult::CORPROF_E_IMMUTABLE_FLAGS_SET);
        }
        let is_ignored = mutation::is("DET-02/2") || mutation::is("ELT-02/2") || mutation::is("RJT-01");
        if profiler.lock().irreversible && !is_ignored {
            return Err(HResult::CORPROF_E_IRREVERSIBLE_INSTRUMENTATION_PRESENT);
        }
        // No profiler can rule out that another one detaches between its proof and its request.
        if self.has_lost(profiler) && !profiler.lock().was_called_while_suspended && !mutation::is("DET-18/2") {
            self.faults.report("DET-18", "a notification-only profiler that the runtime no longer finds asked for its detach: the process would crash");
        }
        self.check_leftovers(profiler);
        self.check_open_metadata(profiler);
        let by_default = if mutation::is("DET-09/3") { 0 } else { differences.expected_by_default };
        let expected = if expected == 0 { by_default } else { u64::from(expected) };
        profiler.lock().expected = expected;
        profiler.become_(Status::Detaching);
        profiler.library.is_asked_to_leave();
        schedule::note("RequestProfilerDetach seals the profiler", 0);
        {
            let mut state = self.lock();
            state.detaching.push(profiler.clone());
            state.detach_is_signalled = true;
        }
        if mutation::is("DET-19/2") {
            profiler.leave(self.this_thread(), schedule::current());
        }
        if mutation::is("DET-21") {
            schedule::wait_until(None, || profiler.status() == Status::Gone);
        }
        Ok(())
    }

    /// A request takes the lock that the detach thread holds until another profiler is unloaded (source: profdetach.cpp).
    fn wait_for_other_detaches(&self, profiler: &Profiler) -> Result<(), HResult> {
        if !self.differences().request_waits_for_detach || mutation::is("DET-11/2") {
            return Ok(());
        }
        let before = profiler.status();
        schedule::wait_until(None, || !self.lock().evacuates || self.is_exiting());
        // Meanwhile another thread may have asked for it.
        let is_asked_for = before == Status::Active && profiler.status() != Status::Active;
        super::info::refuse_if(is_asked_for, HResult::CORPROF_E_PROFILER_DETACHING)
    }

    fn has_lost(&self, profiler: &Profiler) -> bool {
        profiler.notification_only && self.lock().notification_count <= 0
    }

    /// Starts the detach thread, right before the first profiler is loaded (source: profdetach.cpp, CreateDetachThread; live: det_21).
    pub(super) fn begin_detach_thread(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.lock().has_detach_thread, true) {
            let runtime = self.clone();
            schedule::spawn("the runtime's detach thread", move || runtime.detach_when_asked());
        }
    }

    /// The detach thread: for the process's lifetime, or until a profiler has detached.
    fn detach_when_asked(&self) {
        loop {
            schedule::wait_until(None, || self.lock().detach_is_signalled || self.is_exiting());
            if self.is_exiting() || schedule::is_stopped() {
                return;
            }
            {
                let mut state = self.lock();
                state.detach_is_signalled = false;
                state.evacuates = true;
            }
            let has_left = self.detach_queued();
            self.lock().evacuates = false;
            if has_left && self.differences().detach_thread_ends {
                return;
            }
        }
    }

    /// Detaches the queued profilers, the last request first. Where `queued_detach_is_left_behind`, the runtime counts up to a number that
    /// shrinks. False if the process exits first.
    fn detach_queued(&self) -> bool {
        let counts_wrongly = self.differences().queued_detach_is_left_behind && !mutation::is("DET-11/3");
        let mut done = 0;
        loop {
            let queued = self.lock().detaching.clone();
            let Some(profiler) = queued.get(done..).and_then(<[_]>::last) else { return true };
            if !self.evacuate(profiler) {
                return false;
            }
            monitor::settle(|| profiler.is_quiet());
            self.check_kept_metadata(profiler);
            request::callbacks_have_returned();
            self.unload(profiler);
            done += usize::from(counts_wrongly);
        }
    }

    /// Sleeps and checks until no callback runs. False if the process exits first.
    fn evacuate(&self, profiler: &Profiler) -> bool {
        let expected = profiler.lock().expected;
        let mut slept = 0;
        loop {
            let sleep = self.sleep_before_next_look(expected, slept);
            schedule::sleep_unless(sleep * MILLISECOND, || self.is_exiting());
            self.wait_while_halted();
            slept += sleep;
            if self.is_exiting() || schedule::is_stopped() {
                return false;
            }
            schedule::note("The runtime looks whether every callback has returned", 0);
            // The check takes the suspension lock (`IsProfilerEvacuated`, profilinghelper.cpp). So it also waits for GC threads, which have
            // no counter.
            schedule::wait_until(None, || self.lock().suspended_by.is_none() || self.is_exiting());
            let is_given_up = mutation::is("DET-07/2") && profiler.record().looks >= 3;
            if profiler.is_evacuated() || is_given_up {
                return true;
            }
        }
    }

    /// The next sleep, milliseconds (contract DET-09): the rest of the expected time, the rest of twice that, then the steady time;
    /// clamped.
    fn sleep_before_next_look(&self, expected: u64, slept: u64) -> u64 {
        let differences = self.differences();
        let wanted = if slept < expected {
            expected - slept
        } else if slept < 2 * expected && !mutation::is("DET-09") {
            2 * expected - slept
        } else {
            differences.steady_sleep
        };
        if mutation::is("DET-09/2") {
            return wanted;
        }
        let shortest = self.sleep_set("DetachMinSleepMs").unwrap_or(differences.shortest_sleep);
        let longest = self.sleep_set("DetachMaxSleepMs").unwrap_or(differences.longest_sleep);
        wanted.clamp(shortest.min(longest), longest)
    }

    /// A user's bound for the sleeps, in hexadecimal digits, if it lies between the default bounds (facts 2.2; source: clrconfignames.h and
    /// profdetach.cpp). The desktop has no such setting.
    fn sleep_set(&self, name: &str) -> Option<u64> {
        let differences = self.differences();
        let set = self.number_set(&format!("ProfAPI_{name}"));
        set.filter(|set| (differences.shortest_sleep..=differences.longest_sleep).contains(set))
    }

    /// Calls ProfilerDetachSucceeded, releases to zero, releases the library. Then it logs the detach and serves attaches again.
    fn unload(&self, profiler: &Arc<Profiler>) {
        self.lock().unloads = true;
        self.tell_detach_succeeded(profiler);
        if mutation::is("DET-10") {
            self.tell_detach_succeeded(profiler);
        }
        if !mutation::is("DET-10/2") {
            self.release(profiler);
        }
        profiler.become_(Status::Gone);
        self.has_left(profiler);
        self.count_departure(profiler);
        if mutation::is("DET-08") {
            schedule::wait_until(None, || profiler.library.references() == 1);
        }
        if mutation::is("DET-23") {
            self.write_log(Entry::Detached);
            self.step();
        }
        if !mutation::is("DET-14/3") {
            profiler.library.release();
        }
        self.step();
        if !mutation::is("DET-23") {
            self.write_log(Entry::Detached);
        }
        schedule::note("The detach is written down", 0);
        let mut state = self.lock();
        state.unloads = false;
        state.has_detach_thread &= !self.differences().detach_thread_ends;
        state.profilers.retain(|one| !Arc::ptr_eq(one, profiler));
        state.detaching.retain(|one| !Arc::ptr_eq(one, profiler));
    }

    fn tell_detach_succeeded(&self, profiler: &Profiler) {
        self.call_uncounted(profiler, "ProfilerDetachSucceeded", |object| {
            // SAFETY: no pointer arguments; the reference in `object` keeps it alive.
            unsafe { object.profiler_detach_succeeded() }
        });
        profiler.lock().detach_succeededs += 1;
    }

    /// Releases every reference on the profiler's object.
    pub(super) fn release(&self, profiler: &Profiler) {
        let object = profiler.object.lock().expect("no panic while locked").take();
        let Some(object) = object else { return };
        self.step();
        match Arc::try_unwrap(object) {
            Ok(object) => {
                let inside = profiler.library.enter();
                monitor::callback("Release", || {
                    let is_static = profiler.library.exports().contains(object.address());
                    let left = object.release();
                    drop(inside);
                    profiler.lock().last_release = Some(left);
                    schedule::note("Release is answered {}", u64::from(left));
                    if left != 0 {
                        self.report_kept_object(left, is_static);
                    }
                });
            }
            Err(object) => {
                let what = "the profiler was released while a callback that the runtime does not count still ran";
                self.faults.report("DET-07", what);
                if schedule::threads::os_threads().is_some() {
                    // SAFETY: no new call begins, since the object was taken out of its place. A running call may crash this process when
                    // it returns: faulty profilers are meant to crash it.
                    let left = unsafe { object.release_under_its_callers() };
                    profiler.lock().last_release = Some(left);
                }
            }
        }
    }

    /// A static object goes with its library, whatever its count is.
    fn report_kept_object(&self, left: u32, is_static: bool) {
        let what = format!("the last Release was answered {left}");
        if is_static {
            monitor::remark("DET-10", &format!("{what}: a static object, which goes with the library"));
        } else {
            self.faults.report("DET-10", format!("{what}: the profiler keeps references on itself"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences::RuntimeVersion;
    use remora_holds::holds;

    #[test]
    fn det_09_the_expected_time_then_twice_that_then_the_steady_one() {
        let cases = [
            (RuntimeVersion::Desktop4, 1_000, vec![1_000, 1_000, 600_000, 600_000]),
            (RuntimeVersion::Desktop4, 10_000, vec![10_000, 10_000, 600_000, 600_000]),
            (RuntimeVersion::Core8, 1_000, vec![1_000, 1_000, 5_000, 5_000]),
            (RuntimeVersion::Core8, 1, vec![300, 5_000, 5_000]),
            (RuntimeVersion::Core3, 100_000, vec![100_000, 100_000, 600_000]),
            (RuntimeVersion::Core9, 100_000, vec![5_000, 5_000, 5_000]),
        ];
        for (runtime_version, expected, sleeps) in cases {
            let faults = Arc::new(crate::faults::Faults::default());
            let runtime = Runtime {
                runtime_version,
                faults,
                enumerators: Default::default(),
                lists: Default::default(),
                config: super::super::RuntimeConfig::of(runtime_version),
                state: Default::default(),
                ending: Default::default(),
                exiting: Default::default(),
                calls_after_exit: Default::default(),
                calls: Default::default(),
            };
            let mut slept = 0;
            for sleep in sleeps {
                holds!(
                    DET_09 sim,
                    runtime.sleep_before_next_look(expected, slept) == sleep,
                    "{runtime_version:?} after {slept} of {expected}"
                );
                slept += sleep;
            }
        }
    }
}
