//! The command line's definition. Each command's own plan fills in defaults and refuses contradictions.

mod lab;
pub(crate) mod model;
mod presentation;
mod refusal;
mod shell;
pub(crate) mod trace;

pub(crate) use lab::{LabArgs, LabRunArgs};
use model::{ModelArgs, ModelCommand};
pub(crate) use presentation::{ApplicationArgs, RuntimeFramesArgs};
pub(crate) use refusal::in_one_line;
pub(crate) use shell::{CompletionsArgs, ManArgs};

use clap::builder::{PossibleValuesParser, TypedValueParser as _, styling};
use clap::{Args, Parser, Subcommand, ValueEnum};
use remora_heap_report::{Condition, Group};
use remora_profile::Event;
use remora_terminal::duration;
use std::{ffi::OsString, path::PathBuf, str::FromStr as _, time::Duration};

/// Samples a second and thread if nothing else is said: what the field is used to, cheap, and not a divisor of anything.
pub(crate) const HERTZ: u32 = 99;
/// Most samples a second and thread.
pub(crate) const MOST_HERTZ: u32 = 10_000;

const EXIT_STATUS: &str = "\
Exit status:
   0  done; for `record`: and nothing was left in the process
   1  for `lab`: the profiler broke a clause
   2  the flags make no sense
   3  for `lab`: the profiler was loaded and did nothing
  1x  the process cannot be recorded
  2x  the output cannot be written
  3x  the recording file cannot be read
  4x  recorded, but: 40 something was left in the process, 41 it ended early; for `heap`:
      42 not all of the heap is in the snapshot, 43 a condition of --fail-if is met
docs/reference/exit-codes.md has the whole table.";

/// Records where a running .NET process spends its time, and leaves it as it was
#[derive(Debug, Parser)]
#[command(name = "remora", version, after_help = EXIT_STATUS, styles = STYLES, max_term_width = 100)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::Style::new().bold())
    .usage(styling::Style::new().bold())
    .literal(styling::Style::new().bold());

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Attach to a process, record it, detach, and prove that nothing was left
    Record(RecordArgs),
    /// Count and time calls: all of a command that it starts, or those of single methods of a running process
    Trace(trace::TraceArgs),
    /// Show the hottest methods of a recording
    Report(ReportArgs),
    /// Make another format from a recording
    Convert(ConvertArgs),
    /// List the .NET processes of this machine
    Ps(PsArgs),
    /// Tell whether a process can be recorded, and if not, why
    Check(CheckArgs),
    /// Find and remove what an interrupted recording left
    Detach(DetachArgs),
    /// Take a snapshot of a process's heap: what fills it, and what keeps it
    Heap(HeapArgs),
    /// Check a profiler's library in a model of the runtime, clause by clause
    Lab(LabArgs),
    /// Attach profilers to a model of the desktop's runtime, as a trigger process does
    Model(ModelArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
    /// One run of the laboratory, in a process of its own: started by `lab` only
    #[command(hide = true)]
    LabRun(LabRunArgs),
}

impl Command {
    /// Whether standard output is for JSON.
    pub(crate) fn prints_json(&self) -> bool {
        let to_stdout = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
        match self {
            Command::Record(args) => args.json && !to_stdout(&args.output) && !to_stdout(&args.receipt),
            Command::Trace(args) => args.json,
            Command::Report(args) => args.json,
            Command::Ps(args) => args.json,
            Command::Check(args) => args.json,
            Command::Detach(args) => args.json,
            Command::Lab(args) => args.json,
            Command::Model(args) => match &args.command {
                ModelCommand::Ps(args) => args.json,
                ModelCommand::Log(args) => args.json,
                _ => false,
            },
            Command::Heap(args) => match &args.command {
                None => args.take.shown.json && !to_stdout(&args.take.receipt),
                Some(HeapCommand::Report(args)) => args.shown.json,
                Some(HeapCommand::Show(args)) => args.shown.json,
                Some(HeapCommand::Diff(args)) => args.shown.json,
                Some(HeapCommand::View(_) | HeapCommand::Convert(_)) => false,
            },
            Command::Convert(_) | Command::Completions(_) | Command::Man(_) | Command::LabRun(_) => false,
        }
    }
}

/// Flags of `remora record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) unseen: UnseenArgs,
    /// Stop after this long: 30s, 5m, 1h30m, or dd:hh:mm:ss [default: until Enter or Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) duration: Option<Duration>,
    /// What to measure: CPU time, or wall-clock time with waits
    #[arg(short, long, value_name = "EVENT", default_value = "cpu")]
    #[arg(value_parser = PossibleValuesParser::new(EVENTS.map(Event::name)).map(event))]
    pub(crate) event: Event,
    /// Samples a second and thread, 1 to 10000; the eventpipe engine has a rate of its own
    #[arg(short, long, value_name = "HZ", default_value_t = HERTZ, value_parser = hertz)]
    pub(crate) frequency: u32,
    /// Signals and read stacks a second, for the whole process [default: for cpu 10000 or more, for wall 2000]
    #[arg(long, value_name = "SIGNALS", value_parser = up_to_a_million)]
    pub(crate) signal_budget: Option<u32>,
    /// Where to write; the extension says the format, - is stdout [default: APP_DATE_TIME.html]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format, if the extension does not say it: remora, html, folded, speedscope, pprof, firefox
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the receipt there as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// What takes the samples: Remora's agent, or the runtime's own sampler, which loads nothing
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub(crate) engine: EngineChoice,
    #[command(flatten)]
    pub(crate) application: ApplicationArgs,
    #[command(flatten)]
    pub(crate) runtime_frames: RuntimeFramesArgs,
    /// Look for debug files of native libraries and for PDBs there first; may be given again
    #[arg(long, value_name = "DIR")]
    pub(crate) symbols: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Record thrown exceptions, too: by type, method and line
    #[arg(long)]
    pub(crate) exceptions: bool,
    /// Let the command's runtime load the agent at its start: the recording has the first managed code
    #[arg(long, requires = "command")]
    pub(crate) from_start: bool,
    /// Start this command and record it as soon as it can be attached to; with --json or `-o -` what it prints goes to standard error
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const RECORD_EXAMPLES: &str = "\
Formats: .remora (everything; others can be made from it later), .html (flame graph), .folded,
.speedscope.json, .pb.gz (pprof), .firefox.json.gz

Examples:
  remora record                          the only .NET process, until Enter or Ctrl-C
  remora record -p 4242 -d 30s -o cpu.html
  remora record -n Orders -e wall -d 1m  threads that wait, too
  remora record -- dotnet Orders.dll     as soon as it can be attached to
  remora record --from-start -- dotnet Orders.dll";

/// Which process.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The process, by id [default: the only .NET process that can be attached to]
    #[arg(short, long, alias = "pid", value_name = "PID", value_parser = process_id)]
    pub(crate) process_id: Option<u32>,
    /// The process, by its name or the name of its entry assembly, exactly
    #[arg(short, long, value_name = "NAME", conflicts_with = "process_id")]
    pub(crate) name: Option<String>,
    /// Put Remora's library there, in the process's own view, even if other users can write to it: they could replace the library
    /// [default: the first directory of several where only the process's user and root can]
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub(crate) library_directory: Option<PathBuf>,
}

/// Whether the only process is attached to unseen.
#[derive(Debug, Args)]
pub(crate) struct UnseenArgs {
    /// Without -p and -n: take the only .NET process although no terminal shows which one it is
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A whole path, or why it is none.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("it is the process's directory: give its whole path".to_owned()) }
}

/// A process id, or why it is none.
fn process_id(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(id) if (1..=i32::MAX).contains(&id) => Ok(id.unsigned_abs()),
        _ => Err("a process id is a number from 1; for a name there is --name".to_owned()),
    }
}

/// The same for a command that takes no names.
fn bare_process_id(text: &str) -> Result<u32, String> {
    process_id(text).map_err(|_| "a process id is a number from 1; `remora ps` lists them".to_owned())
}

const EVENTS: [Event; 2] = [Event::Cpu, Event::Wall];

fn event(name: String) -> Event {
    EVENTS.into_iter().find(|event| event.name() == name).unwrap_or(Event::Cpu)
}

fn hertz(text: &str) -> Result<u32, String> {
    whole(text, MOST_HERTZ)
}

fn up_to_a_million(text: &str) -> Result<u32, String> {
    whole(text, 1_000_000)
}

/// A number from 1 to `most`, or what would be one.
fn whole(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {most}"))
}

/// Flags of `remora report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A .remora file
    pub(crate) file: PathBuf,
    /// How many methods to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = up_to_a_million)]
    pub(crate) top: u32,
    /// Only this thread, by its id or name; `all` shows each thread by itself
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) application: ApplicationArgs,
    #[command(flatten)]
    pub(crate) runtime_frames: RuntimeFramesArgs,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `remora convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A .remora file
    pub(crate) file: PathBuf,
    /// Where to write; the extension says the format, - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The format, if the extension does not say it: remora, html, folded, speedscope, pprof, firefox
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Overwrite a file that exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) runtime_frames: RuntimeFramesArgs,
    #[command(flatten)]
    pub(crate) application: ApplicationArgs,
}

/// Flags of `remora ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `remora check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `remora detach`.
#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// The process, by id
    #[arg(short, long, alias = "pid", value_name = "PID", value_parser = bare_process_id)]
    pub(crate) process_id: u32,
    /// Look there, too: the directory that was named when the process was recorded
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    pub(crate) library_directory: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `remora heap`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = HEAP_NOTES)]
pub(crate) struct HeapArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HeapCommand>,
    #[command(flatten)]
    pub(crate) take: HeapTakeArgs,
}

const HEAP_NOTES: &str = "\
Pauses the application for one full GC (none with --no-gc, at most two with --roots, more with
--watch). The application continues while Remora walks a copy. Sizes are binary: 1 MiB is
1,048,576 bytes.

Exit status:
  1x  a snapshot cannot be taken
  2x  a file cannot be written
  3x  the snapshot cannot be read
  40  something was left in the process
  41  the process ended meanwhile
  42  not all of the heap is in the snapshot, or --watch lost events
  43  a condition of --fail-if is met
  130 interrupted before anything was there
docs/reference/heap-report.md explains the words, docs/reference/exit-codes.md has the whole table.

Examples:
  remora heap -p 4242                    take a snapshot, keep it, show it
  remora heap -n Orders -o before.remora-heap
  remora heap -p 4242 --watch 60s        which types grow, who survives how many collections
  remora heap report before.remora-heap --top 50
  remora heap show before.remora-heap MyApp.Cache
  remora heap view before.remora-heap    in the browser
  remora heap diff before.remora-heap after.remora-heap
  remora heap convert before.remora-heap -o before.gcdump
  remora heap report before.remora-heap --fail-if 'retained(\"MyApp.Cache\") > 500MB'";

/// What `remora heap` does beside taking a snapshot.
#[derive(Debug, Subcommand)]
pub(crate) enum HeapCommand {
    /// Show what is in a snapshot, and what keeps it
    Report(HeapReportArgs),
    /// Show one object or one type of a snapshot: why it is alive, and what it keeps
    Show(HeapShowArgs),
    /// Show a snapshot in the browser: what holds what, as a map, a tree and tables
    View(HeapViewArgs),
    /// Show what has changed from one snapshot to a later one
    Diff(HeapDiffArgs),
    /// Make a file for other tools from a snapshot
    Convert(HeapConvertArgs),
}

/// Flags of `remora heap -p`.
#[derive(Debug, Args)]
pub(crate) struct HeapTakeArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) unseen: UnseenArgs,
    /// Where to keep the snapshot [default: APP_DATE_TIME.remora-heap]; with --watch both, as FILE.before.remora-heap and FILE.after.remora-heap [default: nowhere]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the receipt there as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Take it after one full GC: live objects only [the default]
    #[arg(long, conflicts_with = "no_gc")]
    pub(crate) gc: bool,
    /// Take the heap without a GC, garbage included (.NET 9 and later)
    #[arg(long)]
    pub(crate) no_gc: bool,
    /// See what holds objects from outside (locals, handles, the finalizer queue), as the main profiler; from .NET 6 on an inert library stays: see docs/reference/heap-roots.md
    #[arg(long, conflicts_with = "no_gc")]
    pub(crate) roots: bool,
    /// Watch the heap for so long (30s, 5m): which types grow, which objects survive, as the main profiler; from .NET 6 on an inert library stays: see docs/reference/heap-watch.md
    #[arg(long, value_name = "TIME", value_parser = remora_terminal::duration::parse, conflicts_with_all = ["no_gc", "roots", "strings", "values", "fail_if"])]
    pub(crate) watch: Option<Duration>,
    /// Keep the characters of strings, too: the file then holds data of the application
    #[arg(long)]
    pub(crate) strings: bool,
    /// Keep values of fields and arrays and the text of strings for `remora heap show`: the file then holds data of the application
    #[arg(long)]
    pub(crate) values: bool,
    /// Memory that the copy of the process may cost, as pages that the program writes to meanwhile [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = remora_terminal::size::parse)]
    pub(crate) max_extra_memory: Option<u64>,
    #[command(flatten)]
    pub(crate) shown: HeapShownArgs,
    #[command(flatten)]
    pub(crate) grouped: HeapGroupedArgs,
    #[command(flatten)]
    pub(crate) failing: HeapFailingArgs,
}

/// Flags of `remora heap report`.
#[derive(Debug, Args)]
pub(crate) struct HeapReportArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) shown: HeapShownArgs,
    #[command(flatten)]
    pub(crate) grouped: HeapGroupedArgs,
    #[command(flatten)]
    pub(crate) failing: HeapFailingArgs,
}

/// Of what the first table of a report has a row.
#[derive(Debug, Args)]
pub(crate) struct HeapGroupedArgs {
    /// Count objects by type, or by assembly; JSON always has both
    #[arg(long, value_name = "WHAT", default_value = "type", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(Group::NAMES).try_map(|name| Group::from_str(&name).map_err(|error| error.to_string())))]
    pub(crate) by: Group,
}

/// Flags of `remora heap convert`.
#[derive(Debug, Args)]
#[command(after_help = HEAP_FORMATS)]
pub(crate) struct HeapConvertArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where to write; the extension says the format, - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The format, if the extension does not say it: heapsnapshot, gcdump, parquet
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Overwrite a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

const HEAP_FORMATS: &str = "\
Formats: .heapsnapshot (Memory panel of Chrome's DevTools), .gcdump (PerfView, Visual Studio,
dotnet-gcdump), .parquet (tables for DuckDB, Spark and the like: FILE.objects.parquet,
FILE.references.parquet, FILE.types.parquet, FILE.roots.parquet)";

/// What of a snapshot is a failure.
#[derive(Debug, Args)]
pub(crate) struct HeapFailingArgs {
    /// End with 43 if this holds, as 'retained("MyApp.Cache") > 500MB'; bytes, count and retained of a type, bytes() and count() of all; may be given again
    #[arg(long, value_name = "CONDITION", value_parser = remora_heap_report::parse_condition)]
    pub(crate) fail_if: Vec<Condition>,
}

/// Flags of `remora heap show`.
#[derive(Debug, Args)]
pub(crate) struct HeapShowArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// An object's address, a type's name or an unmistakable part of it, or a static field's name
    #[arg(value_name = "@ADDRESS|TYPE|FIELD")]
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) shown: HeapShownArgs,
}

/// Flags of `remora heap view`.
#[derive(Debug, Args)]
#[command(after_help = HEAP_VIEW_NOTES)]
pub(crate) struct HeapViewArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The port of 127.0.0.1 to listen to [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

const HEAP_VIEW_NOTES: &str = "\
Prints an address to open in a browser on this machine, and answers until Ctrl-C. Whoever knows
the address sees the snapshot: it has a secret in it, new at each start. From another machine:
ssh -L PORT:127.0.0.1:PORT HOST, and the address as it is.

The first time an index is made and kept in FILE.index, or where that folder takes no files, in
the user's cache ($XDG_CACHE_HOME/remora); with it the page is there at once. It can be deleted.";

/// Flags of `remora heap diff`.
#[derive(Debug, Args)]
pub(crate) struct HeapDiffArgs {
    /// The earlier snapshot
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The later one
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) shown: HeapShownArgs,
}

/// How a snapshot is shown.
#[derive(Debug, Args)]
pub(crate) struct HeapShownArgs {
    /// How many rows of a table to show [default: 20, and 5 after a new snapshot]; of types, JSON always has all
    #[arg(long, value_name = "N", value_parser = up_to_a_million)]
    top: Option<u32>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl HeapShownArgs {
    /// How many rows of a table to show.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(20) as usize
    }

    /// The same after a new snapshot, where the first lines should stay in sight.
    pub(crate) fn top_of_new(&self) -> usize {
        if self.json { self.top() } else { self.top.unwrap_or(5) as usize }
    }
}

/// What takes the samples: the agent, the runtime's own sampler, or the first of these that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum EngineChoice {
    Auto,
    Agent,
    EventPipe,
}
