//! One heap snapshot by the agent: attach, fork the process, read the copy's stream, detach.

mod agent_reports;

pub(crate) use agent_reports::{ended_for_memory, how_it_ended};

use crate::attached_agent::AttachedAgent;
use crate::classes::Classes;
use crate::copy_cost::CopyCost;
use crate::limits::{Deadlines, MemoryLimit, keep_child, longest_stream};
use crate::profiler_count::attach_agent_with_callbacks;
use crate::shared_memory::SharedMemory;
use crate::statics::Statics;
use crate::{Error, NotAttached};
use agent_reports::AgentReports;
use remora_attach::Process;
use remora_heap_stream::{Foreign, HeapDecoder, HeapPiece};
use remora_receipt::Facts;
use remora_wire::{AgentErrorCode, Contents, HeapSnapshot, Message, Task, layout};
use std::time::{Duration, Instant};

/// Maximum wait for the control channel when neither ring has data.
const INTERVAL: Duration = Duration::from_millis(2);
/// The same while the copy sends objects, which fills a ring of 4 MiB in some milliseconds. The end of the stream is noticed late by up to
/// this time.
const SHORT_INTERVAL: Duration = Duration::from_micros(400);
/// Note for a stream without bytes left.
pub(crate) const TOO_LONG: &str = "what the copy of the process sent was longer than its memory allows, and was cut";

/// Progress of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapProgress {
    /// Objects walked.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the whole heap, gaps between objects included; 0 if not known beforehand.
    pub bytes_in_all: u64,
    /// Maximum memory that the copy cost so far, bytes: pages that the target wrote to meanwhile, and the copy's own.
    pub extra_memory: Option<u64>,
    /// After all objects: what the snapshot still waits for.
    pub waits_for: Option<HeapWait>,
    /// Whether the snapshot has ended.
    pub ended: bool,
}

/// What a snapshot waits for once the copy has sent all objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapWait {
    /// The agent still describes the assemblies of the process.
    Assemblies,
    /// Remora reads the assemblies' files, for the static fields that they declare.
    Files {
        /// Number of files read.
        read: usize,
        /// Number of files to read.
        all: usize,
    },
    /// The copy reads the static fields.
    StaticFields,
}

/// When a snapshot ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Open,
    /// The copy has ended, or has sent everything. The ring may still have its last records: a pass takes only some, if they take long.
    OnceAllIsTaken,
    /// Whatever still comes.
    Now,
}

impl End {
    /// Whether it has ended, after a pass that took so many records.
    fn is_over(self, took: usize) -> bool {
        match self {
            End::Open => false,
            End::OnceAllIsTaken => took == 0,
            End::Now => true,
        }
    }
}

/// Facts about a snapshot beyond its stream.
#[derive(Debug, Clone, Default)]
pub struct HeapAbout {
    /// Objects walked.
    pub objects: u64,
    /// Heap ranges not walked, or not to their end.
    pub ranges_unwalked: u64,
    /// Objects whose class did not fit into the copy's table.
    pub objects_unwalked: u64,
    /// Whether the stream has every object.
    pub complete: bool,
    /// Whether the copy answered for all static fields that could be asked about.
    pub static_fields: bool,
    /// Gaps and other notes.
    pub notes: Vec<String>,
    /// GC pause with the fork in it, nanoseconds.
    pub collection: Option<u64>,
    /// The fork's part of that, nanoseconds.
    pub fork: Option<u64>,
    /// Like [`HeapProgress::extra_memory`].
    pub extra_memory: Option<u64>,
    /// The runtime: `.NET 8.0.4`.
    pub runtime: String,
}

/// The result of a snapshot.
#[derive(Debug)]
pub struct HeapFinished {
    /// For the receipt.
    pub facts: Facts,
    /// The classes.
    pub classes: Classes,
    /// Facts about the snapshot.
    pub about: HeapAbout,
    /// Whether the target ended, or replaced its program with `exec`, before the agent had detached.
    pub target_ended: bool,
    /// The first error that the agent reported.
    pub failed: Option<AgentErrorCode>,
    /// An error during the detach.
    pub failure: Option<Error>,
}

/// A snapshot in progress.
pub struct HeapSession {
    agent: AttachedAgent,
    reports: AgentReports,
    classes: Classes,
    stream: Stream,
    cost: CopyCost,
    deadlines: Deadlines,
}

/// The copy's stream.
#[derive(Default)]
struct Stream {
    /// Decodes the records that the copy repeats outside the stream: classes, layouts and the end.
    beside: HeapDecoder,
    words: Foreign<Vec<u64>>,
    bytes: Foreign<Vec<u8>>,
    has_begun: bool,
    damaged: bool,
    /// Bytes that the stream may still have.
    left: u64,
}

impl HeapSession {
    /// Places the library, attaches, and returns when the agent is about to trigger a GC.
    ///
    /// # Errors
    /// [`NotAttached`]; its facts name everything that stays or is still unloading.
    pub fn attach(
        process: &Process,
        library: &[u8],
        wanted: HeapSnapshot,
        timeout: Duration,
    ) -> Result<HeapSession, NotAttached> {
        let (mut agent, _) = attach_agent_with_callbacks(process, library, Task::HeapSnapshot(wanted), None, timeout)?;
        agent.limit = Some(MemoryLimit::half());
        let mut classes = Classes::of_process(process.program());
        classes.statics = Statics::new(wanted.contents == Contents::Values);
        classes.major = process.runtime().and_then(|runtime| runtime.version).map(|version| version.major);
        Ok(HeapSession {
            agent,
            reports: AgentReports::default(),
            classes,
            stream: Stream { left: longest_stream(process.pid), ..Stream::default() },
            cost: CopyCost::of(process),
            deadlines: Deadlines::of(process.pid),
        })
    }

    /// Passes new data of the stream to `sink`, and waits at most `timeout`. Call it repeatedly until the snapshot has ended.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, timeout: Duration, sink: &mut impl FnMut(Foreign<&[u8]>)) -> Result<HeapProgress, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let before = self.reports.milestones();
            self.agent.listen(|message| self.reports.take(message));
            let mut took = match self.agent.is_taken_from() {
                true => self.stream.drain(&mut self.agent.memory, &mut self.classes, sink),
                false => 0,
            };
            let is_walked = self.stream.beside.has_ended();
            took += usize::from(self.reports.described && self.classes.ask_on(&self.agent.memory, is_walked));
            self.agent.memory.is_preparing_questions();
            if let Some(child) = self.reports.child.take() {
                keep_child(&mut self.agent.facts, child);
                self.cost.begins(child);
            }
            self.cost.look();
            self.agent.keep_deadlines(&mut self.deadlines, took > 0 || self.reports.milestones() > before);
            let progress = HeapProgress { ended: self.end().is_over(took), ..self.progress() };
            let left = deadline.saturating_duration_since(Instant::now());
            if progress.ended || left.is_zero() {
                return Ok(progress);
            }
            // During the GC a CPU is idle here: most metadata that names need is read by its end.
            let is_idle = took == 0 && !(self.reports.collection.is_none() && self.classes.read_ahead());
            if is_idle {
                self.agent.control.wait(left.min(self.stream.look()))?;
            }
        }
    }

    /// Asks the agent to detach and, if the copy still walks, to kill it. Does not wait for either.
    pub fn begin_detach(&mut self) {
        self.agent.ask_to_leave();
    }

    /// The classes received so far.
    pub fn classes(&mut self) -> &mut Classes {
        &mut self.classes
    }

    /// Detaches like [`HeapSession::begin_detach`], and waits until the library is unmapped. The wait is bounded, and short if the caller
    /// is in a hurry.
    pub fn detach(mut self, sink: &mut impl FnMut(Foreign<&[u8]>), hurried: impl Fn() -> bool) -> HeapFinished {
        let HeapSession { agent, reports, classes, stream, .. } = &mut self;
        let failure = agent.leave(
            INTERVAL,
            |memory| stream.drain(memory, classes, sink),
            |message| reports.take(message),
            hurried,
        );
        self.reports.child.take().into_iter().for_each(|child| keep_child(&mut self.agent.facts, child));
        let about = self.about();
        let HeapSession { agent, classes, reports, .. } = self;
        let (facts, target_ended) = (agent.facts, agent.target_ended);
        HeapFinished { facts, classes, about, target_ended, failed: reports.failed, failure }
    }

    fn progress(&self) -> HeapProgress {
        // Only shown.
        let counter = |which| self.agent.memory.counter(which).unchecked();
        HeapProgress {
            objects: counter(layout::HEAP_OBJECTS),
            bytes: counter(layout::HEAP_BYTES),
            bytes_in_all: counter(layout::HEAP_BYTES_IN_ALL),
            extra_memory: self.cost.most(),
            waits_for: self.stream.beside.has_ended().then(|| self.waits_for()),
            ended: false,
        }
    }

    fn end(&self) -> End {
        let has_all = self.stream.beside.has_ended() && self.reports.described && self.classes.statics.has_ended();
        if self.agent.reason_to_end().is_some() || self.stream.left == 0 || self.stream.damaged {
            End::Now
        // The agent sends the modules' ids before it reports that the copy has ended. The copy's stream may have ended long before.
        } else if self.reports.has_ended() || has_all {
            End::OnceAllIsTaken
        } else {
            End::Open
        }
    }

    fn waits_for(&self) -> HeapWait {
        match (self.reports.described, self.classes.statics.files()) {
            (false, _) => HeapWait::Assemblies,
            (true, Some((read, all))) => HeapWait::Files { read, all },
            (true, None) => HeapWait::StaticFields,
        }
    }

    /// The facts known so far.
    pub fn about(&self) -> HeapAbout {
        // Only shown, and added with saturation.
        let counter = |which| self.agent.memory.counter(which).unchecked();
        let mut notes = self.reports.notes.clone();
        notes.extend(
            self.stream
                .damaged
                .then(|| "what the copy of the process sent makes no sense from some point on".to_owned()),
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
                "objects are otherwise than others of their classes: some objects of these may be shown wrongly",
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
                "types have static fields that could not be read: what the runtime knows of these types had changed meanwhile",
            ),
            (layout::LOST_DESCRIPTIONS, "descriptions of modules did not fit into the transport"),
        ];
        let lost = counted.iter().filter(|(which, _)| counter(*which) > 0);
        notes.extend(lost.map(|(which, what)| format!("{} {what}", counter(*which))));
        let has_all = !self.stream.beside.has_ended() || self.classes.statics.has_ended();
        notes.extend(
            (!has_all).then(|| "not all static fields were read: the copy of the process ended before".to_owned()),
        );
        notes.extend(self.classes.statics.notes());
        notes.extend(self.reports.walked.and_then(|status| how_it_ended(status, &self.agent.memory)));
        notes.extend(self.agent.ended_before_its_time().map(str::to_owned));
        notes.extend(self.cost.note());
        HeapAbout {
            objects: counter(layout::HEAP_OBJECTS),
            ranges_unwalked: counter(layout::HEAP_BROKEN).saturating_add(counter(layout::HEAP_LEFT_OUT)),
            objects_unwalked: counter(layout::HEAP_WITHOUT_CLASS),
            complete: self.stream.beside.has_ended()
                && self.reports.described
                && counted[..3].iter().all(|(which, _)| counter(*which) == 0),
            static_fields: self.classes.statics.are_whole() && counter(layout::HEAP_QUESTIONS_GIVEN_UP) == 0,
            notes,
            collection: self.reports.collection,
            fork: self.reports.fork,
            extra_memory: self.cost.most(),
            runtime: self.agent.facts.runtime.clone(),
        }
    }
}

impl Stream {
    /// Maximum wait for the control channel.
    fn look(&self) -> Duration {
        if self.has_begun { SHORT_INTERVAL } else { INTERVAL }
    }

    /// Takes new data, and returns the number of pieces.
    fn drain(
        &mut self,
        memory: &mut SharedMemory,
        classes: &mut Classes,
        sink: &mut impl FnMut(Foreign<&[u8]>),
    ) -> usize {
        let (mut took, mut allowance) = (0, memory.allowance(&Instant::now));
        while self.left > 0 && memory.pop_beside_heap(&mut self.words, &mut allowance) {
            took += 1;
            self.left = self.left.saturating_sub(self.words.count() as u64 * 8);
            match Message::decode(self.words.all()) {
                Ok(message) => classes.message(message),
                Err(_) => self.damaged = true,
            }
        }
        while !self.damaged
            && self.left > 0
            && let Some(head) = memory.pop_heap(&mut self.bytes, &mut allowance)
        {
            took += 1;
            self.left = self.left.saturating_sub(self.bytes.count() as u64);
            self.has_begun = true;
            match HeapPiece::of(head, &self.bytes) {
                Ok(HeapPiece::Answers(bytes)) => self.damaged = classes.statics.answer(bytes).is_err(),
                Ok(HeapPiece::Stream(bytes)) => sink(bytes),
                Ok(HeapPiece::Beside(bytes)) => self.damaged = self.beside.push(bytes, classes).is_err(),
                Err(_) => self.damaged = true,
            }
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use super::End;

    /// The command stopped when its time for a step was up, and static fields in the ring were lost.
    #[test]
    fn regression_a_snapshot_whose_copy_has_ended_goes_on_until_the_ring_is_empty() {
        assert!(!End::OnceAllIsTaken.is_over(1));
        assert!(End::OnceAllIsTaken.is_over(0));
        assert!(End::Now.is_over(1) && !End::Open.is_over(0));
    }
}
