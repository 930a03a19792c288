//! A made-up operating system and a made-up runtime: everything is a script, nothing waits.
#![allow(dead_code, reason = "each test file uses a part of it")]

use remora_agent_core::{CodeBody, CodeKind, FunctionFacts, Platform, Received, Runtime, Started, TypeFacts};
use remora_wire::{FromAgent, Message, ToAgent};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What happened, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Connected,
    SamplingStarted,
    SamplingStopped,
    Frequency(u32),
    Said(FromAgent),
}

/// The operating system.
#[derive(Default)]
pub struct Script {
    pub time: AtomicU64,
    pub steps: Mutex<Vec<Step>>,
    pub published: Mutex<Vec<Message>>,
    pub counters: Mutex<HashMap<usize, u64>>,
    pub inbox: Mutex<VecDeque<Received>>,
    pub samples: Mutex<VecDeque<Vec<u64>>>,
    pub transport_full: AtomicBool,
    pub refuse_connection: AtomicBool,
    pub refuse_stop: AtomicBool,
    pub wakes: AtomicU64,
    /// What a callback's wait answers.
    pub callback_is_served: AtomicBool,
}

impl Script {
    pub fn hears(&self, messages: impl IntoIterator<Item = Received>) {
        self.inbox.lock().expect("no panic").extend(messages);
    }

    pub fn said(&self) -> Vec<Step> {
        self.steps.lock().expect("no panic").clone()
    }

    fn step(&self, step: Step) {
        self.steps.lock().expect("no panic").push(step);
    }
}

impl Platform for Script {
    fn now(&self) -> u64 {
        self.time.fetch_add(1_000_000, Ordering::SeqCst)
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }

    fn wait(&self, nanoseconds: u64) {
        self.time.fetch_add(nanoseconds, Ordering::SeqCst);
    }

    fn wait_in_callback(&self, _counter: &AtomicU64, _goal: u64, _nanoseconds: u64) -> bool {
        self.callback_is_served.load(Ordering::SeqCst)
    }

    fn announce(&self, _counter: &AtomicU64) {}

    fn connect(&self) -> Result<(), String> {
        if self.refuse_connection.load(Ordering::SeqCst) {
            return Err("nobody listens".into());
        }
        self.step(Step::Connected);
        Ok(())
    }

    fn receive(&self) -> Received {
        self.inbox.lock().expect("no panic").pop_front().unwrap_or(Received::HungUp)
    }

    fn send(&self, message: &FromAgent) {
        self.step(Step::Said(message.clone()));
    }

    fn publish(&self, parts: &[&[u64]]) -> bool {
        if self.transport_full.load(Ordering::SeqCst) {
            return false;
        }
        let words = parts.concat();
        self.published.lock().expect("no panic").push(Message::decode(&words).expect("a message of ours"));
        true
    }

    fn count(&self, counter: usize, by: u64) {
        *self.counters.lock().expect("no panic").entry(counter).or_default() += by;
    }

    fn start_sampling(&self) -> Result<Started, String> {
        self.step(Step::SamplingStarted);
        Ok(Started { signal: 40, threads: 2, engine: "made up".into() })
    }

    fn set_frequency(&self, hertz: u32) {
        self.step(Step::Frequency(hertz));
    }

    fn follow_threads(&self) {}

    fn next_sample(&self, words: &mut Vec<u64>) -> bool {
        match self.samples.lock().expect("no panic").pop_front() {
            Some(sample) => {
                *words = sample;
                true
            }
            None => false,
        }
    }

    fn samples_pending(&self) -> bool {
        !self.samples.lock().expect("no panic").is_empty()
    }

    fn learn_stack(&self, _slot: u32, _thread: u32, _stack_pointer: u64) {}

    fn code_at(&self, address: u64) -> CodeKind {
        match address / 0x1000 {
            0x1..=0x8 => CodeKind::Other,
            0xc => CodeKind::Frameless,
            _ => CodeKind::None,
        }
    }

    fn bytes_before(&self, address: u64) -> Option<[u8; 8]> {
        // Every address that ends in 5 stands behind a call.
        Some(if address % 16 == 5 { [0, 0, 0, 0xe8, 1, 2, 3, 4] } else { [0x90; 8] })
    }

    fn stop_sampling(&self) -> Result<(), String> {
        self.step(Step::SamplingStopped);
        if self.refuse_stop.load(Ordering::SeqCst) { Err("a handler still runs".into()) } else { Ok(()) }
    }
}

/// The runtime: functions 1, 2, ... at 0x1000, 0x2000, ...; each 0x100 bytes of code.
pub struct Clr {
    pub code: HashMap<usize, Vec<u8>>,
    pub callbacks_arrive: bool,
    pub silenced: Cell<bool>,
    pub look_ups: Cell<u64>,
    pub unloaded: Mutex<Vec<usize>>,
}

impl Default for Clr {
    fn default() -> Self {
        Clr {
            code: HashMap::new(),
            callbacks_arrive: true,
            silenced: Cell::new(false),
            look_ups: Cell::new(0),
            unloaded: Mutex::default(),
        }
    }
}

impl Runtime for Clr {
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32> {
        self.look_ups.set(self.look_ups.get() + 1);
        let function = (address / 0x1000) as usize;
        let managed = (1..9).contains(&function) && address % 0x1000 < 0x100;
        assert!(!self.unloaded.lock().expect("no panic").contains(&function), "a stale address reached the runtime");
        Ok(managed.then_some(function))
    }

    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32> {
        Ok(FunctionFacts::Token { module: 7, token: 0x0600_0000 + function as u32, class: Some(3), arguments: vec![4] })
    }

    fn names_of(&self, _function: usize, _on_disk: bool, _token: u32) -> Option<(String, String)> {
        None
    }

    fn describe_type(&self, class: usize) -> TypeFacts {
        match class {
            3 => TypeFacts::Class { module: 7, token: 0x0200_0003, arguments: vec![4] },
            // A type that contains itself must not be followed for ever.
            4 => TypeFacts::Class { module: 7, token: 0x0200_0004, arguments: vec![5] },
            5 => TypeFacts::Array { element: Some(5), rank: 1, element_kind: 0x12 },
            _ => TypeFacts::Unknown,
        }
    }

    fn describe_module(&self, _module: usize) -> (String, bool) {
        ("/app/made-up.dll".into(), true)
    }

    fn bodies(&self, function: usize) -> Vec<CodeBody> {
        let start = function as u64 * 0x1000;
        vec![CodeBody { start, end: start + 0x100 }]
    }

    fn il_offset(&self, _function: usize, _body: CodeBody, native_offset: u32) -> Option<u32> {
        Some(native_offset / 2)
    }

    fn code<'a>(&self, body: CodeBody, from: u64, into: &'a mut [u8]) -> &'a [u8] {
        let function = (body.start / 0x1000) as usize;
        let code = self.code.get(&function).cloned().unwrap_or_else(|| vec![0x55, 0x48, 0x8b, 0xec, 0x90, 0x90]);
        let rest = code.get((from - body.start) as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        &into[..length]
    }

    fn callbacks_arrive(&self) -> bool {
        self.callbacks_arrive
    }

    fn silence(&self) {
        self.silenced.set(true);
    }
}

/// A raw sample as the handler pushes it.
pub fn raw(thread: u32, flags: u8, addresses: &[u64], window: &[u64]) -> Vec<u64> {
    let mut words = vec![
        u64::from(flags) | (addresses.len() as u64) << 16 | (window.len() as u64) << 32,
        u64::from(thread),
        1,
        1_000,
        0x7000,
        0x7100,
    ];
    words.extend_from_slice(addresses);
    words.extend_from_slice(window);
    words
}

/// The order of a session that goes well.
pub fn good_session() -> Vec<Received> {
    vec![Received::Message(ToAgent::Welcome), Received::Message(ToAgent::Begin), Received::Nothing]
}
