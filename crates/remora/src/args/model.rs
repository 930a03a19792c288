//! Flags of `remora model`.

use super::lab::class;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand, ValueEnum};
use remora_clr_model::desktop::{Action, SCENARIOS, Scenario, TRIGGERS};
use remora_clr_model::differences::Release;
use remora_clr_model::machine::Account;
use remora_terminal::duration;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  remora model run plain --background
  remora model attach plain --clsid 6c1f3a52-0d7e-4b0a-9a55-2f1f6d0b8e11 --library ./libprofiler.so
  remora model log plain
  remora model stop plain

docs/authors/desktop-attach.md walks through every command.";

/// Flags of `remora model`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

/// What to do with modelled targets.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Start a target, and run it until Ctrl-C, `remora model stop`, or the end of a pipe at standard input
    Run(RunArgs),
    /// List the targets and their runtimes, as a trigger process finds them
    Ps(ModelPsArgs),
    /// Attach a profiler's library, as a trigger process does
    Attach(AttachArgs),
    /// Hang up the channel of a profiler, which asks it to detach, and wait until it is unloaded
    Detach(ModelDetachArgs),
    /// Make something happen in a target
    Tell(TellArgs),
    /// Show what profilers have written to a target's channel, also when it has ended
    Channel(ChannelArgs),
    /// Show a target's event log, also when it has ended
    Log(LogArgs),
    /// End a target, and remove what it has left
    Stop(OneTargetArgs),
}

/// Flags of `remora model run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What kind of target; see --list
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub(crate) scenario: Option<String>,
    /// List the scenarios
    #[arg(long)]
    pub(crate) list: bool,
    /// The target's name [default: that of the scenario]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Return as soon as the target is ready; it runs until `remora model stop`
    #[arg(long)]
    pub(crate) background: bool,
    /// Watch over a target in the background, for --background alone
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
    /// Be the target, for the process that watches over it alone
    #[arg(long, hide = true)]
    pub(crate) watched: bool,
    /// A variable of the target's environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// The application's configuration file, for gcConcurrent and gcServer
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How much faster than the clock the target's time passes, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) speed: u32,
}

/// Flags of `remora model ps`.
#[derive(Debug, Args)]
pub(crate) struct ModelPsArgs {
    #[command(flatten)]
    pub(crate) trigger: TriggerArgs,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `remora model attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) target: OneTargetArgs,
    /// The profiler's class
    #[arg(long, value_name = "GUID", value_parser = class)]
    pub(crate) clsid: u128,
    /// The profiler's library [default: the registered one of the class]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// The runtime, like v4.0.30319 [default: the first from version 4 on]
    #[arg(long, value_name = "VERSION", value_parser = release)]
    pub(crate) runtime: Option<Release>,
    /// How long AttachProfiler waits, in the target's time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
    /// What InitializeForAttach gets: a text, where {channel} becomes the path of the target's channel, or a file's bytes [default: nothing]
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) client_data: Option<String>,
    #[command(flatten)]
    pub(crate) trigger: TriggerArgs,
}

/// Flags of `remora model detach`.
#[derive(Debug, Args)]
pub(crate) struct ModelDetachArgs {
    #[command(flatten)]
    pub(crate) target: OneTargetArgs,
    /// How long to wait for the unload
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub(crate) wait: Duration,
}

/// Flags of `remora model channel`.
#[derive(Debug, Args)]
pub(crate) struct ChannelArgs {
    #[command(flatten)]
    pub(crate) target: OneTargetArgs,
    /// Wait until a line contains this text, or the target ends
    #[arg(long, value_name = "TEXT")]
    pub(crate) until: Option<String>,
    /// How long to wait for it
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "until", value_parser = duration::parse)]
    pub(crate) wait: Duration,
}

/// Flags of `remora model tell`.
#[derive(Debug, Args)]
pub(crate) struct TellArgs {
    /// The target
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// What happens
    #[arg(value_name = "EVENT")]
    pub(crate) event: Event,
}

/// Flags of `remora model log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) target: OneTargetArgs,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One target.
#[derive(Debug, Args)]
pub(crate) struct OneTargetArgs {
    /// The target [default: the only one]
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

/// Whom the trigger process plays.
#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    /// Whom the trigger process runs as; debug-privilege is an administrator with SE_DEBUG_NAME
    #[arg(long, value_name = "ACCOUNT", default_value = "user", value_parser = accounts().map(account))]
    pub(crate) trigger: Account,
}

/// Something that happens in a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Event {
    /// The blocked finalizer returns
    FinalizerReturns,
    /// The process loads its runtimes
    StartRuntime,
    /// A thread of the application loads a module
    LoadModule,
    /// A thread of the application collects garbage
    Collect,
    /// The thread that stays in a callback leaves it
    ThreadLeaves,
    /// A debugger stops the process
    DebuggerStops,
    /// The debugger lets the process continue
    DebuggerContinues,
}

impl From<Event> for Action {
    fn from(event: Event) -> Action {
        match event {
            Event::FinalizerReturns => Action::FinalizerReturns,
            Event::StartRuntime => Action::StartRuntime,
            Event::LoadModule => Action::LoadModule,
            Event::Collect => Action::Collect,
            Event::ThreadLeaves => Action::ThreadLeaves,
            Event::DebuggerStops => Action::DebuggerStops,
            Event::DebuggerContinues => Action::DebuggerContinues,
        }
    }
}

/// The names of all scenarios.
pub(crate) fn scenario_names() -> String {
    SCENARIOS.iter().map(|one: &Scenario| one.name).collect::<Vec<_>>().join(", ")
}

fn accounts() -> PossibleValuesParser {
    PossibleValuesParser::new(TRIGGERS.iter().map(|(name, _)| PossibleValue::new(*name)))
}

fn account(name: String) -> Account {
    let known = TRIGGERS.iter().find(|(known, _)| *known == name);
    known.unwrap_or(&TRIGGERS[0]).1
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A version string of the hosting interfaces.
fn release(text: &str) -> Result<Release, String> {
    let numbers: Option<Vec<u16>> = text
        .strip_prefix(['v', 'V'])
        .map(|numbers| numbers.split('.').map_while(|number| number.parse().ok()).collect());
    match numbers.as_deref() {
        Some([major, minor, build]) if text.split('.').count() == 3 => Ok(Release(*major, *minor, *build)),
        _ => Err("a runtime's version is written like v4.0.30319; `remora model ps` lists them".to_owned()),
    }
}
