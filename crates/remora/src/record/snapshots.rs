//! Heap snapshots on request while a recording runs: `remora heap`, started beside it. The recording goes on meanwhile.

use remora_attach::Process;
use std::io;
use std::process::{Child, Command, Stdio};

/// Notification-only profilers came with this version.
pub(super) const FIRST_WITH_SEVERAL: u32 = 6;

/// Types in the report.
const TYPES: &str = "10";

/// The snapshots that a recording was asked for.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    running: Option<Child>,
}

impl Snapshots {
    /// Takes one of the process, unless one is being taken. What it prints goes to standard error. Returns the effect.
    pub(crate) fn take(&mut self, process: &Process) -> String {
        if has_one_place(process) {
            return format!(
                "no snapshot: before .NET {FIRST_WITH_SEVERAL} a process has one profiler, and this recording is it"
            );
        }
        if self.is_taken() {
            return "a snapshot is being taken; ask again when it is there".to_owned();
        }
        match start(process.pid) {
            Ok(child) => {
                self.running = Some(child);
                "taking a snapshot of the heap".to_owned()
            }
            Err(error) => format!("`remora heap` cannot be started: {error}"),
        }
    }

    /// Whether one is being taken. Its report and errors are its own.
    fn is_taken(&mut self) -> bool {
        self.running.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Waits for the last one.
    pub(crate) fn finish(&mut self) {
        if let Some(mut child) = self.running.take() {
            // An error means that it is not there any more.
            let _ = child.wait();
        }
    }
}

/// Whether its runtime takes one profiler only.
pub(super) fn has_one_place(process: &Process) -> bool {
    let version = process.runtime().and_then(|runtime| runtime.version);
    version.is_some_and(|version| version.major < FIRST_WITH_SEVERAL)
}

fn start(process_id: u32) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["heap", "-p", &process_id.to_string(), "--top", TYPES]);
    command.stdin(Stdio::null()).stdout(io::stderr()).spawn()
}
