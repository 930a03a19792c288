//! Sends samples to the collector: descriptions first, then the samples that need them. Counts each loss once.
//!
//! - A lost description would be missing for the rest of the recording. So after a loss everything described is forgotten
//!   ([`SampleWriter::sample`] returns false), and described again once there is room.
//! - A repeat refers to its thread's last sample. If that sample was lost, its repeats are lost, too, until another sample goes through.
//! - Names of new threads wait for room. The first without room is retried before anything else is sent.

use crate::fault_injection::{InjectedFault, is_injected};
use crate::platform::{CpuTimes, Platform};
use crate::stacks::Stack;
use crate::transport_writer::TransportWriter;
use remora_sampler::{EXACT, RawSample};
use remora_wire::{Message, encode_sample, encode_thrown, layout};
use std::collections::{HashSet, VecDeque};

/// Threads whose last sample is known to be sent, at most. Beyond it, repeats are lost until the thread's next sample.
const MAXIMUM_REPEATABLE: usize = 16_384;

/// Messages about threads that wait for room, at most. Others are counted as lost.
const MAXIMUM_QUEUED: usize = 8192;

/// Sends samples and thread messages; see the module.
#[derive(Debug, Default)]
pub(crate) struct SampleWriter {
    pub(crate) transport: TransportWriter,
    repeatable: HashSet<u32>,
    queued: VecDeque<Message>,
    /// CPU time used, at this monotonic time.
    times: Option<(u64, CpuTimes)>,
}

/// A raw sample without its stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleHead {
    pub(crate) thread: u32,
    pub(crate) time: u64,
    pub(crate) weight: u64,
    pub(crate) flags: u8,
}

impl SampleHead {
    pub(crate) fn of(sample: &RawSample) -> SampleHead {
        SampleHead { thread: sample.thread, time: sample.time, weight: sample.weight, flags: sample.flags & !EXACT }
    }
}

/// The last messages of a recording.
#[derive(Debug, Default)]
pub(crate) struct FinalMessages {
    /// The threads' current names: many threads are renamed after they start.
    pub(crate) names: Vec<(u32, String)>,
    /// CPU time used, if known, at this monotonic time.
    pub(crate) times: Option<(u64, CpuTimes)>,
}

fn time_messages(time: u64, times: CpuTimes, is_last: bool) -> impl Iterator<Item = Message> {
    let CpuTimes { threads, process, agent, unfollowed } = times;
    let of_threads = threads.into_iter().map(|(thread, used)| Message::ThreadTime { thread, used });
    of_threads.chain([Message::ProcessTime { time, is_last, process, agent, unfollowed }])
}

impl FinalMessages {
    fn messages(self) -> impl Iterator<Item = Message> {
        let names = self.names.into_iter().map(|(thread, name)| Message::ThreadName { thread, name });
        names.chain(self.times.into_iter().flat_map(|(time, times)| time_messages(time, times, true)))
    }
}

impl SampleWriter {
    /// Queues the newly followed threads. They are sent before the samples of the next batch.
    pub(crate) fn queue_new_threads(&mut self, platform: &impl Platform, threads: Vec<(u32, String)>) {
        threads.into_iter().for_each(|(thread, name)| self.queue(platform, Message::Thread { thread, name }));
    }

    /// Queues the CPU time of ended threads.
    pub(crate) fn queue_thread_times(&mut self, platform: &impl Platform, threads: Vec<(u32, u64)>) {
        threads.into_iter().for_each(|(thread, used)| self.queue(platform, Message::ThreadTime { thread, used }));
    }

    /// The CPU time used until now. It is sent after the queue, if there is room; a later reading replaces it.
    pub(crate) fn set_times(&mut self, time: u64, times: CpuTimes) {
        self.times = Some((time, times));
    }

    fn queue(&mut self, platform: &impl Platform, message: Message) {
        if self.queued.len() < MAXIMUM_QUEUED {
            self.queued.push_back(message);
        } else {
            platform.count(layout::LOST_DESCRIPTIONS, 1);
        }
    }

    /// Sends queued messages, as far as there is room.
    pub(crate) fn send_queued(&mut self, platform: &impl Platform) {
        while let Some(message) = self.queued.front() {
            if !self.transport.publish(platform, &[&message.encode()]) {
                return;
            }
            self.queued.pop_front();
        }
        let messages = self.times.take().into_iter().flat_map(|(time, times)| time_messages(time, times, false));
        for message in messages {
            if !self.transport.publish(platform, &[&message.encode()]) {
                return;
            }
        }
    }

    /// Ends the recording: sends the queue, then the last messages.
    pub(crate) fn finish(&mut self, platform: &impl Platform, last: FinalMessages) {
        self.send_queued(platform);
        let waiting = self.queued.len() as u64;
        let lost =
            last.messages().filter(|message| !self.transport.publish(platform, &[&message.encode()])).count() as u64;
        if waiting + lost > 0 {
            platform.count(layout::LOST_DESCRIPTIONS, waiting + lost);
        }
    }

    /// Sends a sample after its descriptions. False if all earlier descriptions must be forgotten.
    #[must_use]
    pub(crate) fn sample(&mut self, platform: &impl Platform, head: SampleHead, stack: &Stack) -> bool {
        let described = self.describe(platform, stack);
        let fixed = encode_sample(head.thread, head.time, head.weight, head.flags | stack.flags);
        if described && self.transport.publish(platform, &[&fixed, &stack.addresses]) {
            platform.count(layout::SENT, 1);
            if self.repeatable.len() >= MAXIMUM_REPEATABLE {
                self.repeatable.clear();
            }
            self.repeatable.insert(head.thread);
        } else {
            self.count_lost(platform, head.thread);
        }
        described
    }

    /// Sends an exception after its descriptions. False if all earlier descriptions must be forgotten. The collector counts what arrives.
    #[must_use]
    pub(crate) fn thrown(
        &mut self,
        platform: &impl Platform,
        head: SampleHead,
        class: Option<u32>,
        stack: &Stack,
    ) -> bool {
        let described = self.describe(platform, stack);
        let fixed = encode_thrown(head.thread, head.time, class, head.flags | stack.flags);
        if described {
            self.transport.publish(platform, &[&fixed, &stack.addresses]);
        }
        described
    }

    /// Sends the descriptions of a stack. Returns whether there was room for all.
    fn describe(&mut self, platform: &impl Platform, stack: &Stack) -> bool {
        let mut descriptions = stack.descriptions.iter();
        let described = descriptions.all(|message| self.transport.publish(platform, &[&message.encode()]));
        if !described {
            // The refused description, and those after it.
            platform.count(layout::LOST_DESCRIPTIONS, descriptions.len() as u64 + 1);
        }
        described
    }

    /// Counts a lost sample, without an attempt to send it.
    pub(crate) fn count_lost(&mut self, platform: &impl Platform, thread: u32) {
        self.repeatable.remove(&thread);
        platform.count(layout::LOST_TRANSPORT_FULL, u64::from(!is_injected(InjectedFault::HideLoss)));
    }

    /// Sends a repeat: the thread has not run since its last sample.
    pub(crate) fn repeat(&mut self, platform: &impl Platform, head: SampleHead) {
        let SampleHead { thread, time, weight, .. } = head;
        let repeat = Message::Repeat { thread, time, weight }.encode();
        let sent = self.repeatable.contains(&thread) && self.transport.publish(platform, &[&repeat]);
        platform.count(if sent { layout::SENT } else { layout::LOST_TRANSPORT_FULL }, 1);
    }
}
