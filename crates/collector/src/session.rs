//! One recording by the agent: attach, collect, detach.

use crate::account;
use crate::assembler::Assembler;
use crate::control::{Control, Heard};
use crate::files::Files;
use crate::names::Names;
use crate::rate::slower_than_asked;
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use crate::{Error, NotAttached};
use remora_profile::{Event, Meta, Profile};
use remora_receipt::{AgentThread, Facts, ProfilerSlot};
use remora_trigger::{Asked, Attach, Guid, Libc, Process};
use remora_wire::{
    CLSID_MAIN, CLSID_NOTIFICATION, Config, EventKind, FromAgent, MEMORY_NAME, THREAD_NAME, ToAgent, layout,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the agent may take to connect once the runtime has said yes.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// How often the ring is looked at: it takes 25 times as much as comes in that time at most, and each look takes a processor from the
/// target for a moment.
const LOOK: Duration = Duration::from_millis(40);

/// How long the agent may take to close everything, and the runtime to detach it.
pub(crate) const DETACH_PATIENCE: Duration = Duration::from_secs(30);

/// Signals a second that a process is sent at most when its working threads are sampled.
pub const CPU_BUDGET: u32 = 10_000;

/// Signals a second that a process is sent at most when all its threads are sampled.
pub const WALL_BUDGET: u32 = 2_000;

/// Signals a second that one thread is sent at most: each arms and takes a timer interrupt, which on a virtual machine is
/// an exit to the hypervisor. A higher frequency is met by weights.
pub const THREAD_BUDGET: u32 = 250;

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to sample.
    pub event: Event,
    /// Samples a second and thread.
    pub frequency: u32,
    /// Signals a second that the whole process may be sent; `None` for the default: [`CPU_BUDGET`] or [`WALL_BUDGET`], and
    /// [`THREAD_BUDGET`] for each thread, which a budget of one's own lifts.
    pub signal_budget: Option<u32>,
    /// How long the attach may take.
    pub timeout: Duration,
}

/// How a recording is going.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Samples in the profile.
    pub samples: u64,
    /// Samples taken and not in the profile (what is still under way not counted).
    pub lost: u64,
    /// Threads seen.
    pub threads: usize,
    /// Samples a second, over the whole recording.
    pub effective_rate: f64,
    /// Processors that the target used since the last step, 1.0 being one of them busy.
    pub target_cpu: Option<f64>,
    /// Why there is nothing more to come, if so.
    pub ended: Option<String>,
}

/// What a recording leaves behind: the profile, and what is needed to prove that nothing else is left.
#[derive(Debug)]
pub struct Finished {
    /// The recording.
    pub profile: Profile,
    /// For the receipt.
    pub facts: Facts,
    /// Managed frames in all samples, and how many of them have a name.
    pub managed_frames: (u64, u64),
    /// From the attach request to the first sample, nanoseconds.
    pub first_sample: Option<u64>,
    /// Whether the target ended or replaced its program before the agent had left.
    pub target_ended: bool,
    /// What broke while the agent was leaving.
    pub failure: Option<Error>,
}

/// A recording under way.
pub struct Session {
    control: Control,
    memory: SharedMemory,
    assembler: Assembler,
    facts: Facts,
    target: Target,
    words: Vec<u64>,
    requested: u64,
    begun: Instant,
    ended: Option<String>,
    /// Whether the program that was attached to is no more.
    target_ended: bool,
    leaving: bool,
    /// Callbacks of unloads that the agent let go before it had looked up what they took away.
    impatient_unloads: u64,
    detached: bool,
    /// Whether another frequency was asked for meanwhile: then there is none to compare with.
    frequency_changed: bool,
    library: String,
}

impl Session {
    /// Places the library, attaches, and returns when the agent samples.
    ///
    /// # Errors
    /// [`NotAttached`]; what is then left behind, or still leaving, its facts name.
    pub fn attach(process: &Process, library: &[u8], options: &Options) -> Result<Session, NotAttached> {
        let memory = SharedMemory::new()?;
        let (listener, socket) = remora_trigger::place_socket(process)?;
        let placed = remora_trigger::place_library(process, library)?;
        let config = config(&socket.target_path.to_string_lossy(), options)?;
        let request = request(process, &config, &placed.target_path, options.timeout);
        let mut target = Target::of(process.pid);
        let mut facts = facts(process, vec![placed.host_path.clone(), socket.host_path.clone()]);
        let library = placed.host_path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (requested, asked) = (monotonic(), Instant::now());
        // From here on there may be something in the target.
        let expected = Expected { config: &config, process, target: &target, memory: &memory };
        let arrived = arrive(&listener, &request, &expected);
        // Both are open on the other side by now, or will not be: their names go at once.
        drop((placed, socket, listener));
        let started = arrived.and_then(|mut control| Ok((start(&mut control, &mut facts)?, control)));
        let (started, control) = match started {
            Ok(started) => started,
            Err(error) => return Err(NotAttached { error, facts: Some(Box::new(facts)) }),
        };
        facts.attach_completed = true;
        facts.attach = asked.elapsed().as_nanos() as u64;
        target.begin();
        facts.socket_inodes = control.peer_inode().into_iter().collect();
        let meta = meta(process, options, &started);
        let mut files = Files::of(process.pid);
        files.refresh_maps();
        let assembler = Assembler::new(Profile::new(meta), Names::new(files), started.time);
        Ok(Session {
            control,
            memory,
            assembler,
            facts,
            target,
            words: Vec::new(),
            requested,
            begun: Instant::now(),
            ended: None,
            target_ended: false,
            leaving: false,
            impatient_unloads: 0,
            detached: false,
            frequency_changed: false,
            library,
        })
    }

    /// Takes what has arrived, waiting for at most `patience`. Call it again and again while recording.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, patience: Duration) -> Result<Progress, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let took = self.drain();
            self.listen();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended.is_some() || left.is_zero() {
                return Ok(self.progress());
            }
            if took == 0 {
                // The ring has no bell: what lies in it is met at the next look.
                self.control.wait(left.min(LOOK))?;
            }
        }
    }

    /// The recording so far.
    pub fn profile(&self) -> &Profile {
        &self.assembler.profile
    }

    /// Asks for another frequency, hertz.
    pub fn set_frequency(&mut self, hertz: u32) {
        self.frequency_changed = true;
        self.control.say(&ToAgent::SetFrequency(hertz));
    }

    /// Stops, detaches, waits until the library is unmapped (bounded), and closes the account. What breaks meanwhile stands in the
    /// result, for what was recorded and what may be left are there all the same.
    pub fn detach(mut self) -> Finished {
        self.facts.recording = self.begun.elapsed().as_nanos() as u64;
        self.assembler.profile.meta.duration = self.facts.recording;
        self.assembler.profile.meta.target_cpu = self.target.used();
        let asked = Instant::now();
        self.control.say(&ToAgent::Detach);
        let deadline = asked + DETACH_PATIENCE;
        let failure = self.wait_until_left(deadline).err();
        self.drain();
        while self.facts.inert.is_none() && self.target.maps(&self.library) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.facts.detach = asked.elapsed().as_nanos() as u64;
        self.facts.detach_confirmed = self.detached;
        self.finish(failure)
    }

    fn wait_until_left(&mut self, deadline: Instant) -> Result<(), Error> {
        while !self.left() && Instant::now() < deadline {
            if self.drain() == 0 {
                self.control.wait(Duration::from_millis(5))?;
            }
            self.listen();
        }
        Ok(())
    }

    /// Whether nothing more comes from the agent.
    fn left(&self) -> bool {
        self.detached || self.ended.is_some() || self.facts.inert.is_some()
    }

    fn drain(&mut self) -> usize {
        let mut took = 0;
        while self.memory.pop(&mut self.words) {
            self.assembler.take(&self.words);
            took += 1;
        }
        took
    }

    fn listen(&mut self) {
        loop {
            match self.control.hear() {
                Heard::Message(FromAgent::Leaving { impatient_unloads, .. }) => {
                    self.leaving = true;
                    self.impatient_unloads = impatient_unloads;
                }
                Heard::Message(FromAgent::Detached) => self.detached = true,
                Heard::Message(FromAgent::Inert { reason }) => self.facts.inert = Some(reason),
                Heard::Message(FromAgent::DetachRefused { code }) => {
                    let code = remora_trigger::HResult(code);
                    self.facts.inert = Some(format!("the runtime refused the detach with {code}"));
                }
                Heard::Message(FromAgent::Failed { what }) => self.assembler.profile.meta.notes.push(what),
                Heard::Message(
                    FromAgent::Hello { .. }
                    | FromAgent::Started { .. }
                    | FromAgent::Forked { .. }
                    | FromAgent::Walked { .. },
                ) => {}
                Heard::Nothing => return,
                Heard::HungUp => {
                    if self.ended.is_none() {
                        self.target_ended = !self.leaving && self.target.program_has_ended(&self.library);
                        self.ended = Some(self.target.why_gone(self.leaving));
                    }
                    return;
                }
            }
        }
    }

    fn progress(&mut self) -> Progress {
        let loss = &self.assembler.profile.loss;
        let seconds = self.begun.elapsed().as_secs_f64();
        Progress {
            samples: loss.delivered,
            lost: self.memory.counter(layout::LOST_RING_FULL)
                + self.memory.counter(layout::LOST_TRANSPORT_FULL)
                + self.memory.counter(layout::LOST_THREAD_SILENT)
                + loss.total_lost(),
            threads: self.assembler.profile.threads().len(),
            effective_rate: if seconds > 0.0 { loss.delivered as f64 / seconds } else { 0.0 },
            target_cpu: self.target.used_since_last(),
            ended: self.ended.clone(),
        }
    }

    fn finish(mut self, failure: Option<Error>) -> Finished {
        let counter = |which| self.memory.counter(which);
        let profile = &mut self.assembler.profile;
        account::close(&mut profile.loss, counter, self.target_ended);
        let mut notes = account::notes(counter, self.impatient_unloads);
        // With several frequencies there is none to compare with.
        if !self.frequency_changed {
            notes.extend(slower_than_asked(profile));
            notes.extend(account::unsampled(profile));
        }
        if let (Some(why), false) = (&self.ended, self.leaving) {
            notes.push(why.clone());
        }
        profile.meta.notes.extend(notes);
        Finished {
            first_sample: self.assembler.first_sample.map(|time| time.saturating_sub(self.requested)),
            managed_frames: self.assembler.managed_frames(self.memory.counter(layout::FAILED_LOOKUPS)),
            profile: self.assembler.profile,
            facts: self.facts,
            target_ended: self.target_ended,
            failure,
        }
    }
}

/// What the agent is told when it is loaded.
fn config(socket: &str, options: &Options) -> Result<Config, Error> {
    Ok(Config {
        nonce: nonce()?,
        socket_path: socket.to_owned(),
        event: match options.event {
            Event::Cpu => EventKind::Cpu,
            Event::Wall => EventKind::Wall,
        },
        frequency: options.frequency,
        signal_budget: options.signal_budget.unwrap_or(match options.event {
            Event::Cpu => CPU_BUDGET,
            Event::Wall => WALL_BUDGET,
        }),
        thread_budget: options.signal_budget.unwrap_or(THREAD_BUDGET),
    })
}

pub(crate) fn request(process: &Process, config: &Config, library: &Path, timeout: Duration) -> Attach {
    let (a, b, c, rest) = if can_stand_beside(process) { CLSID_NOTIFICATION } else { CLSID_MAIN };
    let mut request = Attach::new(Guid::from_parts(a, b, c, rest), library);
    request.client_data = config.encode();
    request.timeout = timeout;
    request
}

/// What the receipt has to look for, as far as it is known before the attach.
pub(crate) fn facts(process: &Process, placed: Vec<PathBuf>) -> Facts {
    Facts {
        agent_thread_name: THREAD_NAME.into(),
        memory_name: Some(MEMORY_NAME.into()),
        placed,
        slot: if can_stand_beside(process) { ProfilerSlot::NotificationOnly } else { ProfilerSlot::Main },
        musl: matches!(process.libc, Libc::Musl { .. }),
        runtime: shown_runtime(process),
        ..Facts::default()
    }
}

/// What the agent says when it starts.
pub(crate) struct Began {
    pub(crate) time: u64,
    pub(crate) engine: String,
}

/// Who is expected to connect, and what it gets.
pub(crate) struct Expected<'a> {
    pub(crate) config: &'a Config,
    pub(crate) process: &'a Process,
    pub(crate) target: &'a Target,
    pub(crate) memory: &'a SharedMemory,
}

/// Asks the runtime to attach, and welcomes the agent. The agent connects before the runtime answers, and samples as soon as the runtime
/// has confirmed the attach to it: so it is welcomed meanwhile. (By this same thread: a new one would first wait for a processor.)
pub(crate) fn arrive(listener: &UnixListener, request: &Attach, expected: &Expected) -> Result<Control, Error> {
    let asked = remora_trigger::begin_attach(expected.process, request)?;
    // From here on the runtime's answer is waited for, whatever happens.
    let early = if connects_first(listener, &asked, request.timeout) {
        let control = Control::accept(listener, Instant::now());
        control.and_then(|control| control.map(|control| greet(control, expected)).transpose())
    } else {
        Ok(None)
    };
    // What the runtime says comes first: what became of the connection follows from it.
    match asked.answer() {
        Err(error) if error.is_too_early() => remora_trigger::attach_when_ready(expected.process, request)?,
        answer => answer?,
    }
    let mut control = match early? {
        Some(control) => control,
        None => greet(late(listener, expected.target)?, expected)?,
    };
    control.say(&ToAgent::Begin);
    Ok(control)
}

/// Waits for the agent or for the runtime's answer: whether the agent is there.
fn connects_first(listener: &UnixListener, asked: &Asked, patience: Duration) -> bool {
    let mut watched = [listener.as_fd(), asked.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let limit = Timespec::try_from(patience).ok();
    while poll(&mut watched, limit.as_ref()) == Err(Errno::INTR) {}
    !watched[0].revents().is_empty()
}

/// The agent's connection, if the runtime was faster than the agent. One whose process has ended is not waited for.
fn late(listener: &UnixListener, target: &Target) -> Result<Control, Error> {
    let deadline = Instant::now() + HELLO_PATIENCE;
    while Instant::now() < deadline {
        if let Some(control) = Control::accept(listener, Instant::now() + LOOK)? {
            return Ok(control);
        }
        if target.has_ended() {
            return Err(Error::TargetEnded);
        }
    }
    Err(Error::NoHello(HELLO_PATIENCE.as_secs()))
}

/// Checks the hello and answers it with the shared memory.
fn greet(mut control: Control, expected: &Expected) -> Result<Control, Error> {
    let peer = control.peer();
    let heard = control.hear_until(Instant::now() + HELLO_PATIENCE)?;
    let Heard::Message(FromAgent::Hello { version, nonce }) = heard else {
        return Err(if heard == Heard::HungUp { Error::TargetEnded } else { Error::NoHello(HELLO_PATIENCE.as_secs()) });
    };
    let known = peer.is_none_or(|peer| peer == expected.process.pid);
    if version != remora_wire::VERSION || nonce != expected.config.nonce || !known {
        return Err(Error::Stranger(peer));
    }
    control.welcome(expected.memory.descriptor())?;
    Ok(control)
}

/// Waits for the word that sampling has begun.
pub(crate) fn start(control: &mut Control, facts: &mut Facts) -> Result<Began, Error> {
    match control.hear_until(Instant::now() + HELLO_PATIENCE)? {
        Heard::Message(FromAgent::Started { signal, thread, time, engine, .. }) => {
            facts.signal = (signal != 0).then_some(signal);
            facts.agent_threads = vec![AgentThread { id: thread, start_time: None }];
            Ok(Began { time, engine })
        }
        Heard::Message(FromAgent::Inert { reason }) => {
            facts.inert = Some(reason.clone());
            Err(Error::Inert(reason))
        }
        Heard::Message(FromAgent::Failed { what }) => Err(Error::Refused(what)),
        Heard::Message(other) => Err(Error::Refused(format!("it answered out of turn: {other:?}"))),
        Heard::HungUp => Err(Error::TargetEnded),
        Heard::Nothing => Err(Error::NoHello(HELLO_PATIENCE.as_secs())),
    }
}

/// Notification-only profilers exist since .NET 6, leave the runtime's counters as they were, and stand beside any other.
fn can_stand_beside(process: &Process) -> bool {
    process.runtime().and_then(|runtime| runtime.version).is_some_and(|version| version.major >= 6)
}

fn shown_runtime(process: &Process) -> String {
    let Some(version) = process.runtime().and_then(|runtime| runtime.version) else { return ".NET".into() };
    if version.major < 5 { format!(".NET Core {version}") } else { format!(".NET {version}") }
}

fn meta(process: &Process, options: &Options, started: &Began) -> Meta {
    let since = monotonic().saturating_sub(started.time);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    Meta {
        event: options.event,
        engine: format!("agent ({})", started.engine),
        frequency: options.frequency,
        started_unix_nanoseconds: now.saturating_sub(since),
        process_id: process.pid,
        application: process.name(),
        command_line: process.command_line.join(" "),
        runtime: shown_runtime(process),
        ..Meta::default()
    }
}

pub(crate) fn nonce() -> Result<[u8; 16], Error> {
    let mut nonce = [0; 16];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
    Ok(nonce)
}

fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
