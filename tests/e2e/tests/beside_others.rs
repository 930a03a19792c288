//! Beside other vendors' profilers: every order of attach and detach. The target must survive, and no other profiler be harmed.
//!
//! The runtime miscounts its notification-only profilers when a main one detaches, and crashes the process if an uncounted one requests
//! its detach. Remora's agent has to notice that, stay inert, and report it.
#![forbid(unsafe_code)]

use remora_e2e::{
    Facts, ForeignProfiler, Kind, Recorded, Recording, Runtime, Start, Target, on_every_runtime, on_runtimes,
    on_runtimes_at_once, remora, until,
};
use remora_holds::holds;

/// Rounds of each sequence in one process: leftovers of a round must not harm the next.
const ROUNDS: usize = 3;

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const SLOT_TAKEN: i32 = 17;
const HELD: i32 = 18;
const UNCLEAN: i32 = 40;

/// The agent's file name in a target.
const LIBRARY: &str = "libremora_agent";

/// The end of that name for a library that stays on purpose.
const STAYS: &str = "-stays.so";

/// How often the agent attaches until it gets callbacks (crates/host/collector/src/profiler_count.rs).
const MOST_COMINGS: usize = 5;

#[test]
fn det_12_any_number_of_recordings_one_after_another() {
    on_every_runtime(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            holds!(DET_12 clr rem, Recording::of(&target, &[]).is_clean().samples() > 0);
            goes_on(&mut target);
        }
        assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
    });
}

#[test]
fn att_07_det_18_ours_comes_and_goes_beside_a_main_profiler() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        let mut other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        for _ in 0..ROUNDS {
            holds!([ATT_07 DET_18] clr rem, Recording::of(&target, &[]).is_clean().samples() > 0);
            still_hears(&mut other);
            goes_on(&mut target);
        }
        holds!(DET_18 rem, other.detach() == Ok(()));
        goes_on(&mut target);
    });
}

#[test]
fn att_07_det_18_ours_comes_and_goes_beside_a_profiler_from_the_start() {
    with_room_beside(|runtime| {
        let (mut target, mut other) = ForeignProfiler::at_start(Start::managed(runtime, "busy").arg("1"), Kind::Main);
        for _ in 0..ROUNDS {
            holds!([ATT_07 DET_18] clr rem, Recording::of(&target, &["--event", "wall"]).is_clean().samples() > 0);
            still_hears(&mut other);
        }
        goes_on(&mut target);
    });
}

#[test]
fn sbs_03_both_kinds_of_another_library_and_ours_at_once() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        let mut main = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        let mut notified = ForeignProfiler::attach(&target, Kind::NotificationOnly).unwrap();
        for _ in 0..ROUNDS {
            holds!(SBS_03 rem, Recording::of(&target, &[]).is_clean().samples() > 0);
            still_hears(&mut main);
            still_hears(&mut notified);
        }
        assert_eq!(notified.detach(), Ok(()));
        holds!(SBS_03 clr, still_hears(&mut main) >= 3, "the other one of its library has left");
        assert_eq!(main.detach(), Ok(()));
        goes_on(&mut target);
    });
}

#[test]
fn det_18_a_notification_only_profiler_leaves_before_ours() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            let mut other = ForeignProfiler::attach(&target, Kind::NotificationOnly).unwrap();
            let recording = Recording::begun(&target, &[]);
            still_hears(&mut other);
            holds!(DET_18 rem, other.detach() == Ok(()));
            recording.stop().is_clean();
            goes_on(&mut target);
        }
        assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
    });
}

#[test]
fn det_18_a_notification_only_profiler_comes_during_ours_and_stays() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            let recording = Recording::begun(&target, &[]);
            let mut other = ForeignProfiler::attach(&target, Kind::NotificationOnly).unwrap();
            recording.stop().is_clean();
            still_hears(&mut other);
            holds!(DET_18 rem, other.detach() == Ok(()));
            goes_on(&mut target);
        }
    });
}

#[test]
fn det_18_a_main_profiler_comes_during_ours_and_stays() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        let recording = Recording::begun(&target, &[]);
        let mut other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        recording.stop().is_clean();
        still_hears(&mut other);
        Recording::of(&target, &[]).is_clean();
        still_hears(&mut other);
        holds!(DET_18 rem, other.detach() == Ok(()));
        goes_on(&mut target);
    });
}

#[test]
fn det_18_after_a_main_profiler_has_left_the_first_of_ours_stays_inert_and_another_one_works() {
    with_room_beside_at_once(|runtime| {
        let mut target = busy(runtime);
        for round in 1..=ROUNDS {
            let other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            holds!(DET_18 rem, other.detach() == Ok(()));
            works_and_says_what_stays(&Recording::of(&target, &[]), 1);
            stays_on_purpose(&mut target, round);
            Recording::of(&target, &[]).is_clean();
            Recording::of(&target, &["--event", "wall"]).is_clean();
            goes_on(&mut target);
        }
    });
}

/// So many main profilers have detached that the agent gives up.
#[test]
fn det_18_an_agent_that_must_stay_inert_is_replaced_by_the_runtimes_own_sampler_and_the_receipt_covers_both() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..MOST_COMINGS {
            let other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            holds!(DET_18 rem, other.detach() == Ok(()));
        }
        let recorded = Recording::of(&target, &["--engine", "auto"]);
        recorded.ended_with(UNCLEAN);
        let said = &recorded.finished.stderr;
        assert!(said.contains("must stay inert") && said.contains("the runtime's own sampler instead"), "{said}");
        assert!(said.contains("give the same command again"), "{said}");
        assert!(recorded.samples() > 0 && recorded.readable() > 0, "{}", recorded.finished);
        let shown = recorded.finished.json();
        assert!(shown["recording"]["engine"].to_string().contains("EventPipe"), "{shown}");
        assert!(shown["recording"]["notes"].to_string().contains("The agent was not used"), "{shown}");
        let kinds = &recorded.receipt["kinds"];
        assert_eq!((&kinds["mapping"], &kinds["event-session"]), (&"left".into(), &"clean".into()), "{kinds}");
        assert_eq!(recorded.left().matches("mapping: ").count(), MOST_COMINGS, "{}", recorded.left());
        stays_on_purpose(&mut target, MOST_COMINGS);
        works_and_says_what_stays(&Recording::of(&target, &[]), 0);
    });
}

#[test]
fn det_18_a_main_profiler_leaves_during_ours_which_then_stays_inert() {
    with_room_beside_at_once(|runtime| {
        let mut target = busy(runtime);
        for event in ["cpu", "wall", "cpu"] {
            let other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            let recording = Recording::begun(&target, &["--event", event]);
            holds!(DET_18 rem, other.leave(&target) == Ok(()));
            goes_on(&mut target);
            says_that_it_stays(recording);
            is_inert(&mut target);
            works_beside_what_stayed(&target, &[]);
            goes_on(&mut target);
        }
    });
}

#[test]
fn det_18_a_main_profiler_comes_and_leaves_during_ours_which_then_stays_inert() {
    with_room_beside_at_once(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            let recording = Recording::begun(&target, &[]);
            let other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            holds!(DET_18 rem, other.leave(&target) == Ok(()));
            says_that_it_stays(recording);
            is_inert(&mut target);
            works_beside_what_stayed(&target, &[]);
            goes_on(&mut target);
        }
    });
}

#[test]
fn det_18_a_main_profiler_and_ours_leave_at_the_same_time() {
    with_room_beside_at_once(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            let mut other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
            let recording = Recording::begun(&target, &[]);
            holds!(DET_18 rem, other.begin_detach() == Ok(()));
            let recorded = recording.stop();
            other.wait_until_detached();
            // Either may be first: our agent detached, or it stays and reports that.
            assert!([0, UNCLEAN].contains(&recorded.finished.code()), "{}\n{}", recorded.finished, recorded.left());
            goes_on(&mut target);
            // The one that lost the race may have cost the next one its callbacks, but not the one after.
            let next = Recording::of(&target, &[]);
            assert!(next.samples() > 0, "{}", next.finished);
            works_beside_what_stayed(&target, &[]);
        }
    });
}

#[test]
fn det_18_an_inert_agent_is_no_harm_to_the_next_profiler_of_somebody_else() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        let other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        holds!(DET_18 rem, other.detach() == Ok(()));
        works_and_says_what_stays(&Recording::of(&target, &[]), 1);
        for kind in [Kind::NotificationOnly, Kind::Main] {
            let mut next = ForeignProfiler::attach(&target, kind).unwrap();
            still_hears(&mut next);
            holds!(DET_18 rem, next.detach() == Ok(()));
            goes_on(&mut target);
        }
    });
}

#[test]
fn det_11_det_12_an_attach_during_another_detach_waits_and_then_works() {
    with_room_beside(|runtime| {
        let mut target = busy(runtime);
        for _ in 0..ROUNDS {
            let mut other = ForeignProfiler::attach(&target, Kind::NotificationOnly).unwrap();
            assert_eq!(other.begin_detach(), Ok(()));
            holds!([DET_11 DET_12] clr rem, Recording::of(&target, &[]).is_clean().samples() > 0);
            other.wait_until_detached();
            goes_on(&mut target);
        }
    });
}

#[test]
fn att_07_a_taken_slot_is_refused_on_3_1_and_the_runtimes_own_sampler_used_instead() {
    on_runtimes(&[Runtime::major_is(3)], |runtime| {
        let mut target = busy(runtime);
        let mut other = ForeignProfiler::attach(&target, Kind::Main).unwrap();
        for _ in 0..ROUNDS {
            let refused = Recording::of(&target, &["--engine", "agent"]);
            let refused = &refused.finished;
            let words = ["libforeign_profiler.so", "--engine eventpipe"];
            holds!(ATT_07 rem, refused.has_failed_with(SLOT_TAKEN, &words), "{refused}");
            let recorded = Recording::of(&target, &["--engine", "auto"]);
            recorded.is_clean();
            assert!(recorded.finished.stderr.contains("the runtime's own sampler"), "{}", recorded.finished);
            still_hears(&mut other);
            assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
        }
        assert_eq!(other.detach(), Ok(()));
        Recording::of(&target, &["--engine", "agent"]).is_clean();
        goes_on(&mut target);
    });
}

#[test]
fn att_07_a_second_remora_learns_who_records() {
    on_every_runtime(|runtime| {
        let mut target = busy(runtime);
        let mut first = Recording::begun(&target, &[]);
        let holder = format!("process {}", first.remora().pid());
        for _ in 0..ROUNDS {
            let second = Recording::of(&target, &[]);
            let second = second.finished;
            holds!(ATT_07 rem, second.has_failed_with(HELD, &[&holder]), "{second}");
        }
        let pid = target.pid().to_string();
        remora(["check", "-p", &pid]).failed_with(HELD, &[]);
        remora(["detach", "-p", &pid]).failed_with(HELD, &[&holder]);
        first.stop().is_clean();
        Recording::of(&target, &[]).is_clean();
        goes_on(&mut target);
    });
}

#[test]
fn att_07_of_several_remoras_started_at_once_one_records_and_the_others_learn_who() {
    on_every_runtime(|runtime| {
        let mut target = busy(runtime);
        for engine in ["agent", "eventpipe"] {
            let mut all: Vec<Recording> = (0..3).map(|_| Recording::start(&target, &["--engine", engine])).collect();
            let alive =
                |all: &mut [Recording]| all.iter_mut().map(|one| usize::from(one.remora().is_alive())).sum::<usize>();
            until("all but one have given up", || alive(&mut all) <= 1);
            let pids: Vec<u32> = all.iter_mut().map(|one| one.remora().pid()).collect();
            let mut first = None;
            let mut refused = Vec::new();
            for (mut one, pid) in all.into_iter().zip(pids) {
                if one.remora().is_alive() { first = Some((one, pid)) } else { refused.push(one.finish()) }
            }
            let (mut first, pid) = first.unwrap();
            for second in refused {
                let second = second.finished;
                holds!(ATT_07 rem, second.has_failed_with(HELD, &[&format!("process {pid}")]), "{second}");
            }
            remora(["check", "-p", &target.pid().to_string()]).failed_with(HELD, &[]);
            first.remora().wait_until_it_says("recording");
            remora_e2e::until_used(target.pid(), std::time::Duration::from_millis(500));
            first.stop().is_clean();
            goes_on(&mut target);
        }
    });
}

/// The recording is complete, and `count` libraries stay because of it: exit status and receipt report that.
#[track_caller]
fn works_and_says_what_stays(recorded: &Recorded, count: usize) {
    recorded.ended_with(if count > 0 { UNCLEAN } else { 0 });
    assert!(recorded.samples() > 0 && recorded.readable() > 0, "{}", recorded.finished);
    assert_eq!(recorded.finished.json()["recording"]["engine"], "agent (random instants)", "{}", recorded.finished);
    let left = recorded.left();
    let mapped: Vec<&str> = left.lines().filter(|line| line.starts_with("mapping: ")).collect();
    assert_eq!(mapped.len(), count, "{left}");
    assert!(
        mapped.iter().all(|line| line.contains(STAYS) && line.contains("a main profiler had left before")),
        "{left}"
    );
}

/// `count` libraries named as staying are mapped, and nothing else of ours exists: no memory, thread, timer or handler.
#[track_caller]
fn stays_on_purpose(target: &mut Target, count: usize) {
    goes_on(target);
    let shown = remora(["detach", "-p", &target.pid().to_string(), "--json"]).succeeded().json();
    assert_eq!(shown["stays"].as_array().map(Vec::len), Some(count), "{shown:#}");
    let found = Facts::of(target.pid());
    let ours = found.remora();
    assert!(ours.len() == count && ours.iter().all(|ours| ours.contains(STAYS)), "{ours:?}");
    assert!(!found.timers.iter().any(|line| line.starts_with("ID:")), "{:?}", found.timers);
}

/// The runtime's detaches and the agent's patience take most of the time of such a test.
fn with_room_beside_at_once(test: impl Fn(&Runtime) + Sync) {
    on_runtimes_at_once(&Runtime::from_major(6), test);
}

fn with_room_beside(test: impl Fn(&Runtime)) {
    on_runtimes(&Runtime::from_major(6), test);
}

fn busy(runtime: &Runtime) -> Target {
    Target::start(runtime, "busy", &["1"])
}

fn goes_on(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
}

/// Its GCs still work, and it gets their callbacks. Returns for how many.
fn still_hears(other: &mut ForeignProfiler) -> u64 {
    let before = other.counts();
    assert_eq!(other.collect(), Ok(()));
    let after = other.counts();
    assert!(after.attached && after.finished >= before.finished + 3, "{before:?}, after three collections {after:?}");
    after.finished - before.finished
}

/// The recording is complete, and exit code and receipt report that the library stays, with the reason.
#[track_caller]
fn says_that_it_stays(recording: Recording) {
    let recorded = recording.stop();
    recorded.ended_with(UNCLEAN);
    assert!(recorded.samples() > 0, "{}", recorded.finished);
    assert!(recorded.readable() > 0);
    let left = recorded.left();
    assert!(left.contains("mapping: ") && left.contains("libremora_agent"), "{left}");
    assert!(left.contains("another profiler came or went"), "{left}");
}

/// The library is mapped, and nothing else of ours exists: no memory, thread, timer or handler. `remora detach` reports the same.
#[track_caller]
fn is_inert(target: &mut Target) {
    goes_on(target);
    let pid = target.pid().to_string();
    let shown = remora(["detach", "-p", &pid, "--json"]).failed_with(UNCLEAN, &[]);
    let shown = shown.json()["left"].as_array().cloned().unwrap_or_default();
    assert!(shown.iter().all(|left| left["what"].as_str().is_some_and(|what| what.contains(LIBRARY))), "{shown:?}");
    until("nothing but the library is left", || {
        Facts::of(target.pid()).remora().iter().all(|ours| ours.contains(LIBRARY))
    });
    let found = Facts::of(target.pid());
    assert!(found.library_is_mapped());
    assert!(!found.timers.iter().any(|line| line.starts_with("ID:")), "{:?}", found.timers);
}

/// A complete recording; its receipt names the leftovers of an earlier one, if any, and nothing else.
#[track_caller]
fn works_beside_what_stayed(target: &Target, arguments: &[&str]) {
    let earlier = Facts::of(target.pid()).remora().iter().any(|ours| !ours.contains(STAYS));
    let recorded = Recording::of(target, arguments);
    recorded.ended_with(if earlier { UNCLEAN } else { 0 });
    assert!(recorded.samples() > 0, "{}", recorded.finished);
    let left = recorded.left();
    assert!(left.lines().all(|line| line.contains(LIBRARY) && line.contains("an earlier one left it")), "{left}");
}
