//! `remora lab` and profilers that use up, change or replace what belongs to the whole process: each is reported as what it is.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::{Directory, Ran, is_root, remora};
use laboratory::{LabResult, SEEDS, broken_profilers, run_fault, run_fault_with, run_lab, text};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time for the end of a process that the kernel kills.
const LONGEST_END: Duration = Duration::from_secs(10);

fn ran(profiler: &str) -> Ran {
    let folder = Directory::new();
    remora(arguments(&folder, profiler))
}

/// By a user who cannot raise hard limits: with them, the lab would raise each limit again.
fn ran_without_privileges(profiler: &str) -> Ran {
    let folder = Directory::new();
    folder.remora_as_nobody(arguments(&folder, profiler).each_ref().map(String::as_str))
}

fn arguments(folder: &Directory, profiler: &str) -> [String; 7] {
    let library = folder.path(&format!("{profiler}.so"));
    std::fs::copy(broken_profilers(), &library).expect("copied");
    ["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8", "--json"].map(str::to_owned)
}

/// What no clause is about, and was seen in every run.
fn observations(ran: &Ran) -> BTreeSet<String> {
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let seen = shown["observations"].as_array().expect("a list");
    seen.iter().inspect(|one| assert_eq!(one["runs"], 4, "{one}")).map(|one| text(one, "message").to_owned()).collect()
}

/// Nothing is broken, and one thing is seen in every run.
#[track_caller]
fn is_clean_and_seen(profiler: &str, what: &str) {
    let ran = ran(profiler);
    let seen = observations(&ran);
    assert!(seen.len() == 1 && seen.iter().all(|message| message.contains(what)), "{seen:#?}");
    let result = LabResult::of(ran);
    result.is_clean();
    result.made_all(4);
}

fn only_broken(result: &LabResult) -> &Value {
    let broken: Vec<&Value> = result.findings.iter().filter(|finding| finding["verdict"] == "broken").collect();
    let [only] = broken[..] else { panic!("{:#?}", result.findings) };
    only
}

#[test]
fn det_14_who_uses_up_all_descriptors_leaves_descriptors_and_nothing_else() {
    let ran = ran("takes-descriptors");
    let seen = observations(&ran);
    assert!(seen.len() == 1 && seen.iter().all(|one| one.contains("used up all descriptors")), "{seen:#?}");
    let result = LabResult::of(ran);
    holds!(DET_14 sim, text(only_broken(&result), "clause") == "DET-14", "{:#?}", result.findings);
    let message = text(only_broken(&result), "message");
    assert_eq!(message, "a descriptor (/dev/null) is still there after the unload");
}

#[test]
fn a_child_and_ignored_signals_that_pass_are_no_finding() {
    let result = run_fault("waits-for-child");
    result.is_clean();
    assert_eq!(result.verdict("DET-04"), "honoured");
}

#[test]
fn det_14_a_signal_that_stays_ignored_is_found_and_is_no_way_into_the_library() {
    let result = run_fault("ignores-signal");
    let message = text(only_broken(&result), "message");
    holds!(DET_14 sim, result.breaks("DET-14", "") == Ok(()));
    assert_eq!(message, "a changed action of signal 10 (it is ignored) is still there after the unload");
}

#[test]
fn det_04_a_destructor_of_thread_specific_values_is_one_finding_in_every_run_with_an_unload() {
    let result = run_fault("leaves-key");
    holds!(DET_04 sim, result.breaks("DET-04", "") == Ok(()));
    let finding = only_broken(&result);
    // The process of the fourth run exits, mostly while the library is mapped.
    assert!(finding["runs"] == 3 || finding["runs"] == 4, "{finding:#}");
    assert!(text(finding, "message").contains("a destructor of thread-specific values"), "{finding:#}");
}

#[test]
fn what_a_profiler_changes_in_the_whole_process_is_seen() {
    let ran = ran("changes-process");
    let changed = |what: &str| format!("the profiler has changed {what} of the process, and has not changed it back");
    let wanted = BTreeSet::from([
        changed("the working directory"),
        changed("the mask of new files (umask)"),
        changed("the limit RLIMIT_MSGQUEUE"),
        "InitializeForAttach changes which signals the runtime's thread blocks, and no later callback changes it back"
            .to_owned(),
    ]);
    assert_eq!(observations(&ran), wanted);
    LabResult::of(ran).is_clean();
}

#[test]
fn another_root_or_user_is_seen_and_nothing_that_follows_from_it_is_a_finding() {
    assert!(is_root(), "only root may change root and user");
    for (profiler, what, code) in
        [("changes-root", "the root directory (chroot)", 4), ("changes-user", "the user or group", 0)]
    {
        let ran = ran(profiler);
        let seen = observations(&ran);
        assert!(seen.len() == 1 && seen.iter().all(|one| one.contains(what)), "{profiler}: {seen:#?}");
        let result = LabResult::of(ran);
        assert_eq!((result.broken(), result.code), (Vec::new(), code), "{profiler}: {}", result.stderr);
        assert_eq!(result.verdict("DET-12"), "not_exercised", "{profiler}");
    }
}

#[test]
fn a_profiler_in_whose_process_no_thread_can_begin_any_more_does_not_stop_the_laboratory() {
    assert!(is_root(), "only root may make a PID namespace");
    let ran = ran("changes-namespace");
    assert!(ran.stdout.contains("the PID namespace of new processes (unshare)"), "{ran:?}");
    let result = LabResult::of(ran);
    result.made_all(4);
    assert!([1, 4].contains(&result.code), "{}", result.stderr);
    assert_eq!(result.verdict("DET-12"), "not_exercised");
}

#[test]
fn what_could_not_be_looked_at_is_not_honoured() {
    let ran = ran("denies-folders");
    let seen = observations(&ran);
    assert!(seen.len() == 1 && seen.iter().all(|one| one.contains("seccomp")), "{seen:#?}");
    let result = LabResult::of(ran);
    assert_eq!((result.broken(), result.code), (Vec::new(), 4), "{}", result.stderr);
    for clause in ["DET-04", "DET-14"] {
        assert_eq!(result.verdict(clause), "not_exercised", "{clause}");
    }
}

#[test]
fn who_forbids_system_calls_that_a_run_needs_is_seen_and_the_laboratory_does_not_fail() {
    for (profiler, code) in [("denies-threads", 4), ("denies-sleep", 4), ("denies-files", 4)] {
        let ran = ran(profiler);
        let seen = observations(&ran);
        assert!(seen.len() == 1 && seen.iter().all(|one| one.contains("seccomp")), "{profiler}: {seen:#?}");
        let result = LabResult::of(ran);
        assert_eq!((result.broken(), result.code), (Vec::new(), code), "{profiler}: {}", result.stderr);
        assert_eq!(result.verdict("DET-12"), "not_exercised", "{profiler}");
    }
}

#[test]
fn mod_01_who_ends_the_process_at_a_system_call_is_called_so() {
    let result = run_fault("kills-at-sleep");
    holds!(MOD_01 sim, text(only_broken(&result), "clause") == "MOD-01", "{:#?}", result.findings);
    assert!(text(only_broken(&result), "message").contains("(seccomp)"), "{:#?}", result.findings);
}

#[test]
fn a_limit_that_the_program_needs_is_seen_and_does_not_end_the_laboratory() {
    is_clean_and_seen("limits-memory", "lowers the limit RLIMIT_AS of the process to 1048576");
    is_clean_and_seen("limits-files", "lowers the limit RLIMIT_NOFILE of the process to 3");
}

#[test]
fn a_limit_that_cannot_be_raised_again_is_no_finding() {
    for (profiler, limit) in [("forbids-files", "RLIMIT_NOFILE"), ("forbids-memory", "RLIMIT_AS")] {
        let ran = ran_without_privileges(profiler);
        assert!(ran.stdout.contains(&format!("lowers the limit {limit} of the process to ")), "{ran:?}");
        let result = LabResult::of(ran);
        // Whether the model dies of it is up to the scheduler.
        let is_said = result.code == 4 || result.code == 0 && limit == "RLIMIT_AS";
        assert!(result.broken().is_empty() && is_said, "{}: {:#?}", result.stderr, result.findings);
        assert_eq!(result.verdict("DET-12"), "not_exercised", "{profiler}: {:#?}", result.findings);
    }
}

#[test]
fn a_run_that_ends_for_want_of_memory_is_no_finding_and_no_praise() {
    let ran = ran_without_privileges("forbids-memory-early");
    let shown: Value = serde_json::from_str(&ran.stdout).expect("json");
    assert_eq!(shown["unjudged"], 4, "{ran:?}");
    let result = LabResult::of(ran);
    assert_eq!((result.broken(), result.code), (Vec::new(), 4), "{}", result.stderr);
    assert!(result.stderr.contains("4 runs could not be judged"), "{}", result.stderr);
    assert_eq!(result.verdict("MOD-01"), "not_exercised");
}

#[test]
fn mod_01_a_lowered_limit_excuses_no_other_crash() {
    let result = run_fault("aborts-under-limit");
    holds!(MOD_01 sim, result.breaks("MOD-01", "ModuleLoadFinished") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("the process crashed with SIGABRT"), "{message}");
}

#[test]
fn mod_01_who_forbids_cpu_time_is_told_the_limit() {
    let result = run_fault("forbids-time");
    holds!(MOD_01 sim, result.breaks("MOD-01", "") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.contains("the limit RLIMIT_CPU of the process to 0 seconds"), "{message}");
}

#[test]
fn a_profiler_may_open_as_many_files_as_in_a_runtimes_process() {
    run_fault("honest-many-files").is_clean();
}

#[test]
fn mod_01_who_renames_the_process_and_ends_it_has_started_no_other_program() {
    let result = run_fault("renames-process");
    let message = text(result.findings.iter().find(|one| one["verdict"] == "broken").expect("one"), "message");
    holds!(MOD_01 sim, message.starts_with("the process was ended by the profiler, with status 7"));
}

#[test]
fn mod_01_who_calls_exit_is_named_with_its_stack_and_not_a_callback_beside_it() {
    let result = run_fault_with("exits-beside-another", &["--seeds", "12"]);
    holds!(MOD_01 sim, result.broken() == [("MOD-01", "ModuleUnloadFinished")], "{:#?}", result.findings);
    let finding = only_broken(&result);
    assert_eq!(text(finding, "message"), "the process was ended by the profiler, with status 7");
    let stack = finding["crash"]["backtrace"].as_array().expect("a stack");
    assert!(
        stack.iter().any(|frame| frame.as_str().is_some_and(|frame| frame.starts_with("exits-beside"))),
        "{stack:?}"
    );
}

#[test]
fn mod_01_an_end_on_an_own_thread_is_one_finding_that_names_no_callback() {
    let result = run_fault_with("ends-on-own-thread", &["--seeds", "24"]);
    holds!(MOD_01 sim, result.broken() == [("MOD-01", "")], "{:#?}", result.findings);
}

#[test]
fn det_17_who_ends_the_process_at_its_exit_with_another_status_is_found() {
    let result = run_fault("ends-at-exit");
    holds!(DET_17 sim, result.breaks("DET-17", "") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("the process was ended by the profiler while it exited, with status 0"), "{message}");
}

#[test]
fn mod_01_a_constructor_that_crashes_at_the_second_load_is_no_use_after_the_unload() {
    let result = run_fault_with("crashes-on-second-load", &["--seeds", "12"]);
    holds!(MOD_01 sim, result.breaks("MOD-01", "dlopen") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.contains("while its library was being loaded: in a constructor"), "{message}");
}

#[test]
fn the_cpp_library_is_in_the_process_before_the_profiler() {
    run_fault("honest-needs-cpp-library").is_clean();
}

#[test]
fn a_shutdown_that_keeps_the_lock_of_the_linker_within_its_time_blames_no_other_thread() {
    let folder = Directory::new();
    let slow = folder.path("slow-on-load.so");
    std::fs::copy(broken_profilers(), &slow).expect("copied");
    let library = folder.path("honest-loads-in-shutdown.so");
    std::fs::copy(broken_profilers(), &library).expect("copied");
    run_lab(&library, &["--client-data", &slow, "--runtime-version", "core8"]).is_clean();
}

#[test]
fn mod_01_who_becomes_another_program_is_called_so() {
    let result = run_fault("execs");
    holds!(MOD_01 sim, result.breaks("MOD-01", "") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("the profiler replaced the process with another program (exec, true)"), "{message}");
    assert!(message.ends_with(", while InitializeForAttach ran"), "{message}");
}

#[test]
fn a_program_that_replaces_the_process_ends_when_sigkill_ends_the_laboratory() {
    let folder = Directory::new();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_remora"));
    let mut lab = lab
        .args(arguments(&folder, "execs-for-ever"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let status = |process: &str| std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let children = |task: &Path| std::fs::read_to_string(task.join("children")).unwrap_or_default();
    let begun = Instant::now();
    let other = loop {
        assert!(begun.elapsed() < LONGEST_END, "no run has become another program");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", lab.id())).expect("it runs").flatten();
        let children: String = tasks.map(|task| children(&task.path())).collect();
        if let Some(other) = children.split_whitespace().find(|child| status(child).starts_with("Name:\tsleep\n")) {
            break other.to_owned();
        }
    };
    lab.kill().expect("killed");
    lab.wait().expect("ended");
    let begun = Instant::now();
    let is_there = || status(&other).lines().any(|line| line.starts_with("State:") && !line.contains('Z'));
    while is_there() && begun.elapsed() < LONGEST_END {
        std::thread::yield_now();
    }
    let has_ended = !is_there();
    if !has_ended {
        assert!(Command::new("kill").args(["-KILL", &other]).status().is_ok_and(|status| status.success()));
    }
    assert!(has_ended);
}

#[test]
fn who_lets_itself_be_traced_is_seen_and_its_process_ends() {
    is_clean_and_seen("lets-itself-be-traced", "lets a thread of the process be traced");
}

#[test]
fn a_file_that_changes_while_it_is_tested_is_no_finding() {
    let result = run_fault("removes-file");
    assert_eq!((result.broken(), result.code), (Vec::new(), 2), "{}", result.stderr);
    assert!(result.stderr.contains("was changed, replaced or deleted while it was tested"), "{}", result.stderr);
}

#[test]
fn mod_01_who_ends_the_runtimes_thread_is_called_so() {
    let result = run_fault("ends-thread");
    holds!(MOD_01 sim, result.breaks("MOD-01", "ModuleLoadFinished") == Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("ModuleLoadFinished has ended the thread that called it"), "{message}");
}

#[test]
fn a_hang_has_the_frames_of_its_thread() {
    let result = run_fault("never-returns");
    let crash = &only_broken(&result)["crash"];
    let frames: Vec<&str> = crash["backtrace"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(frames.iter().any(|frame| frame.starts_with("never-returns.so+0x")), "{frames:?}");
    assert_eq!(frames.last(), Some(&"the runtime model"), "{frames:?}");
}

#[test]
fn a_stack_belongs_to_the_callback_that_hangs_there() {
    let result = run_fault("hangs-twice");
    let of = |callback: &str| {
        let hangs = |one: &&Value| one["verdict"] == "broken" && one["callback"] == callback;
        result.findings.iter().find(hangs).unwrap_or_else(|| panic!("{callback}: {:#?}", result.findings))
    };
    assert!(of("ModuleLoadFinished")["crash"].is_null(), "{:#?}", result.findings);
    let frames = &of("ModuleUnloadFinished")["crash"]["backtrace"];
    assert!(frames.as_array().is_some_and(|frames| !frames.is_empty()), "{:#?}", result.findings);
}

#[test]
fn addresses_that_are_not_aligned_are_read_and_written_as_the_runtime_does() {
    run_fault("misaligns-place").is_clean();
}

#[test]
fn a_wait_that_is_too_long_is_refused_with_its_own_limit() {
    for wait in ["11m", "100000h"] {
        let message = remora(["lab", "--wait", wait]).fails(2);
        assert!(message.contains("it is at most 10m"), "{message}");
    }
}
