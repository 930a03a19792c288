//! The sampler thread: at random instants it finds the threads that are on a CPU, and asks those for a sample.
//!
//! Instants that know nothing of each other (exponentially distributed distances) meet each piece of a thread's CPU time with equal
//! probability, however short the thread's bursts are and whatever wakes it. Two readings of a thread's CPU clock tell whether it is on
//! a CPU. Timers of the kernel cannot: CPU timers expire on the kernel's tick alone, right behind which .NET's own timers wake threads.
//!
//! **A thread whose CPU the sampler has taken** does not run at that instant, but would: it is ready to run, on the sampler's own CPU.
//! It is asked, too. When it runs again it finds out since when it waited: if that is when the sampler woke, this is a sample
//! ([`remora_agent_hot::Seen::Preempted`]).
//!
//! **Wall-clock time.** A thread whose CPU clock has not moved since its last sample still has the same stack: it gets no signal, its last
//! sample counts on. One that is blocked and has run since is signalled, as far as the budget allows; waking it takes a CPU from who works.
//! One that is ready to run and waits for a CPU is signalled, too: it takes the signal before it goes on, and its sample says that it waited.
//!
//! **Many threads.** Those that did not run for a while are looked at with a probability below one; what is then found weighs more.

use crate::follow::Followed;
use crate::futex::futex_wait;
use crate::proc;
use crate::signal::Sender;
use crate::threads::{self, OwnThread};
use remora_agent_core::REPEATED;
use remora_agent_hot::{
    Ask, Random, RawSample, Seen, Session, Slot, monotonic, thread_cpu, thread_cpu_of, waited_for_cpu,
};
use remora_wire::{Config, EventKind, layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// As how many signals one counts that wakes a thread: it interrupts who works, and the sleeper goes back to sleep.
const WAKE: u64 = 4;

/// After a sample a blocked thread needs some CPU time to get back to where it waited, nanoseconds; less than this is not "ran since".
const SETTLING: u64 = 50_000;

/// Looks without CPU time after which a thread is looked at more rarely.
const STILL_HOT: u32 = 64;

/// Looks in a second at threads that did not run for a while, on average.
const COLD_LOOKS: u64 = 800;

/// A thread whose CPU time is less than this from the elapsed time has run all the time, nanoseconds.
const UNINTERRUPTED: u64 = 12_000;

/// Threads whose state is read in one instant, at most: each is a file. The others are left out, and these stand for them.
const STATE_READS: usize = 8;

/// A signal without an answer for so long is lost if its thread has run since, nanoseconds.
const SILENT: u64 = 1_000_000_000;

/// A sampler that wakes so much later than it wanted had to wait for a CPU, nanoseconds.
const LATE: u64 = 200_000;

/// Two instants are at least so far apart: until then the first one's signals may not be answered, nanoseconds.
const REST: u64 = 40_000;

/// The first instants come faster, so that a recording begins at once; their samples weigh less.
const FIRST_INSTANTS: u32 = 8;
/// Mean distance of the first instants, at most, nanoseconds.
const FIRST_INTERVAL: u64 = 500_000;

/// How long an unchanged stack counts on before the recorder is told, nanoseconds.
const LONGEST_REPEAT: u64 = 1_000_000_000;

/// What the sampler thread works on.
pub struct Sampler {
    /// The attach's memory.
    session: &'static Session<'static>,
    /// Who is followed; shared with the agent's thread, which scans.
    followed: Arc<Mutex<Followed>>,
    /// How threads are signalled.
    sender: Sender,
    /// Whether blocked threads are sampled, too.
    wall: bool,
    /// Signals a second.
    budget: u64,
    /// Requested mean time between two instants, nanoseconds.
    pub interval: AtomicU64,
    /// The thread, 0 before it has begun.
    pub thread: AtomicU32,
    /// Changes when the thread is to look at what is wanted of it.
    pub bell: AtomicU64,
    /// Whether the thread is to end.
    stop: AtomicBool,
}

impl Sampler {
    /// What a session's sampler needs.
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

    /// Another frequency, hertz.
    pub fn set_frequency(&self, hertz: u32) {
        self.interval.store(interval(hertz), Ordering::Relaxed);
        self.ring();
    }

    /// The thread is to end.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    /// Wakes the thread: it is to end, or the interval has changed.
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        crate::futex::futex_wake(&self.bell);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The mean time between two instants at so many hertz, nanoseconds.
fn interval(frequency: u32) -> u64 {
    1_000_000_000 / u64::from(frequency.clamp(1, 10_000))
}

extern "C" fn main(argument: *mut c_void) -> *mut c_void {
    threads::begin_this("-s");
    threads::be_punctual();
    // SAFETY: `start` handed this reference over.
    let sampler = unsafe { Arc::from_raw(argument.cast::<Sampler>()) };
    sampler.thread.store(threads::this_thread(), Ordering::Relaxed);
    // A panic ends the sampling, not the process; the agent's thread finds the thread ended and goes on without samples.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Rounds::new(&sampler).run()));
    std::ptr::null_mut()
}

/// A thread as the sampler knows it.
#[derive(Debug, Clone, Copy)]
struct Looked {
    thread: u32,
    slot: u32,
    /// Since when its wall-clock time is accounted, monotonic nanoseconds.
    since: u64,
    /// Its CPU clock when that began.
    from: u64,
    /// Its CPU clock at the last look.
    used: u64,
    /// Looks at which it had not moved, one after another.
    quiet: u32,
    /// The instant of the last look, and when it ran then, monotonic nanoseconds, if it did.
    seen: Option<(u64, Option<u64>)>,
    /// Its CPU clock when it was seen back in its wait after a sample; its stack is that sample's as long as the clock stands there.
    settled: Option<u64>,
    /// Until when it is known to have stood there, monotonic nanoseconds.
    stood_until: u64,
    /// Wall-clock time that repeated samples stand for, nanoseconds.
    repeated: u64,
    /// Whether it was sampled once more because its stack was not complete ([`Slot::again`]), with the newest unwind table.
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
    /// By thread.
    looked: Vec<Looked>,
    version: u64,
    /// Of [`Followed::tables`].
    tables: u64,
    /// Signals that may be sent now.
    tokens: u64,
    refilled: u64,
    /// Threads that were on a CPU at the last instant.
    running: u64,
    /// Instants so far.
    count: u64,
    /// When the sampler went to sleep last, monotonic nanoseconds.
    slept_at: u64,
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
            // What it used since is what it took to fall asleep and to wake: it has had its CPU for so long.
            let woke_at = now.saturating_sub(thread_cpu().saturating_sub(used));
            self.refresh();
            self.refill(now);
            // A sampler that had to wait for a CPU got it when a thread gave it up: that instant is not random for that thread.
            let is_late = now.saturating_sub(next) > LATE;
            self.instant(&Instant { now, woke_at, interval, is_late });
            // Instants that were missed are not made up for: they would come together.
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

    /// Takes over who is followed now. The agent's thread may be scanning: then it is done at the next instant.
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
            // Stacks that are not complete may be so with the newest unwind table.
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

    /// One instant: who runs now?
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

    /// Whether a thread ran from the last look until the sampler woke: it used that time. Then the sampler has taken its CPU, or it runs.
    fn ran_on(&self, at: usize, used: u64, woke_at: u64) -> bool {
        let Some((_, running_at)) = self.looked[at].seen.filter(|(count, _)| count + 1 == self.count) else {
            return false;
        };
        // A thread that did not run at the last look was on when the sampler went to sleep, at the earliest.
        used + UNINTERRUPTED >= woke_at.saturating_sub(running_at.unwrap_or(self.slept_at))
    }

    fn slot(&self, at: usize) -> Option<&'a Slot> {
        let slot = self.sampler.session.slots.get(self.looked.get(at)?.slot as usize)?;
        (slot.thread.load(Ordering::Relaxed) == self.looked[at].thread).then_some(slot)
    }

    /// Threads that have run since the last look and do not run now. The first to be looked at is another one each time.
    fn have_stopped(&mut self, stopped: &[(usize, u64)], instant: &Instant) {
        let first = self.random.below(stopped.len() as u64) as usize;
        let cpu = threads::this_cpu();
        let looks = STATE_READS.min(stopped.len()).max(1) as u64;
        for (count, (at, weight)) in stopped[first..].iter().chain(&stopped[..first]).enumerate() {
            // What was asked of it before is judged by what was written then: nothing is written meanwhile.
            let Some(slot) = self.slot(*at).filter(|slot| slot.ask.weight.load(Ordering::Acquire) == 0) else {
                continue;
            };
            let looked = self.looked[*at];
            if count >= STATE_READS || proc::ready_on(looked.thread) != Some(cpu) {
                self.stands(*at, slot, instant.now);
            } else if let Some(waited) = waited_for_cpu(looked.thread).filter(|_| !instant.is_late) {
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
        // Where more threads run than may be signalled, some are left out, and the others stand for them.
        let wanted = self.running.saturating_mul(1_000_000_000) / self.sampler.interval.load(Ordering::Relaxed).max(1);
        let budget = self.sampler.budget.max(1);
        if wanted > budget && self.random.below(wanted) >= budget {
            return;
        }
        self.tokens = self.tokens.saturating_sub(1);
        let weight = if wanted > budget { weight.saturating_mul(wanted) / budget } else { weight };
        self.ask(at, slot, seen, used, weight);
    }

    /// The thread is not on a CPU. Of wall-clock sampling: its stack is that of its last sample, or a new one is asked for.
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
            // If it waits for a CPU since it was asked, its sample will stand for this time, too.
            slot.ask.off_cpu.store(weight, Ordering::Relaxed);
        } else if weight != 0 {
            self.ask_off_cpu(at, slot, weight);
        }
    }

    fn ask_off_cpu(&mut self, at: usize, slot: &Slot, weight: u64) {
        // A token short is found out before the thread's state is read, which is dearer.
        let cost = if self.tokens == 0 || proc::ready_on(self.looked[at].thread).is_none() { WAKE } else { 1 };
        if self.tokens < cost {
            self.sampler.session.count(layout::OVER_BUDGET);
            return;
        }
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

    /// The time for which the thread stood is in its samples: its last one is repeated. It may have moved since.
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

    /// Whether an ask without an answer is given up: the thread has run for long since, so its signal was lost. A foreign SIGURG that is
    /// pending takes its place, and a queue of signals can be full.
    fn give_up(&self, ask: &Ask, used: u64) -> bool {
        let is_old = monotonic().saturating_sub(ask.at.load(Ordering::Relaxed)) > SILENT;
        let is_lost = is_old && used > ask.used.load(Ordering::Relaxed) && ask.weight.swap(0, Ordering::AcqRel) != 0;
        if is_lost {
            self.sampler.session.count(layout::TAKEN);
            self.sampler.session.count(layout::LOST_THREAD_SILENT);
        }
        is_lost
    }

    /// The recording ends: whoever still stands stood until now.
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

/// Whether a blocked thread that was sampled is on its way back to where it waited: it runs on account of the sample alone.
fn is_settling(slot: &Slot, used: u64) -> bool {
    let answered = slot.answers.at.load(Ordering::Acquire);
    answered != 0 && used.saturating_sub(answered) < SETTLING
}

/// Signals are saved up for a tenth of a second at most.
fn most_tokens(budget: u64) -> u64 {
    (budget / 10).max(WAKE)
}

/// Wall-clock time up to `until`, without that on a CPU, that is in no sample of the thread yet, nanoseconds.
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
