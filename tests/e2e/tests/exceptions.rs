//! Thrown exceptions in a recording: counted as the program counts them, with type, method and line.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{array, number, report};
use remora_e2e::{Recorded, Recording, Remora, Target, on_every_runtime};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeMap;

/// Rounds of the program while exceptions are watched.
const ROUNDS: u64 = 20;

/// What the program throws in a round: exception, method, times.
const THROWN: [(&str, &str, u64); 6] = [
    ("OwnException", "Throwing.Own()", 1),
    ("System.FormatException", "Throwing.Framework()", 1),
    ("System.NullReferenceException", "Throwing.Null()", 1),
    ("GenericException<int>", "Throwing.Generic()", 1),
    ("System.InvalidOperationException", "Throwing.Rethrown()", 2),
    ("OwnException", "Throwing.OnItsThread()", 1),
];

fn throw(target: &mut Target, rounds: u64) -> u64 {
    let answer = target.ask(&format!("throw {rounds}"));
    answer.strip_prefix("thrown ").unwrap().parse().unwrap()
}

/// A recording of the idle program, which has begun.
fn watching(target: &Target, flags: &[&str]) -> Recording {
    let mut recording = Recording::start(target, &[&["-e", "wall"], flags].concat());
    recording.wait_until_it_samples();
    recording.wait_until_samples_are_handed_over();
    recording
}

/// Of each exception and method, how many.
fn by_method(exceptions: &Value) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for row in array(&exceptions["by_method"]) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        *counts.entry((text(&row["exception"]), text(&row["method"]["name"]))).or_default() += number(&row["count"]);
    }
    counts
}

fn has_all(exceptions: &Value) {
    let expected: BTreeMap<(String, String), u64> = THROWN
        .iter()
        .map(|(exception, method, times)| (((*exception).to_owned(), (*method).to_owned()), times * ROUNDS))
        .collect();
    assert_eq!(by_method(exceptions), expected, "{exceptions:#}");
    for row in array(&exceptions["by_method"]) {
        assert!(row["method"]["file"].as_str().is_some_and(|file| file.ends_with("throwing.cs")), "{row:#}");
        assert!(row["method"]["line"].is_u64(), "{row:#}");
    }
}

#[test]
fn ctl_01_exceptions_are_switched_on_and_off_while_it_records_and_each_one_between_is_there() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "throwing", &[]);
        let mut recording = watching(&target, &[]);
        throw(&mut target, 1);
        recording.remora().type_in("x\n");
        recording.remora().wait_until_it_says("exceptions are recorded");
        let thrown = throw(&mut target, ROUNDS);
        assert_eq!(thrown, ROUNDS * THROWN.iter().map(|(_, _, times)| times).sum::<u64>(), "the program's own count");
        recording.remora().type_in("x\n");
        recording.remora().wait_until_it_says("exceptions are not recorded any more");
        throw(&mut target, 1);
        recording.remora().press_enter();
        let recorded = recording.finish();
        recorded.is_clean();
        let exceptions = &recorded.finished.json()["exceptions"];
        holds!(
            CTL_01 clr rem, (number(&exceptions["thrown"]), number(&exceptions["recorded"])) == (thrown, thrown),
            "{exceptions:#}"
        );
        has_all(exceptions);
        // The file has them, too.
        has_all(&report(&recorded.output())["exceptions"]);
        throw(&mut target, 1);
    });
}

#[test]
fn a_recording_with_exceptions_from_its_beginning_has_them_and_one_without_has_none() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "throwing", &[]);
        for flags in [&["--exceptions"][..], &[]] {
            let mut recording = watching(&target, flags);
            if !flags.is_empty() {
                recording.remora().wait_until_it_says("exceptions are recorded");
            }
            throw(&mut target, ROUNDS);
            recording.remora().press_enter();
            let recorded: Recorded = recording.finish();
            recorded.is_clean();
            let exceptions = &recorded.finished.json()["exceptions"];
            if flags.is_empty() {
                assert!(exceptions.is_null(), "{exceptions:#}");
            } else {
                has_all(exceptions);
            }
        }
    });
}

#[test]
fn of_a_storm_of_exceptions_all_are_counted_and_the_program_and_the_samples_survive() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "exceptions", &[]);
        let mut recording = Recording::begun(&target, &["--exceptions", "-f", "50"]);
        recording.remora().wait_until_it_says("exceptions are recorded");
        let count = |target: &mut Target| -> u64 { target.ask("count").rsplit(' ').next().unwrap().parse().unwrap() };
        let first = count(&mut target);
        remora_e2e::until("it has thrown very many", || count(&mut target) > first + 20_000);
        let last = count(&mut target);
        recording.remora().press_enter();
        let recorded = recording.finish();
        recorded.is_clean();
        let exceptions = &recorded.finished.json()["exceptions"];
        assert!(number(&exceptions["thrown"]) >= last - first, "{last} - {first}: {exceptions:#}");
        assert!(number(&exceptions["recorded"]) > 0 && recorded.samples() > 0, "{exceptions:#}");
        let after = count(&mut target);
        remora_e2e::until("it goes on", || count(&mut target) > after);
    });
}

/// The flag is for the agent.
#[test]
fn the_runtimes_own_sampler_records_no_exceptions_and_says_so() {
    let mut command = Remora::command();
    command.args(["record", "--exceptions", "--engine", "eventpipe", "-p", "1"]);
    let finished = Remora::spawn(command).finish();
    assert_eq!(finished.code(), 2, "{finished}");
    assert!(finished.to_string().contains("leave out --exceptions"), "{finished}");
}
