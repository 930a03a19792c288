//! Another vendor's profiler: a main profiler that attaches and detaches at random, often with an EventPipe session.

use crate::faults::Faults;
use crate::runtime::{AttachRequest, Runtime};
use crate::schedule::{self, MILLISECOND, Random, Task};
use crate::scripted::{Script, library};
use corprof::{Guid, HResult, sys};
use std::sync::Arc;

/// The first ICorProfilerInfo with EventPipe sessions.
const FIRST_WITH_SESSIONS: u8 = 12;

/// Starts a thread that attaches it and, usually, detaches it again.
pub fn start(runtime: &Arc<Runtime>, faults: &Arc<Faults>, random: &mut Random) -> Task {
    let script =
        Script::new().deciding(|script| script.set_mask(sys::COR_PRF_MONITOR_MODULE_LOADS, sys::COR_PRF_HIGH_BASIC_GC));
    let (library, script) = library(script, faults);
    let (runtime, comes, stays) = (runtime.clone(), random.below(40) as u64, random.below(40) as u64);
    let leaves = random.below(4) > 0;
    let listens = random.once_in(2) && runtime.differences().info_version >= FIRST_WITH_SESSIONS;
    schedule::spawn("another profiler's trigger", move || {
        schedule::sleep(comes * MILLISECOND);
        let request = AttachRequest { class: Guid::from_u128(1), library: Some(library), client_data: Vec::new() };
        let answer = runtime.ask_for_attach(request);
        schedule::wait_until(Some(5_000 * MILLISECOND), || answer.get().is_some() || runtime.is_exiting());
        let is_attached = answer.get().is_some_and(HResult::is_success);
        // Its events arrive on any thread.
        let session = if listens && is_attached { script.start_session().ok() } else { None };
        schedule::sleep(stays * MILLISECOND);
        if !leaves || !is_attached || runtime.is_exiting() {
            return;
        }
        // Waits for writing threads; without this an event could arrive after the seal.
        if let Some(session) = session {
            script.stop_session(session);
        }
        schedule::note("Another profiler asks for its detach", 0);
        script.request_detach(1);
    })
}
