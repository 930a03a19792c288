//! The kinds of targets.

use super::AppConfig;
use crate::differences::Release;
use crate::machine::{Account, Integrity};

/// The user that the trigger and most targets run as.
pub(super) const USER: u32 = 500;
/// Another user.
const OTHER_USER: u32 = 501;
/// An administrator.
const ADMINISTRATOR: u32 = 100;

const VERSION_2: Release = Release(2, 0, 50727);
const VERSION_4: Release = Release(4, 0, 30319);

/// A kind of target.
#[derive(Debug)]
pub struct Scenario {
    /// Its name for `remora model run`.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub description: &'static str,
    pub(super) account: Account,
    /// The runtimes, in load order.
    pub(super) runtimes: &'static [Release],
    pub(super) configuration: AppConfig,
    pub(super) state: State,
}

/// The state of a target at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Everything runs.
    Usual,
    /// A finalizer runs and does not return.
    BlockedFinalizer,
    /// No runtime is loaded yet.
    NotStarted,
    /// The environment names a profiler for version 2 of the runtime.
    OldProfiler,
    /// The same, and allows it.
    AllowedOldProfiler,
    /// A thread stays in the next callback about a loaded module.
    SlowThread,
}

const NOT_CONCURRENT: AppConfig = AppConfig { gc_concurrent: Some(false), gc_server: None };

const PLAIN: Scenario = Scenario {
    name: "plain",
    description: "one runtime, and nothing in the way",
    account: Account::of_user(USER),
    runtimes: &[VERSION_4],
    configuration: NOT_CONCURRENT,
    state: State::Usual,
};

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    PLAIN,
    Scenario {
        name: "blocked-finalizer",
        description: "a finalizer does not return, so an attach times out",
        state: State::BlockedFinalizer,
        ..PLAIN
    },
    Scenario {
        name: "two-runtimes",
        description: "v2.0.50727 and v4.0.30319 side by side",
        runtimes: &[VERSION_2, VERSION_4],
        ..PLAIN
    },
    Scenario {
        name: "other-user",
        description: "it belongs to another user than the trigger",
        account: Account::of_user(OTHER_USER),
        ..PLAIN
    },
    Scenario {
        name: "high-integrity",
        description: "the same user runs it at integrity level high",
        account: Account::of_user(USER).at(Integrity::High),
        ..PLAIN
    },
    Scenario { name: "not-started", description: "it has not loaded a runtime yet", state: State::NotStarted, ..PLAIN },
    Scenario {
        name: "concurrent-gc",
        description: "the GC is concurrent, as is the default of client applications",
        configuration: AppConfig { gc_concurrent: None, gc_server: None },
        ..PLAIN
    },
    Scenario {
        name: "old-profiler",
        description: "its environment names a profiler for version 2 of the runtime",
        state: State::OldProfiler,
        ..PLAIN
    },
    Scenario {
        name: "two-old-profilers",
        description: "two runtimes, and its environment allows a profiler for version 2",
        runtimes: &[VERSION_2, VERSION_4],
        state: State::AllowedOldProfiler,
        ..PLAIN
    },
    Scenario {
        name: "slow-thread",
        description: "a thread does not leave the callback about the next module that loads",
        state: State::SlowThread,
        ..PLAIN
    },
];

impl Scenario {
    /// A scenario by its name.
    pub fn by_name(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }
}

/// The accounts that a trigger can play, by name.
pub const TRIGGERS: &[(&str, Account)] = &[
    ("user", Account::of_user(USER)),
    ("other-user", Account::of_user(OTHER_USER + 1)),
    ("administrator", Account::of_administrator(ADMINISTRATOR)),
    ("debug-privilege", Account::of_administrator(ADMINISTRATOR).with_debug_privilege()),
    ("low-integrity", Account::of_user(USER).at(Integrity::Low)),
];
