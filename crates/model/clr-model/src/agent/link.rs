//! The connection between agent and recorder: the control channel, and the transport, which has little room.

use super::queue::Queue;
use crate::mutation;
use remora_wire::{Config, FromAgent, StartupOrder, ToAgent};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module documentation.
pub struct Link {
    /// Whether the recorder lives.
    alive: AtomicBool,
    pub(super) to_agent: Queue<ToAgent>,
    said: Mutex<Vec<FromAgent>>,
    /// Messages of the transport.
    pub transport: Queue<Vec<u64>>,
    counters: Mutex<HashMap<usize, u64>>,
    /// Heap tracking pieces.
    pub collections: Queue<Vec<u8>>,
    /// The streams of forked copies.
    pub snapshots: Queue<Vec<u8>>,
    /// The order of a recorder that starts the process with the agent.
    startup_order: Mutex<Option<StartupOrder>>,
}

impl Link {
    /// A connection whose transport holds at most `room` unread messages.
    pub fn new(room: usize) -> Link {
        Link {
            alive: AtomicBool::new(true),
            to_agent: Queue::new(usize::MAX),
            said: Mutex::default(),
            transport: Queue::new(room),
            counters: Mutex::default(),
            collections: Queue::new(usize::MAX),
            snapshots: Queue::new(usize::MAX),
            startup_order: Mutex::default(),
        }
    }

    /// The process is started by the recorder, with this config for the agent.
    pub fn starts_with(&self, config: &Config) {
        let order = StartupOrder { config: config.encode(), own_variables: Vec::new() };
        *self.startup_order.lock().expect("no panic while locked") = Some(order);
    }

    /// That order, for the first profiler of the process.
    pub(super) fn take_startup_order(&self) -> Option<StartupOrder> {
        self.startup_order.lock().expect("no panic while locked").take()
    }

    /// Kills the recorder.
    pub fn kill(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }

    /// Whether the recorder lives.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst) || mutation::is("DET-16")
    }

    /// Sends a message from the recorder.
    pub fn say(&self, message: ToAgent) {
        self.to_agent.push(message);
    }

    /// All messages of the agent so far.
    pub fn said(&self) -> Vec<FromAgent> {
        self.said.lock().expect("no panic while locked").clone()
    }

    /// Whether the agent has sent such a message.
    pub fn has_said(&self, what: impl Fn(&FromAgent) -> bool) -> bool {
        self.said.lock().expect("no panic while locked").iter().any(what)
    }

    /// A counter of the shared memory.
    pub fn counter(&self, counter: usize) -> u64 {
        self.counters.lock().expect("no panic while locked").get(&counter).copied().unwrap_or_default()
    }

    /// Sends a message from the agent.
    pub(super) fn hear(&self, message: FromAgent) {
        self.said.lock().expect("no panic while locked").push(message);
    }

    /// Raises a counter of the shared memory.
    pub(super) fn count(&self, counter: usize, by: u64) {
        *self.counters.lock().expect("no panic while locked").entry(counter).or_default() += by;
    }
}
