//! `remora lab` finds the fault of each broken profiler, and none in a correct one; a library that is no profiler is a finding, too.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::{Directory, Ran, remora};
use laboratory::{LabResult, SEEDS, broken_profilers, run_fault, run_fault_with, run_lab, text};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// In these runs it samples and takes snapshots: otherwise it would enumerate nothing and query no function.
#[test]
fn det_21_remoras_own_agent_honours_what_it_exercises() {
    let result = LabResult::of(remora(["lab", "--seeds", "40", "--json"]));
    let honours = |clause: &str| result.verdict(clause) == "honoured";
    holds!(DET_21 rem, honours("DET-21"));
    holds!(ATT_12 rem, honours("ATT-12"));
    holds!(ATT_20 rem, honours("ATT-20"));
    holds!(CAT_02 rem, honours("CAT-02"));
    holds!(CAT_09 rem, honours("CAT-09"));
    holds!(DET_04 rem, honours("DET-04"));
    holds!(DET_05 rem, honours("DET-05"));
    holds!(DET_10 rem, honours("DET-10"));
    holds!(DET_12 rem, honours("DET-12"));
    holds!(DET_14 rem, honours("DET-14"));
    holds!(DET_17 rem, honours("DET-17"));
    holds!(DET_18 rem, honours("DET-18"));
    holds!(DET_20 rem, honours("DET-20"));
    holds!(DET_22 rem, honours("DET-22"));
    assert!(honours("MOD-01"));
    result.is_clean();
}

#[test]
fn honest_profilers_pass_on_every_core() {
    let folder = Directory::new();
    for name in ["honest", "honest-thread", "honest-rejit", "stays"] {
        let library = folder.path(&format!("{name}.so"));
        std::fs::copy(broken_profilers(), &library).expect("copied");
        run_lab(&library, &[]).is_clean();
    }
}

#[test]
fn a_profiler_that_never_asks_is_checked_at_the_exit() {
    let result = run_fault("stays");
    result.is_clean();
    assert_eq!((result.verdict("DET-17"), result.verdict("DET-04")), ("honoured", "not_exercised"));
    let said = |clause: &str| text(result.findings.iter().find(|one| one["clause"] == clause).expect("one"), "message");
    let advice = "detach must be asked for; it did not ask within 1 s: let it ask earlier, or raise `--wait`";
    assert_eq!(said("DET-04"), advice);
    assert!(said("DET-14").contains("raise `--wait`"), "{}", said("DET-14"));
}

#[test]
fn det_02_a_profiler_that_has_forbidden_its_own_detach_is_found() {
    holds!(DET_02 sim, run_fault("sets-rejit").breaks("DET-02", "ModuleUnloadFinished") == Ok(()));
}

#[test]
fn mod_01_a_profiler_that_reads_its_client_data_too_late_is_found() {
    let result = run_fault_with("keeps-client-data", &["--seeds", SEEDS, "--client-data", "x"]);
    holds!(MOD_01 sim, result.breaks("MOD-01", "ModuleLoadFinished") == Ok(()));
    let said = |finding: &&Value| text(finding, "message").contains("at its client data");
    assert!(result.findings.iter().any(|finding| said(&finding)), "{:#?}", result.findings);
}

#[test]
fn mod_01_a_class_that_is_loaded_on_a_thread_that_the_runtime_does_not_know_is_found() {
    let result = run_fault("loads-class");
    holds!(MOD_01 sim, result.breaks("MOD-01", "ProfilerAttachComplete") == Ok(()));
    let finding = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(finding, "message").starts_with("GetClassFromToken loads a class on a thread"), "{finding:#}");
}

#[test]
fn mod_01_a_use_of_the_object_after_the_detach_was_asked_for_is_named_as_a_likely_cause() {
    let result = run_fault("uses-object-after-detach");
    holds!(MOD_01 sim, result.breaks("MOD-01", "") == Ok(()));
    assert_eq!(result.broken().len(), 1, "{:#?}", result.findings);
    let finding = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(finding, "message").contains("the thread used the profiler's object or Info"), "{finding:#}");
}

#[test]
fn rjt_01_a_profiler_that_changes_methods_by_rejit_is_checked_and_its_faults_are_found() {
    // Whether a run comes to that is up to the scheduler, too.
    let honest = run_fault_with("honest-rejit", &["--seeds", "24"]);
    honest.is_clean();
    assert_eq!((honest.verdict("RJT-01"), run_fault("honest").verdict("RJT-01")), ("honoured", "not_exercised"));
    holds!(RJT_01 sim, run_fault("gives-two-bodies").breaks("RJT-01", "GetReJITParameters") == Ok(()));
    holds!(RJT_01 sim, run_fault("gives-empty-body").breaks("RJT-01", "GetReJITParameters") == Ok(()));
    holds!(RJT_01 sim, run_fault("gives-cut-body").breaks("RJT-01", "GetReJITParameters") == Ok(()));
    holds!(RJT_01 sim, run_fault("gives-body-too-late").breaks("RJT-01", "ReJITCompilationStarted") == Ok(()));
    holds!(RJT_01 sim, run_fault("rejits-in-suspension").breaks("RJT-01", "RuntimeSuspendFinished") == Ok(()));
}

#[test]
fn cat_09_a_request_to_change_a_method_of_an_unloaded_module_is_found() {
    holds!(CAT_09 sim, run_fault("rejits-unloaded").breaks("CAT-09", "ModuleUnloadFinished") == Ok(()));
}

#[test]
fn det_18_a_profiler_that_is_not_heard_any_more_must_not_ask() {
    let honest = run_fault("honest-notified");
    honest.is_clean();
    assert_eq!(honest.verdict("DET-18"), "honoured");
    // The scheduler decides whether the profiler requests the detach before its deadline, so several runs are needed.
    let result = run_fault_with("detaches-unheard", &["--seeds", "24"]);
    holds!(DET_18 sim, result.broken().iter().any(|(clause, _)| *clause == "DET-18"), "{:#?}", result.findings);
    assert_eq!((run_fault("honest").verdict("DET-18"), result.code), ("not_exercised", 1));
}

#[test]
fn det_04_det_14_what_is_left_behind_is_named() {
    holds!([DET_04 DET_14] sim, run_fault("leaves-thread").leaves("a thread") == Ok(()));
    holds!([DET_04 DET_14] sim, run_fault("leaves-timer").leaves("a POSIX timer") == Ok(()));
    holds!([DET_04 DET_14] sim, run_fault("leaves-handler").leaves("a handler of signal 12") == Ok(()));
    for child in ["leaves-child", "leaves-sibling"] {
        let left = run_fault(child);
        holds!([DET_04 DET_14] sim, left.leaves("a child process") == Ok(()));
        // Each run that detaches, although others end meanwhile.
        let runs = left.findings.iter().filter(|finding| finding["clause"] == "DET-14").map(|finding| &finding["runs"]);
        assert_eq!(Vec::from_iter(runs), [3], "{child}: {:#?}", left.findings);
    }
    holds!([DET_04 DET_14] sim, run_fault("leaves-interval-timer").leaves("the interval timer of real time") == Ok(()));
    // Events may use it while the library detaches, and after that. On a busy machine, the thread that asks is overtaken now and then.
    let session = run_fault("leaves-session");
    let broken: BTreeSet<&str> = session.broken().into_iter().map(|(clause, _)| clause).collect();
    holds!([DET_04 DET_14] sim, broken.contains("DET-04") && broken.contains("DET-14"), "{:#?}", session.findings);
    assert!(
        broken.is_subset(&BTreeSet::from(["DET-04", "DET-05", "DET-07", "DET-14", "MOD-01"])),
        "{:#?}",
        session.findings
    );
}

#[test]
fn det_04_det_14_who_takes_all_descriptors_hides_nothing() {
    let result = run_fault("hides-thread");
    for clause in ["DET-04", "DET-14"] {
        let of_clause = |finding: &&Value| finding["clause"] == clause && finding["verdict"] == "broken";
        let said = result.findings.iter().filter(of_clause).any(|one| text(one, "message").starts_with("a thread"));
        holds!([DET_04 DET_14] sim, said, "{clause}: {:#?}", result.findings);
    }
}

#[test]
fn det_14_a_library_a_descriptor_or_an_enumerator_that_stays_is_found() {
    holds!(DET_14 sim, run_fault("pins-library").breaks("DET-14", "") == Ok(()));
    holds!(DET_14 sim, run_fault("leaves-descriptor").breaks("DET-14", "") == Ok(()));
    holds!(DET_14 sim, run_fault("keeps-enumerator").breaks("DET-14", "") == Ok(()));
}

#[test]
fn det_05_a_thread_that_asks_without_holding_the_library_is_overtaken_by_the_unload() {
    holds!(DET_05 sim, run_fault("asks-without-reference").breaks("DET-05", "RequestProfilerDetach") == Ok(()));
}

#[test]
fn det_20_a_call_after_sealing_is_found() {
    holds!(DET_20 sim, run_fault("calls-after-sealing").breaks("DET-20", "") == Ok(()));
}

#[test]
fn det_20_a_thread_that_goes_on_to_ask_after_the_unload_is_found() {
    let result = run_fault("asks-for-ever");
    let freed = |finding: &Value| {
        let is_it = (text(finding, "clause"), text(finding, "verdict")) == ("DET-20", "broken");
        is_it && text(finding, "message").contains("an Info that is freed")
    };
    holds!(DET_20 sim, result.findings.iter().any(freed), "{:#?}", result.findings);
    assert_eq!(result.verdict("DET-04"), "broken", "the thread itself");
    assert_eq!(result.verdict("DET-14"), "broken", "and the library under it");
}

#[test]
fn det_22_what_the_runtime_does_not_take_back_is_found() {
    for (fault, what) in [("sets-variable", "an environment variable"), ("leaves-provider", "a provider")] {
        let result = run_fault(fault);
        let said = |finding: &&Value| text(finding, "message").contains(what);
        let named: BTreeSet<&str> =
            result.findings.iter().filter(said).map(|finding| text(finding, "clause")).collect();
        holds!(DET_22 sim, named == BTreeSet::from(["DET-22"]), "{fault}: {:#?}", result.findings);
        assert_eq!((result.verdict("DET-22"), result.code), ("broken", 1), "{fault}");
    }
}

#[test]
fn det_10_a_reference_that_is_kept_is_found() {
    holds!(DET_10 sim, run_fault("keeps-reference").breaks("DET-10", "Release") == Ok(()));
}

#[test]
fn det_10_a_static_object_that_stays_counted_is_a_remark() {
    let result = run_fault("static-object");
    result.is_clean();
    holds!(DET_10 sim, result.verdict("DET-10") == "remark");
}

#[test]
fn cat_09_the_class_of_an_exception_may_be_asked_for_where_it_is_thrown() {
    let result = run_fault_with("honest-exceptions", &["--seeds", "12"]);
    result.is_clean();
    holds!(CAT_09 sim, result.verdict("CAT-09") == "honoured");
}

#[test]
fn mod_01_a_crash_on_a_list_that_does_not_exist_is_found() {
    holds!(MOD_01 sim, run_fault("wants-list").breaks("MOD-01", "ObjectReferences") == Ok(()));
}

#[test]
fn mod_01_a_session_that_is_started_where_an_exception_is_thrown_is_found() {
    holds!(MOD_01 sim, run_fault("starts-session-in-exception").breaks("MOD-01", "ExceptionThrown") == Ok(()));
}

#[test]
fn a_profiler_that_does_nothing_is_not_praised() {
    let result = run_fault("does-nothing");
    assert_eq!((result.broken(), result.code), (Vec::new(), 3));
    assert!(result.stderr.starts_with("remora: the profiler attached and did nothing"), "{}", result.stderr);
    assert!(run_fault("stays").stderr.is_empty());
}

#[test]
fn a_profiler_sees_the_environment_of_the_command() {
    let folder = Directory::new();
    let library = folder.path("wants-variable.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let refuses = run_lab(&library, &["--runtime-version", "core8"]);
    assert_eq!(refuses.verdict("ATT-20"), "not_exercised");
    let mut with_variable = std::process::Command::new(env!("CARGO_BIN_EXE_remora"));
    with_variable.args(["lab", &library, "--seeds", SEEDS, "--json", "--runtime-version", "core8"]);
    let accepts = LabResult::of(Ran::of(with_variable.env("REMORA_TEST_OF_THE_LAB", "1")));
    accepts.is_clean();
    assert_eq!(accepts.verdict("ATT-20"), "honoured");
}

#[test]
fn client_data_may_have_the_number_of_the_process_and_may_be_a_file() {
    let folder = Directory::new();
    let (library, file) = (folder.path("wants-client-data.so"), folder.path("data"));
    std::fs::copy(broken_profilers(), &library).expect("copied");
    std::fs::write(&file, [0xFF, 0, 0xFE]).expect("written");
    let verdict = |data: &str| {
        let result = run_lab(&library, &["--runtime-version", "core8", "--client-data", data]);
        result.verdict("ATT-20").to_owned()
    };
    assert_eq!(verdict("{pid}"), "honoured");
    assert_eq!(verdict(&format!("@{file}")), "honoured");
    assert_eq!(verdict("pid"), "not_exercised");
    let message = remora(["lab", &library, "--client-data", "@/nowhere"]).fails(2);
    assert!(message.contains("`--client-data @/nowhere` cannot be read"), "{message}");
}

#[test]
fn a_finding_has_the_number_of_its_runs_and_refused_calls_are_listed() {
    let folder = Directory::new();
    let library = folder.path("enumerates-early.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let result = run_lab(&library, &["--runtime-version", "core8"]);
    let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert_eq!(broken["runs"], 4, "{broken:#?}");
    let ran = remora(["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8"]);
    assert!(ran.stdout.contains("(in InitializeForAttach, on core8, seed 0, 4 of 4 runs)"), "{}", ran.stdout);
    let library = folder.path("forbidden-flags.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let ran = remora(["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8"]);
    let list = "The model refused these calls:\nSetEventMask 0x8013136f CORPROF_E_UNSUPPORTED_FOR_ATTACHING_PROFILER (4 runs)\n";
    assert!(ran.stdout.ends_with(list), "{}", ran.stdout);
}

#[test]
fn metadata_is_opened_by_the_runtimes_library_and_what_the_model_does_not_read_is_a_refused_call() {
    let folder = Directory::new();
    let library = folder.path("opens-metadata.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let ran = remora(["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    // A run that ends early may see no module.
    let list = "The model refused these calls:\nOpenScopeOnMemory 0x80004001 E_NOTIMPL (";
    assert!(ran.stdout.contains(list), "{}", ran.stdout);
}

#[test]
fn cat_02_an_enumeration_that_comes_too_early_is_found() {
    holds!(CAT_02 sim, run_fault("enumerates-early").breaks("CAT-02", "InitializeForAttach") == Ok(()));
}

#[test]
fn cat_09_an_id_that_is_used_after_its_unload_is_found() {
    holds!(CAT_09 sim, run_fault("stale-id").breaks("CAT-09", "ModuleUnloadFinished") == Ok(()));
}

#[test]
fn att_12_flags_that_are_not_allowed_are_found() {
    holds!(ATT_12 sim, run_fault("forbidden-flags").breaks("ATT-12", "InitializeForAttach") == Ok(()));
}

#[test]
fn a_refusal_of_collections_that_a_profiler_does_not_look_at_is_found() {
    assert_eq!(run_fault("ignores-refusal").breaks("GCH-05", "ProfilerAttachComplete"), Ok(()));
    assert_eq!(run_fault("waits-after-refusal").breaks("GCH-05", "ProfilerAttachComplete"), Ok(()));
    let honest = run_fault_with("honest-collections", &["--seeds", "16"]);
    honest.is_clean();
    assert_eq!((honest.verdict("GCH-05"), run_fault("honest").verdict("GCH-05")), ("honoured", "not_exercised"));
}

#[test]
fn a_callback_that_never_returns_is_named_by_the_clause_it_breaks() {
    assert_eq!(run_fault("never-returns").breaks("DET-07", "ModuleLoadStarted"), Ok(()));
    let shutdown = run_fault("hangs-in-shutdown");
    // After the second interrupt the rest of that runtime is skipped; some runs may have started by then.
    assert!(shutdown.runs >= 2 && shutdown.runs + shutdown.left_out == 4, "{} runs", shutdown.runs);
    assert_eq!(shutdown.breaks("DET-17", "Shutdown"), Ok(()));
    let detach = run_fault("hangs-in-detach-succeeded");
    assert_eq!(detach.breaks("DET-21", "ProfilerDetachSucceeded"), Ok(()));
    // A run that exits meanwhile waits longer, and finds the same.
    assert_eq!(detach.broken().len(), 1, "{:#?}", detach.findings);
    assert_eq!(run_fault("hangs-on-load").breaks("DET-07", "dlopen"), Ok(()));
    assert_eq!(run_fault("hangs-in-query").breaks("DET-07", "QueryInterface"), Ok(()));
    assert_eq!(run_fault("hangs-before-attach").breaks("DET-07", "LoadAsNotificationOnly"), Ok(()));
}

#[test]
fn mod_01_a_runtime_that_is_left_suspended_is_found_though_the_profiler_stays() {
    holds!(MOD_01 sim, run_fault("leaves-suspended").breaks("MOD-01", "") == Ok(()));
}

#[test]
fn mod_01_a_crash_or_an_exit_is_a_finding_with_its_callback() {
    for (fault, callback, how) in [
        ("crashes", "ModuleLoadFinished", "in the profiler's own code"),
        ("exits", "", "ended by the profiler, with status 7"),
        ("crashes-on-load", "dlopen", "while its library was being loaded: in a constructor"),
        ("exits-on-load", "", "ended by the profiler, with status 7, while dlopen ran"),
    ] {
        let result = run_fault(fault);
        holds!(MOD_01 sim, result.breaks("MOD-01", callback) == Ok(()));
        let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
        assert!(text(broken, "message").contains(how), "{broken:#?}");
        result.made_all(4);
    }
}

#[test]
fn att_20_a_library_that_gives_no_object_is_a_finding() {
    holds!(ATT_20 sim, run_fault("refuses-class").breaks("ATT-20", "DllGetClassObject") == Ok(()));
    holds!(ATT_20 sim, run_fault("refuses-instance").breaks("ATT-20", "CreateInstance") == Ok(()));
    holds!(ATT_20 sim, run_lab(&a_library_of_the_system(), &["--runtime-version", "core8"]).breaks("ATT-20", "DllGetClassObject") == Ok(()));
}

#[test]
fn a_code_has_its_name_and_a_mangled_entry_point_the_remedy() {
    let refuses = run_fault("refuses-class");
    let said = |result: &LabResult| {
        let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
        text(broken, "message").to_owned()
    };
    assert!(said(&refuses).contains("answered 0x80004002 (E_NOINTERFACE)"), "{}", said(&refuses));
    let (folder, name, other) = (Directory::new(), b"DllGetClassObject\0", b"HidesEntryPoint__\0");
    let mut bytes = std::fs::read(broken_profilers()).expect("read");
    let places: Vec<usize> = (0..bytes.len() - name.len()).filter(|place| bytes[*place..].starts_with(name)).collect();
    places.iter().for_each(|place| bytes[*place..][..name.len()].copy_from_slice(other));
    let library = folder.path("mangled.so");
    std::fs::write(&library, bytes).expect("written");
    let result = run_lab(&library, &["--runtime-version", "core8"]);
    assert_eq!(result.breaks("ATT-20", "DllGetClassObject"), Ok(()));
    assert!(said(&result).contains("exports _Z17DllGetClassObjectRK5_GUIDS1_PPv instead"), "{}", said(&result));
    assert!(said(&result).contains("`extern \"C\"`"), "{}", said(&result));
}

#[test]
fn a_finding_names_the_call_that_was_made() {
    let result = run_fault("stale-id-first-form");
    assert_eq!(result.breaks("CAT-09", "ModuleUnloadFinished"), Ok(()));
    let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(broken, "message").contains("GetModuleInfo") && !text(broken, "message").contains("GetModuleInfo2"));
}

#[test]
fn a_finding_on_an_id_names_the_call_and_not_a_newer_form_of_it() {
    let result = run_fault("asks-by-old-forms");
    assert_eq!(result.breaks("CAT-09", "ModuleUnloadFinished"), Ok(()));
    let broken = result.findings.iter().filter(|finding| finding["verdict"] == "broken");
    let name = |finding| text(finding, "message").split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let named: BTreeSet<&str> = broken.filter_map(name).map(|(name, _)| name).collect();
    assert_eq!(named, BTreeSet::from(["GetCodeInfo2", "GetILToNativeMapping", "GetStaticFieldInfo"]));
}

/// A hang on one runtime does not skip the others.
#[test]
fn a_profiler_that_hangs_is_tried_on_every_runtime() {
    let (folder, two) =
        (Directory::new(), ["--runtime-version", "core8", "--runtime-version", "core10", "--seeds", "24"]);
    let library = folder.path("hangs-in-detach-succeeded.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let result = LabResult::of(remora([&["lab", &library, "--json"], &two[..]].concat()));
    assert_eq!(result.breaks("DET-21", "ProfilerDetachSucceeded"), Ok(()));
    assert!(result.runs >= 4 && result.left_out > 0 && result.runs + result.left_out == 48, "{} runs", result.runs);
}

#[test]
fn on_the_desktop_the_honest_pass_and_sins_are_found_as_well() {
    let on_desktop = |fault: &str, seeds: &str| {
        let folder = Directory::new();
        let library = folder.path(&format!("{fault}.so"));
        std::fs::copy(broken_profilers(), &library).expect("copied");
        LabResult::of(remora(["lab", &library, "--json", "--runtime-version", "desktop4", "--seeds", seeds]))
    };
    for honest in ["honest", "honest-thread", "stays"] {
        let result = on_desktop(honest, "8");
        result.is_clean();
        result.made_all(8);
    }
    // With concurrent GC, MONITOR_GC is refused, inside InitializeForAttach, too; in the other modes it is granted.
    let collections = on_desktop("honest-collections", "12");
    collections.is_clean();
    let verdicts = ["GCH-05", "ATT-10", "ATT-20"].map(|clause| collections.verdict(clause));
    assert_eq!(verdicts, ["honoured"; 3]);
    assert_eq!(on_desktop("forbidden-flags", "4").breaks("ATT-12", "InitializeForAttach"), Ok(()));
    assert_eq!(on_desktop("ignores-refusal", "4").breaks("GCH-05", "ProfilerAttachComplete"), Ok(()));
    assert_eq!(on_desktop("calls-after-sealing", "4").breaks("DET-20", ""), Ok(()));
    assert_eq!(on_desktop("leaves-timer", "4").leaves("a POSIX timer"), Ok(()));
}

#[test]
fn att_09_an_object_of_the_time_before_attach_is_a_finding() {
    holds!(ATT_09 sim, run_fault("is-too-old").breaks("ATT-09", "QueryInterface") == Ok(()));
}

#[test]
fn att_10_a_profiler_that_refuses_its_attach_honours_the_contract() {
    let result = run_fault("refuses-attach");
    result.is_clean();
    holds!(ATT_10 sim, (result.verdict("ATT-10"), result.verdict("ATT-20")) == ("honoured", "not_exercised"));
}

#[test]
fn att_06_what_cannot_be_mapped_is_a_finding() {
    let folder = Directory::new();
    let (text, foreign) = (folder.path("text.so"), folder.path("foreign.so"));
    std::fs::write(&text, "not a library").expect("written");
    holds!(ATT_06 sim, run_lab(&text, &["--runtime-version", "core8"]).breaks("ATT-06", "dlopen") == Ok(()));
    let mut bytes = std::fs::read(broken_profilers()).expect("read");
    // e_machine: SPARC.
    bytes[18] = 2;
    std::fs::write(&foreign, bytes).expect("written");
    // With the flag's old name, which still works.
    holds!(ATT_06 sim, run_lab(&foreign, &["--personality", "core8"]).breaks("ATT-06", "dlopen") == Ok(()));
}

#[test]
fn a_file_that_is_not_there_is_the_laboratorys_own_failure() {
    let message = remora(["lab", "/nowhere.so"]).fails(2);
    assert!(message.starts_with("remora: the library /nowhere.so cannot be opened:"), "{message}");
}

#[test]
fn where_the_verdicts_cannot_be_written_a_flag_that_the_command_has_not_is_not_advised() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has it");
    let mut laboratory = std::process::Command::new(env!("CARGO_BIN_EXE_remora"));
    laboratory.args(["lab", "--seeds", "1", "--runtime-version", "core8"]).stdout(full);
    let output = laboratory.stderr(std::process::Stdio::piped()).output().expect("it starts");
    let shown = "remora: standard output cannot be written: the disk is full (no space left); ";
    let advice = "free some space, or redirect it to a place on another disk\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("{shown}{advice}"));
    assert_eq!(output.status.code(), Some(21));
}

#[test]
fn each_way_of_breaking_a_clause_says_where_and_how_to_repeat_it() {
    let result = run_fault("enumerates-early");
    let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert_eq!(text(broken, "runtime_version"), "core8");
    assert!(broken["seed"].is_u64() && !text(broken, "message").is_empty(), "{broken:#?}");
}

#[test]
fn the_text_ends_with_how_many_clauses_have_each_verdict() {
    let folder = Directory::new();
    let library = folder.path("enumerates-early.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let ran = remora(["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8"]);
    let clauses = |verdict: &str| {
        let lines = ran.stdout.lines().filter_map(|line| line.split_once("  "));
        lines.filter(|(_, rest)| rest.starts_with(verdict)).map(|(clause, _)| clause).collect::<BTreeSet<_>>().len()
    };
    let [broken, honoured, rest] = ["BROKEN ", "honoured ", "not exercised "].map(clauses);
    let summary = format!("{broken} broken, {honoured} honoured, {rest} not exercised");
    assert!(broken > 0 && ran.stderr.lines().any(|line| line == summary), "{summary}: {ran:?}");
}

/// A library that every process has, and no profiler.
fn a_library_of_the_system() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this process");
    let paths = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| format!("/{path}"));
    let mut libraries = paths.filter(|path| path.contains(".so") && Path::new(path).exists());
    libraries.find(|path| path.contains("libc.so") || path.contains("libc-")).expect("a C library")
}

#[test]
fn a_pipe_is_no_library_and_is_not_waited_for() {
    let folder = Directory::new();
    let pipe = folder.path("pipe.so");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let message = remora(["lab", &pipe]).fails(2);
    assert!(message.contains("it is no regular file"), "{message}");
}

/// Processes whose executable or library has this in its path.
fn processes_with(name: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("proc").flatten();
    let maps = all.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    maps.filter(|maps| maps.contains(name)).count()
}

#[test]
fn whatever_a_profiler_starts_or_becomes_ends_with_its_run() {
    let folder = Directory::new();
    for (fault, clauses) in
        [("leaves-daemon", &["DET-04", "DET-14"][..]), ("is-traced", &["DET-04", "DET-14"]), ("stops", &["MOD-01"])]
    {
        let library = folder.path(&format!("{fault}.so"));
        std::fs::copy(broken_profilers(), &library).expect("copied");
        let result = run_lab(&library, &["--runtime-version", "core8"]);
        result.breaks_only(clauses);
        if fault == "stops" {
            assert!(result.broken().contains(&("MOD-01", "")), "{:#?}", result.findings);
        }
        assert_eq!(processes_with(&library), 0, "{fault}");
    }
}

#[test]
fn an_interrupted_laboratory_leaves_no_process() {
    let folder = Directory::new();
    let library = folder.path("hangs-on-load.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    let mut laboratory = std::process::Command::new(env!("CARGO_BIN_EXE_remora"))
        .args(["lab", &library, "--seeds", "1000"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    while processes_with(&library) == 0 {
        std::thread::yield_now();
    }
    let pid = laboratory.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().is_ok_and(|status| status.success()));
    assert_eq!(laboratory.wait().expect("ended").code(), Some(130));
    assert_eq!(processes_with(&library), 0);
}
