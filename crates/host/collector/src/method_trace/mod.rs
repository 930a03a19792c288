//! A trace of single methods: attaches the tracer, or reaches an inert one, and takes its messages.

mod clock;
mod connection;
mod counters;
mod traced_time;

pub use counters::Calls;
pub use traced_time::TracedTime;

use crate::Error;
use clock::WallClock;
use connection::{Connection, Received};
use counters::Memory;
use remora_attach::proc::Proc;
use remora_attach::{Attach, Guid, HResult, Placed, Process};
use remora_wire::method_trace::{
    CLSID_HANDOVER, CLSID_TRACE, Change, Changed, Ended, FromTracer, HANDED_OVER, Parameter, RENDEZVOUS_NAME,
    RETURNS_TASK, ToTracer, TraceConfig, TraceRecord, TraceRequest, memory,
};
use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// How long the agent may take to connect, and for each message until the probes are in.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to restore the methods.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// Records kept: the slowest ones.
const MOST_RECORDS: usize = 10_000;
/// Names of callers kept.
const MOST_NAMES: usize = 50_000;
/// Messages or records handled at once.
const AT_ONCE: usize = 4096;
/// Methods named at most, with those that cannot be traced.
const MOST_NAMED: usize = 4096;

/// A method of the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracedMethod {
    /// Its full name.
    pub name: String,
    /// Its parameters, and its result if that is an enum or a structure.
    pub parameters: Vec<Parameter>,
    /// For the steps of an asynchronous method: the number of that method.
    pub steps_of: Option<u32>,
    /// Whether a call of it is all its asynchronous steps.
    pub is_async: bool,
    /// Whether it returns a task without being asynchronous: its calls end when it returns.
    pub returns_task: bool,
    /// Why the runtime could not replace it, if so: the HRESULT.
    pub failed: Option<u32>,
    /// Whether the user took it out. Its calls until then stay.
    pub is_taken_out: bool,
    /// When it was traced.
    pub time: TracedTime,
}

/// A change of what is traced, and its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeChange {
    /// What the agent was asked for.
    pub change: Change,
    /// What it did.
    pub effect: Changed,
    /// A method that matches an addition and cannot be traced, and why.
    pub untraceable: Option<(String, String)>,
}

/// What the agent says about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Records that the agent had no room for.
    pub records_lost: u64,
    /// Records without a stack.
    pub stacks_failed: u64,
    /// Asynchronous calls whose end was not seen, because too many waited.
    pub calls_lost: u64,
    /// Callers without a name.
    pub names_lost: u64,
    /// ReJIT errors that the runtime reported.
    pub rejit_errors: u64,
    /// What a pair of probes costs, picoseconds.
    pub probe_cost: u64,
    /// Time that walks of stacks took, nanoseconds.
    pub stack_time: u64,
}

/// A trace.
pub struct MethodTrace {
    connection: Connection,
    memory: Memory,
    buffer: Vec<u8>,
    methods: HashMap<u32, TracedMethod>,
    /// Names of methods that match and cannot be traced, and why.
    untraceable: Vec<(String, String)>,
    names: HashMap<u64, String>,
    records: Vec<TraceRecord>,
    records_seen: u64,
    damaged: u64,
    process_id: u32,
    /// When the probes were in.
    begun: Option<Instant>,
    clock: Option<WallClock>,
    matched: Option<(u32, u32)>,
    /// Methods of assemblies that were loaded since the last question about them.
    came_later: u32,
    /// The change that the agent has not answered yet.
    asked: Option<(Change, Option<(String, String)>)>,
    made: Option<MadeChange>,
    refused: Option<(String, u32)>,
    stopped: Option<(Ended, u32)>,
    is_over: bool,
    was_reused: bool,
    library: String,
    /// Whether no number of records ends the trace.
    is_endless: bool,
    /// Shorter calls become no records, nanoseconds.
    slower_than: u64,
}

/// Whether the process has an agent that is inert since an earlier trace.
pub fn has_inert_tracer(process_id: u32) -> bool {
    let name = format!("/memfd:{RENDEZVOUS_NAME} ");
    let maps = Proc::default().read(process_id, "maps").unwrap_or_default();
    String::from_utf8_lossy(&maps).lines().any(|line| format!("{line} ").contains(&name))
}

impl MethodTrace {
    /// Attaches, or reaches the inert agent, and sends the request. Returns once the agent has it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn attach(
        process: &Process,
        library: &[u8],
        request: &TraceRequest,
        timeout: Duration,
    ) -> Result<MethodTrace, Error> {
        let memory = Memory::new()?;
        let (listener, socket) = remora_attach::place_socket(process)?;
        let placed = remora_attach::place_tracer(process, library)?;
        let mut nonce = [0; 16];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Channel(error.into()))?;
        let config = TraceConfig { nonce, socket_path: socket.target_path.to_string() };
        let was_reused = has_inert_tracer(process.pid);
        ask(process, &placed, &config, was_reused, timeout)?;
        let connection = welcome(process, &listener, &config, request, &memory)?;
        drop(socket);
        // The library stays mapped; its file is not needed any more.
        let (library, _) = placed.stays();
        Ok(MethodTrace {
            connection,
            memory,
            buffer: Vec::new(),
            methods: HashMap::new(),
            untraceable: Vec::new(),
            names: HashMap::new(),
            records: Vec::new(),
            records_seen: 0,
            damaged: 0,
            process_id: process.pid,
            begun: None,
            clock: None,
            matched: None,
            came_later: 0,
            asked: None,
            made: None,
            refused: None,
            stopped: None,
            is_over: false,
            was_reused,
            library,
            is_endless: request.records == u64::MAX,
            slower_than: request.slower_than,
        })
    }

    /// Waits until the agent has searched all modules. Returns how many methods it can trace, and how many match.
    ///
    /// # Errors
    /// [`Error`].
    pub fn matched(&mut self) -> Result<(u32, u32), Error> {
        self.until(PATIENCE, |trace| trace.matched.is_some())?;
        self.matched.ok_or_else(|| self.failure())
    }

    /// How many methods of assemblies that were loaded meanwhile are traced since the last call.
    pub fn take_later(&mut self) -> u32 {
        std::mem::take(&mut self.came_later)
    }

    /// Asks the agent to change what is traced; [`MethodTrace::take_change`] has the effect. Only one change at a time.
    pub fn change(&mut self, change: Change) {
        self.connection.send(&ToTracer::Change(change.clone()));
        if let Change::SlowerThan(nanoseconds) = change {
            self.slower_than = nanoseconds;
        }
        self.asked = Some((change, None));
    }

    /// Whether the agent has not answered a change yet.
    pub fn is_changing(&self) -> bool {
        self.asked.is_some()
    }

    /// The change that the agent has answered since the last call.
    pub fn take_change(&mut self) -> Option<MadeChange> {
        self.made.take()
    }

    /// Puts the probes in.
    ///
    /// # Errors
    /// [`Error`]: no method is changed.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.connection.send(&ToTracer::Go);
        self.until(PATIENCE, |trace| trace.begun.is_some())?;
        self.begun.map(|_| ()).ok_or_else(|| self.failure())
    }

    /// Takes what has come; waits at most `timeout` for a message. Returns false once no more comes.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.take_messages(timeout)?;
        self.take_records();
        self.keep_the_slowest();
        Ok(!self.is_over && self.stopped.is_none())
    }

    /// Takes the probes out, and waits until the agent is inert. Returns why the trace ended, and the runtime's answer to the restoration;
    /// `None` if the agent did not say.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn end(&mut self) -> Result<Option<(Ended, HResult)>, Error> {
        self.connection.send(&ToTracer::Stop);
        self.until(END_PATIENCE, |trace| trace.stopped.is_some())?;
        self.take_records();
        Ok(self.stopped.map(|(why, code)| (why, HResult(code))))
    }

    /// The methods, by number.
    pub fn methods(&self) -> &HashMap<u32, TracedMethod> {
        &self.methods
    }

    /// Methods that match and cannot be traced, and why.
    pub fn untraceable(&self) -> &[(String, String)] {
        &self.untraceable
    }

    /// The calls of a method so far.
    pub fn calls(&self, method: u32) -> Calls {
        self.memory.calls(method)
    }

    /// The slowest recorded calls, slowest first.
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    /// The wall-clock time of a record's beginning, nanoseconds since 1970.
    pub fn unix_time(&self, record: &TraceRecord) -> Option<u64> {
        self.clock?.at(record.begin)
    }

    /// All recorded calls, also those that were not kept.
    pub fn records_seen(&self) -> u64 {
        self.records_seen
    }

    /// The name of a function in the stack of a record.
    pub fn name(&self, function: u64) -> Option<&str> {
        self.names.get(&function).map(String::as_str)
    }

    /// What the agent says about itself.
    pub fn counts(&self) -> TraceCounts {
        let counter = |which| self.memory.counter(which);
        TraceCounts {
            records_lost: counter(memory::RECORDS_LOST).saturating_add(self.damaged),
            stacks_failed: counter(memory::STACKS_FAILED),
            calls_lost: counter(memory::CALLS_LOST),
            names_lost: counter(memory::NAMES_LOST),
            rejit_errors: counter(memory::REJIT_ERRORS),
            probe_cost: counter(memory::PROBE_COST),
            stack_time: counter(memory::STACK_TIME),
        }
    }

    /// Why the agent ended the trace, if it did.
    pub fn stopped(&self) -> Option<Ended> {
        self.stopped.map(|(why, _)| why)
    }

    /// Whether an inert agent was used again.
    pub fn was_reused(&self) -> bool {
        self.was_reused
    }

    /// The library's name in the maps of the process.
    pub fn library(&self) -> &str {
        &self.library
    }

    fn until(&mut self, patience: Duration, is_done: impl Fn(&MethodTrace) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        while !is_done(self) && !self.is_over && self.refused.is_none() && Instant::now() < deadline {
            self.take_messages(deadline.saturating_duration_since(Instant::now()))?;
        }
        Ok(())
    }

    fn failure(&self) -> Error {
        match &self.refused {
            Some((call, code)) => Error::AgentRefused(format!("{call} failed with {}", HResult(*code))),
            None if self.is_over => Error::TargetEnded,
            None => Error::NoHello(PATIENCE.as_secs()),
        }
    }

    fn take_messages(&mut self, timeout: Duration) -> Result<(), Error> {
        let mut timeout = timeout;
        for _ in 0..AT_ONCE {
            match self.connection.receive(timeout)? {
                Received::Message(message) => self.take(message),
                Received::Nothing => return Ok(()),
                Received::HungUp => {
                    self.is_over = true;
                    return Ok(());
                }
            }
            timeout = Duration::ZERO;
        }
        Ok(())
    }

    fn take(&mut self, message: FromTracer) {
        match message {
            FromTracer::Method { index: Some(index), name, remark, steps_of, is_async, parameters } => {
                let returns_task = remark == RETURNS_TASK;
                let parameters = parameters.iter().map(|text| Parameter::of_text(text)).collect();
                let method =
                    TracedMethod { name, parameters, steps_of, is_async, returns_task, ..TracedMethod::default() };
                self.methods.insert(index, method);
            }
            FromTracer::Method { index: None, name, remark, .. } => self.take_untraceable((name, remark)),
            FromTracer::Matched { methods, found } => {
                let before = self.matched.replace((methods, found)).map_or(methods, |(before, _)| before);
                self.came_later = self.came_later.saturating_add(methods.saturating_sub(before));
                self.new_methods_are_traced(self.lasted());
            }
            FromTracer::Switched { index, is_traced } => {
                let now = self.lasted();
                if let Some(method) = self.methods.get_mut(&index) {
                    method.is_taken_out = !is_traced;
                    method.failed = method.failed.filter(|_| !is_traced);
                    if !is_traced {
                        method.time.end(now);
                    }
                }
            }
            FromTracer::Changed(effect) => {
                self.matched = self.matched.map(|(_, found)| (effect.traced, found));
                let answered = self.asked.take();
                self.made = answered.map(|(change, untraceable)| MadeChange { change, effect, untraceable });
                self.new_methods_are_traced(self.lasted());
            }
            FromTracer::Started { time } => {
                self.begun = Some(Instant::now());
                self.clock = Some(WallClock::read(self.process_id, time));
                self.new_methods_are_traced(Duration::ZERO);
            }
            FromTracer::Name { function, name } => {
                if self.names.len() < MOST_NAMES {
                    self.names.insert(function, name);
                }
            }
            FromTracer::Failed { index, code } => {
                if let Some(method) = self.methods.get_mut(&index) {
                    method.failed = Some(code);
                }
            }
            FromTracer::Refused { call, code } => self.refused = Some((call, code)),
            FromTracer::Stopped { why, code } => self.stopped = Some((why, code)),
            FromTracer::Hello { .. } => {}
        }
    }

    fn lasted(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// The runtime replaces all methods that were named until now: their next calls have probes.
    fn new_methods_are_traced(&mut self, now: Duration) {
        if self.begun.is_some() {
            let traced = self.methods.values_mut().filter(|method| !method.is_taken_out);
            traced.for_each(|method| method.time.begin(now));
        }
    }

    /// Keeps a method that cannot be traced. An addition may report it again.
    fn take_untraceable(&mut self, method: (String, String)) {
        if let Some((_, example)) = &mut self.asked {
            example.get_or_insert_with(|| method.clone());
            if self.untraceable.contains(&method) {
                return;
            }
        }
        if self.untraceable.len() < MOST_NAMED {
            self.untraceable.push(method);
        }
    }

    fn take_records(&mut self) {
        for _ in 0..AT_ONCE {
            match self.memory.record(&mut self.buffer) {
                Some(Ok(record)) => self.keep(record),
                Some(Err(_)) => self.damaged += 1,
                None => return,
            }
        }
    }

    /// Keeps a record if it is among the slowest.
    /// Asks for no more records than would be kept.
    fn keep_the_slowest(&mut self) {
        let shortest = self.records.get(MOST_RECORDS - 1).map_or(0, |record| record.duration);
        if self.is_endless && shortest > self.slower_than {
            self.slower_than = shortest;
            self.connection.send(&ToTracer::SlowerThan(shortest));
        }
    }

    fn keep(&mut self, record: TraceRecord) {
        self.records_seen += 1;
        let place = self.records.partition_point(|kept| kept.duration >= record.duration);
        if place < MOST_RECORDS {
            self.records.insert(place, record);
            self.records.truncate(MOST_RECORDS);
        }
    }
}

/// Asks the runtime to load the library: as the main profiler, or as a messenger to the inert one.
fn ask(
    process: &Process,
    placed: &Placed,
    config: &TraceConfig,
    is_handover: bool,
    timeout: Duration,
) -> Result<(), Error> {
    let (a, b, c, rest) = if is_handover { CLSID_HANDOVER } else { CLSID_TRACE };
    let mut request = Attach::new(Guid::from_parts(a, b, c, rest), placed.target_path.clone());
    request.client_data = config.encode();
    request.timeout = timeout;
    match remora_attach::attach_when_ready(process, &request) {
        Err(remora_attach::Error::RuntimeRefused(HResult(HANDED_OVER))) if is_handover => Ok(()),
        answer => Ok(answer?),
    }
}

fn welcome(
    process: &Process,
    listener: &UnixListener,
    config: &TraceConfig,
    request: &TraceRequest,
    memory: &Memory,
) -> Result<Connection, Error> {
    let mut connection = Connection::accept(listener, PATIENCE)?.ok_or(Error::NoHello(PATIENCE.as_secs()))?;
    let peer = connection.peer();
    if peer.is_some_and(|peer| peer != process.pid) {
        return Err(Error::Stranger(peer));
    }
    match connection.receive(PATIENCE)? {
        Received::Message(FromTracer::Hello { version, nonce })
            if version == remora_wire::VERSION && nonce == config.nonce => {}
        Received::Message(FromTracer::Hello { .. }) => return Err(Error::Stranger(peer)),
        Received::HungUp => return Err(Error::TargetEnded),
        _ => return Err(Error::NoHello(PATIENCE.as_secs())),
    }
    connection.send_with(&ToTracer::Trace(request.clone()), &memory.descriptor)?;
    Ok(connection)
}
