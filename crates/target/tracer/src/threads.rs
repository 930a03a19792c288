//! The record of the calling thread, found by the address of its control block.
//!
//! Thread-local storage of the C library would be allocated at the first use on each thread, inside a hook.

use crate::state::State;
use remora_call_table::{Clock, ThreadIndex, ThreadRecord, layout};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Living threads that are found, at most.
const SLOTS: usize = 1 << 13;
/// Places that are tried.
const PROBES: usize = 64;
/// The key of a slot that was given back.
const FREED: usize = 1;

/// A thread.
struct Slot {
    /// The address of its control block.
    key: AtomicUsize,
    /// The runtime's id, 0 if unknown.
    thread: AtomicUsize,
    record: AtomicU32,
}

static SLOT: [Slot; SLOTS] =
    [const { Slot { key: AtomicUsize::new(0), thread: AtomicUsize::new(0), record: AtomicU32::new(0) } }; SLOTS];

/// The record of the calling thread; `None` if there is no room for one.
#[inline]
pub fn current(state: &State) -> Option<ThreadRecord<'static>> {
    let key = this_thread();
    match found(key) {
        Some(slot) => state.table.thread(ThreadIndex(slot.record.load(Ordering::Relaxed))),
        None => first_use(state, key, 0),
    }
}

/// A thread of the runtime begins: the calling thread. An ended thread may have had the same control block.
pub fn begin(state: &State, thread: usize, system_id: u32) {
    if system_id != own_system_id() {
        return;
    }
    let key = this_thread();
    if let Some(slot) = found(key) {
        let record = ThreadIndex(slot.record.load(Ordering::Relaxed));
        // Hooks ran on it before the runtime said that it exists: the main thread.
        if state.table.thread(record).is_some_and(|record| record.system_id() == u64::from(system_id)) {
            return slot.thread.store(thread, Ordering::Relaxed);
        }
        state.table.end_thread(record, state.clock.now());
        slot.thread.store(0, Ordering::Relaxed);
        slot.key.store(FREED, Ordering::Release);
    }
    first_use(state, key, thread);
}

/// A thread of the runtime has ended.
pub fn end(state: &State, thread: usize) {
    for slot in slots_of(thread) {
        slot.thread.store(0, Ordering::Relaxed);
        state.table.end_thread(ThreadIndex(slot.record.load(Ordering::Relaxed)), state.clock.now());
        // Last: from here on a new thread may take the slot.
        slot.key.store(FREED, Ordering::Release);
    }
}

/// A thread has a name.
pub fn name(state: &State, thread: usize, name: &[u8]) {
    for slot in slots_of(thread) {
        if let Some(record) = state.table.thread(ThreadIndex(slot.record.load(Ordering::Relaxed))) {
            record.set_name(name);
        }
    }
}

/// Makes the calling thread use this record, until [`forget_current`].
pub fn use_record(record: ThreadIndex) {
    take(this_thread(), record, 0);
}

/// The calling thread has no record any more.
pub fn forget_current() {
    if let Some(slot) = found(this_thread()) {
        slot.thread.store(0, Ordering::Relaxed);
        slot.key.store(FREED, Ordering::Release);
    }
}

#[cold]
fn first_use(state: &State, key: usize, thread: usize) -> Option<ThreadRecord<'static>> {
    let system_id = own_system_id();
    let record = state.table.begin_thread(system_id, state.clock.now())?;
    if !take(key, record, thread) {
        return None;
    }
    let record = state.table.thread(record)?;
    let mut name = [0_u8; 16];
    // SAFETY: the buffer has the 16 bytes that the call writes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    record.set_name(name.split(|byte| *byte == 0).next().unwrap_or_default());
    Some(record)
}

fn take(key: usize, record: ThreadIndex, thread: usize) -> bool {
    let slot = places(key).map(|at| &SLOT[at]).find(|slot| {
        [0, FREED]
            .into_iter()
            .any(|empty| slot.key.compare_exchange(empty, key, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    });
    if let Some(slot) = slot {
        slot.record.store(record.0, Ordering::Relaxed);
        slot.thread.store(thread, Ordering::Relaxed);
    }
    slot.is_some()
}

#[inline]
fn found(key: usize) -> Option<&'static Slot> {
    for at in places(key) {
        let slot = &SLOT[at];
        match slot.key.load(Ordering::Relaxed) {
            found if found == key => return Some(slot),
            0 => return None,
            _ => {}
        }
    }
    None
}

fn slots_of(thread: usize) -> impl Iterator<Item = &'static Slot> {
    SLOT.iter().filter(move |slot| thread != 0 && slot.thread.load(Ordering::Relaxed) == thread)
}

#[inline]
fn places(key: usize) -> impl Iterator<Item = usize> {
    let first = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 51;
    (0..PROBES).map(move |step| (first + step) & (SLOTS - 1))
}

/// The address of the thread's control block, unique among living threads.
#[inline]
fn this_thread() -> usize {
    let thread: usize;
    // SAFETY: on x64 the word at fs:0 has its own address (x86-64 ELF ABI, thread-local storage).
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly, preserves_flags)) };
    thread
}

fn own_system_id() -> u32 {
    // SAFETY: takes no arguments and does not fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

const _: () = assert!(SLOTS >= layout::THREADS);
