//! Samples between the handlers' ring and the collector: looked up in small batches behind the gate, handed over outside of it.
//!
//! A pass is bounded: the agent hears its commands between two of them. Behind the gate nothing waits for the transport, so an
//! unload is held up by look-ups only; and a refused transport costs neither look-ups nor time, only the samples.

use crate::guarded_runtime::GuardedRuntime;
use crate::method_cache::MethodCache;
use crate::platform::Platform;
use crate::runtime::Runtime;
use crate::sample_writer::{FinalMessages, SampleHead, SampleWriter};
use crate::shared::Shared;
use crate::stacks::Stack;
use crate::unload_barrier::{Unload, UnloadNotices};
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
    Sample(SampleHead, Stack),
    Repeat(SampleHead),
    Lost(u32),
}

/// What is known of the samples on their way.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) method_cache: MethodCache,
    pub(crate) writer: SampleWriter,
    pub(crate) notices: UnloadNotices,
    words: Vec<u64>,
}

impl Samples {
    /// Hands over waiting samples, each after the descriptions of its addresses. Returns how many; [`BATCHES`] full batches may leave more.
    pub(crate) fn pass<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> usize {
        self.method_cache.set_time(shared.platform.now());
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
    pub(crate) fn last<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime, last: FinalMessages) {
        let mut ready = Vec::new();
        for _ in 0..LAST_BATCHES {
            let resolved = self.resolve_batch(shared, runtime);
            let more = resolved.len() == BATCH;
            ready.extend(resolved);
            if !more {
                break;
            }
        }
        shared.unload_barrier.lower(&shared.platform);
        self.writer.finish(&shared.platform, last);
        ready.into_iter().flatten().for_each(|ready| self.send(&shared.platform, ready));
    }

    fn batch<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> usize {
        let ready = self.resolve_batch(shared, runtime);
        let count = ready.len();
        self.writer.send_queued(&shared.platform);
        ready.into_iter().flatten().for_each(|ready| self.send(&shared.platform, ready));
        count
    }

    /// One batch, behind the gate.
    fn resolve_batch<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> Vec<Option<Ready>> {
        let Samples { method_cache, notices, .. } = self;
        shared.unload_barrier.begin_batch(notices, &mut |told| {
            method_cache.forget(told);
        });
        let mut ready = Vec::with_capacity(BATCH);
        while ready.len() < BATCH && shared.platform.next_sample(&mut self.words) {
            ready.push(self.resolve_sample(shared, runtime));
        }
        let Samples { method_cache, notices, .. } = self;
        shared.unload_barrier.end_batch(&shared.platform, notices, &mut |told| {
            method_cache.forget(told);
        });
        ready
    }

    /// `None` if the record is none of ours.
    fn resolve_sample<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> Option<Ready> {
        let sample = RawSample::decode(&self.words)?;
        let head = SampleHead::of(&sample);
        if sample.flags & REPEATED != 0 {
            return Some(Ready::Repeat(head));
        }
        shared.platform.learn_stack(sample.slot, sample.thread, sample.stack_pointer);
        if self.writer.transport.is_full() {
            return Some(Ready::Lost(sample.thread));
        }
        let guarded = GuardedRuntime { shared, runtime };
        if !self.notices.must_drop_pending() && !guarded.must_stop() {
            let stack = Stack::resolved(&shared.platform, &guarded, &mut self.method_cache, &sample);
            if (stack.flags | sample.flags) & (sample_flags::BROKEN | sample_flags::CALLERS_UNKNOWN) != 0 {
                shared.platform.sample_again(sample.slot, sample.thread);
            }
            if !guarded.must_stop() {
                return Some(Ready::Sample(head, stack));
            }
            // What it describes is not told.
            self.method_cache.forget(&[Unload::Anything]);
        }
        // What it meets may have unloaded.
        shared.platform.count(layout::LOST_DESCRIPTIONS, 1);
        Some(Ready::Sample(head, Stack::unresolved(&mut self.method_cache, &sample)))
    }

    fn send(&mut self, platform: &impl Platform, ready: Ready) {
        match ready {
            Ready::Sample(head, stack) => {
                if !self.writer.sample(platform, head, &stack) {
                    self.method_cache.forget(&[Unload::Anything]);
                }
            }
            Ready::Repeat(head) => self.writer.repeat(platform, head),
            Ready::Lost(thread) => self.writer.count_lost(platform, thread),
        }
    }
}
