//! Attaches the agent: places the library, asks the runtime, checks the peer, sends the welcome.

use crate::agent_error::words;
use crate::attached_agent::AttachedAgent;
use crate::control::{Control, Received};
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use crate::{Error, NotAttached};
use remora_attach::{Asked, Attach, Guid, Libc, Placed, Process, TargetPath};
use remora_receipt::{AgentThread, Facts, GcMode, ProfilerCount, ProfilerSlot};
use remora_wire::{
    AgentError, CLSID_MAIN, CLSID_NOTIFICATION, Config, FromAgent, MEMORY_NAME, THREAD_NAME, Task, ToAgent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Places in the trees of a trace: 64 MiB.
const NODES: usize = 1 << 20;

/// How long the agent may take to connect after the runtime has accepted the attach.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a tracer that has answered until its hooks are set: it measures them by thousands of calls, on a machine that may be busy.
const HOOKS_TIMEOUT: Duration = Duration::from_secs(60);

/// How often to check whether the target has ended, while waiting for its agent.
const INTERVAL: Duration = Duration::from_millis(40);

/// Places the library, attaches, and returns when the agent has begun its task.
///
/// # Errors
/// [`NotAttached`]; its facts name everything that stays or is still unloading.
pub(crate) fn attach_agent(
    process: &Process,
    library: &[u8],
    task: Task,
    table: Option<&OwnedFd>,
    timeout: Duration,
) -> Result<(AttachedAgent, Started), NotAttached> {
    let prepared = Prepared::of(process, library, task)?;
    let slot = slot(process, task);
    let request = request(slot, &prepared.config, &prepared.library.target_path, timeout);
    let target = Target::of(process.pid);
    let asked = Asking { slot, monotonic: monotonic(), at: Instant::now() };
    // From here on the target may contain something of ours.
    let arrived = ask(process, &request, &Expected { prepared: &prepared, target: &target, table });
    prepared.settle(process, target, asked, arrived)
}

/// What an attach places for its target before it asks the runtime.
pub(crate) struct Prepared {
    pub(crate) memory: SharedMemory,
    pub(crate) listener: UnixListener,
    pub(crate) socket: Placed,
    pub(crate) library: Placed,
    pub(crate) config: Config,
}

/// The request of an attach.
pub(crate) struct Asking {
    pub(crate) slot: ProfilerSlot,
    /// Monotonic, nanoseconds.
    pub(crate) monotonic: u64,
    pub(crate) at: Instant,
}

impl Prepared {
    /// Places library and socket.
    ///
    /// # Errors
    /// Nothing stays.
    pub(crate) fn of(process: &Process, library: &[u8], task: Task) -> Result<Prepared, Error> {
        let memory = match task {
            Task::Tracing { arguments } => SharedMemory::of_calls(NODES, arguments),
            _ => SharedMemory::new(task == Task::HeapTracking),
        }?;
        let (listener, socket) = remora_attach::place_socket(process)?;
        let library = match task {
            // On musl this library stays mapped like any other. It occupies no profiler slot, so its name must not be that of a placeholder.
            Task::CallbackCheck if is_on_musl(process) => remora_attach::place_library(process, library),
            Task::Placeholder | Task::CallbackCheck | Task::Tracing { .. } => {
                remora_attach::place_library_that_may_stay(process, library)
            }
            _ => remora_attach::place_library(process, library),
        }?;
        let config = Config { nonce: nonce()?, socket_path: socket.target_path.to_string(), task };
        Ok(Prepared { memory, listener, socket, library, config })
    }

    /// Waits until the agent that has `arrived` begins its task, and settles what is in the process otherwise.
    pub(crate) fn settle(
        self,
        process: &Process,
        mut target: Target,
        asked: Asking,
        arrived: Result<Control, Error>,
    ) -> Result<(AttachedAgent, Started), NotAttached> {
        let Prepared { memory, listener, socket, library: placed, config } = self;
        let files = placed.file_path().into_iter().chain([socket.host_path.clone()]).collect();
        let mut facts = facts(process, asked.slot, config.task, files);
        let library = placed.mapped_name.clone();
        facts.library = library.clone();
        // The target has opened both by now, or never will: unlink them at once.
        drop((socket, listener));
        let began = arrived.and_then(|mut control| Ok((start(&mut control, &mut facts, &target)?, control)));
        let mut reusable = None;
        match &began {
            Err(Error::Inert(_)) => {
                let (name, file) = placed.stays();
                facts.stayed.push(name);
                facts.placed.extend(file);
            }
            Err(error) if error.is_refused_for_want_of_a_place() => {
                facts.refused.push(placed.mapped_name.clone());
                facts.count = ProfilerCount::Right;
            }
            // Keep or delete its file after the detach.
            Ok(_) if placed.is_reusable() => reusable = Some(placed),
            _ => drop(placed),
        }
        let (began, control) = match began {
            Ok(began) => began,
            Err(error) => {
                let error = error.in_place_of(asked.slot).or_the_end_of(&target);
                return Err(NotAttached { error, facts: Some(Box::new(facts)) });
            }
        };
        facts.attach_completed = true;
        facts.attach = asked.at.elapsed().as_nanos() as u64;
        target.begin();
        facts.socket_inodes = control.peer_inode().into_iter().collect();
        let whole = AttachedAgent {
            control,
            memory,
            target,
            facts,
            library,
            reusable,
            requested: asked.monotonic,
            begun: Instant::now(),
            asked: None,
            leaving: None,
            detached: false,
            ended: None,
            limit: None,
            cut: None,
            target_ended: false,
        };
        Ok((whole, began))
    }
}

fn request(slot: ProfilerSlot, config: &Config, library: &TargetPath, timeout: Duration) -> Attach {
    let (a, b, c, rest) = if slot == ProfilerSlot::Main { CLSID_MAIN } else { CLSID_NOTIFICATION };
    let mut request = Attach::new(Guid::from_parts(a, b, c, rest), library.clone());
    request.client_data = config.encode();
    request.timeout = timeout;
    request
}

fn is_on_musl(process: &Process) -> bool {
    matches!(process.libc, Libc::Musl { .. })
}

/// The facts for the receipt known before the attach.
fn facts(process: &Process, slot: ProfilerSlot, task: Task, placed: Vec<PathBuf>) -> Facts {
    Facts {
        task: match task {
            Task::HeapSnapshot(_) => remora_receipt::Task::Snapshot,
            Task::HeapTracking => remora_receipt::Task::Watch,
            _ => remora_receipt::Task::Recording,
        },
        agent_thread_name: THREAD_NAME.into(),
        memory_name: Some(MEMORY_NAME.into()),
        placed,
        slot,
        gc_mode: if task.monitors_gcs() { GcMode::OffUntilDetach } else { GcMode::Untouched },
        musl: is_on_musl(process),
        runtime: shown_runtime(process),
        ..Facts::default()
    }
}

/// The agent's start message.
pub(crate) struct Started {
    /// Monotonic, nanoseconds.
    pub(crate) time: u64,
    pub(crate) engine: String,
    /// How long a starting process ran before that, because its recorder was late.
    pub(crate) missed: Option<Duration>,
}

/// The expected peer, and what to send it.
struct Expected<'a> {
    prepared: &'a Prepared,
    target: &'a Target,
    /// The unwind table, sent before the first sample needs it.
    table: Option<&'a OwnedFd>,
}

/// Asks the runtime to attach, and welcomes the agent. The agent connects before the runtime answers, and samples as soon as the runtime
/// confirms the attach to it. So this must welcome it meanwhile. The same thread does so: a new one would first wait for a CPU.
fn ask(process: &Process, request: &Attach, expected: &Expected) -> Result<Control, Error> {
    let listener = &expected.prepared.listener;
    let asked = remora_attach::begin_attach(process, request)?;
    // From here on, wait for the runtime's answer in any case.
    let early = if connects_first(listener, &asked, request.timeout) {
        let control = Control::accept(listener, Instant::now());
        control.and_then(|control| control.map(|control| greet(control, expected)).transpose())
    } else {
        Ok(None)
    };
    // Evaluate the runtime's answer first: it explains the state of the connection.
    match asked.answer() {
        Err(error) if error.is_too_early() => remora_attach::attach_when_ready(process, request)?,
        answer => answer?,
    }
    let mut control = match early? {
        Some(control) => control,
        None => greet(late(listener, expected.target)?, expected)?,
    };
    control.send(&ToAgent::Begin);
    Ok(control)
}

/// Waits for the agent or for the runtime's answer. Returns whether the agent connected.
fn connects_first(listener: &UnixListener, asked: &Asked, timeout: Duration) -> bool {
    let mut watched = [listener.as_fd(), asked.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let limit = Timespec::try_from(timeout).ok();
    while poll(&mut watched, limit.as_ref()) == Err(Errno::INTR) {}
    !watched[0].revents().is_empty()
}

/// Accepts the agent's connection if the runtime answered first. Stops waiting once the process has ended.
fn late(listener: &UnixListener, target: &Target) -> Result<Control, Error> {
    let deadline = Instant::now() + HELLO_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(control) = Control::accept(listener, Instant::now() + INTERVAL)? {
            return Ok(control);
        }
        if target.has_ended() {
            return Err(Error::TargetEnded);
        }
    }
    Err(Error::NoHello(HELLO_TIMEOUT.as_secs()))
}

/// Checks the hello and answers it with the shared memory.
fn greet(mut control: Control, expected: &Expected) -> Result<Control, Error> {
    let Expected { prepared, target, table } = expected;
    let peer = hear(&mut control, &prepared.config)?;
    if peer.is_some_and(|peer| peer != target.process_id) {
        return Err(Error::Stranger(peer));
    }
    welcome(&mut control, &prepared.memory, *table)?;
    Ok(control)
}

/// Receives the hello, and checks that it is this agent's. Returns the process id, if it is visible from here.
pub(crate) fn hear(control: &mut Control, config: &Config) -> Result<Option<u32>, Error> {
    let peer = control.peer();
    match control.receive_until(Instant::now() + HELLO_TIMEOUT)? {
        Received::Message(FromAgent::Hello { version, nonce })
            if version == remora_wire::VERSION && nonce == config.nonce =>
        {
            Ok(peer)
        }
        Received::Message(FromAgent::Hello { .. }) => Err(Error::Stranger(peer)),
        Received::HungUp => Err(Error::TargetEnded),
        _ => Err(Error::NoHello(HELLO_TIMEOUT.as_secs())),
    }
}

/// Sends what the agent needs for its task.
pub(crate) fn welcome(control: &mut Control, memory: &SharedMemory, table: Option<&OwnedFd>) -> Result<(), Error> {
    if let Some(table) = table {
        control.send_with(&ToAgent::Unwind, table)?;
    }
    control.send_with(&ToAgent::Welcome, memory.descriptor())
}

/// Waits until the agent reports that sampling has begun.
pub(crate) fn start(control: &mut Control, facts: &mut Facts, target: &Target) -> Result<Started, Error> {
    start_within(HELLO_TIMEOUT, control, facts, target)
}

/// Waits until the tracer reports that its hooks are set.
pub(crate) fn start_of_hooks(control: &mut Control, target: &Target) -> Result<Started, Error> {
    start_within(HOOKS_TIMEOUT, control, &mut Facts::default(), target)
}

fn start_within(
    timeout: Duration,
    control: &mut Control,
    facts: &mut Facts,
    target: &Target,
) -> Result<Started, Error> {
    match control.receive_until(Instant::now() + timeout)? {
        Received::Message(FromAgent::Started { signal, thread, time, engine, .. }) => {
            facts.signal = (signal != 0).then_some(signal);
            facts.agent_threads = vec![AgentThread { id: thread, start_time: None }];
            Ok(Started { time, engine, missed: None })
        }
        Received::Message(FromAgent::Inert(reason)) => {
            facts.inert = Some(words(reason));
            Err(Error::Inert(words(reason)))
        }
        // While one thread executes another program, the kernel starts no thread (fs/exec.c, `in_exec`).
        Received::Message(FromAgent::Failed(error))
            if error == AgentError::system(Errno::AGAIN.raw_os_error()) && target.program_ends_soon(&facts.library) =>
        {
            Err(Error::TargetEnded)
        }
        Received::Message(FromAgent::Failed(error)) => Err(Error::of_the_agent(error)),
        Received::Message(other) => Err(Error::AgentRefused(format!("it answered out of turn: {other:?}"))),
        Received::HungUp => Err(Error::TargetEnded),
        Received::Nothing => Err(Error::NoHello(timeout.as_secs())),
    }
}

/// The profiler slot that the agent uses: only main profilers get the details of GCs.
pub(crate) fn slot(process: &Process, task: Task) -> ProfilerSlot {
    if can_stand_beside(process) && !task.monitors_gcs() { ProfilerSlot::NotificationOnly } else { ProfilerSlot::Main }
}

/// Notification-only profilers exist since .NET 6, leave the runtime's counters as they were, and work beside any other profiler.
pub(crate) fn can_stand_beside(process: &Process) -> bool {
    process.runtime().and_then(|runtime| runtime.version).is_some_and(|version| version.major >= 6)
}

/// The runtime's displayed name: `.NET 8.0.4`.
pub fn shown_runtime(process: &Process) -> String {
    let Some(version) = process.runtime().and_then(|runtime| runtime.version) else { return ".NET".into() };
    if version.major < 5 { format!(".NET Core {version}") } else { format!(".NET {version}") }
}

fn nonce() -> Result<[u8; 16], Error> {
    let mut nonce = [0; 16];
    rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
    Ok(nonce)
}

pub(crate) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// The agent got no thread because the target began to execute another program. The command then advised the other engine.
    #[test]
    fn regression_a_program_that_was_being_replaced_was_said_to_give_the_agent_no_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("s")).expect("bound");
        let mut agent = UnixStream::connect(folder.path().join("s")).expect("connected");
        let mut control = Control::accept(&listener, Instant::now()).expect("accepted").expect("a connection");
        let no_thread = FromAgent::Failed(AgentError::system(Errno::AGAIN.raw_os_error()));
        agent.write_all(&no_thread.encode()).expect("sent");
        let mut child = Command::new("sh");
        let mut child = child
            .args(["-c", "read line; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("started");
        let target = Target::of(child.id());
        let program = std::fs::read_link(format!("/proc/{}/exe", child.id())).expect("its program");
        let library = program.file_name().expect("a file").to_string_lossy().into_owned();
        let mut facts = Facts { library, ..Facts::default() };
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("sent");
        let result = start(&mut control, &mut facts, &target);
        assert!(matches!(result, Err(Error::TargetEnded)), "{:?}", result.err());
        drop(input);
        child.wait().expect("collected");
    }
}
