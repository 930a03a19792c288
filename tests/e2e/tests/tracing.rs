//! `remora trace -- CMD`: exact counts and times of calls, compared with those of the program itself.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::probe::{CLASS, library};
use remora_e2e::{
    Expected, Facts, Finished, Kind, Remora, Runtime, Target, diagnostics, on_every_runtime, on_runtimes, until,
};
use remora_holds::holds;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// CORPROF_E_PROFILER_ALREADY_ACTIVE.
const ALREADY_ACTIVE: u32 = 0x8013_136A;

/// `remora trace FLAGS -- dotnet PROGRAM ARGUMENTS`.
fn traced(runtime: &Runtime, flags: &[&str], program: &[&str]) -> Command {
    let mut command = Remora::command();
    command.arg("trace").args(flags).arg("--").arg(runtime.launcher());
    command.arg(Target::assembly(program[0])).args(&program[1..]);
    command
}

/// Runs it to its end. Returns the call tree, too.
fn run(runtime: &Runtime, folder: &Path, flags: &[&str], program: &[&str]) -> (Finished, Value) {
    let file = folder.join("a.calls.json");
    let mut command = traced(runtime, &[&["-o", file.to_str().unwrap()], flags].concat(), program);
    command.current_dir(folder);
    let finished = Remora::spawn(command).finish();
    (finished, serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}

/// Calls and exceptions by method; a state machine by the name of its method.
fn counts(tree: &Value) -> BTreeMap<String, (u64, u64)> {
    let number = |method: &Value, field: &str| method[field].as_u64().unwrap();
    let methods = tree["methods"].as_array().unwrap().iter();
    methods
        .map(|method| {
            (plain(method["name"].as_str().unwrap()), (number(method, "calls"), number(method, "exceptions")))
        })
        .collect()
}

/// `A.<B>.MoveNext` for `A.<B>d__3.MoveNext`: compilers number state machines.
fn plain(name: &str) -> String {
    match (name.split_once(">d__"), name.rsplit_once('.')) {
        (Some((before, _)), Some((_, method))) => format!("{before}>.{method}"),
        _ => name.to_owned(),
    }
}

/// The lines of the program that begin with `what`, as name and numbers.
fn own(text: &str, what: &str) -> BTreeMap<String, Vec<u64>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(' '));
    let parsed = lines.map(|line| {
        let mut words = line.split(' ');
        (words.next().unwrap().to_owned(), words.map(|word| word.parse().unwrap()).collect())
    });
    parsed.collect()
}

/// Where the code of Remora's library is in a process.
fn code_of_ours(process: u32) -> Vec<(u64, u64)> {
    let mut maps = Facts::of(process).maps;
    maps.retain(|map| map.name.contains("libremora_agent") && map.permissions.contains('x'));
    maps.iter().map(|map| (map.start, map.end)).collect()
}

fn child_of(process: u32) -> u32 {
    let mut child = None;
    until("the command has started", || {
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        child = children.split_ascii_whitespace().next().and_then(|child| child.parse().ok());
        child.is_some()
    });
    child.unwrap()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

#[test]
fn elt_01_calls_and_exceptions_are_counted_exactly_and_no_hook_changes_a_value() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (finished, tree) = run(runtime, folder.path(), &["--exclude", "Tally.*"], &["calls"]);
        // The program checks its own results: 8 would mean that a register was changed.
        assert_eq!(finished.code(), 7, "{finished}");
        let (own, found) = (own(&finished.text(), "count"), counts(&tree));
        assert!(own.len() > 50, "{finished}");
        for (name, numbers) in &own {
            let expected = (numbers[0], numbers[1]);
            holds!(
                ELT_01 clr rem, found.get(name) == Some(&expected),
                "{name} on {}: calls, and those that threw", runtime.name()
            );
        }
        let losses = tree["losses"].as_object().unwrap();
        assert!(losses.values().all(|count| count == 0), "{losses:?} on {}", runtime.name());
    });
}

#[test]
fn elt_01_every_thread_keeps_its_own_tree_after_its_end() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (_, tree) =
            run(runtime, folder.path(), &["--methods", "Counted.Work", "--methods", "Counted.Small"], &["calls"]);
        let nodes = tree["nodes"].as_array().unwrap();
        let name = |node: &Value| {
            let method = node["method"].as_u64();
            let of_it = tree["methods"].as_array().unwrap().iter().find(|found| found["index"].as_u64() == method);
            of_it.unwrap()["name"].as_str().unwrap().to_owned()
        };
        // In each of 60 threads: 200 calls, and one more after an exception.
        let work: Vec<usize> = (0..nodes.len()).filter(|index| name(&nodes[*index]) == "Counted.Work").collect();
        holds!(ELT_01 clr rem, work.len() == 60);
        let mut threads: Vec<u64> = Vec::new();
        for index in work {
            holds!(ELT_01 clr rem, nodes[index]["calls"] == 1);
            let callees = nodes.iter().filter(|node| node["parent"].as_u64() == Some(index as u64));
            let callees: Vec<_> = callees.map(|node| (name(node), node["calls"].as_u64().unwrap())).collect();
            holds!(ELT_01 clr rem, callees == [("Counted.Small".to_owned(), 201)]);
            threads.push(nodes[index]["thread"].as_u64().unwrap());
        }
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads.len(), 60);
    });
}

#[test]
fn elt_01_times_agree_with_the_programs_own_clock() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (finished, tree) = run(runtime, folder.path(), &["--methods", "Timed.*"], &["calls", "times"]);
        let own = own(&finished.text(), "time");
        let total = |name: &str| {
            let mut methods = tree["methods"].as_array().unwrap().iter();
            methods.find(|method| method["name"] == name).unwrap()["total_nanoseconds"].as_u64().unwrap()
        };
        // The two clocks may run differently by this share.
        let at_most = |one: u64, other: u64| {
            holds!(ELT_01 clr rem, one as f64 <= other as f64 * 1.01, "{one} {other}: {finished}\n{tree}");
        };
        let callees = ["Timed.Inner", "Timed.Sleep", "Timed.Fail"];
        // A method reads its own clock later than its entry and earlier than its exit.
        for name in callees.iter().chain(&["Timed.Outer"]) {
            at_most(own[*name][0], total(name));
        }
        // And its callees are between its two readings.
        at_most(callees.iter().map(|name| total(name)).sum(), own["Timed.Outer"][0]);
        at_most(total("Timed.Outer"), tree["duration_nanoseconds"].as_u64().unwrap());
    });
}

#[test]
fn everything_counted_is_there_after_the_target_was_killed() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let file = folder.path().join("a.trace.json");
        let mut remora =
            Remora::spawn(traced(runtime, &["--json", "-o", file.to_str().unwrap()], &["calls", "forever"]));
        remora.wait_until_it_says("ready");
        signal(child_of(remora.pid()), Signal::KILL);
        let finished = remora.finish().failed_with(128 + 9, &["signal: 9"]);
        let found = counts(&finished.json());
        assert!(found["Program.Round"].0 >= 1000, "{finished}");
        assert_eq!((found["Program.Main"], found["Program.Forever"]), ((1, 0), (1, 0)));
        assert!(file.exists());
    });
}

#[test]
fn regression_a_second_ctrl_c_lost_everything_that_was_counted() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let file = folder.path().join("a.calls.json");
        let command = traced(runtime, &["--json", "-o", file.to_str().unwrap()], &["calls", "forever"]);
        let mut remora = Remora::spawn(command);
        remora.wait_until_it_says("ready");
        let target = child_of(remora.pid());
        // The program does not get it, and runs on.
        remora.signal(Signal::INT);
        remora.wait_until_it_says("Ctrl-C again does not wait");
        remora.signal(Signal::INT);
        remora.wait_until_it_says("runs on");
        // It has the same standard error, which is read to its end.
        signal(target, Signal::KILL);
        let finished = remora.finish().succeeded();
        assert!(counts(&finished.json())["Program.Round"].0 > 0, "{finished}");
        assert!(file.exists());
    });
}

#[test]
fn elt_02_a_program_whose_recorder_was_killed_keeps_the_hooks_and_ends_as_usual() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut command = traced(runtime, &["--json"], &["calls", "forever"]);
        command.current_dir(folder.path());
        let mut remora = Remora::spawn(command);
        // Said before the program starts.
        remora.wait_until_it_says("the hooks stay in the process until it ends");
        remora.wait_until_it_says("tracing ");
        remora.wait_until_it_says("ready");
        let target = child_of(remora.pid());
        let hooks = code_of_ours(target);
        remora.signal(Signal::KILL);
        until("the recorder has ended", || {
            std::fs::read_to_string(format!("/proc/{target}/stat")).is_ok_and(|stat| {
                stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) != Some(&remora.pid().to_string())
            })
        });
        // A detach would free the place of the only main profiler, and the code.
        let attached = || diagnostics::attach_profiler(target, &CLASS, &library().to_string_lossy(), &[]);
        holds!(ELT_02 rem, attached() == Err(ALREADY_ACTIVE));
        holds!(ELT_02 rem, !hooks.is_empty() && code_of_ours(target) == hooks, "methods call the hooks");
        remora.type_in("quit\n");
        remora.wait_until_it_says("rounds ");
        until("the program has ended", || {
            !Path::new(&format!("/proc/{target}/maps")).exists() || {
                std::fs::read_to_string(format!("/proc/{target}/maps")).is_ok_and(|maps| maps.is_empty())
            }
        });
    });
}

#[test]
fn a_program_that_ends_below_its_calls_keeps_its_exit_code_and_its_calls() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (finished, tree) = run(runtime, folder.path(), &[], &["calls", "exit"]);
        finished.failed_with(9, &["exit status: 9"]);
        assert_eq!(counts(&tree)["Program.Below"], (6, 0));
        let active = tree["nodes"].as_array().unwrap().iter().filter(|node| node["active"] == true).count();
        assert_eq!(active, 7, "Main, and six calls of Below");
    });
}

#[test]
fn a_program_that_crashes_does_so_as_without_a_trace() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (finished, tree) = run(runtime, folder.path(), &[], &["calls", "crash"]);
        finished.failed_with(128 + 6, &["nothing catches this", "signal: 6"]);
        assert_eq!(counts(&tree)["Program.Main"].0, 1);
    });
}

#[test]
fn ctrl_c_ends_the_program_as_usual_and_the_result_is_written() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let file = folder.path().join("a.html");
        let mut remora =
            Remora::spawn(traced(runtime, &["--json", "-o", file.to_str().unwrap()], &["calls", "forever"]));
        remora.wait_until_it_says("ready");
        // The terminal sends it to both.
        signal(child_of(remora.pid()), Signal::INT);
        remora.signal(Signal::INT);
        let finished = remora.finish().succeeded();
        assert!(finished.stderr.contains(" ended ("), "{finished}");
        assert!(counts(&finished.json())["Program.Round"].0 >= 1000, "{finished}");
        assert!(std::fs::read_to_string(file).unwrap().contains("Program.Round"));
    });
}

#[test]
fn a_pattern_that_matches_nothing_is_reported_at_the_end() {
    let folder = remora_e2e::folder();
    let mut command = traced(&Runtime::newest(), &["--methods", "Shop.*"], &["calls", "exit"]);
    command.current_dir(folder.path());
    Remora::spawn(command)
        .finish()
        .failed_with(44, &["no method matches `Shop.*`", "methods that .NET compiled", "exit status: 9"]);
}

#[test]
fn methods_of_the_framework_are_traced_when_a_pattern_names_them() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let flags = ["--methods", "System.Threading.Thread.Sleep"];
        let (finished, tree) = run(runtime, folder.path(), &flags, &["calls", "times"]);
        // Precompiled code would have no hooks.
        let all = counts(&tree);
        // Its overloads have their parameters behind the name.
        let sleeps = all.iter().filter(|(name, _)| name.starts_with("System.Threading.Thread.Sleep("));
        assert!(sleeps.map(|(_, (calls, _))| calls).sum::<u64>() >= 21, "{finished}\n{tree}");
    });
}

#[test]
fn neither_the_process_nor_its_children_keep_the_variables_of_the_tracer() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let mut command = traced(runtime, &["--json"], &["first_moments", "10"]);
        command.current_dir(folder.path());
        let mut remora = Remora::spawn(command);
        let said = remora.wait_until_it_says("ready used=");
        remora.type_in("quit\n");
        remora.finish().failed_with(7, &["exit status: 7"]);
        assert!(said.contains(" own= inherited="), "{said}");
    });
}

#[test]
fn beside_another_main_profiler_a_trace_is_refused_before_the_command_starts() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let expected = Expected::new(Kind::Main);
        let mut command = traced(runtime, &[], &["calls", "exit"]);
        command.envs(expected.variables()).current_dir(folder.path());
        let finished =
            Remora::spawn(command).finish().failed_with(19, &["a main profiler", "CORECLR_ENABLE_PROFILING=0"]);
        assert!(!finished.stderr.contains("ended ("), "{finished}");
    });
}

#[test]
fn the_timeline_has_the_long_calls_each_within_its_caller() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let folder = remora_e2e::folder();
        let [timeline, page, text, pprof] = ["b.trace.json", "b.html", "b.calls.txt", "b.pb.gz"]
            .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        let outputs = ["-o", &timeline, "-o", &page, "-o", &text, "-o", &pprof, "--long", "1ms"];
        run(runtime, folder.path(), &outputs, &["calls", "times"]);
        let trace: Value = serde_json::from_slice(&std::fs::read(timeline).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let calls: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let of = |name: &str| calls.iter().filter(|event| event["name"] == name).count();
        // Two more calls of Inner, of 5 and 10 ms, are as long.
        assert_eq!((of("Timed.Outer"), of("Timed.Inner"), of("Timed.Sleep"), of("Timed.Fail")), (1, 21, 20, 1));
        let [start, duration] = ["ts", "dur"].map(|field| move |event: &Value| event[field].as_f64().unwrap());
        let outer = calls.iter().find(|event| event["name"] == "Timed.Outer").unwrap();
        for inner in calls.iter().filter(|event| event["name"] == "Timed.Inner") {
            assert!(start(inner) >= start(outer) && start(inner) + duration(inner) <= start(outer) + duration(outer));
            assert!(duration(inner) >= 5000.0, "{inner}");
        }
        assert!(calls.iter().any(|event| event["name"] == "Timed.Fail" && event["args"]["threw"] == true));
        assert!(events.iter().any(|event| event["ph"] == "M" && event["name"] == "thread_name"));
        assert!(std::fs::read_to_string(page).unwrap().contains("Timed.Inner"));
        assert!(std::fs::read_to_string(text).unwrap().contains("Timed.Inner"));
        assert!(!std::fs::read(pprof).unwrap().is_empty());
    });
}
