//! `remora trace -- COMMAND`: counts and times every call of chosen methods, from the first managed code on.
//!
//! The command runs as it would without us: its standard input, Ctrl-C and its exit status are its own. The runtime never lets the tracer
//! detach, so the end of the command is the end of the trace.

mod allocated;
mod format;
mod plan;
mod result;
mod tree;

use crate::args::trace::TraceArgs;
use crate::console::note;
use crate::exit::{Exit, of_command};
use crate::failure::Failure;
use crate::library;
use crate::record::child::{Child, Missed};
use crate::stop::{Input, Stop};
use plan::{Plan, TraceOutput};
use remora_attach::{Process, TargetPath};
use remora_calls::{About, Calls, Losses};
use remora_collector::{Startup, Tracing, shown_runtime};
use remora_terminal::grouped;
use result::Outcome;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two checks whether the command has ended.
const STEP: Duration = Duration::from_millis(20);
/// How long a command may take to end after Ctrl-C, which it gets, too.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let plan = Plan::resolve(args)?;
    let reserves = plan.reserve()?;
    let mut stop = Stop::listen(Input::Unheard).map_err(Failure::Signals)?;
    stop.second_is_heard();
    let mut ourselves = Process::ourselves()?;
    ourselves.library_directory = args.target.library_directory.clone().map(TargetPath::from);
    let known = |name: &str| std::env::var_os(name);
    note("the hooks stay in the process until it ends: .NET lets no profiler with hooks detach");
    let startup = Startup::prepare_tracing(&ourselves, library::FOR_TRACES, &plan.order, known)?;
    let mut child = Child::start(&args.command, plan.command_prints(), startup.variables())?.ok_or(no_command())?;
    let begun = begin(&plan, &mut child, startup, &mut stop);
    let Begun { process, outputs, started, tracing } = match begun {
        Ok(begun) => begun,
        Err(failure) => return Err(child.without_us(failure, Missed::Trace, || stop.is_signalled())),
    };
    note(&format!("tracing {} (process {}) until it ends", process.name(), process.pid));
    let ended = wait(&tracing, &stop);
    if !ended {
        tracing.stop();
    }
    let calls = tracing.read();
    let about = About {
        started_unix_nanoseconds: u64::try_from(started.as_nanos()).unwrap_or(u64::MAX),
        process_id: process.pid,
        application: process.name().to_string(),
        command_line: process.command_text(),
        runtime: shown_runtime(&process),
        notes: notes(&calls, ended),
    };
    let outcome = Outcome { calls: &calls, about: &about, top: plan.top, outputs: &outputs };
    let written = outcome.write(reserves);
    let printed = outcome.tell(plan.json, written.is_ok());
    let status = match ended {
        true => child.status_after_its_process(|| stop.is_signalled()),
        false => child.status_within(Duration::ZERO),
    };
    note(&match status {
        Some(status) => format!("{} ended ({status})", child.label()),
        None => format!("{} runs on, and its hooks count no more", child.label()),
    });
    printed.and(written)?;
    if calls.nodes.is_empty() && calls.losses.calls == 0 {
        return Err(nothing(&calls, &plan));
    }
    // Ctrl-C asks for the result, however the command takes it.
    Ok(of_command(Exit::Done, status.filter(|_| !stop.is_signalled())))
}

/// A trace that has begun.
struct Begun {
    process: Process,
    outputs: Vec<TraceOutput>,
    /// Since 1970.
    started: Duration,
    tracing: Tracing,
}

/// Waits for the command's runtime, and begins the trace.
fn begin(plan: &Plan, child: &mut Child, mut startup: Startup, stop: &mut Stop) -> Result<Begun, Failure> {
    let process = child.process_of(&mut startup, stop)?;
    let outputs = plan.outputs_for(&process)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tracing = startup.begin_tracing(&process)?;
    Ok(Begun { process, outputs, started, tracing })
}

fn no_command() -> Failure {
    Failure::Usage("give a command to trace after --".to_owned())
}

/// Waits until the traced process has ended. False if it runs on although it was asked to end.
fn wait(tracing: &Tracing, stop: &Stop) -> bool {
    let mut asked: Option<Instant> = None;
    while !tracing.has_ended() {
        if stop.is_signalled() {
            let first = asked.is_none();
            if asked.get_or_insert_with(Instant::now).elapsed() > GRACE || stop.is_signalled_again() {
                return false;
            }
            if first {
                note(&format!("waiting {} s for it to end; Ctrl-C again does not wait", GRACE.as_secs()));
            }
        }
        std::thread::sleep(STEP);
    }
    true
}

/// What a reader must know about the numbers.
fn notes(calls: &Calls, ended: bool) -> Vec<String> {
    let Losses {
        calls: lost,
        on_threads: _,
        long,
        late,
        unmatched,
        methods,
        shared_threads,
        damaged,
        panics,
        objects,
        object_bytes: _,
        values_beyond,
        values,
        values_refused,
    } = calls.losses;
    let mut notes = vec![match calls.counts_objects {
        false if calls.has_values => {
            "times contain the hooks, which read arguments: a call costs more than without --arguments".to_owned()
        }
        true => "an object counts for the innermost traced method; .NET allocates without its fast paths, so times are longer".to_owned(),
        false => format!("each call costs {:.0} ns more, which is subtracted from the times", calls.cost.whole()),
    }];
    if !calls.counts_objects && calls.methods.iter().any(|method| method.name.contains(">d__")) {
        notes.push(
            "an async method is timed until its first wait; its MoveNext runs the steps; `trace -p` adds them up"
                .to_owned(),
        );
    }
    let mut count = |number: u64, text: &str| {
        if number > 0 {
            notes.push(format!("{} {text}", grouped(number)));
        }
    };
    let refused = if calls.counts_objects { 0 } else { calls.inlining_refused };
    count(refused, "inlinings of traced methods were refused, since an inlined method is not counted");
    count(objects, "objects have neither type nor callers here: the memory for the call tree was full");
    count(
        values_beyond,
        "calls came when enough others had arguments: those of them that were recorded show none; keep more with --limit",
    );
    count(values, "calls had no room for arguments: those of them that were recorded show none");
    count(values_refused, "times .NET gave no access to arguments or a result");
    count(lost, "calls are counted for their method only: the memory for the call tree was full");
    let long_text = match calls.has_values {
        true => "calls are not recorded, only counted: the memory was full; record fewer with --slower-than",
        false => "long calls are not in the timeline: its memory was full; list fewer with --long",
    };
    count(long, long_text);
    count(late, "calls were noticed to have ended only later, so their time may be too long");
    count(unmatched, "exits had no entry, as of calls without a place in the call tree");
    count(methods, "methods have no hooks, because the memory was full or .NET did not describe them");
    count(shared_threads, "threads share the call tree of a thread that had ended before");
    count(damaged, "parts of the memory were damaged and are left out");
    count(panics, "callbacks of the tracer failed; some methods may have no hooks");
    if !ended {
        notes.push("the process had not ended: later calls are not counted".to_owned());
    }
    notes
}

/// No call was traced.
fn nothing(calls: &Calls, plan: &Plan) -> Failure {
    let what = match calls.methods.len() {
        0 => format!("no method matches {}", plan.patterns()),
        hooked => format!("none of the {hooked} methods that match was called"),
    };
    Failure::NothingTraced(format!("{what}, of {} methods that .NET compiled", grouped(calls.considered)))
}
