//! An application that uses signals: its own remain unchanged, Remora takes another one, and signals disturb neither.
#![forbid(unsafe_code)]

use remora_e2e::read_back::ReadBack;
use remora_e2e::{
    Facts, ForeignProfiler, Kind, Recording, Runtime, Start, Target, cpu_time, native, on_every_runtime, on_runtimes,
    until, until_used,
};
use remora_holds::holds;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Ways to sample; the second disturbs most.
const WAYS: [&[&str]; 3] = [
    &["--event", "cpu", "--frequency", "999"],
    &["--event", "wall", "--frequency", "999"],
    &["--event", "wall", "--frequency", "100"],
];

/// Word of the shared memory: samples sent by the agent (`remora_wire::layout::SENT`).
const SENT: u64 = 9;

/// Exit code of `remora`: recorded, but left something in the process.
const UNCLEAN: i32 = 40;

/// Exit code of `remora`: the agent refused.
const REFUSED: i32 = 19;

#[test]
fn det_14_an_application_with_signals_of_its_own_finds_them_unchanged() {
    // With few of the lowest taken, SIGURG is free. With SIGURG and the highest taken, a real-time signal between them is free.
    for (theirs, may_be_taken) in [("4", 23..=23), ("-20", 35..=44)] {
        on_every_runtime(|runtime| {
            let mut target = Start::managed(runtime, "signals").arg(native("libsignals")).arg(theirs).ready();
            let before = Facts::of(target.pid());
            for way in WAYS {
                let recording = Recording::begun(&target, way);
                let taken = Facts::of(target.pid()).dispositions.1 & !before.dispositions.1;
                assert_eq!(taken.count_ones(), 1, "one signal more is handled: {taken:x}");
                let signal = taken.trailing_zeros() + 1;
                assert!(may_be_taken.contains(&signal), "{signal} is taken where {may_be_taken:?} are free");
                both_are_delivered(&mut target);
                let ours = format!("signal {} has another handler; ", taken.trailing_zeros() + 1);
                assert_eq!(target.ask("check"), ours, "while it is recorded, {way:?}");
                recording.stop().is_clean();
                both_are_delivered(&mut target);
                holds!(DET_14 rem, target.ask("check") == "unchanged", "{way:?}");
                holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
            }
            assert!(target.quit().success());
        });
    }
}

#[test]
fn det_14_when_every_signal_is_taken_the_recording_is_refused_and_the_target_untouched() {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "signals").arg(native("libsignals")).arg("31").ready();
        let before = Facts::of(target.pid());
        for event in ["cpu", "wall"] {
            let refused = Recording::of(&target, &["--event", event]);
            refused.ended_with(REFUSED);
            let said = &refused.finished.stderr;
            assert!(said.contains("SIGURG and every real-time signal are already used"), "{said}");
            gone(&target);
            assert_eq!(target.ask("check"), "unchanged");
            both_are_delivered(&mut target);
            holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        }
        Recording::of(&target, &["--engine", "auto"]).ended_with(0);
        assert!(target.quit().success());
    });
}

#[test]
fn det_18_another_profiler_that_samples_by_sigprof_lives_on() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let (mut target, mut other) = ForeignProfiler::at_start(Start::managed(runtime, "busy").arg("1"), Kind::Main);
        other.sample(true);
        for way in WAYS {
            samples(&mut other);
            let recording = Recording::begun(&target, way);
            samples(&mut other);
            recording.stop().is_clean();
            samples(&mut other);
        }
        // It may also start and stop during our recording.
        other.sample(false);
        let recording = Recording::begun(&target, WAYS[0]);
        other.sample(true);
        samples(&mut other);
        other.sample(false);
        recording.stop().is_clean();
        goes_on(&mut target);
        holds!(DET_18 rem, target.quit().success());
    });
}

#[test]
fn det_04_threads_that_block_every_signal_are_left_in_peace_and_counted() {
    on_every_runtime(|runtime| {
        for way in WAYS {
            let mut target = masked(runtime);
            assert_eq!(target.ask("block works"), "0");
            assert_eq!(target.ask("block waits"), "0");
            let before = Facts::of(target.pid());
            let recording = Recording::begun(&target, way);
            works(&mut target, "turns");
            let recorded = recording.stop();
            recorded.is_clean();
            let notes = recorded.finished.json()["recording"]["notes"].to_string();
            assert!(notes.contains("2 threads could not be followed"), "{notes}");
            holds!(DET_04 rem, target.ask_number("met") == 0, "the thread that waits for any signal met one of ours");
            assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());
        }
    });
}

#[test]
fn det_04_threads_that_begin_to_block_every_signal_during_a_recording_hold_up_nothing() {
    on_every_runtime(|runtime| {
        for way in WAYS {
            let mut target = masked(runtime);
            let recording = Recording::begun(&target, way);
            assert_eq!(target.ask("block works"), "0");
            assert_eq!(target.ask("block waits"), "0");
            works(&mut target, "turns");
            recording.stop().is_clean();
            holds!(DET_04 rem, target.ask_number("met") == 0, "the thread that waits for any signal met one of ours");
            Recording::of(&target, way).is_clean();
            goes_on(&mut target);
        }
    });
}

/// Once, the time with blocked signals was added to the thread's later samples.
#[test]
fn the_time_of_a_thread_that_blocked_every_signal_is_not_given_to_its_later_samples() {
    on_every_runtime(|runtime| {
        let mut target = masked(runtime);
        assert_eq!(target.ask("block works"), "0");
        let recording = Recording::begun(&target, WAYS[0]);
        until_used(target.pid(), Duration::from_secs(3));
        let begun = cpu_time(target.pid());
        assert_eq!(target.ask("hear"), "0");
        until_used(target.pid(), Duration::from_secs(3));
        let recorded = recording.stop();
        let used = (cpu_time(target.pid()) - begun).as_secs_f64();
        recorded.is_clean();
        let heard = ReadBack::of(&recorded).weight_where(|names| names.contains(&"hears_and_works")) as f64 / 1e9;
        // Two threads are always busy.
        assert!(heard > 0.1 && heard < used * 0.65, "{heard:.2} of {used:.2} s");
        let notes = recorded.finished.json()["recording"]["notes"].to_string();
        assert!(notes.contains("in threads that cannot be followed"), "{notes}");
    });
}

/// Between two system calls of the detaching agent its signal is ignored, which discards pending ones. A child forked in that instant
/// inherits that, and nothing else.
fn ignores_one_more(seen: &str, before: &str) -> bool {
    let parted = |text: &str| {
        let (ignored, rest) = text.split_once(' ')?;
        Some((u64::from_str_radix(ignored, 16).ok()?, rest.to_owned()))
    };
    let (Some(seen), Some(before)) = (parted(seen), parted(before)) else { return false };
    seen.1 == before.1 && seen.0 & before.0 == before.0 && (seen.0 ^ before.0).count_ones() == 1
}

#[test]
fn det_14_children_of_the_target_inherit_nothing() {
    on_every_runtime(|runtime| {
        let mut target = masked(runtime);
        let before = inherited(&mut target);
        for way in WAYS {
            let recording = Recording::begun(&target, way);
            for _ in 0..5 {
                assert_eq!(inherited(&mut target), before, "while a recording runs, {way:?}");
            }
            recording.stop().is_clean();
            holds!(DET_14 rem, inherited(&mut target) == before, "afterwards, {way:?}");
            // Forks children during several recordings: at any instant there is nothing to inherit.
            for _ in 0..3 {
                let mut recording = Recording::start(&target, way);
                recording.wait_until_it_samples();
                recording.remora().signal(rustix::process::Signal::INT);
                while recording.remora().is_alive() {
                    let seen = inherited(&mut target);
                    assert!(
                        seen == before || ignores_one_more(&seen, &before),
                        "while a recording ends, {way:?}: {seen}"
                    );
                }
                // Some are too short for a sample.
                let recorded = recording.finish();
                assert_eq!(recorded.ended_with(0).receipt["clean"], true, "{:#}", recorded.receipt);
            }
        }
        assert!(target.quit().success());
    });
}

#[test]
fn det_14_sleeping_polling_and_reading_go_on_as_they_should() {
    on_every_runtime(|runtime| {
        let mut target = masked(runtime);
        assert_eq!(target.ask("wait"), "0");
        for way in WAYS {
            let recording = Recording::begun(&target, way);
            for what in ["naps", "polls", "reads"] {
                works(&mut target, what);
            }
            assert_eq!(target.ask("sleep 50"), "0", "sleeps of managed threads were too short, {way:?}");
            recording.stop().is_clean();
            holds!(DET_14 rem, target.ask_number("wrong") == 0, "{way:?}");
        }
        println!("{}: {} naps were ended early and begun again", runtime.name(), target.ask_number("cut"));
    });
}

/// Once, such a child kept the ring's memory alive, and its signals were counted in its parent's recording.
#[test]
fn a_child_that_forks_without_exec_has_no_ring_and_survives_our_signal() {
    on_every_runtime(|runtime| {
        for way in WAYS {
            let mut target = masked(runtime);
            let before = Facts::of(target.pid());
            let mut recording = Recording::begun(&target, way);
            recording.wait_until_samples_are_handed_over();
            assert!(!memory(target.pid()).is_empty(), "the target itself has the shared memory");
            let taken = Facts::of(target.pid()).dispositions.1 & !before.dispositions.1;
            assert_eq!(taken.trailing_zeros() + 1, Signal::URG.as_raw() as u32);
            // A child that is forked while the agent maps a table has its descriptor (SECURITY.md). A halted recorder sends no table, and
            // the agent reads its messages before each pass that hands samples over.
            recording.remora().signal(Signal::STOP);
            for _ in 0..3 {
                let sent = recording.counter(SENT);
                until("the agent has made another pass", || recording.counter(SENT) > sent);
            }
            let in_target = memory(target.pid());
            assert!(!in_target.iter().any(|found| found.starts_with("descriptor")), "{in_target:?}");
            let child = target.ask_number(&format!("fork {}", Signal::URG.as_raw())) as u32;
            assert_eq!(memory(child), Vec::<String>::new());
            recording.remora().signal(Signal::CONT);
            assert_ne!(Facts::of(child).dispositions.1 & taken, 0, "it has our handler");
            let survives = |target: &mut Target| {
                kill_process(Pid::from_raw(child as i32).expect("a process"), Signal::URG).expect("it lives");
                assert_eq!(target.ask("heard"), "1", "the child ended, {way:?}");
            };
            survives(&mut target);
            let begun = target.ask_number("count");
            let sent = recording.counter(SENT);
            until("the target is sampled as before", || {
                target.ask_number("count") > begun + 2 && recording.counter(SENT) > sent + 2
            });
            // The receipt is right: our library is in the child, and nothing else is left.
            let recorded = recording.stop();
            recorded.ended_with(UNCLEAN);
            let left = recorded.left();
            assert!(left.starts_with("child: ") && left.lines().count() == 1, "{left}");
            survives(&mut target);
            assert_eq!(memory(target.pid()), Vec::<String>::new());
            assert_eq!(memory(child), Vec::<String>::new());
        }
    });
}

/// Our shared memory that a process has mapped or open.
fn memory(pid: u32) -> Vec<String> {
    Facts::of(pid).remora().into_iter().filter(|found| found.contains("memfd:remora")).collect()
}

fn masked(runtime: &Runtime) -> Target {
    Start::managed(runtime, "masked").arg(native("libmasked")).ready()
}

/// Signals, timers and descriptor targets of a child of the target.
fn inherited(target: &mut Target) -> String {
    let answer = target.ask("child");
    let (signals, listing) = answer.split_at(answer.match_indices(' ').nth(3).map_or(answer.len(), |(at, _)| at));
    let mut kinds: Vec<&str> = listing
        .split(';')
        .filter_map(|line| line.split_once(" -> "))
        .map(|(_, leads_to)| leads_to.split(['[', ' ']).next().unwrap_or_default())
        // The runtime itself may be opening an assembly at this instant.
        .filter(|leads_to| !leads_to.starts_with("/proc/") && !leads_to.ends_with(".dll"))
        .collect();
    kinds.sort_unstable();
    assert!(kinds.len() >= 3, "{answer}");
    format!("{signals} {}", kinds.join(" "))
}

fn goes_on(target: &mut Target) {
    works(target, "count");
}

/// Waits until a counter of the target rises.
fn works(target: &mut Target, counter: &str) {
    let first = target.ask_number(counter);
    until("the target goes on", || target.ask_number(counter) > first + 2);
}

fn both_are_delivered(target: &mut Target) {
    works(target, "profs");
    works(target, "realtime");
}

fn samples(other: &mut ForeignProfiler) {
    let first = other.samples();
    until("the other profiler samples", || other.samples() > first + 3);
}

/// Waits until the library is unmapped.
fn gone(target: &Target) {
    until("nothing of ours is in the target", || Facts::of(target.pid()).remora().is_empty());
}
