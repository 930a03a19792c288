//! Recordings of programs with known behaviour: shares, weights, states, names, and the loss counts.
//!
//! The kernel's own accounting of the target verifies weights, which are read back through another format than the recorded one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/recorded.rs"]
mod recorded;

use recorded::{recorded_while_it_uses, target_is_well};
use remora_e2e::read_back::{BLOCKED, ReadBack, WAITING_FOR_CPU, array, converted, number, report};
use remora_e2e::recording::{LOST_TRANSPORT_FULL, WALKED};
use remora_e2e::{Recorded, Recording, Runtime, Start, Target, cpu_time, on_every_runtime, scheduled, until_used};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// Samples of equal weight for a sufficiently precise share: the tolerance is more than four standard deviations, since all tests
/// together check a dozen programs.
const ENOUGH: f64 = 3500.0;
/// Tolerance for a share.
const SHARE_TOLERANCE: f64 = 0.035;
/// Tolerance for a sum of weights, compared with the kernel's account.
const WEIGHT_TOLERANCE: f64 = 0.05;

#[test]
fn shares_are_true_at_a_period_far_below_the_interval() {
    shares_are_true("0.5");
}

#[test]
fn shares_are_true_at_a_period_next_to_the_asked_interval() {
    shares_are_true("1.001");
}

#[test]
fn shares_are_true_at_a_period_that_is_the_interval_of_signals() {
    shares_are_true("4");
}

#[test]
fn half_in_system_calls_is_seen_without_any_privilege() {
    on_every_runtime(|runtime| {
        let assembly = Target::assembly("syscalls");
        let mut target = Start::of(unprivileged(&runtime.launcher(), &[assembly.as_os_str()]), "syscalls").ready();
        assert!(!may_look_into_the_kernel(target.pid()));
        target.ask("reset");
        let mut recording = Recording::by(unprivileged_remora(), &target, &["--frequency", "1000"]);
        recording.wait_until_it_samples();
        assert!(!may_look_into_the_kernel(recording.remora().pid()));
        // About 2,000 samples: five points are more than four standard deviations.
        until_used(target.pid(), Duration::from_secs(8));
        let recorded = recording.stop();
        let truth = shares_of(&target.ask("shares"));
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let managed = read.weight_under("Syscalls.InManagedCode(long)");
        let turns =
            |names: &[&str]| names.contains(&"Syscalls.Turn(int, long, long)") && !names.contains(&"Syscalls.Now()");
        let kernel = read.weight_where(turns) - managed;
        let share = kernel as f64 / (kernel + managed) as f64;
        let wanted = truth["InSystemCalls"];
        assert!(recorded.samples() > 1500, "{}", recorded.finished);
        assert!((share - wanted).abs() < 0.05, "in system calls: {share:.3} of the weights, {wanted:.3} in truth");
        assert!((0.3..0.7).contains(&share), "neither side may be missing: {share:.3}");
    });
}

#[test]
fn weights_add_up_to_the_processor_time_of_the_target() {
    on_every_runtime(|runtime| {
        for (program, arguments) in [("busy", "2"), ("gc", "1")] {
            let target = Target::start(runtime, program, &[arguments]);
            let before = cpu_time(target.pid());
            let recording = Recording::begun(&target, &["--frequency", "500"]);
            let begun = cpu_time(target.pid());
            until_used(target.pid(), Duration::from_secs(3));
            let asked = cpu_time(target.pid());
            let recorded = recording.stop();
            let after = cpu_time(target.pid());
            recorded.is_clean();
            // The exact start and end are not visible from outside: at least the time between the handshakes, at most the time around
            // them.
            let weight = ReadBack::of(&recorded).weight() as f64;
            let (least, most) = ((asked - begun).as_nanos() as f64, (after - before).as_nanos() as f64);
            assert!(weight >= least * (1.0 - WEIGHT_TOLERANCE), "{program}: {weight} is less than {least}");
            assert!(weight <= most * (1.0 + WEIGHT_TOLERANCE), "{program}: {weight} is more than {most}");
            assert_eq!(weight as u64, number(&report(&recorded.output())["weight_nanoseconds"]));
        }
    });
}

#[test]
fn the_caller_of_a_frameless_leaf_is_put_back() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "shares", &["1"]);
        let recorded = recorded_while_it_uses(&target, 1500, &["--frequency", "500"]);
        let read = ReadBack::of(&recorded);
        for leaf in ["Shares.Alpha(long)", "Shares.Beta(long)", "Shares.Gamma(long)"] {
            let all = read.weight_in(leaf);
            let called = read.weight_where(|names| names.ends_with(&["Shares.Cycle()", leaf]));
            assert!(all > 0, "{leaf} was never met");
            assert!(called as f64 >= all as f64 * 0.99, "{leaf}: its caller is there in {called} of {all}");
        }
        let target = Target::start(runtime, "busy", &["1"]);
        let recorded = recorded_while_it_uses(&target, 1000, &["--frequency", "500"]);
        let read = ReadBack::of(&recorded);
        let all = read.weight_in("Busy.Inner(uint)");
        let called = read.weight_where(|names| names.ends_with(&["Busy.Outer(uint)", "Busy.Inner(uint)"]));
        assert!(all > 0 && called as f64 >= all as f64 * 0.99, "Outer calls Inner in {called} of {all}");

        // A loop that was recompiled while running has replaced the frame of its old code: no word of that frame is a caller.
        let target = Target::start(runtime, "named_threads", &[]);
        let recorded = recorded_while_it_uses(&target, 500, &["--frequency", "200"]);
        let read = ReadBack::of(&recorded);
        let all = read.weight_in("NamedThreads.Work()");
        let made_up = read.weight_where(|names| names.ends_with(&["[unknown]", "NamedThreads.Work()"]));
        assert!(all > 0 && made_up as f64 <= all as f64 * 0.01, "an unknown caller in {made_up} of {all}");
    });
}

#[test]
fn wall_marks_waiting_and_weighs_each_thread_by_the_clock() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "threads", &["20", "1"]);
        assert_eq!(target.ask("threads"), "20 1");
        let recorded = record(&target, &["--event", "wall", "--duration", "3s"]);
        let read = ReadBack::of(&recorded);
        let waits = |method: &str| {
            let all = read.weight_under(method);
            let blocked = read.weight_where(|names| {
                names.contains(&method) && names.last() == Some(&BLOCKED) && !names.contains(&WAITING_FOR_CPU)
            });
            assert!(all > 0, "{method} was never met");
            blocked as f64 / all as f64
        };
        assert!(waits("Threads.BeBusy()") < 0.1, "it works: {}", waits("Threads.BeBusy()"));
        assert!(waits("Threads.Nap()") > 0.9, "it sleeps: {}", waits("Threads.Nap()"));
        assert!(waits("Threads.WaitForTheGate()") > 0.9, "it waits: {}", waits("Threads.WaitForTheGate()"));

        let summed = report(&recorded.output());
        let duration = number(&summed["duration_nanoseconds"]) as f64;
        let mut by_thread: BTreeMap<&str, u64> = BTreeMap::new();
        for stack in &read.stacks {
            *by_thread.entry(&stack.thread).or_default() += stack.weight;
        }
        let whole = by_thread.values().filter(|weight| (**weight as f64 - duration).abs() < duration * 0.1).count();
        assert!(whole >= 21, "{whole} threads weigh about {duration}: {by_thread:?}");
        assert!(
            by_thread.values().all(|weight| *weight as f64 <= duration * 1.1),
            "more than the clock: {by_thread:?}"
        );
        for (method, count) in [("Threads.BeBusy()", 1), ("Threads.Nap()", 9), ("Threads.WaitForTheGate()", 10)] {
            let weight = read.weight_under(method) as f64 / count as f64;
            assert!((weight - duration).abs() < duration * 0.1, "{method}: {weight} a thread in {duration}");
        }
        assert!(loss(&recorded, "repeated_stacks") > 0, "threads that never ran are repeated, not signalled");
    });
}

#[test]
fn wall_says_at_which_rate_it_really_sampled() {
    let target = Target::start(&Runtime::newest(), "threads", &["300", "1"]);
    let recorded = record(&target, &["--event", "wall", "--frequency", "99", "--duration", "2s"]);
    let shown = array(&recorded.finished.json()["recording"]["notes"])
        .iter()
        .any(|note| note.as_str().is_some_and(|note| note.contains("times a second") || note.contains("Hz")));
    assert!(shown, "99 times a second for each of 300 threads is beyond the budget: {}", recorded.finished);
}

#[test]
fn wall_keeps_to_the_budget_of_signals_that_was_asked_for() {
    const BUDGET: u64 = 200;
    on_every_runtime(|runtime| {
        // 200 threads wake ten times a second, which without this budget causes 2,000 stack walks a second.
        let target = Target::start(runtime, "threads", &["400", "1"]);
        let budget = BUDGET.to_string();
        let recording =
            Recording::begun(&target, &["--event", "wall", "--frequency", "99", "--signal-budget", &budget]);
        // The time starts before the first count and ends after the second: a busy machine lowers the rate, never raises it.
        let begun = Instant::now();
        let before = recording.counter(WALKED);
        remora_e2e::until("the budget is used up several times", || recording.counter(WALKED) > before + 4 * BUDGET);
        let walks = recording.counter(WALKED) - before;
        let seconds = begun.elapsed().as_secs_f64();
        let recorded = recording.stop();
        recorded.is_clean();
        let rate = walks as f64 / seconds;
        // A round is charged after it was made: one that starts just before the end counts in full.
        let most = BUDGET as f64 + 400.0 / seconds;
        assert!(rate <= most, "{walks} walks in {seconds:.2} s are {rate:.0} a second");
        assert!(loss(&recorded, "repeated_stacks") > 0);
    });
}

#[test]
fn an_idle_target_is_reported_as_such_and_the_clock_proposed() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "idle", &[]);
        let recorded = record(&target, &["--event", "wall", "--duration", "3s"]);
        let read = ReadBack::of(&recorded);
        let waits = read.weight_under("Idle.Main()");
        assert!(waits > 0, "it waits in Main, and that is seen by the clock");
        let blocked = read.weight_where(|names| names.contains(&"Idle.Main()") && names.last() == Some(&BLOCKED));
        // The rest is the time in which it answered this test.
        assert!(blocked > waits / 10 * 9, "blocked for {blocked} of {waits}");

        // By now the runtime has finished its work after startup and the first attach.
        let folder = remora_e2e::folder();
        let output = folder.path().join("idle.folded");
        let pid = target.pid().to_string();
        let arguments = ["record", "-p", &pid, "-d", "3s", "-o", &output.to_string_lossy()];
        let text = remora_e2e::remora(arguments).succeeded().text();
        assert!(text.contains("hint: the process used 0.") && text.contains("-e wall"), "{text}");
        assert_eq!(target.ask("count"), "idle");
    });
}

#[test]
fn threads_born_during_the_recording_are_sampled() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "short_threads", &["2", "200"]);
        let recording = Recording::begun(&target, &["--frequency", "500"]);
        // All threads from the start have ended by now, and so have their successors.
        let begun = target.ask_number("count");
        remora_e2e::until("threads are born and have ended", || target.ask_number("count") > begun + 12);
        let recorded = recording.stop();
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let lived = |stack: &&remora_e2e::read_back::Stack| read.names(stack).contains(&"ShortThreads.Live(int)");
        let threads: std::collections::BTreeSet<&str> =
            read.stacks.iter().filter(lived).map(|stack| stack.thread.as_str()).collect();
        assert!(threads.len() > 8, "of 12 and more threads, {} were met: {threads:?}", threads.len());
        if runtime.major() >= 6 {
            let named = threads.iter().filter(|thread| thread.starts_with("short-lived (")).count();
            assert!(named > 8, "they name themselves after their birth: {threads:?}");
        }
    });
}

#[test]
fn threads_are_called_as_in_the_program() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "named_threads", &[]);
        let recording = Recording::begun(&target, &["--frequency", "500"]);
        assert!(target.ask("late").ends_with("late-name"));
        until_used(target.pid(), Duration::from_secs(2));
        let recorded = recording.stop();
        recorded.is_clean();
        let summed = report(&recorded.output());
        let names: Vec<&str> =
            array(&summed["parts"][0]["threads"]).iter().filter_map(|thread| thread["name"].as_str()).collect();
        // .NET Core 3.1 does not set thread names in the system.
        if runtime.major() >= 6 {
            for name in ["plain", "a name that is ", "名前のある", "late-name"] {
                assert!(names.contains(&name), "{name} is missing in {names:?}");
            }
        }
    });
}

#[test]
fn a_deep_stack_is_cut_marked_and_counted() {
    on_every_runtime(|runtime| {
        for (depth, cut) in [("40", false), ("2000", true)] {
            let target = Target::start(runtime, "deep", &[depth]);
            let recorded = recorded_while_it_uses(&target, 500, &["--frequency", "200"]);
            let read = ReadBack::of(&recorded);
            let (bottom, marked) =
                (read.weight_in("Deep.Bottom()"), read.weight_where(|names| names[0] == "[truncated]"));
            assert!(bottom > 0);
            let counted = loss(&recorded, "truncated_stacks");
            if cut {
                assert!(marked >= bottom, "{marked} of {bottom} are marked");
                assert!(counted > 0 && counted <= recorded.samples(), "{counted}");
                let deepest = read.stacks.iter().map(|stack| stack.frames.len()).max().unwrap_or(0);
                assert!(deepest > 400, "what is kept is worth it: {deepest}");
            } else {
                assert_eq!((marked, counted), (0, 0));
                let whole = read.stacks.iter().filter(|stack| {
                    read.names(stack).iter().filter(|name| name.starts_with("Deep.Descend(int")).count() == 41
                });
                assert!(whole.count() > 0, "a stack of 40 calls and the first has 41 of them");
            }
        }
    });
}

#[test]
fn taken_is_delivered_and_lost_to_the_sample() {
    on_every_runtime(|runtime| {
        for (program, arguments, event, frequency) in [
            ("busy", &["2"][..], "cpu", "10000"),
            ("threads", &["100", "2"], "wall", "10000"),
            ("short_threads", &["2", "3"], "cpu", "10000"),
            ("short_threads", &["2", "3"], "wall", "1000"),
            ("gc", &["2"], "wall", "1000"),
        ] {
            let target = Target::start(runtime, program, arguments);
            let recorded = record(&target, &["--event", event, "--frequency", frequency, "--duration", "1s"]);
            let account = adds_up(&recorded);
            assert!(account.delivered > 0, "{program}, {event}: {account:?}");
        }
    });
}

#[test]
fn what_is_lost_while_nobody_takes_it_is_counted() {
    on_every_runtime(|runtime| {
        // Each stack has about 500 words: the ring between the two processes is full after 2,000 of them.
        let mut target = Target::start(runtime, "deep", &["2000"]);
        let mut recording = Recording::begun(&target, &["--frequency", "1000"]);
        recording.wait_until_it_is_spooled();
        recording.remora().signal(rustix::process::Signal::STOP);
        remora_e2e::until("something is lost", || recording.counter(LOST_TRANSPORT_FULL) > 10);
        recording.remora().signal(rustix::process::Signal::CONT);
        let recorded = recording.stop();
        recorded.is_clean();
        let account = adds_up(&recorded);
        assert!(account.lost > 10, "{account:?}: {}", recorded.finished);
        assert!(
            recorded.finished.json()["recording"]["loss"]["lost"].to_string().contains("transport-full"),
            "{}",
            recorded.finished
        );
        // Not only in JSON: the text report and every other format show the loss.
        let shown =
            remora_e2e::remora([std::ffi::OsStr::new("report"), recorded.output().as_os_str()]).succeeded().text();
        assert!(shown.contains("lost") && shown.contains("did not keep up"), "{shown}");
        let folded = remora_e2e::read_back::converted(&recorded.output(), "a.folded");
        assert!(std::fs::read_to_string(folded).unwrap().contains("[lost];"));
        target_is_well(&mut target);
    });
}

#[test]
fn the_lowest_and_the_highest_frequency_weigh_the_same() {
    on_every_runtime(|runtime| {
        for (frequency, seconds) in [("1", 4), ("10000", 1)] {
            let target = Target::start(runtime, "busy", &["1"]);
            let before = cpu_time(target.pid());
            let recording = Recording::begun(&target, &["--frequency", frequency]);
            let begun = cpu_time(target.pid());
            until_used(target.pid(), Duration::from_secs(seconds));
            // At 10,000 Hz the agent can use more CPU time than the program.
            let agent = scheduled(target.pid(), 0, |name| name.starts_with("remora")) as f64 / 1e9;
            let least = (cpu_time(target.pid()) - begun).as_secs_f64() - agent;
            let recorded = recording.stop();
            // The detach can take seconds, in which the program continues.
            let used = (cpu_time(target.pid()) - before).as_secs_f64();
            recorded.ended_with(0);
            assert_eq!(recorded.receipt["clean"], true, "{frequency} Hz: {}", recorded.finished);
            let weight = ReadBack::of(&recorded).weight() as f64 / 1e9;
            // On a busy machine, all of the few instants can find the thread waiting for a CPU. Then a note reports the time.
            let recording = &recorded.finished.json()["recording"];
            let is_reported = frequency == "1" && recording["notes"].to_string().contains("are in no sample");
            assert!(
                weight <= used * 1.05 && (weight > least - 0.5 || is_reported),
                "{frequency} Hz: {weight} of {least} to {used}: {recording}"
            );
            assert_eq!(recording["frequency"].to_string(), frequency);
        }
    });
}

/// The counts of samples.
#[derive(Debug)]
struct Account {
    taken: u64,
    delivered: u64,
    lost: u64,
}

/// The counts, verified: in the command's output, in the file, and against the actual samples.
#[track_caller]
fn adds_up(recorded: &Recorded) -> Account {
    let read = |summed: &Value| {
        let loss = &summed["loss"];
        let lost = array(&loss["lost"]).iter().map(|lost| number(&lost["samples"])).sum();
        Account { taken: number(&loss["taken"]), delivered: number(&loss["delivered"]), lost }
    };
    let shown = recorded.finished.json();
    let account = read(&shown["recording"]);
    assert_eq!(account.taken, account.delivered + account.lost, "{account:?}");
    // The target is alive: its end cannot explain a missing sample, and none may be unexplained.
    for cause in ["target-ended", "unaccounted"] {
        let lost = shown["recording"]["loss"]["lost"].to_string();
        assert!(!lost.contains(cause), "{account:?}: {lost}");
    }
    assert_eq!(account.delivered, recorded.samples(), "{account:?}");
    let kept = report(&recorded.output());
    assert_eq!(kept["loss"], shown["recording"]["loss"]);
    assert_eq!(number(&kept["samples"]), account.delivered);
    let by_thread: u64 = array(&kept["parts"][0]["threads"]).iter().map(|thread| number(&thread["samples"])).sum();
    assert_eq!(by_thread, account.delivered);
    account
}

#[track_caller]
fn loss(recorded: &Recorded, what: &str) -> u64 {
    number(&recorded.finished.json()["recording"]["loss"][what])
}

#[track_caller]
fn record(target: &Target, arguments: &[&str]) -> Recorded {
    let recorded = Recording::start(target, arguments).finish();
    recorded.is_clean();
    recorded
}

/// Records until there are enough samples, and compares with the program's own measurement.
fn shares_are_true(period: &str) {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "shares", &[period]);
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        let mut samples = 0.0;
        target.ask("reset");
        while samples < ENOUGH {
            let recorded = recorded_while_it_uses(&target, 4000, &["--frequency", "999"]);
            samples += equal_samples(&recorded);
            let read = ReadBack::of(&recorded);
            for name in ["Alpha", "Beta", "Gamma"] {
                *seen.entry(name).or_default() += read.weight_in(&format!("Shares.{name}(long)"));
            }
        }
        let truth = shares_of(&target.ask("shares"));
        let all: u64 = seen.values().sum();
        for (name, weight) in seen {
            let (share, wanted) = (weight as f64 / all as f64, truth[name]);
            assert!(
                (share - wanted).abs() < SHARE_TOLERANCE,
                "{name}: {share:.4} of {samples:.0} samples, {wanted:.4} in truth"
            );
        }
    });
}

/// The number of equal-weight samples with the same precision: on a busy machine, samples have different weights.
fn equal_samples(recorded: &Recorded) -> f64 {
    let packed = converted(&recorded.output(), "weights.firefox.json.gz");
    let unpacked = Command::new("gzip").arg("-dc").arg(packed).output().unwrap();
    let file: Value = serde_json::from_slice(&unpacked.stdout).unwrap();
    let threads = array(&file["threads"]).iter();
    let weights: Vec<f64> =
        threads.flat_map(|thread| array(&thread["samples"]["weight"])).filter_map(Value::as_f64).collect();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    weights.iter().sum::<f64>().powi(2) / squares
}

/// `Alpha=0.5 Beta=0.3` as numbers.
fn shares_of(answer: &str) -> BTreeMap<String, f64> {
    let pairs = answer.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, share)| (name.to_owned(), share.parse().unwrap())).collect()
}

/// A command that runs without root's capabilities, but as the same user, so that every file remains accessible.
fn unprivileged(program: &std::path::Path, arguments: &[&std::ffi::OsStr]) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments);
    command
}

fn unprivileged_remora() -> Command {
    unprivileged(std::path::Path::new(remora_e2e::Remora::command().get_program()), &[])
}

/// Whether the process has any capability.
fn may_look_into_the_kernel(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    effective.trim().bytes().any(|digit| digit != b'0')
}
