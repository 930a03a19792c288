//! `remora lab` and threads of a profiler that still run when the runtime unloads its library: one finding, in every run.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use laboratory::{LabResult, run_fault, run_fault_with, text};
use remora_holds::holds;

/// Enough that the scheduler has every order.
const RUNS: u64 = 16;

fn refused(profiler: &str) -> LabResult {
    let result = run_fault_with(profiler, &["--seeds", &RUNS.to_string()]);
    result.made_all(RUNS);
    result
}

/// Nothing is broken besides the clause of ways into the library, with one finding that every run has.
fn has_one_finding_in_every_run(result: &LabResult) -> bool {
    let broken: Vec<_> = result.findings.iter().filter(|finding| finding["verdict"] == "broken").collect();
    let [only] = broken[..] else { return false };
    (text(only, "clause"), text(only, "callback")) == ("DET-04", "dlclose")
        && only["runs"] == RUNS
        && text(only, "message").contains("a thread of the profiler was still running")
}

#[test]
fn det_04_a_thread_that_runs_on_after_a_refused_attach_is_one_finding_in_every_run() {
    for profiler in
        ["refuses-with-thread", "refuses-with-sleeper", "refuses-with-holder", "refuses-and-frees", "frees-at-release"]
    {
        let result = refused(profiler);
        holds!(DET_04 sim, has_one_finding_in_every_run(&result), "{profiler}: {:#?}", result.findings);
        assert_eq!(result.code, 1, "{profiler}: {}", result.stderr);
    }
}

#[test]
fn a_thread_that_ends_before_the_refusal_or_in_a_destructor_is_no_finding() {
    for profiler in ["joins-before-refusal", "joins-at-unload"] {
        let result = refused(profiler);
        result.is_clean();
        assert_eq!(result.verdict("ATT-10"), "honoured", "{profiler}");
    }
}

/// The profiler holds a reference of its own, so the last one to unmap the library is not the runtime.
#[test]
fn det_04_a_way_into_a_library_that_its_profiler_has_unmapped_is_one_finding() {
    let result = run_fault("leaves-exit-handler");
    holds!(DET_04 sim, result.breaks("DET-04", "") == Ok(()));
    assert_eq!(result.broken().len(), 1, "{:#?}", result.findings);
    let finding = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(finding, "message").contains("at an address of the library after it was unmapped"), "{finding:#}");
}
