//! `remora model`: modelled desktop targets, and the trigger process against them.
//!
//! The model crate has both sides. This module starts targets, and prints what the trigger finds.

mod run;

use crate::args::model::{
    AttachArgs, ChannelArgs, LogArgs, ModelArgs, ModelCommand, ModelDetachArgs, ModelPsArgs, OneTargetArgs, TellArgs,
};
use crate::client_data;
use crate::console::{Page, line, note, out};
use crate::exit::Exit;
use crate::failure::{Failure, ModelCause};
use remora_clr_model::desktop::{
    self, Client, ClientError, Guid, HResult, KeptLines, LoadedProfiler, LogLine, Place, PlaceError, TRIGGERS,
    TargetState, Told,
};
use remora_clr_model::machine::{Account, AttachError, AttachOptions};
use remora_terminal::Table;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a target may take to end.
const STOPPING: Duration = Duration::from_secs(30);
/// How long `ps` waits for a target, before it says that this one does not answer.
const ANSWERING: Duration = Duration::from_secs(2);
/// How long the process that watches a target has to say how it ended: it ends what the target has started before.
const ENDING: Duration = Duration::from_secs(10);
/// The same while the target's socket is open: it rather does not answer.
const SILENT: Duration = Duration::from_secs(2);
/// How often the channel is read until it has a text.
const INTERVAL: Duration = Duration::from_millis(20);
/// The time between two looks at a target that did not answer.
const LOOKS: Duration = Duration::from_millis(100);

/// What a target without a socket may be.
const NO_SOCKET: &str = "it starts or ends, or a profiler has replaced its program (exec)";

/// One runtime of a target, or a target without any, as JSON. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct RuntimeRow {
    target: String,
    process_id: Option<u32>,
    runtime: Option<String>,
    attachable: bool,
    reason: Option<String>,
    profiler: Option<&'static str>,
}

/// The event log as JSON.
#[derive(Debug, Serialize)]
struct LogOutput {
    entries: Vec<LogLine>,
    /// Why some are not among them.
    lost: Option<String>,
    /// How the target ended, if it did.
    ended: Option<String>,
}

/// The list of targets as JSON.
#[derive(Debug, Serialize)]
struct PsOutput<'a> {
    runtimes: &'a [RuntimeRow],
}

/// Runs the command.
pub(crate) fn run(args: &ModelArgs) -> Result<Exit, Failure> {
    match &args.command {
        ModelCommand::Run(args) => return run::run(args),
        ModelCommand::Ps(args) => ps(args)?,
        ModelCommand::Attach(args) => attach(args)?,
        ModelCommand::Detach(args) => detach(args)?,
        ModelCommand::Tell(args) => tell(args)?,
        ModelCommand::Log(args) => log(args)?,
        ModelCommand::Channel(args) => channel(args)?,
        ModelCommand::Stop(args) => stop(args)?,
    }
    Ok(Exit::Done)
}

/// A trigger process for a named target.
struct Trigger {
    name: String,
    client: Client,
    place: Place,
}

impl Trigger {
    /// For the given target, or the only one.
    fn of(given: Option<&str>, account: Account) -> Result<Trigger, Failure> {
        let place = place()?;
        let name = named_or_only(&place, given)?;
        match place.state_of(&name) {
            // A process that it has started may still hold its socket.
            Some(TargetState::Ended(how)) => return Err(Failure::ModelTargetEnded { name, how }),
            Some(TargetState::Watched(_)) => {}
            None => return Err(no_such_target(&place, &name)),
        }
        let missing = |_| Failure::ModelTargetSilent { name: name.clone(), error: NO_SOCKET.to_owned() };
        let client = Client::of(&place, &name, account).map_err(missing)?;
        Ok(Trigger { name, client, place })
    }

    /// The target did not answer.
    fn failed(&self, error: ClientError) -> Failure {
        match error {
            ClientError::NoTarget => Failure::NoSuchTarget { name: self.name.clone(), there: String::new() },
            ClientError::Broken(error) => self.ended(error.to_string()),
        }
    }

    /// The target ended, or is still there and silent; `noticed` is what the trigger saw of that.
    fn ended(&self, noticed: String) -> Failure {
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= if self.client.is_there() { SILENT } else { ENDING };
        let state = loop {
            let state = self.place.state_of(&self.name);
            // The socket of a process that ends may still be open.
            let is_watched = matches!(state, Some(TargetState::Watched(_)));
            if !is_watched || self.client.is_stopped() || is_late() {
                break state;
            }
            // Each look is a connection, which a target that accepts nobody keeps.
            std::thread::sleep(LOOKS);
        };
        let name = self.name.clone();
        match state {
            Some(TargetState::Ended(how)) => Failure::ModelTargetEnded { name, how },
            Some(TargetState::Watched(_)) => {
                Failure::ModelTargetSilent { name, error: stopped(&self.client).unwrap_or(noticed) }
            }
            None => Failure::ModelTargetEnded { name, how: format!("meanwhile ({noticed})") },
        }
    }

    /// An attach failed, or the look at the runtimes.
    fn refused(&self, error: AttachError, why: Option<String>) -> Failure {
        match error {
            AttachError::Answered(HResult::CORPROF_E_IPC_FAILED) | AttachError::NoSuchProcess => {
                self.ended(HResult::CORPROF_E_IPC_FAILED.to_string())
            }
            error => Failure::ModelAttach { error, why },
        }
    }
}

/// The given name. Without one, that of the only target that runs, or else of the only one that has ended.
fn named_or_only(place: &Place, given: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = given {
        return Ok(name.to_owned());
    }
    let ended = place.targets().into_iter().map(|(name, _)| name).collect();
    let running = running(place);
    let mut names: Vec<String> = if running.is_empty() { ended } else { running };
    match names.len() {
        0 => Err(Failure::NoTarget),
        1 => Ok(names.remove(0)),
        _ => Err(Failure::TargetNotNamed { list: names.join(", ") }),
    }
}

/// The names of the targets that have not ended.
fn running(place: &Place) -> Vec<String> {
    let running = |(name, state)| matches!(state, TargetState::Watched(_)).then_some(name);
    place.targets().into_iter().filter_map(running).collect()
}

fn no_such_target(place: &Place, name: &str) -> Failure {
    Failure::NoSuchTarget { name: name.to_owned(), there: running(place).join(", ") }
}

/// If a signal has stopped the target: that, and what to do.
fn stopped(client: &Client) -> Option<String> {
    let process = client.peer().filter(|_| client.is_stopped())?;
    Some(format!("it is stopped (SIGSTOP; `kill -CONT {process}` lets it go on)"))
}

fn stop(args: &OneTargetArgs) -> Result<(), Failure> {
    let place = place()?;
    let name = named_or_only(&place, args.target.as_deref())?;
    match desktop::stop(&place, &name, STOPPING) {
        Ok(None) => out(&line(format!("{name} has ended"))),
        Ok(Some(how)) => out(&line(format!("{name} ended {how}"))),
        Err(ClientError::NoTarget) => Err(no_such_target(&place, &name)),
        Err(ClientError::Broken(error)) => Err(Failure::ModelTargetSilent { name, error: error.to_string() }),
    }
}

/// The directory of the sockets.
fn place() -> Result<Place, Failure> {
    let runtime_directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = runtime_directory.unwrap_or_else(std::env::temp_dir);
    let unusable = |error: PlaceError| Failure::Model { message: error.to_string(), cause: ModelCause::Directory };
    Place::under(&base).map_err(unusable)
}

fn ps(args: &ModelPsArgs) -> Result<(), Failure> {
    let place = place()?;
    let mut rows = Vec::new();
    for (name, state) in place.targets() {
        match (state, Client::of(&place, &name, args.trigger.trigger)) {
            (TargetState::Ended(how), _) => rows.push(no_runtime(&name, None, format!("it ended {how}"))),
            (TargetState::Watched(_), Ok(client)) => rows.extend(rows_of(&name, &client)),
            (TargetState::Watched(_), Err(_)) => rows.push(no_runtime(&name, None, NO_SOCKET.to_owned())),
        }
    }
    if args.json {
        return out(&Page::json(&PsOutput { runtimes: &rows }));
    }
    if rows.is_empty() {
        note("no modelled target runs; start one with `remora model run`");
        return Ok(());
    }
    let mut table = Table::new(&["target", "process", "runtime", "profiler", "attach"]);
    table.let_last_go_below();
    for row in rows {
        table.row([
            row.target,
            row.process_id.map_or("-".to_owned(), |process| process.to_string()),
            row.runtime.unwrap_or_else(|| "-".to_owned()),
            row.profiler.unwrap_or("-").to_owned(),
            row.reason.map_or("yes".to_owned(), |reason| format!("no: {reason}")),
        ]);
    }
    out(&table.render())
}

fn no_runtime(target: &str, process_id: Option<u32>, reason: String) -> RuntimeRow {
    let (target, reason) = (target.to_owned(), Some(reason));
    RuntimeRow { target, process_id, runtime: None, attachable: false, reason, profiler: None }
}

fn rows_of(name: &str, client: &Client) -> Vec<RuntimeRow> {
    let process_id = client.peer();
    let none = |reason: String| vec![no_runtime(name, process_id, reason)];
    if let Some(reason) = stopped(client) {
        return none(reason);
    }
    if !client.answers_within(ANSWERING) {
        return none("it does not answer: a profiler or somebody else holds it up".to_owned());
    }
    let profilers = client.profilers().unwrap_or_default();
    match client.runtimes() {
        Ok(runtimes) if runtimes.is_empty() => none("no runtime is loaded yet".to_owned()),
        Ok(runtimes) => {
            let one = |runtime: remora_clr_model::machine::RuntimeEntry| {
                let profiler = profilers.iter().find(|profiler| profiler.version == runtime.what).map(state_of);
                let (runtime, reason) = (Some(runtime.what), runtime.refusal.map(str::to_owned));
                RuntimeRow {
                    target: name.to_owned(),
                    process_id,
                    runtime,
                    attachable: reason.is_none(),
                    reason,
                    profiler,
                }
            };
            runtimes.into_iter().map(one).collect()
        }
        Err(AttachError::AccessDenied) => none("access is denied".to_owned()),
        Err(error) => none(error.to_string()),
    }
}

fn state_of(profiler: &LoadedProfiler) -> &'static str {
    if profiler.detaching { "detaching" } else { "loaded" }
}

fn attach(args: &AttachArgs) -> Result<(), Failure> {
    let mut target = Trigger::of(args.target.target.as_deref(), args.trigger.trigger)?;
    target.client.wait_for_a_stopped_one(args.timeout);
    let runtimes = target.client.runtimes().map_err(|error| target.refused(error, None))?;
    if let Some(release) = args.runtime
        && !runtimes.iter().any(|one| one.what == release.to_string())
    {
        let there: Vec<String> = runtimes.into_iter().map(|one| one.what).collect();
        return Err(Failure::NoSuchRuntime { runtime: release.to_string(), there: there.join(", ") });
    }
    let path = args.library.as_deref().map(whole).transpose()?;
    let options = AttachOptions {
        class: Guid::from_u128(args.clsid),
        path: path.clone(),
        milliseconds: u32::try_from(args.timeout.as_millis()).unwrap_or(u32::MAX),
        client_data: client_data(args.client_data.as_deref(), &target.client)?,
        release: args.runtime,
        timeout: None,
    };
    let answer = target.client.attach(&options);
    answer.map_err(|error| {
        let why = says_too_little(error).then(|| target.client.attach_failure(path).ok().flatten());
        target.refused(error, why.flatten())
    })?;
    out(&line("AttachProfiler answered S_OK"))
}

/// Whether the answer may come from the profiler, or leave out why its library could not be opened.
fn says_too_little(error: AttachError) -> bool {
    const CLEAR: [HResult; 3] =
        [HResult::CORPROF_E_PROFILER_ALREADY_ACTIVE, HResult::ERROR_TIMEOUT, HResult::CORPROF_E_IPC_FAILED];
    matches!(error, AttachError::Answered(code) if !CLEAR.contains(&code))
}

/// The absolute path. Whether there is a library is for the target to find out.
fn whole(file: &std::path::Path) -> Result<String, Failure> {
    let whole = std::path::absolute(file).map_err(|error| Failure::Library { file: file.to_owned(), error })?;
    let no_text = |_| Failure::Library { file: file.to_owned(), error: std::io::Error::other("its path is not UTF-8") };
    whole.into_os_string().into_string().map_err(no_text)
}

/// The value of `--client-data`: a text, or `@` and a file.
fn client_data(given: Option<&str>, client: &Client) -> Result<Vec<u8>, Failure> {
    let Some(value) = given else { return Ok(Vec::new()) };
    let data = match value.strip_prefix('@') {
        None => value.replace("{channel}", &client.channel_path().to_string_lossy()).into_bytes(),
        Some(file) => client_data::content(file)?,
    };
    client_data::require_fit(&data)?;
    Ok(data)
}

fn channel(args: &ChannelArgs) -> Result<(), Failure> {
    let place = place()?;
    let name = named_or_only(&place, args.target.target.as_deref())?;
    let deadline = Instant::now() + args.wait;
    let is_complete = |lines: &[String]| {
        args.until.as_ref().is_none_or(|wanted| lines.iter().any(|line| line.contains(wanted.as_str())))
    };
    let (ended, KeptLines { lines, lost }) = loop {
        // Before its text: then that is complete.
        let ended = how_it_ended(&place, &name)?;
        let text = place.channel_text(&name);
        if is_complete(&text.lines) || ended.is_some() || Instant::now() >= deadline {
            break (ended, text);
        }
        std::thread::sleep(INTERVAL);
    };
    let mut page = Page::default();
    lines.iter().for_each(|text| page += line(text));
    out(&page)?;
    match &args.until {
        Some(wanted) if !is_complete(&lines) => {
            note_rest(&name, lost.as_deref(), None);
            let missing = Failure::NotWritten { text: wanted.clone() };
            Err(ended.map_or(missing, |how| Failure::ModelTargetEnded { name, how }))
        }
        _ => {
            note_rest(&name, lost.as_deref(), ended.as_deref());
            Ok(())
        }
    }
}

fn detach(args: &ModelDetachArgs) -> Result<(), Failure> {
    let target = Trigger::of(args.target.target.as_deref(), TRIGGERS[0].1)?;
    let failed = |error| target.failed(error);
    let loaded = target.client.profilers().map_err(failed)?;
    if loaded.is_empty() && target.client.is_attaching().map_err(failed)? {
        note(&format!("an attach to {} waits, and may still succeed", target.name));
    }
    if loaded.is_empty() {
        return out(&line(format!("no profiler is loaded in {}", target.name)));
    }
    let ended = target.client.hang_up().map_err(failed)?;
    if ended == 0 && loaded.iter().all(|profiler| !profiler.detaching) {
        return Err(Failure::NoChannel { name: target.name });
    }
    let left = target.client.wait_until_unloaded(args.wait).map_err(failed)?;
    if left.is_empty() {
        return out(&line("the profiler has detached and is unloaded"));
    }
    let callbacks: Vec<&str> = left.iter().flat_map(|one| &one.callbacks).map(String::as_str).collect();
    let is_asked = left.iter().any(|one| one.detaching);
    Err(Failure::NotUnloaded { name: target.name, is_asked, callbacks: callbacks.join(", ") })
}

fn tell(args: &TellArgs) -> Result<(), Failure> {
    let target = Trigger::of(Some(&args.target), TRIGGERS[0].1)?;
    let text = match target.client.tell(args.event.into()).map_err(|error| target.failed(error))? {
        Told::Done => "done",
        Told::ThreadStays => "done: the thread stays in a callback of the profiler",
        Told::Already => "nothing changed: it was so already",
        Told::NoRuntime => {
            return Err(Failure::ModelAttach { error: AttachError::NoRuntime { prefix: "COR" }, why: None });
        }
    };
    out(&line(text))
}

fn log(args: &LogArgs) -> Result<(), Failure> {
    let place = place()?;
    let name = named_or_only(&place, args.target.target.as_deref())?;
    // Before the log: then that is complete.
    let ended = how_it_ended(&place, &name)?;
    let KeptLines { lines: entries, lost } = place.event_log(&name);
    if args.json {
        return out(&Page::json(&LogOutput { entries, lost, ended }));
    }
    if entries.is_empty() {
        note("the event log has no entry about profilers");
    } else {
        let mut table = Table::new(&["level", "source", "event", "runtime", "text"]);
        table.let_last_go_below();
        for entry in entries {
            table.row([entry.level, entry.source, entry.event_id.to_string(), entry.runtime, entry.text]);
        }
        out(&table.render())?;
    }
    note_rest(&name, lost.as_deref(), ended.as_deref());
    Ok(())
}

/// How a target ended. `None` if it runs.
fn how_it_ended(place: &Place, name: &str) -> Result<Option<String>, Failure> {
    match place.state_of(name) {
        Some(TargetState::Ended(how)) => Ok(Some(how)),
        Some(TargetState::Watched(_)) => Ok(None),
        None => Err(no_such_target(place, name)),
    }
}

/// Below what a target has left: what is missing of it, and how the target ended.
fn note_rest(name: &str, lost: Option<&str>, ended: Option<&str>) {
    if let Some(why) = lost {
        note(&format!("some of what {name} wrote is lost: {why}"));
    }
    if let Some(how) = ended {
        note(&format!("{name} ended {how}"));
    }
}
