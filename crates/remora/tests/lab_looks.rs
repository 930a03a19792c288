//! `remora lab` blames on a profiler only what the profiler has done: its own looks at the process, and what surrounds it, leave no findings.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::{Directory, Ran, remora};
use laboratory::{LabResult, SEEDS, broken_profilers, run_fault, text};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn copy(folder: &Directory, fault: &str) -> String {
    let library = folder.path(&format!("{fault}.so"));
    std::fs::copy(broken_profilers(), &library).expect("copied");
    library
}

fn ran(fault: &str) -> Ran {
    let folder = Directory::new();
    remora(["lab", &copy(&folder, fault), "--seeds", SEEDS, "--runtime-version", "core8", "--json"])
}

/// A profiler, in a laboratory that has another library loaded first.
fn ran_in(environment: &str, profiler: &str, seeds: &str) -> Ran {
    let folder = Directory::new();
    let args = ["lab", &copy(&folder, profiler), "--seeds", seeds, "--runtime-version", "core8", "--json"];
    let environment = copy(&folder, environment);
    Ran::of(Command::new(env!("CARGO_BIN_EXE_remora")).args(args).env("LD_PRELOAD", environment))
}

fn observations(ran: &Ran) -> BTreeSet<String> {
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let seen = shown["observations"].as_array().expect("a list");
    seen.iter().map(|one| text(one, "message").to_owned()).collect()
}

#[track_caller]
fn is_clean_and_nothing_is_seen(ran: Ran) {
    assert_eq!(observations(&ran), BTreeSet::new());
    let result = LabResult::of(ran);
    result.is_clean();
    result.made_all(4);
}

#[test]
fn mod_01_a_handler_that_needs_descriptors_runs_on_no_thread_without_them() {
    let ran = ran("signals-threads");
    let is_kept = LabResult::of(ran).broken().is_empty();
    holds!(MOD_01 sim, is_kept, "a handler ran on a thread of the lab's own");
}

#[test]
fn a_signal_that_a_later_callback_unblocks_is_not_seen() {
    is_clean_and_nothing_is_seen(ran("pairs-signals"));
}

#[test]
fn det_04_a_child_of_a_callback_that_still_runs_is_no_way_in() {
    let result = run_fault("keeps-child-in-callback");
    result.is_clean();
    holds!(DET_04 sim, result.verdict("DET-04") == "honoured");
}

#[test]
fn det_04_a_child_that_is_there_when_every_callback_has_returned_is_a_way_in() {
    let result = run_fault("leaves-child-in-callback");
    holds!(DET_04 sim, result.broken().contains(&("DET-04", "ModuleUnloadFinished")), "{:#?}", result.findings);
    result.breaks_only(&["DET-04", "DET-14"]);
}

#[test]
fn system_calls_that_others_or_threads_of_the_profiler_filter_are_not_seen() {
    is_clean_and_nothing_is_seen(ran("filters-own-threads"));
    is_clean_and_nothing_is_seen(ran_in("filters-program", "filters-own-threads", SEEDS));
}

#[test]
fn a_filter_in_a_process_that_has_one_already_is_no_other_finding() {
    let result = LabResult::of(ran_in("filters-program", "denies-files", SEEDS));
    assert_eq!((result.broken(), result.code), (Vec::new(), 4), "{}", result.stderr);
}

#[test]
fn system_calls_of_the_program_that_the_profiler_filters_are_seen() {
    let ran = ran("filters-process");
    let seen = observations(&ran);
    assert!(seen.len() == 1 && seen.iter().all(|one| one.contains("seccomp")), "{seen:#?}");
    LabResult::of(ran).is_clean();
}

#[test]
fn a_tracer_of_the_laboratory_itself_is_not_seen() {
    is_clean_and_nothing_is_seen(ran_in("traces-program", "honest", SEEDS));
}

/// Otherwise everything would be the profiler's.
#[test]
fn a_first_look_that_does_not_come_is_a_failure_of_the_laboratory() {
    let ran = ran_in("delays-program", "honest", "1");
    assert_eq!(observations(&ran), BTreeSet::new());
    let result = LabResult::of(ran);
    assert_eq!((result.broken(), result.code), (Vec::new(), 2), "{}", result.stderr);
    assert!(result.stderr.contains("a run could not look at its own process within 5 s"), "{}", result.stderr);
    assert_eq!(result.verdict("DET-14"), "not_exercised");
}
