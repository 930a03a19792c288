//! One snapshot of a heap by the agent: attach, have the process copied, read what the copy tells, detach.

mod told;

pub(crate) use told::{ended_for_memory, how_it_ended};

use crate::copy_cost::CopyCost;
use crate::count::arrive_heard;
use crate::files::Files;
use crate::limits::{Allowance, Deadlines, MemoryLimit, longest_stream};
use crate::meanings::Meanings;
use crate::methods::Methods;
use crate::names::Names;
use crate::presence::Presence;
use crate::shared_memory::SharedMemory;
use crate::statics::Statics;
use crate::{Error, NotAttached};
use remora_attach::Process;
use remora_heap::StaticField;
use remora_heap::layout::Layouts;
use remora_receipt::Facts;
use remora_wire::heap::{ANSWERS, BESIDE, ClassFacts, HeapDecoder, HeapVisitor, Layout};
use remora_wire::{AgentErrorCode, Contents, HeapSnapshot, Message, Task, TypeKind, layout};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use told::Told;

/// How long the control channel is waited for when neither ring has anything.
const LOOK: Duration = Duration::from_millis(2);
/// The same while the copy tells of objects, which fills a ring of 4 MiB in some milliseconds. What it tells last is known so much later.
const SHORT_LOOK: Duration = Duration::from_micros(400);
/// Modules that are read before it is known whether they are needed.
const MOST_AHEAD: usize = 16;

/// Said where the stream has no bytes left.
pub(crate) const TOO_LONG: &str = "what the copy of the process told was longer than its memory allows, and was cut";

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapProgress {
    /// Objects walked.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the whole heap, the room between objects included; 0 where that is not known beforehand.
    pub bytes_in_all: u64,
    /// The most memory that the copy was seen to cost, bytes: pages that the program wrote to meanwhile, and the copy's own.
    pub extra_memory: Option<u64>,
    /// Nothing more comes.
    pub ended: bool,
}

/// What is known of a snapshot beside its stream.
#[derive(Debug, Clone, Default)]
pub struct HeapAbout {
    /// Objects that were walked.
    pub objects: u64,
    /// Ranges of the heap that were not walked, or not to their end.
    pub ranges_unwalked: u64,
    /// Objects whose class did not fit into the copy's table.
    pub objects_unwalked: u64,
    /// Whether every object was told of.
    pub complete: bool,
    /// Whether all static fields were told that could be asked about.
    pub static_fields: bool,
    /// What was not, and what else is to be said.
    pub notes: Vec<String>,
    /// How long the program stood for the collection, the copying in it, nanoseconds.
    pub collection: Option<u64>,
    /// How long of that the copying took, nanoseconds.
    pub fork: Option<u64>,
    /// As in [`HeapProgress`].
    pub extra_memory: Option<u64>,
    /// The runtime: `.NET 8.0.4`.
    pub runtime: String,
}

/// What a snapshot leaves behind.
#[derive(Debug)]
pub struct HeapFinished {
    /// For the receipt.
    pub facts: Facts,
    /// The classes.
    pub classes: Classes,
    /// What is known of it.
    pub about: HeapAbout,
    /// Whether the target ended or replaced its program before the agent had left.
    pub target_ended: bool,
    /// The first error that the agent reported.
    pub failed: Option<AgentErrorCode>,
    /// What broke while the agent was leaving.
    pub failure: Option<Error>,
}

/// A snapshot under way.
pub struct HeapSession {
    presence: Presence,
    told: Told,
    classes: Classes,
    stream: Stream,
    cost: CopyCost,
    deadlines: Deadlines,
}

/// What the copy told.
#[derive(Default)]
struct Stream {
    /// Reads what is told beside it.
    beside: HeapDecoder,
    words: Vec<u64>,
    bytes: Vec<u8>,
    has_begun: bool,
    damaged: bool,
    /// Bytes that it may still have.
    left: u64,
}

impl HeapSession {
    /// Places the library, attaches, and returns when the agent is about to collect.
    ///
    /// # Errors
    /// [`NotAttached`]; what is then left behind, or still leaving, its facts name.
    pub fn attach(
        process: &Process,
        library: &[u8],
        wanted: HeapSnapshot,
        timeout: Duration,
    ) -> Result<HeapSession, NotAttached> {
        let (mut presence, _) = arrive_heard(process, library, Task::HeapSnapshot(wanted), None, timeout)?;
        presence.limit = Some(MemoryLimit::half());
        let mut files = Files::of(process.pid);
        files.refresh_maps();
        let methods = Methods::new(files.for_another());
        let mut classes = Classes::new(Names::new(files), methods);
        classes.statics = Statics::new(wanted.contents == Contents::Values);
        classes.major = process.runtime().and_then(|runtime| runtime.version).map(|version| version.major);
        Ok(HeapSession {
            presence,
            told: Told::default(),
            classes,
            stream: Stream { left: longest_stream(process.pid), ..Stream::default() },
            cost: CopyCost::of(process),
            deadlines: Deadlines::of(process.pid),
        })
    }

    /// Hands `sink` what has arrived of the stream, waiting for at most `patience`. Call it again and again until it has ended.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, patience: Duration, sink: &mut impl FnMut(&[u8])) -> Result<HeapProgress, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let before = self.told.milestones();
            self.presence.listen(|message| self.told.take(message));
            let mut took = match self.presence.is_taken_from() {
                true => self.stream.drain(&mut self.presence.memory, &mut self.classes, sink),
                false => 0,
            };
            let is_walked = self.stream.beside.has_ended();
            took += usize::from(self.told.described && self.classes.ask_on(&self.presence.memory, is_walked));
            if let Some(child) = self.told.child.take() {
                self.presence.facts.children.push(child);
                self.cost.begins(child);
            }
            self.cost.look();
            self.keep_deadlines(took > 0 || self.told.milestones() > before);
            let progress = self.progress();
            let left = deadline.saturating_duration_since(Instant::now());
            if progress.ended && took == 0 || left.is_zero() {
                return Ok(progress);
            }
            // While the collection is waited for, a processor is idle: of what will be needed for names, most is read by its end.
            let is_idle = took == 0 && !(self.told.collection.is_none() && self.classes.read_ahead());
            if is_idle {
                self.presence.control.wait(left.min(self.stream.look()))?;
            }
        }
    }

    /// Gives it up where nothing has come for long, or not all of it for very long.
    fn keep_deadlines(&mut self, came: bool) {
        let now = Instant::now();
        if came {
            self.deadlines.something_came(now);
        }
        if self.presence.reason_to_end().is_none() {
            self.presence.cut = self.deadlines.exceeded(now);
        }
    }

    /// Has the agent detach, and the copy ended, if it still walks; does not wait for either.
    pub fn begin_detach(&mut self) {
        self.presence.ask_to_leave();
    }

    /// The classes that were told of so far.
    pub fn classes(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// Detaches as [`HeapSession::begin_detach`] does, and waits until the library is unmapped (bounded, and shortly where somebody is in a
    /// hurry).
    pub fn detach(mut self, sink: &mut impl FnMut(&[u8]), hurried: impl Fn() -> bool) -> HeapFinished {
        let HeapSession { presence, told, classes, stream, .. } = &mut self;
        let failure =
            presence.leave(LOOK, |memory| stream.drain(memory, classes, sink), |message| told.take(message), hurried);
        self.presence.facts.children.extend(self.told.child.take());
        let about = self.about();
        let HeapSession { presence, classes, told, .. } = self;
        let (facts, target_ended) = (presence.facts, presence.target_ended);
        HeapFinished { facts, classes, about, target_ended, failed: told.failed, failure }
    }

    fn progress(&self) -> HeapProgress {
        HeapProgress {
            objects: self.presence.memory.counter(layout::HEAP_OBJECTS),
            bytes: self.presence.memory.counter(layout::HEAP_BYTES),
            bytes_in_all: self.presence.memory.counter(layout::HEAP_BYTES_IN_ALL),
            extra_memory: self.cost.most(),
            ended: self.presence.reason_to_end().is_some()
                || self.stream.left == 0
                // The agent tells the modules' ids before it says that the copy has ended. By then the copy may long have told everything.
                || self.told.has_ended()
                || self.stream.damaged
                || self.stream.beside.has_ended() && self.told.described && self.classes.statics.has_ended(),
        }
    }

    /// What is known of it by now.
    pub fn about(&self) -> HeapAbout {
        let counter = |which| self.presence.memory.counter(which);
        let mut notes = self.told.notes.clone();
        notes.extend(
            self.stream
                .damaged
                .then(|| "what the copy of the process told makes no sense from some point on".to_owned()),
        );
        notes.extend((self.stream.left == 0).then(|| TOO_LONG.to_owned()));
        let counted = [
            (layout::HEAP_BROKEN, "ranges of the heap could not be walked to their end"),
            (
                layout::HEAP_LEFT_OUT,
                "ranges of the heap did not fit into the list, which has room for 16,384: another snapshot would lack as many",
            ),
            (
                layout::HEAP_CONTRADICTED,
                "objects are otherwise than others of their classes: some objects of these may be told of as they are not",
            ),
            (
                layout::HEAP_WITHOUT_CLASS,
                "objects have a class that did not fit into the table, which has room for 131,071, and so no type. Another snapshot would \
                 lack as many; what makes so many types (generic ones, or assemblies that are loaded again and again) is to be seen in \
                 those that are there",
            ),
            (
                layout::HEAP_PAGES_ABSENT,
                "pages of what the runtime knows of its classes were not there: some types may lack their arguments",
            ),
            (
                layout::HEAP_ROOTS_LOST,
                "roots found no room: what they hold is held by inferred ones (another snapshot would lack as many)",
            ),
            (
                layout::HEAP_METHODS_UNNAMED,
                "methods whose locals hold objects have no names: something was unloaded meanwhile",
            ),
            (
                layout::HEAP_STAYS_SHARED,
                "parts of the runtime's data stayed shared with the process, since the system refused memory of their own: numbers in static \
                 fields, and types, may be later than the objects (raise the process's limit, `prlimit --pid PID --as`, or start it with \
                 DOTNET_EnableWriteXorExecute=0)",
            ),
            (
                layout::HEAP_QUESTIONS_GIVEN_UP,
                "types have static fields that could not be told: what the runtime knows of these types had changed meanwhile",
            ),
            (layout::LOST_DESCRIPTIONS, "descriptions of modules did not fit into the transport"),
        ];
        let lost = counted.iter().filter(|(which, _)| counter(*which) > 0);
        notes.extend(lost.map(|(which, what)| format!("{} {what}", counter(*which))));
        let is_told = !self.stream.beside.has_ended() || self.classes.statics.has_ended();
        notes.extend(
            (!is_told).then(|| "not all static fields were told: the copy of the process waits for what is asked about them, and then ends".to_owned()),
        );
        notes.extend(self.classes.statics.notes());
        notes.extend(self.told.walked.and_then(|status| how_it_ended(status, &self.presence.memory)));
        notes.extend(self.presence.ended_before_its_time().map(str::to_owned));
        HeapAbout {
            objects: counter(layout::HEAP_OBJECTS),
            ranges_unwalked: counter(layout::HEAP_BROKEN).saturating_add(counter(layout::HEAP_LEFT_OUT)),
            objects_unwalked: counter(layout::HEAP_WITHOUT_CLASS),
            complete: self.stream.beside.has_ended()
                && self.told.described
                && counted[..3].iter().all(|(which, _)| counter(*which) == 0),
            static_fields: self.classes.statics.are_whole() && counter(layout::HEAP_QUESTIONS_GIVEN_UP) == 0,
            notes,
            collection: self.told.collection,
            fork: self.told.fork,
            extra_memory: self.cost.most(),
            runtime: self.presence.facts.runtime.clone(),
        }
    }
}

impl Stream {
    /// How long the control channel is waited for.
    fn look(&self) -> Duration {
        if self.has_begun { SHORT_LOOK } else { LOOK }
    }

    /// Takes what has arrived, and says how many pieces it was.
    fn drain(&mut self, memory: &mut SharedMemory, classes: &mut Classes, sink: &mut impl FnMut(&[u8])) -> usize {
        let (mut took, mut allowance) = (0, Allowance::of(memory));
        while self.left > 0 && memory.pop_beside_heap(&mut self.words, &mut allowance) {
            took += 1;
            self.left = self.left.saturating_sub(self.words.len() as u64 * 8);
            match Message::decode(&self.words) {
                Ok(message) => classes.message(message),
                Err(_) => self.damaged = true,
            }
        }
        while !self.damaged
            && self.left > 0
            && let Some(head) = memory.pop_heap(&mut self.bytes, &mut allowance)
        {
            took += 1;
            self.left = self.left.saturating_sub(self.bytes.len() as u64);
            self.has_begun = true;
            let length = usize::try_from(head & !(BESIDE | ANSWERS)).unwrap_or(usize::MAX);
            match self.bytes.get(..length) {
                Some(bytes) if head & ANSWERS != 0 => self.damaged = classes.statics.answer(bytes).is_err(),
                Some(bytes) if head & BESIDE == 0 => sink(bytes),
                Some(bytes) => self.damaged = self.beside.push(bytes, classes).is_err(),
                None => self.damaged = true,
            }
        }
        took
    }
}

/// What is told beside the stream and means something only with the files of the process.
#[derive(Debug, Default)]
pub struct LaidOut {
    /// How objects are laid out.
    pub layouts: Layouts,
    /// Static fields of classes that were initialized.
    pub statics: Vec<StaticField>,
}

/// What a class of a watch is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// The whole name as C# writes it, and the file of its assembly.
    As(String, Option<String>),
    /// Nobody knows.
    Unknown,
    /// First so and then otherwise: it unloaded, and another one came that looks the same.
    Otherwise,
}

/// Classes, as the copy told of them, and what they are called. Their numbers begin with 0.
pub struct Classes {
    methods: Methods,
    pub(crate) names: Names,
    pub(crate) classes: Vec<ClassFacts>,
    pub(crate) by_id: HashMap<u64, u32>,
    pub(crate) modules: HashMap<u64, Option<u32>>,
    pub(crate) meanings: Meanings,
    pub(crate) layouts: HashMap<u32, Layout>,
    pub(crate) statics: Statics,
    /// The runtime's version, its first number.
    pub(crate) major: Option<u32>,
    are_described: bool,
    /// Modules in the order in which they were told, of which so many were read ahead.
    told_modules: Vec<u32>,
    read_ahead: usize,
}

impl std::fmt::Debug for Classes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Classes({})", self.classes.len())
    }
}

impl Classes {
    pub(crate) fn new(names: Names, methods: Methods) -> Classes {
        Classes {
            methods,
            names,
            classes: Vec::new(),
            by_id: HashMap::new(),
            modules: HashMap::new(),
            meanings: Meanings::default(),
            layouts: HashMap::new(),
            statics: Statics::default(),
            major: None,
            are_described: false,
            told_modules: Vec::new(),
            read_ahead: 0,
        }
    }

    /// Reads the next module of which names will be asked, the runtime's own first. False: there is none.
    fn read_ahead(&mut self) -> bool {
        let next = self.told_modules.iter().take(MOST_AHEAD).nth(self.read_ahead);
        let Some(module) = next else { return false };
        // It is kept, and whether it can be read will be seen when it is needed.
        if let Some(image) = self.names.image(*module) {
            self.statics.read_ahead(*module, &image);
        }
        self.read_ahead += 1;
        true
    }

    /// A note about missing names, complete once all names were asked for.
    pub fn note(&self) -> Option<String> {
        self.names.note()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.classes.len() as u32
    }

    /// What the runtime said of a class.
    pub fn facts(&self, class: u32) -> Option<&ClassFacts> {
        self.classes.get(class as usize)
    }

    /// The whole name of a class as C# writes it, and the file of its assembly; `None` where that cannot be told.
    pub fn name(&mut self, class: u32) -> Option<(String, Option<String>)> {
        self.names().type_name(class)
    }

    /// The number of the class that an id has come to mean last.
    pub fn number(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// What a class is called of which this was told under an id, whenever it was.
    pub fn called(&mut self, id: u64, facts: &ClassFacts) -> Called {
        let alike: Vec<u32> = self.meanings.alike(id, facts, &self.classes).collect();
        let mut names = alike.into_iter().map(|class| self.name(class));
        let Some(first) = names.next() else { return Called::Unknown };
        match names.all(|name| name == first) {
            true => first.map_or(Called::Unknown, |(name, file)| Called::As(name, file)),
            false => Called::Otherwise,
        }
    }

    /// What the classes are defined by.
    pub(crate) fn names(&mut self) -> &mut Names {
        if !self.are_described {
            self.describe();
            self.are_described = true;
        }
        &mut self.names
    }

    /// The methods whose locals hold objects: FunctionIDs and whole names, as far as they can be told.
    pub fn methods(&mut self) -> Vec<(u64, String)> {
        self.methods.named()
    }

    /// What static fields hold, and how objects are laid out where that was told.
    pub fn laid_out(&mut self) -> LaidOut {
        crate::layouts::layouts(self)
    }

    /// Goes on preparing the questions about static fields, a module at a time, and puts them when all classes are known, which is so
    /// when the walk is over. Whether there was anything to do.
    pub(crate) fn ask_on(&mut self, memory: &SharedMemory, is_walked: bool) -> bool {
        let mut statics = std::mem::take(&mut self.statics);
        let did = statics.ask_on(self, memory, is_walked);
        self.statics = statics;
        did
    }

    pub(crate) fn message(&mut self, message: Message) {
        match message {
            Message::Module { index, path, mvid } => {
                self.methods.message(Message::Module { index, path: path.clone(), mvid });
                self.names.module(index, path, mvid);
                self.told_modules.push(index);
            }
            Message::Type { .. } | Message::Method { .. } | Message::FunctionId { .. } => self.methods.message(message),
            Message::ModuleId { id, since, index } => {
                self.modules.insert(id, index);
                self.meanings.module(id, since, index);
            }
            _ => {}
        }
    }

    /// A class may be told of before its arguments are, and before the modules' ids.
    fn describe(&mut self) {
        let meanings = &self.meanings;
        let number = |class: u32, id: &u64| meanings.named_by(class, *id).unwrap_or(u32::MAX);
        let kinds: Vec<TypeKind> = (0..)
            .zip(&self.classes)
            .map(|(class, facts)| match facts {
                ClassFacts::Plain { module, token, arguments, .. } => match meanings.module_of(class, *module) {
                    Some(module) => TypeKind::Class {
                        module,
                        token: *token,
                        arguments: arguments.iter().map(|id| number(class, id)).collect(),
                    },
                    None => TypeKind::Unknown,
                },
                ClassFacts::Array { element, element_kind, rank } => TypeKind::Array {
                    element: (*element != 0).then(|| number(class, element)),
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

impl HeapVisitor for Classes {
    fn range(&mut self, _: u64, _: u64, _: u64) {}

    fn class(&mut self, id: u64, facts: ClassFacts) {
        self.by_id.insert(id, self.count());
        self.meanings.class(self.count(), id);
        self.classes.push(facts);
    }

    fn layout(&mut self, class: u32, layout: Layout) {
        let known = self.layouts.entry(class).or_default();
        (known.bytes, known.count) = (layout.bytes, layout.count);
        known.fields.extend(layout.fields);
    }

    fn object(&mut self, _: u64, _: u32, _: u64) {}

    fn reference(&mut self, _: u64) {}

    fn gap(&mut self, _: u64, _: u64) {}

    fn broken(&mut self, _: u64) {}

    fn end(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests;
