//! The machine's cost of one sample, without Remora.
//!
//! - A thread wakes at random instants and signals each busy thread. The handler only sets a flag. No sampler with its own thread and
//!   signals is cheaper.
//! - The kernel samples (`perf`): a timer on the thread's CPU, no signal, no other thread. The cost of `perf` processing the samples is
//!   not counted.

use crate::Outcome;
use crate::agent::HERTZ;
use crate::bench::{BLOCKS_OF_COST, Bench};
use crate::perf;
use crate::process::{cpu_time, own_time};
use crate::statistics::Interval;
use crate::table::Row;
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::Signal;
use remora_sampler::Random;
use serde_json::json;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The length of a turn with signals, and of a turn without.
const TURN: Duration = Duration::from_secs(1);

/// Rows for one busy thread and for two.
pub fn measure(bench: &Bench) -> Outcome<Vec<Row>> {
    let signals = [1, 2].map(|threads| signals(bench, threads));
    signals.into_iter().chain([1, 2].map(|threads| kernel(bench, threads))).collect()
}

fn kernel(bench: &Bench, threads: usize) -> Outcome<Row> {
    let busy = Busy::start(threads);
    let mut whole = Vec::new();
    for _ in 0..bench.amount(BLOCKS_OF_COST) {
        let alone = busy.work(idle)?;
        let Ok(sampled) = perf::while_recording(std::process::id(), || busy.work(idle)) else { break };
        // One sample for each period of CPU time.
        let samples = sampled.used * f64::from(HERTZ);
        whole.push((sampled.used - sampled.done * alone.used / alone.done) / samples * 1e6);
    }
    let what = format!("without Remora: CPU time for each sample that the kernel takes at {HERTZ} Hz, {threads} busy");
    let Some(whole) = Interval::of(&whole) else { return Ok(Row::shown(&what, "perf cannot record here".into())) };
    Ok(Row::shown(&what, whole.text(" us", 1)).numbers(json!({ "all_us": whole })))
}

fn signals(bench: &Bench, threads: usize) -> Outcome<Row> {
    let taken = Arc::new(AtomicBool::new(false));
    let handler = signal_hook::flag::register(Signal::SIGURG as i32, taken)?;
    let busy = Busy::start(threads);
    let mut random = Random::new(u64::from(HERTZ));
    let (mut whole, mut waking) = (Vec::new(), Vec::new());
    for _ in 0..bench.amount(BLOCKS_OF_COST) {
        let alone = busy.work(idle)?;
        let mut own = 0.0;
        let signalled = busy.work(|| {
            let before = own_time();
            let sent = busy.signal(&mut random, TURN)?;
            own = own_time() - before;
            Ok(sent)
        })?;
        let sent = signalled.sent as f64;
        whole.push((signalled.used - signalled.done * alone.used / alone.done) / sent * 1e6);
        waking.push(own / sent * 1e6);
    }
    drop(busy);
    signal_hook::low_level::unregister(handler);
    let (whole, waking) = (Interval::of(&whole).ok_or("no turns")?, Interval::of(&waking).ok_or("no turns")?);
    let what = format!("without Remora: CPU time for each signal with an empty handler at {HERTZ} Hz, {threads} busy");
    let measured = format!("{}: waking and sending {:.1}", whole.text(" us", 1), waking.mean);
    Ok(Row::shown(&what, measured).numbers(json!({ "all_us": whole, "sender_us": waking })))
}

/// A turn without signals.
fn idle() -> Outcome<u64> {
    std::thread::sleep(TURN);
    Ok(0)
}

/// Threads that compute and count their operations.
struct Busy {
    threads: Vec<JoinHandle<()>>,
    done: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
}

/// Their work in one turn.
struct Work {
    done: f64,
    used: f64,
    sent: u64,
}

impl Busy {
    fn start(threads: usize) -> Busy {
        let (done, end) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let threads = (0..threads).map(|_| {
            let (done, end) = (Arc::clone(&done), Arc::clone(&end));
            std::thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    std::hint::black_box((0..10_000_u64).fold(1, |sum: u64, next| std::hint::black_box(sum ^ next)));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        Busy { threads: threads.collect(), done, end }
    }

    fn work(&self, meanwhile: impl FnOnce() -> Outcome<u64>) -> Outcome<Work> {
        let look = || (self.done.load(Ordering::Relaxed), cpu_time(std::process::id()));
        let (done, used) = look();
        let sent = meanwhile()?;
        let (done_after, used_after) = look();
        Ok(Work { done: (done_after - done) as f64, used: used_after - used, sent })
    }

    /// Signals all of them at random instants; returns the number of signals.
    fn signal(&self, random: &mut Random, duration: Duration) -> Outcome<u64> {
        let end = Instant::now() + duration;
        let mut next = Instant::now();
        let mut sent = 0;
        loop {
            next += Duration::from_nanos(random.below(2_000_000_000 / u64::from(HERTZ)));
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            if Instant::now() >= end {
                return Ok(sent);
            }
            for thread in &self.threads {
                pthread_kill(thread.as_pthread_t(), Signal::SIGURG)?;
                sent += 1;
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
