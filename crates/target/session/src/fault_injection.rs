//! Ways to break the agent, each as a founding document warns of: so that the model's explorations can be seen to find them.
//!
//! Without the feature `fault-injection`, which the library that is loaded into a target is never built with, all of this is constant and gone.

macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One way to break the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "fault-injection"), allow(dead_code, reason = "the model's host knows the rest"))]
        pub enum InjectedFault { $($(#[doc = $doc])+ $name,)+ }

        #[cfg(feature = "fault-injection")]
        impl InjectedFault {
            /// All of them, with what each does.
            pub const ALL: &[(InjectedFault, &str)] = &[$((InjectedFault::$name, concat!($($doc),+)),)+];
        }
    };
}

switches! {
    /// Enumerates modules in InitializeForAttach.
    EnumerateTooEarly,
    /// Asks for the detach although ProfilerAttachComplete has not come.
    NotWaitForAttachComplete,
    /// Trusts what it looked up before over an unload that it was told of since.
    KeepUnloadedMethods,
    /// Lets an unload go on while its code is being looked up.
    SkipUnloadBarrier,
    /// Lets an unload go on although samples taken before it still wait.
    ReleaseUnloadsEarly,
    /// Counts a notice of an unload twice.
    CountUnloadsTwice,
    /// Goes on asking although an unload has lost its patience.
    AskAfterUnloadTimeout,
    /// Asks the runtime although it has said that it shuts down.
    AskAfterShutdown,
    /// Asks for the detach although its callbacks no longer arrive.
    DetachWithoutCallbacks,
    /// Does not notice that nobody uses it any more.
    IgnoreDisconnect,
    /// Asks for the detach while a callback still runs that the runtime does not count.
    NotWaitForOwnCallbacks,
    /// Puts rejit into its mask.
    EnableRejit,
    /// Asks for the detach although the register says that a way in is open.
    IgnoreRegistry,
    /// Loses a sample without counting it.
    HideLoss,
    /// Asks for the detach before the thread that works has ended.
    SkipJoin,
    /// Stops sampling by a flag alone, and does not wait for the handlers that run.
    StopByFlagOnly,
    /// Leaves its timers armed, and closes them in the register alone.
    LeaveTimersArmed,
    /// Holds no reference of its own on the library while it asks for the detach.
    TakeNoReference,
    /// Never gives its reference on the library back.
    LeakReference,
}

#[cfg(feature = "fault-injection")]
std::thread_local! {
    static ON: std::cell::Cell<Option<InjectedFault>> = const { std::cell::Cell::new(None) };
}

/// Switches one on for the agents that run on this thread, and every other one off.
#[cfg(feature = "fault-injection")]
pub fn inject(what: Option<InjectedFault>) {
    ON.set(what);
}

/// Whether the agent is broken in this way.
#[cfg(feature = "fault-injection")]
pub fn is_injected(what: InjectedFault) -> bool {
    ON.get() == Some(what)
}

/// Whether the agent is broken in this way: never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn is_injected(_what: InjectedFault) -> bool {
    false
}
