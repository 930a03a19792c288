//! What the time-out of an attach request bounds on Core: the wait for a background GC.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::{Guid, HResult};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{AttachRequest, GcMode};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{application, in_worlds, join};

/// The versions with notification-only profilers.
const WITH_NOTIFIED: [RuntimeVersion; 4] =
    [RuntimeVersion::Core6, RuntimeVersion::Core8, RuntimeVersion::Core9, RuntimeVersion::Core10];
/// COR_PRF_MONITOR_GC, and of the high half COR_PRF_HIGH_BASIC_GC.
const MONITOR_GC: u32 = 0x80;
const BASIC_GC: u32 = 0x10;

#[test]
fn att_08_the_time_out_of_a_request_bounds_the_wait_for_a_background_collection() {
    const MILLISECONDS: u64 = 100;
    in_worlds(&WITH_NOTIFIED, |world| {
        world.runtime.set_gc_mode(GcMode::Concurrent);
        let goes_on = Arc::new(AtomicUsize::new(0));
        let of_script = goes_on.clone();
        let holds_the_end = Script::new()
            .on("InitializeForAttach", |script| assert_eq!(script.set_mask(0, BASIC_GC), HResult::S_OK))
            .only_notified()
            .on("GarbageCollectionFinished", move |_| {
                schedule::wait_until(None, || of_script.load(Ordering::SeqCst) == 1);
            });
        world.attached(holds_the_end);
        join(&[application(world, |runtime| runtime.collect(2))]);
        let seen = Arc::new(Mutex::new((HResult::S_OK, 0)));
        let of_script = seen.clone();
        let (library, _) = world.library(Script::new().on("InitializeForAttach", move |script| {
            let begun = schedule::now();
            let answer = script.set_mask_low(MONITOR_GC);
            *of_script.lock().unwrap() = (answer, schedule::now() - begun);
        }));
        let request = AttachRequest { class: Guid::from_u128(1), library: Some(library), client_data: Vec::new() };
        let answer = world.runtime.ask_for_attach_within(request, MILLISECONDS as u32);
        schedule::wait_until(None, || answer.get().is_some());
        let (code, waited) = *seen.lock().unwrap();
        holds!(ATT_08 sim, code == HResult::CORPROF_E_TIMEOUT_WAITING_FOR_CONCURRENT_GC, "{code}");
        holds!(ATT_08 sim, waited == MILLISECONDS * schedule::MILLISECOND, "{waited} ns");
        goes_on.store(1, Ordering::SeqCst);
    });
}
