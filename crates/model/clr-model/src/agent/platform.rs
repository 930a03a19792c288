//! The agent's operating system, in virtual time.

use super::Process;
use super::heap::ModelHeap;
use crate::schedule;
use corprof::detach::RunningCallbacks;
use corprof::{AttachMask, HeapView, HighAttachMask};
use remora_sampler::{HeapRange, HeapReader};
use remora_session::{
    Child, CodeKind, HostedPlatform, Platform, ResourceKind, ResourceRegistry, Started, Words, words,
};
use remora_wire::Received;
use remora_wire::{AgentError, Config, FromAgent, Task, ToAgent, layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The signal of the model's samples.
const SIGNAL: u32 = 40;

/// The machine's uptime when a schedule begins, nanoseconds.
const SINCE_START: u64 = 1_000_000_000;

/// The maximum of words that a world of the model needs.
const FEW_WORDS: usize = 256;

/// Longer than the runtime's shortest sleep, nanoseconds.
const SLOW_WAKE: u64 = 400_000_000;

/// See the module documentation.
pub struct ModelPlatform {
    process: Arc<Process>,
    resources: Arc<ResourceRegistry>,
    woken: AtomicBool,
    connected: AtomicBool,
    has_woken: AtomicBool,
    task: Task,
    /// Whether a copy was forked. It ends at once.
    has_copied: AtomicBool,
}

impl ModelPlatform {
    pub(super) fn new(process: Arc<Process>, config: &Config, resources: Arc<ResourceRegistry>) -> ModelPlatform {
        ModelPlatform {
            process,
            resources,
            woken: AtomicBool::new(false),
            connected: AtomicBool::new(false),
            has_woken: AtomicBool::new(false),
            task: config.task,
            has_copied: AtomicBool::new(false),
        }
    }

    fn threads(&self) -> Vec<(u32, String)> {
        self.process.runtime.os_threads().into_iter().map(|thread| (thread, "worker".to_owned())).collect()
    }
}

impl Platform for ModelPlatform {
    fn now(&self) -> u64 {
        SINCE_START + schedule::now()
    }

    /// Every modelled thread runs on the same thread of the system.
    fn this_thread(&self) -> u64 {
        schedule::current().0 as u64 + 1
    }

    fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        if self.process.system_faults.the_first_wake_is_slow && !self.has_woken.swap(true, Ordering::SeqCst) {
            schedule::sleep(SLOW_WAKE);
        }
    }

    fn wait(&self, nanoseconds: u64) {
        let has_message = || !self.process.link.is_alive() || !self.process.link.to_agent.is_empty();
        let channel_speaks = || self.connected.load(Ordering::SeqCst) && has_message();
        schedule::wait_until(Some(nanoseconds), || self.woken.load(Ordering::SeqCst) || channel_speaks());
        self.woken.store(false, Ordering::SeqCst);
    }

    fn pause(&self, nanoseconds: u64) {
        schedule::sleep(nanoseconds);
    }

    fn wait_in_callback(&self, counter: &AtomicU64, goal: u64, nanoseconds: u64) -> bool {
        let starved = schedule::starved();
        let is_served = schedule::wait_until(Some(nanoseconds), || counter.load(Ordering::SeqCst) >= goal);
        if !is_served && schedule::starved() == starved {
            self.process.runtime.faults.report(
                "W5",
                "an unload was held up to the end of its timeout although the agent's thread had a processor",
            );
        }
        is_served
    }

    fn announce(&self, _counter: &AtomicU64) {
        schedule::point();
    }

    fn connect(&self) -> Result<(), AgentError> {
        if self.connected.load(Ordering::SeqCst) { Ok(()) } else { self.call() }
    }

    fn receive(&self) -> Received {
        schedule::point();
        if schedule::is_stopped() || !self.connected.load(Ordering::SeqCst) {
            return Received::HungUp;
        }
        match self.process.link.to_agent.pop() {
            Some(message) => Received::Message(message),
            None if self.process.link.is_alive() => Received::Nothing,
            None => Received::HungUp,
        }
    }

    fn send(&self, message: &FromAgent) {
        schedule::point();
        if self.connected.load(Ordering::SeqCst) {
            self.process.link.hear(message.clone());
        }
    }

    fn publish(&self, parts: &[&[u64]]) -> bool {
        schedule::point();
        self.process.link.transport.push(parts.concat())
    }

    fn count(&self, counter: usize, by: u64) {
        self.process.link.count(counter, by);
    }

    fn start_sampling(&self) -> Result<Started, AgentError> {
        self.resources.acquire(ResourceKind::SignalHandler);
        self.resources.acquire(ResourceKind::Timer);
        self.process.sampler.start(&self.process.library);
        Ok(Started {
            signal: SIGNAL,
            thread: schedule::current().0 as u32,
            threads: self.threads(),
            engine: "the model".into(),
        })
    }

    fn set_frequency(&self, _hertz: u32) {}

    fn follow_threads(&self) -> Vec<(u32, String)> {
        Vec::new()
    }

    fn thread_names(&self) -> Vec<(u32, String)> {
        self.threads()
    }

    fn next_sample(&self, words: &mut Vec<u64>) -> bool {
        schedule::point();
        match self.process.sampler.ring.pop() {
            Some(sample) => {
                *words = sample;
                true
            }
            None => false,
        }
    }

    fn samples_pending(&self) -> bool {
        schedule::point();
        !self.process.sampler.ring.is_empty()
    }

    fn learn_stack(&self, _slot: u32, _thread: u32, _stack_pointer: u64) {}

    fn links(&self) -> Arc<[AtomicU64]> {
        Arc::new([])
    }

    fn code_at(&self, address: u64) -> CodeKind {
        if self.process.runtime.is_code(address) { CodeKind::Other } else { CodeKind::None }
    }

    fn bytes_before(&self, _address: u64) -> Option<[u8; 8]> {
        None
    }

    fn task(&self) -> Task {
        self.task
    }

    fn words(&self, count: usize) -> Option<Words> {
        Some(words(count.min(FEW_WORDS)))
    }

    fn tell_of_collection(&self, piece: &[u8]) -> bool {
        let is_sent = self.process.link.collections.push(piece.to_vec());
        if !is_sent {
            self.process.link.count(layout::WATCH_LOST, 1);
        }
        is_sent
    }

    fn prepare_snapshot(&self) -> Result<Started, AgentError> {
        schedule::point();
        self.has_copied.store(false, Ordering::SeqCst);
        let thread = schedule::current().0 as u32;
        Ok(Started { signal: 0, thread, threads: Vec::new(), engine: "the model".into() })
    }

    fn child(&self) -> Child {
        schedule::point();
        if self.has_copied.load(Ordering::SeqCst) { Child::Ended { status: 0, took: 1 } } else { Child::None }
    }

    fn stop_sampling(&self) -> Result<(), AgentError> {
        if self.task.is_of_heap() {
            return Ok(());
        }
        let timer_stays = self.process.system_faults.a_timer_stays;
        self.process.sampler.stop(&self.process.library, timer_stays);
        if !timer_stays {
            self.resources.release(ResourceKind::Timer);
        }
        self.resources.release(ResourceKind::SignalHandler);
        Ok(())
    }
}

impl HostedPlatform for ModelPlatform {
    fn call(&self) -> Result<(), AgentError> {
        if !self.process.link.is_alive() {
            return Err(AgentError::system(libc::ECONNREFUSED));
        }
        self.connected.store(true, Ordering::SeqCst);
        self.process.link.hear(FromAgent::Hello { version: remora_wire::VERSION, nonce: [0; 16] });
        self.process.link.say(ToAgent::Welcome);
        Ok(())
    }

    fn hang_up(&self) {
        self.connected.store(false, Ordering::SeqCst);
    }

    fn tell_detached(&self) {
        if self.connected.load(Ordering::SeqCst) {
            self.process.link.hear(FromAgent::Detached);
        }
    }

    fn look(&self, heap: HeapView, visit: &mut dyn FnMut(&dyn HeapReader, &mut [HeapRange])) {
        ModelHeap(heap).show(visit);
    }

    fn set_event_mask(&self, heap: HeapView, low: AttachMask, high: HighAttachMask) -> Result<(), u32> {
        // SAFETY: this runs in a GC callback, and the runtime allows the call in any callback.
        unsafe { heap.set_event_mask2(low, high) }.map_err(|code| code.0 as u32)
    }

    fn fork_snapshot(&self, heap: HeapView) {
        let all = self.process.runtime.objects();
        let objects: Vec<(u64, u64, u64)> =
            all.into_iter().map(|(object, class, size, _)| (object.0 as u64, class.0 as u64, size as u64)).collect();
        self.process.link.snapshots.push(ModelHeap(heap).stream(&objects));
        self.has_copied.store(true, Ordering::SeqCst);
    }

    fn release_recording(&self, callbacks: &RunningCallbacks) {
        self.hang_up();
        schedule::wait_until(Some(1_000_000_000), || callbacks.count() == 0);
    }

    fn read_checked(&self, address: u64) -> Option<[u8; 8]> {
        self.process.runtime.is_code(address).then_some([0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x90])
    }

    fn is_file(&self, _path: &str) -> bool {
        true
    }
}
