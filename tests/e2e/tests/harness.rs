//! The harness itself: each program starts on each runtime, answers and ends.
#![forbid(unsafe_code)]

use remora_e2e::{Facts, ForeignProfiler, Kind, Runtime, Start, Target, native, on_every_runtime, on_runtimes};
use std::process::Command;

/// Every program with a counter, and its arguments.
const COUNTING: &[(&str, &[&str])] = &[
    ("blocked_finalizer", &[]),
    ("busy", &["3"]),
    ("collectible", &[]),
    ("crash", &[]),
    ("deep", &["200"]),
    ("dynamic", &[]),
    ("gc", &["1"]),
    ("generics_async_lambda", &[]),
    ("named_threads", &[]),
    ("shares", &["0.5", "0.6", "0.3", "0.1"]),
    ("short_threads", &["2", "1"]),
    ("syscalls", &[]),
    ("threads", &["50", "1"]),
    ("tiering", &[]),
];

#[test]
fn every_target_gets_ready_counts_and_ends_on_every_runtime() {
    on_every_runtime(|runtime| {
        for (name, arguments) in COUNTING {
            let mut target = Target::start(runtime, name, arguments);
            wait_for_progress(&mut target);
            assert!(Facts::of(target.pid()).maps.iter().any(|mapping| mapping.name.ends_with("libcoreclr.so")));
            assert!(target.quit().success(), "{name}");
        }
    });
}

#[test]
fn the_idle_target_does_nothing_and_ends() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "idle", &[]);
        assert_eq!(target.ask("count"), "idle");
        assert!(target.quit().success());
    });
}

#[test]
fn a_server_answers_its_own_clients() {
    let mut target = Target::start(&Runtime::with_aspnet(), "aspnet", &["2"]);
    assert_ne!(target.ask_number("port"), 0);
    wait_for_progress(&mut target);
    assert_eq!(target.ask_number("failed"), 0);
    assert!(target.quit().success());
}

#[test]
fn contexts_are_unloaded_on_every_runtime() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "collectible", &[]);
        while target.ask_number("unloaded") < 2 {
            assert!(target.ask_number("count") < 50, "no context was unloaded in 50 rounds");
        }
    });
}

#[test]
fn the_truth_about_shares_is_near_what_was_wanted() {
    on_runtimes(&[Runtime::newest()], |runtime| {
        let mut target = Target::start(runtime, "shares", &["1", "0.5", "0.3", "0.2"]);
        target.ask("reset");
        let start = target.ask_number("count");
        while target.ask_number("count") < start + 500 {}
        let answer = target.ask("shares");
        let shares: Vec<f64> = answer.split([' ', '=']).filter_map(|word| word.parse().ok()).collect();
        assert_eq!(shares.len(), 3, "{answer}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{answer}");
        assert!(shares[0] > shares[1] && shares[1] > shares[2], "{answer}");
    });
}

#[test]
fn an_application_with_signals_of_its_own_finds_them_unchanged() {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "signals").arg(native("libsignals")).arg("4").ready();
        while target.ask_number("profs") == 0 || target.ask_number("realtime") == 0 {}
        assert_eq!(target.ask("check"), "unchanged");
    });
}

#[test]
fn a_crash_is_the_one_that_was_asked_for() {
    use std::os::unix::process::ExitStatusExt;
    let order = |runtime: &Runtime, order: &str| {
        let mut target = Target::start(runtime, "crash", &[]);
        // The destination of a core dump is not under test.
        target.tell(order);
        target.wait()
    };
    on_every_runtime(|runtime| {
        assert_eq!(order(runtime, "exit").code(), Some(7));
        assert_eq!(order(runtime, "kill").signal(), Some(9));
        for (name, signal) in [("segfault", 11), ("abort", 6), ("failfast", 6), ("throw", 6), ("overflow", 6)] {
            assert_eq!(order(runtime, name).signal(), Some(signal), "{name}");
        }
        assert_eq!(order(runtime, "exec").code(), Some(0), "cat ends with its standard input");
    });
}

#[test]
fn a_runtime_inside_another_program_runs_the_target() {
    on_every_runtime(|runtime| {
        let mut command = Command::new(native("host"));
        let resolver = runtime.root().join("host/fxr").join(runtime.version_text()).join("libhostfxr.so");
        command.arg(resolver).arg(runtime.root()).arg(Target::assembly("busy"));
        let mut target = Start::of(command, &format!("busy inside host on {}", runtime.name())).ready();
        wait_for_progress(&mut target);
        assert!(target.quit().success());
    });
}

#[test]
fn a_foreign_profiler_attaches_counts_collections_and_leaves() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        for _ in 0..2 {
            let mut profiler = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            assert_eq!(profiler.collect(), Ok(()));
            let counts = profiler.counts();
            assert!(counts.attached && counts.started >= 3 && counts.finished >= 3, "{counts:?}");
            assert_eq!(profiler.detach(), Ok(()));
            wait_for_progress(&mut target);
        }
    });
}

#[test]
fn a_foreign_notification_profiler_attaches_and_leaves() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        let mut profiler = ForeignProfiler::attach(&target, Kind::NotificationOnly).unwrap();
        assert_eq!(profiler.collect(), Ok(()));
        assert!(profiler.counts().finished >= 3);
        assert_eq!(profiler.detach(), Ok(()));
        wait_for_progress(&mut target);
    });
}

#[test]
fn a_foreign_profiler_at_the_start_samples_by_sigprof() {
    on_every_runtime(|runtime| {
        let start = Start::managed(runtime, "busy").arg("1");
        let (mut target, mut profiler) = ForeignProfiler::at_start(start, Kind::Main);
        assert!(profiler.counts().attached);
        profiler.sample(true);
        while profiler.samples() < 3 {}
        profiler.sample(false);
        wait_for_progress(&mut target);
        assert!(target.quit().success());
    });
}

#[test]
fn a_target_that_is_dropped_is_gone() {
    let target = Start::of(Command::new(native("burn")), "burn").ready();
    let process = format!("/proc/{}", target.pid());
    assert!(std::path::Path::new(&process).exists());
    drop(target);
    assert!(!std::path::Path::new(&process).exists());
}

fn wait_for_progress(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
}
