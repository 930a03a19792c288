//! The effects of a profiler's SuspendRuntime on other threads.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::{Arc, Mutex};
use support::{SECOND, application, in_worlds, join};

/// A profiler may ask about enumerated entities for as long as it suspends the threads.
#[test]
fn gch_06_no_thread_begins_or_ends_while_a_profiler_has_suspended_the_runtime() {
    in_worlds(&[RuntimeVersion::Core3, RuntimeVersion::Core8, RuntimeVersion::Core10], |world| {
        let (_, script, _) = world.attached(Script::new());
        let (stays, ends) = (Arc::new(Mutex::new(true)), Arc::new(Mutex::new(false)));
        let (of_thread, ended) = (stays.clone(), ends.clone());
        let old = application(world, move |_| {
            schedule::wait_until(None, || !*of_thread.lock().unwrap());
            *ended.lock().unwrap() = true;
        });
        schedule::wait_until(None, || world.runtime.os_threads().len() == 1);
        assert_eq!(script.suspend_runtime(), HResult::S_OK);
        let before = world.runtime.os_threads();
        let new = application(world, |_| ());
        *stays.lock().unwrap() = false;
        schedule::wait_until(None, || *ends.lock().unwrap());
        // It only has to end.
        schedule::sleep(10 * SECOND);
        holds!(GCH_06 sim, world.runtime.os_threads() == before);
        assert_eq!(script.resume_runtime(), HResult::S_OK);
        join(&[old, new]);
        assert!(world.runtime.os_threads().is_empty());
    });
}
