//! A heap tracked by the agent: snapshots, and the agent's reports of each GC in between. It passes data on as it arrives;
//! `remora-heap-tracking` interprets it.

use crate::agent_error::words;
use crate::attach::attach_agent;
use crate::attached_agent::AttachedAgent;
use crate::copy_cost::CopyCost;
use crate::heap::{TOO_LONG, ended_for_memory, how_it_ended};
use crate::limits::{Allowance, Deadlines, MemoryLimit, keep_child, longest_stream};
use crate::shared_memory::SharedMemory;
use crate::{Classes, Error, NotAttached};
use remora_attach::Process;
use remora_heap_stream::watch::WatchPiece;
use remora_heap_stream::{Foreign, HeapDecoder, HeapPiece, HeapVisitor};
use remora_receipt::Facts;
use remora_wire::{AgentErrorCode, FromAgent, Message, Task, ToAgent, layout};
use std::time::{Duration, Instant};

/// Maximum wait for the control channel when all rings are empty. It is short because a GC report fills its ring if nobody reads.
const INTERVAL: Duration = Duration::from_millis(1);

/// Pieces of a snapshot to take before the next check for a GC report.
const PIECES_AT_ONCE: usize = 16;

/// Received data.
#[derive(Debug)]
pub enum Watched<'a> {
    /// A piece of the GC reports, in the format of [`remora_heap_stream::watch`].
    Piece(Foreign<&'a [u8]>),
    /// The next bytes of a snapshot's stream, in the format of [`remora_heap_stream`].
    Stream(Foreign<&'a [u8]>),
    /// The snapshot has ended. All GC reports from before it were delivered.
    Snapshot(EndedSnapshot),
}

/// The facts about an ended snapshot.
#[derive(Debug, Clone, Default)]
pub struct EndedSnapshot {
    /// Whether its stream was complete.
    pub is_whole: bool,
    /// The number in [`Classes`] of each of its classes.
    pub classes: Vec<u32>,
    /// GC pause for it, and the fork's part of that, nanoseconds.
    pub pause: Option<(u64, u64)>,
}

/// State of heap tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchState {
    /// Objects that the forked copy has walked.
    pub objects: u64,
    /// Whether a snapshot is in progress.
    pub is_taking: bool,
    /// Maximum memory that a copy cost so far, bytes.
    pub extra_memory: Option<u64>,
    /// Whether no more data arrives.
    pub ended: bool,
}

/// The result of heap tracking.
#[derive(Debug)]
pub struct WatchFinished {
    /// For the receipt.
    pub facts: Facts,
    /// The classes of all streams.
    pub classes: Classes,
    /// Other notes.
    pub notes: Vec<String>,
    /// For each snapshot its GC pause, and the fork's part of that, nanoseconds.
    pub pauses: Vec<(u64, u64)>,
    /// Number of lost pieces.
    pub lost: u64,
    /// Whether the target ended, or replaced its program with `exec`, before the agent had detached.
    pub target_ended: bool,
    /// The first error that the agent reported.
    pub failed: Option<AgentErrorCode>,
    /// An error during the detach.
    pub failure: Option<Error>,
}

/// Heap tracking in progress.
pub struct WatchSession {
    agent: AttachedAgent,
    reports: AgentReports,
    stream: Stream,
    cost: CopyCost,
    deadlines: Deadlines,
}

/// The data from the rings.
struct Stream {
    classes: Classes,
    beside: HeapDecoder,
    /// The classes of the current snapshot.
    numbers: Vec<u32>,
    /// The epoch of the current snapshot ([`crate::id_history`]).
    epoch: u32,
    words: Foreign<Vec<u64>>,
    bytes: Foreign<Vec<u8>>,
    damaged: bool,
    /// Bytes that the current snapshot may still have.
    left: u64,
}

/// State from the agent's messages.
#[derive(Default)]
struct AgentReports {
    /// Number of messages.
    messages: u64,
    child: Option<u32>,
    is_taking: bool,
    pauses: Vec<(u64, u64)>,
    /// The GC of the newest copy.
    at: Option<u64>,
    /// Exit status of the newest copy.
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
    /// [`NotAttached`]; its facts name everything that stays or is still unloading.
    pub fn attach(process: &Process, library: &[u8], timeout: Duration) -> Result<WatchSession, NotAttached> {
        let (mut agent, _) = attach_agent(process, library, Task::HeapTracking, None, timeout)?;
        agent.limit = Some(MemoryLimit::half());
        // No questions about static fields: their values change during heap tracking.
        agent.memory.ask(&[]);
        let mut classes = Classes::of_process(process.program());
        let stream = Stream {
            epoch: classes.id_history.snapshot_begins(),
            classes,
            beside: HeapDecoder::default(),
            numbers: Vec::new(),
            words: Foreign::default(),
            bytes: Foreign::default(),
            damaged: false,
            left: longest_stream(process.pid),
        };
        Ok(WatchSession {
            agent,
            reports: AgentReports { is_taking: true, ..AgentReports::default() },
            stream,
            cost: CopyCost::of(process),
            deadlines: Deadlines::of(process.pid),
        })
    }

    /// Passes new data to `sink`; waits at most `timeout`, or until a snapshot has ended.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, timeout: Duration, sink: &mut impl FnMut(Watched<'_>)) -> Result<WatchState, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let before = self.reports.messages;
            self.agent.listen(|message| self.reports.take(message));
            if let Some(child) = self.reports.child.take() {
                keep_child(&mut self.agent.facts, child);
                self.cost.begins(child);
            }
            self.cost.look();
            let (took, is_all) = match self.agent.is_taken_from() {
                true => self.stream.drain(&self.agent.memory, sink),
                false => (0, true),
            };
            // Between snapshots the agent reports only the target's own GCs.
            if self.reports.is_taking {
                self.agent.keep_deadlines(&mut self.deadlines, took > 0 || self.reports.messages > before);
            }
            // The copy's data was in the ring before the agent reported its end, but one pass may not have taken everything.
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
                self.agent.control.wait(left.min(INTERVAL))?;
            }
        }
    }

    /// Whether the copy has ended. Notes how it ended.
    fn copy_ended(&mut self) -> bool {
        let Some(status) = self.reports.walked.take() else { return false };
        self.reports.notes.extend(how_it_ended(status, &self.agent.memory));
        self.reports.lacked_memory |= ended_for_memory(status);
        true
    }

    /// Requests another snapshot. The one before must have ended.
    pub fn take_another(&mut self) {
        self.deadlines = Deadlines::of(self.agent.target.process_id);
        self.reports.is_taking = true;
        self.agent.control.send(&ToAgent::TakeAnother);
    }

    /// Detaches the agent, and waits until the library is unmapped. The wait is bounded, and short if the caller is in a hurry.
    pub fn detach(mut self, sink: &mut impl FnMut(Watched<'_>), hurried: impl Fn() -> bool) -> WatchFinished {
        self.agent.ask_to_leave();
        let WatchSession { agent, reports, stream, .. } = &mut self;
        let drain = |memory: &mut SharedMemory| stream.drain(memory, sink).0;
        let failure = agent.leave(INTERVAL, drain, |message| reports.take(message), hurried);
        self.reports.child.take().into_iter().for_each(|child| keep_child(&mut self.agent.facts, child));
        self.copy_ended();
        // Only shown.
        let lost = self.agent.memory.counter(layout::WATCH_LOST).unchecked();
        let mut notes = std::mem::take(&mut self.reports.notes);
        notes.extend(self.stream.damaged.then(|| "what the agent sent makes no sense from some point on".to_owned()));
        notes.extend((self.stream.left == 0).then(|| TOO_LONG.to_owned()));
        notes.extend(self.agent.ended_before_its_time().map(str::to_owned));
        notes.extend(self.cost.note());
        let WatchSession { agent, stream, reports, .. } = self;
        WatchFinished {
            facts: agent.facts,
            classes: stream.classes,
            notes,
            pauses: reports.pauses,
            lost,
            target_ended: agent.target_ended,
            failed: reports.failed,
            failure,
        }
    }

    fn state(&self) -> WatchState {
        WatchState {
            // Only shown.
            objects: self.agent.memory.counter(layout::HEAP_OBJECTS).unchecked(),
            is_taking: self.reports.is_taking,
            extra_memory: self.cost.most(),
            ended: self.agent.reason_to_end().is_some()
                || self.reports.failed.is_some()
                || self.reports.lacked_memory
                || self.stream.damaged
                || self.stream.left == 0,
        }
    }

    fn snapshot_ended(&mut self, sink: &mut impl FnMut(Watched<'_>)) {
        self.reports.is_taking = false;
        // Its copy has ended, and the next one starts only with the next request.
        self.agent.memory.give_up_rest_of_heap();
        let stream = &mut self.stream;
        let is_whole = std::mem::take(&mut stream.beside).has_ended();
        let classes = std::mem::take(&mut stream.numbers);
        stream.classes.id_history.were_described(&classes, self.reports.at.take());
        stream.epoch = stream.classes.id_history.snapshot_begins();
        // The heap may have grown.
        stream.left = longest_stream(self.agent.target.process_id);
        sink(Watched::Snapshot(EndedSnapshot { is_whole, classes, pause: self.reports.pauses.last().copied() }));
    }
}

impl Stream {
    /// One pass: takes everything, at most the capacity of the rings. Returns the number of pieces, and whether that was everything.
    fn drain(&mut self, memory: &SharedMemory, sink: &mut impl FnMut(Watched<'_>)) -> (usize, bool) {
        let (mut took, mut allowance) = (0, memory.allowance(&Instant::now));
        loop {
            let before = took;
            took += self.messages(memory, &mut allowance);
            took += self.pieces(memory, &mut allowance, sink);
            took += self.objects(memory, &mut allowance, sink);
            if took == before {
                return (took, allowance.is_left());
            }
        }
    }

    fn messages(&mut self, memory: &SharedMemory, allowance: &mut Allowance) -> usize {
        let mut took = 0;
        while memory.pop_beside_heap(&mut self.words, allowance) {
            took += 1;
            match Message::decode(self.words.all()) {
                Ok(message) => self.classes.message(message),
                Err(_) => self.damaged = true,
            }
        }
        took
    }

    fn pieces(
        &mut self,
        memory: &SharedMemory,
        allowance: &mut Allowance,
        sink: &mut impl FnMut(Watched<'_>),
    ) -> usize {
        let mut took = 0;
        while !self.damaged && memory.pop_watch(&mut self.words, allowance) {
            took += 1;
            let Some(bytes) = unpacked(self.words.all(), &mut self.bytes) else {
                self.damaged = true;
                return took;
            };
            if let Some(WatchPiece::Class { number, collection, id, facts }) = WatchPiece::class(bytes) {
                self.classes.id_history.in_collection(number);
                self.classes.class(id, facts);
                self.classes.id_history.were_described(&[self.classes.count() - 1], Some(collection));
            }
            sink(Watched::Piece(bytes));
        }
        took
    }

    fn objects(
        &mut self,
        memory: &SharedMemory,
        allowance: &mut Allowance,
        sink: &mut impl FnMut(Watched<'_>),
    ) -> usize {
        let mut took = 0;
        while took < PIECES_AT_ONCE
            && !self.damaged
            && self.left > 0
            && let Some(head) = memory.pop_heap(&mut self.bytes, allowance)
        {
            took += 1;
            self.left = self.left.saturating_sub(self.bytes.count() as u64);
            match HeapPiece::of(head, &self.bytes) {
                // No answers are expected, since there were no questions.
                Ok(HeapPiece::Answers(_)) => {}
                Ok(HeapPiece::Stream(bytes)) => sink(Watched::Stream(bytes)),
                Ok(HeapPiece::Beside(bytes)) => {
                    let before = self.classes.count();
                    self.classes.id_history.in_snapshot(self.epoch);
                    self.damaged = self.beside.push(bytes, &mut self.classes).is_err();
                    self.numbers.extend(before..self.classes.count());
                }
                Err(_) => self.damaged = true,
            }
        }
        took
    }
}

/// Unpacks the bytes of a piece, which has its length first. `None` if it is malformed.
fn unpacked<'a>(words: Foreign<&[u64]>, into: &'a mut Foreign<Vec<u8>>) -> Option<Foreign<&'a [u8]>> {
    let (&length, words) = words.unchecked().split_first()?;
    into.refill(|bytes| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes())));
    into.first(usize::try_from(length).ok()?)
}

impl AgentReports {
    /// Handles a message. Each snapshot has one copy: reports of others are ignored, since nothing else would bound their number.
    fn take(&mut self, message: FromAgent) {
        self.messages += 1;
        match message {
            FromAgent::Forked { child, collection, fork, at } if self.is_taking && self.at.is_none() => {
                self.at = Some(at);
                self.child = (child != 0).then_some(child);
                self.pauses.push((collection, fork));
            }
            FromAgent::Walked { status } if self.is_taking => self.walked = Some(status),
            FromAgent::Failed(error) => {
                self.failed.get_or_insert(error.code);
                crate::limits::keep_note(&mut self.notes, Some(words(error)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_copies_and_ends_of_copies_that_nobody_asked_for_were_kept_without_end() {
        let mut reports = AgentReports { is_taking: true, ..AgentReports::default() };
        let forked = |child| FromAgent::Forked { child, collection: 5, fork: 2, at: 1 };
        for child in 1..100 {
            reports.take(forked(child));
        }
        assert_eq!((&reports.pauses[..], reports.child), (&[(5, 2)][..], Some(1)));
        reports.take(FromAgent::Walked { status: 0 });
        assert_eq!(reports.walked.take(), Some(0));
        // What happens when a snapshot has ended.
        (reports.is_taking, reports.at) = (false, None);
        reports.take(forked(100));
        reports.take(FromAgent::Walked { status: 9 });
        assert_eq!((reports.pauses.len(), reports.walked), (1, None));
    }
}
