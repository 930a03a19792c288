//! Which process is meant: by id, by name, or the only one there is.

use crate::args::TargetArgs;
use crate::failure::Failure;
use remora_trigger::{Process, find, processes};

/// Most processes that are listed in a message.
const LISTED: usize = 8;

/// The process that the flags name.
pub(crate) fn choose(args: &TargetArgs) -> Result<Process, Failure> {
    if let Some(process_id) = args.process_id {
        return Ok(find(process_id)?);
    }
    let running = processes()?;
    match &args.name {
        Some(name) => only(running.into_iter().filter(|process| is_called(process, name)).collect(), Some(name)),
        None => only(running, None),
    }
}

/// What a process is called, where its runtime is concerned: `Orders`, else `dotnet`.
pub(crate) fn label(process: &Process) -> String {
    format!("{} {}", process.pid, process.name())
}

/// Exactly: the entry assembly with or without its extension, or the executable.
fn is_called(process: &Process, name: &str) -> bool {
    let executable = process.executable.as_deref().and_then(|path| path.file_name()).and_then(|file| file.to_str());
    let assembly = process.entry_assembly.as_deref();
    executable == Some(name) || (assembly.is_some() && assembly == Some(name.strip_suffix(".dll").unwrap_or(name)))
}

fn only(mut found: Vec<Process>, name: Option<&str>) -> Result<Process, Failure> {
    match (found.len(), name) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(name)) => Err(Failure::NoSuchName(name.to_owned())),
        (0, None) => Err(Failure::NoProcess),
        (count, _) => {
            let mut list: Vec<String> = found.iter().take(LISTED).map(label).collect();
            if count > LISTED {
                list.push(format!("{} more", count - LISTED));
            }
            Err(Failure::SeveralProcesses { count, list: list.join(", ") })
        }
    }
}
