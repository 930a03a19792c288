//! The sampler thread: at random instants, it finds the threads on a CPU and asks each for a sample.
//!
//! The distances between instants are a short rest and an exponentially distributed time, so they follow nothing in the target. The sampler hits each piece of a
//! thread's CPU time with equal probability. It does not matter how short the thread's bursts are, or what wakes it.
//! Two readings of a thread's CPU clock show whether it is on a CPU. Kernel timers cannot do this: CPU timers expire only on the kernel's
//! tick, and .NET's own timers wake threads right after it.
//!
//! **Preempted by the sampler.** When the sampler wakes, it may take a thread's CPU. The thread then waits, ready to run on that same CPU.
//! The sampler asks it, too. When the thread runs again, the handler checks when the wait began. If the sampler woke then, this is a sample
//! ([`remora_agent_hot::Seen::Preempted`]).
//!
//! **Wall-clock sampling.** A thread keeps its stack as long as its CPU clock does not move. It gets no signal; its last sample counts on.
//! A blocked thread with new CPU time gets a signal, as far as the budget allows: waking it takes a CPU from a running thread.
//! A thread waiting for a CPU gets a signal, too. It takes the signal before it goes on, and its sample is marked as a wait.
//!
//! **Many threads.** The sampler looks at idle threads with a probability below one. Their samples then weigh more.

use crate::follow::Followed;
use crate::futex::futex_wait;
use crate::scheduling::Scheduling;
use crate::signal::Sender;
use crate::threads::{self, OwnThread};
use remora_agent_core::REPEATED;
use remora_agent_hot::{Ask, Random, RawSample, Seen, Session, Slot, monotonic, thread_cpu, thread_cpu_of};
use remora_wire::{Config, EventKind, layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Waking a thread counts as this many signals: it interrupts a running thread, and the sleeper goes back to sleep.
const WAKE: u64 = 4;

/// After a sample, a blocked thread needs some CPU time to return to its wait. Less than this does not count as having run, nanoseconds.
const SETTLING: u64 = 50_000;

/// After this many looks without CPU time, the sampler looks at a thread less often.
const STILL_HOT: u32 = 64;

/// Looks per second at such idle threads, on average.
const COLD_LOOKS: u64 = 800;

/// A thread ran without a break if its CPU time is at most this far below the elapsed time, nanoseconds.
const UNINTERRUPTED: u64 = 12_000;

/// Threads whose state is read in one instant, at most: each is a file. Their samples also weigh for the others.
const STATE_READS: usize = 8;

/// A signal is lost if it has no answer for this time and its thread has run since, nanoseconds.
const SILENT: u64 = 1_000_000_000;

/// The sampler had to wait for a CPU if it wakes later than planned by this much, nanoseconds.
const LATE: u64 = 200_000;

/// Two instants are at least this far apart: before that, threads may not have answered the first one's signals, nanoseconds.
const REST: u64 = 40_000;

/// The first instants come faster, so that a recording begins at once; their samples weigh less.
const FIRST_INSTANTS: u32 = 8;
/// Mean distance of the first instants, at most, nanoseconds.
const FIRST_INTERVAL: u64 = 500_000;

/// After this time, the sampler reports an unchanged stack to the recorder, nanoseconds.
const LONGEST_REPEAT: u64 = 1_000_000_000;

/// The sampler: shared between its own thread and the agent's thread.
pub struct Sampler {
    /// The memory of this attach.
    session: &'static Session<'static>,
    /// The followed threads; shared with the agent's thread, which scans for them.
    followed: Arc<Mutex<Followed>>,
    /// Sends the signals.
    sender: Sender,
    /// Whether blocked threads are sampled, too.
    wall: bool,
    /// Signals a second.
    budget: u64,
    /// Requested mean time between two instants, nanoseconds.
    pub interval: AtomicU64,
    /// The thread's id; 0 before it has begun.
    pub thread: AtomicU32,
    /// Changes when the thread must end or the interval has changed.
    pub bell: AtomicU64,
    /// Whether the thread must end.
    stop: AtomicBool,
}

impl Sampler {
    /// The sampler of a session. [`Sampler::start`] starts its thread.
    pub fn new(
        session: &'static Session<'static>,
        followed: Arc<Mutex<Followed>>,
        sender: Sender,
        config: &Config,
    ) -> Sampler {
        Sampler {
            session,
            followed,
            sender,
            wall: config.event == EventKind::Wall,
            budget: u64::from(config.signal_budget),
            interval: AtomicU64::new(interval(config.frequency)),
            thread: AtomicU32::new(0),
            bell: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system's error number.
    pub fn start(self: Arc<Self>) -> Result<OwnThread, i32> {
        let pointer = Arc::into_raw(self);
        OwnThread::start(main, pointer.cast_mut().cast()).inspect_err(|_| {
            // SAFETY: `into_raw` made it just now, and no thread took it over.
            drop(unsafe { Arc::from_raw(pointer) });
        })
    }

    /// Changes the frequency, hertz.
    pub fn set_frequency(&self, hertz: u32) {
        self.interval.store(interval(hertz), Ordering::Relaxed);
        self.ring();
    }

    /// Makes the thread end.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    /// Wakes the thread: it must end, or the interval has changed.
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        crate::futex::futex_wake(&self.bell);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The mean time between two instants at a frequency in hertz, nanoseconds.
fn interval(frequency: u32) -> u64 {
    1_000_000_000 / u64::from(frequency.clamp(1, 10_000))
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    threads::begin_this("-s");
    threads::be_punctual();
    // SAFETY: `start` handed this reference over.
    let sampler = unsafe { Arc::from_raw(argument.cast::<Sampler>()) };
    sampler.thread.store(threads::this_thread(), Ordering::Relaxed);
    // A panic ends the sampling, not the process. The agent's thread goes on without samples.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Rounds::new(&sampler).run()));
    std::ptr::null_mut()
}

/// A thread as the sampler knows it.
#[derive(Debug, Clone, Copy)]
struct Looked {
    thread: u32,
    slot: u32,
    /// When the account of its time began, monotonic nanoseconds.
    since: u64,
    /// Its CPU clock then.
    from: u64,
    /// Its CPU clock at the last look.
    used: u64,
    /// Consecutive looks without a change of that clock.
    quiet: u32,
    /// The last instant with new CPU time: its number, and its time if the thread was running then, monotonic nanoseconds.
    seen: Option<(u64, Option<u64>)>,
    /// Its CPU clock when it was back in its wait after a sample. It keeps that sample's stack until the clock moves.
    settled: Option<u64>,
    /// Until when its stack is known to be unchanged, monotonic nanoseconds.
    stood_until: u64,
    /// Sum of the weights of its repeated samples, nanoseconds.
    repeated: u64,
    /// Whether an incomplete stack was sampled once more ([`Slot::again`]) with the newest unwind table.
    resampled: bool,
}

/// One instant.
struct Instant {
    /// Now, monotonic nanoseconds.
    now: u64,
    /// When the sampler got its CPU, monotonic nanoseconds.
    woke_at: u64,
    /// The mean distance of instants, nanoseconds.
    interval: u64,
    /// Whether the sampler had to wait for a CPU.
    is_late: bool,
}

struct Rounds<'a> {
    sampler: &'a Sampler,
    random: Random,
    /// Sorted by thread.
    looked: Vec<Looked>,
    version: u64,
    /// The last value of [`Followed::tables`].
    tables: u64,
    /// Signals that may be sent now.
    tokens: u64,
    refilled: u64,
    /// Threads on a CPU at the last instant.
    running: u64,
    /// Instants so far.
    count: u64,
    /// When the sampler went to sleep last, monotonic nanoseconds.
    slept_at: u64,
    scheduling: Scheduling,
}

impl<'a> Rounds<'a> {
    fn new(sampler: &'a Sampler) -> Self {
        let now = monotonic();
        let random = Random::new(now ^ u64::from(threads::this_thread()) << 32);
        let tokens = most_tokens(sampler.budget);
        Rounds {
            sampler,
            random,
            looked: Vec::new(),
            version: 0,
            tables: 0,
            tokens,
            refilled: now,
            running: 0,
            count: 0,
            slept_at: now,
            scheduling: Scheduling::default(),
        }
    }

    fn run(&mut self) {
        let mut first = FIRST_INSTANTS;
        let mut next = monotonic();
        loop {
            let asked_for = self.sampler.interval.load(Ordering::Relaxed);
            let interval = if first > 0 { asked_for.min(FIRST_INTERVAL) } else { asked_for };
            first = first.saturating_sub(1);
            let rest = REST.min(interval / 2);
            next += rest + self.random.exponential(interval - rest);
            let used = thread_cpu();
            self.slept_at = monotonic();
            self.rest_until(next);
            self.count += 1;
            if self.sampler.is_stopped() {
                break;
            }
            let now = monotonic();
            // Falling asleep and waking used the CPU time since then. So the sampler got its CPU that long ago.
            let woke_at = now.saturating_sub(thread_cpu().saturating_sub(used));
            self.refresh();
            self.refill(now);
            // A late sampler got its CPU when another thread gave it up. The instant is not random for that thread.
            let is_late = now.saturating_sub(next) > LATE;
            self.instant(&Instant { now, woke_at, interval, is_late });
            // Do not make up for missed instants: they would come all at once.
            next = next.max(now.saturating_sub(interval));
        }
        self.end();
    }

    fn rest_until(&self, time: u64) {
        let sampler = self.sampler;
        while !sampler.is_stopped() {
            let heard = sampler.bell.load(Ordering::SeqCst);
            let now = monotonic();
            if now >= time || sampler.is_stopped() {
                return;
            }
            futex_wait(&sampler.bell, heard as u32, time - now);
        }
    }

    /// Updates the list of followed threads. If the agent's thread is scanning, the next instant updates it.
    fn refresh(&mut self) {
        let Ok(followed) = self.sampler.followed.try_lock() else { return };
        if followed.version() == self.version {
            return;
        }
        self.version = followed.version();
        let mut now: Vec<Looked> = followed
            .threads()
            .map(|new| Looked {
                thread: new.thread,
                slot: new.slot,
                since: new.since,
                from: new.clock,
                used: new.clock,
                quiet: 0,
                seen: None,
                settled: None,
                stood_until: new.since,
                repeated: 0,
                resampled: false,
            })
            .collect();
        let tables = followed.tables();
        drop(followed);
        now.sort_unstable_by_key(|looked| looked.thread);
        for looked in &mut now {
            let known = self.looked.binary_search_by_key(&looked.thread, |known| known.thread);
            if let Some(known) = known.ok().map(|at| self.looked[at])
                && (known.slot, known.since) == (looked.slot, looked.since)
            {
                *looked = known;
            }
        }
        self.looked = now;
        if tables != self.tables {
            // The newest unwind table may complete the incomplete stacks.
            self.tables = tables;
            self.looked.iter_mut().for_each(|looked| looked.resampled = false);
        }
    }

    fn refill(&mut self, now: u64) {
        let budget = self.sampler.budget.max(1);
        let gained = (now - self.refilled).saturating_mul(budget) / 1_000_000_000;
        if gained > 0 {
            self.tokens = (self.tokens + gained).min(most_tokens(budget));
            self.refilled = now;
        }
    }

    /// One instant: finds the running threads and asks for samples.
    fn instant(&mut self, instant: &Instant) {
        let Instant { now, interval, .. } = *instant;
        self.sampler.session.count(layout::INSTANTS);
        let cold = self.looked.iter().filter(|looked| looked.quiet >= STILL_HOT).count() as u64;
        let mut stopped = Vec::new();
        let cold_looks = (COLD_LOOKS.saturating_mul(interval) / 1_000_000_000).max(1);
        let mut running = 0;
        for at in 0..self.looked.len() {
            let of = if self.looked[at].quiet >= STILL_HOT { cold.max(cold_looks) } else { cold_looks };
            if of > cold_looks && self.random.below(of) >= cold_looks {
                continue;
            }
            let Some(slot) = self.slot(at) else { continue };
            let (thread, before) = (self.looked[at].thread, self.looked[at].used);
            let used = thread_cpu_of(thread);
            if used == 0 {
                continue;
            }
            slot.clock.store(used, Ordering::Relaxed);
            if used == before {
                self.looked[at].quiet = self.looked[at].quiet.saturating_add(1);
                self.stands(at, slot, now);
                continue;
            }
            (self.looked[at].used, self.looked[at].quiet) = (used, 0);
            let weight = interval.saturating_mul(of) / cold_looks;
            let ran_on = !instant.is_late && self.ran_on(at, used.saturating_sub(before), instant.woke_at);
            let again = if ran_on { used } else { thread_cpu_of(thread) };
            if again > used && is_settling(slot, again) {
                continue;
            }
            let is_running = ran_on || again > used;
            self.looked[at].seen = Some((self.count, is_running.then_some(now)));
            if is_running {
                running += 1;
                self.ask_running(at, slot, Seen::Running, again, weight);
            } else {
                stopped.push((at, weight));
            }
        }
        self.have_stopped(&stopped, instant);
        self.running = running;
    }

    /// Whether a thread ran from the last look until the sampler woke, by its CPU time. Then it runs now, or the sampler took its CPU.
    fn ran_on(&self, at: usize, used: u64, woke_at: u64) -> bool {
        let Some((_, running_at)) = self.looked[at].seen.filter(|(count, _)| count + 1 == self.count) else {
            return false;
        };
        // A thread off the CPU at the last look started to run when the sampler went to sleep, at the earliest.
        used + UNINTERRUPTED >= woke_at.saturating_sub(running_at.unwrap_or(self.slept_at))
    }

    fn slot(&self, at: usize) -> Option<&'a Slot> {
        let slot = self.sampler.session.slots.get(self.looked.get(at)?.slot as usize)?;
        (slot.thread.load(Ordering::Relaxed) == self.looked[at].thread).then_some(slot)
    }

    /// Handles threads with new CPU time but off the CPU now. It starts with a random one each time.
    fn have_stopped(&mut self, stopped: &[(usize, u64)], instant: &Instant) {
        let first = self.random.below(stopped.len() as u64) as usize;
        let cpu = threads::this_cpu();
        let looks = STATE_READS.min(stopped.len()).max(1) as u64;
        for (count, (at, weight)) in stopped[first..].iter().chain(&stopped[..first]).enumerate() {
            // The handler still needs the values of an unanswered ask: do not overwrite them.
            let Some(slot) = self.slot(*at).filter(|slot| slot.ask.weight.load(Ordering::Acquire) == 0) else {
                continue;
            };
            let looked = self.looked[*at];
            if count >= STATE_READS || self.scheduling.ready_on(looked.thread) != Some(cpu) {
                self.stands(*at, slot, instant.now);
            } else if let Some(waited) = self.scheduling.waited_for_cpu(looked.thread).filter(|_| !instant.is_late) {
                slot.ask.waited.store(waited, Ordering::Relaxed);
                slot.ask.woke_at.store(instant.woke_at, Ordering::Relaxed);
                self.settle_account(*at, slot);
                let off_cpu = if self.sampler.wall { due(&self.looked[*at], slot, instant.now) } else { 0 };
                slot.ask.off_cpu.store(off_cpu, Ordering::Relaxed);
                self.ask_running(*at, slot, Seen::Preempted, looked.used, weight * stopped.len() as u64 / looks);
            } else {
                self.stands(*at, slot, instant.now);
            }
        }
    }

    fn ask_running(&mut self, at: usize, slot: &Slot, seen: Seen, used: u64, weight: u64) {
        self.settle_account(at, slot);
        // If more threads run than the budget allows, some get no signal, and the others weigh more.
        let wanted = self.running.saturating_mul(1_000_000_000) / self.sampler.interval.load(Ordering::Relaxed).max(1);
        let budget = self.sampler.budget.max(1);
        if wanted > budget && self.random.below(wanted) >= budget {
            return;
        }
        self.tokens = self.tokens.saturating_sub(1);
        let weight = if wanted > budget { weight.saturating_mul(wanted) / budget } else { weight };
        self.ask(at, slot, seen, used, weight);
    }

    /// The thread is off the CPU. Wall-clock sampling keeps its last sample if the stack is unchanged, or asks for a new one.
    fn stands(&mut self, at: usize, slot: &Slot, now: u64) {
        if !self.sampler.wall {
            return;
        }
        let looked = &mut self.looked[at];
        if looked.settled.is_none() && is_settling(slot, looked.used) {
            looked.settled = Some(looked.used);
        }
        let again = !looked.resampled && slot.again.load(Ordering::Relaxed);
        if looked.settled == Some(looked.used) && !again {
            looked.stood_until = now;
            if due(looked, slot, now) >= LONGEST_REPEAT {
                self.settle_account(at, slot);
            }
            return;
        }
        self.settle_account(at, slot);
        let weight = due(&self.looked[at], slot, now);
        if slot.ask.weight.load(Ordering::Acquire) != 0 {
            // If it has waited for a CPU since the ask, its sample includes this time, too.
            slot.ask.off_cpu.store(weight, Ordering::Relaxed);
        } else if weight != 0 {
            self.ask_off_cpu(at, slot, weight);
        }
    }

    fn ask_off_cpu(&mut self, at: usize, slot: &Slot, weight: u64) {
        if self.tokens < WAKE {
            self.sampler.session.count(layout::OVER_BUDGET);
            return;
        }
        let cost = if self.scheduling.ready_on(self.looked[at].thread).is_none() { WAKE } else { 1 };
        self.tokens -= cost;
        let looked = &mut self.looked[at];
        let used = looked.used;
        if cost == WAKE {
            looked.resampled |= slot.again.swap(false, Ordering::Relaxed);
            self.ask(at, slot, Seen::Blocked, used, weight);
        } else {
            slot.ask.off_cpu.store(weight, Ordering::Relaxed);
            self.ask(at, slot, Seen::Runnable, used, weight);
        }
    }

    /// Accounts for the time of an unchanged stack by repeating the thread's last sample. The thread may have run since.
    fn settle_account(&mut self, at: usize, slot: &Slot) {
        let looked = &mut self.looked[at];
        let Some(settled) = looked.settled else { return };
        let stood = Looked { used: settled, ..*looked };
        let weight = due(&stood, slot, looked.stood_until);
        if weight > 0 && repeat(self.sampler.session, looked, weight) {
            looked.repeated += weight;
        }
        if looked.used != settled {
            looked.settled = None;
            slot.answers.at.store(0, Ordering::Release);
        }
    }

    fn ask(&mut self, at: usize, slot: &Slot, seen: Seen, used: u64, weight: u64) {
        let ask = &slot.ask;
        if ask.weight.load(Ordering::Acquire) != 0 && !self.give_up(ask, used) {
            return;
        }
        ask.seen.store(seen as u32, Ordering::Relaxed);
        ask.used.store(used, Ordering::Relaxed);
        ask.at.store(monotonic(), Ordering::Relaxed);
        ask.weight.store(weight.max(1), Ordering::Release);
        let looked = &mut self.looked[at];
        looked.settled = None;
        if !self.sampler.sender.send(looked.thread, looked.slot, slot) {
            ask.weight.store(0, Ordering::Release);
        }
    }

    /// Gives up an unanswered ask if it is old and its thread has run since; returns whether it did. The signal was lost: another sender's
    /// pending SIGURG took its place, or the signal queue was full.
    fn give_up(&self, ask: &Ask, used: u64) -> bool {
        let is_old = monotonic().saturating_sub(ask.at.load(Ordering::Relaxed)) > SILENT;
        let is_lost = is_old && used > ask.used.load(Ordering::Relaxed) && ask.weight.swap(0, Ordering::AcqRel) != 0;
        if is_lost {
            self.sampler.session.count(layout::TAKEN);
            self.sampler.session.count(layout::LOST_THREAD_SILENT);
        }
        is_lost
    }

    /// Ends the recording: accounts for unchanged stacks until now.
    fn end(&mut self) {
        let now = monotonic();
        for at in 0..self.looked.len() {
            let Some(slot) = self.slot(at) else { continue };
            let looked = &mut self.looked[at];
            if looked.settled.is_some_and(|settled| settled == thread_cpu_of(looked.thread)) {
                looked.stood_until = now;
            }
            self.settle_account(at, slot);
        }
    }
}

/// Whether a blocked thread is on its way back to its wait after a sample: only the sample made it run.
fn is_settling(slot: &Slot, used: u64) -> bool {
    let answered = slot.answers.at.load(Ordering::Acquire);
    answered != 0 && used.saturating_sub(answered) < SETTLING
}

/// The budget saves up signals for a tenth of a second at most.
fn most_tokens(budget: u64) -> u64 {
    (budget / 10).max(WAKE)
}

/// The thread's off-CPU time up to `until` without a sample yet, nanoseconds.
fn due(looked: &Looked, slot: &Slot, until: u64) -> u64 {
    let stood = until.saturating_sub(looked.since).saturating_sub(looked.used.saturating_sub(looked.from));
    stood.saturating_sub(slot.answers.off_cpu.load(Ordering::Relaxed)).saturating_sub(looked.repeated)
}

fn repeat(session: &Session, looked: &Looked, weight: u64) -> bool {
    session.count(layout::TAKEN);
    let Looked { thread, slot, stood_until: time, .. } = *looked;
    let sample = RawSample { thread, slot, flags: REPEATED, time, weight, ..RawSample::default() };
    let pushed = session.ring.push(&[&sample.words()]).is_ok();
    if !pushed {
        session.count(layout::LOST_RING_FULL);
    }
    pushed
}
