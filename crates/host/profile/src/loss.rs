//! What was taken, what arrived, and why the rest did not. The three always add up.

/// Why a sample, or a part of it, is missing. The ids are permanent; an obsolete one is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The ring between the signal handlers and the agent's thread was full.
    RingFull,
    /// The transport to the recording process was full.
    TransportFull,
    /// The target ended before the sample was handed over.
    TargetEnded,
    /// The sampler could not get the thread to answer (signal blocked, or the thread ended).
    ThreadSilent,
    /// The runtime's own engine dropped events (EventPipe).
    RuntimeDropped,
    /// The sample arrived damaged.
    Damaged,
    /// It was taken, is in no other account, and the target did not end: a hole in Remora's own account.
    Unaccounted,
}

impl LossCause {
    /// Every cause, in the order of ids.
    pub const ALL: [LossCause; 7] = [
        LossCause::RingFull,
        LossCause::TransportFull,
        LossCause::TargetEnded,
        LossCause::ThreadSilent,
        LossCause::RuntimeDropped,
        LossCause::Damaged,
        LossCause::Unaccounted,
    ];

    /// The permanent id, for files.
    pub fn id(self) -> u32 {
        match self {
            LossCause::RingFull => 1,
            LossCause::TransportFull => 2,
            LossCause::TargetEnded => 3,
            LossCause::ThreadSilent => 4,
            LossCause::RuntimeDropped => 5,
            LossCause::Damaged => 6,
            LossCause::Unaccounted => 7,
        }
    }

    /// The cause with this id.
    pub fn from_id(id: u32) -> Option<LossCause> {
        LossCause::ALL.into_iter().find(|cause| cause.id() == id)
    }

    /// The name in JSON and in counts: `ring-full`.
    pub fn name(self) -> &'static str {
        match self {
            LossCause::RingFull => "ring-full",
            LossCause::TransportFull => "transport-full",
            LossCause::TargetEnded => "target-ended",
            LossCause::ThreadSilent => "thread-silent",
            LossCause::RuntimeDropped => "runtime-dropped",
            LossCause::Damaged => "damaged",
            LossCause::Unaccounted => "unaccounted",
        }
    }

    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            LossCause::RingFull => "the ring in the target was full",
            LossCause::TransportFull => "the recording process did not keep up",
            LossCause::TargetEnded => "the target ended before they were handed over",
            LossCause::ThreadSilent => "the thread did not answer",
            LossCause::RuntimeDropped => "the runtime dropped them",
            LossCause::Damaged => "they arrived damaged",
            LossCause::Unaccounted => "nobody knows where they went: a defect of Remora, please report it",
        }
    }
}

/// The account of one recording: `taken == delivered + sum of lost`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Samples that were begun.
    pub taken: u64,
    /// Samples that are in the profile.
    pub delivered: u64,
    /// Samples that are not, by cause; causes without a loss may be absent.
    pub lost: Vec<(LossCause, u64)>,
    /// Delivered samples whose stack was cut at the depth limit.
    pub truncated_stacks: u64,
    /// Delivered samples whose walk ended before the thread's outermost frame for want of a valid frame pointer.
    pub broken_stacks: u64,
    /// Delivered samples with a caller put back that frameless code hides.
    pub repaired_stacks: u64,
    /// Delivered samples with callers possibly missing: for some code, the place of its caller was unknown.
    pub incomplete_stacks: u64,
    /// Delivered samples whose stack was taken over from the thread's previous sample, since it had not run in between.
    pub repeated_stacks: u64,
    /// Threads that gave no sample because they had moved on: running when the sampler saw them, blocked when the signal arrived, or the
    /// reverse. The other samples of the same threads carry their time.
    pub moved_on: u64,
    /// Signals that arrived and were not samples: of others, or of a thread no longer followed.
    pub stray_signals: u64,
}

impl Loss {
    /// All samples that are not in the profile.
    pub fn total_lost(&self) -> u64 {
        self.lost.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Adds to what was lost by `cause`.
    pub fn lose(&mut self, cause: LossCause, count: u64) {
        if count == 0 {
            return;
        }
        match self.lost.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, total)) => *total = total.saturating_add(count),
            None => self.lost.push((cause, count)),
        }
    }

    /// Whether the account adds up.
    pub fn adds_up(&self) -> bool {
        self.taken == self.delivered.saturating_add(self.total_lost())
    }
}
