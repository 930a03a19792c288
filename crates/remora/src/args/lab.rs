//! Flags of `remora lab`.

use super::up_to_a_million;
use clap::Args;
use remora_clr_model::differences::RuntimeVersion;
use remora_terminal::duration;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `remora lab`.
#[derive(Debug, Args)]
#[command(after_help = LAB_NOTES)]
pub(crate) struct LabArgs {
    /// The profiler's library [default: Remora's own agent]
    #[arg(value_name = "LIBRARY")]
    pub(crate) library: Option<PathBuf>,
    /// The profiler's class [default: an unknown one, then that of Remora's agent]
    #[arg(long, value_name = "GUID", value_parser = class)]
    pub(crate) clsid: Option<u128>,
    /// What InitializeForAttach gets: a text, where {pid} becomes the process's number, or a file's bytes [default: nothing]
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) client_data: Option<String>,
    /// Load it before the program starts, with Initialize, instead of attaching it
    #[arg(long, requires = "library", conflicts_with = "client_data")]
    pub(crate) from_start: bool,
    /// How long to wait for the profiler's request to detach: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = wait)]
    pub(crate) wait: Duration,
    /// The runtime: desktop4, core3.1, core6, core8, core9, core10 or core11; may be given again [default: core3.1 to core10]
    #[arg(long, alias = "personality", value_name = "RUNTIME", value_parser = runtime_version)]
    pub(crate) runtime_version: Vec<RuntimeVersion>,
    /// Runs in each runtime, 1 to 1000000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = up_to_a_million)]
    pub(crate) seeds: u32,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const LAB_NOTES: &str = "\
Each run is a process of its own: a profiler that crashes, hangs or exits is a finding. Only the
runtime's side follows the seed, the profiler's threads are its own: a run may not repeat exactly.

Exit status: 0 nothing was broken, 1 something was, 2 the laboratory itself failed, 3 the profiler
was loaded and did nothing, 4 a run could not be judged, 130 interrupted.
docs/authors/lab.md says what the verdicts mean, and how to have nearly every clause exercised.

Examples:
  remora lab ./libprofiler.so
  remora lab ./libprofiler.so --clsid 6c1f3a52-0d7e-4b0a-9a55-2f1f6d0b8e11 --runtime-version core8
  remora lab --from-start ./libprofiler.so
  remora lab --seeds 200 --json          Remora's own agent";

/// Flags of `remora lab-run`.
#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// What to do, as `lab` writes it
    pub(crate) order: String,
}

/// A run that waits longer would look as if it hung.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

fn wait(text: &str) -> Result<Duration, String> {
    let wait = duration::any(text)?;
    if wait > LONGEST_WAIT { Err("it is at most 10m".to_owned()) } else { Ok(wait) }
}

fn runtime_version(text: &str) -> Result<RuntimeVersion, String> {
    let known = || RuntimeVersion::ALL.map(|one| one.differences().name).join(", ");
    RuntimeVersion::by_name(text).ok_or_else(|| format!("there are {}", known()))
}

/// A class's id, with or without braces.
pub(super) fn class(text: &str) -> Result<u128, String> {
    let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let parts: Vec<&str> = bare.split('-').collect();
    let is_one = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
    let number = is_one.then(|| u128::from_str_radix(&parts.concat(), 16).ok()).flatten();
    number.ok_or_else(|| "a class is written like 6c1f3a52-0d7e-4b0a-9a55-2f1f6d0b8e11".to_owned())
}
