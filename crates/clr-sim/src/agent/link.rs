//! Between the agent and the recording process: the control channel and the transport, which has little room.

use crate::mutation;
use remora_wire::{FromAgent, ToAgent};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's text.
pub struct Link {
    /// Whether the recording process lives.
    alive: AtomicBool,
    to_agent: Mutex<VecDeque<ToAgent>>,
    said: Mutex<Vec<FromAgent>>,
    transport: Mutex<VecDeque<Vec<u64>>>,
    room: usize,
    counters: Mutex<HashMap<usize, u64>>,
}

impl Link {
    /// One whose transport takes so many messages before they are read.
    pub fn new(room: usize) -> Link {
        Link {
            alive: AtomicBool::new(true),
            to_agent: Mutex::default(),
            said: Mutex::default(),
            transport: Mutex::default(),
            room,
            counters: Mutex::default(),
        }
    }

    /// The recording process is killed.
    pub fn kill(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }

    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst) || mutation::is("DET-16")
    }

    /// The recording process says something.
    pub fn say(&self, message: ToAgent) {
        self.to_agent.lock().expect("no panic while locked").push_back(message);
    }

    /// Everything that the agent has said so far.
    pub fn said(&self) -> Vec<FromAgent> {
        self.said.lock().expect("no panic while locked").clone()
    }

    /// Whether the agent has said something like that.
    pub fn has_said(&self, what: impl Fn(&FromAgent) -> bool) -> bool {
        self.said.lock().expect("no panic while locked").iter().any(what)
    }

    /// The next message of the transport.
    pub fn read(&self) -> Option<Vec<u64>> {
        self.transport.lock().expect("no panic while locked").pop_front()
    }

    /// A counter of [`remora_wire::layout`].
    pub fn counter(&self, counter: usize) -> u64 {
        self.counters.lock().expect("no panic while locked").get(&counter).copied().unwrap_or_default()
    }

    pub(super) fn has_message(&self) -> bool {
        !self.is_alive() || !self.to_agent.lock().expect("no panic while locked").is_empty()
    }

    pub(super) fn receive(&self) -> Option<ToAgent> {
        self.to_agent.lock().expect("no panic while locked").pop_front()
    }

    pub(super) fn hear(&self, message: FromAgent) {
        self.said.lock().expect("no panic while locked").push(message);
    }

    pub(super) fn publish(&self, words: Vec<u64>) -> bool {
        let mut transport = self.transport.lock().expect("no panic while locked");
        let fits = transport.len() < self.room;
        if fits {
            transport.push_back(words);
        }
        fits
    }

    pub(super) fn count(&self, counter: usize, by: u64) {
        *self.counters.lock().expect("no panic while locked").entry(counter).or_default() += by;
    }
}
