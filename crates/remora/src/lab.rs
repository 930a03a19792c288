//! `remora lab`: runs a profiler's library in the runtime model, and reports for each clause of the contract whether it was kept.
//!
//! The model crate does the checks. This module starts its runs as child processes of the same command, and prints the findings.

use crate::args::{LabArgs, LabRunArgs};
use crate::client_data;
use crate::console::{Page, counted, line, note, out};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::library::{FOR_HEAPS, FOR_RECORDINGS};
use remora_clr_model::differences::RuntimeVersion;
use remora_clr_model::lab::{
    ClientData, CrashedRun, Finding, Laboratory, LoadMode, Observation, RefusedCall, Report, RunSpec, Verdict,
    run::{COMPLETE, run as run_in_model},
};
use remora_clr_model::runtime::write_own_library;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct LabOutput<'a> {
    mode: LoadMode,
    findings: &'a [Finding],
    refused: &'a [RefusedCall],
    observations: &'a [Observation],
    did_nothing: bool,
    runs: u64,
    unjudged: u64,
    left_out: u64,
}

/// Why the verdicts on such a profiler are no praise.
const DID_NOTHING: &str = "remora: the profiler attached and did nothing: it set no event mask and asked the runtime for nothing; if it only works from startup, test it with `--from-start`";
/// The same for one that was loaded at startup.
const DID_NOTHING_FROM_START: &str = "remora: the profiler was loaded at startup and did nothing: it set no event mask and asked the runtime for nothing";

/// Runs the command.
pub(crate) fn run(args: &LabArgs) -> Result<Exit, Failure> {
    if cfg!(target_feature = "crt-static") {
        let why = "this remora is linked statically, and such a program opens no libraries";
        return Err(Failure::Laboratory(why.to_owned()));
    }
    let program = std::env::current_exe().map_err(|error| Failure::Laboratory(error.to_string()))?;
    let command = |order: &str| {
        let mut command = Command::new(&program);
        command.args(["lab-run", order]);
        command
    };
    let agents = args.library.is_none().then(agents).transpose();
    let agents =
        agents.map_err(|error| Failure::Laboratory(format!("no memory for the agent's libraries: {error}")))?;
    let (library, library_for_heaps) = match (&args.library, &agents) {
        (Some(file), _) => (opened(file)?, None),
        (None, Some([recordings, heaps])) => (path_of(recordings), Some(path_of(heaps))),
        (None, None) => Default::default(),
    };
    // Without a folder for it, profilers do not find the runtime's library, and are tested all the same.
    let folder = tempfile::Builder::new().prefix("remora-lab-").tempdir().ok();
    let own_library = folder.as_ref().and_then(|folder| write_own_library(folder.path()).ok());
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, interrupted.clone()).map_err(Failure::Signals)?;
    }
    let report = Laboratory {
        library,
        library_for_heaps,
        class: args.clsid,
        client_data: args.client_data.as_deref().map(lab_client_data).transpose()?,
        own_library: own_library.and_then(|path| path.into_os_string().into_string().ok()),
        mode: if args.from_start { LoadMode::FromStart } else { LoadMode::Attach },
        wait: args.wait,
        runtime_versions: runtime_versions(&args.runtime_version),
        seeds: u64::from(args.seeds),
        command: &command,
        interrupted: &interrupted,
    }
    .run();
    let is_interrupted = interrupted.load(Ordering::SeqCst);
    show(&report, args.json, is_interrupted)?;
    if is_interrupted {
        note("remora: interrupted: unfinished runs were ended, and the verdicts are those of the other runs");
        return Ok(Exit::Interrupted);
    }
    if !report.failures.is_empty() {
        let why: Vec<&str> = report.failures.iter().map(String::as_str).collect();
        return Err(Failure::Laboratory(why.join("; ")));
    }
    if report.has_broken() {
        return Ok(Exit::BROKEN);
    }
    if report.unjudged > 0 {
        let runs = counted(report.unjudged, "run");
        note(&format!("remora: {runs} could not be judged; the lines of their clauses say why"));
        return Ok(Exit::Unjudged);
    }
    if report.did_nothing {
        note(if args.from_start { DID_NOTHING_FROM_START } else { DID_NOTHING });
        return Ok(Exit::DidNothing);
    }
    Ok(Exit::Done)
}

/// Runs the hidden command: one run. This process exits right after it, with everything that the profiler left.
pub(crate) fn run_one(args: &LabRunArgs) -> Result<Exit, Failure> {
    let order: RunSpec = serde_json::from_str(&args.order)
        .map_err(|error| Failure::Usage(format!("`remora lab-run` is started by `remora lab` only ({error})")))?;
    run_in_model(&order).map_err(Failure::Laboratory)?;
    std::process::exit(COMPLETE)
}

/// The two libraries of Remora's own agent, as in-memory files.
fn agents() -> io::Result<[File; 2]> {
    let in_memory = |bytes| -> io::Result<File> {
        let mut file = File::from(memfd_create("remora-agent", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        Ok(file)
    };
    Ok([in_memory(FOR_RECORDINGS)?, in_memory(FOR_HEAPS)?])
}

/// A path that every process of the same user can open.
fn path_of(agent: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), agent.as_raw_fd())
}

/// The value of `--client-data`: a text, or `@` and a file.
fn lab_client_data(value: &str) -> Result<ClientData, Failure> {
    let Some(file) = value.strip_prefix('@') else { return Ok(ClientData::Text(value.to_owned())) };
    client_data::content(file)?;
    let whole = Path::new(file).canonicalize();
    let unread = |error| Failure::Usage(format!("the file of `--client-data @{file}` cannot be found: {error}"));
    whole.map(ClientData::File).map_err(unread)
}

/// The absolute path of a readable file; the runs find out whether it is a library.
fn opened(file: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::Library { file: file.to_owned(), error };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    File::open(file).map_err(failed)?;
    let whole = file.canonicalize().map_err(failed)?;
    let path = whole.into_os_string().into_string();
    // /proc/PID/maps has other characters for a line break.
    path.ok()
        .filter(|path| !path.contains('\n'))
        .ok_or_else(|| failed(io::Error::other("its path is not UTF-8, or has a line break")))
}

fn runtime_versions(given: &[RuntimeVersion]) -> Vec<RuntimeVersion> {
    // .NET 11 differs from 10 only before a profiler is loaded.
    let left_out = [RuntimeVersion::Desktop4, RuntimeVersion::Core11];
    let cores = || RuntimeVersion::ALL.into_iter().filter(|one| !left_out.contains(one)).collect();
    if given.is_empty() { cores() } else { given.to_vec() }
}

fn show(report: &Report, json: bool, is_interrupted: bool) -> Result<(), Failure> {
    if json {
        return out(&Page::json(&LabOutput {
            mode: report.mode,
            findings: &report.findings,
            refused: &report.refused,
            observations: &report.observations,
            did_nothing: report.did_nothing,
            runs: report.runs,
            unjudged: report.unjudged,
            left_out: report.left_out,
        }));
    }
    out(&text(report))?;
    note(&summary(report));
    let were = if report.runs == 1 { "was" } else { "were" };
    let how = match report.mode {
        LoadMode::Attach => "by an attach (InitializeForAttach)",
        LoadMode::FromStart => "from startup (Initialize)",
    };
    note(&format!("{} {were} made {how}; a seed repeats the runtime's side only", counted(report.runs, "run")));
    if report.left_out > 0 {
        let were = if report.left_out == 1 { "was" } else { "were" };
        let why = if is_interrupted { "they had not begun" } else { "others of the same runtime had hung" };
        note(&format!("{} {were} left out: {why}", counted(report.left_out, "run")));
    }
    Ok(())
}

/// The number of clauses with each verdict. A clause that was broken in several ways counts once.
fn summary(report: &Report) -> String {
    let count = |verdict: Verdict| {
        let with_it = report.findings.iter().filter(|finding| finding.verdict == verdict);
        with_it.map(|finding| &finding.clause).collect::<BTreeSet<_>>().len()
    };
    let [broken, honoured, rest] = [Verdict::Broken, Verdict::Honoured, Verdict::NotExercised].map(count);
    let remarks = match count(Verdict::Remark) {
        0 => String::new(),
        remarks => format!(", {remarks} with a remark"),
    };
    format!("{broken} broken, {honoured} honoured, {rest} not exercised{remarks}")
}

fn text(report: &Report) -> Page {
    let mut text = Page::default();
    for finding in &report.findings {
        let verdict = match finding.verdict {
            Verdict::Honoured => "honoured      ",
            Verdict::Broken => "BROKEN        ",
            Verdict::Remark => "remark        ",
            Verdict::NotExercised => "not exercised ",
        };
        let place = [
            finding.callback.as_deref().map(|callback| format!("in {callback}")),
            finding.runtime_version.as_deref().map(|runtime_version| format!("on {runtime_version}")),
            finding.seed.map(|seed| format!("seed {seed}")),
            finding.runs.map(|runs| format!("{runs} of {}", counted(report.runs, "run"))),
            finding
                .preemption_ms
                .map(|delay| format!("only if a thread is preempted for {:.1} s", delay as f64 / 1000.0)),
        ];
        let place: Vec<String> = place.into_iter().flatten().collect();
        let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
        text += line(format!("{}  {verdict} {}{place}", finding.clause, finding.message));
        text += finding.crash.as_ref().map(crashed_run).unwrap_or_default();
    }
    if !report.refused.is_empty() {
        text += line("The model refused these calls:");
    }
    for refused in &report.refused {
        let name = refused.name.map_or_else(String::new, |name| format!(" {name}"));
        text += line(format!("{} {}{name} ({})", refused.call, refused.code, counted(refused.runs, "run")));
    }
    for seen in &report.observations {
        text += line(format!("Seen: {} ({})", seen.message, counted(seen.runs, "run")));
    }
    text
}

/// Where a run crashed, and its last words.
fn crashed_run(run: &CrashedRun) -> Page {
    let mut text = Page::default();
    if run.backtrace.is_empty() && run.stderr.is_empty() {
        return text;
    }
    text += line(format!("    seed {} on {}:", run.seed, run.runtime_version));
    for frame in &run.backtrace {
        text += line(format!("      at {frame}"));
    }
    for words in run.stderr.lines() {
        text += line(format!("      stderr: {words}"));
    }
    text
}
