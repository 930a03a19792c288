//! A fake operating system and a fake runtime: all answers are scripted, nothing waits.
#![allow(dead_code, reason = "each test file uses a part of it")]

use remora_sampler::WINDOW_WORDS;
use remora_session::{CodeBody, CodeKind, CpuTimes, FunctionFacts, ModuleFacts, Platform, Runtime, Started, TypeFacts};
use remora_wire::{AgentError, AgentErrorCode, FromAgent, Message, Received, Sampling, Task, ToAgent};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Runs while the agent waits, and gets the wait's number.
pub type OnWait = Box<dyn FnMut(u64) + Send>;

/// Runs just before a check for waiting samples.
pub type OnLook = Box<dyn FnOnce(&Script) + Send>;

/// Runs while a question is answered.
pub type Happens = Box<dyn FnOnce()>;

/// The events, in order.
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
    /// Samples that arrive while the agent waits, one group per wait.
    pub arrivals: Mutex<VecDeque<Vec<Vec<u64>>>>,
    /// The transport is full from this number of waits on, until the other number.
    pub full_from_wait: AtomicU64,
    pub full_until_wait: AtomicU64,
    pub waits: AtomicU64,
    /// Waits that took time.
    pub rests: AtomicU64,
    pub pauses: AtomicU64,
    /// Pauses and samples between two checks of the control channel: since the last one, and the maximum.
    pub pauses_at_once: Most,
    pub samples_at_once: Most,
    /// Runs during each pause.
    pub on_pause: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// Runs during each wait, with its number, after the samples of the wait have arrived.
    pub on_wait: Mutex<Option<OnWait>>,
    /// The barrier's counter of served tickets, at each announcement.
    pub announced: Mutex<Vec<u64>>,
    pub new_threads: Mutex<Vec<(u32, String)>>,
    /// The walk's link table.
    pub links: LinkTable,
    pub refuse_connection: AtomicBool,
    pub refuse_stop: AtomicBool,
    pub wakes: AtomicU64,
    /// The result of a callback's wait.
    pub callback_is_served: AtomicBool,
    /// Runs once, just before a check for waiting samples.
    pub on_look: Mutex<Option<OnLook>>,
    /// How long callbacks were prepared to wait, nanoseconds.
    pub callback_waits: Mutex<Vec<u64>>,
    /// The task.
    pub task: ScriptTask,
}

/// A small link table.
pub struct LinkTable(pub Arc<[AtomicU64]>);

impl Default for LinkTable {
    fn default() -> Self {
        LinkTable((0..256).map(|_| AtomicU64::new(0)).collect())
    }
}

/// The task: CPU sampling, unless a test sets another.
pub struct ScriptTask(pub Task);

impl Default for ScriptTask {
    fn default() -> Self {
        ScriptTask(Task::CpuSampling(Sampling { frequency: 99, signal_budget: 2000 }))
    }
}

/// Counts, and keeps the maximum between two starts.
#[derive(Default)]
pub struct Most {
    current: AtomicU64,
    pub most: AtomicU64,
}

impl Most {
    fn start(&self) {
        self.current.store(0, Ordering::SeqCst);
    }

    fn add(&self) {
        let current = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(current, Ordering::SeqCst);
    }

    /// Since the last start.
    pub fn last(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }
}

impl Script {
    pub fn arrive(&self, samples: impl IntoIterator<Item = Vec<u64>>) {
        self.samples.lock().expect("no panic").extend(samples);
    }

    pub fn arrive_later(&self, samples: impl IntoIterator<Item = Vec<u64>>) {
        self.arrivals.lock().expect("no panic").push_back(samples.into_iter().collect());
    }

    pub fn counter(&self, counter: usize) -> u64 {
        self.counters.lock().expect("no panic").get(&counter).copied().unwrap_or_default()
    }

    pub fn messages(&self) -> Vec<Message> {
        self.published.lock().expect("no panic").clone()
    }

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
        let wait = self.waits.fetch_add(1, Ordering::SeqCst) + 1;
        self.rests.fetch_add(u64::from(nanoseconds > 0), Ordering::SeqCst);
        let arrived = self.arrivals.lock().expect("no panic").pop_front();
        self.arrive(arrived.unwrap_or_default());
        if let Some(happens) = self.on_wait.lock().expect("no panic").as_mut() {
            happens(wait);
        }
    }

    fn pause(&self, nanoseconds: u64) {
        self.time.fetch_add(nanoseconds, Ordering::SeqCst);
        self.pauses.fetch_add(1, Ordering::SeqCst);
        self.pauses_at_once.add();
        if let Some(happens) = self.on_pause.lock().expect("no panic").as_mut() {
            happens();
        }
    }

    fn wait_in_callback(&self, _counter: &AtomicU64, _goal: u64, nanoseconds: u64) -> bool {
        self.callback_waits.lock().expect("no panic").push(nanoseconds);
        self.callback_is_served.load(Ordering::SeqCst)
    }

    fn announce(&self, counter: &AtomicU64) {
        self.announced.lock().expect("no panic").push(counter.load(Ordering::SeqCst));
    }

    fn connect(&self) -> Result<(), AgentError> {
        if self.refuse_connection.load(Ordering::SeqCst) {
            return Err(AgentError::system(111));
        }
        self.step(Step::Connected);
        Ok(())
    }

    fn receive(&self) -> Received {
        self.pauses_at_once.start();
        self.samples_at_once.start();
        self.inbox.lock().expect("no panic").pop_front().unwrap_or(Received::HungUp)
    }

    fn send(&self, message: &FromAgent) {
        self.step(Step::Said(message.clone()));
    }

    fn publish(&self, parts: &[&[u64]]) -> bool {
        let full = self.full_from_wait.load(Ordering::SeqCst)..self.full_until_wait.load(Ordering::SeqCst);
        if full.contains(&self.waits.load(Ordering::SeqCst)) {
            return false;
        }
        let words = parts.concat();
        self.published.lock().expect("no panic").push(Message::decode((&words).into()).expect("a message of ours"));
        true
    }

    fn count(&self, counter: usize, by: u64) {
        *self.counters.lock().expect("no panic").entry(counter).or_default() += by;
    }

    fn start_sampling(&self) -> Result<Started, AgentError> {
        self.step(Step::SamplingStarted);
        Ok(Started { signal: 40, thread: 42, threads: vec![(9, "main".into())], engine: "made up".into() })
    }

    fn set_frequency(&self, hertz: u32) {
        self.step(Step::Frequency(hertz));
    }

    fn follow_threads(&self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.new_threads.lock().expect("no panic"))
    }

    fn thread_names(&self) -> Vec<(u32, String)> {
        vec![(9, "renamed".into())]
    }

    fn cpu_times(&self) -> Option<CpuTimes> {
        Some(CpuTimes { threads: vec![(9, 70)], process: 90, agent: 10, unfollowed: 5 })
    }

    fn next_sample(&self, words: &mut Vec<u64>) -> bool {
        match self.samples.lock().expect("no panic").pop_front() {
            Some(sample) => {
                *words = sample;
                self.samples_at_once.add();
                true
            }
            None => false,
        }
    }

    fn samples_pending(&self) -> bool {
        let happens = self.on_look.lock().expect("no panic").take();
        if let Some(happens) = happens {
            happens(self);
        }
        !self.samples.lock().expect("no panic").is_empty()
    }

    fn learn_stack(&self, _slot: u32, _thread: u32, _stack_pointer: u64) {}

    fn links(&self) -> Arc<[AtomicU64]> {
        self.links.0.clone()
    }

    fn code_at(&self, address: u64) -> CodeKind {
        match address / 0x1000 {
            0x1..=0x8 => CodeKind::Other,
            0xc => CodeKind::Frameless,
            0xd => CodeKind::Generated,
            _ => CodeKind::None,
        }
    }

    fn bytes_before(&self, address: u64) -> Option<[u8; 8]> {
        // Addresses that end in 5 follow a call.
        Some(if address % 16 == 5 { [0, 0, 0, 0xe8, 1, 2, 3, 4] } else { [0x90; 8] })
    }

    fn task(&self) -> Task {
        self.task.0
    }

    fn prepare_snapshot(&self) -> Result<Started, AgentError> {
        Ok(Started { signal: 0, thread: 42, threads: Vec::new(), engine: "made up".into() })
    }

    fn stop_sampling(&self) -> Result<(), AgentError> {
        self.step(Step::SamplingStopped);
        if self.refuse_stop.load(Ordering::SeqCst) { Err(AgentErrorCode::HandlerRuns.with(23)) } else { Ok(()) }
    }
}

/// A question to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    FunctionAt(u64),
    Function(usize),
    Type(usize),
    Module(usize),
    CallbacksArrive,
    Silence,
    Collect,
    KeepWatch(bool),
    WatchExceptions(bool),
}

/// The runtime: functions 1, 2, ... at 0x1000, 0x2000, ...; each 0x100 bytes of code.
pub struct Clr {
    pub code: HashMap<usize, Vec<u8>>,
    /// Functions with special bodies, and the code of each body.
    pub bodies: HashMap<usize, Vec<(CodeBody, Vec<u8>)>>,
    /// Generic arguments of functions; 4 by default.
    pub arguments: HashMap<usize, Vec<usize>>,
    /// Dynamic functions, with their names.
    pub dynamic: HashMap<usize, String>,
    pub callbacks_arrive: bool,
    pub silenced: Cell<bool>,
    pub questions: RefCell<Vec<Question>>,
    /// Questions to answer with an error, once each.
    pub errors: RefCell<Vec<Question>>,
    /// Runs while its question is answered, once each.
    pub meanwhile: RefCell<Vec<(Question, Happens)>>,
    /// Unloaded functions: a question about one fails the test.
    pub unloaded: Arc<Mutex<Vec<usize>>>,
}

impl Default for Clr {
    fn default() -> Self {
        Clr {
            code: HashMap::new(),
            bodies: HashMap::new(),
            arguments: HashMap::new(),
            dynamic: HashMap::new(),
            callbacks_arrive: true,
            silenced: Cell::new(false),
            questions: RefCell::default(),
            errors: RefCell::default(),
            meanwhile: RefCell::default(),
            unloaded: Arc::default(),
        }
    }
}

impl Clr {
    pub fn times(&self, question: Question) -> usize {
        self.questions.borrow().iter().filter(|asked| **asked == question).count()
    }

    fn asked(&self, question: Question) -> Result<(), u32> {
        let stale = match question {
            Question::FunctionAt(address) => Some((address / 0x1000) as usize),
            Question::Function(function) => Some(function),
            _ => None,
        };
        let gone = stale.is_some_and(|stale| self.unloaded.lock().expect("no panic").contains(&stale));
        assert!(!gone, "stale: {question:?}");
        self.questions.borrow_mut().push(question);
        let happens = take_first(&self.meanwhile, |(when, _)| *when == question);
        if let Some((_, happens)) = happens {
            happens();
        }
        match take_first(&self.errors, |error| *error == question) {
            Some(_) => Err(0x8013_1351),
            None => Ok(()),
        }
    }
}

fn take_first<T>(from: &RefCell<Vec<T>>, wanted: impl Fn(&T) -> bool) -> Option<T> {
    let at = from.borrow().iter().position(wanted)?;
    Some(from.borrow_mut().remove(at))
}

impl Runtime for Clr {
    fn function_at(&self, address: u64) -> Result<Option<usize>, u32> {
        self.asked(Question::FunctionAt(address))?;
        let function = (address / 0x1000) as usize;
        let managed = (1..9).contains(&function) && address % 0x1000 < 0x100;
        Ok(managed.then_some(function))
    }

    fn describe_function(&self, function: usize) -> Result<FunctionFacts, u32> {
        self.asked(Question::Function(function))?;
        if let Some(name) = self.dynamic.get(&function) {
            return Ok(FunctionFacts::Dynamic { name: name.clone(), module: None });
        }
        let arguments = self.arguments.get(&function).cloned().unwrap_or_else(|| vec![4]);
        Ok(FunctionFacts::Token { module: 7, token: 0x0600_0000 + function as u32, class: Some(3), arguments })
    }

    fn names_of(&self, _function: usize, _on_disk: bool, _token: u32) -> Option<(String, String)> {
        None
    }

    fn describe_type(&self, class: usize) -> Result<TypeFacts, u32> {
        self.asked(Question::Type(class))?;
        let token = 0x0200_0000 + class as u32;
        Ok(match class {
            3 => TypeFacts::Class { module: 7, token, arguments: vec![4] },
            // Contains itself: must not be followed endlessly.
            4 => TypeFacts::Class { module: 7, token, arguments: vec![5] },
            5 => TypeFacts::Array { element: Some(5), rank: 1, element_kind: 0x12 },
            // A chain: each type has the next one as its argument.
            100..=119 => TypeFacts::Class { module: 7, token, arguments: vec![class + 1] },
            // Has itself four times as an argument.
            200 => TypeFacts::Class { module: 7, token, arguments: vec![200, 200, 200, 200] },
            _ => TypeFacts::Unknown,
        })
    }

    fn describe_module(&self, module: usize) -> Result<ModuleFacts, u32> {
        self.asked(Question::Module(module))?;
        Ok(ModuleFacts { path: "/app/made-up.dll".into(), mvid: None })
    }

    fn bodies(&self, function: usize) -> Vec<CodeBody> {
        if let Some(bodies) = self.bodies.get(&function) {
            return bodies.iter().map(|(body, _)| *body).collect();
        }
        let start = function as u64 * 0x1000;
        vec![CodeBody { start, end: start + 0x100 }]
    }

    fn il_offset(&self, _function: usize, _body: CodeBody, native_offset: u32) -> Option<u32> {
        Some(native_offset / 2)
    }

    fn code<'a>(&self, body: CodeBody, from: u64, into: &'a mut [u8]) -> &'a [u8] {
        let function = (body.start / 0x1000) as usize;
        let of_body = self.bodies.get(&function).into_iter().flatten().find(|(other, _)| *other == body);
        let code = of_body
            .map(|(_, code)| code)
            .or(self.code.get(&function))
            .cloned()
            .unwrap_or_else(|| vec![0x55, 0x48, 0x8b, 0xec, 0x90, 0x90]);
        let rest = code.get((from - body.start) as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        &into[..length]
    }

    fn modules(&self) -> Result<Vec<usize>, u32> {
        Ok(Vec::new())
    }

    fn collect(&self) -> Result<(), u32> {
        self.asked(Question::Collect)
    }

    fn track_heap(&self, keeps: bool) -> Result<(), u32> {
        self.asked(Question::KeepWatch(keeps))
    }

    fn watch_exceptions(&self, watches: bool) -> Result<(), u32> {
        self.asked(Question::WatchExceptions(watches))
    }

    fn callbacks_arrive(&self) -> bool {
        self.questions.borrow_mut().push(Question::CallbacksArrive);
        self.callbacks_arrive
    }

    fn clear_event_mask(&self) {
        self.questions.borrow_mut().push(Question::Silence);
        self.silenced.set(true);
    }
}

/// A raw sample as the signal handler pushes it.
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

/// A thrown exception of a class.
pub fn thrown(thread: u32, class: u64, addresses: &[u64]) -> Vec<u64> {
    let mut words = raw(thread, 0, addresses, &[]);
    words[1] |= u64::from(u32::MAX) << 32;
    words[3] = class;
    words
}

/// The same with windows: the stack words above each return address without a link. Those addresses are marked.
pub fn raw_with_windows(addresses: &[u64], windows: &[&[u64]]) -> Vec<u64> {
    let mut words = raw(9, 0, addresses, &[]);
    words[0] |= ((windows.len() * WINDOW_WORDS) as u64) << 48;
    for window in windows {
        words.extend(window.iter().copied().chain(std::iter::repeat(0)).take(WINDOW_WORDS));
    }
    words
}

/// The messages of a session that goes well.
pub fn good_session() -> Vec<Received> {
    vec![Received::Message(ToAgent::Welcome), Received::Message(ToAgent::Begin), Received::Nothing]
}
