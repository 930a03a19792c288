//! Ways to break the agent, each as a founding document warns of: so that the model's explorations can be seen to find them.
//!
//! Without the feature `sabotage`, which the library that is loaded into a target is never built with, all of this is constant and gone.

macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One way to break the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "sabotage"), allow(dead_code, reason = "the model's host knows the rest"))]
        pub enum Sabotage { $($(#[doc = $doc])+ $name,)+ }

        #[cfg(feature = "sabotage")]
        impl Sabotage {
            /// All of them, with what each does.
            pub const ALL: &[(Sabotage, &str)] = &[$((Sabotage::$name, concat!($($doc),+)),)+];
        }
    };
}

switches! {
    /// Enumerates modules in InitializeForAttach.
    EnumerateTooEarly,
    /// Asks for the detach although ProfilerAttachComplete has not come.
    NotWaitForAttachComplete,
    /// Trusts what it looked up before over an unload that it was told of since.
    KeepWhatUnloaded,
    /// Lets an unload go on while its code is being looked up.
    NotHoldUnloads,
    /// Lets an unload go on although samples taken before it still wait.
    ServeUnloadsEarly,
    /// Counts a notice of an unload twice.
    CountUnloadsTwice,
    /// Goes on asking although an unload has lost its patience.
    AskOnWhenImpatient,
    /// Asks the runtime although it has said that it shuts down.
    AskAfterShutdown,
    /// Asks for the detach although its callbacks no longer arrive.
    DetachUnheard,
    /// Does not notice that nobody uses it any more.
    OverhearHangUp,
    /// Asks for the detach while a callback still runs that the runtime does not count.
    NotWaitForOwnCallbacks,
    /// Puts rejit into its mask.
    EnableRejit,
    /// Asks for the detach although the register says that a way in is open.
    IgnoreTheRegister,
    /// Loses a sample without counting it.
    LoseInSilence,
    /// Asks for the detach before the thread that works has ended.
    NotJoin,
    /// Stops sampling by a flag alone, and does not wait for the handlers that run.
    StopByFlagAlone,
    /// Leaves its timers armed, and closes them in the register alone.
    LeaveTimersArmed,
    /// Holds no reference of its own on the library while it asks for the detach.
    HoldNoReference,
    /// Never gives its reference on the library back.
    KeepTheReference,
}

#[cfg(feature = "sabotage")]
std::thread_local! {
    static ON: std::cell::Cell<Option<Sabotage>> = const { std::cell::Cell::new(None) };
}

/// Switches one on for the agents that run on this thread, and every other one off.
#[cfg(feature = "sabotage")]
pub fn break_this_thread(what: Option<Sabotage>) {
    ON.set(what);
}

/// Whether the agent is broken in this way.
#[cfg(feature = "sabotage")]
pub fn is_on(what: Sabotage) -> bool {
    ON.get() == Some(what)
}

/// Whether the agent is broken in this way: never.
#[cfg(not(feature = "sabotage"))]
pub(crate) const fn is_on(_what: Sabotage) -> bool {
    false
}
