//! The target process: a machine with one process, its runtimes on threads of the system, and the server of its socket.

use super::kept::KeptFile;
use super::message::{Action, Answer, AttachMessage, LoadedProfiler, LogLine, Question, Told, peer, receive, send};
use super::scenario::State;
use super::{AppConfig, PAUSE, Place, Scenario, TargetState};
use crate::differences::{Release, RuntimeVersion};
use crate::faults::Faults;
use crate::library::Library;
use crate::machine::{Account, Build, File, HostingServer, Machine, Process, ProcessStart};
use crate::runtime::{Called, EVENT_ID, EVENT_SOURCE, Entry, Runtime, Status, give_the_heap_memory};
use crate::schedule::{self, threads};
use crate::scripted::{self, Script};
use corprof::{Guid, HResult};
use remora_clr_abi::metahost::{AttachRequest, MetaHost as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getppid;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the runtime's side does at each point is drawn from this.
const SEED: u64 = 1;
/// How long a trigger has for its question, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at a time. Others are refused.
const MOST_QUESTIONS: usize = 64;
/// Of these, questions that may wait for something in the target. The others, such as the one for its end, always find a place.
const MOST_WAITING: usize = 16;
/// How often the server looks whether it shall end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How often the end pauses for answers that are on their way.
const ANSWERING: u32 = 50;

/// The class of the scenarios' old profiler, and its path.
const OLD_CLASS: Guid = Guid::from_u128(0x0000_0002_0000_0000_0000_0000_0000_0002);
const OLD_CLASS_TEXT: &str = "{00000002-0000-0000-0000-000000000002}";
const OLD_PATH: &str = "old-profiler.dll";

/// The modules of the application. The framework's is the first.
const MODULES: [Called; 2] =
    [Called { module: "mscorlib", class: "System.Object" }, Called { module: "Orders", class: "Orders.Program" }];

/// How a target is started.
pub struct TargetConfig {
    /// The scenario.
    pub scenario: &'static Scenario,
    /// Its name.
    pub name: String,
    /// Its environment, beside that of the scenario.
    pub environment: Vec<(String, String)>,
    /// Its configuration file, instead of that of the scenario.
    pub configuration: Option<AppConfig>,
    /// Its time passes this much faster than the clock.
    pub speed: u32,
}

/// A running target.
pub struct Target {
    shared: Arc<Shared>,
    listener: UnixListener,
    files: Files,
}

/// What the threads of the server share.
struct Shared {
    machine: Arc<Machine>,
    process: Arc<Process>,
    scenario: &'static Scenario,
    /// The trigger's processes so far, one for each account.
    triggers: Mutex<Vec<Arc<Process>>>,
    questions: AtomicUsize,
    waiting: AtomicUsize,
    stops: AtomicBool,
    /// The library of the old profiler stays as long as the process.
    _old: Arc<Library>,
}

/// The files that go with the target.
struct Files(Vec<PathBuf>);

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.0 {
            // Whoever watches over the target removes the file otherwise, and says how the target ended.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Target {
    /// Starts the target of this process. Call it once: the process becomes the target.
    ///
    /// The parent, which watches over it, has taken its name. The target ends with it.
    ///
    /// # Errors
    /// The system's.
    pub fn start(place: &Place, config: TargetConfig) -> io::Result<Target> {
        // Nobody would know how it ends, or end what it has started.
        threads::end_with_parent();
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
        // The parent may have ended before.
        let is_watched = matches!(
            place.state_of(&config.name),
            Some(TargetState::Watched(watcher)) if Some(watcher.process) == parent
        );
        if !is_watched {
            return Err(io::Error::other("no process watches over it"));
        }
        let files = Files(vec![place.socket(&config.name), place.event_log_file(&config.name)]);
        threads::use_os_threads_at(SEED, config.speed.max(1));
        give_the_heap_memory();
        let environment = environment(&config);
        for (name, value) in environment.iter().rev() {
            // SAFETY: the process's other threads do not read its environment, and no profiler is loaded yet.
            unsafe { std::env::set_var(name, value) };
        }
        let event_log = KeptFile::create(&files.0[1])?;
        let shared = Arc::new(Shared::begin(event_log, &config, &environment));
        // Only now: who connects finds everything ready.
        let listener = UnixListener::bind(&files.0[0])?;
        listener.set_nonblocking(true)?;
        Ok(Target { shared, listener, files })
    }

    /// Answers until a trigger stops the target, or `ends` says so. Then the process's runtimes exit.
    pub fn serve(mut self, ends: impl Fn() -> bool) {
        // Whoever watches over the target removes the event log: with it, the target has started.
        self.files.0.truncate(1);
        while !self.shared.stops.load(Ordering::SeqCst) && !ends() {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            // Interrupted by a signal: `ends` knows.
            let _ = poll(&mut ready, Some(&LOOK));
            match self.listener.accept() {
                Ok((stream, _)) => Shared::serve(&self.shared, stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Too many open files, for example: it stays readable.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        // Who asked for the end gets an answer. An attach that waits is cut off.
        for _ in 0..ANSWERING {
            if self.shared.questions.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.shared.process.end();
    }
}

impl Shared {
    fn begin(event_log: KeptFile, config: &TargetConfig, environment: &[(&str, &str)]) -> Shared {
        let scenario = config.scenario;
        let machine = Machine::new(RuntimeVersion::Desktop4, Arc::new(Faults::default()));
        machine.open_real_files();
        let (old, _) = scripted::library(Script::new().of_version(2), &machine.faults);
        machine.put(OLD_PATH, File::of(&old));
        machine.register(OLD_CLASS, OLD_PATH);
        let configuration = config.configuration.unwrap_or(scenario.configuration);
        let process = machine.start_with(&ProcessStart {
            id: std::process::id(),
            account: scenario.account,
            build: Build::default(),
            environment,
            gc_mode: configuration.gc_mode(),
        });
        let event_log = Mutex::new(event_log);
        process.on_each_entry(move |release, entry| {
            event_log.lock().expect("no panic while locked").add(&line_of(release, entry));
        });
        let shared = Shared {
            machine,
            process,
            scenario,
            triggers: Mutex::default(),
            questions: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            stops: AtomicBool::new(false),
            _old: old,
        };
        if scenario.state != State::NotStarted {
            shared.load_runtimes();
        }
        let runtimes = shared.process.runtimes();
        in_any(&runtimes, |one| one.block_finalizer(scenario.state == State::BlockedFinalizer));
        in_any(&runtimes, |one| one.keep_in_callbacks(scenario.state == State::SlowThread));
        shared
    }

    fn load_runtimes(&self) {
        for release in self.scenario.runtimes {
            let Some(runtime) = self.process.load_release(*release) else { continue };
            MODULES.into_iter().for_each(|called| _ = runtime.load_module_called(called));
        }
    }

    /// Answers one question on a thread of its own.
    fn serve(shared: &Arc<Shared>, mut stream: UnixStream) {
        let is_own = peer(&stream).is_ok();
        if !is_own || shared.questions.fetch_add(1, Ordering::SeqCst) >= MOST_QUESTIONS {
            shared.questions.fetch_sub(usize::from(is_own), Ordering::SeqCst);
            return;
        }
        let shared = shared.clone();
        schedule::spawn("a connection to a trigger", move || {
            // Accepted from a listener that does not block.
            let question = stream.set_nonblocking(false).and_then(|()| receive(&mut stream, PATIENCE));
            if let Ok(question) = question {
                let waits = matches!(question, Question::Attach(..) | Question::Act(_));
                if !waits || shared.waiting.fetch_add(1, Ordering::SeqCst) < MOST_WAITING {
                    // A trigger that has gone needs no answer.
                    let _ = send(&mut stream, &shared.answer(question), PATIENCE);
                }
                shared.waiting.fetch_sub(usize::from(waits), Ordering::SeqCst);
            }
            shared.questions.fetch_sub(1, Ordering::SeqCst);
        });
    }

    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Open(account) => match self.server(account).open_process(self.process.id) {
                Ok(_) => Answer::Opened(self.process.id),
                Err(code) => Answer::Code(code.0),
            },
            Question::Runtimes(account) => self.runtimes(account).unwrap_or_else(|code| Answer::Code(code.0)),
            Question::Attach(account, message) => Answer::Code(self.attach(account, message).0),
            Question::Profilers => Answer::Profilers(self.profilers()),
            Question::AttachFailure(path) => Answer::AttachFailure(self.attach_failure(path.as_deref())),
            Question::Attaching => Answer::Attaching(self.process.runtimes().iter().any(|one| one.is_attaching())),
            Question::HangUp => Answer::Refused,
            Question::Act(action) => Answer::Told(self.act(action)),
            Question::Stop => {
                self.stops.store(true, Ordering::SeqCst);
                Answer::Stopping
            }
        }
    }

    /// The server of a trigger with this account.
    fn server(&self, account: Account) -> HostingServer {
        let mut triggers = self.triggers.lock().expect("no panic while locked");
        let known = triggers.iter().find(|trigger| trigger.account == account).cloned();
        let trigger = known.unwrap_or_else(|| {
            let trigger = self.machine.start(account, &[]);
            triggers.push(trigger.clone());
            trigger
        });
        HostingServer::new(&self.machine, &trigger)
    }

    fn runtimes(&self, account: Account) -> Result<Answer, HResult> {
        let server = self.server(account);
        let found = server.loaded_runtimes(server.open_process(self.process.id)?)?;
        Ok(Answer::Runtimes(found.iter().map(|one| (one.version(), one.profiling().is_ok())).collect()))
    }

    fn attach(&self, account: Account, message: AttachMessage) -> HResult {
        let server = self.server(account);
        let found = server.open_process(self.process.id).and_then(|handle| server.loaded_runtimes(handle));
        let runtime = found.and_then(|found| {
            found.into_iter().find(|one| one.version() == message.version).ok_or(HResult::E_INVALIDARG)
        });
        let request = AttachRequest {
            process: message.process,
            milliseconds: message.milliseconds,
            profiler: Guid::from_u128(u128::from_be_bytes(message.class)),
            path: message.path,
            client_data: message.client_data,
        };
        match runtime.and_then(|runtime| runtime.profiling()) {
            Ok(profiling) => profiling.attach_profiler(request),
            Err(code) => code,
        }
    }

    /// What the code of the last failed attach does not say.
    fn attach_failure(&self, path: Option<&str>) -> Option<String> {
        let of_the_file = path.and_then(|path| self.machine.load_failure(path));
        let call = || self.process.runtimes().iter().find_map(|one| one.failed_call());
        of_the_file.or_else(|| Some(format!("the profiler's {} failed", call()?)))
    }

    fn profilers(&self) -> Vec<LoadedProfiler> {
        let of_one = |runtime: &Arc<Runtime>| {
            let version = runtime.version().to_string();
            let loaded = runtime.profilers().into_iter().map(move |profiler| LoadedProfiler {
                version: version.clone(),
                detaching: matches!(profiler.status(), Status::Detaching | Status::Gone),
                callbacks: profiler.running_callbacks().into_iter().map(str::to_owned).collect(),
            });
            loaded.collect::<Vec<_>>()
        };
        self.process.runtimes().iter().flat_map(of_one).collect()
    }

    fn act(&self, action: Action) -> Told {
        let runtimes = self.process.runtimes();
        match action {
            Action::StartRuntime if runtimes.is_empty() => self.load_runtimes(),
            Action::StartRuntime => return Told::Already,
            Action::DebuggerStops => return changed(self.process.halt()),
            Action::DebuggerContinues => return changed(self.process.resume()),
            _ if runtimes.is_empty() => return Told::NoRuntime,
            Action::FinalizerReturns => return changed(in_any(&runtimes, |one| one.block_finalizer(false))),
            Action::ThreadLeaves => return changed(in_any(&runtimes, |one| one.keep_in_callbacks(false))),
            Action::LoadModule => return self.on_application_thread(|one| _ = one.load_module(false)),
            Action::Collect => return self.on_application_thread(Runtime::collect_all),
        }
        Told::Done
    }

    /// Runs on a thread of the application, in the last runtime, until it is done or the thread stays in a callback.
    fn on_application_thread(&self, body: impl FnOnce(&Runtime) + Send + 'static) -> Told {
        let Some(runtime) = self.process.runtimes().pop() else { return Told::NoRuntime };
        let on_thread = runtime.clone();
        let task = schedule::spawn("a thread of the application", move || {
            on_thread.begin_thread();
            body(&on_thread);
            on_thread.end_thread();
        });
        let has_ended = || schedule::has_ended(task);
        schedule::wait_until(None, || has_ended() || runtime.keeps_in_callback() || runtime.is_exiting());
        if has_ended() { Told::Done } else { Told::ThreadStays }
    }
}

/// An entry as a line of the event log's file.
fn line_of(release: Release, entry: &Entry) -> Vec<u8> {
    let line = LogLine {
        level: entry.level().to_owned(),
        source: EVENT_SOURCE.to_owned(),
        event_id: EVENT_ID,
        runtime: release.to_string(),
        text: entry.to_string(),
    };
    let mut text = serde_json::to_vec(&line).expect("plain fields");
    text.push(b'\n');
    text
}

fn changed(is_changed: bool) -> Told {
    if is_changed { Told::Done } else { Told::Already }
}

/// Does it in each runtime. Whether it changed something in one.
fn in_any(runtimes: &[Arc<Runtime>], change: impl Fn(&Runtime) -> bool) -> bool {
    runtimes.iter().filter(|one| change(one)).count() > 0
}

/// The target's variables. The first one of a name counts.
fn environment(config: &TargetConfig) -> Vec<(&str, &str)> {
    let given = config.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    given.chain(environment_of(config.scenario.state).iter().copied()).collect()
}

/// The variables of a scenario.
fn environment_of(state: State) -> &'static [(&'static str, &'static str)] {
    const OLD: [(&str, &str); 4] = [
        ("COR_ENABLE_PROFILING", "1"),
        ("COR_PROFILER", OLD_CLASS_TEXT),
        ("COR_PROFILER_PATH", OLD_PATH),
        ("COMPLUS_ProfAPI_ProfilerCompatibilitySetting", "EnableV2Profiler"),
    ];
    match state {
        State::OldProfiler => &OLD[..3],
        State::AllowedOldProfiler => &OLD,
        _ => &[],
    }
}
