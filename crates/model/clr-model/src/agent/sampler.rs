//! The system's side of sampling: timers that send signals, and handlers that run on the interrupted thread.

use super::Process;
use super::queue::Queue;
use crate::library::Library;
use crate::runtime::{FunctionTruth, Runtime};
use crate::schedule;
use remora_sampler::RawSample;
use remora_session::fault_injection::{self, InjectedFault};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const TIMER: &str = "a timer that is armed";
const HANDLER: &str = "a signal handler that is registered";

/// See the module documentation.
#[derive(Default)]
pub struct Sampler {
    armed: AtomicBool,
    handled: AtomicBool,
    inside: AtomicU32,
    taken: AtomicU64,
    lost: AtomicU64,
    /// Samples between handlers and worker.
    pub(super) ring: Queue<Vec<u64>>,
    /// The true stack of each sample, by its number.
    truth: Mutex<HashMap<u64, Vec<Option<FunctionTruth>>>>,
}

impl Sampler {
    /// A sampler with room for this many samples between handlers and worker.
    pub fn new(room: usize) -> Sampler {
        Sampler { ring: Queue::new(room), ..Sampler::default() }
    }

    /// Registers handler and timers.
    pub(super) fn start(&self, library: &Library) {
        library.open(HANDLER);
        library.open(TIMER);
        self.handled.store(true, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
        schedule::note("Sampling begins", 0);
    }

    /// Deletes the timers, waits for running handlers, then unregisters the handler, like `agent/src/linux.rs`.
    pub(super) fn stop(&self, library: &Library, timer_stays: bool) {
        if !timer_stays
            && !fault_injection::is_injected(InjectedFault::LeaveTimersArmed)
            && self.armed.swap(false, Ordering::SeqCst)
        {
            library.close(TIMER);
        }
        schedule::point();
        if !fault_injection::is_injected(InjectedFault::StopByFlagOnly) {
            schedule::wait_until(None, || self.inside.load(Ordering::SeqCst) == 0);
        }
        if self.handled.swap(false, Ordering::SeqCst) {
            library.close(HANDLER);
        }
        schedule::note("Sampling has ended", 0);
    }

    /// A timer may be due on the running thread. The handler interrupts the thread at any place.
    pub fn interrupt(&self, process: &Process) {
        if !self.armed.load(Ordering::SeqCst) {
            return;
        }
        let Some((thread, stack)) = process.runtime.stack() else { return };
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = process.library.enter();
        schedule::point();
        let number = self.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if self.push(&process.runtime, thread, number, &stack) {
            schedule::note("A sample is taken ({})", number);
        } else {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        schedule::point();
        drop(inside);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn push(&self, runtime: &Runtime, thread: u32, number: u64, stack: &[u64]) -> bool {
        // Return addresses are after the call.
        let addresses: Vec<u64> =
            stack.iter().enumerate().map(|(depth, address)| address + u64::from(depth > 0)).collect();
        let sample = RawSample { thread, time: number, weight: 1, ..RawSample::default() };
        let mut words = sample.words().to_vec();
        words[0] |= (addresses.len() as u64) << 16;
        words.extend(addresses);
        let fits = self.ring.push(words);
        if fits {
            let truth = stack.iter().map(|address| runtime.truth_at(*address)).collect();
            self.truth.lock().expect("no panic while locked").insert(number, truth);
        }
        fits
    }

    /// The true stack of a sample, leaf first.
    pub fn truth(&self, number: u64) -> Vec<Option<FunctionTruth>> {
        self.truth.lock().expect("no panic while locked").get(&number).cloned().unwrap_or_default()
    }

    /// Samples begun, and those without room.
    pub fn taken_and_lost(&self) -> (u64, u64) {
        (self.taken.load(Ordering::SeqCst), self.lost.load(Ordering::SeqCst))
    }
}
