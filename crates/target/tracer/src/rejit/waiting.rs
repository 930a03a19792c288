//! Asynchronous calls that wait: a table in the shared memory.
//!
//! A call that waits is known by the id of its task. The thread that ran its first step learns that id only when the step is over. By then
//! another thread may have run the rest. So begin and end come in any order, each leaves an entry, and the second one takes both.

use super::shared::words;
use remora_ring::HEADER_WORDS as RING_HEADER;
use remora_wire::method_trace::memory::{CALLS_LOST, ENTRY_WORDS, MOST_WAITING, waiting};
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries in which a call may be.
const WINDOW: usize = 16;
/// The key of an entry that is free.
const FREE: u64 = 0;
/// The key of an entry that is being written. A key of a call has the session's number in its upper bits.
const TAKEN: u64 = 1;
/// In a value: this is an end.
const END: u64 = 1 << 63;
/// In a value: the call ended by an exception.
const THROWN: u64 = 1 << 62;
const TIME: u64 = THROWN - 1;
/// An end without its begin is older than this only if the call began before the trace, nanoseconds.
const OLD: u64 = 1_000_000_000;

/// When a call began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) is_thrown: bool,
}

/// The first step of a call is over, and the call waits. Returns its end if that came before.
pub(crate) fn begin(id: u32, task: u64, time: u64) -> Option<Ended> {
    Table::new()?.put(key(id, task), time & TIME)
}

/// A call has ended. Returns it if its begin is known; otherwise that comes later, or was before the trace.
pub(crate) fn end(id: u32, task: u64, time: u64, is_thrown: bool) -> Option<Ended> {
    let thrown = if is_thrown { THROWN } else { 0 };
    Table::new()?.put(key(id, task), time & TIME | thrown | END)
}

fn key(id: u32, task: u64) -> u64 {
    u64::from(id) << 32 | task & 0xFFFF_FFFF
}

struct Table<'a> {
    entries: &'a [[AtomicU64; ENTRY_WORDS]],
    lost: &'a AtomicU64,
}

impl Table<'static> {
    fn new() -> Option<Table<'static>> {
        let entries = words().get(waiting(RING_HEADER))?.as_chunks().0;
        Some(Table { entries, lost: words().get(CALLS_LOST)? })
    }
}

impl Table<'_> {
    /// Takes the other side of a call if it is there; otherwise leaves this one.
    fn put(&self, key: u64, value: u64) -> Option<Ended> {
        if let Some(other) = self.take_other(key, value) {
            return Some(ended(value, other));
        }
        let Some(own) = self.leave(key, value) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // The other side may have come meanwhile, and not have seen this one. Both may see each other: who takes the begin has the call.
        let other = self.find_other(key, value)?;
        let (begin, end) = if value & END == 0 { (own, other.0) } else { (other.0, own) };
        if !self.free(begin, key) {
            return None;
        }
        self.free(end, key);
        Some(ended(value, other.1))
    }

    fn take_other(&self, key: u64, value: u64) -> Option<u64> {
        let (place, other) = self.find_other(key, value)?;
        self.free(place, key).then_some(other)
    }

    fn find_other(&self, key: u64, value: u64) -> Option<(usize, u64)> {
        self.window(key).find_map(|place| {
            let [of, content] = &self.entries[place];
            if of.load(Ordering::SeqCst) != key {
                return None;
            }
            let other = content.load(Ordering::SeqCst);
            (other & END != value & END).then_some((place, other))
        })
    }

    /// Writes an entry. An end that is old belongs to a call from before the trace, and makes room.
    fn leave(&self, key: u64, value: u64) -> Option<usize> {
        let is_old = |content: u64| content & END != 0 && (content & TIME) + OLD < value & TIME;
        let place = self.window(key).find(|place| {
            let [of, content] = &self.entries[*place];
            let before = of.load(Ordering::SeqCst);
            let is_free = before == FREE || before != TAKEN && is_old(content.load(Ordering::SeqCst));
            is_free && of.compare_exchange(before, TAKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        })?;
        let [of, content] = &self.entries[place];
        content.store(value, Ordering::SeqCst);
        of.store(key, Ordering::SeqCst);
        Some(place)
    }

    fn free(&self, place: usize, key: u64) -> bool {
        self.entries[place][0].compare_exchange(key, FREE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn window(&self, key: u64) -> impl Iterator<Item = usize> {
        let first = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..WINDOW).map(move |next| (first + next) % MOST_WAITING)
    }
}

fn ended(one: u64, other: u64) -> Ended {
    let (begin, end) = if one & END == 0 { (one, other) } else { (other, one) };
    Ended { begin: begin & TIME, end: end & TIME, is_thrown: end & THROWN != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const ID: u32 = 1 << 16 | 3;

    fn table() -> (Vec<[AtomicU64; ENTRY_WORDS]>, AtomicU64) {
        let entries = (0..MOST_WAITING).map(|_| [const { AtomicU64::new(0) }; ENTRY_WORDS]).collect();
        (entries, AtomicU64::new(0))
    }

    #[test]
    fn begin_and_end_meet_in_either_order() {
        let (entries, lost) = table();
        let table = Table { entries: &entries, lost: &lost };
        let call = |task| key(ID, task);
        assert_eq!(table.put(call(1), 100), None);
        assert_eq!(table.put(call(2), 200 | END), None);
        let ended = Ended { begin: 100, end: 300, is_thrown: true };
        assert_eq!(table.put(call(1), 300 | END | THROWN), Some(ended));
        assert_eq!(table.put(call(2), 150), Some(Ended { begin: 150, end: 200, is_thrown: false }));
        assert!(entries.iter().all(|[of, _]| of.load(Ordering::SeqCst) == FREE));
    }

    #[test]
    fn a_full_window_is_counted_and_old_ends_make_room() {
        let (entries, lost) = table();
        let table = Table { entries: &entries, lost: &lost };
        let full = |value: u64| {
            entries.iter().for_each(|[of, content]| {
                of.store(key(ID, 7), Ordering::SeqCst);
                content.store(value, Ordering::SeqCst);
            })
        };
        full(5);
        assert_eq!((table.put(key(ID, 8), 2 * OLD), lost.load(Ordering::SeqCst)), (None, 1));
        full(5 | END);
        assert_eq!((table.put(key(ID, 8), 2 * OLD), lost.load(Ordering::SeqCst)), (None, 1));
        assert!(table.put(key(ID, 8), (2 * OLD) | END).is_some());
    }

    #[test]
    fn of_two_threads_with_the_two_sides_of_a_call_one_has_it() {
        const CALLS: u64 = 20_000;
        let (entries, lost) = table();
        let table = Table { entries: &entries, lost: &lost };
        let barrier = Barrier::new(2);
        let side = |value: u64| {
            let met = |task| {
                barrier.wait();
                u64::from(table.put(key(ID, task), value).is_some())
            };
            (1..=CALLS).map(met).sum::<u64>()
        };
        let met = std::thread::scope(|scope| {
            let (begins, ends) = (scope.spawn(|| side(10)), scope.spawn(|| side(20 | END)));
            begins.join().unwrap() + ends.join().unwrap()
        });
        assert_eq!((met, lost.load(Ordering::SeqCst)), (CALLS, 0));
        assert!(entries.iter().all(|[of, _]| of.load(Ordering::SeqCst) == FREE));
    }
}
