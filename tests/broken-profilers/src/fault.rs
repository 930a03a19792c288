//! The possible faults, and the fault of this copy.

use std::ffi::CStr;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident = $name:literal,)+) => {
        /// A fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            /// None; it requests its detach in a callback.
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
    /// None; its own thread requests the detach, with a reference on the library until its end.
    OwnThread = "honest-thread",
    /// None; it never requests its detach.
    Stays = "stays",
    /// Its class factory makes no object.
    RefusesInstance = "refuses-instance",
    /// DllGetClassObject refuses.
    RefusesClass = "refuses-class",
    /// Its object has no ICorProfilerCallback3.
    IsTooOld = "is-too-old",
    /// InitializeForAttach refuses, which is allowed.
    RefusesAttach = "refuses-attach",
    /// None; it refuses its attach after its thread has ended.
    JoinsBeforeRefusal = "joins-before-refusal",
    /// None; it refuses its attach, and its destructor joins its thread.
    JoinsAtUnload = "joins-at-unload",
    /// It refuses its attach while its thread runs in the library.
    RefusesWithThread = "refuses-with-thread",
    /// It refuses its attach while its thread sleeps in the library.
    RefusesWithSleeper = "refuses-with-sleeper",
    /// It refuses its attach while its thread, which holds a reference on the library, runs.
    RefusesWithHolder = "refuses-with-holder",
    /// It refuses its attach while its thread runs, and its destructor frees what the thread uses.
    RefusesAndFrees = "refuses-and-frees",
    /// It refuses its attach while its thread runs, and its last Release frees what the thread uses.
    FreesAtRelease = "frees-at-release",
    /// None; it only works from startup, and does nothing when it is attached.
    OnlyFromStart = "only-from-start",
    /// Its Initialize never returns.
    HangsInInitialize = "hangs-in-initialize",
    /// None; it requests its detach after more than a second.
    DetachesLate = "detaches-late",
    /// None; it writes to standard output.
    WritesToStdout = "writes-to-stdout",
    /// It closes every descriptor of the process.
    ClosesDescriptors = "closes-descriptors",
    /// None; it starts a process, and waits for its end.
    StartsProcess = "starts-process",
    /// It forks, and the copy goes on as if it was the target.
    Forks = "forks",
    /// It writes much to standard error, with control characters, and crashes when a module has loaded.
    CrashesLoudly = "crashes-loudly",
    /// Its constructor crashes.
    CrashesOnLoad = "crashes-on-load",
    /// Its constructor ends the process.
    ExitsOnLoad = "exits-on-load",
    /// Its constructor never returns.
    HangsOnLoad = "hangs-on-load",
    /// Its destructor never returns.
    HangsAtUnload = "hangs-at-unload",
    /// The same, on its own thread, which has the last reference on the library.
    HangsAtOwnUnload = "hangs-at-own-unload",
    /// The same, and it stays until the process exits.
    HangsAtExit = "hangs-at-exit",
    /// An exception of another language leaves its constructor.
    ThrowsOnLoad = "throws-on-load",
    /// It crashes when a module has loaded.
    Crashes = "crashes",
    /// An exception of another language leaves its callback when a module has loaded.
    Throws = "throws",
    /// It ends the process when a module has loaded.
    Exits = "exits",
    /// It enumerates before ProfilerAttachComplete.
    EnumeratesEarly = "enumerates-early",
    /// It requests flags that are forbidden for attached profilers.
    ForbiddenFlags = "forbidden-flags",
    /// It enables ReJIT, which forbids its detach, and then requests its detach.
    SetsRejit = "sets-rejit",
    /// None; it gives methods new bodies by ReJIT, reverts them, and stays.
    Rejits = "honest-rejit",
    /// It gives the body after GetReJITParameters has returned.
    GivesBodyTooLate = "gives-body-too-late",
    /// It gives two bodies for one method.
    GivesTwoBodies = "gives-two-bodies",
    /// It gives an empty body, and ignores the error.
    GivesEmptyBody = "gives-empty-body",
    /// It gives a body that ends too early.
    GivesCutBody = "gives-cut-body",
    /// It requests ReJIT in a callback where the runtime refuses it.
    RejitsInSuspension = "rejits-in-suspension",
    /// It requests ReJIT in a module that is unloaded.
    RejitsUnloaded = "rejits-unloaded",
    /// None; it is notification-only, and its own thread requests the detach after ProfilerAttachComplete.
    OnlyNotified = "honest-notified",
    /// It is notification-only, and requests its detach before ProfilerAttachComplete.
    DetachesUnheard = "detaches-unheard",
    /// It queries a module that is unloaded.
    StaleId = "stale-id",
    /// It queries a module that is unloaded, by the first form of the call.
    StaleIdFirstForm = "stale-id-first-form",
    /// A callback never returns.
    NeverReturns = "never-returns",
    /// Its QueryInterface for ICorProfilerCallback3 never returns.
    HangsInQuery = "hangs-in-query",
    /// Its answer whether it is notification-only never comes.
    HangsBeforeAttach = "hangs-before-attach",
    /// It suspends the runtime, never resumes it, and stays.
    LeavesSuspended = "leaves-suspended",
    /// Shutdown takes three seconds, as where it waits for a thread that looks now and then.
    SlowShutdown = "slow-shutdown",
    /// Shutdown never returns.
    HangsInShutdown = "hangs-in-shutdown",
    /// Shutdown releases what its callbacks use, so that they crash from then on.
    CrashesAfterShutdown = "crashes-after-shutdown",
    /// Shutdown crashes.
    CrashesInShutdown = "crashes-in-shutdown",
    /// A callback never returns, and beside it a thread of the profiler is in uninterruptible sleep for a minute.
    HangsBesideSleeper = "hangs-beside-sleeper",
    /// ProfilerDetachSucceeded is in uninterruptible sleep for five seconds, as on a slow disk. Then it needs another half second.
    SleepsUninterruptibly = "sleeps-uninterruptibly",
    /// ProfilerDetachSucceeded never returns.
    HangsInDetachSucceeded = "hangs-in-detach-succeeded",
    /// None; it requests GC callbacks inside InitializeForAttach, and refuses its attach if they are not granted.
    WatchesCollections = "honest-collections",
    /// It requests them too late, ignores the error, and forces a GC.
    IgnoresRefusal = "ignores-refusal",
    /// It requests them too late, ignores the error, and waits for a GC.
    WaitsAfterRefusal = "waits-after-refusal",
    /// It never releases a reference on its object.
    KeepsReference = "keeps-reference",
    /// It never releases an enumerator.
    KeepsEnumerator = "keeps-enumerator",
    /// It leaves a thread.
    LeavesThread = "leaves-thread",
    /// It leaves a thread, and uses up all descriptors, so that its process cannot be inspected.
    HidesThread = "hides-thread",
    /// It uses up all descriptors, and leaves nothing else.
    TakesDescriptors = "takes-descriptors",
    /// None; while another thread requests the detach, one waits for a child and ignores signals meanwhile, as `system` does.
    WaitsForChild = "waits-for-child",
    /// None; the same, and the child lives on until the request was accepted: the runtime waits for the callback that waits for it.
    KeepsChildInCallback = "keeps-child-in-callback",
    /// A callback leaves a child, and returns only after another thread has requested the detach.
    LeavesChildInCallback = "leaves-child-in-callback",
    /// None; it sends a signal to every thread of the process. The handler needs a descriptor, and ends the process without it.
    SignalsThreads = "signals-threads",
    /// None; ModuleLoadStarted blocks a signal, and ModuleLoadFinished unblocks it.
    PairsSignals = "pairs-signals",
    /// None; its own threads filter their system calls.
    FiltersOwnThreads = "filters-own-threads",
    /// It filters the system calls of the whole process.
    FiltersProcess = "filters-process",
    /// It forbids the process to start threads.
    DeniesThreads = "denies-threads",
    /// It forbids the process to open files.
    DeniesFiles = "denies-files",
    /// It forbids the process to list folders, and leaves a thread.
    DeniesFolders = "denies-folders",
    /// It forbids the process to sleep.
    DeniesSleep = "denies-sleep",
    /// It has the system end the process where it sleeps.
    KillsAtSleep = "kills-at-sleep",
    /// It changes the root directory of the process.
    ChangesRoot = "changes-root",
    /// It leaves a child in a new PID namespace. The process can start no thread any more.
    ChangesNamespace = "changes-namespace",
    /// It changes the user and the group of the process.
    ChangesUser = "changes-user",
    /// No profiler, for LD_PRELOAD: it filters the system calls of the program.
    FiltersProgram = "filters-program",
    /// No profiler, for LD_PRELOAD: the program and its descendants have a tracer.
    TracesProgram = "traces-program",
    /// No profiler, for LD_PRELOAD: the same, and the tracer delays close_range by some seconds.
    DelaysProgram = "delays-program",
    /// It ignores a signal for good.
    IgnoresSignal = "ignores-signal",
    /// It changes working directory, file mask, a limit, and the signal mask of the runtime's thread.
    ChangesProcess = "changes-process",
    /// It limits the memory of the process.
    LimitsMemory = "limits-memory",
    /// It limits the open files of the process.
    LimitsFiles = "limits-files",
    /// It limits the open files of the process to none, for good.
    ForbidsFiles = "forbids-files",
    /// It limits the memory of the process, for good, when its object is released.
    ForbidsMemory = "forbids-memory",
    /// It limits the memory of the process, for good, while the runtime still needs more for its work.
    ForbidsMemoryEarly = "forbids-memory-early",
    /// It limits the CPU time of the process to none, for good.
    ForbidsTime = "forbids-time",
    /// It limits the open files of the process a little, and aborts for another reason.
    AbortsUnderLimit = "aborts-under-limit",
    /// None; it opens many files, and closes them.
    OpensManyFiles = "honest-many-files",
    /// It renames the process, and ends it.
    RenamesProcess = "renames-process",
    /// Two callbacks never return. The first one blocks all signals.
    HangsTwice = "hangs-twice",
    /// A callback calls `exit` while one of another thread runs.
    ExitsBesideAnother = "exits-beside-another",
    /// Its constructor crashes when the library is loaded for the second time.
    CrashesOnSecondLoad = "crashes-on-second-load",
    /// Its constructor takes longer than a callback may.
    SlowOnLoad = "slow-on-load",
    /// It ends the process on a thread of its own, without `exit`.
    EndsOnOwnThread = "ends-on-own-thread",
    /// Its destructor ends the process with another status.
    EndsAtExit = "ends-at-exit",
    /// None; it needs the C++ library that is in the process of every runtime.
    NeedsCppLibrary = "honest-needs-cpp-library",
    /// None; Shutdown loads the library that the client data name, which takes long. Another thread does nothing.
    LoadsInShutdown = "honest-loads-in-shutdown",
    /// It aborts just before it would request the detach, later than a run waits that expects no request.
    AbortsBeforeRequest = "aborts-before-request",
    /// It replaces the process with another program.
    Execs = "execs",
    /// It replaces the process with another program, which never ends.
    ExecsForEver = "execs-for-ever",
    /// A thread of the program asks its parent to trace it.
    LetsItselfBeTraced = "lets-itself-be-traced",
    /// It deletes its own file.
    RemovesFile = "removes-file",
    /// It leaves thread-specific values with a destructor.
    LeavesKey = "leaves-key",
    /// It ends the thread of the program that calls it.
    EndsThread = "ends-thread",
    /// It passes addresses that are not aligned.
    MisalignsPlace = "misaligns-place",
    /// It uses ids that do not exist in calls that have newer forms.
    AsksByOldForms = "asks-by-old-forms",
    /// It leaves a timer.
    LeavesTimer = "leaves-timer",
    /// It leaves an interval timer.
    LeavesIntervalTimer = "leaves-interval-timer",
    /// It leaves a thread that continues to call the runtime, even after the unload.
    AsksForEver = "asks-for-ever",
    /// It leaves a signal handler.
    LeavesHandler = "leaves-handler",
    /// It leaves a child.
    LeavesChild = "leaves-child",
    /// It leaves a child that is one of the process's parent.
    LeavesSibling = "leaves-sibling",
    /// It leaves a child in its own session, and the process never ends by itself.
    LeavesDaemon = "leaves-daemon",
    /// Its parent traces one of its threads, as a debugger does, and the thread never ends by itself.
    IsTraced = "is-traced",
    /// It stops its process.
    Stops = "stops",
    /// It leaves an EventPipe session.
    LeavesSession = "leaves-session",
    /// It sets an environment variable of the process.
    SetsVariable = "sets-variable",
    /// It leaves an EventPipe provider.
    LeavesProvider = "leaves-provider",
    /// It leaves a function that the exit of the process calls. Its own thread requests the detach, with a reference on the library.
    LeavesExitHandler = "leaves-exit-handler",
    /// It leaves a descriptor.
    LeavesDescriptor = "leaves-descriptor",
    /// It never releases a reference on its library.
    PinsLibrary = "pins-library",
    /// It calls the runtime after the detach was accepted.
    CallsAfterSealing = "calls-after-sealing",
    /// It sets no event mask, asks nothing, and stays.
    DoesNothing = "does-nothing",
    /// Its object is static, and its count never becomes 0: harmless, as the object goes with the library.
    StaticObject = "static-object",
    /// It ends the process if ObjectReferences passes no list, and stays.
    WantsList = "wants-list",
    /// None; it asks for the class of each exception that is thrown, and stays.
    WatchesExceptions = "honest-exceptions",
    /// It starts an EventPipe session where an exception is thrown, and stays.
    StartsSessionInException = "starts-session-in-exception",
    /// None; it opens metadata by the runtime's library.
    OpensMetadata = "opens-metadata",
    /// None; it refuses its attach unless an environment variable is set.
    WantsVariable = "wants-variable",
    /// None; it refuses its attach unless the C library knows that variable.
    WantsInherited = "wants-inherited",
    /// It keeps the pointer to its client data, and reads there when a module has loaded.
    KeepsClientData = "keeps-client-data",
    /// None; it refuses its attach unless the client data is the number of its process, or some bytes that are no text.
    WantsClientData = "wants-client-data",
    /// Its own thread requests the detach, and uses what goes with its object.
    UsesObjectAfterDetach = "uses-object-after-detach",
    /// It loads a class by its token in ProfilerAttachComplete.
    LoadsClass = "loads-class",
    /// Its own thread calls the runtime without a reference on the library.
    AsksWithoutReference = "asks-without-reference",
}

/// The fault of this copy.
pub fn fault() -> Fault {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is inside this library, and `own` is valid for writing.
    if unsafe { libc::dladdr(fault as *const () as *const _, &raw mut own) } == 0 || own.dli_fname.is_null() {
        return Fault::None;
    }
    // SAFETY: the linker's name of this library is a C string that lives as long as the library.
    let path = unsafe { CStr::from_ptr(own.dli_fname) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    by_name(file.strip_suffix(b".so").unwrap_or(file))
}
