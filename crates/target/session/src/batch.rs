//! Samples between the handlers' ring and the collector: looked up in small batches behind the gate, handed over outside of it.
//!
//! A pass is bounded: the agent hears its commands between two of them. Behind the gate nothing waits for the transport, so an
//! unload is held up by look-ups only; and a refused transport costs neither look-ups nor time, only the samples.

use crate::asking::Asking;
use crate::catalogue::Catalogue;
use crate::delivery::{Closing, Delivery, Taken};
use crate::gate::{Passage, Unload};
use crate::platform::Platform;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::stacks::Stack;
use remora_sampler::RawSample;
use remora_wire::{layout, sample_flags};

/// Flag of a raw sample that repeats its thread's last stack (never sent over the wire).
pub const REPEATED: u8 = 0x80;

/// Samples looked up before unloads may go and the samples are handed over.
pub(crate) const BATCH: usize = 32;

/// Batches in a pass.
pub(crate) const BATCHES: usize = 32;

/// Batches after the recording, at most: more than the samples that fit before the agent.
const LAST_BATCHES: usize = 64 * BATCHES;

/// What has been made of one raw sample.
enum Ready {
    Sample(Taken, Stack),
    Repeat(Taken),
    Lost(u32),
}

/// What is known of the samples on their way.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) catalogue: Catalogue,
    pub(crate) delivery: Delivery,
    pub(crate) passage: Passage,
    words: Vec<u64>,
}

impl Samples {
    /// Hands over waiting samples, each after the descriptions of its addresses. Returns how many; [`BATCHES`] full batches may leave more.
    pub(crate) fn pass<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> usize {
        self.catalogue.tick(shared.platform.now());
        let mut count = 0;
        for _ in 0..BATCHES {
            let of_batch = self.batch(shared, runtime);
            count += of_batch;
            if of_batch < BATCH {
                break;
            }
        }
        count
    }

    /// The last samples: all are looked up, then unloads wait no more, and only then is anything handed over. The transport may be full and
    /// granted a long wait now, which no unload is to share.
    pub(crate) fn last<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime, closing: Closing) {
        let mut ready = Vec::new();
        for _ in 0..LAST_BATCHES {
            let looked_up = self.look_up(shared, runtime);
            let more = looked_up.len() == BATCH;
            ready.extend(looked_up);
            if !more {
                break;
            }
        }
        shared.gate.open(&shared.platform);
        self.delivery.close(&shared.platform, closing);
        ready.into_iter().flatten().for_each(|ready| self.hand_over(&shared.platform, ready));
    }

    fn batch<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> usize {
        let ready = self.look_up(shared, runtime);
        let count = ready.len();
        self.delivery.deliver_introductions(&shared.platform);
        ready.into_iter().flatten().for_each(|ready| self.hand_over(&shared.platform, ready));
        count
    }

    /// One batch, behind the gate.
    fn look_up<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> Vec<Option<Ready>> {
        let Samples { catalogue, passage, .. } = self;
        shared.gate.enter(passage, &mut |told| {
            catalogue.forget(told);
        });
        let mut ready = Vec::with_capacity(BATCH);
        while ready.len() < BATCH && shared.platform.next_sample(&mut self.words) {
            ready.push(self.make_ready(shared, runtime));
        }
        let Samples { catalogue, passage, .. } = self;
        shared.gate.leave(&shared.platform, passage, &mut |told| {
            catalogue.forget(told);
        });
        ready
    }

    /// `None` if the record is none of ours.
    fn make_ready<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> Option<Ready> {
        let sample = RawSample::decode(&self.words)?;
        let taken = Taken::of(&sample);
        if sample.flags & REPEATED != 0 {
            return Some(Ready::Repeat(taken));
        }
        shared.platform.learn_stack(sample.slot, sample.thread, sample.stack_pointer);
        if self.delivery.outward.is_refusing() {
            return Some(Ready::Lost(sample.thread));
        }
        let asking = Asking { shared, runtime };
        if !self.passage.is_blind() && !asking.is_over() {
            let stack = Stack::explained(&shared.platform, &asking, &mut self.catalogue, &sample);
            if (stack.flags | sample.flags) & (sample_flags::BROKEN | sample_flags::CALLERS_UNKNOWN) != 0 {
                shared.platform.sample_again(sample.slot, sample.thread);
            }
            if !asking.is_over() {
                return Some(Ready::Sample(taken, stack));
            }
            // What it describes is not told.
            self.catalogue.forget(&[Unload::Anything]);
        }
        // What it meets may have unloaded.
        shared.platform.count(layout::LOST_DESCRIPTIONS, 1);
        Some(Ready::Sample(taken, Stack::unexplained(&mut self.catalogue, &sample)))
    }

    fn hand_over(&mut self, platform: &impl Platform, ready: Ready) {
        match ready {
            Ready::Sample(taken, stack) => {
                if !self.delivery.sample(platform, taken, &stack) {
                    self.catalogue.forget(&[Unload::Anything]);
                }
            }
            Ready::Repeat(taken) => self.delivery.repeat(platform, taken),
            Ready::Lost(thread) => self.delivery.lose(platform, thread),
        }
    }
}
