//! The two sampling engines behind one interface for the recording loop: step, check, end.

use super::event_pipe::EventPipe;
use super::finish::Why;
use super::plan::Plan;
use crate::failure::Failure;
use crate::library;
use crate::output::{Destination, Spool, StreamSpool};
use remora_attach::Process;
use remora_collector::{NotAttached, Options, Session};
use remora_profile::Profile;
use remora_receipt::Facts;
use remora_terminal::duration::show;
use std::time::{Duration, Instant};

/// Timeout for the attach.
const ATTACH_PATIENCE: Duration = Duration::from_secs(5);

/// An attached engine.
pub(crate) enum Engine {
    /// Remora's agent.
    Agent(Box<Agent>),
    /// The runtime's own sampler.
    EventPipe(Box<EventPipe>),
}

/// Remora's agent, its spool, and the frequency changes so far.
pub(crate) struct Agent {
    session: Session,
    spool: Spool,
    begun: Instant,
    frequencies: Vec<String>,
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
    pub(crate) ended: Option<Why>,
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

impl From<EventPipe> for Engine {
    fn from(session: EventPipe) -> Engine {
        Engine::EventPipe(Box::new(session))
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

impl Engine {
    /// Attaches the agent. The spool is beside `output`.
    pub(crate) fn agent(process: &Process, plan: &Plan, output: &Destination) -> Result<Engine, NotStarted> {
        let options = Options {
            event: plan.event,
            frequency: plan.frequency,
            signal_budget: plan.signal_budget,
            timeout: ATTACH_PATIENCE,
        };
        let spool = Spool::create(output)?;
        match Session::attach(process, library::FOR_RECORDINGS, &options) {
            Ok(session) => {
                let agent = Agent { session, spool, begun: Instant::now(), frequencies: Vec::new() };
                Ok(Engine::Agent(Box::new(agent)))
            }
            Err(NotAttached { error, facts }) => {
                // Nothing was recorded, so the spool is empty.
                spool.discard();
                Err(NotStarted { failure: error.into(), facts })
            }
        }
    }

    /// Receives new samples, waiting at most `patience`.
    pub(crate) fn step(&mut self, patience: Duration) -> Result<Step, Failure> {
        match self {
            Engine::Agent(agent) => {
                let progress = agent.session.step(patience)?;
                let why = if progress.is_cut { Why::Limit } else { Why::TargetEnded };
                let (samples, lost, ended) = (progress.samples, progress.lost, progress.ended.map(why));
                Ok(Step { samples, lost, rate: Some(progress.effective_rate), ended })
            }
            Engine::EventPipe(session) => session.step(patience),
        }
    }

    /// Changes the sampling frequency. The runtime's own sampler has a fixed one.
    pub(crate) fn set_frequency(&mut self, hertz: u32) {
        if let Engine::Agent(agent) = self {
            agent.session.set_frequency(hertz);
            let after = show(u64::try_from(agent.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            agent.frequencies.push(format!("the frequency was changed to {hertz} Hz after {after}"));
        }
    }

    /// Spools new data; returns whether the disk has room for more. (The sampler's stream is spooled as it arrives.)
    pub(crate) fn keep(&mut self) -> Result<bool, Failure> {
        match self {
            Engine::Agent(agent) => {
                agent.spool.append(agent.session.profile())?;
                Ok(!agent.spool.is_low())
            }
            Engine::EventPipe(session) => Ok(!session.is_low()),
        }
    }

    /// Ends the engine and waits until nothing of it is left in the process, up to the timeout or a second interrupt.
    pub(crate) fn end(self, hurried: impl Fn() -> bool) -> Ended {
        match self {
            Engine::Agent(agent) => {
                let Agent { session, spool, frequencies, .. } = *agent;
                let mut finished = session.detach(hurried);
                finished.profile.meta.notes.extend(frequencies);
                Ended {
                    profile: finished.profile,
                    facts: finished.facts,
                    kept: Kept::Recording(spool),
                    managed_frames: Some(finished.managed_frames),
                    first_sample: finished.first_sample,
                    target_ended: finished.target_ended,
                    failure: finished.failure.map(Failure::from),
                }
            }
            Engine::EventPipe(session) => session.end(hurried),
        }
    }
}
