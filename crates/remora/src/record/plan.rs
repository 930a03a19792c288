//! Resolves the flags of `record` into a plan, and refuses invalid combinations.

use super::child::Printing;
use crate::args::{EngineChoice, RecordArgs, RuntimeFramesArgs};
use crate::failure::Failure;
use crate::output::{Destination, FileFormat, NamedFormat, Output, default_output, provisional_output};
use jiff::Zoned;
use remora_attach::Process;
use remora_profile::{ApplicationRule, Event};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The resolved flags.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The measured event.
    pub(crate) event: Event,
    /// Samples a second and thread.
    pub(crate) frequency: u32,
    /// Signals and stack reads a second; `None` for the collector's own limits.
    pub(crate) signal_budget: Option<u32>,
    /// When to stop automatically.
    pub(crate) duration: Option<Duration>,
    /// The engine.
    pub(crate) engine: EngineChoice,
    /// Whether the command's runtime loads the agent at its start.
    pub(crate) from_start: bool,
    /// Whether to watch exceptions from the beginning.
    pub(crate) exceptions: bool,
    /// Directories with symbols.
    pub(crate) symbols: Vec<PathBuf>,
    /// How frames of the runtime are shown.
    pub(crate) runtime_frames: RuntimeFramesArgs,
    /// Which code is the application's.
    pub(crate) rule: ApplicationRule,
    /// Whether the result is JSON.
    pub(crate) json: bool,
    /// The receipt's destination.
    pub(crate) receipt: Option<Destination>,
    /// The output, if it was named.
    named: Option<Output>,
    /// The format of an output that was not named.
    format: FileFormat,
}

impl Plan {
    /// Resolves the flags.
    pub(crate) fn resolve(args: &RecordArgs) -> Result<Plan, Failure> {
        refuse_contradictions(args)?;
        let format = args.format.as_deref();
        let named = args.output.as_deref().map(|path| Output::resolve(path, format, args.force)).transpose()?;
        let format = format.map_or(Ok(FileFormat::Export(remora_export::Format::Html)), FileFormat::from_name)?;
        let receipt = args.receipt.as_deref().map(|path| Destination::of_receipt(path, args.force));
        named.as_ref().map_or(Ok(()), |named| named.destination.check_apart(receipt.as_ref(), RECORDING))?;
        Ok(Plan {
            event: args.event,
            frequency: args.frequency,
            signal_budget: args.signal_budget,
            duration: args.duration,
            engine: args.engine,
            from_start: args.from_start,
            exceptions: args.exceptions,
            rule: args.application.rule(),
            symbols: args.symbols.clone(),
            runtime_frames: args.runtime_frames,
            json: args.json,
            receipt,
            named,
            format,
        })
    }

    /// Checks whether the named outputs can be written.
    pub(crate) fn check_named(&self) -> Result<(), Failure> {
        self.named.as_ref().map_or(Ok(()), Output::check)?;
        self.receipt.as_ref().map_or(Ok(()), Destination::check)
    }

    /// The destination of a started command's output: not standard output if our result goes there.
    pub(crate) fn command_prints(&self) -> Printing {
        let ours = self.named.as_ref().map(|output| &output.destination).into_iter().chain(&self.receipt);
        let taken = self.json || ours.into_iter().any(|place| *place == Destination::Stdout);
        if taken { Printing::ToError } else { Printing::ToOutput }
    }

    /// Before a command starts: checks whether an output without a name can be written.
    pub(crate) fn check_unnamed(&self) -> Result<(), Failure> {
        if self.named.is_some() { Ok(()) } else { provisional_output(self.format.ending()).check() }
    }

    /// The output. An unnamed one gets a name after the process, and is checked, too.
    pub(crate) fn output_for(&self, process: &Process) -> Result<Output, Failure> {
        if let Some(named) = &self.named {
            return Ok(named.clone());
        }
        let path = default_output(&process.name(), &Zoned::now(), self.format.ending());
        let output = Output { destination: Destination::of(&path, false), format: self.format };
        output.destination.check_apart(self.receipt.as_ref(), RECORDING)?;
        output.check().map(|()| output)
    }
}

/// What the output is, in messages.
const RECORDING: &str = "the recording";

fn refuse_contradictions(args: &RecordArgs) -> Result<(), Failure> {
    let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
    if let Some(folder) = args.symbols.iter().find(|folder| !folder.is_dir()) {
        return usage(&format!("--symbols {} is no directory; give one with debug files or PDBs", folder.display()));
    }
    if !args.symbols.is_empty() && args.engine == EngineChoice::EventPipe {
        return usage("the eventpipe engine reads no symbols; leave out --symbols or --engine");
    }
    if args.from_start && args.engine == EngineChoice::EventPipe {
        return usage("--from-start is for the agent; leave out --from-start or --engine");
    }
    if args.exceptions && args.engine == EngineChoice::EventPipe {
        return usage("the eventpipe engine records no exceptions; leave out --exceptions or --engine");
    }
    let stdout = Some(Path::new("-"));
    let output = args.output.as_deref();
    let receipt = args.receipt.as_deref();
    if !args.command.is_empty() && (args.target.process_id.is_some() || args.target.name.is_some()) {
        return usage("a command to start and a process that runs cannot both be recorded; give one of them");
    }
    if args.json && (output == stdout || receipt == stdout) {
        return usage(
            "--json prints to standard output, and so does `-`; give -o or --receipt a file, or leave --json out",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, CommandLine};
    use clap::Parser;

    fn plan(line: &str) -> Result<Plan, String> {
        let words = ["remora", "record"].into_iter().chain(line.split_ascii_whitespace());
        let parsed = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Record(args) = parsed.command else { panic!("it is record") };
        Plan::resolve(&args).map_err(|failure| failure.line())
    }

    #[test]
    fn defaults_are_cheap_and_useful() {
        let plan = plan("").expect("no flags are needed");
        assert_eq!((plan.event, plan.frequency, plan.duration), (Event::Cpu, 99, None));
        assert_eq!(
            (plan.engine, plan.json, plan.receipt.clone(), plan.named.clone()),
            (EngineChoice::Auto, false, None, None)
        );
        assert_eq!(plan.format.ending(), ".html");
    }

    #[test]
    fn flags_are_resolved() {
        let plan =
            plan("-n Orders -d 1m -e wall -f 10000 -o a.pb.gz --receipt r.json --force --engine eventpipe --json")
                .expect("they make sense");
        assert_eq!((plan.event, plan.frequency, plan.duration), (Event::Wall, 10_000, Some(Duration::from_secs(60))));
        assert_eq!(plan.engine, EngineChoice::EventPipe);
        assert_eq!(plan.receipt, Some(Destination::of_receipt(Path::new("r.json"), true)));
        let named = plan.named.expect("it is named");
        assert_eq!((named.format.name(), named.destination), ("pprof", Destination::of(Path::new("a.pb.gz"), true)));
    }

    #[test]
    fn directories_with_symbols_keep_their_order() {
        let plan = plan("--symbols /usr --symbols /").expect("they exist");
        assert_eq!(plan.symbols, [Path::new("/usr"), Path::new("/")]);
    }

    #[test]
    fn a_format_by_name_beats_the_extension_and_names_the_default() {
        assert_eq!(plan("-o a.html --format folded").expect("fine").named.expect("named").format.name(), "folded");
        assert_eq!(plan("--format remora").expect("fine").format.ending(), ".remora");
        assert_eq!(plan("-o - --format .pb.gz").expect("fine").named.expect("named").destination, Destination::Stdout);
    }

    #[test]
    fn a_command_does_not_print_into_what_others_read() {
        for line in ["--json", "-o - --format folded", "--receipt -"] {
            assert_eq!(plan(line).expect(line).command_prints(), Printing::ToError, "{line}");
        }
        assert_eq!(plan("-o a.html --receipt r.json").expect("fine").command_prints(), Printing::ToOutput);
    }

    #[test]
    fn contradictions_are_refused() {
        let cases = [
            ("-p 1 -- dotnet x.dll", "give one of them"),
            ("-n x -- dotnet x.dll", "give one of them"),
            ("--json -o - --format folded", "--json prints to standard output"),
            ("--json --receipt -", "--json prints to standard output"),
            ("-o a.html --receipt a.html", "the same file"),
            ("-o a.html --receipt ./a.html", "the same file"),
            ("-o /tmp/a.html --receipt /tmp/../tmp/a.html", "the same file"),
            ("--symbols /no/such/folder", "--symbols /no/such/folder is no directory; "),
            ("--symbols / --engine eventpipe", "leave out --symbols"),
            ("--exceptions --engine eventpipe", "leave out --exceptions"),
            ("-o -", "add --format"),
            ("-o a.svg", "unknown format"),
            ("--format svg", "unknown format"),
        ];
        for (line, why) in cases {
            let message = plan(line).expect_err(line);
            assert!(message.contains(why), "{line}: {message}");
        }
    }
}
