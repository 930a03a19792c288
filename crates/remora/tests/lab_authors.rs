//! What `remora lab` shows authors besides the verdicts: where a run crashed, its last words, and what no clause is about.
//! And profilers with odd habits: each is reported as what it is, and never as a finding about something else.

#[allow(dead_code, reason = "each test file uses a part of it")]
mod command;
#[allow(dead_code, reason = "each test file uses a part of it")]
mod laboratory;

use command::{Directory, Ran, remora};
use laboratory::{LabResult, SEEDS, broken_profilers, run_fault, run_fault_with, text};
use serde_json::Value;

fn ran(profiler: &str, more: &[&str]) -> Ran {
    let folder = Directory::new();
    let library = folder.path(&format!("{profiler}.so"));
    std::fs::copy(broken_profilers(), &library).expect("copied");
    remora([&["lab", &library, "--seeds", SEEDS, "--runtime-version", "core8"], more].concat())
}

fn only_broken(result: &LabResult) -> &Value {
    let broken: Vec<&Value> = result.findings.iter().filter(|finding| finding["verdict"] == "broken").collect();
    let [only] = broken[..] else { panic!("{:#?}", result.findings) };
    only
}

#[test]
fn a_crash_has_its_frames_and_the_last_words_of_its_process() {
    let result = run_fault("crashes-loudly");
    let finding = only_broken(&result);
    let crash = &finding["crash"];
    let frames: Vec<&str> = crash["backtrace"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(frames[0].starts_with("crashes-loudly.so+0x"), "{frames:?}");
    assert_eq!(frames.last(), Some(&"the runtime model"), "{frames:?}");
    let words = crash["stderr"].as_str().expect("a text");
    assert!(words.starts_with("noise\n") && words.ends_with("noise\nlast \u{1b}[31mwords\u{fffd}"), "{words:?}");
    assert!(words.len() < 4096, "{}", words.len());
    assert_eq!([&crash["seed"], &crash["runtime_version"]], [&finding["seed"], &finding["runtime_version"]]);
    let shown = ran("crashes-loudly", &[]).stdout;
    assert!(shown.contains("\n      at crashes-loudly.so+0x") && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.contains("\n      stderr: last \\u{1b}[31mwords"), "{shown}");
}

#[test]
fn an_end_without_exit_has_no_frames_and_other_findings_have_no_crash() {
    assert_eq!(only_broken(&run_fault("exits-on-load"))["crash"]["backtrace"], Value::Array(Vec::new()));
    assert_eq!(only_broken(&run_fault("enumerates-early"))["crash"], Value::Null);
}

#[test]
fn a_finding_that_needs_a_delayed_thread_has_the_delay() {
    let result = run_fault("asks-without-reference");
    let of_unload = |one: &&Value| text(one, "message").contains("before the call had returned");
    let finding = result.findings.iter().find(of_unload).expect("one");
    assert!(finding["preemption_ms"].as_u64().is_some_and(|delay| (1..60_000).contains(&delay)), "{finding:#?}");
    assert_eq!(only_broken(&run_fault("enumerates-early"))["preemption_ms"], Value::Null);
    let shown = ran("asks-without-reference", &[]).stdout;
    assert!(shown.contains(", only if a thread is preempted for "), "{shown}");
}

#[test]
fn a_profiler_that_detaches_late_is_waited_for_on_demand() {
    assert_eq!(run_fault("detaches-late").verdict("DET-10"), "not_exercised");
    let waited = run_fault_with("detaches-late", &["--seeds", "1", "--wait", "20s"]);
    waited.is_clean();
    assert_eq!(waited.verdict("DET-10"), "honoured");
    assert!(remora(["lab", "--wait", "11m"]).stderr.contains("it is at most 10m"));
}

#[test]
fn regression_a_crash_before_the_request_in_the_first_run_hid_it_from_the_others() {
    let result = run_fault("aborts-before-request");
    result.made_all(4);
    // One of the four may exit before.
    assert!(only_broken(&result)["runs"].as_u64() >= Some(3), "{:#?}", result.findings);
}

#[test]
fn a_slow_shutdown_is_a_delay_and_no_hang() {
    let result = run_fault("slow-shutdown");
    result.is_clean();
    result.made_all(4);
    let remark = result.findings.iter().find(|finding| finding["verdict"] == "remark").expect("one");
    assert_eq!(text(remark, "clause"), "DET-17", "{remark:#}");
    assert!(text(remark, "message").contains("the exit of a program waits for it"), "{remark:#}");
}

#[test]
fn a_thread_in_uninterruptible_sleep_does_not_hang() {
    let result = run_fault("sleeps-uninterruptibly");
    result.is_clean();
    result.made_all(4);
    assert_eq!(result.verdict("DET-21"), "honoured");
}

#[test]
fn a_thread_in_uninterruptible_sleep_hides_no_hang_of_another_one() {
    let result = run_fault("hangs-beside-sleeper");
    assert_eq!(result.breaks("DET-07", "ModuleLoadStarted"), Ok(()));
    let message = text(only_broken(&result), "message");
    assert_eq!(message, "ModuleLoadStarted has not returned within 4 seconds");
}

#[test]
fn a_crash_in_a_callback_during_shutdown_says_so() {
    let result = run_fault("crashes-after-shutdown");
    assert_eq!(result.breaks("MOD-01", "ModuleLoadFinished"), Ok(()));
    result.made_all(4);
    let broken = result.findings.iter().find(|finding| finding["verdict"] == "broken").expect("one");
    assert!(text(broken, "message").contains("after Shutdown had begun"), "{broken:#}");
}

#[test]
fn a_crash_in_shutdown_itself_is_not_blamed_on_what_comes_after_it() {
    let result = run_fault("crashes-in-shutdown");
    assert_eq!(result.breaks("MOD-01", "Shutdown"), Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(!message.contains("after Shutdown had begun"), "{message}");
}

#[test]
fn an_exception_that_leaves_a_callback_is_named_with_it() {
    let result = run_fault("throws");
    assert_eq!(result.breaks("MOD-01", "ModuleLoadFinished"), Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("an exception left ModuleLoadFinished"), "{message}");
    let result = run_fault("throws-on-load");
    assert_eq!(result.breaks("MOD-01", "dlopen"), Ok(()));
    let message = text(only_broken(&result), "message");
    assert!(message.starts_with("a constructor of the library threw an exception"), "{message}");
}

/// Nothing is broken, and one thing is seen in every run.
#[track_caller]
fn is_clean_and_seen(profiler: &str, what: &str) {
    run_fault(profiler).is_clean();
    let shown = ran(profiler, &["--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let seen = shown["observations"].as_array().expect("a list");
    assert!(seen.len() == 1 && text(&seen[0], "message").contains(what) && seen[0]["runs"] == 4, "{seen:#?}");
    let shown = ran(profiler, &[]).stdout;
    assert!(shown.lines().any(|line| line.starts_with("Seen: ") && line.contains(what)), "{shown}");
}

#[test]
fn who_writes_to_standard_output_is_seen_and_spoils_no_json() {
    is_clean_and_seen("writes-to-stdout", "writes to standard output");
}

#[test]
fn who_closes_every_descriptor_is_seen_and_hides_nothing() {
    is_clean_and_seen("closes-descriptors", "closed descriptors that it had not opened");
}

#[test]
fn a_child_that_has_ended_is_no_finding_and_a_copy_of_the_target_is_a_child() {
    run_fault("starts-process").is_clean();
    assert_eq!(run_fault("forks").leaves("a child process"), Ok(()));
}

/// The lab fails with this message, and finds nothing about the contract.
#[track_caller]
fn cannot_be_loaded_here(from: &[u8], to: &[u8], why: &str) {
    let mut bytes = std::fs::read(broken_profilers()).expect("read");
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|place| bytes[*place..].starts_with(from)).collect();
    assert!(!places.is_empty(), "the library has no such name");
    places.iter().for_each(|place| bytes[*place..][..to.len()].copy_from_slice(to));
    let folder = Directory::new();
    let library = folder.path("needs.so");
    std::fs::write(&library, bytes).expect("written");
    let result = laboratory::run_lab(&library, &["--runtime-version", "core8"]);
    assert_eq!((result.broken(), result.code), (Vec::new(), 2), "{}", result.stderr);
    assert!(result.stderr.contains(why), "{}", result.stderr);
}

#[test]
fn what_this_machine_lacks_for_a_library_is_no_finding() {
    cannot_be_loaded_here(b"libgcc_s.so.1\0", b"libgcc_x.so.1\0", "libgcc_x.so.1: cannot open shared object file");
    cannot_be_loaded_here(b"libgcc_s.so.1\0", b"libc.musl-x.1\0", "is for musl (libc.musl-x.1)");
    cannot_be_loaded_here(b"GLIBC_2.", b"GLIBC_9.", "version `GLIBC_9.");
}
