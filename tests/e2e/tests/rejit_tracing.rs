//! `remora trace -p`: single methods of a running process, traced by ReJIT. The program counts its own calls, and both counts are equal.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{
    Facts, ForeignProfiler, Kind, Recording, Remora, Runtime, Start, Target, on_every_runtime, on_runtimes, remora,
    until, until_used,
};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;
const SLOT_TAKEN: i32 = 17;

/// The first version with places for profilers beside the main one.
const FIRST_WITH_ROOM_BESIDE: u32 = 6;

/// What the program calls its cases, and the methods that they are.
const CASES: [(&str, &str); 22] = [
    ("plain", "Traced.Cases.Plain"),
    // Its caller had inlined it before the trace.
    ("tiny", "Traced.Cases.Tiny"),
    // It is requested, and inlines one that is requested after it.
    ("small", "Traced.Cases.CallsSmall"),
    ("small", "Traced.Cases.Small"),
    ("values", "Traced.Cases.Values"),
    ("twice_number", "Traced.Cases.Twice(int)"),
    ("twice_text", "Traced.Cases.Twice(string, List<int>)"),
    ("changes", "Traced.Cases.Changes"),
    ("recursive", "Traced.Cases.Recursive"),
    ("throws", "Traced.Cases.Throws"),
    ("always", "Traced.Cases.Always"),
    ("handles", "Traced.Cases.Handles"),
    ("structure", "Traced.Cases.Structure"),
    ("reference", "Traced.Cases.Reference"),
    ("nothing", "Traced.Cases.Nothing"),
    ("switches", "Traced.Cases.Switches"),
    ("method", "Traced.Cases.Method"),
    ("byref", "Traced.Cases.ByReference"),
    ("generic", "Traced.Generic.Same"),
    ("ctor", "Traced.Derived..ctor"),
    ("later", "Traced.Cases.Later"),
    // Precompiled code of the framework.
    ("framework", "System.Uri.EscapeDataString"),
];

/// Starts a trace, and waits until the probes are in.
fn begun(target: &Target, arguments: &[&str]) -> Remora {
    let pid = target.pid().to_string();
    let fixed = ["trace", "-p", &pid, "--json", "--yes"];
    let mut trace = Remora::start(fixed.iter().chain(arguments));
    trace.wait_until_it_says("tracing ");
    trace
}

/// Ends a trace.
fn ended(trace: Remora) -> Value {
    trace.signal(Signal::INT);
    trace.finish().succeeded().json()
}

/// The program's own counts since the last call.
fn own_counts(target: &mut Target) -> HashMap<String, u64> {
    let answer = target.ask("counts");
    let pairs = answer.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// The rows of a method, or of all of its name, without those of its steps.
fn rows<'a>(result: &'a Value, method: &str) -> Vec<&'a Value> {
    let all = result["methods"].as_array().unwrap();
    // Methods of one name have their parameters behind it.
    let is_it = |name: &str| name.strip_prefix(method).is_some_and(|rest| rest.is_empty() || rest.starts_with('('));
    all.iter().filter(|row| row["method"].as_str().is_some_and(is_it) && row["is_steps"] == false).collect()
}

fn sum(result: &Value, method: &str, field: &str) -> u64 {
    rows(result, method).iter().map(|row| row[field].as_u64().unwrap()).sum()
}

/// The agent stays, inert: no thread, no descriptor, no shared memory.
fn is_inert(target: &Target) {
    until("the agent has no thread", || !thread_names(target).iter().any(|name| name.starts_with("remora")));
    let left: Vec<String> = Facts::of(target.pid())
        .remora()
        .into_iter()
        .filter(|what| !what.contains("-tracer-stays.so") && !what.contains("memfd:remora-tracer"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

fn thread_names(target: &Target) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
    tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

#[test]
fn rjt_01_the_counts_of_a_trace_are_those_of_the_program() {
    counts_are_equal("1");
}

#[test]
fn regression_methods_that_inline_traced_ones_lost_their_own_probes() {
    // Code of the first tier inlines nothing.
    counts_are_equal("0");
}

fn counts_are_equal(tiers: &str) {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "traced").env("COMPlus_TieredCompilation", tiers).ready();
        let trace = begun(&target, &["-m", "Traced.*", "-m", "System.Uri.EscapeDataString"]);
        own_counts(&mut target);
        target.ask("run 25");
        let own = own_counts(&mut target);
        let result = ended(trace);
        for (case, method) in CASES {
            holds!(RJT_01 clr rem, sum(&result, method, "calls") == own[case], "{method}");
            assert_eq!(sum(&result, method, "calls_begun"), own[case], "{method}");
        }
        assert_eq!(sum(&result, "Traced.Cases.Throws", "exceptions"), own["throws"]);
        assert_eq!(sum(&result, "Traced.Cases.Always", "exceptions"), own["always"]);
        assert_eq!(sum(&result, "Traced.Cases.Handles", "exceptions"), 0);
        // The base constructor throws at the number 13, which the program does not pass to it.
        assert_eq!(sum(&result, "Traced.Basis..ctor", "calls"), own["ctor"]);
        assert_eq!(result["runtime_errors"], 0);
        is_inert(&target);
        // The methods are restored, and count for nobody.
        target.ask("run 2");
        assert_eq!(own_counts(&mut target)["plain"], 4);
        assert!(target.quit().success());
    });
}

#[test]
fn a_record_has_arguments_result_exception_and_callers() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let trace = begun(&target, &["-m", "Traced.Cases", "--arguments"]);
        target.ask("run 1");
        target.ask("slow 30");
        let result = ended(trace);
        let calls = result["calls"].as_array().unwrap();
        let of = |name: &str| calls.iter().find(|call| call["method"] == format!("Traced.Cases.{name}")).unwrap();
        let values = of("Values");
        let argument = |name: &str| {
            let all = values["arguments"].as_array().unwrap();
            all.iter().find(|argument| argument["name"] == name).unwrap()["value"].clone()
        };
        assert_eq!(argument("number"), 0);
        assert_eq!(argument("text"), "text");
        assert_eq!(argument("ratio"), 0.5);
        assert_eq!(argument("flag"), true);
        assert_eq!(argument("letter"), "x");
        assert_eq!((argument("mood"), argument("day")), (7.into(), 5.into()));
        assert_eq!((argument("price"), argument("span")), ("12.50".into(), "00:00:01.5".into()));
        assert_eq!(argument("large"), u64::MAX);
        assert_eq!(values["result"], "text0");
        assert_eq!(values["callers"][0], "Traced.Program.Once");
        // As they were at the beginning of the call.
        let changes = of("Changes")["arguments"].as_array().unwrap();
        assert_eq!((&changes[0]["value"], &changes[1]["value"]), (&Value::from(0), &Value::from("before")));
        assert_eq!(of("Throws")["exception"], true);
        assert_eq!(of("Plain")["exception"], false);
        // The calls are sorted by duration, and this one takes 30 ms by itself.
        let slow = &of("Slow");
        assert!(slow["duration_nanoseconds"].as_u64().unwrap() >= 30_000_000, "{slow}");
        assert_eq!(slow["arguments"][0]["value"], 30);
        // The stacks of asynchronous calls are walked at most once a millisecond.
        let alone = calls.iter().filter(|call| call["callers"].as_array().unwrap().is_empty());
        assert_eq!(alone.filter(|call| call["method"] != "Traced.Cases.Later").count(), 0);
        assert_eq!(result["callers_without_name"], 0);
    });
}

#[test]
fn a_recorded_call_has_a_time_of_day_and_the_call_that_it_ran_within() {
    on_every_runtime(|runtime| {
        let now = || {
            let date = Command::new("date").args(["-u", "+%FT%T.%6NZ"]).output().unwrap();
            String::from_utf8(date.stdout).unwrap().trim().to_owned()
        };
        let mut target = Target::start(runtime, "traced", &[]);
        let trace = begun(&target, &["-m", "Traced.Cases.Plain", "-m", "Traced.Cases.Count", "--slower-than", "0"]);
        let before = now();
        target.ask("run 2");
        let after = now();
        let result = ended(trace);
        let calls = result["calls"].as_array().unwrap();
        let within = |call: &Value| call["within"].as_u64().map(|index| calls[index as usize]["method"].clone());
        let of = |method: &str| calls.iter().filter(|call| call["method"] == method).collect::<Vec<_>>();
        let plain = of("Traced.Cases.Plain");
        assert!(!plain.is_empty() && plain.iter().all(|call| within(call).is_none()), "{result:#}");
        let counts = of("Traced.Cases.Count");
        let inside = counts.iter().filter(|call| within(call) == Some("Traced.Cases.Plain".into())).count();
        assert!(inside == plain.len() && inside < counts.len(), "other cases call it, too: {result:#}");
        for call in calls {
            let time = call["begin_time"].as_str().unwrap();
            assert!(*before <= *time && *time <= *after, "{before} {time} {after}");
        }
        assert!(target.quit().success());
    });
}

#[test]
fn the_next_trace_and_the_next_recording_work_beside_the_agent_that_stayed() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_ROOM_BESIDE), |runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        for round in 0..3 {
            let trace = begun(&target, &["-m", "Traced.Cases.Plain"]);
            target.ask("run 2");
            let result = ended(trace);
            assert_eq!(sum(&result, "Traced.Cases.Plain", "calls"), 4, "{round}");
            assert_eq!(result["agent_was_there"], round > 0);
            is_inert(&target);
        }
        let libraries = Facts::of(target.pid()).maps.into_iter().filter(|map| map.name.contains("-tracer-stays.so"));
        let mut names: Vec<String> = libraries.map(|map| map.name).collect();
        names.dedup();
        assert_eq!(names.len(), 1, "{names:?}");
        let text = remora(["detach", "-p", &target.pid().to_string()]).succeeded().text();
        assert!(text.contains("the next `remora trace` uses it again"), "{text}");
        target.ask("spin");
        let recording = Recording::begun(&target, &[]);
        until_used(target.pid(), Duration::from_millis(200));
        recording.stop().is_clean();
        target.ask("stop");
        assert!(target.quit().success());
    });
}

#[test]
fn a_killed_recorder_leaves_restored_methods_and_an_inert_agent() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let trace = begun(&target, &["-m", "Traced.*"]);
        target.ask("run 1");
        trace.signal(Signal::KILL);
        drop(trace);
        is_inert(&target);
        target.ask("run 3");
        if runtime.major() >= FIRST_WITH_ROOM_BESIDE {
            let trace = begun(&target, &["-m", "Traced.Cases.Plain"]);
            target.ask("run 1");
            assert_eq!(sum(&ended(trace), "Traced.Cases.Plain", "calls"), 2);
        }
        assert!(target.quit().success());
    });
}

#[test]
fn methods_of_an_assembly_that_is_loaded_later_are_traced_from_then_on() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let mut trace = begun(&target, &["-m", "Traced.Cases.Encode", "-m", "System.Web.HttpUtility.UrlEncode"]);
        target.ask("encode 1");
        trace.wait_until_it_says("of an assembly that was loaded now");
        target.ask("encode 5");
        let result = ended(trace);
        assert_eq!(sum(&result, "Traced.Cases.Encode", "calls"), 6);
        // The call that loads the assembly may end before the runtime has replaced the method. One overload calls another.
        let overloads = rows(&result, "System.Web.HttpUtility.UrlEncode");
        let most = overloads.iter().map(|row| row["calls"].as_u64().unwrap()).max();
        assert!((5..=6).contains(&most.unwrap()), "{overloads:?}");
    });
}

#[test]
fn methods_of_an_assembly_that_can_be_unloaded_are_left_out() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "collectible", &[]);
        let trace = begun(&target, &["-m", "Collectible.*", "-m", "Plugin.*"]);
        let before = target.ask_number("unloaded");
        until("assemblies unload", || target.ask_number("unloaded") > before + 10);
        let result = ended(trace);
        let left_out = result["not_traced"].as_array().unwrap();
        let why = |name: &str| left_out.iter().find(|one| one["method"] == name).map(|one| &one["why"]);
        assert_eq!(why("Plugin.Worker.Burn"), Some(&"its assembly can be unloaded".into()), "{left_out:?}");
        assert!(rows(&result, "Plugin.Worker.Burn").is_empty());
        assert!(sum(&result, "Collectible.LoadRunUnload", "calls") >= 10);
        let before = target.ask_number("count");
        until("the program goes on", || target.ask_number("count") > before);
        assert!(target.quit().success());
    });
}

#[test]
fn of_many_slow_calls_the_slowest_are_kept() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let trace = begun(&target, &["-m", "Traced.Cases.Plain", "-m", "Traced.Cases.Slow", "--slower-than", "0"]);
        target.ask("run 8000");
        target.ask("slow 100");
        let result = ended(trace);
        let calls = result["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 10_000);
        assert_eq!(calls[0]["method"], "Traced.Cases.Slow");
        assert_eq!(sum(&result, "Traced.Cases.Plain", "calls"), 16_000);
    });
}

#[test]
fn a_method_that_is_called_too_often_is_restored_without_being_asked() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        target.ask("spin");
        let trace = begun(&target, &["-m", "Traced.Cases.Spin", "--most-calls", "1000"]);
        let result = trace.finish().succeeded().json();
        assert_eq!(result["ended"], "too-many-calls");
        assert!(sum(&result, "Traced.Cases.Spin", "calls") > 0);
        is_inert(&target);
        let before = target.ask_number("spins");
        until("the program goes on", || target.ask_number("spins") > before);
        target.ask("stop");
        assert!(target.quit().success());
    });
}

#[test]
fn a_limit_ends_the_trace_with_so_many_calls() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let trace = begun(&target, &["-m", "Traced.Cases.Plain", "--limit", "3"]);
        target.ask("run 10");
        let result = trace.finish().succeeded().json();
        assert_eq!(result["ended"], "limit");
        assert_eq!(result["calls_recorded"], 3);
        // All are counted until the trace has ended, which is a moment later.
        assert!((3..=20).contains(&sum(&result, "Traced.Cases.Plain", "calls")));
    });
}

#[test]
fn nothing_is_loaded_unless_somebody_agrees_and_too_wide_patterns_are_refused() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let pid = target.pid().to_string();
        let before = Facts::of(target.pid());
        // Before it changes a process for good, it says so and waits for a yes.
        let refused = remora(["trace", "-p", &pid, "-m", "Traced.*", "-d", "1s"]);
        holds!(RJT_01 rem, refused.has_failed_with(USAGE, &["not confirmed", "--yes"]), "{refused}");
        assert_eq!(Facts::left_in(target.pid(), &before), Vec::<String>::new());
        remora(["trace", "-p", &pid, "-m", "No.Such.Method", "--yes"])
            .failed_with(USAGE, &["no method to trace matches No.Such.Method"]);
        is_inert(&target);
        target.ask("run 1");
        if runtime.major() >= FIRST_WITH_ROOM_BESIDE {
            // The agent is there, so nothing asks about it; about the number of methods, it does.
            remora(["trace", "-p", &pid, "-m", "System.*"]).failed_with(USAGE, &["methods match", "--yes"]);
            is_inert(&target);
        }
        assert!(target.quit().success());
    });
}

#[test]
fn beside_another_main_profiler_it_says_what_is_still_possible() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "traced", &[]);
        let _other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        let before = Facts::of(target.pid());
        let pid = target.pid().to_string();
        remora(["trace", "-p", &pid, "-m", "Traced.*", "--yes"]).failed_with(SLOT_TAKEN, &["remora record -p PID"]);
        assert_eq!(Facts::left_in(target.pid(), &before), Vec::<String>::new());
    });
}
