//! A killed command that was the main profiler: nothing repairs the runtime's count then, until the next Remora command.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{
    Facts, ForeignProfiler, HeldCopy, Kind, Recording, Remora, Runtime, Start, Target, on_every_runtime, on_runtimes,
    remora, until,
};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// Longer than any test, which ends it before.
const LONG: &str = "1h";

/// First version that counts profilers beside the main one.
const FIRST_WITH_COUNT: u32 = 6;

/// Exit code of `remora`, from docs/reference/exit-codes.md.
const UNCLEAN: i32 = 40;

fn program(runtime: &Runtime) -> Target {
    let mut target = Start::managed(runtime, "generations").ready();
    goes_on(&mut target);
    target
}

/// It allocates, drops and collects as before.
fn goes_on(target: &mut Target) {
    for deed in ["make node 1000", "waste pair 20000", "collect 1", "drop node 1000", "collect 2"] {
        assert_eq!(target.ask(deed), "done", "{deed}");
    }
    assert!(target.is_alive());
}

/// Kills a watch after its start.
fn kill_a_watch(target: &mut Target) {
    let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG]);
    command.wait_until_it_says("watching generations");
    assert_eq!(target.ask("collect 1"), "done");
    command.signal(Signal::KILL);
    drop(command);
}

/// Kills a snapshot with roots while the copy exists.
fn kill_one_with_roots(target: &mut Target) {
    assert_eq!(target.ask("make node 2000000"), "done");
    let folder = remora_e2e::folder();
    let file = folder.path().join("killed.remora-heap");
    let process = target.pid().to_string();
    let mut command = Remora::start(["heap", "-p", &process, "--roots", "-o", &file.display().to_string()]);
    let copy = HeldCopy::of(target, &command);
    assert!(command.is_alive());
    command.signal(Signal::KILL);
    drop(command);
    copy.go_on();
    assert_eq!(target.ask("drop node 2000000"), "done");
}

/// Waits until the killed command's agent has detached by itself and left nothing.
fn nothing_is_in_it(target: &Target) {
    until("the agent and its copy have gone", || {
        let facts = Facts::of(target.pid());
        facts.remora().is_empty() && facts.children.is_empty()
    });
    let process = target.pid().to_string();
    let shown = remora(["detach", "-p", &process]).succeeded().text();
    assert!(shown.contains(&format!("nothing of Remora is in process {process}")), "{shown}");
    assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
    let shown = remora(["check", "-p", &process, "--json"]).succeeded().json();
    assert_eq!((&shown["engine"], own_agent(&shown)), (&"agent".into(), "not loaded"), "{shown:#}");
}

fn own_agent(check: &Value) -> &str {
    let checks = check["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == "remora's agent").unwrap()["found"].as_str().unwrap()
}

fn snapshot(target: &Target, folder: &Path) -> remora_e2e::Finished {
    let file = folder.join("next.remora-heap").display().to_string();
    remora(["heap", "-p", &target.pid().to_string(), "--json", "--force", "-o", &file])
}

/// The mapped libraries that stay on purpose.
fn staying(target: &Target) -> Vec<String> {
    Facts::of(target.pid()).remora().into_iter().filter(|ours| ours.contains("-stays.so")).collect()
}

/// `count` inert libraries stay. `detach` names them, but exits with 0: nothing can remove them.
#[track_caller]
fn only_what_stays_is_in_it(target: &Target, count: usize) {
    let process = target.pid().to_string();
    assert_eq!((staying(target).len(), Facts::of(target.pid()).remora().len()), (count, count));
    let finished = remora(["detach", "-p", &process, "--json"]).succeeded();
    let shown = finished.json();
    let stays = shown["stays"].as_array().unwrap();
    assert!(stays.len() == count && stays.iter().all(|path| path.to_string().contains("-stays.so")), "{shown:#}");
    assert_eq!((&shown["clean"], &shown["left"]), (&true.into(), &Value::Array(vec![])), "{shown:#}");
    let shown = remora(["detach", "-p", &process]).succeeded().text();
    let last = format!("nothing else of Remora is in process {process}");
    assert!(shown.contains("it does nothing") && shown.lines().last() == Some(&last), "{shown}");
    let shown = remora(["check", "-p", &process, "--json"]).succeeded().json();
    assert_eq!(
        (&shown["engine"], own_agent(&shown)),
        (&"agent".into(), "an earlier one is mapped and inert"),
        "{shown:#}"
    );
}

/// The next attach works normally. On .NET 6 and later it makes a library stay for each killed command, and reports that.
#[track_caller]
fn the_next_works(runtime: &Runtime, target: &mut Target, killed: usize) {
    let folder = remora_e2e::folder();
    let counts = runtime.major() >= FIRST_WITH_COUNT;
    let first = snapshot(target, folder.path());
    assert_eq!(first.code(), if counts { UNCLEAN } else { 0 }, "{first}");
    let shown = first.json();
    assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &(!counts).into()), "{shown:#}");
    let left = shown["receipt"]["left"].as_array().unwrap();
    let mapped: Vec<&Value> = left.iter().filter(|left| left["kind"] == "mapping").collect();
    assert_eq!(mapped.len(), if counts { killed } else { 0 }, "{left:#?}");
    for left in mapped {
        let (what, why) = (left["what"].to_string(), left["why"].to_string());
        assert!(what.contains("-stays.so") && why.contains("a main profiler had left before"), "{left:#}");
    }
    goes_on(target);
    if counts {
        only_what_stays_is_in_it(target, killed);
    } else {
        nothing_is_in_it(target);
    }
    // From now on everything is normal again.
    Recording::of(target, &["--event", "wall"]).is_clean();
    let again = snapshot(target, folder.path()).succeeded().json();
    assert_eq!((&again["complete"], &again["receipt"]["clean"]), (&true.into(), &true.into()), "{again:#}");
    assert_eq!(staying(target).len(), if counts { killed } else { 0 });
    goes_on(target);
}

/// Another vendor's profiler gets callbacks, and detaches without harm.
fn the_runtime_counts_right(runtime: &Runtime, target: &mut Target) {
    if runtime.major() < FIRST_WITH_COUNT {
        return;
    }
    let mut other = ForeignProfiler::attach(target, Kind::NotificationOnly).unwrap();
    other.collect().unwrap();
    let counts = other.counts();
    assert!(counts.attached && counts.finished >= 3, "{counts:?}");
    other.detach().unwrap();
    goes_on(target);
}

/// Kills `times` commands in this way, one after another; then runs the next one.
fn after(runtime: &Runtime, kill: fn(&mut Target), times: usize) {
    let mut target = program(runtime);
    let bells = bells(&target);
    for _ in 0..times {
        kill(&mut target);
        nothing_is_in_it(&target);
        let left = Facts::of(target.pid()).remora();
        holds!(DET_16 clr rem, left == Vec::<String>::new(), "the agent detaches when its command is killed");
        goes_on(&mut target);
    }
    the_next_works(runtime, &mut target, times);
    until("what stays has closed what woke it", || self::bells(&target) == bells);
    the_runtime_counts_right(runtime, &mut target);
}

/// Descriptors that wake an agent's thread.
fn bells(target: &Target) -> usize {
    Facts::of(target.pid()).descriptors.values().filter(|name| name.contains("[eventfd]")).count()
}

/// Without a wait in between, the first agent still has the runtime's only slot, or appears in a receipt.
#[test]
fn a_snapshot_right_after_one_that_was_killed_waits_until_that_has_left() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime);
        assert_eq!(target.ask("make node 2000000"), "done");
        let folder = remora_e2e::folder();
        let file = folder.path().join("killed.remora-heap").display().to_string();
        let command = Remora::start(["heap", "-p", &target.pid().to_string(), "-o", &file]);
        let copy = HeldCopy::of(&target, &command);
        command.signal(Signal::KILL);
        drop(command);
        copy.go_on();
        let next = snapshot(&target, folder.path()).succeeded().json();
        assert_eq!((&next["complete"], &next["receipt"]["clean"]), (&true.into(), &true.into()), "{next:#}");
        goes_on(&mut target);
    });
}

#[test]
fn det_16_after_a_watch_that_was_killed_the_next_command_works_and_says_what_stays() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| after(runtime, kill_a_watch, 1));
}

#[test]
fn det_16_after_a_snapshot_with_roots_that_was_killed_the_next_command_works_and_says_what_stays() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| after(runtime, kill_one_with_roots, 1));
}

#[test]
fn for_each_that_was_killed_something_stays_and_no_command_fails() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| after(runtime, kill_a_watch, 2));
}

/// A main profiler repairs the effect of its own detach, and notices that more is wrong.
#[test]
fn det_14_a_snapshot_with_roots_after_a_watch_that_was_killed_leaves_the_count_right_and_says_what_stays() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| {
        let mut target = program(runtime);
        kill_a_watch(&mut target);
        nothing_is_in_it(&target);
        let folder = remora_e2e::folder();
        let file = folder.path().join("roots.remora-heap").display().to_string();
        let process = target.pid().to_string();
        let taken = remora(["heap", "-p", &process, "--roots", "--json", "-o", &file]);
        assert_eq!(taken.code(), UNCLEAN, "{taken}");
        let shown = taken.json();
        let mapped = |rows: &str| -> Vec<String> {
            let rows = shown["receipt"][rows].as_array().unwrap().iter();
            rows.filter(|row| row["kind"] == "mapping").map(|row| row["why"].to_string()).collect()
        };
        let (left, allowed) = (mapped("left"), mapped("allowed"));
        assert!(matches!(&left[..], [why] if why.contains("a main profiler had left before")), "{shown:#}");
        assert!(matches!(&allowed[..], [why] if why.contains("as announced")), "{shown:#}");
        only_what_stays_is_in_it(&target, 2);
        the_runtime_counts_right(runtime, &mut target);
        let again = remora(["heap", "-p", &process, "--roots", "--force", "--json", "-o", &file]).succeeded();
        holds!(DET_14 rem, again.json()["receipt"]["clean"] == true, "{again}");
        only_what_stays_is_in_it(&target, 3);
    });
}

/// There a process has one profiler at a time, and no count.
#[test]
fn det_16_where_one_profiler_comes_at_a_time_nothing_stays_of_those_that_were_killed() {
    on_runtimes(&[Runtime::major_is(3)], |runtime| {
        after(runtime, kill_a_watch, 2);
        after(runtime, kill_one_with_roots, 1);
    });
}

/// `detach` names the libraries that `--roots` and `--watch` leave, without failing.
#[test]
fn det_14_what_stays_as_was_said_beforehand_is_named_by_detach() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime);
        let folder = remora_e2e::folder();
        let process = target.pid().to_string();
        let file = folder.path().join("roots.remora-heap").display().to_string();
        for count in 1..=2 {
            remora(["heap", "-p", &process, "--roots", "--force", "-o", &file]).succeeded();
            match runtime.major() >= FIRST_WITH_COUNT {
                true => only_what_stays_is_in_it(&target, count),
                false => nothing_is_in_it(&target),
            }
        }
        let left = Facts::of(target.pid()).remora();
        holds!(DET_14 clr rem, left == staying(&target), "only the libraries that were announced");
        goes_on(&mut target);
    });
}
