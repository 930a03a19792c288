//! The shared memory: a page of words for identity and counters, then the ring of [`crate::Message`]s.
//!
//! The collector creates it, allocates its full size and seals it, so that it cannot fault in the target later. Only the target writes
//! counters, with relaxed additions. The collector reads them at any time, even after the target's death.

/// Words before the ring.
pub const HEADER_WORDS: usize = 512;

/// Words of the ring's data (8 MiB).
pub const RING_WORDS: usize = 1 << 20;

/// The first word: `REMORA`, then the version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REMORA\0\x01");

/// Word index of [`MAGIC`].
pub const WORD_MAGIC: usize = 0;

/// Samples begun.
pub const TAKEN: usize = 8;
/// Samples sent.
pub const SENT: usize = 9;
/// Samples that did not fit into the ring between signal handlers and worker thread.
pub const LOST_RING_FULL: usize = 10;
/// Samples that did not fit into the transport.
pub const LOST_TRANSPORT_FULL: usize = 11;
/// Samples whose signal the thread never answered.
pub const LOST_THREAD_SILENT: usize = 12;
/// Signals that were not for a sample.
pub const STRAY_SIGNALS: usize = 13;
/// Threads that could not be followed (no timer, no slot, or they block the signal).
pub const THREADS_NOT_FOLLOWED: usize = 14;
/// Messages other than samples that did not fit into the transport: names may be missing.
pub const LOST_DESCRIPTIONS: usize = 15;
/// Samples with a stack walk of their own. The others repeat an unchanged stack.
pub const WALKED: usize = 16;
/// Threads without a sample because their state had changed: running when asked, blocked when the signal arrived, or the reverse.
pub const MOVED_ON: usize = 18;
/// Instants at which the sampler looked for running threads.
pub const INSTANTS: usize = 19;
/// Blocked threads due for a sample that got none at that instant: the signal budget was used up.
pub const OVER_BUDGET: usize = 20;
/// Look-ups of addresses that the runtime answered with an error other than "not managed".
pub const FAILED_LOOKUPS: usize = 17;
/// Refused unwind tables: not sealed, damaged, or without room to map them.
pub const UNWIND_REFUSED: usize = 21;
/// The part of [`MOVED_ON`] that ran when the sampler looked, and had blocked when the signal arrived.
pub const RUNS_MISSED: usize = 22;
/// Exceptions thrown while they were watched.
pub const THROWN: usize = 23;

/// Counters of a heap snapshot, by the forked copy: objects.
pub const HEAP_OBJECTS: usize = 32;
/// Their bytes.
pub const HEAP_BYTES: usize = 33;
/// References.
pub const HEAP_REFERENCES: usize = 34;
/// Ranges that could not be walked to their end.
pub const HEAP_BROKEN: usize = 35;
/// Ranges not walked at all.
pub const HEAP_LEFT_OUT: usize = 36;
/// Objects whose class did not fit into the table.
pub const HEAP_WITHOUT_CLASS: usize = 37;
/// Pages of the runtime's own data that the copy lacks: the process made them later.
pub const HEAP_PAGES_ABSENT: usize = 38;
/// Objects that contradict the assumed form of their class.
pub const HEAP_CONTRADICTED: usize = 39;
/// Pieces of heap tracking without room.
pub const WATCH_LOST: usize = 42;

/// Roots that the runtime reported.
pub const HEAP_ROOTS: usize = 40;
/// Methods with locals as roots that were not described: code had unloaded since.
pub const HEAP_METHODS_UNNAMED: usize = 44;
/// Reported roots that were not kept.
pub const HEAP_ROOTS_LOST: usize = 41;

/// Bytes of all ranges to walk, including free space between objects; 0 if not known in advance.
pub const HEAP_BYTES_IN_ALL: usize = 43;

/// Mappings of the runtime's data that the copy nevertheless shares with the process.
pub const HEAP_STAYS_SHARED: usize = 47;
/// Questions about static fields that ended in a fault of the copy.
pub const HEAP_QUESTIONS_GIVEN_UP: usize = 46;

/// Exit status of a copy that ended itself because a control group was low on memory: [`HEAP_ROOM_LEFT`].
pub const ENDED_BY_ROOM: i32 = 3;
/// Exit status of a copy that ended itself because all tasks in its control group, or on the machine, were stalled for memory.
pub const ENDED_BY_STALLS: i32 = 4;

/// Bytes that the control group had left of its limit when the copy ended itself for lack of memory; and the limit.
pub const HEAP_ROOM_LEFT: usize = 48;
/// See [`HEAP_ROOM_LEFT`].
pub const HEAP_ROOM_LIMIT: usize = 49;

/// Words of questions about static fields, plus 1; 0 until the questions are complete. The copy waits for it after its walk. The collector
/// writes only this word and the next one of the page.
pub const STATICS_ASKED: usize = 45;
/// Changes as long as the collector prepares the questions. Otherwise the copy does not wait for them.
pub const STATICS_PREPARED: usize = 50;

/// Data words of the first ring if there are several: the agent's messages.
pub const SMALL_RING_WORDS: usize = 1 << 17;

/// Data words of the second ring: the stream of a heap snapshot.
pub const HEAP_RING_WORDS: usize = 1 << 19;

/// Data words of the third ring, for heap tracking (32 MiB): a GC reports all its ranges at once, and never waits.
pub const WATCH_RING_WORDS: usize = 1 << 22;

/// The only ring of a recording, or the first of several.
pub fn messages(has_heap: bool, ring_header_words: usize) -> std::ops::Range<usize> {
    let data = if has_heap { SMALL_RING_WORDS } else { RING_WORDS };
    HEADER_WORDS..HEADER_WORDS + ring_header_words + data
}

/// The second ring.
pub fn heap(ring_header_words: usize) -> std::ops::Range<usize> {
    let begin = HEADER_WORDS + ring_header_words + SMALL_RING_WORDS;
    begin..begin + ring_header_words + HEAP_RING_WORDS
}

/// The collector's questions about static fields (`remora_heap_stream::statics`), after the second ring.
pub fn questions(ring_header_words: usize) -> std::ops::Range<usize> {
    heap(ring_header_words).end..HEADER_WORDS + ring_header_words + RING_WORDS
}

/// The third ring, after all other parts.
pub fn watch(ring_header_words: usize) -> std::ops::Range<usize> {
    let begin = HEADER_WORDS + ring_header_words + RING_WORDS;
    begin..begin + ring_header_words + WATCH_RING_WORDS
}

/// Bytes of the whole shared memory.
pub const fn size_in_bytes(is_watched: bool, ring_header_words: usize) -> usize {
    let third = if is_watched { ring_header_words + WATCH_RING_WORDS } else { 0 };
    (HEADER_WORDS + ring_header_words + RING_WORDS + third) * 8
}
