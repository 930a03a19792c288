//! Flags of `remora trace`: with a command, or for a running process.

use super::{TargetArgs, UnseenArgs, up_to_a_million};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use remora_terminal::duration;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Flags of `remora trace`.
#[derive(Debug, Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) unseen: UnseenArgs,
    /// Trace methods with these names, like 'Shop.Orders.*'; may be given again [default: of a command, all of the application]
    #[arg(short, long, alias = "method", value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    #[arg(required_unless_present = "command")]
    pub(crate) methods: Vec<String>,
    /// Record calls that last this long; of a command, with --arguments only [default: every call with --arguments or --limit, else 10ms]
    #[arg(short, long, value_name = "TIME", value_parser = duration_or_zero)]
    pub(crate) slower_than: Option<Duration>,
    /// Record arguments and results that are numbers, strings or enums, too; of a command, needs --methods
    #[arg(short, long, requires = "methods")]
    pub(crate) arguments: bool,
    /// Of a running process: stop after this many recorded calls; of a command: record the arguments of so many [default: 10000]
    #[arg(short, long, value_name = "N", value_parser = up_to_a_million)]
    pub(crate) limit: Option<u32>,
    /// Of a running process: stop after this long, like 30s or 5m [default: until Enter or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "command")]
    pub(crate) duration: Option<Duration>,
    /// Of a running process: stop if the methods are called more often a second
    #[arg(long, value_name = "CALLS", default_value_t = 2_000_000, conflicts_with = "command")]
    pub(crate) most_calls: u64,
    /// Of a command: count calls and their times, or every allocated object by type and callers
    #[arg(short, long, conflicts_with_all = ["process_id", "name"], value_enum, value_name = "EVENT", default_value_t = TraceEvent::Calls)]
    pub(crate) event: TraceEvent,
    /// Leave methods with these names out; may be given again
    #[arg(long, conflicts_with_all = ["process_id", "name"], value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) exclude: Vec<String>,
    /// List calls that take at least this long by themselves, for the timeline
    #[arg(long, conflicts_with_all = ["process_id", "name", "arguments"], value_name = "TIME", default_value = "100us", value_parser = duration::parse)]
    pub(crate) long: Duration,
    /// Where to write; the extension says the format; may be given again [default: APP_DATE_TIME.html]
    #[arg(short, long, conflicts_with_all = ["process_id", "name"], value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, conflicts_with_all = ["process_id", "name"])]
    pub(crate) force: bool,
    /// How many methods to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = up_to_a_million)]
    pub(crate) top: u32,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Start this command and trace it from its first managed code; with --json what it prints goes to standard error
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["process_id", "name"])]
    pub(crate) command: Vec<OsString>,
}

/// A duration; nothing is allowed, and stands for every call.
fn duration_or_zero(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic()) {
        "0" => Ok(Duration::ZERO),
        _ => duration::parse(text),
    }
}

/// What `remora trace -- COMMAND` counts: calls with their times, or allocated objects by type and callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceEvent {
    Calls,
    AllocExact,
}

const TRACE_EXAMPLES: &str = "\
Formats: .html (flame graph), .calls.json (call tree), .calls.txt (the same as text),
.trace.json (timeline for ui.perfetto.dev), .folded, .speedscope.json, .pb.gz (pprof), .firefox.json.gz

In a running process the agent stays until that ends: .NET does not detach a profiler that has
changed methods. It does nothing after the trace, and the next one uses it again.

Examples:
  remora trace -p 4242 -m 'Shop.Orders.*'
  remora trace -p 4242 -m Shop.Orders.Pay --slower-than 50ms --arguments
  remora trace -- dotnet Orders.dll      every method of the application
  remora trace --methods 'Shop.Orders.*' --exclude '*.get_*' -- dotnet Orders.dll
  remora trace --arguments --methods Shop.Orders.Pay --slower-than 50ms -- dotnet Orders.dll
  remora trace --event alloc-exact -- dotnet Orders.dll    what allocates, and where
  remora trace -o orders.html -o orders.trace.json -- dotnet Orders.dll";
