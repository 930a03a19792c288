//! Decides when a profiler may call which method.

use super::Server;
use crate::lab::monitor;
use crate::mutation;
use crate::runtime::{Profiler, Runtime, Status};
use crate::schedule;
use corprof::HResult;
use remora_clr_abi::Slot;
use remora_clr_abi::slot_lists::{NEEDS_TRIGGER, SYNCHRONOUS};

/// Requests to change methods.
const REJIT: [&str; 3] = ["RequestReJIT", "RequestReJITWithInliners", "RequestRevert"];

impl Server {
    /// Whether the call is allowed here and now. Reports a call that is a fault in any case.
    pub(super) fn admit(&self, slot: Slot) -> Result<(), HResult> {
        monitor::info_call(slot.name);
        let (runtime, profiler) = self.both()?;
        runtime.begin_call();
        schedule::point();
        let inside_callback = profiler.runs_on(schedule::current());
        let report = |clause, how: &str| runtime.faults.report(clause, format!("{} was called {how}", slot.name));
        match profiler.status() {
            Status::Gone => {
                if !mutation::is("DET-20/2") {
                    report("DET-20", "on an Info that is freed: a use after free");
                }
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::Detaching if mutation::is("DET-06/2") => Ok(()),
            Status::Detaching if mutation::is("DET-13/2") && slot.name == "RequestProfilerDetach" => Ok(()),
            Status::Detaching => {
                if !inside_callback && !mutation::is("DET-20") {
                    report("DET-20", "after the detach was accepted, outside of a callback");
                }
                Err(HResult::CORPROF_E_PROFILER_DETACHING)
            }
            Status::InitializingForAttach if slot.name.starts_with("Enum") && !slot.name.contains("Ngen") => {
                if !mutation::is("CAT-02") {
                    report("CAT-02", "before events were enabled: what loads meanwhile is missed");
                }
                Ok(())
            }
            _ if runtime.is_exiting() && refuses_at_exit(&runtime, &profiler, slot) => {
                Err(HResult::CORPROF_E_RUNTIME_UNINITIALIZED)
            }
            _ if mutation::is("ATT-13") || mutation::is("ELT-02/3") => Ok(()),
            _ if profiler.attached && runtime.differences().refused_after_attach.contains(&slot.name) => {
                Err(HResult::CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER)
            }
            _ if mutation::is("DET-19/3") => Ok(()),
            _ if NEEDS_TRIGGER.contains(&slot.name) && !runtime.may_trigger(&profiler) => {
                if REJIT.contains(&slot.name) && !mutation::is("RJT-01/9") {
                    report(
                        "RJT-01",
                        "where the runtime refuses it (CORPROF_E_UNSUPPORTED_CALL_SEQUENCE), and changes no method",
                    );
                }
                Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)
            }
            _ if SYNCHRONOUS.contains(&slot.name) && !runtime.may_ask(&profiler) => {
                Err(HResult::CORPROF_E_UNSUPPORTED_CALL_SEQUENCE)
            }
            _ => Ok(()),
        }
    }
}

/// Whether the runtime refuses a call of a process that exits. Reports a call that began after Shutdown.
fn refuses_at_exit(runtime: &Runtime, profiler: &Profiler, slot: Slot) -> bool {
    let is_reported = profiler.lock().exit_reported && !mutation::is("DET-17");
    if is_reported && runtime.calls_too_late() {
        runtime.faults.report("DET-17", format!("{} was called after Shutdown", slot.name));
    }
    !runtime.differences().answers_at_exit || mutation::is("DET-17/2")
}
