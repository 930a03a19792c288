//! From the agent's messages to a [`Profile`]: each description is kept, each sample becomes a stack, every loss is counted.

use crate::names::Names;
use remora_profile::{FrameIx, LossCause, Profile, Sample, StackIx, State, Thread, ThreadIx};
use remora_wire::{Message, Place, sample_flags};
use std::collections::HashMap;

/// The profile under construction.
pub struct Assembler {
    /// What has been assembled so far.
    pub profile: Profile,
    names: Names,
    /// Monotonic time of the profile's zero, nanoseconds.
    started: u64,
    addresses: HashMap<u64, FrameIx>,
    threads: HashMap<u32, ThreadIx>,
    last: HashMap<ThreadIx, (StackIx, State)>,
    /// Monotonic time of the first sample.
    pub first_sample: Option<u64>,
    /// Frames met in samples, and of those the managed ones, and of those the named ones.
    pub managed_frames: u64,
    /// See `managed_frames`.
    pub managed_frames_named: u64,
}

impl Assembler {
    /// Nothing assembled yet; `started` is the monotonic time that becomes the profile's zero.
    pub fn new(profile: Profile, names: Names, started: u64) -> Assembler {
        Assembler {
            profile,
            names,
            started,
            addresses: HashMap::new(),
            threads: HashMap::new(),
            last: HashMap::new(),
            first_sample: None,
            managed_frames: 0,
            managed_frames_named: 0,
        }
    }

    /// Takes one record of the ring.
    pub fn take(&mut self, words: &[u64]) {
        match Message::decode(words) {
            Ok(message) => self.message(message),
            Err(_) => self.profile.loss.lose(LossCause::Damaged, 1),
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Module { index, path, on_disk } => self.names.module(index, path, on_disk),
            Message::Type { index, kind } => self.names.type_(index, kind),
            Message::Method { index, kind } => self.names.method(index, kind),
            Message::Address { address, place } => self.address(address, place),
            Message::Thread { thread, name } => {
                let index = self.profile.add_thread(Thread { id: thread, name });
                self.threads.insert(thread, index);
            }
            Message::ThreadName { thread, name } => {
                let index = self.thread(thread);
                self.profile.thread_mut(index).name = name;
            }
            Message::Sample { thread, time, weight, flags, addresses } => {
                self.sample(thread, time, weight, flags, &addresses);
            }
            Message::Repeat { thread, time, weight } => self.repeat(thread, time, weight),
        }
    }

    fn address(&mut self, address: u64, place: Place) {
        let frame = match place {
            Place::Managed { method, il_offset } => self.names.managed(&mut self.profile, method, il_offset),
            Place::Native => self.names.native(&mut self.profile, address),
        };
        self.addresses.insert(address, frame);
    }

    fn sample(&mut self, thread: u32, time: u64, weight: u64, flags: u8, addresses: &[u64]) {
        let thread = self.thread(thread);
        let frames: Vec<FrameIx> = addresses.iter().map(|address| self.frame(*address)).collect();
        self.count_names(&frames);
        let cut = (flags & sample_flags::TRUNCATED != 0).then(|| self.names.truncated(&mut self.profile));
        let from_root = cut.into_iter().chain(frames.into_iter().rev());
        let Some(stack) = self.profile.stack_from_root(from_root) else {
            self.profile.loss.lose(LossCause::Damaged, 1);
            return;
        };
        let state = if flags & sample_flags::BLOCKED != 0 { State::Blocked } else { State::Running };
        self.count_flags(flags);
        // What repeats this stack later did not run meanwhile.
        self.last.insert(thread, (stack, State::Blocked));
        self.add(Sample { time, thread, stack, weight, state });
    }

    fn repeat(&mut self, thread: u32, time: u64, weight: u64) {
        let thread = self.thread(thread);
        let Some(&(stack, state)) = self.last.get(&thread) else {
            self.profile.loss.lose(LossCause::Damaged, 1);
            return;
        };
        self.profile.loss.repeated_stacks += 1;
        self.add(Sample { time, thread, stack, weight, state });
    }

    fn add(&mut self, sample: Sample) {
        self.first_sample.get_or_insert(sample.time);
        self.profile.loss.delivered += 1;
        self.profile.add_sample(Sample { time: sample.time.saturating_sub(self.started), ..sample });
    }

    fn frame(&mut self, address: u64) -> FrameIx {
        match self.addresses.get(&address) {
            Some(frame) => *frame,
            // Its description was lost on the way: as if it were native code, which is looked up here.
            None => {
                let frame = self.names.native(&mut self.profile, address);
                self.addresses.insert(address, frame);
                frame
            }
        }
    }

    fn thread(&mut self, id: u32) -> ThreadIx {
        if let Some(&index) = self.threads.get(&id) {
            return index;
        }
        let index = self.profile.add_thread(Thread { id, name: String::new() });
        self.threads.insert(id, index);
        index
    }

    fn count_flags(&mut self, flags: u8) {
        let loss = &mut self.profile.loss;
        loss.truncated_stacks += u64::from(flags & sample_flags::TRUNCATED != 0);
        loss.broken_stacks += u64::from(flags & sample_flags::BROKEN != 0);
        loss.repaired_stacks += u64::from(flags & sample_flags::REPAIRED != 0);
    }

    fn count_names(&mut self, frames: &[FrameIx]) {
        for frame in frames {
            let (managed, named) = self.names.quality(&self.profile, *frame);
            self.managed_frames += u64::from(managed);
            self.managed_frames_named += u64::from(named);
        }
    }
}
