//! The agent in the model: no schedule breaks the contract, and each way to break the agent is found.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_clr_model::explore::{Exploration, all_of, at_random, by_choices, replay, shrink};
use remora_clr_model::scenario::{self, ScheduleSetting};
use remora_clr_model::schedule::{Chooser, Random};
use remora_holds::holds;
use remora_session::fault_injection::InjectedFault;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds of each test run; `cargo xtask explore` takes any number. Mutation runs repeat all tests many times, so they use fewer.
const SEEDS: u64 = if cfg!(feature = "mutations") { 2_000 } else { 10_000 };
/// Small worlds without preemptions have fewer schedules than this.
const MOST_OF_A_SMALL_WORLD: u64 = 50_000;
/// Maximum of schedules until each way to break the agent is found.
const SCHEDULES_TO_FIND: u64 = 10_000;

#[test]
fn cat_09_det_04_det_07_det_16_det_17_det_18_no_schedule_of_the_agents_whole_life_breaks_the_contract() {
    let exploration = at_random(0..SEEDS, ScheduleSetting::default());
    let found = findings(&exploration);
    let keeps = |clause: &str| !found.contains(clause);
    // For each of these there is a fault of the agent that fails this: `cargo xtask contract --mutate`.
    // One schedule may break several.
    let why = shown(&exploration);
    let failed = [
        fails(|| holds!(CAT_02 rem, keeps("CAT-02"), "{why}")),
        fails(|| holds!(CAT_08 rem, keeps("CAT-08"), "{why}")),
        fails(|| holds!(CAT_09 rem, keeps("CAT-09"), "{why}")),
        fails(|| holds!(DET_04 rem, keeps("DET-04"), "{why}")),
        fails(|| holds!(DET_05 rem, keeps("DET-05"), "{why}")),
        fails(|| holds!(DET_07 rem, keeps("DET-07"), "{why}")),
        fails(|| holds!(DET_08 rem, keeps("DET-08"), "{why}")),
        fails(|| holds!(DET_10 rem, keeps("DET-10"), "{why}")),
        fails(|| holds!(DET_14 rem, keeps("DET-14"), "{why}")),
        fails(|| holds!(DET_16 rem, keeps("DET-16"), "{why}")),
        fails(|| holds!(DET_17 rem, keeps("DET-17"), "{why}")),
        fails(|| holds!(DET_18 rem, keeps("DET-18"), "{why}")),
    ];
    assert!(!failed.contains(&true));
    assert!(exploration.failure.is_none(), "{}", shown(&exploration));
    let reached = exploration.reached;
    holds!([DET_16 DET_17 DET_18] rem, reached.detached > SEEDS / 2 && reached.inert > 0 && reached.exited > 0 && reached.refused > 0, "{reached:?}");
    assert!(reached.named > reached.samples / 2, "{reached:?}");
}

/// Whether an assertion fails.
fn fails(assertion: impl Fn()) -> bool {
    catch_unwind(AssertUnwindSafe(assertion)).is_err()
}

/// The clauses that the first failing schedule breaks.
fn findings(exploration: &Exploration) -> BTreeSet<&'static str> {
    exploration.failure.iter().flat_map(|failure| failure.findings.iter().map(|finding| finding.clause)).collect()
}

/// A failure as a short timeline.
fn shown(exploration: &Exploration) -> String {
    let Some(failure) = &exploration.failure else { return String::new() };
    let short = shrink(failure);
    let (seed, timeline) = (failure.seed, replay(&short).ran.timeline);
    let again = if failure.setting.small {
        let choices: Vec<String> = short.choices.iter().map(u16::to_string).collect();
        format!("small {seed} {}", if choices.is_empty() { "-".to_owned() } else { choices.join(",") })
    } else {
        format!("replay {seed}")
    };
    format!("seed {seed}: {:?}\n{timeline}\ncargo xtask explore {again} shows it again", short.findings)
}

#[test]
fn det_04_det_10_no_schedule_of_a_small_world_without_preemptions_breaks_the_contract() {
    for seed in [2, 3, 8] {
        let exploration = all_of(seed, 0, MOST_OF_A_SMALL_WORLD, ScheduleSetting::default());
        holds!(DET_04 rem, !findings(&exploration).contains("DET-04"), "{}", shown(&exploration));
        holds!(DET_10 rem, !findings(&exploration).contains("DET-10"), "{}", shown(&exploration));
        assert!(exploration.failure.is_none(), "{}", shown(&exploration));
        assert!(exploration.is_whole && exploration.schedules > 5_000, "{} schedules", exploration.schedules);
    }
}

/// With one preemption a small world has millions of schedules: this runs the first ones in walk order.
#[test]
fn det_04_det_10_none_of_the_first_schedules_of_a_small_world_with_one_preemption_breaks_the_contract() {
    for seed in [1, 2, 3] {
        let exploration = all_of(seed, 1, SEEDS, ScheduleSetting::default());
        holds!(DET_04 rem, !findings(&exploration).contains("DET-04"), "{}", shown(&exploration));
        holds!(DET_10 rem, !findings(&exploration).contains("DET-10"), "{}", shown(&exploration));
        assert!(exploration.failure.is_none(), "{}", shown(&exploration));
        assert_eq!(exploration.schedules, SEEDS);
    }
}

/// Repeats by the seed. Every exploration already repeats each schedule by its choices.
#[test]
fn every_schedule_is_the_same_when_its_seed_is_run_again() {
    for seed in 0..300 {
        let run = || scenario::run(seed, Chooser::Random(Random::new(seed)), ScheduleSetting::default());
        let (first, second) = (run(), run());
        assert_eq!(first.trace(), second.trace());
    }
}

#[test]
fn a_failing_schedule_of_a_small_world_is_shown_again_by_its_choices() {
    let setting = ScheduleSetting { fault: Some(InjectedFault::SkipJoin), ..ScheduleSetting::default() };
    let failure = (1..20).find_map(|seed| all_of(seed, 1, SCHEDULES_TO_FIND, setting).failure).unwrap();
    let short = shrink(&failure);
    assert!(short.setting.small, "it is the small world's schedule that fails, not another one's of the same seed");
    let again = by_choices(short.seed, short.choices.clone(), short.setting).failure.unwrap();
    assert_eq!((again.findings, replay(&short).findings), (short.findings.clone(), short.findings));
}

/// Each fault of the agent, and what the model finds.
const FAULTS: [(InjectedFault, &str); 21] = [
    (InjectedFault::EnumerateTooEarly, "CAT-02"),
    // Its detach is refused, and it stays.
    (InjectedFault::NotWaitForAttachComplete, "DET-16"),
    (InjectedFault::KeepUnloadedMethods, "CAT-09"),
    (InjectedFault::SkipUnloadBarrier, "CAT-08"),
    (InjectedFault::ReleaseUnloadsEarly, "CAT-09"),
    (InjectedFault::CountUnloadsTwice, "W5"),
    (InjectedFault::AskAfterUnloadTimeout, "CAT-09"),
    (InjectedFault::AskAfterShutdown, "DET-17"),
    (InjectedFault::DetachWithoutCallbacks, "DET-18"),
    (InjectedFault::IgnoreDisconnect, "DET-16"),
    (InjectedFault::NotWaitForOwnCallbacks, "DET-07"),
    // Its detach is refused for good, and it stays.
    (InjectedFault::EnableRejit, "DET-16"),
    (InjectedFault::IgnoreRegistry, "DET-04"),
    (InjectedFault::HideLoss, "LOSS"),
    (InjectedFault::SkipJoin, "DET-04"),
    (InjectedFault::StopByFlagOnly, "LOSS"),
    (InjectedFault::LeaveTimersArmed, "DET-04"),
    (InjectedFault::TakeNoReference, "DET-05"),
    (InjectedFault::LeakReference, "DET-14"),
    (InjectedFault::DropReferenceEarly, "DET-08"),
    (InjectedFault::LeakCallbackObject, "DET-10"),
];

/// Whoever asks about unloaded code gets another method's name, or asks about an id that is gone: the schedule decides.
const STALE: [&str; 2] = ["CAT-08", "CAT-09"];

#[test]
fn every_way_to_break_the_agent_is_found() {
    for (fault, what) in InjectedFault::ALL {
        let Some((_, finding)) = FAULTS.iter().find(|(known, _)| known == fault) else {
            panic!("nobody looks for: {what}");
        };
        let found = findings_of(*fault);
        let fits = |clause: &&str| clause == finding || STALE.contains(clause) && STALE.contains(finding);
        assert!(found.iter().any(fits), "an agent that is broken so: {what}: {found:?}");
    }
}

/// The clauses that the model names in the first schedule that an agent with this fault fails.
fn findings_of(fault: InjectedFault) -> Vec<&'static str> {
    let setting = ScheduleSetting { fault: Some(fault), ..ScheduleSetting::default() };
    let failure = at_random(0..SCHEDULES_TO_FIND, setting).failure;
    failure.map(|failure| failure.findings.iter().map(|finding| finding.clause).collect()).unwrap_or_default()
}

#[test]
fn what_is_found_is_shown_as_a_short_timeline() {
    let setting = ScheduleSetting { fault: Some(InjectedFault::SkipJoin), ..ScheduleSetting::default() };
    let failure = at_random(0..SCHEDULES_TO_FIND, setting).failure.unwrap();
    let short = shrink(&failure);
    let preemptions = |choices: &[u16]| choices.iter().filter(|choice| **choice != 0).count();
    assert!(preemptions(&short.choices) <= preemptions(&failure.choices));
    let replayed = replay(&short);
    assert_eq!(replayed.findings, short.findings);
    assert!(replayed.ran.timeline.to_string().contains("RequestProfilerDetach seals the profiler"));
}
