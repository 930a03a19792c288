//! A thread as the sampler knows it, and the account of its time off the CPU.

use crate::budget::READ;
use remora_sampler::{RawSample, Session};
use remora_session::REPEATED;
use remora_wire::layout;

/// A thread as the sampler knows it.
#[derive(Debug, Clone, Copy)]
pub struct SampledThread {
    pub thread: u32,
    pub slot: u32,
    /// When the account of its time began, monotonic nanoseconds.
    pub since: u64,
    /// Its CPU clock then.
    pub from: u64,
    /// Its CPU clock at the last look.
    pub used: u64,
    /// Consecutive looks without a change of that clock.
    pub quiet: u32,
    /// The last instant with new CPU time: its number, and its time if the thread was running then, monotonic nanoseconds.
    pub seen: Option<(u64, Option<u64>)>,
    /// Its CPU clock when it was back in its wait after a sample. It keeps that sample's stack until the clock moves.
    pub settled: Option<u64>,
    /// Until when its stack is known to be unchanged, monotonic nanoseconds.
    pub unchanged_until: u64,
    /// Sum of the weights of its samples off the CPU at the last look, nanoseconds.
    pub sampled: u64,
    /// Sum of the weights of its repeated samples, nanoseconds.
    pub repeated: u64,
    /// Whether an incomplete stack was sampled once more ([`remora_sampler::Slot::again`]) with the newest unwind table.
    pub resampled: bool,
    /// The cost of its last sample while it was blocked, in tokens of the budget.
    pub cost: u64,
}

impl SampledThread {
    /// A thread whose account begins at `since`, with its CPU clock `from`.
    pub fn new(thread: u32, slot: u32, since: u64, from: u64) -> Self {
        SampledThread {
            thread,
            slot,
            since,
            from,
            used: from,
            quiet: 0,
            seen: None,
            settled: None,
            unchanged_until: since,
            sampled: 0,
            repeated: 0,
            resampled: false,
            cost: READ,
        }
    }

    /// Whether this is the same thread, followed since the same time.
    pub fn is_same(&self, other: &SampledThread) -> bool {
        (self.thread, self.slot, self.since) == (other.thread, other.slot, other.since)
    }

    /// The thread's off-CPU time up to `until` without a sample yet, nanoseconds.
    pub fn due(&self, until: u64) -> u64 {
        let off_cpu = until.saturating_sub(self.since).saturating_sub(self.used.saturating_sub(self.from));
        off_cpu.saturating_sub(self.sampled).saturating_sub(self.repeated)
    }

    /// Repeats the last sample for the time of its unchanged stack. `settled` is the thread's CPU clock then.
    pub fn repeat(&mut self, session: &Session, settled: u64) {
        let weight = SampledThread { used: settled, ..*self }.due(self.unchanged_until);
        if weight == 0 {
            return;
        }
        session.count(layout::TAKEN);
        let SampledThread { thread, slot, unchanged_until: time, .. } = *self;
        let sample = RawSample { thread, slot, flags: REPEATED, time, weight, ..RawSample::default() };
        if session.ring.push(&[&sample.words()]).is_ok() {
            self.repeated += weight;
        } else {
            session.count(layout::LOST_RING_FULL);
        }
    }
}
