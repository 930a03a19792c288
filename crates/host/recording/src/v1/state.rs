//! Meta and loss as JSON: the boundary types of version 1.
//!
//! A field of a later Remora is ignored; a missing field is its default. So the format need not change for new fields.

use crate::limits::{self, fitting};
use remora_profile::{Event, Loss, LossCause, Meta, Profile, Unit};
use serde::{Deserialize, Serialize};

/// The content of a state chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    meta: MetaState,
    loss: LossState,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct MetaState {
    event: String,
    engine: String,
    frequency: u32,
    started_unix_nanoseconds: u64,
    duration: u64,
    process_id: u32,
    application: String,
    command_line: String,
    runtime: String,
    target_cpu: Option<u64>,
    exceptions: Option<u64>,
    notes: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct LossState {
    taken: u64,
    delivered: u64,
    /// Permanent id of the cause, and the number.
    lost: Vec<(u32, u64)>,
    truncated_stacks: u64,
    broken_stacks: u64,
    repaired_stacks: u64,
    incomplete_stacks: u64,
    repeated_stacks: u64,
    moved_on: u64,
    stray_signals: u64,
}

impl State {
    pub(super) fn of(profile: &Profile) -> State {
        State { meta: MetaState::of(&profile.meta), loss: LossState::of(&profile.loss) }
    }

    pub(super) fn json(&self) -> Vec<u8> {
        // Strings and numbers always serialize; if not, the reader would report a damaged chunk.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses and checks the state, so that [`State::into_domain`] cannot fail.
    pub(super) fn from_json(json: &[u8]) -> Result<State, &'static str> {
        let state: State = serde_json::from_slice(json).map_err(|_| "the state is not the JSON that it should be")?;
        if Event::from_name(&state.meta.event).is_none() {
            return Err("the state names no known event");
        }
        if state.meta.duration.max(state.meta.started_unix_nanoseconds) > limits::NANOSECONDS {
            return Err("the state has a time out of range");
        }
        let lost = state.loss.lost.iter().try_fold(state.loss.delivered, |sum, (_, count)| sum.checked_add(*count));
        if lost.is_none_or(|sum| sum > limits::NANOSECONDS) {
            return Err("the state has a loss out of range");
        }
        Ok(state)
    }

    pub(super) fn into_domain(self) -> (Meta, Loss) {
        let mut meta = self.meta.into_domain();
        let loss = self.loss.into_domain(&mut meta.notes);
        (meta, loss)
    }
}

impl MetaState {
    fn of(meta: &Meta) -> MetaState {
        MetaState {
            event: meta.event.name().to_owned(),
            engine: fitting(&meta.engine).into_owned(),
            frequency: meta.frequency,
            started_unix_nanoseconds: meta.started_unix_nanoseconds.min(limits::NANOSECONDS),
            duration: meta.duration.min(limits::NANOSECONDS),
            process_id: meta.process_id,
            application: fitting(&meta.application).into_owned(),
            command_line: fitting(&meta.command_line).into_owned(),
            runtime: fitting(&meta.runtime).into_owned(),
            target_cpu: meta.target_cpu,
            exceptions: meta.exceptions,
            notes: meta.notes.iter().take(limits::NOTES).map(|note| fitting(note).into_owned()).collect(),
        }
    }

    fn into_domain(self) -> Meta {
        Meta {
            event: Event::from_name(&self.event).unwrap_or(Event::Cpu),
            // Only samples of time are recorded.
            unit: Unit::Nanoseconds,
            engine: self.engine,
            frequency: self.frequency,
            started_unix_nanoseconds: self.started_unix_nanoseconds,
            duration: self.duration,
            process_id: self.process_id,
            application: self.application,
            command_line: self.command_line,
            runtime: self.runtime,
            target_cpu: self.target_cpu,
            exceptions: self.exceptions,
            notes: self.notes,
        }
    }
}

impl LossState {
    /// Clamps the total loss: the target counts it, and an invalid count must not make the file unreadable.
    fn of(loss: &Loss) -> LossState {
        let delivered = loss.delivered.min(limits::NANOSECONDS);
        let mut left = limits::NANOSECONDS - delivered;
        let mut clamped = |count: u64| {
            let count = count.min(left);
            left -= count;
            count
        };
        LossState {
            taken: loss.taken,
            delivered,
            lost: loss.lost.iter().map(|(cause, count)| (cause.id(), clamped(*count))).collect(),
            truncated_stacks: loss.truncated_stacks,
            broken_stacks: loss.broken_stacks,
            repaired_stacks: loss.repaired_stacks,
            incomplete_stacks: loss.incomplete_stacks,
            repeated_stacks: loss.repeated_stacks,
            moved_on: loss.moved_on,
            stray_signals: loss.stray_signals,
        }
    }

    /// A cause of a later Remora counts as [`LossCause::Damaged`], with a line in `notes`.
    fn into_domain(self, notes: &mut Vec<String>) -> Loss {
        let mut loss = Loss {
            taken: self.taken,
            delivered: self.delivered,
            lost: Vec::new(),
            truncated_stacks: self.truncated_stacks,
            broken_stacks: self.broken_stacks,
            repaired_stacks: self.repaired_stacks,
            incomplete_stacks: self.incomplete_stacks,
            repeated_stacks: self.repeated_stacks,
            moved_on: self.moved_on,
            stray_signals: self.stray_signals,
        };
        for (id, count) in self.lost {
            let cause = LossCause::from_id(id).unwrap_or_else(|| {
                notes.push(format!("{count} samples were lost for cause {id}, which only a newer Remora can name"));
                LossCause::Damaged
            });
            loss.lose(cause, count);
        }
        loss
    }
}
