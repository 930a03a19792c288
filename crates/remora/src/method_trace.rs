//! `remora trace -p`: traces single methods of a running process by ReJIT.
//!
//! The agent stays in the process: the command says so first, and asks.

mod call;
mod controls;
mod nesting;
mod recent_rate;
mod result;

use crate::args::trace::TraceArgs;
use crate::console::{StatusLine, counted, note};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::instance_lock::{InstanceLock, is_held_by_the_parent};
use crate::library;
use crate::preconditions::{examine, obstacle};
use crate::stop::{Input, Stop};
use crate::target::{choose, label, unless_it_ended};
use controls::Controls;
use recent_rate::RecentRate;
use remora_attach::{Process, Slot, Subject};
use remora_collector::{MethodTrace, has_inert_tracer};
use remora_wire::method_trace::{Ended, TraceRequest, memory::MOST_METHODS};
use result::{EndReason, Outcome};
use rustix::process::{Pid, getppid};
use std::io::{self, BufRead, IsTerminal};
use std::time::{Duration, Instant};

/// Time limit of the attach.
const ATTACH_TIME_LIMIT: Duration = Duration::from_secs(5);
/// Wait for messages between two looks.
const STEP: Duration = Duration::from_millis(50);
/// Methods that need no `--yes`.
const FEW_METHODS: u32 = 100;
/// Calls slower than this are recorded if nothing else is said.
const SLOW: Duration = Duration::from_millis(10);
/// What the user must know first.
pub(crate) const STAYS: &str = "Remora's agent for traces will stay in the process until that ends: .NET does not detach a profiler that has \
                                changed methods. After the trace it does nothing, and has no thread";

/// Runs the command.
pub(crate) fn run(args: &TraceArgs) -> Result<Exit, Failure> {
    let input = if args.duration.is_some() { Input::WithDuration } else { Input::Endless };
    let process = choose(&args.target, &args.unseen)?;
    let is_there = has_inert_tracer(process.pid);
    check(&process, is_there)?;
    // A recording has asked already, and shows the status line.
    let recorder = is_held_by_the_parent(&process).then(getppid).flatten();
    if !is_there && recorder.is_none() {
        confirm(args, &process)?;
    }
    let mut stop = Stop::listen(input).map_err(Failure::Signals)?;
    let _hold = InstanceLock::take(&process)?;
    stop.attach_begins()?;
    let traced = trace(args, &process, &mut stop, recorder);
    traced.map_err(|failure| unless_it_ended(&process, failure))
}

fn trace(args: &TraceArgs, process: &Process, stop: &mut Stop, recorder: Option<Pid>) -> Result<Exit, Failure> {
    let mut trace = MethodTrace::attach(process, library::FOR_TRACES, &request(args), ATTACH_TIME_LIMIT)?;
    let (methods, found) = trace.matched()?;
    if methods == 0 {
        return Err(Failure::NoMethodMatches(format!("{}: {}", args.methods.join(", "), why_none(&trace, found))));
    }
    if found > FEW_METHODS && !args.unseen.yes {
        return Err(Failure::TooManyMethods(found));
    }
    trace.begin()?;
    let begun = Instant::now();
    let ends_by = if recorder.is_some() {
        "t and Enter end it"
    } else if stop.by_enter() {
        "Enter or Ctrl-C ends it; before Enter, +PATTERN adds methods, -PATTERN takes them out, a time sets --slower-than"
    } else {
        "Ctrl-C ends it"
    };
    note(&format!("tracing {} of {}; {ends_by}", counted(methods.into(), "method"), label(process)));
    let mut controls = Controls::new(if args.unseen.yes { u32::MAX } else { FEW_METHODS });
    let why = watch(args, &mut trace, (stop, &mut controls), (begun, recorder))?;
    let lasted = begun.elapsed();
    let ended = trace.end()?;
    // A change and the end can come together.
    controls.report(&mut trace, &mut StatusLine::hidden());
    let why = match (why, ended) {
        (EndReason::Asked, Some((Ended::TooManyCalls, _))) => EndReason::TooManyCalls,
        (why, _) => why,
    };
    let changes = controls.json();
    Outcome { args, process, trace: &trace, found, lasted, why, changes }.print()?;
    match (why, ended) {
        (EndReason::TargetEnded, _) => {
            Err(Failure::TargetEnded("the target ended during the trace; what is shown is complete until then".into()))
        }
        (_, Some((_, code))) if code.0 != 0 => Err(Failure::NotRestored(code.to_string())),
        (_, None) => Err(Failure::NotRestored("the agent did not say that it has".into())),
        _ => Ok(Exit::Done),
    }
}

/// Until somebody or something ends the trace.
fn watch(
    args: &TraceArgs,
    trace: &mut MethodTrace,
    (stop, controls): (&mut Stop, &mut Controls),
    (begun, recorder): (Instant, Option<Pid>),
) -> Result<EndReason, Failure> {
    let mut status = if recorder.is_some() { StatusLine::hidden() } else { StatusLine::new() };
    let mut rate = RecentRate::new();
    loop {
        let goes_on = trace.poll(STEP)?;
        let later = trace.take_later();
        if later > 0 {
            status.clear();
            note(&format!("tracing {} more, of an assembly that was loaded now", counted(later.into(), "method")));
        }
        // A killed recorder cannot end it.
        let is_alone = recorder.is_some() && getppid() != recorder;
        if is_alone || controls.look(trace, stop, &mut status) {
            return Ok(EndReason::Asked);
        }
        if trace.stopped() == Some(Ended::TooManyCalls) {
            return Ok(EndReason::TooManyCalls);
        }
        if !goes_on {
            return Ok(EndReason::TargetEnded);
        }
        if args.duration.is_some_and(|duration| begun.elapsed() >= duration) {
            return Ok(EndReason::TimeIsOver);
        }
        if args.limit.is_some_and(|limit| trace.records_seen() >= u64::from(limit)) {
            return Ok(EndReason::Limit);
        }
        if !controls.is_open() {
            status.show(&result::status(trace, &mut rate, begun.elapsed()));
        }
    }
}

fn request(args: &TraceArgs) -> TraceRequest {
    let every = args.arguments || args.limit.is_some();
    let slower_than = args.slower_than.unwrap_or(if every { Duration::ZERO } else { SLOW });
    TraceRequest {
        patterns: args.methods.clone(),
        slower_than: u64::try_from(slower_than.as_nanos()).unwrap_or(u64::MAX),
        records: args.limit.map_or(u64::MAX, u64::from),
        arguments: args.arguments,
        most_methods: MOST_METHODS as u32,
        most_calls: args.most_calls,
        most_late: if args.unseen.yes { u32::MAX } else { FEW_METHODS },
    }
}

/// Checks the process before anything is sent. An inert agent of an earlier trace holds the main profiler's slot, which is fine.
fn check(process: &Process, is_there: bool) -> Result<(), Failure> {
    let slot = if is_there { Slot::Beside } else { Slot::Main };
    let mut checks = examine(process, library::FOR_TRACES, slot)?;
    if is_there {
        checks.retain(|check| !matches!(check.subject, Subject::ProfilerSlot));
    }
    match obstacle(process, &checks) {
        Some(found) => Err(beside_another(found.failure)),
        None => Ok(()),
    }
}

/// What is still possible beside another main profiler.
fn beside_another(mut failure: Failure) -> Failure {
    if let Failure::Precondition { subject: Subject::ProfilerSlot, remedies, .. } = &mut failure {
        *remedies = crate::failure::Remedies::Text(
            "`remora record -p PID` works beside it and shows where time goes, but not single calls; \
             start the program without the other profiler to trace methods",
        );
    }
    failure
}

/// Says that the agent stays, and asks.
fn confirm(args: &TraceArgs, process: &Process) -> Result<(), Failure> {
    note(&format!("{}: {STAYS}", label(process)));
    if args.unseen.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::NotConfirmed);
    }
    note("trace it? [y/N]");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Failure::NotConfirmed) }
}

fn why_none(trace: &MethodTrace, found: u32) -> String {
    match trace.untraceable().first() {
        Some((name, why)) if found == 1 => format!("{name} cannot be traced: {why}"),
        Some((name, why)) => format!("none of {found} can be traced, for example {name}: {why}"),
        None => "no loaded module has a method of that name".into(),
    }
}
