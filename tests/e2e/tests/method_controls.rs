//! Changes what `remora trace -p` traces while it runs. Until a method is taken out, and from its addition on, its count is the program's
//! own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Recording, Remora, Runtime, Target, on_every_runtime, on_runtimes, remora, until};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The first version with places for profilers beside the main one: the agent that stays is used again.
const FIRST_WITH_ROOM_BESIDE: u32 = 6;
/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;

/// Starts a trace, and waits until the probes are in.
fn begun(target: &Target, arguments: &[&str]) -> Remora {
    let pid = target.pid().to_string();
    let mut trace = Remora::start(["trace", "-p", &pid, "--json"].iter().chain(arguments));
    trace.wait_until_it_says("tracing ");
    trace
}

/// Types a line, and waits for its effect.
fn changed(trace: &mut Remora, line: &str, effect: &str) {
    trace.type_in(&format!("{line}\n"));
    trace.wait_until_it_says(effect);
}

/// Ends a trace by Enter.
fn ended(mut trace: Remora) -> Value {
    trace.press_enter();
    trace.finish().succeeded().json()
}

/// Lets the program call its cases so often, and returns its own counts.
fn run(target: &mut Target, times: u32) -> HashMap<String, u64> {
    target.ask("counts");
    target.ask(&format!("run {times}"));
    let answer = target.ask("counts");
    let pairs = answer.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// The only row of a method, without that of its steps.
fn row<'a>(result: &'a Value, method: &str) -> &'a Value {
    let rows = result["methods"].as_array().unwrap();
    let mut rows = rows.iter().filter(|row| row["method"] == method && row["is_steps"] != true);
    let found = rows.next().unwrap_or_else(|| panic!("{method} in {result:#}"));
    assert!(rows.next().is_none(), "{method} in {result:#}");
    found
}

#[test]
fn ctl_01_methods_are_added_and_taken_out_while_a_trace_runs_and_their_counts_are_the_programs() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let mut trace = begun(&target, &["--yes", "-m", "Traced.Cases.Plain", "-m", "Traced.Cases.Later"]);
        let first = run(&mut target, 3);
        changed(&mut trace, "+Traced.Generic", "tracing 1 method more, 3 in all");
        changed(&mut trace, "+Traced.Cases.Throws", "tracing 1 method more, 4 in all");
        let second = run(&mut target, 5);
        changed(&mut trace, "-Traced.Cases.Plain", "took 1 method out, 3 traced");
        changed(&mut trace, "-Traced.Cases.Later", "took 1 method out, 2 traced");
        let third = run(&mut target, 7);
        // One that was taken out comes again, with the calls that it had.
        changed(&mut trace, "+Traced.Cases.Plain", "tracing 1 method more, 3 in all");
        changed(&mut trace, "+Traced.Cases.Throws", "tracing 0 methods more, 3 in all; 1 was traced already");
        let fourth = run(&mut target, 2);
        changed(&mut trace, "-Traced.*", "took 3 methods out, 0 traced");
        run(&mut target, 4);
        changed(&mut trace, "+Traced.Cases.Values", "tracing 1 method more, 1 in all");
        let last = run(&mut target, 1);
        let result = ended(trace);
        let expected = [
            ("Traced.Cases.Plain", "plain", vec![&first, &second, &fourth], true),
            ("Traced.Cases.Later", "later", vec![&first, &second], true),
            ("Traced.Generic.Same", "generic", vec![&second, &third, &fourth], true),
            ("Traced.Cases.Throws", "throws", vec![&second, &third, &fourth], true),
            ("Traced.Cases.Values", "values", vec![&last], false),
        ];
        for (method, case, phases, is_taken_out) in expected {
            let own: u64 = phases.into_iter().map(|counts| counts[case]).sum();
            let row = row(&result, method);
            holds!(CTL_01 clr rem, (&row["calls"], &row["calls_begun"]) == (&json!(own), &json!(own)), "{method}");
            assert_eq!(row["is_taken_out"], is_taken_out, "{method}");
        }
        let time = |method: &str, what: &str| row(&result, method)[format!("{what}_nanoseconds")].as_u64().unwrap();
        let since = |method: &str| time(method, "since");
        assert_eq!(since("Traced.Cases.Plain"), 0);
        let order =
            ["Traced.Cases.Later", "Traced.Generic.Same", "Traced.Cases.Throws", "Traced.Cases.Values"].map(since);
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
        let lasted = result["lasted_nanoseconds"].as_u64().unwrap();
        assert_eq!(time("Traced.Cases.Values", "traced") + since("Traced.Cases.Values"), lasted);
        assert!(time("Traced.Cases.Later", "traced") < time("Traced.Cases.Plain", "traced"));
        let changes = result["changes"].as_array().unwrap();
        let kinds: Vec<&str> = changes.iter().map(|change| change["change"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["add", "add", "remove", "remove", "add", "add", "remove", "add"]);
        assert!(changes.iter().all(|change| change["refused"].is_null() && change["runtime_refused"].is_null()));
        assert_eq!((&changes[6]["pattern"], &changes[6]["methods_changed"]), (&json!("Traced.*"), &json!(3)));
        assert_eq!((&result["runtime_errors"], &result["ended"]), (&json!(0), &json!("asked")));
        run(&mut target, 1);
        assert!(target.quit().success());
    });
}

#[test]
fn ctl_01_a_time_changes_which_calls_are_recorded() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let mut trace = begun(&target, &["--yes", "-m", "Traced.Cases.Slow", "--slower-than", "1h"]);
        target.ask("slow 30");
        changed(&mut trace, "20ms", "recording calls that take 20.0 ms or longer");
        target.ask("slow 30");
        changed(&mut trace, "1h", "recording calls that take 1h 00m 00s or longer");
        target.ask("slow 30");
        changed(&mut trace, "0", "recording every call");
        target.ask("slow 0");
        let result = ended(trace);
        assert_eq!(row(&result, "Traced.Cases.Slow")["calls"], 4);
        holds!(CTL_01 clr rem, result["calls_recorded"] == 2, "{result:#}");
        assert!(result["calls"][0]["duration_nanoseconds"].as_u64().unwrap() >= 30_000_000);
    });
}

#[test]
fn ctl_01_on_a_terminal_a_sign_opens_a_line_for_the_pattern_and_too_many_methods_are_refused() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let folder = remora_e2e::folder();
        let (screen, binary) = (folder.path().join("screen"), Remora::command());
        let binary = Path::new(binary.get_program()).display();
        let line = format!("exec '{binary}' trace -p {} -m Traced.Cases.Plain", target.pid());
        let mut command = Command::new("script");
        command.args(["-qefc", &line]).arg(&screen).env("TERM", "xterm");
        let mut terminal = Remora::spawn(command);
        let mut shows = |words: &str, then: &str| {
            let text = || std::fs::read(&screen).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            until(words, || text().is_ok_and(|text| one_line(&text).contains(words)));
            terminal.type_in(then);
        };
        shows("trace it? [y/N]", "y\n");
        shows("before Enter, +PATTERN adds methods", "+\n");
        shows("methods to add, like 'Shop.Orders.*'", "Traced.Cases.Values\n");
        shows("tracing 1 method more, 2 in all", "+System.*\n");
        shows("methods match, and each would be compiled again", "-\n");
        shows("methods to take out, like 'Shop.Orders.*'", "\n");
        shows("Enter alone changes nothing", "");
        shows("nothing was changed\r", "");
        let own = run(&mut target, 6);
        terminal.type_in("\n");
        let finished = terminal.finish();
        assert_eq!(finished.code(), 0, "{finished}");
        let text = finished.text();
        for (method, case) in [("Traced.Cases.Plain", "plain"), ("Traced.Cases.Values", "values")] {
            let mut row = text.lines().rfind(|line| line.starts_with(method)).unwrap().split_whitespace();
            holds!(CTL_01 clr rem, row.nth(1) == Some(own[case].to_string().as_str()), "{text}");
        }
    });
}

/// What a terminal shows, with lines that were broken at its width put together.
fn one_line(screen: &str) -> String {
    screen.replace("\r\n", "\r").replace('\r', "\r ").replace("  ", " ")
}

#[test]
fn ctl_01_a_change_says_what_it_could_not_do_and_why() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_ROOM_BESIDE), |runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        // The agent that this leaves needs no `--yes`, which would lift the limit.
        let pid = target.pid().to_string();
        remora(["trace", "-p", &pid, "-m", "No.Such.Method", "--yes"]).failed_with(USAGE, &["no method"]);
        let mut trace = begun(&target, &["-m", "Traced.Cases.Plain"]);
        changed(&mut trace, "+No.Such.Method", "no loaded method matches No.Such.Method; 1 traced");
        changed(&mut trace, "-No.Such.Method", "no traced method matches No.Such.Method; 1 traced");
        changed(&mut trace, "+System.*", "methods match, and each would be compiled again");
        changed(&mut trace, "+System.IDisposable", "1 cannot be traced, for example System.IDisposable.Dispose: ");
        changed(&mut trace, "Traced.Cases.Values", "not understood: +PATTERN adds methods");
        let long = "x".repeat(10_000);
        changed(&mut trace, &format!("+{long}"), "not understood");
        // Two at once, and the end with them.
        trace.type_in("+Traced.Cases.Values\n-Traced.Cases.Plain\n");
        trace.wait_until_it_says("tracing 1 method more, 2 in all");
        trace.wait_until_it_says("took 1 method out, 1 traced");
        let own = run(&mut target, 3);
        let result = ended(trace);
        holds!(CTL_01 clr rem, row(&result, "Traced.Cases.Values")["calls"] == own["values"]);
        assert_eq!(row(&result, "Traced.Cases.Plain")["calls"], 0);
        let refused: Vec<&Value> =
            result["changes"].as_array().unwrap().iter().map(|change| &change["refused"]).collect();
        assert_eq!(refused[..4], [&Value::Null, &Value::Null, &json!("too-many-methods"), &Value::Null]);
        // Nothing of it stays in the next trace.
        let trace = begun(&target, &["-m", "Traced.Cases.Plain"]);
        let own = run(&mut target, 2);
        let result = ended(trace);
        assert_eq!(row(&result, "Traced.Cases.Plain")["calls"], own["plain"]);
        assert_eq!(result["methods"].as_array().unwrap().len(), 1);
        assert!(target.quit().success());
    });
}

#[test]
fn ctl_01_methods_of_an_assembly_that_is_loaded_later_follow_the_last_change() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        let mut trace = begun(&target, &["--yes", "-m", "Traced.Cases.Encode", "-m", "System.Web.HttpUtility"]);
        changed(&mut trace, "-System.Web.HttpUtility", "no traced method matches System.Web.HttpUtility; 1 traced");
        changed(&mut trace, "+System.Web.HttpUtility.UrlEncode", "no loaded method matches");
        target.ask("encode 1");
        trace.wait_until_it_says("of an assembly that was loaded now");
        target.ask("encode 5");
        let result = ended(trace);
        assert_eq!(row(&result, "Traced.Cases.Encode")["calls"], 6);
        let names: Vec<&str> =
            result["methods"].as_array().unwrap().iter().map(|row| row["method"].as_str().unwrap()).collect();
        holds!(CTL_01 clr rem, names.contains(&"System.Web.HttpUtility.UrlEncode(string)"), "{names:?}");
        assert!(!names.iter().any(|name| name.starts_with("System.Web.HttpUtility.UrlDecode")), "{names:?}");
    });
}

#[test]
fn ctl_01_a_method_that_is_called_all_the_time_is_added_and_taken_out_again_and_again() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        target.ask("spin");
        let mut trace = begun(&target, &["--yes", "-m", "Traced.Cases.Plain", "--most-calls", "1000000000"]);
        let mut most = 0;
        for _ in 0..10 {
            let begin = target.ask_number("spins");
            changed(&mut trace, "+Traced.Cases.Spin", "tracing 1 method more, 2 in all");
            let before = target.ask_number("spins");
            until("it is called", || target.ask_number("spins") > before);
            changed(&mut trace, "-Traced.Cases.Spin", "took 1 method out, 1 traced");
            // One more may have begun, which the program counts at its end.
            let end = target.ask_number("spins") + 1;
            most += end - begin;
            // So many calls again, which the trace must not have.
            until("the program goes on", || target.ask_number("spins") > end + (end - begin));
        }
        target.ask("stop");
        let result = ended(trace);
        let spin = row(&result, "Traced.Cases.Spin");
        let calls = spin["calls"].as_u64().unwrap();
        holds!(CTL_01 clr rem, calls > 0 && calls <= most, "{calls} of {most} while it was traced");
        assert_eq!(spin["calls"], spin["calls_begun"], "what had begun when it was taken out has ended");
        assert_eq!(result["runtime_errors"], 0);
        assert!(target.quit().success());
    });
}

/// The calls of a method in the tables that a recording has printed, summed over its traces.
fn calls_in_tables(text: &str, method: &str) -> u64 {
    let rows = text.lines().filter_map(|line| line.strip_prefix(method)?.split_whitespace().next());
    rows.filter_map(|cell| cell.replace(',', "").parse::<u64>().ok()).sum()
}

#[test]
fn ctl_01_methods_are_traced_while_a_recording_runs_and_the_receipt_is_clean() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_ROOM_BESIDE), |runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        // What is recorded must run.
        target.ask("spin");
        let mut recording = Recording::begun(&target, &[]);
        let plain = "+Traced.Cases.Plain";
        changed(recording.remora(), "t", "no trace of methods runs");
        changed(recording.remora(), "-Traced.Cases.Plain", "no trace of methods runs");
        changed(recording.remora(), plain, &format!("Type {plain} again to trace"));
        assert!(!Facts::of(target.pid()).remora().iter().any(|what| what.contains("tracer")), "not asked for yet");
        changed(recording.remora(), plain, "tracing 1 method of ");
        let first = run(&mut target, 3);
        changed(recording.remora(), "+Traced.Cases.Throws", "tracing 1 method more, 2 in all");
        let second = run(&mut target, 5);
        changed(recording.remora(), "t", "ending the trace of methods");
        recording.remora().wait_until_it_says("the probes took at least");
        run(&mut target, 7);
        // The agent is there already: nothing to confirm.
        changed(recording.remora(), plain, "tracing 1 method of ");
        let third = run(&mut target, 2);
        recording.remora().press_enter();
        let recorded = recording.finish();
        recorded.is_clean();
        let text = &recorded.finished.stderr;
        let own = first["plain"] + second["plain"] + third["plain"];
        holds!(CTL_01 clr rem, calls_in_tables(text, "Traced.Cases.Plain") == own, "{text}");
        assert_eq!(calls_in_tables(text, "Traced.Cases.Throws"), second["throws"], "{text}");
        assert!(target.quit().success());
    });
}

#[test]
fn before_dotnet_6_a_recording_says_that_there_is_no_place_for_a_trace() {
    let older: Vec<_> = Runtime::all().into_iter().filter(|one| one.major() < FIRST_WITH_ROOM_BESIDE).collect();
    on_runtimes(&older, |runtime| {
        let mut target = Target::start(runtime, "traced", &[]);
        target.ask("spin");
        let mut recording = Recording::begun(&target, &[]);
        changed(recording.remora(), "+Traced.Cases.Plain", "before .NET 6 a process has one profiler");
        recording.remora().press_enter();
        let recorded = recording.finish();
        let said = &recorded.is_clean().finished.stderr;
        assert!(said.contains("before .NET 6 a process has one profiler"), "{said}");
    });
}

/// The recorder dies; nobody could end the trace then.
#[test]
fn regression_a_trace_of_a_killed_recording_ends_by_itself() {
    let mut target = Target::start(&Runtime::newest(), "traced", &[]);
    target.ask("spin");
    let mut recording = Recording::begun(&target, &[]);
    for effect in ["again to trace", "tracing 1 method of "] {
        changed(recording.remora(), "+Traced.Cases.Plain", effect);
    }
    run(&mut target, 1);
    recording.remora().signal(Signal::KILL);
    let at_work = |what: &String| what.starts_with("thread") || what.starts_with("descriptor");
    until("both agents have ended", || !Facts::of(target.pid()).remora().iter().any(at_work));
    // On two threads.
    assert_eq!(run(&mut target, 2)["plain"], 4);
    assert!(target.quit().success());
}
