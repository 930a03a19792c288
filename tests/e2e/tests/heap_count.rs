//! The runtime's profiler count after a main profiler of ours, beside other profilers.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Finished, ForeignProfiler, Kind, Remora, Runtime, Start, Target, on_runtimes};
use remora_holds::holds;
use rustix::process::Signal;

/// First version that counts profilers beside the main one.
const FIRST_WITH_COUNT: u32 = 6;

/// Slots of a runtime for notification-only profilers.
const PLACES: usize = 32;

/// Exit code of `remora`, from docs/reference/exit-codes.md.
const UNCLEAN: i32 = 40;

/// Longer than any test, which ends it before.
const LONG: &str = "1h";

/// A watch during which `others` profilers attach.
fn watched(target: &Target, others: usize) -> (Finished, Vec<ForeignProfiler>) {
    let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG, "--json"]);
    command.wait_until_it_says("watching generations");
    let come = |_| ForeignProfiler::attach(target, Kind::NotificationOnly).unwrap();
    let others = (0..others).map(come).collect();
    command.signal(Signal::INT);
    (command.finish(), others)
}

fn still_hears(other: &mut ForeignProfiler) {
    let before = other.counts().finished;
    other.collect().unwrap();
    assert!(other.counts().finished > before);
}

#[test]
fn beside_another_profiler_it_is_said_that_the_count_cannot_be_seen() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| {
        let mut target = Start::managed(runtime, "generations").ready();
        let (beside, mut others) = watched(&target, 1);
        let said = &beside.stderr;
        assert!(said.contains("another profiler is loaded (") && said.contains("foreign_profiler"), "{said}");
        assert_eq!(beside.code(), 0, "{beside}");
        still_hears(&mut others[0]);
        others.remove(0).detach().unwrap();
        assert_eq!(target.ask("collect 2"), "done");
        // Without others, the check sees that.
        let (alone, _) = watched(&target, 0);
        assert!(alone.code() == 0 && !alone.stderr.contains("another profiler is loaded"), "{alone}");
    });
}

#[test]
fn det_14_det_18_where_no_place_is_left_to_look_the_count_is_said_to_be_unseen_and_what_came_is_left() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| {
        let mut target = Start::managed(runtime, "generations").ready();
        let (taken, others) = watched(&target, PLACES - 1);
        assert_eq!(taken.code(), UNCLEAN, "{taken}");
        assert!(taken.stderr.contains("could not be seen: the runtime refused: all of its 32 places"), "{taken}");
        let shown = taken.json();
        let left = shown["receipt"]["left"].as_array().unwrap();
        let why = |kind: &str| -> Vec<String> {
            left.iter().filter(|left| left["kind"] == kind).map(|left| left["why"].to_string()).collect()
        };
        let mapped = why("mapping");
        let is_reported = |words: &str| mapped.iter().filter(|why| why.contains(words)).count() == 1;
        // Two libraries stay: the repairing one, and the checking one.
        holds!(
            [DET_14 DET_18] rem,
            mapped.len() == 2 && is_reported("the next command shows") && is_reported("had no place for it"),
            "{left:#?}"
        );
        assert!(matches!(&why("profiler-slot")[..], [why] if why.contains("too few")), "{left:#?}");
        for other in others {
            other.detach().unwrap();
        }
        assert_eq!(target.ask("collect 2"), "done");
        assert!(target.is_alive());
    });
}
