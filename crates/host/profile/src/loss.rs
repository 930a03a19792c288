//! The account of samples: taken, delivered, and lost by cause. It always adds up.

/// Why a sample, or a part of it, is missing. The ids are permanent; an obsolete id is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The ring between the signal handlers and the agent's worker was full.
    RingFull,
    /// The transport to the recorder was full.
    TransportFull,
    /// The target ended before the sample was sent.
    TargetEnded,
    /// The thread did not run the sampler's signal handler (signal blocked, or the thread ended).
    ThreadSilent,
    /// The runtime's own engine dropped events (EventPipe).
    RuntimeDropped,
    /// The sample arrived damaged.
    Damaged,
    /// A taken sample in no other count although nothing ended early: a gap in Remora's account.
    Unaccounted,
    /// The recording was cut short, or lost its agent, before the sample was read.
    CutShort,
}

impl LossCause {
    /// Every cause, in the order of ids.
    pub const ALL: [LossCause; 8] = [
        LossCause::RingFull,
        LossCause::TransportFull,
        LossCause::TargetEnded,
        LossCause::ThreadSilent,
        LossCause::RuntimeDropped,
        LossCause::Damaged,
        LossCause::Unaccounted,
        LossCause::CutShort,
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
            LossCause::CutShort => 8,
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
            LossCause::CutShort => "cut-short",
        }
    }

    /// Its meaning, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            LossCause::RingFull => "the ring in the target was full",
            LossCause::TransportFull => "the recording process did not keep up",
            LossCause::TargetEnded => "the target ended before they were handed over",
            LossCause::ThreadSilent => "the thread did not answer",
            LossCause::RuntimeDropped => "the runtime dropped them",
            LossCause::Damaged => "they arrived damaged",
            LossCause::CutShort => "the recording was cut short before they were read",
            LossCause::Unaccounted => "nobody knows where they went: a defect of Remora, please report it",
        }
    }
}

/// The account of one recording: `taken == delivered + sum of lost`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Samples started.
    pub taken: u64,
    /// Samples in the profile.
    pub delivered: u64,
    /// Samples not in it, by cause; causes without a loss may be absent.
    pub lost: Vec<(LossCause, u64)>,
    /// Delivered samples whose stack was cut at the depth limit.
    pub truncated_stacks: u64,
    /// Delivered samples whose stack walk ended before the thread's outermost frame, without a valid frame pointer.
    pub broken_stacks: u64,
    /// Delivered samples with a restored caller, which frameless code had hidden.
    pub repaired_stacks: u64,
    /// Delivered samples with possibly missing callers: for some code, the place of its caller was unknown.
    pub incomplete_stacks: u64,
    /// Delivered samples that reuse the stack of the thread's previous sample, since the thread had not run in between.
    pub repeated_stacks: u64,
    /// Threads that gave no sample because their state changed: running when the sampler saw them, blocked when the signal arrived, or the
    /// reverse. The other samples of the same threads carry their time.
    pub moved_on: u64,
    /// Signals that were no samples: from other senders, or for a thread no longer sampled.
    pub stray_signals: u64,
}

impl Loss {
    /// All samples missing from the profile.
    pub fn total_lost(&self) -> u64 {
        self.lost.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Adds to the samples lost by `cause`.
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
