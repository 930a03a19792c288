//! The sampler thread: at random instants, it finds the threads on a CPU and asks each for a sample.
//!
//! The distances between instants are uniformly distributed, from a short rest to nearly twice the mean. So the instants follow nothing in
//! the target, and the sampler hits each piece of a thread's CPU time with equal probability. It does not matter how short the thread's
//! bursts are, or what wakes it.
//! Two readings of a thread's CPU clock show whether it is on a CPU. Kernel timers cannot do this: CPU timers expire only on the kernel's
//! tick, and .NET's own timers wake threads right after it.
//!
//! **Preempted by the sampler.** When the sampler wakes, it may take a thread's CPU. The thread then waits, ready to run on that same CPU.
//! The sampler asks it, too. When the thread runs again, the handler checks when the wait began. If the sampler woke then, this is a sample
//! ([`remora_sampler::Seen::Preempted`]).
//!
//! **Wall-clock sampling.** A thread keeps its stack as long as its CPU clock does not move. It gets no signal; its last sample counts on.
//! The sampler reads the stack of a blocked thread with new CPU time, and the thread sleeps on ([`StackReader`]). Only where this does not
//! work, the thread gets a signal, as far as the budget allows. Waking it takes a CPU from a running thread. A thread waiting for a CPU
//! gets a signal, too. It takes the signal before it goes on, and its sample is marked as a wait.
//!
//! **Many threads.** The sampler looks at idle threads with a probability below one. Their samples then weigh more.

use crate::budget::{Budget, READ, WAKE};
use crate::followed_threads::FollowedThreads;
use crate::futex::futex_wait;
use crate::sampled_thread::SampledThread;
use crate::scheduling::{Place, Scheduling};
use crate::signal::Sender;
use crate::threads;
use corprof::detach::OwnThread;
use remora_sampler::{
    Ask, Blocked, Random, Reading, Seen, Session, Slot, StackReader, monotonic, thread_cpu, thread_cpu_of,
};
use remora_wire::{SAMPLER_NAME, Sampling, layout};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

mod ending;

/// After a sample, a blocked thread needs some CPU time to return to its wait. Less than this does not count as having run, nanoseconds.
const SETTLING: u64 = 50_000;

/// After this many looks without CPU time, the sampler looks at a thread less often.
const STILL_HOT: u32 = 64;

/// Looks per second at such idle threads together, on average; at least one at each instant.
const IDLE_CHECKS: u64 = 800;

/// A thread ran without a break if its CPU time is at most this far below the elapsed time, nanoseconds.
const UNINTERRUPTED: u64 = 12_000;

/// Threads with new CPU time whose state is read in one instant, at most: each is a file. Their samples also weigh for the others.
const STATE_READS: usize = 8;

/// A running thread answers within this time, nanoseconds. The end of the recording waits as long for the last answers.
const ANSWERING: u64 = 20_000_000;

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

/// The sampler: shared between its own thread and the worker.
pub struct Sampler {
    /// The memory of this attach.
    session: &'static Session<'static>,
    /// The followed threads; shared with the worker, which scans for them.
    followed: Arc<Mutex<FollowedThreads>>,
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
        followed: Arc<Mutex<FollowedThreads>>,
        sender: Sender,
        wall: bool,
        wanted: Sampling,
    ) -> Sampler {
        Sampler {
            session,
            followed,
            sender,
            wall,
            budget: u64::from(wanted.signal_budget),
            interval: AtomicU64::new(interval(wanted.frequency)),
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
        self.sender.may_send()?;
        threads::start(SAMPLER_NAME, move || {
            threads::reduce_timer_slack();
            self.thread.store(threads::this_thread(), Ordering::Relaxed);
            // A panic ends the sampling, not the process. The worker goes on without samples.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Rounds::new(&self).run()));
            drop(self);
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
    looked: Vec<SampledThread>,
    version: u64,
    /// The last value of [`FollowedThreads::tables`].
    tables: u64,
    budget: Budget,
    /// Threads on a CPU at the last instant.
    running: u64,
    /// Instants so far.
    count: u64,
    /// When the sampler went to sleep last, monotonic nanoseconds.
    slept_at: u64,
    scheduling: Scheduling,
    reader: Box<StackReader>,
}

impl<'a> Rounds<'a> {
    fn new(sampler: &'a Sampler) -> Self {
        let now = monotonic();
        let random = Random::new(now ^ u64::from(threads::this_thread()) << 32);
        let budget = Budget::new(sampler.budget, now);
        Rounds {
            sampler,
            random,
            looked: Vec::new(),
            version: 0,
            tables: 0,
            budget,
            running: 0,
            count: 0,
            slept_at: now,
            scheduling: Scheduling::new(),
            reader: Box::default(),
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
            next += rest + self.random.below(2 * (interval - rest));
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
            self.budget.refill(now);
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

    /// Updates the list of followed threads. If the worker is scanning, the next instant updates it.
    fn refresh(&mut self) {
        let Ok(followed) = self.sampler.followed.try_lock() else { return };
        if followed.version() == self.version {
            return;
        }
        self.version = followed.version();
        let mut now: Vec<SampledThread> =
            followed.threads().map(|new| SampledThread::new(new.thread, new.slot, new.since, new.clock)).collect();
        let tables = followed.tables();
        drop(followed);
        now.sort_unstable_by_key(|looked| looked.thread);
        for at in 0..self.looked.len() {
            let known = &self.looked[at];
            let same = now.binary_search_by_key(&known.thread, |looked| looked.thread);
            if !same.is_ok_and(|at| now[at].is_same(known)) {
                self.settle_account(at, None);
            }
        }
        self.scheduling.keep(|thread| now.binary_search_by_key(&thread, |looked| looked.thread).is_ok());
        for looked in &mut now {
            let known = self.looked.binary_search_by_key(&looked.thread, |known| known.thread);
            if let Some(known) = known.ok().map(|at| self.looked[at])
                && known.is_same(looked)
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

    /// One instant: finds the running threads and asks for samples.
    fn instant(&mut self, instant: &Instant) {
        let Instant { now, interval, .. } = *instant;
        self.sampler.session.count(layout::INSTANTS);
        let cold = self.looked.iter().filter(|looked| looked.quiet >= STILL_HOT).count() as u64;
        let mut stopped = Vec::new();
        let cold_looks = (IDLE_CHECKS.saturating_mul(interval) / 1_000_000_000).max(1);
        let (mut running, mut wanted) = (0, 0);
        // If the budget runs out in an instant, it runs out for other threads each time.
        let first = self.random.below(self.looked.len() as u64) as usize;
        for at in (first..self.looked.len()).chain(0..first) {
            let of = if self.looked[at].quiet >= STILL_HOT { cold.max(cold_looks) } else { cold_looks };
            if of > cold_looks && self.random.below(of) >= cold_looks {
                continue;
            }
            let Some(slot) = self.slot(at) else { continue };
            let (thread, before) = (self.looked[at].thread, self.looked[at].used);
            let used = thread_cpu_of(thread);
            if used == 0 {
                // It has ended.
                self.settle_account(at, Some(slot));
                continue;
            }
            slot.clock.store(used, Ordering::Relaxed);
            self.looked[at].sampled = slot.answers.off_cpu.load(Ordering::Relaxed);
            // Off the CPU, a look at it would cost this.
            let is_wanted =
                self.sampler.wall && self.looked[at].seen.is_some() && self.looked[at].settled != Some(used);
            let cost = if is_wanted { self.looked[at].cost * of / cold_looks } else { 0 };
            if used == before {
                wanted += cost;
                self.looked[at].quiet = self.looked[at].quiet.saturating_add(1);
                if self.may_look(at) {
                    self.stands(at, slot, now);
                }
                continue;
            }
            (self.looked[at].used, self.looked[at].quiet) = (used, 0);
            let weight = interval.saturating_mul(of) / cold_looks;
            let ran_on = !instant.is_late && self.ran_on(at, used.saturating_sub(before), instant.woke_at);
            let again = if ran_on { used } else { thread_cpu_of(thread) };
            if again > used && self.is_settling(thread, slot, again) {
                continue;
            }
            let is_running = ran_on || again > used;
            self.looked[at].seen = Some((self.count, is_running.then_some(now)));
            if is_running {
                running += 1;
                self.ask_running(at, slot, Seen::Running, again, weight);
            } else {
                wanted += cost;
                stopped.push((at, weight));
            }
        }
        self.have_stopped(&stopped, instant);
        self.running = running;
        // Not the interval of the first instants: at 1 Hz, they would count for 20 s.
        self.budget.note(wanted, running, self.sampler.interval.load(Ordering::Relaxed));
    }

    /// Whether this instant counts for a thread off the CPU. If the budget is too small for all, chance decides, whatever the thread waits
    /// for: else long waits would get the time of short ones.
    fn may_look(&mut self, at: usize) -> bool {
        if !self.sampler.wall {
            return false;
        }
        // A thread that has not run yet has one wait only.
        let may = self.looked[at].seen.is_none() || self.budget.allows(&mut self.random);
        if !may && self.looked[at].settled != Some(self.looked[at].used) {
            self.leave_out(at);
        }
        may
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
            let looked = self.looked[*at];
            let may_look = self.may_look(*at);
            // The handler still needs the values of an unanswered ask: do not overwrite them.
            let Some(slot) = self.slot(*at).filter(|slot| self.is_answered(&slot.ask, looked.used)) else {
                continue;
            };
            let is_ready = count < STATE_READS && self.scheduling.ready_on(looked.thread) == Some(cpu);
            let scheduled = if is_ready && !instant.is_late { self.scheduling.scheduled(looked.thread) } else { None };
            if let Some(scheduled) = scheduled {
                slot.ask.waited.store(scheduled.waited, Ordering::Relaxed);
                slot.ask.woke_at.store(instant.woke_at, Ordering::Relaxed);
                self.settle_account(*at, Some(slot));
                let off_cpu = if may_look { self.looked[*at].due(instant.now) } else { 0 };
                slot.ask.off_cpu.store(off_cpu, Ordering::Relaxed);
                self.ask_running(*at, slot, Seen::Preempted, looked.used, weight * stopped.len() as u64 / looks);
            } else if may_look {
                self.stands(*at, slot, instant.now);
            }
        }
    }

    fn ask_running(&mut self, at: usize, slot: &Slot, seen: Seen, used: u64, weight: u64) {
        self.settle_account(at, Some(slot));
        // If more threads run than the budget allows, some get no signal, and the others weigh more.
        let (wanted, budget) = self.budget.running(self.running, self.sampler.interval.load(Ordering::Relaxed));
        if wanted > budget && self.random.below(wanted) >= budget {
            self.sampler.session.count(layout::OVER_BUDGET);
            return;
        }
        self.budget.spend(1);
        let weight = if wanted > budget { weight.saturating_mul(wanted) / budget } else { weight };
        self.ask(at, slot, seen, used, weight);
    }

    /// The thread is off the CPU. Wall-clock sampling keeps its last sample if the stack is unchanged, or asks for a new one.
    fn stands(&mut self, at: usize, slot: &Slot, now: u64) {
        let SampledThread { thread, used, settled, .. } = self.looked[at];
        if settled.is_none() && self.is_back(thread, slot, used) {
            self.looked[at].settled = Some(used);
        }
        let looked = &mut self.looked[at];
        let again = !looked.resampled && slot.again.load(Ordering::Relaxed);
        if looked.settled == Some(used) && !again {
            looked.unchanged_until = now;
            if looked.due(now) >= LONGEST_REPEAT {
                self.settle_account(at, Some(slot));
            }
            return;
        }
        self.settle_account(at, Some(slot));
        let weight = self.looked[at].due(now);
        if !self.is_answered(&slot.ask, used) {
            // If it has waited for a CPU since the ask, its sample includes this time, too.
            slot.ask.off_cpu.store(weight, Ordering::Relaxed);
        } else if weight != 0 {
            self.ask_off_cpu(at, slot, weight, now);
        }
    }

    fn ask_off_cpu(&mut self, at: usize, slot: &Slot, weight: u64, now: u64) {
        // Before the read: else threads that can be read leave no budget for those that must be woken.
        if !self.budget.has(WAKE) {
            return self.leave_out(at);
        }
        let is_read = self.read_stack(at, slot, weight, now);
        self.looked[at].cost = if is_read { READ } else { WAKE };
        if is_read {
            return self.budget.spend(READ);
        }
        let SampledThread { thread, used, .. } = self.looked[at];
        if self.scheduling.ready_on(thread).is_none() {
            self.budget.spend(WAKE);
            self.looked[at].resampled |= slot.again.swap(false, Ordering::Relaxed);
            self.ask(at, slot, Seen::Blocked, used, weight);
        } else {
            self.budget.spend(1);
            slot.ask.off_cpu.store(weight, Ordering::Relaxed);
            self.ask(at, slot, Seen::Runnable, used, weight);
        }
    }

    /// Counts a sample that the budget left out. A thread that has not run since gets its sample later, for the whole time.
    fn leave_out(&self, at: usize) {
        if self.looked[at].seen.is_some() {
            self.sampler.session.count(layout::OVER_BUDGET);
        }
    }

    /// Samples a blocked thread without a signal. Returns false if it needs one.
    fn read_stack(&mut self, at: usize, slot: &Slot, weight: u64, now: u64) -> bool {
        let SampledThread { thread, slot: index, .. } = self.looked[at];
        // Not the clock of the look, which may be milliseconds old: threads with short waits would have moved on more often.
        let used = thread_cpu_of(thread);
        let Some(Place::SystemCall { instruction, stack }) = self.scheduling.place(thread) else { return false };
        let again = slot.again.swap(false, Ordering::Relaxed);
        let blocked = Blocked { thread, slot: index, instruction, stack, weight };
        // The clock has not moved since before the kernel gave these registers: the stack belongs to them.
        let reading = self.reader.sample(self.sampler.session, &blocked, || thread_cpu_of(thread) == used);
        if reading == Reading::Taken {
            let sampled = slot.answers.off_cpu.fetch_add(weight, Ordering::Relaxed) + weight;
            slot.answers.at.store(0, Ordering::Release);
            slot.clock.store(used, Ordering::Relaxed);
            let looked = &mut self.looked[at];
            // A thread that ends before the next look has this sample already.
            (looked.used, looked.sampled) = (used, sampled);
            (looked.settled, looked.unchanged_until) = (Some(used), now);
            looked.resampled |= again;
        } else if again {
            slot.again.store(true, Ordering::Relaxed);
        }
        if reading == Reading::Moved {
            self.sampler.session.count(layout::MOVED_ON);
        }
        reading != Reading::NeedsSignal
    }

    /// Whether a blocked thread is on its way back to its wait after a sample: only the sample made it run.
    fn is_settling(&mut self, thread: u32, slot: &Slot, used: u64) -> bool {
        let answered = slot.answers.at.load(Ordering::Acquire);
        if answered == 0 || used.saturating_sub(answered) >= SETTLING {
            return false;
        }
        let slices = slot.answers.slices.load(Ordering::Relaxed);
        slices == 0 || self.scheduling.scheduled(thread).is_none_or(|counted| counted.slices == slices)
    }

    /// Whether a blocked thread is back in the wait of its last sample. If the signal ended that wait, it may be in the next one.
    fn is_back(&mut self, thread: u32, slot: &Slot, used: u64) -> bool {
        let answers = &slot.answers;
        let (instruction, stack) = (answers.instruction.load(Ordering::Relaxed), answers.stack.load(Ordering::Relaxed));
        self.is_settling(thread, slot, used)
            && self.scheduling.place(thread).is_none_or(|place| place == Place::SystemCall { instruction, stack })
    }

    /// Accounts for the time of an unchanged stack by repeating the thread's last sample. The thread may have run since, or ended.
    fn settle_account(&mut self, at: usize, slot: Option<&Slot>) {
        let looked = &mut self.looked[at];
        let Some(settled) = looked.settled else { return };
        looked.repeat(self.sampler.session, settled);
        if looked.used != settled {
            looked.settled = None;
            slot.inspect(|slot| slot.answers.at.store(0, Ordering::Release));
        }
    }

    fn ask(&mut self, at: usize, slot: &Slot, seen: Seen, used: u64, weight: u64) {
        let ask = &slot.ask;
        if !self.is_answered(ask, used) {
            let has_run = used > ask.used.load(Ordering::Relaxed);
            if has_run && monotonic().saturating_sub(ask.at.load(Ordering::Relaxed)) > ANSWERING {
                // The thread blocks the signal, or the application took it over: this sample is lost, too.
                self.sampler.session.count(layout::TAKEN);
                self.sampler.session.count(layout::LOST_THREAD_SILENT);
            }
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

    /// Whether there is no open ask. An old one is given up if its thread has run since. Its signal was lost: another sender's pending
    /// SIGURG took its place, or the signal queue was full.
    fn is_answered(&self, ask: &Ask, used: u64) -> bool {
        if ask.weight.load(Ordering::Acquire) == 0 {
            return true;
        }
        let is_old = monotonic().saturating_sub(ask.at.load(Ordering::Relaxed)) > SILENT;
        if !is_old || used <= ask.used.load(Ordering::Relaxed) {
            return false;
        }
        if ask.weight.swap(0, Ordering::AcqRel) != 0 {
            self.sampler.session.count(layout::TAKEN);
            self.sampler.session.count(layout::LOST_THREAD_SILENT);
        }
        true
    }
}
