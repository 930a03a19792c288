//! What a sampling engine reports: its progress, why the recording ended, and the result.

use crate::failure::Failure;
use crate::output::{Spool, StreamSpool};
use remora_collector::NoSymbols;
use remora_profile::Profile;
use remora_receipt::Facts;

/// Why the recording ended. Its names are part of the result in JSON.
#[derive(Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum EndReason {
    /// The duration is over.
    TimeIsOver,
    /// The user requested it.
    Asked,
    /// The process ended or replaced its program.
    TargetEnded(String),
    /// It reached its memory or disk limit.
    Limit(String),
    /// The data from the process can no longer be decoded.
    Unreadable(String),
    /// The disk is nearly full; the recorded data fits.
    DiskFull,
    /// An error.
    Failed(Failure),
}

/// The state of a recording after a step.
#[derive(Debug)]
pub(crate) struct Step {
    /// Samples so far.
    pub(crate) samples: u64,
    /// Samples lost so far.
    pub(crate) lost: u64,
    /// Samples a second.
    pub(crate) rate: Option<f64>,
    /// Why the recording has ended.
    pub(crate) ended: Option<EndReason>,
}

/// The result of an engine.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The recording.
    pub(crate) profile: Profile,
    /// For the receipt.
    pub(crate) facts: Facts,
    /// The spool that has the recording until it is written.
    pub(crate) kept: Kept,
    /// Managed frames in all samples, and how many of them have a name.
    pub(crate) managed_frames: Option<(u64, u64)>,
    /// The files of assemblies without lines, and why.
    pub(crate) without_lines: Vec<(String, NoSymbols)>,
    /// From the attach request to the first sample, nanoseconds.
    pub(crate) first_sample: Option<u64>,
    /// Whether the process ended or replaced its program before the engine had detached.
    pub(crate) target_ended: bool,
    /// An error while ending.
    pub(crate) failure: Option<Failure>,
}

/// A recording that did not start.
#[derive(Debug)]
pub(crate) struct NotStarted {
    /// Why.
    pub(crate) failure: Failure,
    /// Facts about what may be in the target anyway.
    pub(crate) facts: Option<Box<Facts>>,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> NotStarted {
        NotStarted { failure, facts: None }
    }
}

/// The data spooled while recording.
#[derive(Debug)]
pub(crate) enum Kept {
    /// A recording, complete up to its last append.
    Recording(Spool),
    /// The sampler's stream, complete.
    Stream(StreamSpool),
}
