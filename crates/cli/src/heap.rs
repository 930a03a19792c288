//! `remora heap`: snapshots of heaps, taken by a copy of the process while the program goes on, and what they say.

mod allowance;
mod diff;
mod report;
mod show;
pub(crate) mod size;
mod suspects;
mod take;

use crate::args::{HeapArgs, HeapCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use remora_heap_file::{Limits, Snapshot};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Bytes of a file that are read at once.
const BUFFER: usize = 1 << 20;

/// Runs the command.
pub(crate) fn run(args: &HeapArgs) -> Result<Exit, Failure> {
    match &args.command {
        None => take::run(&args.take),
        Some(HeapCommand::Report(args)) => report::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Show(args)) => show::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Diff(args)) => diff::run(args).map(|()| Exit::Done),
    }
}

/// Reads a snapshot. Where no root is known, what must be one is found out (contract GCH-03): all of the heap was alive when it was taken.
fn open(file: &Path) -> Result<Snapshot, Failure> {
    let input = |error| Failure::Input { file: file.to_owned(), error };
    let opened = File::open(file).map_err(input)?;
    if opened.metadata().map_err(input)?.is_dir() {
        return Err(input(std::io::ErrorKind::IsADirectory.into()));
    }
    let read = remora_heap_file::read(BufReader::with_capacity(BUFFER, opened), Limits::MOST);
    let mut snapshot = read.map_err(|error| Failure::HeapFile { file: file.to_owned(), error })?;
    snapshot.graph.infer_roots();
    Ok(snapshot)
}

/// Told after what there is has been shown.
fn told_if_incomplete(file: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    if snapshot.is_complete() { Ok(()) } else { Err(Failure::PartOfTheHeap { file: file.to_owned() }) }
}
