//! `remora model run`: this process watches over the target, its child, or starts a process that does.

use super::STOPPING;
use crate::args::model::{RunArgs, scenario_names};
use crate::client_data::regular;
use crate::console::{line, note, out};
use crate::exit::Exit;
use crate::failure::{Failure, ModelCause};
use remora_clr_model::desktop::{
    self, AppConfig, Ended, Place, SCENARIOS, Scenario, Target, TargetConfig, TargetState, Watch, is_name,
};
use remora_clr_model::lab::output::OutputReader;
use remora_terminal::Table;
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::dup2_stdout;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest message of a target that did not start, bytes.
const LONGEST_MESSAGE: u64 = 65_536;

/// The flag of the process that watches over a target in the background.
const WATCH: &str = "--watch";
/// The flag of the target, beside that of its watcher if that is in the background.
const WATCHED: &str = "--watched";
/// Lines of a target's messages that are kept when it ends.
const LAST_LINES: usize = 5;
/// So much of each, characters.
const LONGEST_LINE: usize = 300;
/// How long a target has to end after a signal: longer than the process that watches over it waits, which says more about it.
const ENDING: Duration = Duration::from_secs(8);
/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command.
pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let Some(wanted) = args.scenario.as_deref().filter(|_| !args.list) else {
        let mut table = Table::new(&["scenario", "target"]);
        table.let_last_go_below();
        for scenario in SCENARIOS {
            table.row([scenario.name.to_owned(), scenario.description.to_owned()]);
        }
        out(&table.render())?;
        return Ok(Exit::Done);
    };
    if cfg!(target_feature = "crt-static") {
        let message = "this remora is linked statically, and opens no libraries".to_owned();
        return Err(Failure::Model { message, cause: ModelCause::StaticBuild });
    }
    let no_scenario = || Failure::NoSuchScenario { given: wanted.to_owned(), known: scenario_names() };
    let scenario = Scenario::by_name(wanted).ok_or_else(no_scenario)?;
    let name = args.name.clone().unwrap_or_else(|| scenario.name.to_owned());
    if !is_name(&name) {
        let rule = "a target's name has at most 32 small letters, digits and hyphens, and no hyphen first";
        return Err(Failure::Usage(format!("invalid value '{name}' for '--name <NAME>': {rule}")));
    }
    let place = super::place()?;
    if !args.watched && matches!(place.state_of(&name), Some(TargetState::Watched(_))) {
        return Err(Failure::TargetExists { name });
    }
    let configuration = args.config.as_deref().map(configuration).transpose()?;
    if args.background {
        return in_background(&place, &name);
    }
    if !args.watched {
        return watch_over(&place, &name, args.watch);
    }
    let config = TargetConfig { scenario, name, environment: args.env.clone(), configuration, speed: args.speed };
    be_the_target(&place, config, args.watch)
}

fn configuration(file: &std::path::Path) -> Result<AppConfig, Failure> {
    let mut text = String::new();
    let read = regular(file).and_then(|opened| {
        // One byte more than it may have: the parser says so.
        opened.take(AppConfig::LARGEST as u64 + 1).read_to_string(&mut text)
    });
    read.map_err(|error| Failure::Input { file: file.to_owned(), error })?;
    let invalid = |error| Failure::Usage(format!("{} cannot be used as --config: {error}", file.display()));
    AppConfig::parse(&text).map_err(invalid)
}

/// The cause is `otherwise`, unless the error says more.
fn cannot_start(what: &str, error: &io::Error, otherwise: ModelCause) -> Failure {
    let cause = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => ModelCause::Limits,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => ModelCause::Directory,
        Some(_) => otherwise,
        // The model's own.
        None => ModelCause::Other,
    };
    Failure::Model { message: format!("{what} cannot be started: {error}"), cause }
}

/// A flag that a signal sets which asks this process to end.
fn ends() -> Result<Arc<AtomicBool>, Failure> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, ends.clone()).map_err(Failure::Signals)?;
    }
    Ok(ends)
}

fn be_the_target(place: &Place, config: TargetConfig, in_background: bool) -> Result<Exit, Failure> {
    let ends = ends()?;
    end_whatever_holds_it_up(&ends).map_err(|error| cannot_start("the target", &error, ModelCause::Other))?;
    // A thread of the model that is lost would leave its callers waiting.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let (name, description) = (config.name.clone(), config.scenario.description);
    let target = Target::start(place, config);
    let target = target.map_err(|error| cannot_start("the target", &error, ModelCause::Directory))?;
    out(&line(format!("{name} runs as process {}: {description}", std::process::id())))?;
    if io::stderr().is_terminal() {
        note("it ends with Ctrl-C, or with `remora model stop`");
    }
    if in_background {
        // Who has started it waits for this line only: a later one would meet a pipe without a reader.
        let to_null = std::fs::File::options().write(true).open("/dev/null").and_then(|null| Ok(dup2_stdout(null)?));
        to_null.map_err(|error| cannot_start("the target", &error, ModelCause::Other))?;
    }
    target.serve(|| ends.load(Ordering::SeqCst));
    Ok(Exit::Done)
}

/// Ends this process by SIGKILL if it was asked to end by a signal, and does not. The process that watches over it may not know.
fn end_whatever_holds_it_up(ends: &Arc<AtomicBool>) -> io::Result<()> {
    let ends = ends.clone();
    // Started before any library is loaded: later a thread may not get so far.
    let waiting = std::thread::Builder::new().spawn(move || {
        while !ends.load(Ordering::SeqCst) {
            std::thread::sleep(INTERVAL);
        }
        std::thread::sleep(ENDING);
        let _ = kill_process(getpid(), Signal::KILL);
    });
    waiting.map(drop)
}

/// If standard input is a pipe, the target ends when nobody holds its other end.
fn end_with_standard_input(ends: &Arc<AtomicBool>) -> io::Result<()> {
    let kind = fstat(io::stdin()).map(|facts| FileType::from_raw_mode(facts.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return Ok(());
    }
    let ends = ends.clone();
    let reading = std::thread::Builder::new().spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ends.store(true, Ordering::SeqCst);
    });
    reading.map(drop)
}

/// This command without a flag.
fn this_command(without: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1).filter(|argument| argument != without));
    Ok(command)
}

/// Starts the target as a child, and notes how it ends if nobody stopped it.
fn watch_over(place: &Place, name: &str, in_background: bool) -> Result<Exit, Failure> {
    let failed = |error: io::Error| cannot_start(&format!("the target {name}"), &error, ModelCause::Other);
    let ends = ends()?;
    let in_directory = |error: io::Error| cannot_start(&format!("the target {name}"), &error, ModelCause::Directory);
    let watch = Watch::begin(place, name).map_err(in_directory)?;
    let watch = watch.ok_or_else(|| Failure::TargetExists { name: name.to_owned() })?;
    let mut command = this_command(WATCHED).map_err(failed)?;
    command.arg(WATCHED);
    end_with_standard_input(&ends).map_err(failed)?;
    if !in_background {
        return match watch.run(&mut command, &ends).map_err(failed)? {
            Ended::AsAsked => watch.end(None).map_err(failed).map(|()| Exit::Done),
            // With its own message.
            Ended::BeforeItStarted => watch.end(None).map_err(failed).map(|()| Exit::Usage),
            Ended::Otherwise(how) => {
                watch.end(Some(&how)).map_err(failed)?;
                Err(Failure::ModelTargetEnded { name: name.to_owned(), how })
            }
        };
    }
    let (reader, _, stderr) = OutputReader::begin().map_err(failed)?;
    let ended = watch.run(command.stderr(stderr), &ends).map_err(failed)?;
    let said = reader.end().stderr;
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<String> = lines.map(|line| line.chars().take(LONGEST_LINE).collect()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ");
    let how = match ended {
        Ended::Otherwise(how) if last.is_empty() => Some(how),
        Ended::Otherwise(how) => Some(format!("{how}, after it wrote: {last}")),
        Ended::AsAsked | Ended::BeforeItStarted => None,
    };
    watch.end(how.as_deref()).map_err(failed)?;
    // For the process that waits for the start; later nobody reads it.
    let _ = io::stderr().write_all(said.as_bytes());
    Ok(Exit::Done)
}

/// Starts the same command as another process, and returns when its target is ready.
fn in_background(place: &Place, name: &str) -> Result<Exit, Failure> {
    let failed = |error: io::Error| cannot_start(&format!("the target {name}"), &error, ModelCause::Other);
    let mut command = this_command("--background").map_err(failed)?;
    command.arg(WATCH).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut target = command.spawn().map_err(failed)?;
    let mut ready = String::new();
    if let Some(stdout) = target.stdout.take() {
        BufReader::new(stdout).read_line(&mut ready).map_err(failed)?;
    }
    if ready.is_empty() {
        let mut message = String::new();
        if let Some(stderr) = target.stderr.take() {
            stderr.take(LONGEST_MESSAGE).read_to_string(&mut message).map_err(failed)?;
        }
        let message = message.trim().trim_start_matches("remora: ").to_owned();
        // With its own remedy.
        let message = format!("the target {name} did not start: {message}");
        return Err(Failure::Model { message, cause: ModelCause::Other });
    }
    if let Err(failure) = out(&line(ready.trim_end())) {
        // A failed command leaves nothing running.
        let _ = desktop::stop(place, name, STOPPING);
        return Err(failure);
    }
    Ok(Exit::Done)
}
