//! Where everything is, in words of eight bytes.

use core::sync::atomic::AtomicU64;

/// The first word: `REMORA`, then the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"REMORC\0\x02");

/// Words before the first section.
pub const HEADER_WORDS: usize = 128;

/// Word index of [`MAGIC`].
pub const WORD_MAGIC: usize = 0;
/// Not 0 once the recorder wants no more: the hooks then return at once.
pub const STOPPED: usize = 1;
/// Set by the recorder: 1 for the processor's time stamp counter, 0 for the monotonic clock.
pub const TIME_STAMP_COUNTER: usize = 2;
/// Set by the recorder: calls that take at least so many ticks are in the list of long calls.
pub const LONG_TICKS: usize = 3;
/// Set by the recorder: [`Text`](crate::Text) of the patterns of methods, one on each line.
pub const WANTED: usize = 4;
/// Set by the recorder: the same of the methods that are left out.
pub const EXCLUDED: usize = 5;
/// Set by the recorder: whether a pattern names methods of the framework.
pub const WITH_FRAMEWORK: usize = 6;
/// Set by the recorder: whether allocations are counted.
pub const ALLOCATIONS: usize = 7;
/// The clock when the hooks were set, ticks.
pub const STARTED: usize = 8;
/// The monotonic clock at the same time, nanoseconds.
pub const STARTED_MONOTONIC: usize = 9;
/// The cost of a hooked call that falls into its own time, in ticks of 1/256.
pub const COST_INSIDE: usize = 10;
/// The cost of a hooked call that falls into its caller's time, in ticks of 1/256.
pub const COST_OUTSIDE: usize = 11;
/// Set by the recorder: whether the memory has sections for the values of arguments and results.
pub const HAS_VALUES: usize = 12;
/// Set by the recorder: the values of so many more calls are kept.
pub const VALUES_LEFT: usize = 13;

/// Taken of each section.
pub const THREADS_TAKEN: usize = 16;
/// Method records taken.
pub const METHODS_TAKEN: usize = 17;
/// Module records taken.
pub const MODULES_TAKEN: usize = 18;
/// Words of text taken.
pub const TEXT_TAKEN: usize = 19;
/// Long calls, those without room included.
pub const LONG_TAKEN: usize = 20;
/// Slots for the values of active calls taken.
pub const SLOTS_TAKEN: usize = 21;
/// Words of values taken.
pub const VALUES_TAKEN: usize = 22;

/// Calls whose node had no room: counted here and in their method, not in a tree.
pub const LOST: usize = 24;
/// Calls on threads without a record.
pub const LOST_THREADS: usize = 25;
/// Exits without their entry.
pub const UNMATCHED: usize = 26;
/// Calls that were found to have ended only at a later hook, so their time may be too long.
pub const FOUND_LATE: usize = 27;
/// Hooks with a method that was never hooked.
pub const STRANGE: usize = 28;
/// Methods that were not hooked, because their record or name had no room.
pub const NOT_HOOKED: usize = 29;
/// Methods that the runtime compiled or asked about.
pub const CONSIDERED: usize = 30;
/// Inlinings that were refused.
pub const INLINING_REFUSED: usize = 31;
/// Threads that have a record of another thread, which had ended.
pub const SHARED_THREADS: usize = 34;
/// Callbacks that panicked.
pub const PANICS: usize = 35;

/// Allocated objects that are counted nowhere else: the memory had no room for their type, or for their place in a tree.
pub const LOST_OBJECTS: usize = 36;
/// The bytes of those objects.
pub const LOST_BYTES: usize = 37;
/// Calls whose values are not kept, since those of enough calls are.
pub const VALUES_BEYOND: usize = 38;
/// Calls whose values had no room.
pub const VALUES_LOST: usize = 39;
/// Calls whose values the runtime did not give.
pub const VALUES_REFUSED: usize = 40;

/// Words of a thread record.
pub const THREAD_WORDS: usize = 16;
/// Threads with a tree of their own.
pub const THREADS: usize = 4096;
/// Words of a method record.
pub const METHOD_WORDS: usize = 8;
/// Methods.
pub const METHODS: usize = 1 << 16;
/// Words of a module record.
pub const MODULE_WORDS: usize = 4;
/// Modules.
pub const MODULES: usize = 1 << 12;
/// Words of text (8 MiB).
pub const TEXT_WORDS: usize = 1 << 20;
/// Words of a long call.
pub const LONG_WORDS: usize = 4;
/// Long calls.
pub const LONG_CALLS: usize = 1 << 17;
/// Words of a slot: its length, and the values of one call.
pub const SLOT_WORDS: usize = 128;
/// Slots. A node keeps its slot, whose number fits into the bits that a stack pointer leaves free.
pub const SLOTS: usize = 1 << 12;
/// Words for the values of calls that have ended (8 MiB).
pub const VALUE_WORDS: usize = 1 << 20;
/// Words of a node.
pub const NODE_WORDS: usize = 8;

pub(crate) const THREAD_SECTION: usize = HEADER_WORDS;
pub(crate) const METHOD_SECTION: usize = THREAD_SECTION + THREADS * THREAD_WORDS;
pub(crate) const MODULE_SECTION: usize = METHOD_SECTION + METHODS * METHOD_WORDS;
pub(crate) const TEXT_SECTION: usize = MODULE_SECTION + MODULES * MODULE_WORDS;
pub(crate) const LONG_SECTION: usize = TEXT_SECTION + TEXT_WORDS;
const AFTER_LONG: usize = LONG_SECTION + LONG_CALLS * LONG_WORDS;
pub(crate) const SLOT_SECTION: usize = AFTER_LONG;
pub(crate) const VALUE_SECTION: usize = SLOT_SECTION + SLOTS * SLOT_WORDS;

/// The first word of the nodes. The sections of values are there only if the header says so.
pub(crate) const fn node_section(has_values: bool) -> usize {
    if has_values { VALUE_SECTION + VALUE_WORDS } else { AFTER_LONG }
}

/// The size of a table with so many nodes, a power of two, in bytes.
pub const fn size_in_bytes(nodes: usize, has_values: bool) -> usize {
    (node_section(has_values) + nodes * NODE_WORDS) * 8
}

/// A call that took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongCall {
    /// Its node.
    pub node: u32,
    /// Its first tick.
    pub start: u64,
    /// Its ticks.
    pub ticks: u64,
    /// Whether it ended by an exception.
    pub threw: bool,
    /// Its arguments and result.
    pub values: ValuesPlace,
}

/// Where the values of a call are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ValuesPlace {
    /// The first word in the section of values.
    pub(crate) word: u32,
    /// Words; 0 for none.
    pub(crate) words: u32,
}

impl ValuesPlace {
    /// How many words they have.
    pub fn words(self) -> usize {
        self.words as usize
    }

    pub(crate) fn packed(self) -> u64 {
        u64::from(self.word) << 32 | u64::from(self.words)
    }

    pub(crate) fn unpacked(word: u64) -> ValuesPlace {
        ValuesPlace { word: (word >> 32) as u32, words: word as u32 }
    }
}

/// The words of a section.
pub(crate) fn section(words: &[AtomicU64], from: usize, length: usize) -> &[AtomicU64] {
    words.get(from..from + length).unwrap_or_default()
}
