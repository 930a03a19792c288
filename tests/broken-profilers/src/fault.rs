//! What can be wrong, and what is wrong with this copy.

use std::ffi::CStr;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident = $name:literal,)+) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            /// Nothing; it asks for its detach in a callback.
            None,
            $($(#[doc = $doc])+ $fault,)+
        }

        fn by_name(name: &[u8]) -> Fault {
            $(if name == $name.as_bytes() { return Fault::$fault; })+
            Fault::None
        }
    };
}

faults! {
    /// Nothing either; a thread of its own asks, which holds the library until its end.
    OwnThread = "honest-thread",
    /// Nothing; it never asks for its detach.
    Stays = "stays",
    /// Its class factory makes no object.
    RefusesInstance = "refuses-instance",
    /// DllGetClassObject refuses.
    RefusesClass = "refuses-class",
    /// Its object has no ICorProfilerCallback3.
    IsTooOld = "is-too-old",
    /// InitializeForAttach refuses, as it may.
    RefusesAttach = "refuses-attach",
    /// Its constructor crashes.
    CrashesOnLoad = "crashes-on-load",
    /// Its constructor ends the process.
    ExitsOnLoad = "exits-on-load",
    /// Its constructor never returns.
    HangsOnLoad = "hangs-on-load",
    /// It crashes when a module has loaded.
    Crashes = "crashes",
    /// It ends the process when a module has loaded.
    Exits = "exits",
    /// It enumerates before ProfilerAttachComplete.
    EnumeratesEarly = "enumerates-early",
    /// It asks for flags that are not for attached profilers.
    ForbiddenFlags = "forbidden-flags",
    /// It asks for rejit, which forbids its detach, and then for its detach.
    SetsRejit = "sets-rejit",
    /// Nothing; it is only notified, and asks on a thread of its own once ProfilerAttachComplete has come.
    OnlyNotified = "honest-notified",
    /// It is only notified, and asks for its detach although ProfilerAttachComplete has not come.
    DetachesUnheard = "detaches-unheard",
    /// It asks about a module that is gone.
    StaleId = "stale-id",
    /// A callback never returns.
    NeverReturns = "never-returns",
    /// It never answers whether its object has ICorProfilerCallback3.
    HangsInQuery = "hangs-in-query",
    /// It never answers whether it is only to be notified.
    HangsBeforeAttach = "hangs-before-attach",
    /// It suspends the runtime, never resumes it, and stays.
    LeavesSuspended = "leaves-suspended",
    /// Shutdown never returns.
    HangsInShutdown = "hangs-in-shutdown",
    /// ProfilerDetachSucceeded never returns.
    HangsInDetachSucceeded = "hangs-in-detach-succeeded",
    /// Nothing; it asks to be told of collections inside InitializeForAttach, where that is granted, and else refuses its attach.
    WatchesCollections = "honest-collections",
    /// It asks for that too late, does not look at the answer, and forces a collection.
    IgnoresRefusal = "ignores-refusal",
    /// It asks for that too late, does not look at the answer, and waits for a collection.
    WaitsAfterRefusal = "waits-after-refusal",
    /// A reference on its object is never given back.
    KeepsReference = "keeps-reference",
    /// An enumerator is never given back.
    KeepsEnumerator = "keeps-enumerator",
    /// A thread is left behind.
    LeavesThread = "leaves-thread",
    /// A thread is left behind, and no descriptor is left for who wants to see it.
    HidesThread = "hides-thread",
    /// A timer is left behind.
    LeavesTimer = "leaves-timer",
    /// An interval timer is left behind.
    LeavesIntervalTimer = "leaves-interval-timer",
    /// A thread is left behind that goes on to ask the runtime, after the unload, too.
    AsksForEver = "asks-for-ever",
    /// A signal handler is left behind.
    LeavesHandler = "leaves-handler",
    /// A child is left behind.
    LeavesChild = "leaves-child",
    /// A child in a session of its own is left behind, and the process never ends by itself.
    LeavesDaemon = "leaves-daemon",
    /// One of its threads is traced by its parent, as a debugger does, and never ends by itself.
    IsTraced = "is-traced",
    /// It stops its process.
    Stops = "stops",
    /// An EventPipe session is left behind.
    LeavesSession = "leaves-session",
    /// A descriptor is left behind.
    LeavesDescriptor = "leaves-descriptor",
    /// A reference on its library is never given back.
    PinsLibrary = "pins-library",
    /// It calls the runtime after the detach was accepted.
    CallsAfterSealing = "calls-after-sealing",
    /// A thread of its own asks without a reference on the library.
    AsksWithoutReference = "asks-without-reference",
}

/// Of this copy.
pub fn fault() -> Fault {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address inside this library, and a place for the answer.
    if unsafe { libc::dladdr(fault as *const () as *const _, &raw mut own) } == 0 || own.dli_fname.is_null() {
        return Fault::None;
    }
    // SAFETY: the linker's name of this library, which lives as long as it.
    let path = unsafe { CStr::from_ptr(own.dli_fname) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    by_name(file.strip_suffix(b".so").unwrap_or(file))
}
