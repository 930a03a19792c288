//! `remora heap`: snapshots of heaps, taken by a copy of the process while the program goes on, and what they say.

mod allowance;
mod both;
pub(crate) mod condition;
mod convert;
mod dear;
mod diff;
mod fields;
mod findings;
mod inside;
mod opened;
mod origin;
mod renewal;
mod report;
pub(crate) mod rest;
mod roots;
mod show;
pub(crate) mod size;
mod strings;
mod suspects;
mod take;
mod view;
mod wanted;
mod watch;
mod watched;

use crate::args::{HeapArgs, HeapCommand};
use crate::bounded::{Bounded, PART_FOR_MORE, may_take};
use crate::console::grouped;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kind::or_other;
use opened::opened;
use remora_heap::{DominatorTree, HeapGraph};
use remora_heap_file::{Limits, Snapshot};
use std::io::BufReader;
use std::path::Path;

/// Bytes of a file that are read at once.
const BUFFER: usize = 1 << 20;

/// Runs the command.
pub(crate) fn run(args: &HeapArgs) -> Result<Exit, Failure> {
    match &args.command {
        // What else can record, cannot tell a heap.
        None => match args.take.watch {
            None => take::run(&args.take),
            Some(duration) => watch::run(&args.take, duration),
        }
        .map_err(Failure::of_a_heap),
        Some(HeapCommand::Report(args)) => report::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Show(args)) => show::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Diff(args)) => diff::run(args).map(|()| Exit::Done),
        Some(HeapCommand::View(args)) => view::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Convert(args)) => convert::run(args).map(|()| Exit::Done),
    }
}

/// Reads a snapshot. Where no root is known, what must be one is found out (contract GCH-03): all of the heap was alive when it was taken.
fn open(file: &Path) -> Result<Snapshot, Failure> {
    let read = remora_heap_file::read(Bounded::new(BufReader::with_capacity(BUFFER, opened(file)?)), Limits::MOST);
    let mut snapshot = read.map_err(|error| or_other(file, Failure::heap_file(file, error)))?;
    snapshot.graph.infer_roots();
    Ok(snapshot)
}

/// Who alone holds whom in a snapshot of this file, unless finding that out takes too much memory.
fn dominators(file: &Path, graph: &HeapGraph) -> Result<DominatorTree, Failure> {
    leaves_memory(file, graph).map(|()| DominatorTree::new(graph))
}

/// Whether that can be found out.
fn leaves_memory(file: &Path, graph: &HeapGraph) -> Result<(), Failure> {
    match may_take(DominatorTree::most_memory(graph)) {
        true => Ok(()),
        false => Err(Failure::too_large(file, PART_FOR_MORE)),
    }
}

/// Told after what there is has been shown.
fn told_if_incomplete(file: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    if snapshot.is_complete() { Ok(()) } else { Err(Failure::PartOfTheHeap { file: file.to_owned() }) }
}

/// What is to be said of a snapshot beside its objects.
fn notes(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = snapshot.state.notes.clone();
    let lost = snapshot.graph.completeness();
    let counted = [
        (lost.ranges_unwalked, "ranges of the heap were not walked to their end"),
        (lost.objects_unwalked, "objects have a class that was not told"),
        (lost.types_unknown, "objects have a type whose name is not in the file"),
        (lost.references_dangling, "references lead to no object that was walked"),
        (lost.roots_dangling, "roots hold what is no object that was walked"),
        (lost.objects_refused, "objects lie where no object can lie, or twice"),
        (
            snapshot.roots_unnamed,
            "roots have a name in the file for which there was no room: their kind alone is shown",
        ),
        (snapshot.statics_left_out, "static fields are in the file and not shown: there are more than a million"),
    ];
    notes.extend(
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", grouped(count))),
    );
    if !snapshot.whole {
        notes.push("the file ends early: what is shown is what had been walked by then".to_owned());
    }
    notes
}
