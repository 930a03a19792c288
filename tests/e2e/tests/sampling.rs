//! Sampling instants and sums of weights: bursts, waiting threads, time on a CPU, the rate.
//!
//! `cargo xtask bench --only bursts` checks shares to two points; here the bounds suit a busy machine.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{BLOCKED, ReadBack, WAITING_FOR_CPU, array, number, report};
use remora_e2e::{
    Recorded, Recording, Runtime, Target, cpu_time, on_every_runtime, on_runtimes_at_once, scheduled, until, until_used,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The largest error of a method's share: six standard deviations of a thousand samples.
const SHARE_TOLERANCE: f64 = 0.1;
/// The largest error of a weight, compared with wall-clock time.
const CLOCK_TOLERANCE: f64 = 0.1;
/// How much a sum of weights may exceed the CPU time used.
const CPU_TOLERANCE: f64 = 0.03;
/// Samples of a running thread in a second of its CPU time, at 999 Hz: far above the 250 ticks of a kernel.
const LEAST_RATE: f64 = 400.0;
/// The share of time for which an agent thread must wait for a CPU before that explains a low rate.
const SHORT_OF_CPU: f64 = 0.1;

#[test]
fn bursts_behind_two_kinds_of_timers_have_their_shares() {
    bursts_have_their_shares(&["delay:1:-:1:Alpha*1", "sleep:2:-:1:Beta*1"]);
}

#[test]
fn bursts_on_a_tick_and_between_ticks_have_their_shares() {
    bursts_have_their_shares(&["sleep:1:0.1:1:Alpha*1", "sleep:1:3.5:1:Beta*1"]);
}

#[test]
fn short_and_long_bursts_of_one_thread_have_their_shares() {
    bursts_have_their_shares(&[
        "sleep:1:-:1:Alpha*0.2+Alpha*0.2+Alpha*0.2+Alpha*0.2+Alpha*0.2+Alpha*0.2+Alpha*0.2+Alpha*0.2+Beta*2",
    ]);
}

#[test]
fn each_waiting_thread_is_shown_for_the_whole_recording() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "parked", &["20"]);
        let before = threads_of(&target);
        let recorded = Recording::start(&target, &["--event", "wall", "--duration", "2s"]).finish();
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let duration = number(&report(&recorded.output())["duration_nanoseconds"]) as f64;
        let weight = |wanted: &dyn Fn(&[&str]) -> bool, thread: u32| {
            let id = format!(" ({thread})");
            let of_thread = read.stacks.iter().filter(|stack| stack.thread.ends_with(&id));
            of_thread.filter(|stack| wanted(&read.names(stack))).map(|stack| stack.weight).sum::<u64>() as f64
        };
        // The runtime ends surplus threads.
        let after = threads_of(&target);
        let whole: Vec<u32> = before.into_iter().filter(|thread| after.contains(thread)).collect();
        assert!(whole.len() > 20, "{whole:?}");
        for thread in whole {
            let (all, blocked) = (weight(&|_| true, thread), weight(&|names| names.last() == Some(&BLOCKED), thread));
            assert!((all - duration).abs() < duration * CLOCK_TOLERANCE, "{thread}: shown for {all} of {duration}");
            assert!(blocked > all * (1.0 - CLOCK_TOLERANCE), "{thread}: blocked for {blocked} of {all}");
        }
    });
}

#[test]
fn parked_threads_sleep_on_while_they_are_recorded() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "parked", &["20"]);
        let slices = || threads_of(&target).into_iter().map(|thread| (thread, time_slices(&target, thread))).collect();
        let before = still(&target, slices);
        let recorded = Recording::start(&target, &["--event", "wall", "--duration", "1s"]).finish();
        let after: BTreeMap<u32, u64> = slices();
        recorded.is_clean();
        let parked = parked_in(&ReadBack::of(&recorded));
        assert_eq!(parked.len(), 20, "{parked:?}");
        for thread in parked {
            assert_eq!(after.get(&thread), before.get(&thread), "{thread} got a CPU");
        }
    });
}

#[test]
fn the_last_wait_of_a_thread_counts_once() {
    on_runtimes_at_once(&Runtime::all(), |runtime| {
        let mut target = Target::start(runtime, "short_threads", &["4", "500", "sleep"]);
        // Most threads end before they are seen a second time.
        let recording = Recording::begun(&target, &["--event", "wall", "--frequency", "2"]);
        let begun = target.ask_number("count");
        until("threads have ended", || target.ask_number("count") > begun + 40);
        let recorded = recording.stop();
        recorded.is_clean();
        let longest = target.ask_number("longest");
        let read = ReadBack::of(&recorded);
        let mut lives: BTreeMap<&str, u64> = BTreeMap::new();
        // Only waits: a sample of a running thread counts for the whole interval, half a second.
        let is_wait = |names: &[&str]| names.contains(&"ShortThreads.Live(int)") && names.last() == Some(&BLOCKED);
        for stack in read.stacks.iter().filter(|stack| is_wait(&read.names(stack))) {
            *lives.entry(&stack.thread).or_default() += stack.weight / 1_000_000;
        }
        assert!(lives.len() > 10, "{lives:?}");
        // A join returns slightly before the thread has ended.
        assert!(
            lives.values().all(|milliseconds| *milliseconds <= longest + longest / 5),
            "longest: {longest}; {lives:?}"
        );
    });
}

/// The threads whose stacks lead to a method of `parked`.
fn parked_in(read: &ReadBack) -> BTreeSet<u32> {
    let is_parked = |names: &[&str]| names.iter().any(|name| name.starts_with("Parked.ForThe"));
    read.stacks.iter().filter(|stack| is_parked(&read.names(stack))).map(|stack| thread_in(&stack.thread)).collect()
}

/// The time slices of all threads, once none gets a new one: before they block, some spin and sleep for a millisecond in turns.
fn still(target: &Target, slices: impl Fn() -> BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let mut last = BTreeMap::new();
    until("all threads sleep", || {
        let before = std::mem::replace(&mut last, slices());
        std::thread::sleep(Duration::from_millis(100));
        before == last && threads_of(target).into_iter().all(|thread| target.thread_state(thread) == 'S')
    });
    last
}

#[test]
fn running_and_waiting_for_a_cpu_are_what_the_kernel_counts() {
    on_every_runtime(|runtime| {
        // Three for each CPU: most of the time most of them wait for one.
        let threads = 3 * std::thread::available_parallelism().map_or(1, usize::from);
        let target = Target::start(runtime, "busy", &[&threads.to_string()]);
        let (before, waited_before) = (cpu_time(target.pid()), waited_by_program(&target));
        let recording = Recording::begun(&target, &["--event", "wall", "--frequency", "99"]);
        let (begun, waited_begun) = (cpu_time(target.pid()), waited_by_program(&target));
        until_used(target.pid(), Duration::from_secs(5));
        let (asked, waited_asked) = (cpu_time(target.pid()), waited_by_program(&target));
        let recorded = recording.stop();
        let used = (cpu_time(target.pid()) - before).as_secs_f64();
        let most = (waited_by_program(&target) - waited_before) as f64 / 1e9;
        recorded.is_clean();
        let read = ReadBack::of(&recorded);
        let waited = read.weight_where(|names| names.contains(&WAITING_FOR_CPU)) as f64 / 1e9;
        let waited_at_least = (waited_asked - waited_begun) as f64 / 1e9;
        assert!(
            waited >= waited_at_least * 0.9 && waited <= most * 1.1,
            "waited {waited:.2} s for a CPU; the kernel counts {waited_at_least:.2} to {most:.2} s"
        );
        let running = read.weight_where(|names| names.last() != Some(&BLOCKED)) as f64 / 1e9;
        let least = (asked - begun).as_secs_f64();
        assert!(running <= used * (1.0 + CPU_TOLERANCE), "running for {running:.2} s in {used:.2} s of CPU time");
        assert!(running >= least * 0.8, "running for {running:.2} s of {least:.2} s of CPU time");
    });
}

/// Observed: with a budget for one wait in eight, 1 ms of sleep got an eighth of its time, and long waits the rest.
#[test]
fn a_budget_too_small_for_each_wait_leaves_the_shares_of_waits_right() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "waits", &["24"]);
        let before = seconds_waited(&mut target);
        let recorded =
            Recording::start(&target, &["--event", "wall", "--frequency", "999", "--duration", "5s"]).finish();
        let after = seconds_waited(&mut target);
        recorded.is_clean();
        let share = |short: f64, long: f64| short / (short + long);
        let truth = share(after[0] - before[0], after[1] - before[1]);
        let read = ReadBack::of(&recorded);
        let of = |method| read.weight_where(|names| names.contains(&method)) as f64;
        let (short, long) = (of("Waits.ShortWait()"), of("Waits.LongWait()"));
        let shown = share(short, long);
        assert!(
            (shown / truth - 1.0).abs() < 0.25,
            "{:.1} % in the short wait, not {:.1} %",
            shown * 100.0,
            truth * 100.0
        );
        let all = 24.0 * recorded_seconds(&recorded) * 1e9;
        assert!(short + long > all * 0.9 && short + long < all * 1.1, "{short} and {long} of {all}");
        assert!(notes(&recorded).iter().any(|note| note.contains("signal budget")), "{:?}", notes(&recorded));
    });
}

/// Observed: a signal arrived after a wait had ended. The thread kept that wait's stack through the next one: 1.56 s for 0.09 s.
#[test]
fn a_wait_that_the_signal_ends_does_not_count_on() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "waits", &["2", "start"]);
        let before = seconds_waited(&mut target);
        let recorded =
            Recording::start(&target, &["--event", "wall", "--frequency", "499", "--duration", "5s"]).finish();
        let after = seconds_waited(&mut target);
        recorded.is_clean();
        let shown = ReadBack::of(&recorded).weight_where(|names| names.contains(&"Waits.StartWait()")) as f64 / 1e9;
        let truth = after[0] - before[0];
        assert!(shown < truth * 1.5 + 0.1, "{shown:.2} s in the start of a program, not {truth:.2} s");
    });
}

#[test]
fn a_running_thread_gets_the_samples_that_were_asked_for() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        let before = cpu_time(target.pid());
        let recording = Recording::begun(&target, &["--frequency", "999"]);
        let (begun, waited) = (std::time::Instant::now(), waited_by_agent(&target));
        until_used(target.pid(), Duration::from_secs(3));
        let waited = (waited_by_agent(&target) - waited) as f64 / begun.elapsed().as_nanos() as f64;
        let recorded = recording.stop();
        let used = (cpu_time(target.pid()) - before).as_secs_f64();
        recorded.is_clean();
        let rate = recorded.samples() as f64 / used;
        let reported = notes(&recorded).iter().any(|note| note.contains("times a second") || note.contains("Hz"));
        // A sampler without a CPU cannot sample. Then a note must report that.
        assert!(
            rate >= LEAST_RATE || (waited >= SHORT_OF_CPU && reported),
            "{rate:.0} samples a second of CPU time; the agent waited for a CPU for {:.1} % of the time; told: {reported}",
            waited * 100.0
        );
        assert!(rate <= 999.0 * 1.1, "{rate:.0} samples a second of CPU time are more than was asked for");
    });
}

/// The runtime's sampler visits a sleeping thread, too. What it found there was left out, and the time charged to the next burst.
#[test]
fn regression_the_runtimes_sampler_charged_the_sleep_before_a_burst_to_the_burst() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "bursts", &["sleep:95:-:1:Alpha*5"]);
        target.ask("reset");
        let recorded = Recording::start(&target, &["--engine", "eventpipe", "--duration", "3s"]).finish();
        let used = target.ask("nanoseconds");
        recorded.is_clean();
        let used: f64 = used.split(' ').find_map(|word| word.strip_prefix("Alpha=")).unwrap().parse().unwrap();
        if runtime.major() == 9 {
            // It marks no sample as managed code, and the recording says so.
            let notes = notes(&recorded);
            assert!(notes.iter().any(|note| note.contains("outside managed code")), "{notes:?}");
            return;
        }
        let (shown, whole) = (
            ReadBack::of(&recorded).weight_under("Bursts.Alpha(long, long)") as f64 / 1e9,
            recorded_seconds(&recorded),
        );
        // It counts the waits for a CPU within a burst, too; bursts are a twentieth of the time. They go on before and after the recording.
        assert!(
            shown >= used / 1e9 / 3.0 && shown <= whole / 2.0,
            "{shown:.2} s of {whole:.2} s; {used:.0} ns in truth"
        );
    });
}

#[test]
fn a_target_that_may_not_open_perf_events_is_sampled_all_the_same() {
    has_its_shares(&mut filtered("bursts", &["delay:1:-:1:Alpha*1", "sleep:2:-:1:Beta*1"]));
}

#[test]
fn parked_methods_are_shown_where_the_kernel_refuses_process_vm_readv() {
    let target = filtered("parked", &["20"]);
    let recorded = Recording::start(&target, &["--event", "wall", "--duration", "1s"]).finish();
    recorded.is_clean();
    assert_eq!(parked_in(&ReadBack::of(&recorded)).len(), 20);
}

/// A program behind a seccomp filter like those of container engines.
fn filtered(name: &str, arguments: &[&str]) -> Target {
    let mut command = std::process::Command::new(remora_e2e::native("filtered"));
    command.arg(Runtime::newest().launcher()).arg(Target::assembly(name)).args(arguments);
    remora_e2e::Start::of(command, &format!("{name} behind a filter")).ready()
}

fn bursts_have_their_shares(actors: &[&str]) {
    on_every_runtime(|runtime| has_its_shares(&mut Target::start(runtime, "bursts", actors)));
}

/// Alpha and Beta have the shares that their threads' clocks report.
#[track_caller]
fn has_its_shares(target: &mut Target) {
    let mut recording = Recording::start(target, &["--frequency", "999"]);
    recording.wait_until_it_samples();
    target.ask("reset");
    until_used(target.pid(), Duration::from_secs(3));
    let answer = target.ask("shares");
    let recorded = recording.stop();
    recorded.is_clean();
    let read = ReadBack::of(&recorded);
    let weight = |method: &str| read.weight_under(&format!("Bursts.{method}(long, long)")) as f64;
    let (alpha, beta) = (weight("Alpha"), weight("Beta"));
    let truth: f64 = answer.split(' ').find_map(|word| word.strip_prefix("Alpha=")).unwrap().parse().unwrap();
    let share = alpha / (alpha + beta);
    assert!(
        (share - truth).abs() < SHARE_TOLERANCE,
        "Alpha: {share:.3} of {} samples, {truth:.3} in truth",
        recorded.samples()
    );
}

/// The id in a thread's title, which ends with it in parentheses.
fn thread_in(title: &str) -> u32 {
    let (_, id) = title.rsplit_once('(').unwrap();
    id.trim_end_matches(')').parse().unwrap()
}

/// The scheduler's count of a thread's time slices; 0 for an ended one.
fn time_slices(target: &Target, thread: u32) -> u64 {
    let path = format!("/proc/{}/task/{thread}/schedstat", target.pid());
    std::fs::read_to_string(path).map_or(0, |text| text.split_ascii_whitespace().nth(2).unwrap().parse().unwrap())
}

/// All threads of the target.
fn threads_of(target: &Target) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().flatten();
    tasks.map(|task| task.file_name().to_string_lossy().parse().unwrap()).collect()
}

/// Nanoseconds for which threads of the agent waited for a CPU, ready to run.
fn waited_by_agent(target: &Target) -> u64 {
    scheduled(target.pid(), 1, |name| name.starts_with("remora"))
}

/// The same of all other threads.
fn waited_by_program(target: &Target) -> u64 {
    scheduled(target.pid(), 1, |name| !name.starts_with("remora"))
}

fn notes(recorded: &Recorded) -> Vec<String> {
    let json = recorded.finished.json();
    array(&json["recording"]["notes"]).iter().filter_map(|note| note.as_str().map(str::to_owned)).collect()
}

fn recorded_seconds(recorded: &Recorded) -> f64 {
    number(&report(&recorded.output())["duration_nanoseconds"]) as f64 / 1e9
}

/// Seconds in the short wait and in the long one, by the program's own clock.
fn seconds_waited(target: &mut Target) -> Vec<f64> {
    target.ask("waited").split(' ').map(|seconds| seconds.parse().unwrap()).collect()
}
