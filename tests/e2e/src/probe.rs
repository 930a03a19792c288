//! A target with the probe profiler: `tests/probe` asks the test at each step what to do, on the thread of that step.
//!
//! A [`Stage`] is the target and the socket that the probe connects to. A [`Seat`] is a place inside the target where the test can act: a
//! blocked callback, or a thread of the probe. Seats arrive in any order and are distinguished by name.

mod seat;

pub use seat::{Seat, User};

use crate::diagnostics::{Request, Trigger, Wish};
use crate::{Facts, Runtime, Start, TIMEOUT, Target, diagnostics, expected, folder, until};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The probe's class, in the byte order that the runtime passes.
pub const CLASS: [u8; 16] = *b"omeRarrPobe\0\0\0\0\x01";
/// The class of the probe as a version 2 profiler, without ICorProfilerCallback3.
pub const OLD_CLASS: [u8; 16] = *b"omeRarrPobe\0\0\0\0\x02";
/// The class of the probe as a notification-only profiler, on runtimes that have these.
pub const NOTIFIED_CLASS: [u8; 16] = *b"omeRarrPobe\0\0\0\0\x03";
/// The class of the probe as a second main profiler.
pub const OTHER_CLASS: [u8; 16] = *b"omeRarrPobe\0\0\0\0\x04";
/// The class of the probe as a profiler that writes down how the runtime reaches it.
pub const ROAD_CLASS: [u8; 16] = *b"omeRarrPobe\0\0\0\0\x05";
/// The first two in the environment variable's format.
const CLASS_TEXT: &str = "{52656D6F-7261-5072-6F62-650000000001}";
const OLD_CLASS_TEXT: &str = "{52656D6F-7261-5072-6F62-650000000002}";
/// The setting for the longest sleep, milliseconds in hexadecimal, with both prefixes.
const LONGEST_SLEEP: [&str; 2] = ["COMPlus_ProfAPI_DetachMaxSleepMs", "DOTNET_ProfAPI_DetachMaxSleepMs"];
/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// The maximum size of a diagnostics protocol message.
const LONGEST_MESSAGE: usize = 65_535;
/// Fixed-length parts of the attach message: header, timeout, class, two lengths.
const FIXED_PARTS: usize = 20 + 4 + 16 + 4 + 4;

/// A target, and the socket for its probe.
pub struct Stage {
    target: Target,
    listener: UnixListener,
    aside: RefCell<Vec<Seat>>,
    _folder: tempfile::TempDir,
}

/// A pending attach.
pub struct Attaching(Request);

/// A step of a detach where the probe can block it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachStep {
    /// A callback still runs, and the runtime looks again and again.
    Evacuation,
    /// The profiler is told of its detach.
    Told,
    /// The linker frees the library.
    Freed,
}

impl DetachStep {
    /// In the order of a detach.
    pub const ALL: [DetachStep; 3] = [DetachStep::Evacuation, DetachStep::Told, DetachStep::Freed];
}

/// The runtime's detach thread.
pub struct DetachThread {
    process: u32,
    thread: u32,
}

impl Stage {
    /// The program `obedient` on this runtime, ready.
    pub fn start(runtime: &Runtime) -> Stage {
        Stage::set(runtime, Start::ready)
    }

    /// Another program with the same protocol.
    pub fn start_program(runtime: &Runtime, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Stage {
        let more = |start: Start, (name, value): &(&str, &str)| start.env(name, value);
        Stage::set_program(runtime, program, |start| variables.iter().fold(start.args(arguments), more).ready())
    }

    /// The same without concurrent GC.
    pub fn start_without_concurrent_collector(runtime: &Runtime) -> Stage {
        Stage::set(runtime, |start| start.env("COMPlus_gcConcurrent", "0").env("DOTNET_gcConcurrent", "0").ready())
    }

    /// The same with the runtime's own limits for its sleep between two checks whether a profiler may be unloaded.
    pub fn start_with_usual_sleeps(runtime: &Runtime) -> Stage {
        Stage::set(runtime, |mut start| {
            for variable in LONGEST_SLEEP {
                start.command().env_remove(variable);
            }
            start.ready()
        })
    }

    /// The same through a shell script, see [`Start::behind`], with these variables for it. The script may change the target's user,
    /// which can still connect to the test.
    pub fn start_behind(runtime: &Runtime, script: &str, variables: &[(&str, &Path)]) -> Stage {
        let more = |start: Start, (name, value): &(&str, &Path)| start.env(name, value);
        Stage::set(runtime, |start| variables.iter().fold(start.behind(script), more).ready())
    }

    /// The same with these variables.
    pub fn start_with(runtime: &Runtime, variables: &[(&str, &str)]) -> Stage {
        let more = |start: Start, (name, value): &(&str, &str)| start.env(name, value);
        Stage::set(runtime, |start| variables.iter().fold(start, more).ready())
    }

    /// The same with a runtime that waits at its start for a resume command, and is not ready yet. .NET 5 and later.
    pub fn start_held(runtime: &Runtime) -> Stage {
        let stage = Stage::set(runtime, |start| start.env("DOTNET_DefaultDiagnosticPortSuspend", "1").spawn());
        until("the runtime listens", || diagnostics::found_socket_of(stage.pid()).is_some());
        stage
    }

    /// Resumes such a runtime, and waits until the target is ready.
    pub fn go_on(&mut self) {
        const RESUME_RUNTIME: (u8, u8) = (4, 1);
        let answer = diagnostics::command(self.pid(), RESUME_RUNTIME.0, RESUME_RUNTIME.1, &[]);
        assert!(answer.is_ok(), "the runtime does not go on: {answer:?}");
        // A runtime that has waited for some seconds prints a line before.
        while self.target.read_line() != "ready" {}
    }

    /// The same with the environment that makes the runtime load the probe; it waits in `Initialize` and is not ready yet.
    pub fn start_profiled(runtime: &Runtime) -> Stage {
        Stage::set(runtime, |start| named(start, CLASS_TEXT).spawn())
    }

    /// The same with the probe as a version 2 profiler, and with these further variables.
    pub fn start_profiled_by_old(runtime: &Runtime, variables: &[(&str, &str)]) -> Stage {
        let more = |start: Start, (name, value): &(&str, &str)| start.env(name, value);
        Stage::set(runtime, |start| variables.iter().fold(named(start, OLD_CLASS_TEXT), more).spawn())
    }

    fn set(runtime: &Runtime, start: impl FnOnce(Start) -> Target) -> Stage {
        Stage::set_program(runtime, "obedient", start)
    }

    fn set_program(runtime: &Runtime, program: &str, start: impl FnOnce(Start) -> Target) -> Stage {
        let folder = folder();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).and_then(|made| made.set_nonblocking(true).map(|()| made));
        let opened = [(folder.path(), 0o755), (&path, 0o777)].map(|(path, mode)| open_to_all(path, mode));
        let listener = opened.into_iter().collect::<std::io::Result<()>>().and(listener);
        let listener = listener.unwrap_or_else(|error| panic!("cannot listen on {}: {error}", path.display()));
        // Background recompilation would cause callbacks at any time.
        let quiet = Start::managed(runtime, program).env("REMORA_PROBE_SOCKET", &path);
        let quiet = quiet.env("COMPlus_TieredCompilation", "0").env("DOTNET_TieredCompilation", "0");
        // Shortens the time between two checks whether a detaching profiler may be unloaded.
        let quiet = LONGEST_SLEEP.iter().fold(quiet, |quiet, variable| quiet.env(variable, "12C"));
        Stage { target: start(quiet), listener, aside: RefCell::default(), _folder: folder }
    }

    /// The target.
    pub fn target(&mut self) -> &mut Target {
        &mut self.target
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.target.pid()
    }

    /// Makes the target do something, and waits for it: `a load`.
    pub fn act(&mut self, what: &str) -> String {
        self.target.ask(what)
    }

    /// Sends a request to attach the probe with this client data, and returns. The runtime answers when the probe lets it.
    pub fn attach(&self, data: &[u8]) -> Attaching {
        self.attach_class(&CLASS, data)
    }

    /// The same with one of the probe's classes.
    pub fn attach_class(&self, class: &[u8; 16], data: &[u8]) -> Attaching {
        self.attach_as(Wish::of(class, &library().to_string_lossy(), data))
    }

    /// The same with another library file.
    pub fn attach_from(&self, file: &Path) -> Attaching {
        self.attach_as(Wish::of(&CLASS, &file.to_string_lossy(), &[]))
    }

    /// The same with a full request.
    pub fn attach_as(&self, wish: Wish) -> Attaching {
        Attaching(Request::to_attach(self.pid(), &wish))
    }

    /// The same, requested by another process.
    pub fn attach_from_another_process(&self) -> Trigger {
        self.attach_from_process(&[])
    }

    /// The same, requested by a process that `words` make another user's.
    pub fn attach_from_process(&self, words: &[&str]) -> Trigger {
        diagnostics::attach_profiler_from_another_process(self.target.pid(), &wish(), words)
    }

    /// An attach whose request the runtime finds in one piece, which .NET Core 3.1 needs: it reads once (`remora_attach::Attach`).
    pub fn attach_at_once(&self, data: &[u8]) -> Attaching {
        self.target.halt();
        let attaching = self.attach(data);
        self.target.go_on();
        attaching
    }

    /// Sends the request, and disconnects before the answer.
    pub fn attach_and_leave(&self) {
        drop(Request::to_attach(self.pid(), &wish()));
    }

    /// A target started with the probe, which ran these orders in `Initialize`; returns a thread of the probe, too.
    pub fn started(runtime: &Runtime, orders: &[&str]) -> (Stage, Seat) {
        let stage = Stage::start_profiled(runtime);
        let mut init = stage.seat("Initialize");
        for order in orders {
            init.done(order);
        }
        init.done("thread");
        init.leave(0);
        assert_eq!(stage.target.read_line(), "ready");
        let own = stage.seat("Thread");
        (stage, own)
    }

    /// Attaches the probe, and blocks its callback for a module load on the target's thread `a`. Returns a thread of the probe, and that
    /// callback.
    pub fn held_in_load(&mut self) -> (Seat, Seat) {
        // The first load also loads its own dependencies.
        self.act("a load");
        let mut own = self.attached(MODULE_LOADS, 0);
        let held = self.hold_load(&mut own);
        (own, held)
    }

    /// [`Stage::held_in_load`], and the runtime's detach thread.
    pub fn held_in_load_with_detach_thread(&mut self) -> (Seat, Seat, DetachThread) {
        self.act("a load");
        let (mut own, detacher) = self.attached_with_detach_thread(MODULE_LOADS);
        let held = self.hold_load(&mut own);
        (own, held, detacher)
    }

    /// Attaches the probe, makes it detach, and blocks that at this step. Returns the place that blocks, and the runtime's detach thread.
    pub fn held_in_detach(&mut self, step: DetachStep) -> (Seat, DetachThread) {
        let (mut own, held, detacher) = self.held_in_load_with_detach_thread();
        match step {
            DetachStep::Evacuation => {}
            DetachStep::Told => _ = own.done("hold ProfilerDetachSucceeded"),
            DetachStep::Freed => _ = own.done("hold Unloading"),
        }
        own.done("detach 300");
        let asked = own.thread();
        own.leave(0);
        if step == DetachStep::Evacuation {
            return (held, detacher);
        }
        // Its own reference on the library is released: the runtime's is the last one.
        until("the asking thread has ended", || !self.threads().contains(&asked));
        held.leave(0);
        let told = self.seat("ProfilerDetachSucceeded");
        if step == DetachStep::Told {
            return (told, detacher);
        }
        self.seat("Released");
        (self.seat("Unloading"), detacher)
    }

    fn hold_load(&mut self, own: &mut Seat) -> Seat {
        own.done("hold ModuleLoadFinished");
        self.act("start a load");
        self.seat("ModuleLoadFinished")
    }

    /// Checks that the probe, which monitors module loads, gets callbacks and answers.
    #[track_caller]
    pub fn is_alive(&mut self, own: &mut Seat) {
        let before = own.count("ModuleLoadFinished");
        assert_eq!(self.act("b load"), "obedient");
        assert!(own.count("ModuleLoadFinished") > before, "no callback comes any more");
        for question in ["modules", "functions", "threads", "getmask", "runtime"] {
            own.done(question);
        }
        assert!(!self.has_come("ProfilerDetachSucceeded"), "a detach that was refused is under way");
    }

    /// Makes the probe request its detach, and waits until it is unloaded.
    #[track_caller]
    pub fn leave(&self, mut own: Seat) {
        own.done("detach 300");
        own.leave(0);
        self.gone();
    }

    /// The same where another profiler of the same library remains, which keeps it mapped.
    #[track_caller]
    pub fn leave_beside(&self, mut own: Seat) {
        own.done("detach 300");
        self.seat("ProfilerDetachSucceeded");
        assert_eq!(own.count("ProfilerDetachSucceeded"), 1, "another one was told of this one's detach");
        self.seat("Released");
        own.leave(0);
        self.detach_is_over();
    }

    /// Returns when the runtime has also finished a detach whose callbacks are all over: then it serves the next attach, here one that
    /// loads nothing.
    #[track_caller]
    pub fn detach_is_over(&self) {
        const MODULE_NOT_FOUND: u32 = 0x8007_007E;
        let answer = diagnostics::attach_profiler(self.pid(), &CLASS, "/nowhere/libremora_probe.so", &[]);
        assert_eq!(answer, Err(MODULE_NOT_FOUND));
    }

    /// [`Stage::attached`], and the runtime's detach thread, which it creates before it loads the first profiler.
    pub fn attached_with_detach_thread(&self, low: u32) -> (Seat, DetachThread) {
        let before = self.threads();
        let attaching = self.attach(&[]);
        let mut init = self.seat("InitializeForAttach");
        let detacher = self.detach_thread_since(&before);
        init.done(&format!("mask {low:#x} 0"));
        init.done("thread");
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()), "the probe cannot attach");
        (self.seat("Thread"), detacher)
    }

    /// The runtime's detach thread, given the threads before the first attach. Call it inside `InitializeForAttach`.
    #[track_caller]
    fn detach_thread_since(&self, before: &BTreeSet<u32>) -> DetachThread {
        let made: Vec<u32> = self.threads().difference(before).copied().collect();
        let [thread] = made[..] else { panic!("the attach made {} threads, not one: {made:?}", made.len()) };
        DetachThread { process: self.pid(), thread }
    }

    /// Requests to the diagnostics port that the runtime has not begun to serve: the kernel lists their connections without an inode.
    pub fn waiting_requests(&self) -> usize {
        self.connections(|_, inode| inode == "0")
    }

    /// Requests that the runtime serves: connections that it has accepted and not closed.
    pub fn served_requests(&self) -> usize {
        const LISTENS: &str = "00010000";
        self.connections(|flags, inode| flags != LISTENS && inode != "0")
    }

    /// Connections to the diagnostics port with such flags and inode.
    fn connections(&self, is_wanted: impl Fn(&str, &str) -> bool) -> usize {
        let path = format!("/dotnet-diagnostic-{}-", self.pid());
        let listed = std::fs::read_to_string("/proc/net/unix");
        let listed = listed.unwrap_or_else(|error| panic!("no list of sockets: {error}"));
        let is_wanted = |line: &&str| {
            // Address, references, protocol, flags, type, state, inode, path.
            let words: Vec<&str> = line.split_whitespace().collect();
            line.contains(&path) && words.len() > 6 && is_wanted(words[3], words[6])
        };
        listed.lines().filter(is_wanted).count()
    }

    /// Makes the probe refuse the attach; returns the runtime's answer.
    pub fn refused_attach(&self) -> Result<(), u32> {
        const FAIL: u32 = 0x8000_4005;
        let attaching = self.attach(&[]);
        until("the attach is answered, or asks", || !attaching.is_pending() || self.has_come("InitializeForAttach"));
        if let Some(init) = self.take_aside("InitializeForAttach") {
            init.leave(FAIL);
        }
        attaching.answer()
    }

    /// Requests an attach and ignores a missing answer, since the process is about to end.
    pub fn attach_that_breaks_off(&self) {
        let pid = self.pid();
        std::thread::spawn(move || {
            std::panic::catch_unwind(|| diagnostics::attach_profiler(pid, &CLASS, &library().to_string_lossy(), &[]))
        });
    }

    /// Asks the target to end, even with blocked callbacks; returns its exit status.
    pub fn quit(mut self) -> std::process::ExitStatus {
        self.target.tell("quit");
        self.target.wait()
    }

    /// Completes an attach with these halves of the event mask; returns a thread of the probe.
    #[track_caller]
    pub fn attached(&self, low: u32, high: u32) -> Seat {
        self.attached_class(&CLASS, low, high)
    }

    /// The same with one of the probe's classes.
    #[track_caller]
    pub fn attached_class(&self, class: &[u8; 16], low: u32, high: u32) -> Seat {
        let attaching = self.attach_class(class, &[]);
        let mut init = self.seat("InitializeForAttach");
        init.done(&format!("mask {low:#x} {high:#x}"));
        init.done("thread");
        init.leave(0);
        assert_eq!(attaching.answer(), Ok(()), "the probe cannot attach");
        self.seat("Thread")
    }

    /// Waits until the probe is in this place.
    #[track_caller]
    pub fn seat(&self, place: &str) -> Seat {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(seat) = self.take_aside(place) {
                return seat;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the probe never came to `{place}`");
            self.accept(left.as_secs() as i64);
        }
    }

    /// Whether the probe has reached this place.
    pub fn has_come(&self, place: &str) -> bool {
        self.accept(0);
        self.aside.borrow().iter().any(|seat| seat.place() == place)
    }

    /// Whether the probe's library is mapped into the target.
    pub fn is_mapped(&self) -> bool {
        Facts::of(self.target.pid()).maps.iter().any(|mapping| mapping.name.contains("libremora_probe"))
    }

    /// The target's threads, from the kernel.
    pub fn threads(&self) -> BTreeSet<u32> {
        Facts::of(self.target.pid()).threads.into_keys().collect()
    }

    /// Whether a thread of the target sleeps.
    pub fn sleeps(&self, thread: u32) -> bool {
        self.target.thread_state(thread) == 'S'
    }

    /// Voluntary context switches of a thread of the target.
    pub fn yields(&self, thread: u32) -> u64 {
        switches(self.pid(), thread)
    }

    /// Waits for each step of an accepted detach: reported, released, unmapped. Returns the thread that got the report.
    #[track_caller]
    pub fn gone(&self) -> u32 {
        let shown = self.seat("ProfilerDetachSucceeded").thread();
        self.gone_after_command();
        shown
    }

    /// [`Stage::gone`] from the second step on.
    #[track_caller]
    pub fn gone_after_command(&self) {
        self.seat("Released");
        until("the library is unmapped", || !self.is_mapped());
    }

    fn take_aside(&self, place: &str) -> Option<Seat> {
        let mut aside = self.aside.borrow_mut();
        let at = aside.iter().position(|seat| seat.place() == place)?;
        Some(aside.remove(at))
    }

    /// Accepts every connection within that time.
    fn accept(&self, seconds: i64) {
        let mut watched = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: seconds, tv_nsec: 0 };
        if let Err(error) = rustix::event::poll(&mut watched, Some(&limit)) {
            panic!("cannot wait for the probe: {error}");
        }
        while let Ok((stream, _)) = self.listener.accept() {
            self.aside.borrow_mut().push(Seat::greeted(stream));
        }
    }
}

impl DetachThread {
    /// The kernel's thread id.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// How often it went to sleep, which it does after each check.
    pub fn sleeps(&self) -> u64 {
        switches(self.process, self.thread)
    }
}

impl Attaching {
    /// The runtime's answer.
    pub fn answer(mut self) -> Result<(), u32> {
        self.0.answer().map(drop)
    }

    /// Whether the runtime has not answered yet: what it sent before this call counts.
    pub fn is_pending(&self) -> bool {
        !self.0.is_answered()
    }
}

/// A whole attach and detach in another target: what the first one could do without waiting, it has done by then.
pub fn meanwhile(runtime: &Runtime) {
    let stage = Stage::start(runtime);
    stage.leave(stage.attached(0, 0));
}

/// Adds the variables that make the runtime load a class of the probe at its start.
fn named(start: Start, class: &str) -> Start {
    let start = start.env("CORECLR_ENABLE_PROFILING", "1").env("CORECLR_PROFILER", class);
    start.env("CORECLR_PROFILER_PATH", library())
}

/// How often a thread of a process went to sleep.
pub fn switches(process: u32, thread: u32) -> u64 {
    let path = format!("/proc/{process}/task/{thread}/status");
    let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count of switches in {path}"))
}

/// The request of most tests.
fn wish() -> Wish {
    Wish::of(&CLASS, &library().to_string_lossy(), &[])
}

fn open_to_all(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// The probe's file.
pub fn library() -> PathBuf {
    PathBuf::from(expected("REMORA_PROBE"))
}

/// The longest client data of one attach message, with this library.
pub fn longest_data() -> usize {
    let path = library().to_string_lossy().encode_utf16().count() + 1;
    LONGEST_MESSAGE - FIXED_PARTS - 2 * path
}

/// The probe's digest of its client data: FNV-1a and the length.
pub fn digest(data: &[u8]) -> String {
    let hash = data
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    format!("{}:{hash:016x}", data.len())
}
