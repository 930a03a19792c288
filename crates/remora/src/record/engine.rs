//! The two sampling engines behind one interface for the recording loop: step, check, end.

use super::engine_step::{EndReason, Ended, Kept, NotStarted, Step};
use super::event_pipe::EventPipe;
use super::plan::Plan;
use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::library;
use crate::output::{Destination, Spool};
use remora_attach::{Process, TargetPath};
use remora_collector::{NotAttached, Options, Session, Startup, WatchesExceptions};
use remora_terminal::duration::show;
use std::time::{Duration, Instant};

/// Timeout for the attach.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

fn options(plan: &Plan) -> Options {
    Options {
        event: plan.event,
        frequency: plan.frequency,
        signal_budget: plan.signal_budget,
        symbols: plan.symbols.clone(),
        timeout: ATTACH_TIMEOUT,
    }
}

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
    /// Whether exceptions are watched, as far as it was asked for.
    watches_exceptions: bool,
}

impl From<EventPipe> for Engine {
    fn from(session: EventPipe) -> Engine {
        Engine::EventPipe(Box::new(session))
    }
}

impl Engine {
    /// Attaches the agent. The spool is beside `output`.
    pub(crate) fn agent(process: &Process, plan: &Plan, output: &Destination) -> Result<Engine, NotStarted> {
        Engine::begun(plan, output, || Session::attach(process, library::FOR_RECORDINGS, &options(plan)))
    }

    /// Prepares a command whose runtime loads the agent at its start.
    pub(crate) fn prepare(plan: &Plan, target: &TargetArgs) -> Result<Startup, Failure> {
        let mut ourselves = Process::ourselves()?;
        ourselves.library_directory = target.library_directory.clone().map(TargetPath::from);
        Ok(Session::prepare(&ourselves, library::FOR_RECORDINGS, &options(plan), |name| std::env::var_os(name))?)
    }

    /// Lets that agent begin.
    pub(crate) fn at_startup(
        process: &Process,
        startup: Startup,
        plan: &Plan,
        output: &Destination,
    ) -> Result<Engine, NotStarted> {
        Engine::begun(plan, output, || Session::begin(process, startup, &options(plan)))
    }

    fn begun(
        plan: &Plan,
        output: &Destination,
        begin: impl FnOnce() -> Result<Session, NotAttached>,
    ) -> Result<Engine, NotStarted> {
        let spool = Spool::create(output)?;
        match begin() {
            Ok(mut session) => {
                if plan.exceptions {
                    session.watch_exceptions(true);
                }
                let watches_exceptions = plan.exceptions;
                let agent =
                    Agent { session, spool, begun: Instant::now(), frequencies: Vec::new(), watches_exceptions };
                Ok(Engine::Agent(Box::new(agent)))
            }
            Err(NotAttached { error, facts }) => {
                // Nothing was recorded, so the spool is empty.
                spool.discard();
                Err(NotStarted { failure: error.into(), facts })
            }
        }
    }

    /// Receives new samples, waiting at most `timeout`.
    pub(crate) fn step(&mut self, timeout: Duration) -> Result<Step, Failure> {
        match self {
            Engine::Agent(agent) => {
                let progress = agent.session.step(timeout)?;
                let why = if progress.is_cut { EndReason::Limit } else { EndReason::TargetEnded };
                let (samples, lost, ended) = (progress.samples, progress.lost, progress.ended.map(why));
                Ok(Step { samples, lost, rate: Some(progress.effective_rate), ended })
            }
            Engine::EventPipe(session) => session.step(timeout),
        }
    }

    /// Changes the sampling frequency. Returns the effect.
    pub(crate) fn set_frequency(&mut self, hertz: u32) -> String {
        let Engine::Agent(agent) = self else { return "the runtime's own sampler has a fixed frequency".to_owned() };
        agent.session.set_frequency(hertz);
        let after = show(u64::try_from(agent.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        agent.frequencies.push(format!("the frequency was changed to {hertz} Hz after {after}"));
        format!("sampling at {hertz} Hz")
    }

    /// Begins to record exceptions, or ends it; [`Engine::effect`] has the effect. Returns why that is impossible.
    pub(crate) fn switch_exceptions(&mut self) -> Option<String> {
        let Engine::Agent(agent) = self else {
            return Some("the runtime's own sampler records no exceptions".to_owned());
        };
        agent.watches_exceptions = !agent.watches_exceptions;
        agent.session.watch_exceptions(agent.watches_exceptions);
        None
    }

    /// The effect of a switch, once it is known.
    pub(crate) fn effect(&mut self) -> Option<String> {
        let Engine::Agent(agent) = self else { return None };
        let answer = agent.session.exceptions_answer()?;
        Some(match answer {
            WatchesExceptions::On => "exceptions are recorded".to_owned(),
            WatchesExceptions::Off => "exceptions are not recorded any more".to_owned(),
            WatchesExceptions::Refused(code) => {
                agent.watches_exceptions = !agent.watches_exceptions;
                format!("the runtime refused the switch of exceptions with {code}")
            }
        })
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
                    without_lines: finished.without_lines,
                    first_sample: finished.first_sample,
                    target_ended: finished.target_ended,
                    failure: finished.failure.map(Failure::from),
                }
            }
            Engine::EventPipe(session) => session.end(hurried),
        }
    }
}
