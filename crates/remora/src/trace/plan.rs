//! What to trace and where to write it.

use super::format::TraceFormat;
use crate::args::trace::{TraceArgs, TraceEvent};
use crate::failure::Failure;
use crate::output::{Destination, NamedFormat, Reserve, default_output, provisional_output};
use crate::record::child::Printing;
use jiff::Zoned;
use remora_attach::Process;
use remora_collector::TracingOrder;
use remora_export::Format;
use std::time::Duration;

/// Bytes of all patterns: they are passed on in shared memory.
const LONGEST_PATTERNS: usize = 4000;
/// The format of an output that was not named.
const UNNAMED: TraceFormat = TraceFormat::Profile(Format::Html);

/// Calls with arguments and results, without `--limit`.
const MOST_RECORDS: u32 = 10_000;

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceOutput {
    pub(crate) destination: Destination,
    pub(crate) format: TraceFormat,
}

/// The plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) order: TracingOrder,
    pub(crate) json: bool,
    pub(crate) top: usize,
    named: Vec<TraceOutput>,
}

impl Plan {
    /// Resolves the flags.
    pub(crate) fn resolve(args: &TraceArgs) -> Result<Plan, Failure> {
        let allocations = args.event == TraceEvent::AllocExact;
        let named: Vec<TraceOutput> = args
            .output
            .iter()
            .map(|path| {
                let destination = Destination::of(path, args.force);
                if destination == Destination::Stdout {
                    return Err(Failure::Usage("standard output is for the table; give -o a file".to_owned()));
                }
                let format = TraceFormat::resolve(None, &destination, "calls")?;
                if allocations && matches!(format, TraceFormat::Timeline | TraceFormat::Profile(Format::Firefox)) {
                    return Err(Failure::Usage("that format is for times; use .html or .speedscope.json".to_owned()));
                }
                Ok(TraceOutput { format, destination })
            })
            .collect::<Result<_, _>>()?;
        if args.arguments && allocations {
            return Err(Failure::Usage("--arguments belongs to calls; leave --event alloc-exact out".to_owned()));
        }
        if !args.arguments && (args.slower_than.is_some() || args.limit.is_some()) {
            let why = "of a command, --slower-than and --limit choose calls for --arguments; add that, or use --long";
            return Err(Failure::Usage(why.to_owned()));
        }
        let length = |patterns: &[String]| patterns.iter().map(|pattern| pattern.len() + 1).sum::<usize>();
        if length(&args.methods).max(length(&args.exclude)) > LONGEST_PATTERNS {
            return Err(Failure::Usage(format!("patterns have more than {LONGEST_PATTERNS} bytes; use `*` in them")));
        }
        Ok(Plan {
            order: TracingOrder {
                methods: args.methods.clone(),
                excluded: args.exclude.clone(),
                long: match args.arguments {
                    true => args.slower_than.unwrap_or(Duration::ZERO),
                    // Times mean little there.
                    false if allocations => Duration::MAX,
                    false => args.long,
                },
                arguments: args.arguments.then(|| args.limit.unwrap_or(MOST_RECORDS)),
                allocations,
            },
            json: args.json,
            top: args.top as usize,
            named,
        })
    }

    /// Before the command starts: checks whether the outputs can be written, and reserves space for each.
    pub(crate) fn reserve(&self) -> Result<Vec<Option<Reserve>>, Failure> {
        let unnamed = [provisional_output(UNNAMED.ending())];
        let destinations: Vec<&Destination> = match &self.named[..] {
            [] => unnamed.iter().collect(),
            named => named.iter().map(|output| &output.destination).collect(),
        };
        // All are checked first: what is reserved is no free space.
        destinations.iter().try_for_each(|destination| destination.check())?;
        destinations.into_iter().map(Destination::reserve).collect()
    }

    /// The destination of the command's output.
    pub(crate) fn command_prints(&self) -> Printing {
        if self.json { Printing::ToError } else { Printing::ToOutput }
    }

    /// The outputs. Without a named one, a page with a name after the process.
    pub(crate) fn outputs_for(&self, process: &Process) -> Result<Vec<TraceOutput>, Failure> {
        if !self.named.is_empty() {
            return Ok(self.named.clone());
        }
        let path = default_output(&process.name(), &Zoned::now(), UNNAMED.ending());
        // The folder was checked before the command started.
        Ok(vec![TraceOutput { destination: Destination::of(&path, false), format: UNNAMED }])
    }

    /// The patterns, for a message.
    pub(crate) fn patterns(&self) -> String {
        let quoted =
            |patterns: &[String]| patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ");
        let wanted = match &self.order.methods[..] {
            [] => "the application (all assemblies but System.* and Microsoft.*)".to_owned(),
            methods => quoted(methods),
        };
        match &self.order.excluded[..] {
            [] => wanted,
            excluded => format!("{wanted} without {}", quoted(excluded)),
        }
    }
}
