//! A trace of methods on request while a recording runs: `remora trace -p`, started beside it. Lines that the user types go to it.

use super::snapshots::{FIRST_WITH_SEVERAL, has_one_place};
use crate::console::note;
use crate::method_trace::STAYS;
use remora_attach::Process;
use remora_collector::has_inert_tracer;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a trace may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at it.
const STEP: Duration = Duration::from_millis(20);

/// The trace that a recording was asked for.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// The place for the library that the user chose.
    library_directory: Option<PathBuf>,
    running: Option<Child>,
    /// The line that has to be typed again, since an agent will stay.
    unconfirmed: Option<String>,
    /// The process in which one has begun.
    process_id: Option<u32>,
}

impl Traces {
    /// None yet.
    pub(super) fn new(library_directory: Option<PathBuf>) -> Traces {
        Traces { library_directory, ..Traces::default() }
    }

    /// Takes a line: `+PATTERN` begins a trace, and every line changes one that runs. Returns the effect.
    pub(super) fn take(&mut self, process: &Process, line: &str) -> String {
        if ["+", "-"].contains(&line) {
            return "a pattern follows its sign: +PATTERN, like +Shop.Orders.*".to_owned();
        }
        if self.runs() {
            return self.pass_on(line);
        }
        let Some(pattern) = line.strip_prefix('+').map(str::trim).filter(|pattern| !pattern.is_empty()) else {
            return "no trace of methods runs: +PATTERN begins one, like +Shop.Orders.*".to_owned();
        };
        if has_one_place(process) {
            return format!(
                "no trace: before .NET {FIRST_WITH_SEVERAL} a process has one profiler, and this recording is it; \
                 end the recording, then use `remora trace`"
            );
        }
        if self.unconfirmed.as_deref() != Some(line) && !has_inert_tracer(process.pid) {
            self.unconfirmed = Some(line.to_owned());
            return format!("{STAYS}. Type {line} again to trace");
        }
        self.unconfirmed = None;
        match self.start(process.pid, pattern) {
            Ok(child) => {
                self.running = Some(child);
                self.process_id = Some(process.pid);
                "beginning a trace of methods: +PATTERN adds, -PATTERN takes out, a time like 50ms sets --slower-than, t ends it"
                    .to_owned()
            }
            Err(error) => format!("`remora trace` cannot be started: {error}"),
        }
    }

    /// What [`Self::ask_to_end`] is about to do. The trace prints its result by itself, so this comes first.
    pub(super) fn reply_to_end(&mut self) -> &'static str {
        if self.runs() { "ending the trace of methods" } else { "no trace of methods runs" }
    }

    /// Ends the trace, and waits for what it prints. If it does not end in time, it is killed; then its agent restores the methods.
    pub(super) fn finish(&mut self, is_hurried: impl Fn() -> bool) {
        self.ask_to_end();
        let deadline = Instant::now() + PATIENCE;
        while self.runs() {
            if is_hurried() || Instant::now() > deadline {
                note("the trace of methods does not end; its agent restores the methods by itself");
                if let Some(child) = &mut self.running {
                    // An error means that it is not there any more.
                    let _ = child.kill().and_then(|()| child.wait());
                }
                return;
            }
            std::thread::sleep(STEP);
        }
    }

    /// Whether an agent has come with one, which stays.
    pub(super) fn have_left_an_agent(&self) -> bool {
        self.process_id.is_some_and(has_inert_tracer)
    }

    /// Whether it runs. Its result and errors are its own.
    fn runs(&mut self) -> bool {
        self.running.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn pass_on(&mut self, line: &str) -> String {
        let written =
            self.running.as_mut().and_then(|child| child.stdin.as_mut()).map(|input| writeln!(input, "{line}"));
        match written {
            Some(Ok(())) => format!("asked the trace for {line}"),
            _ => "the trace of methods is ending".to_owned(),
        }
    }

    fn start(&self, process_id: u32, pattern: &str) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["trace", "-p", &process_id.to_string(), &format!("--methods={pattern}")]);
        if let Some(directory) = &self.library_directory {
            command.arg("--library-directory").arg(directory);
        }
        command.stdin(Stdio::piped()).stdout(io::stderr()).spawn()
    }

    /// Asks the trace to end, if one runs: an empty line does.
    pub(super) fn ask_to_end(&mut self) {
        if let Some(mut input) = self.running.as_mut().and_then(|child| child.stdin.take()) {
            // If it does not read any more, it is ending.
            let _ = writeln!(input);
        }
    }
}
