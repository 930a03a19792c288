//! `remora ps`: the .NET processes of this machine, and whether they can be recorded.

use crate::args::PsArgs;
use crate::console::{Page, line, out};
use crate::failure::Failure;
use remora_attach::{Process, Runtime, RuntimeKind, TargetText, processes};
use remora_terminal::Table;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(args: &PsArgs) -> Result<(), Failure> {
    let processes = processes()?;
    if args.json {
        let rows: Vec<Row> = processes.iter().map(Row::of).collect();
        return out(&Page::json(&rows));
    }
    if processes.is_empty() {
        return out(&line("no .NET processes (of other users, only root sees all)"));
    }
    out(&text(&processes))
}

/// JSON output for one process. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Row {
    process_id: u32,
    namespaced_process_id: u32,
    user: Option<String>,
    user_id: u32,
    name: String,
    entry_assembly: Option<String>,
    executable: Option<String>,
    command_line: Vec<String>,
    runtimes: Vec<RuntimeRow>,
    runtime_version: Option<String>,
    architecture: Option<String>,
    libc: String,
    container: Option<String>,
    attachable: bool,
    reason: Option<String>,
    /// Why facts from its `/proc` files may be missing.
    incomplete: Option<String>,
}

#[derive(Debug, Serialize)]
struct RuntimeRow {
    kind: &'static str,
    version: Option<String>,
    file: String,
}

impl Row {
    fn of(process: &Process) -> Row {
        let within = |text: &TargetText| text.within(TargetText::LONGEST);
        let version = |runtime: &Runtime| runtime.version.map(|version| version.to_string());
        Row {
            process_id: process.pid,
            namespaced_process_id: process.namespaced_pid,
            user: process.user.clone(),
            user_id: process.uid,
            name: process.name().within(TargetText::LONGEST),
            entry_assembly: process.entry_assembly.as_ref().map(within),
            executable: process.executable.as_ref().map(ToString::to_string),
            command_line: process.command_line.iter().map(within).collect(),
            runtimes: process
                .runtimes
                .iter()
                .map(|runtime| RuntimeRow {
                    kind: kind(runtime.kind),
                    version: version(runtime),
                    file: runtime.file.to_string(),
                })
                .collect(),
            runtime_version: process.runtime().and_then(version),
            architecture: process.architecture.map(|architecture| architecture.to_string()),
            libc: process.libc.to_string(),
            container: process.container.as_ref().map(ToString::to_string),
            attachable: process.attachable.is_ok(),
            reason: process.attachable.as_ref().err().map(ToString::to_string),
            incomplete: process.limit.map(|limit| limit.to_string()),
        }
    }
}

/// The runtime as text: `.NET 8.0.4`.
pub(crate) fn runtime(process: &Process) -> String {
    let Some(runtime) = process.runtime() else {
        return ".NET".to_owned();
    };
    let core = runtime.version.is_some_and(|version| version.major < 5);
    let family = match runtime.kind {
        RuntimeKind::CoreClr if core => ".NET Core",
        RuntimeKind::NativeAot => ".NET (NativeAOT)",
        RuntimeKind::Mono => "Mono",
        _ => ".NET",
    };
    runtime.version.map_or(family.to_owned(), |version| format!("{family} {version}"))
}

fn kind(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::CoreClr => "coreclr",
        RuntimeKind::NativeAot => "nativeaot",
        RuntimeKind::Mono => "mono",
        _ => "unknown",
    }
}

fn text(processes: &[Process]) -> Page {
    let mut table =
        Table::new(&["pid", "user", "runtime", "arch", "libc", "container", "attach", "name", "command line"]);
    table.align_right(0);
    table.let_last_go_below();
    for process in processes {
        table.row([
            process.pid.to_string(),
            process.user.clone().unwrap_or_else(|| process.uid.to_string()),
            runtime(process),
            process.architecture.map_or("-".to_owned(), |architecture| architecture.to_string()),
            process.libc.to_string(),
            process.container.as_ref().map_or("-".to_owned(), ToString::to_string),
            if process.attachable.is_ok() { "yes" } else { "no" }.to_owned(),
            process.name().to_string(),
            process.command_text(),
        ]);
    }
    let mut text = table.render();
    for process in processes {
        if let Err(reason) = &process.attachable {
            text += line(format!("{}: {reason}", process.pid));
        } else if let Some(limit) = process.limit {
            text += line(format!("{}: its files were not read to the end: {limit}", process.pid));
        }
    }
    text
}
