//! Which threads are sampled: found in /proc, given a slot and, for processor time, two timers; let go when they end.

use crate::memory::Mapping;
use crate::proc;
use crate::published::Published;
use crate::signal::{is_agents, is_agents_name, is_deaf};
use crate::unwind::{self, Tables};
use remora_agent_core::{CodeKind, EntranceKind, Entrances};
use remora_agent_hot::{
    Engine, Session, Slot, Which, arm, below, cookie, create, delete, jittered, thread_clock, thread_cpu_of,
};
use remora_wire::{Config, layout};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// Threads followed at once, at most; more are counted as not followed.
pub const MAXIMUM_THREADS: usize = 4096;

/// Time after which a newly followed thread is first looked at, on average, nanoseconds.
const FIRST_SHOT: u64 = 500_000;

/// Memory for the slots.
pub fn slot_memory() -> Result<Mapping, i32> {
    Mapping::anonymous(MAXIMUM_THREADS * size_of::<Slot>())
}

/// The followed threads of one attach.
pub struct Followed {
    signal: i32,
    budget: u64,
    thread_interval: u64,
    requested_interval: u64,
    slots: HashMap<u32, u32>,
    free: Vec<u32>,
    refused: HashSet<u32>,
    /// Threads that were there when the recording began.
    elders: HashSet<u32>,
    /// Threads that block the signal: it would wait for them for ever, or be met by somebody who waits for any signal.
    deaf: HashMap<u32, u32>,
    regions: Vec<proc::Region>,
    ranges: Published,
    replaced: Published,
    unwind: Tables,
    ranges_read: u64,
    ranges_due: u64,
    ranges_pause: u64,
}

/// The executable ranges are read again after this long, then after twice as long each time: code that is met later is
/// mostly compiled into ranges that are there already. Nanoseconds.
const FIRST_RANGES_PAUSE: u64 = 500_000_000;
/// Where code runs that lies in none of them, they are read again after no less than this.
const SHORTEST_RANGES_PAUSE: u64 = 100_000_000;
/// The longest such pause.
const LONGEST_RANGES_PAUSE: u64 = 16_000_000_000;

impl Followed {
    /// Follows nobody yet.
    pub fn new(signal: i32, config: &Config) -> Followed {
        Followed {
            signal,
            budget: u64::from(config.signal_budget),
            thread_interval: interval(config.thread_budget),
            requested_interval: interval(config.frequency),
            slots: HashMap::new(),
            free: (0..MAXIMUM_THREADS as u32).rev().collect(),
            refused: HashSet::new(),
            elders: HashSet::new(),
            deaf: HashMap::new(),
            regions: Vec::new(),
            ranges: Published::default(),
            replaced: Published::default(),
            unwind: Tables::default(),
            ranges_read: 0,
            ranges_due: 0,
            ranges_pause: FIRST_RANGES_PAUSE,
        }
    }

    /// Another frequency, hertz.
    pub fn set_frequency(&mut self, frequency: u32) {
        self.requested_interval = interval(frequency);
    }

    /// Threads followed at this moment: thread and slot.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.slots.iter().map(|(thread, slot)| (*thread, *slot))
    }

    /// Begins with the threads that are there. Returns those that are followed, with their names.
    pub fn begin(&mut self, session: &Session, entrances: &Entrances, elders: Vec<proc::Seen>) -> Vec<(u32, String)> {
        self.elders = elders.iter().map(|seen| seen.thread).collect();
        let new = self.take_in(session, entrances, elders, &HashMap::new());
        self.spread(session);
        new
    }

    /// Finds new threads and lets go of ended ones. Returns the new ones with their names.
    pub fn scan(&mut self, session: &Session, entrances: &Entrances) -> Vec<(u32, String)> {
        // Where they cannot be listed at this moment, nobody is taken for ended.
        let Some(alive) = proc::threads() else { return Vec::new() };
        let ended: Vec<u32> = self.slots.keys().filter(|thread| !alive.contains(thread)).copied().collect();
        for thread in ended {
            self.leave(session, entrances, thread);
        }
        self.refused.retain(|thread| alive.contains(thread));
        if self.elders.is_empty() {
            // Where they could not be listed at the beginning. The first thread of a process mostly lives as long as that.
            self.elders.clone_from(&alive);
        }
        self.elders.retain(|thread| alive.contains(thread));
        let deaf = std::mem::take(&mut self.deaf);
        let ended = deaf.iter().filter(|(thread, _)| !alive.contains(thread));
        // One that was met once or twice was in the instant of its birth or its end, when the C library blocks everything.
        ended.filter(|(_, looks)| **looks > 2).for_each(|_| session.count(layout::THREADS_NOT_FOLLOWED));
        let strangers =
            alive.iter().filter(|thread| !self.slots.contains_key(thread) && !self.refused.contains(thread));
        // Who has ended meanwhile is not seen.
        let seen = strangers.filter_map(|thread| proc::look(*thread)).collect();
        let new = self.take_in(session, entrances, seen, &deaf);
        self.spread(session);
        new
    }

    /// Follows whoever can be followed; first those that run, whose first sample is waited for. `deaf` are those that were found so
    /// before, and how often.
    fn take_in(
        &mut self,
        session: &Session,
        entrances: &Entrances,
        mut strangers: Vec<proc::Seen>,
        deaf: &HashMap<u32, u32>,
    ) -> Vec<(u32, String)> {
        strangers.sort_by_key(|seen| seen.masks.asleep);
        let mut new = Vec::new();
        for proc::Seen { thread, name, masks } in strangers {
            if is_agents_name(&name) {
                self.refused.insert(thread);
            } else if is_deaf(masks, self.signal) {
                // A thread is born deaf, and some stay so: it is asked again at the next look.
                self.deaf.insert(thread, deaf.get(&thread).map_or(1, |looks| looks + 1));
            } else if self.follow(session, entrances, thread, !masks.asleep) {
                new.push((thread, name));
            } else if proc::signal_masks(thread).is_some() {
                self.refused.insert(thread);
                session.count(layout::THREADS_NOT_FOLLOWED);
            }
        }
        new
    }

    /// Whether a thread is there that could not be followed yet, and may be one that is just born.
    pub fn expects_more(&self) -> bool {
        self.deaf.keys().any(|thread| !self.elders.contains(thread))
    }

    /// Lets go of every thread: afterwards no timer of ours exists. Returns who was followed: only they can be in the handler.
    pub fn leave_all(&mut self, session: &Session, entrances: &Entrances) -> Vec<u32> {
        let threads: Vec<u32> = self.slots.keys().copied().collect();
        for thread in &threads {
            self.leave(session, entrances, *thread);
        }
        let deaf = std::mem::take(&mut self.deaf);
        let stayed_so = deaf.iter().filter(|(thread, looks)| **looks > 2 || self.elders.contains(thread));
        // The agent's own other thread may have had no name yet when it was looked at.
        stayed_so
            .filter(|(thread, _)| is_agents(**thread) == Some(false))
            .for_each(|_| session.count(layout::THREADS_NOT_FOLLOWED));
        threads
    }

    /// Remembers where a thread's stack lies, now that its stack pointer is known; again when it has grown beyond what was known.
    pub fn learn_stack(&mut self, session: &Session, slot: u32, thread: u32, stack_pointer: u64) {
        let Some(slot) = session.slots.get(slot as usize) else { return };
        let known = slot.stack_low.load(Ordering::Relaxed)..slot.stack_high.load(Ordering::Relaxed);
        if slot.thread.load(Ordering::Relaxed) != thread || known.contains(&stack_pointer) {
            return;
        }
        if !self.regions.iter().any(|region| region.writable && holds(region, stack_pointer)) {
            self.regions = proc::regions();
        }
        if let Some(region) = self.regions.iter().find(|region| region.writable && holds(region, stack_pointer)) {
            slot.stack_low.store(region.start, Ordering::Relaxed);
            slot.stack_high.store(region.end, Ordering::Relaxed);
        }
    }

    /// What kind of code the mappings, as they were read last, show at an address.
    pub fn code_at(&self, address: u64) -> CodeKind {
        let after = self.regions.partition_point(|region| region.start <= address);
        match after.checked_sub(1).and_then(|index| self.regions.get(index)) {
            Some(region) if region.executable && holds(region, address) => {
                if region.frameless {
                    CodeKind::Frameless
                } else {
                    CodeKind::Other
                }
            }
            _ => CodeKind::None,
        }
    }

    /// Publishes the executable ranges to the handlers, when it is time to read them again.
    pub fn publish_ranges(&mut self, session: &Session) {
        let now = remora_agent_hot::monotonic();
        if now < self.ranges_due {
            return;
        }
        self.ranges_read = now;
        self.ranges_due = now + self.ranges_pause;
        self.ranges_pause = (self.ranges_pause * 2).min(LONGEST_RANGES_PAUSE);
        self.regions = proc::regions();
        let mut bounds = Vec::new();
        for region in self.regions.iter().filter(|region| region.executable) {
            bounds.extend([region.start, region.end]);
        }
        self.ranges.publish(session, &session.ranges, &bounds);
    }

    /// Publishes the methods exchanged while they ran to the handlers.
    pub fn publish_replaced(&mut self, session: &Session, bodies: &[u64]) {
        self.replaced.publish(session, &session.replaced, bodies);
    }

    /// Publishes the unwind table behind `descriptor` to the handlers.
    pub fn publish_unwind(&mut self, session: &Session, descriptor: i32) {
        if !unwind::publish(&mut self.unwind, session, descriptor) {
            return session.count(layout::UNWIND_REFUSED);
        }
        // A sample that was taken without this table is not repeated: the thread is asked again although it has not run.
        let slots = self.slots.values().filter_map(|index| session.slots.get(*index as usize));
        slots.for_each(|slot| slot.answered_at.store(0, Ordering::Release));
    }

    /// Code runs at `address`: if no range is known around it, the ranges are read again before their time.
    pub fn code_runs_at(&mut self, address: u64) {
        if self.code_at(address) == CodeKind::None {
            self.ranges_due = self.ranges_due.min(self.ranges_read + SHORTEST_RANGES_PAUSE);
        }
    }

    fn follow(&mut self, session: &Session, entrances: &Entrances, thread: u32, runs: bool) -> bool {
        let Some(index) = self.free.pop() else { return false };
        let Some(slot) = session.slots.get(index as usize) else { return false };
        let generation = slot.generation.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        slot.active.store(false, Ordering::Relaxed);
        slot.asked.store(0, Ordering::Relaxed);
        slot.answered_at.store(0, Ordering::Relaxed);
        slot.stack_low.store(0, Ordering::Relaxed);
        slot.stack_high.store(0, Ordering::Relaxed);
        slot.random.store(seed(thread), Ordering::Relaxed);
        let used = thread_cpu_of(thread);
        let newborn = !self.elders.contains(&thread);
        // What a thread used before the recording is not ours to account; of one born during it, everything is.
        let interval = session.interval.load(Ordering::Relaxed);
        let from = if newborn { start_of_newborn(slot, interval) } else { used };
        slot.accounted.store(from, Ordering::Relaxed);
        slot.due.set(if newborn { from.wrapping_add(interval) } else { 0 });
        slot.thread.store(thread, Ordering::Release);
        self.slots.insert(thread, index);
        if !self.give_timers(session.engine, entrances, &Timed { slot, thread, index, generation }) {
            self.leave(session, entrances, thread);
            return false;
        }
        if session.engine == Engine::CpuTimers {
            if newborn {
                first_shot_at_newborn(slot, used);
            } else {
                first_shot(session, slot, runs);
            }
        }
        true
    }

    fn give_timers(&self, engine: Engine, entrances: &Entrances, timed: &Timed) -> bool {
        let Timed { slot, thread, index, generation } = *timed;
        let processor = (&slot.processor_timer, Which::Processor, thread_clock(thread));
        let clock = (&slot.clock_timer, Which::Clock, libc::CLOCK_MONOTONIC);
        let wanted = match engine {
            Engine::CpuTimers => vec![processor, clock],
            Engine::WallSignals => vec![clock],
        };
        wanted.into_iter().all(|(place, which, clock)| {
            entrances.open(EntranceKind::Timer);
            match create(clock, self.signal, thread, cookie(index, generation, which)) {
                Ok(id) => {
                    place.store(id as u32 + 1, Ordering::Relaxed);
                    true
                }
                Err(_) => {
                    entrances.close(EntranceKind::Timer);
                    false
                }
            }
        })
    }

    fn leave(&mut self, session: &Session, entrances: &Entrances, thread: u32) {
        let Some(index) = self.slots.remove(&thread) else { return };
        let Some(slot) = session.slots.get(index as usize) else { return };
        slot.thread.store(0, Ordering::Release);
        for timer in [&slot.processor_timer, &slot.clock_timer] {
            if let Some(id) = timer.swap(0, Ordering::AcqRel).checked_sub(1) {
                delete(id as i32);
                entrances.close(EntranceKind::Timer);
            }
        }
        if slot.asked.swap(0, Ordering::AcqRel) != 0 {
            // Asked for and never answered: the thread has ended.
            session.count(layout::TAKEN);
            session.count(layout::LOST_THREAD_SILENT);
        }
        self.free.insert(0, index);
    }

    /// Keeps each thread and the whole process within their budgets of signals, whatever the number of working threads.
    /// Samples weigh the time that has passed, so a longer interval costs detail, not truth.
    fn spread(&self, session: &Session) {
        let active = self
            .slots
            .values()
            .filter_map(|index| session.slots.get(*index as usize))
            .filter(|slot| slot.active.load(Ordering::Relaxed))
            .count() as u64;
        let least = (active.saturating_mul(1_000_000_000) / self.budget.max(1)).max(self.thread_interval);
        session.interval.store(self.requested_interval.max(least), Ordering::Relaxed);
    }
}

/// A thread that is given timers, and the use of a slot that they will name.
struct Timed<'a> {
    slot: &'a Slot,
    thread: u32,
    index: u32,
    generation: u32,
}

/// The first signal comes soon, so that a recording begins at once: a sample weighs what was used until then, so an early one is a light
/// one. To who sleeps it comes by processor time, so that a sleeping thread is never disturbed; to who runs by the clock, which is not
/// bound to the kernel's tick.
fn first_shot(session: &Session, slot: &Slot, runs: bool) {
    let timer = if runs { &slot.clock_timer } else { &slot.processor_timer };
    if let Some(timer) = timer.load(Ordering::Relaxed).checked_sub(1) {
        let soon = session.interval.load(Ordering::Relaxed).min(FIRST_SHOT);
        arm(timer as i32, jittered(&slot.random, soon));
    }
}

/// A thread born during the recording works already, and may end within the kernel's tick, to which processor time timers are bound.
fn first_shot_at_newborn(slot: &Slot, used: u64) {
    if let Some(timer) = slot.clock_timer.load(Ordering::Relaxed).checked_sub(1) {
        arm(timer as i32, slot.due.missing(used).max(1));
    }
}

/// Where the account of a thread begins that is born during the recording: an interval before a random point of its first interval,
/// so that a thread that lives for a tenth of an interval is sampled once in ten times, with the weight of a whole one. Below zero,
/// and so read with wrapping arithmetic.
fn start_of_newborn(slot: &Slot, interval: u64) -> u64 {
    below(&slot.random, interval).wrapping_add(1).wrapping_sub(interval)
}

fn interval(frequency: u32) -> u64 {
    1_000_000_000 / u64::from(frequency.clamp(1, 10_000))
}

fn holds(region: &proc::Region, address: u64) -> bool {
    region.start <= address && address < region.end
}

fn seed(thread: u32) -> u64 {
    (remora_agent_hot::monotonic() ^ u64::from(thread).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1
}
