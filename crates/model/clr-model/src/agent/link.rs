//! The connection between agent and recorder: the control channel, and the transport, which has little room.

use crate::mutation;
use remora_wire::{FromAgent, ToAgent};
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module documentation.
pub struct Link {
    /// Whether the recorder lives.
    alive: AtomicBool,
    to_agent: Mutex<VecDeque<ToAgent>>,
    said: Mutex<Vec<FromAgent>>,
    transport: Mutex<VecDeque<Vec<u64>>>,
    room: usize,
    counters: Mutex<HashMap<usize, u64>>,
    /// Heap tracking pieces, and their maximum.
    collections: Mutex<VecDeque<Vec<u8>>>,
    room_for_collections: AtomicUsize,
    /// The streams of forked copies.
    pictures: Mutex<VecDeque<Vec<u8>>>,
}

impl Link {
    /// A connection whose transport holds at most `room` unread messages.
    pub fn new(room: usize) -> Link {
        Link {
            alive: AtomicBool::new(true),
            to_agent: Mutex::default(),
            said: Mutex::default(),
            transport: Mutex::default(),
            room,
            counters: Mutex::default(),
            collections: Mutex::default(),
            room_for_collections: AtomicUsize::new(usize::MAX),
            pictures: Mutex::default(),
        }
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
        self.to_agent.lock().expect("no panic while locked").push_back(message);
    }

    /// All messages of the agent so far.
    pub fn said(&self) -> Vec<FromAgent> {
        self.said.lock().expect("no panic while locked").clone()
    }

    /// Whether the agent has sent such a message.
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

    /// Limits the unread heap tracking pieces.
    pub fn limit_collections(&self, room: usize) {
        self.room_for_collections.store(room, Ordering::SeqCst);
    }

    /// The next heap tracking piece.
    pub fn next_of_collections(&self) -> Option<Vec<u8>> {
        self.collections.lock().expect("no panic while locked").pop_front()
    }

    /// The stream of the next forked copy.
    pub fn next_picture(&self) -> Option<Vec<u8>> {
        self.pictures.lock().expect("no panic while locked").pop_front()
    }

    pub(super) fn tell_of_collection(&self, piece: &[u8]) -> bool {
        let mut collections = self.collections.lock().expect("no panic while locked");
        let fits = collections.len() < self.room_for_collections.load(Ordering::SeqCst);
        if fits {
            collections.push_back(piece.to_vec());
        }
        fits
    }

    pub(super) fn picture(&self, stream: Vec<u8>) {
        self.pictures.lock().expect("no panic while locked").push_back(stream);
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
