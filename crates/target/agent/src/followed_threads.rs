//! The followed threads: found in /proc, given a slot, and released when they end. Also their CPU time.

use crate::proc;
use crate::published::Published;
use crate::signal::{Sender, blocks_signal, is_agents, is_agents_name};
use crate::unwind::{self, Tables};
use remora_connection::Mapping;
use remora_sampler::{Session, Slot, monotonic, process_cpu, thread_cpu_of};
use remora_session::{CodeKind, CpuTimes, ResourceRegistry};
use remora_wire::layout;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// The maximum of threads followed at once. Further ones count as not followed.
pub const MAXIMUM_THREADS: usize = 4096;

/// Memory for the slots, bytes.
pub const SLOT_BYTES: usize = MAXIMUM_THREADS * size_of::<Slot>();

/// The followed threads of one attach.
pub struct FollowedThreads {
    sender: Sender,
    slots: HashMap<u32, FollowedThread>,
    /// Changes with `slots` and `tables`.
    version: u64,
    /// The CPU clocks of unfollowed threads when first seen.
    unfollowed: HashMap<u32, u64>,
    /// CPU time that followed threads used while they blocked the signal, nanoseconds.
    while_blocked: u64,
    /// The process's CPU clock when the recording began, nanoseconds.
    process_from: u64,
    /// Ended threads and their CPU time, nanoseconds.
    ended: Vec<(u32, u64)>,
    free: Vec<u32>,
    refused: HashSet<u32>,
    /// Threads that existed when the recording began.
    initial: HashSet<u32>,
    /// Threads that block the signal, and how many scans found them so. The signal would stay pending for ever, or a thread that waits for
    /// any signal would receive it.
    blocking: HashMap<u32, u32>,
    regions: Vec<proc::Region>,
    ranges: Published,
    unwind: Tables,
    /// How often an unwind table was published.
    tables: u64,
    ranges_read: u64,
    ranges_due: u64,
    ranges_pause: u64,
}

/// A followed thread.
#[derive(Debug, Clone, Copy)]
pub struct FollowedThread {
    /// The thread.
    pub thread: u32,
    /// Index of its slot.
    pub slot: u32,
    /// When Remora began to follow it, monotonic nanoseconds.
    pub since: u64,
    /// Its CPU clock then, nanoseconds.
    pub clock: u64,
    /// Its CPU clock when the recording began, nanoseconds; 0 if it started later.
    pub from: u64,
}

/// A thread that blocks the signal in at most this many scans was just born, or is about to end. The C library blocks everything then.
const BIRTH_SCANS: u32 = 2;

/// Pause before the executable ranges are read again, nanoseconds; it doubles each time. Code that runs later is mostly compiled into known
/// ranges.
const FIRST_RANGES_PAUSE: u64 = 500_000_000;
/// The pause is at least this long if code runs outside of all ranges.
const SHORTEST_RANGES_PAUSE: u64 = 100_000_000;
/// The longest such pause.
const LONGEST_RANGES_PAUSE: u64 = 16_000_000_000;

impl FollowedThreads {
    /// Follows no thread yet.
    pub fn new(sender: Sender) -> FollowedThreads {
        FollowedThreads {
            sender,
            slots: HashMap::new(),
            version: 0,
            unfollowed: HashMap::new(),
            while_blocked: 0,
            process_from: process_cpu(),
            ended: Vec::new(),
            free: (0..MAXIMUM_THREADS as u32).rev().collect(),
            refused: HashSet::new(),
            initial: HashSet::new(),
            blocking: HashMap::new(),
            regions: Vec::new(),
            ranges: Published::default(),
            unwind: Tables::default(),
            tables: 0,
            ranges_read: 0,
            ranges_due: 0,
            ranges_pause: FIRST_RANGES_PAUSE,
        }
    }

    /// The threads followed now.
    pub fn threads(&self) -> impl Iterator<Item = FollowedThread> + '_ {
        self.slots.values().copied()
    }

    /// The names of the followed threads.
    pub fn names(&self) -> Vec<(u32, String)> {
        self.slots.keys().filter_map(|thread| Some((*thread, proc::thread_name(*thread)?))).collect()
    }

    /// Changes with the followed threads and with [`Self::tables`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How often an unwind table was published.
    pub fn tables(&self) -> u64 {
        self.tables
    }

    /// CPU time of the threads and the process since the recording began. Scans may not have found the thread `sampler` yet.
    pub fn cpu_times(&self, sampler: u32) -> CpuTimes {
        let used = |thread, from| thread_cpu_of(thread).saturating_sub(from);
        let is_met = sampler == 0 || self.unfollowed.contains_key(&sampler);
        let (mut agent, mut unfollowed) = (if is_met { 0 } else { used(sampler, 0) }, 0);
        for (thread, from) in &self.unfollowed {
            let sum = if is_agents(*thread) == Some(true) { &mut agent } else { &mut unfollowed };
            *sum += used(*thread, *from);
        }
        CpuTimes {
            // A thread that just ended has no clock any more. The process's clock includes its time.
            threads: (self.threads().map(|thread| (thread.thread, used(thread.thread, thread.from))))
                .filter(|(_, used)| *used > 0)
                .collect(),
            process: process_cpu().saturating_sub(self.process_from),
            agent,
            unfollowed: unfollowed + self.while_blocked,
        }
    }

    /// Begins with the existing threads. Returns the followed ones, with their names.
    pub fn begin(
        &mut self,
        session: &Session,
        resources: &ResourceRegistry,
        initial: Vec<proc::Seen>,
    ) -> Vec<(u32, String)> {
        self.initial = initial.iter().map(|seen| seen.thread).collect();
        self.take_in(session, resources, initial, &HashMap::new())
    }

    /// Finds new threads and releases ended ones. Returns the new ones with their names.
    pub fn scan(&mut self, session: &Session, resources: &ResourceRegistry) -> Vec<(u32, String)> {
        // If threads cannot be listed now, none counts as ended.
        let Some(alive) = proc::threads() else { return Vec::new() };
        // A listing can miss a thread while others end.
        let has_ended = |thread: &&u32| !alive.contains(*thread) && thread_cpu_of(**thread) == 0;
        let ended: Vec<u32> = self.slots.keys().filter(has_ended).copied().collect();
        for thread in ended {
            self.remember_clock(session, thread);
            self.leave(session, resources, thread);
        }
        self.refused.retain(|thread| alive.contains(thread));
        if self.initial.is_empty() {
            // They could not be listed at the beginning. The first thread mostly lives as long as the process.
            self.initial.clone_from(&alive);
        }
        self.initial.retain(|thread| alive.contains(thread));
        self.unfollowed.retain(|thread, _| alive.contains(thread));
        let blocking = std::mem::take(&mut self.blocking);
        let ended = blocking.iter().filter(|(thread, _)| !alive.contains(thread));
        ended.filter(|(_, looks)| **looks > BIRTH_SCANS).for_each(|_| session.count(layout::THREADS_NOT_FOLLOWED));
        let strangers =
            alive.iter().filter(|thread| !self.slots.contains_key(thread) && !self.refused.contains(thread));
        // `look` returns nothing for a thread that has ended meanwhile.
        let seen = strangers.filter_map(|thread| proc::look(*thread)).collect();
        self.take_in(session, resources, seen, &blocking)
    }

    /// Follows the unknown threads, where possible. `blocking` holds the threads that blocked the signal before, and how often.
    fn take_in(
        &mut self,
        session: &Session,
        resources: &ResourceRegistry,
        strangers: Vec<proc::Seen>,
        blocking: &HashMap<u32, u32>,
    ) -> Vec<(u32, String)> {
        let mut new = Vec::new();
        for proc::Seen { thread, name, masks } in strangers {
            self.unfollowed
                .entry(thread)
                .or_insert_with(|| if self.initial.contains(&thread) { thread_cpu_of(thread) } else { 0 });
            if is_agents_name(&name) {
                self.refused.insert(thread);
                continue;
            }
            if blocks_signal(masks, self.sender.signal()) {
                // A new thread blocks every signal, and some threads always do: the next scan checks again.
                self.blocking.insert(thread, blocking.get(&thread).map_or(1, |looks| looks + 1));
                continue;
            }
            if blocking.get(&thread).is_some_and(|looks| *looks > BIRTH_SCANS) {
                // No sample includes that time, so the thread's samples must not be scaled up to it.
                let now = thread_cpu_of(thread);
                self.while_blocked += now.saturating_sub(self.unfollowed.insert(thread, now).unwrap_or(now));
            }
            if self.follow(session, resources, thread) {
                self.unfollowed.remove(&thread);
                new.push((thread, name));
            } else if proc::signal_masks(thread).is_some() {
                self.refused.insert(thread);
                session.count(layout::THREADS_NOT_FOLLOWED);
            }
        }
        new
    }

    /// Whether there is an unfollowed thread that may have just started.
    pub fn expects_more(&self) -> bool {
        self.blocking.keys().any(|thread| !self.initial.contains(thread))
    }

    /// Releases every thread. Afterwards no timer of ours exists. Returns the followed threads: only they can be in the handler.
    pub fn leave_all(&mut self, session: &Session, resources: &ResourceRegistry) -> Vec<u32> {
        let threads: Vec<u32> = self.slots.keys().copied().collect();
        for thread in &threads {
            self.leave(session, resources, *thread);
        }
        let blocking = std::mem::take(&mut self.blocking);
        let stayed_so =
            blocking.iter().filter(|(thread, looks)| **looks > BIRTH_SCANS || self.initial.contains(thread));
        // The agent's other thread may have had no name yet at the scan.
        stayed_so
            .filter(|(thread, _)| is_agents(**thread) == Some(false))
            .for_each(|_| session.count(layout::THREADS_NOT_FOLLOWED));
        threads
    }

    /// Stores the bounds of a thread's stack, now that its stack pointer is known. Does so again when the stack has grown beyond them.
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

    /// The kind of code at an address, by the mappings that were read last.
    pub fn code_at(&self, address: u64) -> CodeKind {
        let after = self.regions.partition_point(|region| region.start <= address);
        match after.checked_sub(1).and_then(|index| self.regions.get(index)) {
            Some(region) if region.executable && holds(region, address) => match (region.frameless, region.generated) {
                (true, _) => CodeKind::Frameless,
                (_, true) => CodeKind::Generated,
                _ => CodeKind::Other,
            },
            _ => CodeKind::None,
        }
    }

    /// Publishes the executable ranges to the handlers, if they are due.
    pub fn publish_ranges(&mut self, session: &Session) {
        let now = monotonic();
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

    /// Publishes an unwind table to the handlers. Samples from before stay as they are.
    pub fn publish_unwind(&mut self, session: &Session, table: Mapping) {
        if !unwind::publish(&mut self.unwind, session, table) {
            return session.count(layout::UNWIND_REFUSED);
        }
        self.tables += 1;
        self.version += 1;
    }

    /// Code runs at `address`. If no known range contains it, the ranges are read again earlier.
    pub fn code_runs_at(&mut self, address: u64) {
        if self.code_at(address) == CodeKind::None {
            self.ranges_due = self.ranges_due.min(self.ranges_read + SHORTEST_RANGES_PAUSE);
        }
    }

    fn follow(&mut self, session: &Session, resources: &ResourceRegistry, thread: u32) -> bool {
        let Some(index) = self.free.pop() else { return false };
        let Some(slot) = session.slots.get(index as usize) else { return false };
        let generation = slot.generation.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        for word in [&slot.clock, &slot.ask.weight, &slot.answers.off_cpu, &slot.answers.at] {
            word.store(0, Ordering::Relaxed);
        }
        slot.again.store(false, Ordering::Relaxed);
        slot.stack_low.store(0, Ordering::Relaxed);
        slot.stack_high.store(0, Ordering::Relaxed);
        if !self.sender.prepare(resources, slot, thread, index, generation) {
            self.free.push(index);
            return false;
        }
        slot.thread.store(thread, Ordering::Release);
        let from = self.unfollowed.get(&thread).copied().unwrap_or(0);
        let new = FollowedThread { thread, slot: index, since: monotonic(), clock: thread_cpu_of(thread), from };
        self.slots.insert(thread, new);
        self.version += 1;
        true
    }

    /// Keeps the CPU time of an ended thread until the sampler's last look.
    fn remember_clock(&mut self, session: &Session, thread: u32) {
        let Some(known) = self.slots.get(&thread) else { return };
        let Some(slot) = session.slots.get(known.slot as usize) else { return };
        let used = slot.clock.load(Ordering::Relaxed).saturating_sub(known.from);
        if used > 0 {
            self.ended.push((thread, used));
        }
    }

    /// Threads ended since the last call, and their CPU time, nanoseconds.
    pub fn take_ended(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.ended)
    }

    fn leave(&mut self, session: &Session, resources: &ResourceRegistry, thread: u32) {
        let Some(FollowedThread { slot: index, .. }) = self.slots.remove(&thread) else { return };
        self.version += 1;
        let Some(slot) = session.slots.get(index as usize) else { return };
        slot.thread.store(0, Ordering::Release);
        self.sender.release_recording(resources, slot);
        if slot.ask.weight.swap(0, Ordering::AcqRel) != 0 {
            // The thread has ended without an answer.
            session.count(layout::TAKEN);
            session.count(layout::LOST_THREAD_SILENT);
        }
        self.free.insert(0, index);
    }
}

/// Makes the sampler sample a thread once more, even if it has not run.
pub fn sample_again(session: &Session, slot: u32, thread: u32) {
    let slot = session.slots.get(slot as usize);
    if let Some(slot) = slot.filter(|slot| slot.thread.load(Ordering::Relaxed) == thread) {
        slot.again.store(true, Ordering::Relaxed);
    }
}

fn holds(region: &proc::Region, address: u64) -> bool {
    region.start <= address && address < region.end
}
