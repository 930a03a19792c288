//! Faults to inject into the agent, each one described by a design document: tests check that they are detected.
//!
//! `explores` are those that the model's exploration of a whole recording finds (`crates/model/clr-model/tests/explore.rs`). `others` need
//! a test of their own. The words after a fault's name are the clauses whose tests must fail: `cargo xtask contract --mutate` runs them.
//!
//! Without the feature `fault-injection` all of this is constant and compiles to nothing. The shipped library is never built with it.

macro_rules! switches {
    (explores { $($(#[doc = $doc:literal])+ $name:ident: $clauses:literal,)+ }
     others { $($(#[doc = $other_doc:literal])+ $other:ident: $other_clauses:literal,)+ }) => {
        /// One fault of the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "fault-injection"), allow(dead_code, reason = "the model's host knows the rest"))]
        pub enum InjectedFault {
            $($(#[doc = $doc])+ $name,)+
            $($(#[doc = $other_doc])+ $other,)+
        }

        #[cfg(feature = "fault-injection")]
        impl InjectedFault {
            /// All faults that an exploration finds, each with its effect.
            pub const ALL: &[(InjectedFault, &str)] = &[$((InjectedFault::$name, concat!($($doc),+)),)+];

            /// All faults by their names.
            const NAMES: &[(InjectedFault, &str)] = &[
                $((InjectedFault::$name, stringify!($name)),)+
                $((InjectedFault::$other, stringify!($other)),)+
            ];
        }
    };
}

switches! {
    explores {
        /// Enumerates modules in InitializeForAttach.
        EnumerateTooEarly: "CAT-02",
        /// Requests the detach before ProfilerAttachComplete.
        NotWaitForAttachComplete: "DET-16",
        /// Trusts its method cache although an unload has been reported since.
        KeepUnloadedMethods: "CAT-09",
        /// Lets an unload continue during the look-up of its code.
        SkipUnloadBarrier: "CAT-09",
        /// Lets an unload continue while samples from before it still wait.
        ReleaseUnloadsEarly: "CAT-09",
        /// Counts an unload notice twice.
        CountUnloadsTwice: "CAT-09",
        /// Keeps asking the runtime after an unload has timed out.
        AskAfterUnloadTimeout: "CAT-09",
        /// Asks the runtime after its shutdown callback.
        AskAfterShutdown: "DET-17",
        /// Requests the detach although its callbacks no longer arrive.
        DetachWithoutCallbacks: "DET-18",
        /// Does not notice that the recorder has disconnected.
        IgnoreDisconnect: "DET-16",
        /// Requests the detach during a callback that the runtime does not count.
        NotWaitForOwnCallbacks: "DET-07",
        /// Enables ReJIT in its event mask.
        EnableRejit: "DET-16",
        /// Requests the detach although the resource registry lists an open resource.
        IgnoreRegistry: "DET-04",
        /// Loses a sample without counting it.
        HideLoss: "",
        /// Requests the detach before the worker thread has ended.
        SkipJoin: "DET-04",
        /// Stops sampling by a flag alone, and does not wait for running handlers.
        StopByFlagOnly: "",
        /// Leaves its timers armed, and only removes them from the resource registry.
        LeaveTimersArmed: "DET-04",
        /// Holds no reference on the library while it requests the detach.
        TakeNoReference: "DET-05",
        /// Never releases its reference on the library.
        LeakReference: "DET-14",
        /// Releases its reference on the library while the thread still runs there.
        DropReferenceEarly: "DET-08",
        /// Never releases its callback object.
        LeakCallbackObject: "DET-10",
    }
    others {
        /// Ignores the recorder's request to detach.
        IgnoreDetachRequest: "DET-01",
        /// Samples although the recorder has given the attach up.
        SampleWithoutRecorder: "ATT-08",
        /// Does not ask again after it has asked inside Initialize.
        AskOnce: "DET-13",
        /// Hands over an expected detach time of 0.
        MeasureNoCallback: "DET-15",
        /// Answers that exceptions are watched whatever the runtime said.
        HideRefusal: "CTL-01",
        /// Takes a module's id for the same module after its unload.
        KeepUnloadedModules: "CAT-05 CAT-06 CAT-09",
        /// Does not describe a module whose id was used before.
        NameModulesOnce: "CAT-05",
        /// While it tracks the heap, does not notice that the recorder has disconnected.
        IgnoreDisconnectInWatch: "",
        /// Counts new objects whatever it costs.
        CountAtAnyCost: "GCH-02 GCH-03",
        /// Reports what is left of a collection that it did not see begin.
        ReportLeftovers: "GCH-01",
        /// Reports moved objects at their old addresses.
        KeepOldAddresses: "GCH-03",
        /// Reports only the objects that moved.
        ForgetSurvivors: "GCH-03",
        /// Loses a part of a collection's report without counting it.
        HideTrackingLoss: "GCH-03",
        /// Never reports new objects.
        ForgetNewborns: "GCH-04",
        /// Does not report how many objects were allocated.
        ForgetAllocations: "GCH-04",
    }
}

/// The variable that injects a fault into every agent of a process.
#[cfg(feature = "fault-injection")]
const VARIABLE: &str = "REMORA_INJECTED_FAULT";

#[cfg(feature = "fault-injection")]
std::thread_local! {
    static ON: std::cell::Cell<Option<InjectedFault>> = const { std::cell::Cell::new(None) };
}

/// Injects one fault into the agents on this thread, and removes every other, except one of the environment.
#[cfg(feature = "fault-injection")]
pub fn inject(what: Option<InjectedFault>) {
    ON.set(what);
}

/// Whether this fault is injected.
#[cfg(feature = "fault-injection")]
pub fn is_injected(what: InjectedFault) -> bool {
    ON.get().or_else(of_environment) == Some(what)
}

/// The fault that the environment names. An unknown name would break nothing, and every test would pass.
#[cfg(feature = "fault-injection")]
fn of_environment() -> Option<InjectedFault> {
    static NAMED: std::sync::OnceLock<Option<InjectedFault>> = std::sync::OnceLock::new();
    *NAMED.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok()?;
        let found = InjectedFault::NAMES.iter().find(|(_, known)| *known == name);
        assert!(found.is_some(), "{VARIABLE} says `{name}`, which is no fault of the agent");
        found.map(|(fault, _)| *fault)
    })
}

/// Whether this fault is injected: never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn is_injected(_what: InjectedFault) -> bool {
    false
}
