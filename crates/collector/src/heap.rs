//! One snapshot of a heap by the agent: attach, have the process copied, read what the copy tells, detach.

use crate::control::{Control, Heard};
use crate::files::Files;
use crate::names::Names;
use crate::session::{DETACH_PATIENCE, Expected, arrive, facts, nonce, request, start};
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use crate::{Error, NotAttached};
use remora_receipt::Facts;
use remora_trigger::Process;
use remora_wire::heap::{ClassFacts, HeapDecoder, HeapVisitor};
use remora_wire::{Config, EventKind, FromAgent, Message, ToAgent, TypeKind, layout};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the control channel is waited for when neither ring has anything.
const LOOK: Duration = Duration::from_millis(2);

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapProgress {
    /// Objects walked.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nothing more comes.
    pub ended: bool,
}

/// What a snapshot leaves behind, beside what its visitor was shown.
#[derive(Debug)]
pub struct HeapFinished {
    /// For the receipt.
    pub facts: Facts,
    /// Names of the classes.
    pub names: ClassNames,
    /// Whether every object was told of.
    pub complete: bool,
    /// What was not, and what else is to be said.
    pub notes: Vec<String>,
    /// How long the program stood for the collection, the copying in it, nanoseconds.
    pub collection: Option<u64>,
    /// How long of that the copying took, nanoseconds.
    pub fork: Option<u64>,
    /// Whether the target ended or replaced its program before the agent had left.
    pub target_ended: bool,
    /// What broke while the agent was leaving.
    pub failure: Option<Error>,
}

/// A snapshot under way.
pub struct HeapSession {
    control: Control,
    memory: SharedMemory,
    decoder: HeapDecoder,
    facts: Facts,
    target: Target,
    names: ClassNames,
    words: Vec<u64>,
    bytes: Vec<u8>,
    begun: Instant,
    library: String,
    collection: Option<u64>,
    fork: Option<u64>,
    /// How the copy ended.
    walked: Option<i32>,
    notes: Vec<String>,
    ended: Option<String>,
    target_ended: bool,
    detached: bool,
    leaving: bool,
    damaged: bool,
}

impl HeapSession {
    /// Places the library, attaches, and returns when the agent is about to collect.
    ///
    /// # Errors
    /// [`NotAttached`]; what is then left behind, or still leaving, its facts name.
    pub fn attach(process: &Process, library: &[u8], timeout: Duration) -> Result<HeapSession, NotAttached> {
        let memory = SharedMemory::new()?;
        let (listener, socket) = remora_trigger::place_socket(process)?;
        let placed = remora_trigger::place_library(process, library)?;
        let config = config(&socket.target_path.to_string_lossy())?;
        let request = request(process, &config, &placed.target_path, timeout);
        let mut target = Target::of(process.pid);
        let mut facts = facts(process, vec![placed.host_path.clone(), socket.host_path.clone()]);
        let library = placed.host_path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let asked = Instant::now();
        let expected = Expected { config: &config, process, target: &target, memory: &memory };
        let arrived = arrive(&listener, &request, &expected);
        drop((placed, socket, listener));
        let started = arrived.and_then(|mut control| Ok((start(&mut control, &mut facts)?, control)));
        let (_, control) = match started {
            Ok(started) => started,
            Err(error) => return Err(NotAttached { error, facts: Some(Box::new(facts)) }),
        };
        facts.attach_completed = true;
        facts.attach = asked.elapsed().as_nanos() as u64;
        target.begin();
        facts.socket_inodes = control.peer_inode().into_iter().collect();
        let mut files = Files::of(process.pid);
        files.refresh_maps();
        Ok(HeapSession {
            control,
            memory,
            decoder: HeapDecoder::default(),
            facts,
            target,
            names: ClassNames::new(Names::new(files)),
            words: Vec::new(),
            bytes: Vec::new(),
            begun: Instant::now(),
            library,
            collection: None,
            fork: None,
            walked: None,
            notes: Vec::new(),
            ended: None,
            target_ended: false,
            detached: false,
            leaving: false,
            damaged: false,
        })
    }

    /// Shows `visitor` what has arrived, waiting for at most `patience`. Call it again and again until it has ended.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, patience: Duration, visitor: &mut impl HeapVisitor) -> Result<HeapProgress, Error> {
        let deadline = Instant::now() + patience;
        loop {
            self.listen();
            let took = self.drain(visitor);
            let progress = self.progress();
            let left = deadline.saturating_duration_since(Instant::now());
            if progress.ended && took == 0 || left.is_zero() {
                return Ok(progress);
            }
            if took == 0 {
                self.control.wait(left.min(LOOK))?;
            }
        }
    }

    /// Has the copy ended, if it still walks, detaches, and waits until the library is unmapped (bounded).
    pub fn detach(mut self, visitor: &mut impl HeapVisitor) -> HeapFinished {
        self.facts.recording = self.begun.elapsed().as_nanos() as u64;
        let asked = Instant::now();
        self.control.say(&ToAgent::Detach);
        let deadline = asked + DETACH_PATIENCE;
        let failure = self.wait_until_left(deadline, visitor).err();
        self.drain(visitor);
        while self.facts.inert.is_none() && self.target.maps(&self.library) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.facts.detach = asked.elapsed().as_nanos() as u64;
        self.facts.detach_confirmed = self.detached;
        self.finish(failure)
    }

    fn wait_until_left(&mut self, deadline: Instant, visitor: &mut impl HeapVisitor) -> Result<(), Error> {
        while !(self.detached || self.ended.is_some() || self.facts.inert.is_some()) && Instant::now() < deadline {
            if self.drain(visitor) == 0 {
                self.control.wait(LOOK)?;
            }
            self.listen();
        }
        Ok(())
    }

    fn progress(&self) -> HeapProgress {
        HeapProgress {
            objects: self.memory.counter(layout::HEAP_OBJECTS),
            bytes: self.memory.counter(layout::HEAP_BYTES),
            ended: self.walked.is_some() || self.ended.is_some() || self.damaged || !self.notes.is_empty(),
        }
    }

    fn drain(&mut self, visitor: &mut impl HeapVisitor) -> usize {
        let mut took = 0;
        while self.memory.pop_beside_heap(&mut self.words) {
            took += 1;
            match Message::decode(&self.words) {
                Ok(message) => self.names.message(message),
                Err(_) => self.damaged = true,
            }
        }
        while !self.damaged && self.memory.pop_heap(&mut self.words) {
            took += 1;
            let mut both = Both { names: &mut self.names, visitor };
            self.damaged =
                !unpacked(&self.words, &mut self.bytes) || self.decoder.push(&self.bytes, &mut both).is_err();
        }
        took
    }

    fn listen(&mut self) {
        loop {
            match self.control.hear() {
                Heard::Message(FromAgent::Forked { collection, fork, .. }) => {
                    (self.collection, self.fork) = (Some(collection), Some(fork));
                }
                Heard::Message(FromAgent::Walked { status }) => self.walked = Some(status),
                Heard::Message(FromAgent::Leaving { .. }) => self.leaving = true,
                Heard::Message(FromAgent::Detached) => self.detached = true,
                Heard::Message(FromAgent::Inert { reason }) => self.facts.inert = Some(reason),
                Heard::Message(FromAgent::DetachRefused { code }) => {
                    let code = remora_trigger::HResult(code);
                    self.facts.inert = Some(format!("the runtime refused the detach with {code}"));
                }
                Heard::Message(FromAgent::Failed { what }) => self.notes.push(what),
                Heard::Message(FromAgent::Hello { .. } | FromAgent::Started { .. }) => {}
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

    fn finish(mut self, failure: Option<Error>) -> HeapFinished {
        let counter = |which| self.memory.counter(which);
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(
            self.damaged.then(|| "what the copy of the process told makes no sense from some point on".to_owned()),
        );
        let counted = [
            (layout::HEAP_BROKEN, "ranges of the heap could not be walked to their end"),
            (layout::HEAP_LEFT_OUT, "ranges of the heap did not fit into the list"),
            (layout::HEAP_WITHOUT_CLASS, "objects have a class that did not fit into the table"),
            (layout::LOST_DESCRIPTIONS, "descriptions of modules did not fit into the transport"),
        ];
        let lost = counted.iter().filter(|(which, _)| counter(*which) > 0);
        notes.extend(lost.map(|(which, what)| format!("{} {what}", counter(*which))));
        notes.extend(self.walked.and_then(how_it_ended));
        if let (Some(why), false) = (&self.ended, self.leaving) {
            notes.push(why.clone());
        }
        let complete = self.decoder.has_ended() && counted[..2].iter().all(|(which, _)| counter(*which) == 0);
        HeapFinished {
            complete,
            notes,
            facts: self.facts,
            names: self.names,
            collection: self.collection,
            fork: self.fork,
            target_ended: self.target_ended,
            failure,
        }
    }
}

/// What is to be said of a copy that ended otherwise than it should; `status` as `wait` tells it.
fn how_it_ended(status: i32) -> Option<String> {
    match (status & 0x7f, (status >> 8) & 0xff) {
        (0, 0) => None,
        (0, code) => Some(format!("the copy of the process that walked its heap ended with status {code}")),
        (signal, _) => Some(format!("the copy of the process that walked its heap was ended by signal {signal}")),
    }
}

/// The bytes of a piece of the stream. False if it is none.
fn unpacked(words: &[u64], into: &mut Vec<u8>) -> bool {
    into.clear();
    let Some((&length, words)) = words.split_first() else { return false };
    into.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let is_sane = usize::try_from(length).is_ok_and(|length| length <= into.len());
    into.truncate(length as usize);
    is_sane
}

fn config(socket: &str) -> Result<Config, Error> {
    Ok(Config {
        nonce: nonce()?,
        socket_path: socket.to_owned(),
        event: EventKind::Heap,
        frequency: 1,
        signal_budget: 1,
        thread_budget: 1,
    })
}

/// Classes, as the copy told of them, and what they are called.
pub struct ClassNames {
    names: Names,
    classes: Vec<ClassFacts>,
    by_id: HashMap<u64, u32>,
    modules: HashMap<u64, Option<u32>>,
    are_described: bool,
}

impl std::fmt::Debug for ClassNames {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ClassNames({} classes)", self.classes.len())
    }
}

impl ClassNames {
    fn new(names: Names) -> ClassNames {
        ClassNames { names, classes: Vec::new(), by_id: HashMap::new(), modules: HashMap::new(), are_described: false }
    }

    /// How many classes there are; their numbers begin with 0.
    pub fn len(&self) -> u32 {
        self.classes.len() as u32
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// What the runtime said of a class.
    pub fn facts(&self, class: u32) -> Option<&ClassFacts> {
        self.classes.get(class as usize)
    }

    /// The whole name of a class as C# writes it, and the file of its assembly; `None` where that cannot be told.
    pub fn name(&mut self, class: u32) -> Option<(String, Option<String>)> {
        if !self.are_described {
            self.describe();
            self.are_described = true;
        }
        self.names.type_name(class)
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Module { index, path, mvid } => self.names.module(index, path, mvid),
            Message::ModuleId { id, index } => _ = self.modules.insert(id, index),
            _ => {}
        }
    }

    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.by_id.insert(id, self.classes.len() as u32);
        self.classes.push(facts);
    }

    /// A class may be told of before its arguments are, and before the modules' ids.
    fn describe(&mut self) {
        let number = |id: &u64| self.by_id.get(id).copied().unwrap_or(u32::MAX);
        let kinds: Vec<TypeKind> = self
            .classes
            .iter()
            .map(|facts| match facts {
                ClassFacts::Plain { module, token, arguments, .. } => match self.modules.get(module) {
                    Some(Some(module)) => TypeKind::Class {
                        module: *module,
                        token: *token,
                        arguments: arguments.iter().map(number).collect(),
                    },
                    _ => TypeKind::Unknown,
                },
                ClassFacts::Array { element, element_kind, rank } => TypeKind::Array {
                    element: (*element != 0).then(|| number(element)),
                    rank: *rank,
                    element_kind: *element_kind,
                },
                ClassFacts::Unknown { .. } => TypeKind::Unknown,
            })
            .collect();
        for (index, kind) in kinds.into_iter().enumerate() {
            self.names.type_(index as u32, kind);
        }
    }
}

/// Classes are kept here, all of it is shown.
struct Both<'a, V> {
    names: &'a mut ClassNames,
    visitor: &'a mut V,
}

impl<V: HeapVisitor> HeapVisitor for Both<'_, V> {
    fn range(&mut self, kind: u64, address: u64, length: u64) {
        self.visitor.range(kind, address, length);
    }

    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.names.class(id, facts.clone());
        self.visitor.class(id, facts);
    }

    fn object(&mut self, address: u64, class: u32, size: u64) {
        self.visitor.object(address, class, size);
    }

    fn reference(&mut self, target: u64) {
        self.visitor.reference(target);
    }

    fn gap(&mut self, address: u64, length: u64) {
        self.visitor.gap(address, length);
    }

    fn broken(&mut self, address: u64) {
        self.visitor.broken(address);
    }

    fn end(&mut self, objects: u64) {
        self.visitor.end(objects);
    }
}
