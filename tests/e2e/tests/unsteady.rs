//! Behaviour that a sampler cannot foresee: a thousand threads in a second, child processes, another user.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{BLOCKED, ReadBack, number, report};
use remora_e2e::{Recording, Target, cpu_time, on_every_runtime, until_used};
use std::time::Duration;

#[test]
fn a_thousand_threads_one_after_another_are_sampled_or_their_time_is_reported() {
    recorded_while(&["start 1000"], &["cpu", "wall"]);
}

#[test]
fn children_that_the_target_starts_meanwhile_end_well() {
    recorded_while(&["run 50"], &["cpu", "wall"]);
}

#[test]
fn a_target_that_changes_its_user_is_recorded_on() {
    recorded_while(&["become 65534"], &["cpu"]);
    recorded_while(&["become 65534"], &["wall"]);
}

/// Runs the orders while recording. The target continues, and samples or a note account for its CPU time.
#[track_caller]
fn recorded_while(orders: &[&str], events: &[&str]) {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "unsteady", &[]);
        for event in events {
            let before = cpu_time(target.pid());
            let recording = Recording::begun(&target, &["--event", event, "--frequency", "999"]);
            for order in orders {
                assert_eq!(target.ask(order), *order);
            }
            // It is sampled afterwards, too.
            until_used(target.pid(), Duration::from_secs(1));
            let recorded = recording.stop();
            let used = (cpu_time(target.pid()) - before).as_secs_f64();
            recorded.is_clean();
            let read = ReadBack::of(&recorded);
            let on_cpu = |names: &[&str]| names.contains(&"Unsteady.Steady(int)") && names.last() != Some(&BLOCKED);
            let steady = read.weight_where(on_cpu) as f64 / 1e9;
            assert!(steady > 0.8 && steady <= used * 1.1, "{event}: {steady:.2} s of {used:.2} s in the steady thread");
            let summed = report(&recorded.output());
            let (all, used) = (number(&summed["weight_nanoseconds"]), number(&summed["target_cpu_nanoseconds"]));
            let is_reported = summed["notes"].to_string().contains("are in no sample");
            // All CPU time of the target, including short-lived threads.
            assert!(*event != "cpu" || all > used / 100 * 97 || is_reported, "{all} of {used}: {summed}");
            let (taken, delivered) = (number(&summed["loss"]["taken"]), number(&summed["loss"]["delivered"]));
            let lost: u64 =
                remora_e2e::read_back::array(&summed["loss"]["lost"]).iter().map(|one| number(&one["samples"])).sum();
            assert_eq!(taken, delivered + lost, "{event}");
        }
    });
}
