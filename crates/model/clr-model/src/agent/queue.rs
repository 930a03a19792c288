//! A queue with limited room between two sides of the modelled process.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module documentation. The default has no room.
#[derive(Default)]
pub struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    room: AtomicUsize,
}

impl<T> Queue<T> {
    /// An empty queue for at most `room` items.
    pub fn new(room: usize) -> Queue<T> {
        Queue { items: Mutex::default(), room: AtomicUsize::new(room) }
    }

    /// Changes the maximum for later items.
    pub fn limit(&self, room: usize) {
        self.room.store(room, Ordering::SeqCst);
    }

    /// Appends an item if there is room.
    pub fn push(&self, item: T) -> bool {
        let mut items = self.items.lock().expect("no panic while locked");
        let fits = items.len() < self.room.load(Ordering::SeqCst);
        if fits {
            items.push_back(item);
        }
        fits
    }

    /// Takes the oldest item.
    pub fn pop(&self) -> Option<T> {
        self.items.lock().expect("no panic while locked").pop_front()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.items.lock().expect("no panic while locked").is_empty()
    }
}
