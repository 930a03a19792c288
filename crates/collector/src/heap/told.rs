//! What the agent says of a snapshot beside what is told of objects.

use remora_wire::FromAgent;

/// What the agent said of its task.
#[derive(Default)]
pub(super) struct Told {
    /// The copy that has just been made.
    pub(super) child: Option<u32>,
    pub(super) collection: Option<u64>,
    pub(super) fork: Option<u64>,
    /// How the copy ended.
    pub(super) walked: Option<i32>,
    /// Whether the agent has told all that it tells itself.
    pub(super) described: bool,
    pub(super) notes: Vec<String>,
}

impl Told {
    pub(super) fn take(&mut self, message: FromAgent) {
        match message {
            FromAgent::Forked { child, collection, fork, .. } => {
                self.child = (child != 0).then_some(child);
                (self.collection, self.fork) = (Some(collection), Some(fork));
            }
            FromAgent::Described => self.described = true,
            FromAgent::Walked { status } => self.walked = Some(status),
            FromAgent::Failed { what } => self.notes.push(what),
            _ => {}
        }
    }

    /// How much of what comes once has come.
    pub(super) fn milestones(&self) -> usize {
        usize::from(self.collection.is_some()) + usize::from(self.described) + usize::from(self.walked.is_some())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.walked.is_some() || !self.notes.is_empty()
    }
}

/// Why a copy ended, if it did not end as it should. `status` comes from `wait`.
pub(crate) fn how_it_ended(status: i32) -> Option<String> {
    match (status & 0x7f, (status >> 8) & 0xff) {
        (0, 0) => None,
        (0, code) => Some(format!("the copy of the process that walked its heap ended with status {code}")),
        (signal, _) => Some(format!("the copy of the process that walked its heap was ended by signal {signal}")),
    }
}
