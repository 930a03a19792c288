//! Faults to inject into the agent, each one described by a design document: tests check that the model's exploration finds them.
//!
//! Without the feature `fault-injection` all of this is constant and compiles to nothing. The shipped library is never built with it.

macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One fault of the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "fault-injection"), allow(dead_code, reason = "the model's host knows the rest"))]
        pub enum InjectedFault { $($(#[doc = $doc])+ $name,)+ }

        #[cfg(feature = "fault-injection")]
        impl InjectedFault {
            /// All faults, each with its effect.
            pub const ALL: &[(InjectedFault, &str)] = &[$((InjectedFault::$name, concat!($($doc),+)),)+];
        }
    };
}

switches! {
    /// Enumerates modules in InitializeForAttach.
    EnumerateTooEarly,
    /// Requests the detach before ProfilerAttachComplete.
    NotWaitForAttachComplete,
    /// Trusts its method cache although an unload has been reported since.
    KeepUnloadedMethods,
    /// Lets an unload continue during the look-up of its code.
    SkipUnloadBarrier,
    /// Lets an unload continue while samples from before it still wait.
    ReleaseUnloadsEarly,
    /// Counts an unload notice twice.
    CountUnloadsTwice,
    /// Keeps asking the runtime after an unload has timed out.
    AskAfterUnloadTimeout,
    /// Asks the runtime after its shutdown callback.
    AskAfterShutdown,
    /// Requests the detach although its callbacks no longer arrive.
    DetachWithoutCallbacks,
    /// Does not notice that the recorder has disconnected.
    IgnoreDisconnect,
    /// Requests the detach during a callback that the runtime does not count.
    NotWaitForOwnCallbacks,
    /// Enables ReJIT in its event mask.
    EnableRejit,
    /// Requests the detach although the resource registry lists an open resource.
    IgnoreRegistry,
    /// Loses a sample without counting it.
    HideLoss,
    /// Requests the detach before the worker thread has ended.
    SkipJoin,
    /// Stops sampling by a flag alone, and does not wait for running handlers.
    StopByFlagOnly,
    /// Leaves its timers armed, and only removes them from the resource registry.
    LeaveTimersArmed,
    /// Holds no reference on the library while it requests the detach.
    TakeNoReference,
    /// Never releases its reference on the library.
    LeakReference,
}

#[cfg(feature = "fault-injection")]
std::thread_local! {
    static ON: std::cell::Cell<Option<InjectedFault>> = const { std::cell::Cell::new(None) };
}

/// Injects one fault into the agents on this thread, and removes every other.
#[cfg(feature = "fault-injection")]
pub fn inject(what: Option<InjectedFault>) {
    ON.set(what);
}

/// Whether this fault is injected.
#[cfg(feature = "fault-injection")]
pub fn is_injected(what: InjectedFault) -> bool {
    ON.get() == Some(what)
}

/// Whether this fault is injected: never.
#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn is_injected(_what: InjectedFault) -> bool {
    false
}
