//! The agent's control messages about a snapshot.

use crate::agent_error::words;
use crate::shared_memory::SharedMemory;
use remora_wire::layout::{ENDED_BY_ROOM, ENDED_BY_STALLS};
use remora_wire::{AgentErrorCode, FromAgent, layout};

/// State of the snapshot, from the agent's messages.
#[derive(Default)]
pub(super) struct AgentReports {
    /// The newest copy, until it is taken out.
    pub(super) child: Option<u32>,
    pub(super) collection: Option<u64>,
    pub(super) fork: Option<u64>,
    /// The copy's exit status.
    pub(super) walked: Option<i32>,
    /// Whether the agent has sent all descriptions of its own.
    pub(super) described: bool,
    /// The first error that it reported.
    pub(super) failed: Option<AgentErrorCode>,
    pub(super) notes: Vec<String>,
}

impl AgentReports {
    pub(super) fn take(&mut self, message: FromAgent) {
        match message {
            FromAgent::Forked { child, collection, fork, .. } => {
                self.child = (child != 0).then_some(child);
                (self.collection, self.fork) = (Some(collection), Some(fork));
            }
            FromAgent::Described => self.described = true,
            FromAgent::Walked { status } => self.walked = Some(status),
            FromAgent::Failed(error) => {
                self.failed.get_or_insert(error.code);
                crate::limits::keep_note(&mut self.notes, Some(words(error)));
            }
            _ => {}
        }
    }

    /// Number of one-time messages received.
    pub(super) fn milestones(&self) -> usize {
        usize::from(self.collection.is_some()) + usize::from(self.described) + usize::from(self.walked.is_some())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.walked.is_some() || !self.notes.is_empty()
    }
}

/// Why a copy failed; `None` if it ended normally. `status` comes from `wait`.
pub(crate) fn how_it_ended(status: i32, memory: &SharedMemory) -> Option<String> {
    // Only shown.
    let mebibytes = |which| memory.counter(which).unchecked() >> 20;
    match (status & 0x7f, (status >> 8) & 0xff) {
        (0, 0) => None,
        (0, ENDED_BY_ROOM) => Some(format!(
            "the copy of the process ended itself, since its control group had {} MiB of {} MiB left: another snapshot would lack as much, \
             unless more is free in the group or its limit is raised",
            mebibytes(layout::HEAP_ROOM_LEFT),
            mebibytes(layout::HEAP_ROOM_LIMIT)
        )),
        (0, ENDED_BY_STALLS) => Some(
            "the copy of the process ended itself, since everybody waited for memory for more than a quarter of the time (`memory.pressure` \
             of the control group, or /proc/pressure/memory): another snapshot would lack as much, unless more is free"
                .to_owned(),
        ),
        (0, code) => Some(format!("the copy of the process that walked its heap ended with status {code}")),
        (signal, _) => Some(format!("the copy of the process that walked its heap was ended by signal {signal}")),
    }
}

/// Whether a copy ended itself for lack of memory: the next one would, too.
pub(crate) fn ended_for_memory(status: i32) -> bool {
    status & 0x7f == 0 && matches!((status >> 8) & 0xff, ENDED_BY_ROOM | ENDED_BY_STALLS)
}
