//! A heap that is watched by the agent: snapshots, and in between what is told of each collection. What comes is handed on as it comes; what it
//! means is made of it elsewhere.

use crate::agent_error::words;
use crate::arrival::arrive;
use crate::copy_cost::CopyCost;
use crate::files::Files;
use crate::heap::{TOO_LONG, ended_for_memory, how_it_ended};
use crate::limits::{Allowance, Deadlines, MemoryLimit, longest_stream};
use crate::methods::Methods;
use crate::names::Names;
use crate::presence::Presence;
use crate::{Classes, Error, NotAttached};
use remora_attach::Process;
use remora_receipt::Facts;
use remora_wire::heap::{ANSWERS, BESIDE, HeapDecoder, HeapVisitor};
use remora_wire::watch::{CLASS, WatchPiece};
use remora_wire::{AgentErrorCode, FromAgent, Message, Task, ToAgent, layout};
use std::time::{Duration, Instant};

/// How long the control channel is waited for when no ring has anything: what a collection tells finds no room if nobody reads it.
const LOOK: Duration = Duration::from_millis(1);

/// Pieces of a snapshot that are taken before it is looked again whether a collection has told something.
const BETWEEN_LOOKS: usize = 16;

/// What comes.
#[derive(Debug)]
pub enum Watched<'a> {
    /// A piece of what is told of collections, as [`remora_wire::watch`] says.
    Piece(&'a [u8]),
    /// The next bytes of a snapshot's stream, as [`remora_wire::heap`] says.
    Stream(&'a [u8]),
    /// The snapshot has ended. All pieces from before it have come.
    Snapshot(EndedSnapshot),
}

/// What is known of a snapshot that has ended.
#[derive(Debug, Clone, Default)]
pub struct EndedSnapshot {
    /// Whether all of its stream has come.
    pub is_whole: bool,
    /// What its numbers of classes are among [`Classes`].
    pub classes: Vec<u32>,
    /// How long the program stood for it, and how long of that for the copying, nanoseconds.
    pub stood: Option<(u64, u64)>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchState {
    /// Objects that the copy of the process has walked.
    pub objects: u64,
    /// Whether a snapshot is under way.
    pub is_taking: bool,
    /// The most memory that a copy was seen to cost, bytes.
    pub extra_memory: Option<u64>,
    /// Nothing more comes.
    pub ended: bool,
}

/// What a watch leaves behind.
#[derive(Debug)]
pub struct WatchFinished {
    /// For the receipt.
    pub facts: Facts,
    /// The classes of all streams.
    pub classes: Classes,
    /// What else is to be said.
    pub notes: Vec<String>,
    /// How long the program stood for each snapshot, and how long of that for the copying, nanoseconds.
    pub stood: Vec<(u64, u64)>,
    /// Pieces that found no room.
    pub lost: u64,
    /// Whether the target ended or replaced its program before the agent had left.
    pub target_ended: bool,
    /// The first error that the agent reported.
    pub failed: Option<AgentErrorCode>,
    /// What broke while the agent was leaving.
    pub failure: Option<Error>,
}

/// A watch under way.
pub struct WatchSession {
    presence: Presence,
    told: Told,
    classes: Classes,
    beside: HeapDecoder,
    /// The classes of the snapshot that is being taken.
    numbers: Vec<u32>,
    /// Which of the tellings of classes it is.
    telling: u32,
    words: Vec<u64>,
    bytes: Vec<u8>,
    damaged: bool,
    /// Bytes that may still come of the snapshot that is being taken.
    left: u64,
    cost: CopyCost,
    deadlines: Deadlines,
}

/// What the agent said.
#[derive(Default)]
struct Told {
    /// How often it said anything.
    messages: u64,
    child: Option<u32>,
    is_taking: bool,
    stood: Vec<(u64, u64)>,
    /// The collection in which the last copy was made.
    at: Option<u64>,
    /// How the copy ended that was made last.
    walked: Option<i32>,
    /// The first error that it reported.
    failed: Option<AgentErrorCode>,
    /// Whether a copy ended itself for want of memory.
    lacked_memory: bool,
    notes: Vec<String>,
}

impl WatchSession {
    /// Places the library, attaches as the main profiler, and returns when the agent is about to take the first snapshot.
    ///
    /// # Errors
    /// [`NotAttached`]; what is then left behind, or still leaving, its facts name.
    pub fn attach(process: &Process, library: &[u8], timeout: Duration) -> Result<WatchSession, NotAttached> {
        let (mut presence, _) = arrive(process, library, Task::HeapTracking, None, timeout)?;
        presence.limit = Some(MemoryLimit::half());
        // What static fields hold changes as long as the watch lasts.
        presence.memory.ask(&[]);
        let mut files = Files::of(process.pid);
        files.refresh_maps();
        let methods = Methods::new(files.for_another());
        let mut classes = Classes::new(Names::new(files), methods);
        let telling = classes.meanings.snapshot_begins();
        Ok(WatchSession {
            presence,
            told: Told { is_taking: true, ..Told::default() },
            classes,
            telling,
            beside: HeapDecoder::default(),
            numbers: Vec::new(),
            words: Vec::new(),
            bytes: Vec::new(),
            damaged: false,
            left: longest_stream(process.pid),
            cost: CopyCost::of(process),
            deadlines: Deadlines::of(process.pid),
        })
    }

    /// Hands `sink` what has come, waiting for at most `patience`, or until a snapshot has ended.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, patience: Duration, sink: &mut impl FnMut(Watched<'_>)) -> Result<WatchState, Error> {
        let deadline = Instant::now() + patience;
        loop {
            let before = self.told.messages;
            self.presence.listen(|message| self.told.take(message));
            if let Some(child) = self.told.child.take() {
                self.presence.facts.children.push(child);
                self.cost.begins(child);
            }
            self.cost.look();
            let (took, is_all) = if self.presence.is_taken_from() { self.drain(sink) } else { (0, true) };
            self.keep_deadlines(took > 0 || self.told.messages > before);
            // Whatever the copy had to say was there before its end was told of. One look may not have taken it all.
            if is_all && self.copy_ended() {
                self.snapshot_ended(sink);
                return Ok(self.state());
            }
            let state = self.state();
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended && took == 0 || left.is_zero() {
                return Ok(state);
            }
            if took == 0 {
                self.presence.control.wait(left.min(LOOK))?;
            }
        }
    }

    /// Gives it up where nothing has come of a snapshot for long, or not all of it for very long. Between snapshots an agent has something to
    /// say only when the program's own collections come.
    fn keep_deadlines(&mut self, came: bool) {
        let now = Instant::now();
        if came {
            self.deadlines.something_came(now);
        }
        if self.told.is_taking && self.presence.reason_to_end().is_none() {
            self.presence.cut = self.deadlines.exceeded(now);
        }
    }

    /// Whether the copy has ended meanwhile, and then says how.
    fn copy_ended(&mut self) -> bool {
        let Some(status) = self.told.walked.take() else { return false };
        self.told.notes.extend(how_it_ended(status, &self.presence.memory));
        self.told.lacked_memory |= ended_for_memory(status);
        true
    }

    /// Asks for another snapshot. The one before has ended.
    pub fn take_another(&mut self) {
        self.deadlines = Deadlines::of(self.presence.target.process_id);
        self.told.is_taking = true;
        self.presence.control.say(&ToAgent::TakeAnother);
    }

    /// Has the agent detach, and waits until the library is unmapped (bounded, and shortly where somebody is in a hurry).
    pub fn detach(mut self, sink: &mut impl FnMut(Watched<'_>), hurried: impl Fn() -> bool) -> WatchFinished {
        self.presence.ask_to_leave();
        let WatchSession { presence, told, classes, beside, numbers, telling, words, bytes, damaged, left, .. } =
            &mut self;
        let telling = *telling;
        let drain = |memory: &mut crate::shared_memory::SharedMemory| {
            let allowance = Allowance::of(memory);
            Draining { memory, classes, beside, numbers, telling, words, bytes, damaged, left, allowance }.all(sink)
        };
        let failure = presence.leave(LOOK, drain, |message| told.take(message), hurried);
        self.presence.facts.children.extend(self.told.child.take());
        self.copy_ended();
        let lost = self.presence.memory.counter(layout::WATCH_LOST);
        let mut notes = std::mem::take(&mut self.told.notes);
        notes.extend(self.damaged.then(|| "what the agent told makes no sense from some point on".to_owned()));
        notes.extend((self.left == 0).then(|| TOO_LONG.to_owned()));
        notes.extend(self.presence.ended_before_its_time().map(str::to_owned));
        let WatchSession { presence, classes, told, .. } = self;
        WatchFinished {
            facts: presence.facts,
            classes,
            notes,
            stood: told.stood,
            lost,
            target_ended: presence.target_ended,
            failed: told.failed,
            failure,
        }
    }

    fn state(&self) -> WatchState {
        WatchState {
            objects: self.presence.memory.counter(layout::HEAP_OBJECTS),
            is_taking: self.told.is_taking,
            extra_memory: self.cost.most(),
            ended: self.presence.reason_to_end().is_some()
                || self.told.failed.is_some()
                || self.told.lacked_memory
                || self.damaged
                || self.left == 0,
        }
    }

    /// How many pieces were taken, and whether these were all.
    fn drain(&mut self, sink: &mut impl FnMut(Watched<'_>)) -> (usize, bool) {
        let WatchSession { presence, classes, beside, numbers, telling, words, bytes, damaged, left, .. } = self;
        let (telling, memory) = (*telling, &mut presence.memory);
        let allowance = Allowance::of(memory);
        let mut draining =
            Draining { memory, classes, beside, numbers, telling, words, bytes, damaged, left, allowance };
        let took = draining.all(sink);
        (took, draining.allowance.is_left())
    }

    fn snapshot_ended(&mut self, sink: &mut impl FnMut(Watched<'_>)) {
        self.told.is_taking = false;
        // Its copy is gone, and the next one is made when another snapshot is asked for.
        self.presence.memory.give_up_rest_of_heap();
        let is_whole = std::mem::take(&mut self.beside).has_ended();
        let classes = std::mem::take(&mut self.numbers);
        self.classes.meanings.were_told(&classes, self.told.at.take());
        self.telling = self.classes.meanings.snapshot_begins();
        // The heap may have grown.
        self.left = longest_stream(self.presence.target.process_id);
        sink(Watched::Snapshot(EndedSnapshot { is_whole, classes, stood: self.told.stood.last().copied() }));
    }
}

/// Taking what has come out of the rings.
struct Draining<'a> {
    memory: &'a mut crate::shared_memory::SharedMemory,
    classes: &'a mut Classes,
    beside: &'a mut HeapDecoder,
    numbers: &'a mut Vec<u32>,
    telling: u32,
    words: &'a mut Vec<u64>,
    bytes: &'a mut Vec<u8>,
    damaged: &'a mut bool,
    left: &'a mut u64,
    allowance: Allowance<'a>,
}

impl Draining<'_> {
    /// All of it, at most as much as the rings hold; how many pieces.
    fn all(&mut self, sink: &mut impl FnMut(Watched<'_>)) -> usize {
        let mut took = 0;
        loop {
            let before = took;
            took += self.messages() + self.pieces(sink) + self.stream(sink);
            if took == before {
                return took;
            }
        }
    }

    fn messages(&mut self) -> usize {
        let mut took = 0;
        while self.memory.pop_beside_heap(self.words, &mut self.allowance) {
            took += 1;
            match Message::decode(self.words) {
                Ok(message) => self.classes.message(message),
                Err(_) => *self.damaged = true,
            }
        }
        took
    }

    fn pieces(&mut self, sink: &mut impl FnMut(Watched<'_>)) -> usize {
        let mut took = 0;
        while !*self.damaged && self.memory.pop_watch(self.words, &mut self.allowance) {
            took += 1;
            if !unpacked(self.words, self.bytes) {
                *self.damaged = true;
                return took;
            }
            if self.bytes.first() == Some(&(CLASS as u8))
                && let Ok(WatchPiece::Class { number, collection, id, facts }) = WatchPiece::decode(self.bytes)
            {
                self.classes.meanings.in_collection(number);
                self.classes.class(id, facts);
                self.classes.meanings.were_told(&[self.classes.count() - 1], Some(collection));
            }
            sink(Watched::Piece(self.bytes));
        }
        took
    }

    fn stream(&mut self, sink: &mut impl FnMut(Watched<'_>)) -> usize {
        let mut took = 0;
        while took < BETWEEN_LOOKS
            && !*self.damaged
            && *self.left > 0
            && let Some(head) = self.memory.pop_heap(self.bytes, &mut self.allowance)
        {
            took += 1;
            *self.left = self.left.saturating_sub(self.bytes.len() as u64);
            let length = usize::try_from(head & !(BESIDE | ANSWERS)).unwrap_or(usize::MAX);
            match self.bytes.get(..length) {
                // There were no questions.
                Some(_) if head & ANSWERS != 0 => {}
                Some(bytes) if head & BESIDE == 0 => sink(Watched::Stream(bytes)),
                Some(bytes) => {
                    let before = self.classes.count();
                    self.classes.meanings.in_snapshot(self.telling);
                    *self.damaged = self.beside.push(bytes, self.classes).is_err();
                    self.numbers.extend(before..self.classes.count());
                }
                None => *self.damaged = true,
            }
        }
        took
    }
}

/// The bytes of a piece: its length, and its words. False if it is none.
fn unpacked(words: &[u64], into: &mut Vec<u8>) -> bool {
    into.clear();
    let Some((&length, words)) = words.split_first() else { return false };
    into.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let is_there = length <= into.len();
    into.truncate(length);
    is_there
}

impl Told {
    fn take(&mut self, message: FromAgent) {
        self.messages += 1;
        match message {
            FromAgent::Forked { child, collection, fork, at } => {
                self.at = Some(at);
                self.child = (child != 0).then_some(child);
                self.stood.push((collection, fork));
            }
            FromAgent::Walked { status } => self.walked = Some(status),
            FromAgent::Failed(error) => {
                self.failed.get_or_insert(error.code);
                crate::limits::keep_note(&mut self.notes, Some(words(error)));
            }
            _ => {}
        }
    }
}
