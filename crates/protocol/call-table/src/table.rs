//! The table: nodes by parent and method, long calls, counters.

use crate::layout::{
    self, HAS_VALUES, LONG_CALLS, LONG_SECTION, LONG_TAKEN, LONG_WORDS, LongCall, NODE_WORDS, ValuesPlace,
    node_section, section,
};
use core::sync::atomic::{AtomicU64, Ordering};

/// Places that are tried for a node.
const PROBES: usize = 64;

const KEY: usize = 0;
const CALLS: usize = 1;
const TICKS: usize = 2;
const CHILD_TICKS: usize = 3;
/// Exceptions in the low 48 bits, the mark of the unwind in progress above.
const EXCEPTIONS: usize = 4;
const LONGEST: usize = 5;
/// The first tick of the active call, 0 for none.
const START: usize = 6;
/// The stack pointer of the active call's caller in the low 48 bits, the number of the node's slot for values above; 0 for none.
const FRAME: usize = 7;

const FRAME_BITS: u32 = 48;

const EXCEPTION_BITS: u32 = 48;

/// The number of a node, from 1. 0 is the parent of roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A view of the memory. Any number of views may share the words.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pub(crate) words: &'a [AtomicU64],
    nodes: &'a [[AtomicU64; NODE_WORDS]],
    mask: usize,
}

impl<'a> Table<'a> {
    /// Views `words`, which begin as zeros; `None` if there is no room for nodes.
    pub fn new(words: &'a [AtomicU64]) -> Option<Table<'a>> {
        let has_values = words.get(HAS_VALUES)?.load(Ordering::Relaxed) != 0;
        let (nodes, _) = words.get(node_section(has_values)..)?.as_chunks::<NODE_WORDS>();
        let count = 1_usize << nodes.len().min(1 << 31).checked_ilog2()?;
        Some(Table { words, nodes: nodes.get(..count)?, mask: count - 1 })
    }

    /// A word of the header.
    pub fn header(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Sets a word of the header.
    pub fn set_header(&self, word: usize, value: u64) {
        if let Some(word) = self.words.get(word) {
            word.store(value, Ordering::Release);
        }
    }

    /// Adds one to a counter of the header.
    pub fn count(&self, word: usize) {
        self.take(word, 1);
    }

    /// Adds to a counter, and returns what it was.
    pub(crate) fn take(&self, word: usize, count: u64) -> u64 {
        self.words.get(word).map_or(u64::MAX, |word| word.fetch_add(count, Ordering::Relaxed))
    }

    /// Number of places for nodes.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> Option<Node<'a>> {
        self.nodes.get((id.0 as usize).wrapping_sub(1)).map(|words| Node { words })
    }

    /// All nodes in use.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, Node<'a>)> + use<'a> {
        let numbered = self.nodes.iter().zip(1..);
        numbered.map(|(words, id)| (NodeId(id), Node { words })).filter(|(_, node)| node.key() != 0)
    }

    /// The node of `method` called by `parent`; makes it if it is new. `None` if there is no room near its place.
    #[inline]
    pub(crate) fn child(&self, parent: NodeId, method: u32) -> Option<(NodeId, Node<'a>)> {
        let key = (u64::from(parent.0) << 32) | (u64::from(method) + 1);
        // Multiplication spreads the key over the high bits (Knuth, 6.4).
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        for _ in 0..PROBES {
            at &= self.mask;
            let words = self.nodes.get(at)?;
            let found = words[KEY].load(Ordering::Relaxed);
            let is_ours = found == key || found == 0 && claim(&words[KEY], key);
            if is_ours {
                return Some((NodeId(at as u32 + 1), Node { words }));
            }
            at += 1;
        }
        None
    }

    /// Adds a call to the list of long calls.
    #[cold]
    pub(crate) fn add_long(&self, call: LongCall) {
        let at = self.take(LONG_TAKEN, 1) as usize;
        let all = section(self.words, LONG_SECTION, LONG_CALLS * LONG_WORDS).as_chunks::<LONG_WORDS>().0;
        if let Some([head, start, ticks, values]) = all.get(at) {
            start.store(call.start, Ordering::Relaxed);
            ticks.store(call.ticks, Ordering::Relaxed);
            values.store(call.values.packed(), Ordering::Relaxed);
            head.store(u64::from(call.node) << 1 | u64::from(call.threw), Ordering::Release);
        }
    }

    /// The list of long calls, as far as they are whole.
    pub fn long_calls(&self) -> impl Iterator<Item = LongCall> + use<'a> {
        let taken = usize::try_from(self.header(LONG_TAKEN)).unwrap_or(usize::MAX);
        let all = section(self.words, LONG_SECTION, LONG_CALLS * LONG_WORDS).as_chunks::<LONG_WORDS>().0;
        all.iter().take(taken).filter_map(|[head, start, ticks, values]| {
            let head = head.load(Ordering::Acquire);
            let (start, ticks) = (start.load(Ordering::Relaxed), ticks.load(Ordering::Relaxed));
            let values = ValuesPlace::unpacked(values.load(Ordering::Relaxed));
            (head != 0).then_some(LongCall { node: (head >> 1) as u32, start, ticks, threw: head & 1 == 1, values })
        })
    }

    /// Whether the recorder wants no more.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.header(layout::STOPPED) != 0
    }
}

/// Takes an empty node. Only the thread of the parent makes this key, so nobody else makes it meanwhile.
#[cold]
fn claim(place: &AtomicU64, key: u64) -> bool {
    place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// A node of a tree. The methods that write are for the thread of the tree.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    words: &'a [AtomicU64; NODE_WORDS],
}

impl Node<'_> {
    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    fn key(&self) -> u64 {
        self.load(KEY)
    }

    /// The node that calls it; 0 for a root.
    pub fn parent(&self) -> NodeId {
        NodeId((self.key() >> 32) as u32)
    }

    /// Its method; of a root, its thread.
    pub fn method(&self) -> u32 {
        (self.key() as u32).wrapping_sub(1)
    }

    /// Calls that have begun.
    pub fn calls(&self) -> u64 {
        self.load(CALLS)
    }

    /// Ticks of the calls that have ended.
    pub fn ticks(&self) -> u64 {
        self.load(TICKS)
    }

    /// The part of its callees.
    pub fn child_ticks(&self) -> u64 {
        self.load(CHILD_TICKS)
    }

    /// Calls that ended by an exception.
    pub fn exceptions(&self) -> u64 {
        self.load(EXCEPTIONS) & ((1 << EXCEPTION_BITS) - 1)
    }

    /// Ticks of the longest call.
    pub fn longest(&self) -> u64 {
        self.load(LONGEST)
    }

    /// The first tick of the call that is active now.
    pub fn active_since(&self) -> Option<u64> {
        Some(self.load(START)).filter(|start| *start != 0)
    }

    /// The stack pointer of the active call's caller.
    #[inline]
    pub(crate) fn frame(&self) -> u64 {
        self.load(FRAME) & ((1 << FRAME_BITS) - 1)
    }

    /// The number of its slot for values, from 1; 0 for none.
    pub(crate) fn slot(&self) -> u16 {
        (self.load(FRAME) >> FRAME_BITS) as u16
    }

    /// Gives it a slot for good.
    pub(crate) fn set_slot(&self, slot: u16) {
        self.store(FRAME, self.frame() | u64::from(slot) << FRAME_BITS);
    }

    /// Begins a call.
    #[inline]
    pub(crate) fn begin(&self, frame: u64) {
        self.store(CALLS, self.calls() + 1);
        let slot = self.load(FRAME) >> FRAME_BITS << FRAME_BITS;
        self.store(FRAME, frame & ((1 << FRAME_BITS) - 1) | slot);
    }

    /// The call's own time begins.
    #[inline]
    pub(crate) fn start(&self, now: u64) {
        self.store(START, now);
    }

    /// Ends the active call; its ticks, and when it began.
    #[inline]
    pub(crate) fn end(&self, now: u64) -> (u64, u64) {
        let start = self.load(START);
        let ticks = now.saturating_sub(start);
        self.store(TICKS, self.ticks().wrapping_add(ticks));
        if ticks > self.longest() {
            self.store(LONGEST, ticks);
        }
        self.store(START, 0);
        (start, ticks)
    }

    /// Counts an object of a type.
    pub(crate) fn add_object(&self, bytes: u64) {
        self.store(CALLS, self.calls().wrapping_add(1));
        self.store(TICKS, self.ticks().wrapping_add(bytes));
    }

    #[inline]
    pub(crate) fn add_child_ticks(&self, ticks: u64) {
        self.store(CHILD_TICKS, self.child_ticks().wrapping_add(ticks));
    }

    /// Counts an exception, and removes the mark.
    pub(crate) fn add_exception(&self) {
        self.store(EXCEPTIONS, self.exceptions() + 1);
    }

    /// Marks the active call as being unwound.
    pub(crate) fn mark(&self, depth: u16) {
        self.store(EXCEPTIONS, self.exceptions() | u64::from(depth) << EXCEPTION_BITS);
    }

    /// The mark; 0 for none.
    pub(crate) fn marked(&self) -> u16 {
        (self.load(EXCEPTIONS) >> EXCEPTION_BITS) as u16
    }
}
