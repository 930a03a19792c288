//! The end of a recording: the last answers, and the time of threads that are still blocked.

use super::{ANSWERING, Rounds};
use crate::futex::futex_wait;
use remora_sampler::{Slot, monotonic, thread_cpu_of};
use std::sync::atomic::Ordering;

/// The distance of looks for the last answers, nanoseconds.
const ANSWER_INTERVAL: u64 = 1_000_000;

impl Rounds<'_> {
    /// Waits until the threads have answered, for some time at most.
    fn await_answers(&self) {
        let heard = self.sampler.bell.load(Ordering::SeqCst);
        let is_open = |at| self.slot(at).is_some_and(|slot| slot.ask.weight.load(Ordering::Acquire) != 0);
        for _ in 0..ANSWERING / ANSWER_INTERVAL {
            if !(0..self.looked.len()).any(is_open) {
                return;
            }
            futex_wait(&self.sampler.bell, heard as u32, ANSWER_INTERVAL);
        }
    }

    /// Ends the recording: accounts for unchanged stacks until now.
    pub(super) fn end(&mut self) {
        self.await_answers();
        let now = monotonic();
        for at in 0..self.looked.len() {
            let Some(slot) = self.slot(at) else { continue };
            let thread = self.looked[at].thread;
            let used = thread_cpu_of(thread);
            // The budget may have left no look at it since its last sample.
            if self.looked[at].settled.is_none() && used != 0 && self.is_back(thread, slot, used) {
                (self.looked[at].used, self.looked[at].settled) = (used, Some(used));
            }
            let looked = &mut self.looked[at];
            looked.sampled = slot.answers.off_cpu.load(Ordering::Relaxed);
            if looked.settled == Some(used) {
                looked.unchanged_until = now;
            }
            self.settle_account(at, Some(slot));
            if used != 0 && self.looked[at].settled.is_none() {
                self.read_last(at, slot, used, now);
            }
        }
    }

    /// Samples a thread that is in another wait than at its last sample. No thread is woken for it.
    fn read_last(&mut self, at: usize, slot: &Slot, used: u64, now: u64) {
        self.looked[at].used = used;
        let weight = self.looked[at].due(now);
        if self.sampler.wall && weight != 0 && self.is_answered(&slot.ask, used) {
            self.read_stack(at, slot, weight, now);
        }
    }
}
