//! `remora record`: attaches, samples, detaches, and verifies that nothing is left.
//!
//! Flags, output, disk space and preconditions are checked before the target is contacted.
//! From then on a spool on disk has the recording, so a crash of this process loses nothing of it.

pub(crate) mod child;
mod engine;
mod engine_step;
mod event_pipe;
mod finish;
mod plan;
mod processor;
mod progress;
mod result;
mod snapshots;
mod traces;
mod without_lines;

use crate::args::{EngineChoice, RecordArgs};
use crate::baseline::Baseline;
use crate::console::note;
use crate::detach_wait::wait_for_an_earlier_one;
use crate::failure::Failure;
use crate::instance_lock::InstanceLock;
use crate::library;
use crate::output::Destination;
use crate::preconditions::{Obstacle, examine, obstacle};
use crate::stop::{Input, Stop, StopRequest};
use crate::target::{choose, unless_it_ended};
use child::{Child, Missed};
use engine::Engine;
use engine_step::{EndReason, NotStarted, Step};
use event_pipe::{EventPipe, InPlaceOf};
use finish::{End, Finish};
use plan::Plan;
use processor::Processor;
use progress::{Numbers, Progress};
use remora_attach::{Process, Slot, TargetPath, check_address_space};
use remora_collector::Startup;
use remora_receipt::Facts;
use snapshots::Snapshots;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use traces::Traces;

/// Wait for samples between two checks whether the recording should end.
const STEP: Duration = Duration::from_millis(50);
/// Time between two writes to the spool.
const SPOOL_PAUSE: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let plan = Plan::resolve(args)?;
    plan.check_named()?;
    let input = match plan.duration {
        _ if !args.command.is_empty() => Input::Unheard,
        Some(_) => Input::WithDuration,
        None => Input::Endless,
    };
    let mut stop = Stop::listen(input).map_err(Failure::Signals)?;
    if !args.command.is_empty() {
        plan.check_unnamed()?;
    }
    let startup = plan.from_start.then(|| Engine::prepare(&plan, &args.target)).transpose()?;
    let variables = startup.as_ref().map(Startup::variables).unwrap_or_default();
    let mut child = Child::start(&args.command, plan.command_prints(), variables)?;
    let begun = begin(args, &plan, (&mut child, startup), &mut stop);
    let Begun { process, finish, mut engine, mut processor, unrecorded, _hold } = match (begun, child.as_mut()) {
        (Ok(begun), _) => begun,
        (Err(failure), Some(child)) => return Err(child.without_us(failure, Missed::Recording, || stop.is_signalled())),
        (Err(failure), None) => return Err(failure),
    };
    let ends_by = match (stop.by_enter(), &engine) {
        _ if child.is_some() => "Ctrl-C ends it and the command",
        (false, _) => "Ctrl-C ends it",
        (true, Engine::EventPipe(_)) => "Enter or Ctrl-C ends it",
        (true, Engine::Agent(..)) => {
            "Enter or Ctrl-C ends it; before Enter, a number sets the frequency, x switches exceptions, h shows the heap, +PATTERN traces methods"
        }
    };
    note(&format!(
        "recording {} (process {}) into {}; {ends_by}",
        process.name(),
        process.pid,
        finish.output.destination
    ));
    if plan.exceptions && matches!(engine, Engine::EventPipe(_)) {
        note("the runtime's own sampler records no exceptions");
    }
    // A command prints to the same terminal: a line that is overwritten in place would end up in its output.
    let progress = Progress::new(plan.duration, child.is_none());
    let traces = Traces::new(args.target.library_directory.clone());
    let mut beside = Beside { traces, ..Beside::default() };
    let why = sample(&mut engine, &plan, &mut stop, (&mut processor, progress), (&process, &mut beside));
    // Ctrl-C goes to the command, too, and may end it first.
    let why = match why {
        EndReason::TargetEnded(_) if child.is_some() && stop.is_signalled() => EndReason::Asked,
        why => why,
    };
    finish.run(engine, End { why, processor, child, unrecorded, beside }, stop.hurried())
}

/// What the user has asked for while the recording goes on.
#[derive(Debug, Default)]
struct Beside {
    snapshots: Snapshots,
    traces: Traces,
}

/// A recording that has begun.
struct Begun<'a> {
    process: Process,
    finish: Finish<'a>,
    engine: Engine,
    processor: Processor,
    /// For a started command: how long it ran unrecorded.
    unrecorded: Option<String>,
    _hold: InstanceLock,
}

/// Chooses the process, or waits for that of the command, and attaches.
fn begin<'a>(
    args: &RecordArgs,
    plan: &'a Plan,
    (child, mut startup): (&mut Option<Child>, Option<Startup>),
    stop: &mut Stop,
) -> Result<Begun<'a>, Failure> {
    let process = match (child.as_mut(), &mut startup) {
        (Some(child), Some(startup)) => child.process_of(startup, stop)?,
        (Some(child), None) => {
            let mut process = child.process(stop)?;
            process.library_directory = args.target.library_directory.clone().map(TargetPath::from);
            process
        }
        (None, _) => {
            let process = choose(&args.target, &args.unseen)?;
            wait_for_an_earlier_one(&process, stop)?;
            process
        }
    };
    let way = match startup {
        Some(startup) => Way::Startup(Box::new(startup)),
        None => Way::Attach(choose_engine(plan, &process).map_err(|failure| unless_it_ended(&process, failure))?),
    };
    let output = plan.output_for(&process)?;
    let hold = InstanceLock::take(&process)?;
    let before = match way {
        Way::Startup(_) => Baseline::of_a_starting(&process),
        Way::Attach(_) => Baseline::of(&process),
    }?;
    stop.attach_begins()?;
    let processor = Processor::watch(process.pid);
    let (attached, unrecorded) = match way {
        Way::Startup(startup) => (Engine::at_startup(&process, *startup, plan, &output.destination), None),
        Way::Attach(choice) => {
            let attached = attach(&process, plan, choice, &output.destination);
            (attached, child.as_ref().map(Child::unrecorded))
        }
    };
    let finish = Finish { plan, output, before };
    match attached {
        Ok(engine) => Ok(Begun { process, finish, engine, processor, unrecorded, _hold: hold }),
        Err(NotStarted { failure, facts }) => {
            // Ctrl-C in a terminal ends the command, too.
            let failure = if stop.is_signalled() { Failure::Interrupted } else { failure };
            Err(finish.of_nothing(unless_it_ended(&process, failure), facts))
        }
    }
}

/// Chooses the engine, before the target is contacted.
fn choose_engine(plan: &Plan, process: &Process) -> Result<Chosen, Failure> {
    let checks = examine(process, library::FOR_RECORDINGS, Slot::Beside)?;
    match (obstacle(process, &checks), plan.engine) {
        (None, chosen) => Ok(Chosen { engine: chosen, in_place_of: None }),
        (Some(Obstacle { agent_only: true, .. }), EngineChoice::EventPipe) => {
            Ok(Chosen { engine: EngineChoice::EventPipe, in_place_of: None })
        }
        (Some(Obstacle { agent_only: true, failure, .. }), EngineChoice::Auto) => {
            Ok(Chosen { engine: EngineChoice::EventPipe, in_place_of: Some(fallback(&failure, None)) })
        }
        (Some(Obstacle { failure, .. }), _) => Err(failure),
    }
}

/// How the recording begins.
enum Way {
    /// The runtime of a command loads the agent at its start.
    Startup(Box<Startup>),
    /// Attaches to a runtime that has started.
    Attach(Chosen),
}

/// An engine, and the one that it replaces.
struct Chosen {
    engine: EngineChoice,
    in_place_of: Option<InPlaceOf>,
}

/// Attaches. If the agent fails for a reason that the checks could not find, falls back to the runtime's sampler.
fn attach(process: &Process, plan: &Plan, chosen: Chosen, beside: &Destination) -> Result<Engine, NotStarted> {
    let event_pipe = |in_place_of| EventPipe::start(process, plan, beside, in_place_of);
    match chosen.engine {
        EngineChoice::EventPipe => event_pipe(chosen.in_place_of).map(Engine::from),
        EngineChoice::Agent => Engine::agent(process, plan, beside),
        EngineChoice::Auto => match Engine::agent(process, plan, beside) {
            Err(NotStarted { failure, facts }) if failure.concerns_the_agent_only() => {
                let mut space = check_address_space(process);
                if space.has_failed() {
                    space.found = format!("{failure}; {}", space.found);
                    return Err(NotStarted { failure: Failure::precondition(process, space), facts });
                }
                event_pipe(Some(fallback(&failure, facts))).map(Engine::from)
            }
            attached => attached,
        },
    }
}

/// Reports the fallback at once; the recording's notes have the reason, too.
fn fallback(failure: &Failure, facts: Option<Box<Facts>>) -> InPlaceOf {
    note(&format!("{}; using the runtime's own sampler instead; the notes below list its limits", failure.line()));
    InPlaceOf { because: failure.to_string(), facts }
}

/// Records until the recording ends; returns why.
fn sample(
    engine: &mut Engine,
    plan: &Plan,
    stop: &mut Stop,
    (processor, mut progress): (&mut Processor, Progress),
    (process, beside): (&Process, &mut Beside),
) -> EndReason {
    let begun = Instant::now();
    let mut spooled = begun;
    loop {
        let left = plan.duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        if let Some(effect) = engine.effect() {
            progress.note(&effect);
        }
        let Step { samples, lost, rate, ended } = match engine.step(left.map_or(STEP, |left| left.min(STEP))) {
            Ok(step) => step,
            Err(failure) => return EndReason::Failed(failure),
        };
        let wall = plan.event == remora_profile::Event::Wall;
        let share = processor.share();
        progress.show(|| Numbers { samples, lost, rate, processor: share, wall });
        if spooled.elapsed() >= SPOOL_PAUSE {
            spooled = Instant::now();
            match engine.keep() {
                Err(failure) => return EndReason::Failed(failure),
                Ok(false) => return EndReason::DiskFull,
                Ok(true) => {}
            }
        }
        match ended {
            Some(why) => return why,
            None if left.is_some_and(|left| left.is_zero()) => return EndReason::TimeIsOver,
            None => {}
        }
        match stop.wish() {
            Some(StopRequest::End) => return EndReason::Asked,
            Some(StopRequest::Frequency(hertz)) => progress.note(&engine.set_frequency(hertz)),
            Some(StopRequest::Exceptions) => engine.switch_exceptions().iter().for_each(|why| progress.note(why)),
            Some(StopRequest::Heap) => progress.note(&beside.snapshots.take(process)),
            Some(StopRequest::Trace(line)) => progress.note(&beside.traces.take(process, &line)),
            Some(StopRequest::EndTrace) => {
                progress.note(beside.traces.reply_to_end());
                beside.traces.ask_to_end();
            }
            None => {}
        }
    }
}
