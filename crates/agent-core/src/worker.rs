//! The agent's own thread: from the first hello to the moment before detach is asked for.

use crate::catalogue::{Catalogue, Describe};
use crate::gate::Unload;
use crate::leaf::Caller;
use crate::platform::{CodeKind, Platform, Received};
use crate::runtime::Runtime;
use crate::shared::Shared;
use remora_agent_hot::RawSample;
use remora_wire::{FromAgent, Message, ToAgent, encode_sample, layout, sample_flags};
use std::sync::atomic::Ordering;

/// Flag of a raw sample that repeats its thread's last stack (never sent over the wire).
pub const REPEATED: u8 = 0x80;

/// How long the agent's thread sleeps when nothing wakes it, nanoseconds.
const ROUND: u64 = 20_000_000;

/// How often threads are looked for without being told, nanoseconds.
const SCAN: u64 = 500_000_000;

/// How long the runtime is given to confirm an attach that nobody waits for any more, nanoseconds.
const CONFIRMATION: u64 = 10_000_000_000;

/// Callers put back below one leaf, at most: a chain of frameless methods.
const MAXIMUM_REPAIRS: usize = 4;

/// Why detach is not asked for although nothing of ours is in the way.
const DEAD_CALLBACKS: &str = "another profiler has come or gone and the runtime no longer calls this one; \
                              asking it to detach would end the process, so the library stays mapped and does nothing";

/// How the agent's thread ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is closed: ask for detach.
    Detach,
    /// Detach may not be asked for; why, in words. Everything that could be closed is.
    Inert(String),
}

/// What the worker needs and owns.
pub struct Worker<'a, P: Platform, R: Runtime> {
    shared: &'a Shared<P>,
    runtime: &'a R,
    catalogue: Catalogue,
    words: Vec<u64>,
    addresses: Vec<u64>,
    scanned: u64,
}

impl<'a, P: Platform, R: Runtime> Worker<'a, P, R> {
    /// A worker that has done nothing yet.
    pub fn new(shared: &'a Shared<P>, runtime: &'a R) -> Self {
        Worker {
            shared,
            runtime,
            catalogue: Catalogue::default(),
            words: Vec::new(),
            addresses: Vec::new(),
            scanned: 0,
        }
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Outcome {
        let platform = &self.shared.platform;
        if platform.connect().is_err() || !self.begin() {
            return self.confirmed_or_inert();
        }
        if !self.shared.attach_complete.load(Ordering::SeqCst) {
            self.runtime.silence();
            return self.inert(DEAD_CALLBACKS);
        }
        self.shared.gate.shut();
        match platform.start_sampling() {
            Ok(started) => {
                platform.send(&FromAgent::Started {
                    signal: started.signal,
                    threads: started.threads,
                    time: platform.now(),
                    engine: started.engine,
                });
                self.scanned = platform.now();
                while self.round() {}
            }
            Err(what) => platform.send(&FromAgent::Failed { what }),
        }
        self.leave()
    }

    /// Waits for the word that the runtime has answered. False if the other side is gone.
    fn begin(&self) -> bool {
        loop {
            match self.shared.platform.receive() {
                Received::Message(ToAgent::Begin) => return true,
                Received::Message(ToAgent::Detach) | Received::HungUp => return false,
                Received::Message(_) => {}
                Received::Nothing => self.shared.platform.wait(ROUND),
            }
        }
    }

    /// One turn: commands, samples, threads. False when it is time to leave.
    fn round(&mut self) -> bool {
        let platform = &self.shared.platform;
        platform.wait(ROUND);
        loop {
            match platform.receive() {
                Received::Message(ToAgent::SetFrequency(hertz)) => platform.set_frequency(hertz),
                Received::Message(ToAgent::Detach) | Received::HungUp => return false,
                Received::Message(_) => {}
                Received::Nothing => break,
            }
        }
        if self.shared.panicked.load(Ordering::SeqCst) {
            platform.send(&FromAgent::Failed { what: "a callback of the agent panicked".into() });
            return false;
        }
        self.pass();
        let now = platform.now();
        if self.shared.threads_changed.swap(false, Ordering::SeqCst) || now - self.scanned >= SCAN {
            platform.follow_threads();
            self.scanned = now;
        }
        true
    }

    /// Stops sampling, delivers what is left, and says goodbye.
    fn leave(&mut self) -> Outcome {
        let platform = &self.shared.platform;
        let stopped = platform.stop_sampling();
        self.pass();
        platform.count(layout::FAILED_LOOKUPS, self.catalogue.failed);
        self.shared.gate.open(platform);
        if let Err(why) = stopped {
            return self.inert(&why);
        }
        if let Some(open) = self.shared.entrances.still_open_besides_own_threads() {
            return self.inert(&format!("a way into the library is still open: {open:?}"));
        }
        if !self.runtime.callbacks_arrive() {
            self.runtime.silence();
            return self.inert(DEAD_CALLBACKS);
        }
        self.runtime.silence();
        platform.send(&FromAgent::Leaving {
            longest_callback: self.shared.longest_callback.load(Ordering::Relaxed),
            callbacks: self.shared.callbacks.load(Ordering::Relaxed),
            impatient_unloads: self.shared.gate.impatient(),
        });
        Outcome::Detach
    }

    fn inert(&self, why: &str) -> Outcome {
        self.shared.gate.open(&self.shared.platform);
        self.shared.platform.send(&FromAgent::Inert { reason: why.into() });
        Outcome::Inert(why.into())
    }

    /// Nobody uses us. The attach itself may still be under way; detach is possible once the runtime has confirmed it.
    fn confirmed_or_inert(&self) -> Outcome {
        let platform = &self.shared.platform;
        let deadline = platform.now() + CONFIRMATION;
        while !self.shared.attach_complete.load(Ordering::SeqCst) {
            if platform.now() >= deadline {
                return Outcome::Inert("the runtime never confirmed the attach".into());
            }
            platform.wait(ROUND);
        }
        if !self.runtime.callbacks_arrive() {
            self.runtime.silence();
            return Outcome::Inert(DEAD_CALLBACKS.into());
        }
        self.runtime.silence();
        Outcome::Detach
    }

    /// Hands over every sample that waits, each address described before it.
    fn pass(&mut self) {
        let shared = self.shared;
        let Worker { runtime, catalogue, words, addresses, .. } = self;
        let catalogue = std::cell::RefCell::new(catalogue);
        shared.gate.pass(
            &shared.platform,
            |unload: Unload| catalogue.borrow_mut().forget(unload),
            || {
                let mut catalogue = catalogue.borrow_mut();
                while shared.platform.next_sample(words) {
                    if let Some(sample) = RawSample::decode(words) {
                        hand_over(shared, *runtime, &mut catalogue, addresses, &sample);
                    }
                }
            },
        );
    }
}

struct Outward<'a, P: Platform>(&'a P);

impl<P: Platform> Describe for Outward<'_, P> {
    fn describe(&mut self, message: &Message) {
        if !self.0.publish(&[&message.encode()]) {
            self.0.count(layout::LOST_DESCRIPTIONS, 1);
        }
    }
}

fn hand_over<P: Platform>(
    shared: &Shared<P>,
    runtime: &impl Runtime,
    catalogue: &mut Catalogue,
    addresses: &mut Vec<u64>,
    sample: &RawSample,
) {
    let platform = &shared.platform;
    if sample.flags & REPEATED != 0 {
        let repeat = Message::Repeat { thread: sample.thread, time: sample.time, weight: sample.weight };
        sent(platform, platform.publish(&[&repeat.encode()]));
        return;
    }
    platform.learn_stack(sample.slot, sample.thread, sample.stack_pointer);
    let mut out = Outward(platform);
    let hidden = hidden_caller(platform, sample);
    let flags = sample.flags | assemble(runtime, catalogue, addresses, sample, hidden, &mut out);
    for address in addresses.iter() {
        catalogue.meet(runtime, *address, &mut out);
    }
    let fixed = encode_sample(sample.thread, sample.time, sample.weight, flags);
    sent(platform, platform.publish(&[&fixed, addresses]));
}

fn sent(platform: &impl Platform, fitted: bool) {
    platform.count(if fitted { layout::SENT } else { layout::LOST_TRANSPORT_FULL }, 1);
}

/// The return address of a leaf in the C library, which keeps no frame: RBP is still its caller's frame, and the walk loses that
/// caller. It is the first word between the stack pointer and that frame which is an address of code right behind a call.
fn hidden_caller(platform: &impl Platform, sample: &RawSample) -> Option<u64> {
    let (&leaf, callers) = sample.addresses.split_first()?;
    if platform.code_at(leaf) != CodeKind::Frameless {
        return None;
    }
    let below_frame = sample.frame_pointer.checked_sub(sample.stack_pointer)? / 8;
    let window = sample.window.iter().take(usize::try_from(below_frame).ok()?);
    let found = window.copied().find(|word| {
        platform.code_at(*word) != CodeKind::None
            && platform.bytes_before(*word).is_some_and(|bytes| ends_in_call(&bytes))
    })?;
    (callers.first() != Some(&found)).then_some(found)
}

/// Whether the bytes end with a call instruction: to an address that follows, or through a register or memory.
fn ends_in_call(bytes: &[u8; 8]) -> bool {
    let indirect = |length: usize| {
        let at = bytes.len() - length;
        bytes[at] == 0xff && bytes.get(at + 1).is_some_and(|modrm| modrm & 0x38 == 0x10)
    };
    bytes[3] == 0xe8 || indirect(2) || indirect(3) || indirect(4) || indirect(6) || indirect(7)
}

/// The sample's addresses, with callers put back that frameless code hides. Return addresses are moved back into the calling
/// instruction, so that a call at a method's very end is not taken for the next method.
fn assemble(
    runtime: &impl Runtime,
    catalogue: &mut Catalogue,
    addresses: &mut Vec<u64>,
    sample: &RawSample,
    hidden: Option<u64>,
    out: &mut impl Describe,
) -> u8 {
    addresses.clear();
    let Some((&leaf, callers)) = sample.addresses.split_first() else { return 0 };
    addresses.push(leaf);
    if let Some(return_address) = hidden {
        addresses.push(return_address - 1);
        addresses.extend(callers.iter().map(|address| address - 1));
        return sample_flags::REPAIRED;
    }
    let mut flags = 0;
    let (mut instruction, mut address, mut taken) = (leaf, leaf, 0_u64);
    for _ in 0..MAXIMUM_REPAIRS {
        if !catalogue.meet(runtime, address, out) {
            break;
        }
        let Some(Caller::OnStack(depth)) = catalogue.caller_of(runtime, address, instruction) else { break };
        let Some(&return_address) = sample.window.get(((taken + depth) / 8) as usize) else { break };
        if return_address < 4096 || callers.first() == Some(&return_address) {
            break;
        }
        // Code that took over a frame made by another tier has no prolog of its own, and what lies there is any word. A caller
        // that is not managed is no great loss: it has a frame.
        if !catalogue.meet(runtime, return_address - 1, out) {
            break;
        }
        addresses.push(return_address - 1);
        flags = sample_flags::REPAIRED;
        taken += depth + 8;
        (instruction, address) = (return_address, return_address - 1);
    }
    addresses.extend(callers.iter().map(|address| address - 1));
    flags
}
