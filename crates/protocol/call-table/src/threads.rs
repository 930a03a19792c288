//! The threads and their trees.

use crate::layout::{SHARED_THREADS, THREAD_SECTION, THREAD_WORDS, THREADS, THREADS_TAKEN, section};
use crate::table::{NodeId, Table};
use core::sync::atomic::{AtomicU64, Ordering};

const STATE: usize = 0;
const SYSTEM_ID: usize = 1;
const ROOT: usize = 2;
pub(crate) const CURRENT: usize = 3;
pub(crate) const UNWINDS: usize = 4;
const BEGAN: usize = 5;
const ENDED: usize = 6;
const NAME_LENGTH: usize = 7;
const NAME: usize = 8;
const NAME_BYTES: usize = 64;

const RUNS: u64 = 1;
const HAS_ENDED: u64 = 2;
/// The thread of the calibration: not of the application.
const CALIBRATES: u64 = 3;

/// The number of a thread record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub u32);

/// A thread record.
#[derive(Clone, Copy)]
pub struct ThreadRecord<'a> {
    words: &'a [AtomicU64; THREAD_WORDS],
}

impl<'a> Table<'a> {
    /// A record for a new thread; `None` if all are taken. Once all are, a new thread shares the tree of one that has ended.
    pub fn begin_thread(&self, system_id: u32, now: u64) -> Option<ThreadIndex> {
        let taken = self.take(THREADS_TAKEN, 1) as usize;
        let (index, record) = match self.records().get(taken) {
            Some(words) => (taken, ThreadRecord { words }),
            None => self.records().iter().map(|words| ThreadRecord { words }).enumerate().find(|(_, record)| {
                record.words[STATE].compare_exchange(HAS_ENDED, RUNS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            })?,
        };
        if taken >= THREADS {
            self.count(SHARED_THREADS);
        }
        let index = index as u32;
        let (root, _) = self.child(NodeId(0), index)?;
        record.store(SYSTEM_ID, u64::from(system_id));
        record.store(ROOT, u64::from(root.0));
        record.store(CURRENT, u64::from(root.0));
        record.store(BEGAN, now);
        record.store(STATE, RUNS);
        Some(ThreadIndex(index))
    }

    /// The thread has ended.
    pub fn end_thread(&self, thread: ThreadIndex, now: u64) {
        if let Some(record) = self.thread(thread) {
            record.store(ENDED, now);
            record.store(STATE, HAS_ENDED);
        }
    }

    /// The record belongs to no thread of the application.
    pub fn is_for_calibration(&self, thread: ThreadIndex) {
        if let Some(record) = self.thread(thread) {
            record.store(STATE, CALIBRATES);
        }
    }

    /// A record.
    #[inline]
    pub fn thread(&self, thread: ThreadIndex) -> Option<ThreadRecord<'a>> {
        self.records().get(thread.0 as usize).map(|words| ThreadRecord { words })
    }

    /// The records of all threads of the application.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadIndex, ThreadRecord<'a>)> + use<'a> {
        let all = self.records().iter().zip(0..).map(|(words, index)| (ThreadIndex(index), ThreadRecord { words }));
        all.filter(|(_, record)| [RUNS, HAS_ENDED].contains(&record.load(STATE)))
    }

    fn records(&self) -> &'a [[AtomicU64; THREAD_WORDS]] {
        section(self.words, THREAD_SECTION, THREADS * THREAD_WORDS).as_chunks::<THREAD_WORDS>().0
    }
}

impl ThreadRecord<'_> {
    pub(crate) fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    pub(crate) fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Relaxed);
    }

    /// The system's id, in the target's namespace.
    pub fn system_id(&self) -> u64 {
        self.load(SYSTEM_ID)
    }

    /// The root of its tree.
    pub fn root(&self) -> NodeId {
        NodeId(self.load(ROOT) as u32)
    }

    /// The node of the innermost active call.
    pub fn current(&self) -> NodeId {
        NodeId(self.load(CURRENT) as u32)
    }

    /// Ticks of its beginning.
    pub fn began(&self) -> u64 {
        self.load(BEGAN)
    }

    /// Ticks of its end; `None` while it runs.
    pub fn ended(&self) -> Option<u64> {
        (self.load(STATE) == HAS_ENDED).then(|| self.load(ENDED))
    }

    /// Stores its name, cut off after 64 bytes.
    pub fn set_name(&self, name: &[u8]) {
        let name = name.get(..NAME_BYTES).unwrap_or(name);
        self.store(NAME_LENGTH, 0);
        for (at, bytes) in name.chunks(8).enumerate() {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
            self.store(NAME + at, u64::from_le_bytes(word));
        }
        self.store(NAME_LENGTH, name.len() as u64);
    }

    /// The bytes of its name, and how many they are.
    pub fn name(&self) -> ([u8; NAME_BYTES], usize) {
        let mut name = [0; NAME_BYTES];
        for (at, bytes) in name.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&self.load(NAME + at).to_le_bytes());
        }
        (name, usize::try_from(self.load(NAME_LENGTH)).unwrap_or(NAME_BYTES).min(NAME_BYTES))
    }
}
