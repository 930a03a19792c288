//! What the author of a test's profiler does, and what was seen.

use corprof::{ModuleId, sdk::*};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// So long nothing takes that does not hang.
const HANGS: Duration = Duration::from_secs(60);

/// The module in whose callback it asks for its detach.
pub const LEAVES: ModuleId = ModuleId(99);

/// What the author of a test's profiler does, and what was seen. The client data is its address.
pub struct Script {
    pub run: fn(&'static Script, &Session<'_>),
    pub said: Mutex<Vec<String>>,
    pub heard: Condvar,
    pub is_held: AtomicBool,
    pub catches_up: AtomicBool,
    pub rounds: AtomicU32,
}

impl Script {
    pub fn new(run: fn(&'static Script, &Session<'_>)) -> &'static Script {
        let (is_held, catches_up, rounds) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU32::new(0));
        Box::leak(Box::new(Script { run, said: Mutex::default(), heard: Condvar::new(), is_held, catches_up, rounds }))
    }

    pub fn say(&self, what: impl Into<String>) {
        self.said.lock().expect("no panic while locked").push(what.into());
        self.heard.notify_all();
    }

    /// Waits until something that begins so was said.
    #[track_caller]
    pub fn until(&self, start: &str) {
        assert!(self.says(start, HANGS), "nothing that begins with `{start}` in {:?}", self.said());
    }

    /// Whether something that begins so is said in time.
    pub fn says(&self, start: &str, time: Duration) -> bool {
        let said = self.said.lock().expect("no panic while locked");
        let all = |said: &mut Vec<String>| !said.iter().any(|one| one.starts_with(start));
        !self.heard.wait_timeout_while(said, time, all).expect("no panic while locked").1.timed_out()
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic while locked").clone()
    }

    pub fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
    }

    pub fn release(&self) {
        self.is_held.store(false, Ordering::SeqCst);
    }

    pub fn wait_while_held(&self) {
        while self.is_held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    pub fn round(&self) -> u32 {
        self.rounds.fetch_add(1, Ordering::SeqCst)
    }

    pub fn data(&'static self) -> [u8; 8] {
        (core::ptr::from_ref(self) as usize as u64).to_le_bytes()
    }
}
