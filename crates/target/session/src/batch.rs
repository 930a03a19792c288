//! Moves samples from the signal handlers' ring to the collector. Small batches are resolved inside the unload barrier, and sent outside
//! it.
//!
//! A pass is bounded, and the agent reads its commands between passes. Inside the barrier nothing waits for the transport: only look-ups
//! delay an unload. A full transport costs samples, but no look-ups and no time.

use crate::guarded_runtime::GuardedRuntime;
use crate::method_cache::MethodCache;
use crate::platform::Platform;
use crate::runtime::Runtime;
use crate::sample_writer::{FinalMessages, SampleHead, SampleWriter};
use crate::shared::Shared;
use crate::stacks::Stack;
use crate::unload_barrier::{Unload, UnloadNotices};
use remora_sampler::{RawSample, THROWN};
use remora_wire::{layout, sample_flags};

/// Flag of a raw sample that repeats its thread's last stack (never sent over the wire).
pub const REPEATED: u8 = 0x80;

/// Samples resolved before unloads may continue and the samples are sent.
pub(crate) const BATCH: usize = 32;

/// Batches in a pass.
pub(crate) const BATCHES: usize = 32;

/// Batches after the recording, at most: more samples than the ring holds.
const LAST_BATCHES: usize = 64 * BATCHES;

/// The result of one raw sample.
enum Ready {
    Sample(SampleHead, Stack),
    /// An exception, and the index of its type.
    Thrown(SampleHead, Option<u32>, Stack),
    Repeat(SampleHead),
    Lost(u32),
}

/// The state of samples in transit.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) method_cache: MethodCache,
    pub(crate) writer: SampleWriter,
    pub(crate) notices: UnloadNotices,
    words: Vec<u64>,
}

impl Samples {
    /// Sends waiting samples, each after the descriptions of its addresses. Returns how many. After [`BATCHES`] full batches more samples
    /// may wait.
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

    /// Sends the last samples. Resolves them all, then lowers the unload barrier, then sends. The transport may be full, with a long wait
    /// granted now; no unload may share that wait.
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

    /// Resolves one batch inside the unload barrier.
    fn resolve_batch<P: Platform>(&mut self, shared: &Shared<P>, runtime: &impl Runtime) -> Vec<Option<Ready>> {
        let Samples { method_cache, notices, .. } = self;
        shared.unload_barrier.begin_batch(notices, &mut |unloads| {
            method_cache.forget(unloads);
        });
        let mut ready = Vec::with_capacity(BATCH);
        while ready.len() < BATCH && shared.platform.next_sample(&mut self.words) {
            let words = std::mem::take(&mut self.words);
            ready.push(self.resolve_sample(shared, runtime, &words));
            self.words = words;
        }
        let Samples { method_cache, notices, .. } = self;
        shared.unload_barrier.end_batch(&shared.platform, notices, &mut |unloads| {
            method_cache.forget(unloads);
        });
        ready
    }

    /// `None` if the record does not decode.
    fn resolve_sample<P: Platform>(
        &mut self,
        shared: &Shared<P>,
        runtime: &impl Runtime,
        words: &[u64],
    ) -> Option<Ready> {
        let sample = RawSample::decode(words)?;
        let head = SampleHead::of(&sample);
        if sample.slot & THROWN != 0 {
            shared.platform.learn_stack(sample.slot & !THROWN, sample.thread, sample.stack_pointer);
            return self.resolve_thrown(shared, runtime, &sample, head);
        }
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
            // The descriptions of this sample are not sent.
            self.method_cache.forget(&[Unload::Anything]);
        }
        // The sample's code may have unloaded.
        shared.platform.count(layout::LOST_DESCRIPTIONS, 1);
        Some(Ready::Sample(head, Stack::unresolved(&mut self.method_cache, &sample)))
    }

    /// `None` if there is no room for it, or its code or class may have unloaded.
    fn resolve_thrown<P: Platform>(
        &mut self,
        shared: &Shared<P>,
        runtime: &impl Runtime,
        sample: &RawSample,
        head: SampleHead,
    ) -> Option<Ready> {
        let guarded = GuardedRuntime { shared, runtime };
        if self.writer.transport.is_full() || self.notices.must_drop_pending() || guarded.must_stop() {
            return None;
        }
        let mut stack = Stack::resolved(&shared.platform, &guarded, &mut self.method_cache, sample);
        let class = usize::try_from(sample.weight).ok().filter(|class| *class != 0);
        let class = class.map(|class| self.method_cache.resolve_class(&guarded, class, &mut stack.descriptions));
        if guarded.must_stop() {
            // The descriptions are not sent.
            self.method_cache.forget(&[Unload::Anything]);
            return None;
        }
        Some(Ready::Thrown(head, class, stack))
    }

    fn send(&mut self, platform: &impl Platform, ready: Ready) {
        match ready {
            Ready::Thrown(head, class, stack) => {
                if !self.writer.thrown(platform, head, class, &stack) {
                    self.method_cache.forget(&[Unload::Anything]);
                }
            }
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
