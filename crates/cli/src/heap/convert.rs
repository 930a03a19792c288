//! `remora heap convert`: files for other tools from a snapshot.

use super::{notes, open, told_if_incomplete};
use crate::args::HeapConvertArgs;
use crate::console::note;
use crate::failure::Failure;
use crate::output::Destination;
use remora_heap_export::{About, Format};
use remora_heap_file::Snapshot;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// Runs the command.
pub(crate) fn run(args: &HeapConvertArgs) -> Result<(), Failure> {
    let destination = Destination::of(&args.output, args.force);
    let format = resolve(args.format.as_deref(), &destination)?;
    if destination == Destination::Stdout && format.is_binary() && io::stdout().is_terminal() {
        return Err(Failure::BinaryToTerminal { format: format.ending().to_owned() });
    }
    destination.check()?;
    let snapshot = open(&args.file)?;
    remora_heap_export::check(&snapshot.graph, format)?;
    destination.write(|out| {
        let mut out = BufWriter::with_capacity(BUFFER, out);
        remora_heap_export::write(&snapshot.graph, &about(&snapshot), format, &mut out)?;
        out.flush()
    })?;
    if let Destination::File { path, .. } = &destination {
        note(&format!("wrote {}", path.display()));
    }
    told_if_incomplete(&args.file, &snapshot)
}

/// The format that follows from the extension of `path`, upper or lower case.
pub(crate) fn from_path(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    Format::ALL.into_iter().find(|format| name.ends_with(format.ending()))
}

/// A name given explicitly beats the extension.
fn resolve(name: Option<&str>, destination: &Destination) -> Result<Format, Failure> {
    match (name, destination) {
        (Some(name), _) => from_name(name).ok_or_else(|| unknown(name)),
        (None, Destination::Stdout) => Err(Failure::StdoutWithoutFormat { example: Format::HeapSnapshot.name() }),
        // It is no name with a format at its end, whatever it is called.
        (None, Destination::File { path, .. }) if path.is_dir() => Err(Failure::IsDirectory(path.clone())),
        (None, Destination::File { path, .. }) => {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            from_path(path).ok_or_else(|| unknown(&name))
        }
    }
}

fn from_name(name: &str) -> Option<Format> {
    let bare = name.strip_prefix('.').unwrap_or(name).to_ascii_lowercase();
    Format::ALL.into_iter().find(|format| format.name() == bare)
}

fn unknown(given: &str) -> Failure {
    let known = Format::ALL.map(|format| format!("{} ({})", format.name(), format.ending()));
    Failure::UnknownFormat { given: given.to_owned(), known: known.join(", ") }
}

fn about(snapshot: &Snapshot) -> About {
    About {
        application: snapshot.state.application.clone(),
        process_id: snapshot.state.process_id,
        runtime: snapshot.state.runtime.clone(),
        taken_unix_nanoseconds: snapshot.state.taken_unix_nanoseconds,
        complete: snapshot.is_complete(),
        notes: notes(snapshot),
    }
}
