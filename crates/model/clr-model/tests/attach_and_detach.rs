//! Several profilers that attach and detach, and profilers loaded at startup.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use corprof::HResult;
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::runtime::{Profiler, Status};
use remora_clr_model::schedule;
use remora_clr_model::scripted::Script;
use remora_holds::holds;
use std::sync::Arc;
use support::{SECOND, World, gone, how_often, in_one, in_worlds, join, schedules_of_each};

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// The versions with notification-only profilers.
const WITH_NOTIFIED: &[RuntimeVersion] = &[
    RuntimeVersion::Core6,
    RuntimeVersion::Core8,
    RuntimeVersion::Core9,
    RuntimeVersion::Core10,
    RuntimeVersion::Core11,
];

fn leaves(world: &World, script: &Script, profiler: &Arc<Profiler>) {
    assert_eq!(script.request_detach(1), HResult::S_OK);
    let is_there = || world.runtime.profilers().iter().any(|one| Arc::ptr_eq(one, profiler));
    schedule::wait_until(None, || !is_there());
}

/// A script that wants module callbacks.
fn of_modules() -> Script {
    Script::new().on("InitializeForAttach", |script| assert_eq!(script.set_mask_low(MODULE_LOADS), HResult::S_OK))
}

fn hears(world: &World, script: &Script) -> bool {
    let heard = script.count("ModuleLoadFinished");
    world.runtime.load_module(false);
    script.count("ModuleLoadFinished") > heard
}

#[test]
fn det_11_an_attach_during_a_detach_is_refused_or_waits() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        let (library, script, profiler) = world.attached(Script::new());
        assert_eq!(script.request_detach(5_000), HResult::S_OK);
        let asked_at = schedule::now();
        let (second, other) = world.library(Script::new());
        let answer = world.attach(&second);
        if world.runtime.differences().attach_waits_for_detach {
            holds!(DET_11 sim, (answer, profiler.status()) == (HResult::S_OK, Status::Gone));
            holds!(DET_11 sim, !library.is_mapped() && schedule::now() - asked_at >= 4 * SECOND);
        } else {
            holds!(DET_11 sim, answer == HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE);
            assert!(other.steps().is_empty());
            schedule::wait_until(None, || world.runtime.profilers().is_empty());
            assert_eq!(world.attach(&second), HResult::S_OK);
        }
    });
}

#[test]
fn det_11_the_first_waits_mean_that_nothing_else_is_answered_meanwhile() {
    in_worlds(WITH_NOTIFIED, |world| {
        let (_, script, profiler) = world.attached(Script::new());
        assert_eq!(script.request_detach(5_000), HResult::S_OK);
        // A notification-only profiler has its own slot, but waits as well.
        let (second, _) = world.library(Script::new().only_notified());
        let answer = world.asks(&second, &[]);
        schedule::wait_until(None, || answer.get().is_some());
        holds!(DET_11 sim, profiler.status() == Status::Gone);
    });
}

#[test]
fn det_18_main_profilers_come_and_go() {
    in_worlds(&RuntimeVersion::ALL, |world| {
        for _ in 0..3 {
            let (library, script, profiler) = world.attached(of_modules());
            assert!(hears(world, &script));
            leaves(world, &script, &profiler);
            holds!(DET_18 sim, !library.is_mapped());
        }
    });
}

#[test]
fn det_18_notified_profilers_come_and_go_alone_and_beside_a_main_one() {
    in_worlds(WITH_NOTIFIED, |world| {
        let rounds = || {
            for _ in 0..2 {
                let (library, script, profiler) = world.attached(of_modules().only_notified());
                assert!(hears(world, &script));
                leaves(world, &script, &profiler);
                holds!(DET_18 sim, (profiler.record().attach_completes, library.is_mapped()) == (1, false));
            }
        };
        rounds();
        let (_, main, profiler) = world.attached(of_modules());
        rounds();
        holds!(DET_18 sim, hears(world, &main));
        leaves(world, &main, &profiler);
    });
}

/// The faults in each of many schedules.
fn in_each(runtime_versions: &[RuntimeVersion], body: impl Fn(&World) + Clone + 'static) -> Vec<Vec<String>> {
    let seeds = |runtime_version: &RuntimeVersion| {
        (0..schedules_of_each(WITH_NOTIFIED.len())).map(move |seed| (*runtime_version, seed)).collect::<Vec<_>>()
    };
    let worlds = runtime_versions.iter().flat_map(seeds);
    worlds.map(|(runtime_version, seed)| in_one(runtime_version, seed, body.clone())).collect()
}

fn is_crash(findings: &[String]) -> bool {
    matches!(findings, [only] if only.starts_with("DET-18"))
}

#[test]
fn det_18_a_notified_profiler_that_comes_after_a_main_one_has_left_is_lost_and_its_detach_would_crash() {
    let findings = in_each(WITH_NOTIFIED, |world| {
        let (_, main, profiler) = world.attached(of_modules());
        leaves(world, &main, &profiler);
        let (_, script, profiler) = world.attached(of_modules().only_notified());
        assert_eq!((profiler.record().attach_completes, hears(world, &script)), (0, false));
        schedule::sleep(10 * SECOND);
        let _ = script.request_detach(1);
    });
    holds!(DET_18 sim, findings.iter().all(|found| is_crash(found)), "{findings:?}");
}

#[test]
fn det_18_a_notified_profiler_whose_main_one_has_left_is_lost_and_its_detach_would_crash() {
    let findings = in_each(WITH_NOTIFIED, |world| {
        let (_, main, of_main) = world.attached(of_modules());
        let (_, script, profiler) = world.attached(of_modules().only_notified());
        assert!(hears(world, &script) && profiler.record().attach_completes == 1);
        leaves(world, &main, &of_main);
        assert!(!hears(world, &script));
        schedule::sleep(10 * SECOND);
        let _ = script.request_detach(1);
    });
    holds!(DET_18 sim, findings.iter().all(|found| is_crash(found)), "{findings:?}");
}

#[test]
fn det_18_one_that_is_lost_and_stays_harms_nobody_and_lets_the_next_one_be_found() {
    in_worlds(WITH_NOTIFIED, |world| {
        let (_, main, profiler) = world.attached(Script::new());
        leaves(world, &main, &profiler);
        let (_, lost, _) = world.attached(of_modules().only_notified());
        assert!(!hears(world, &lost));
        for _ in 0..2 {
            let (library, script, profiler) = world.attached(of_modules().only_notified());
            assert!(hears(world, &script) && profiler.record().attach_completes == 1);
            holds!(DET_18 sim, hears(world, &lost), "callbacks of the lost one revive");
            leaves(world, &script, &profiler);
            holds!(DET_18 sim, !library.is_mapped() && !hears(world, &lost));
        }
    });
}

#[test]
fn det_18_a_failed_attach_of_a_main_profiler_counts_as_a_departure() {
    in_worlds(WITH_NOTIFIED, |world| {
        let (library, _) = world.library(Script::new().answering(HResult::E_FAIL));
        assert_eq!(world.attach(&library), HResult::E_FAIL);
        let (_, script, profiler): (_, Arc<Script>, _) = world.attached(of_modules().only_notified());
        holds!(DET_18 sim, (profiler.record().attach_completes, hears(world, &script)) == (0, false));
    });
}

#[test]
fn det_11_a_detach_request_waits_until_another_profiler_is_unloaded() {
    in_worlds(WITH_NOTIFIED, |world| {
        let (_, first, profiler) = world.attached(Script::new().only_notified());
        let (_, second, _) = world.attached(Script::new().only_notified());
        assert_eq!(first.request_detach(5_000), HResult::S_OK);
        // The detach thread is awake by then.
        schedule::sleep(2 * SECOND);
        assert_eq!(second.request_detach(1), HResult::S_OK);
        holds!(DET_11 sim, profiler.status() == Status::Gone);
        gone(world);
    });
}

#[test]
fn det_11_two_requests_at_once_leave_one_profiler_behind_on_6_and_8() {
    let left = how_often(WITH_NOTIFIED, |world| {
        let scripts = [0, 1].map(|_| world.attached(Script::new().only_notified()).1);
        let asks = scripts.map(|script| {
            schedule::spawn("a thread of the profiler", move || {
                assert_eq!(script.request_detach(1), HResult::S_OK);
            })
        });
        join(&asks);
        schedule::sleep(60 * SECOND);
        let left = world.runtime.profilers();
        assert!(left.iter().all(|one| one.status() == Status::Detaching), "one never asked");
        // Nobody else waits for it.
        let (_, third, _) = world.attached(Script::new().only_notified());
        assert_eq!(third.request_detach(1), HResult::S_OK);
        schedule::sleep(60 * SECOND);
        assert_eq!(world.runtime.profilers().len(), left.len());
        !left.is_empty()
    });
    let (older, newer) = left.split_at(2);
    holds!(DET_11 sim, older.iter().all(|times| *times > 0) && newer.iter().all(|times| *times == 0), "{left:?}");
}
