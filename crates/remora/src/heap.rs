//! `remora heap`: takes heap snapshots in a forked copy while the application runs, and analyses them.

mod allowance;
mod attaching;
mod convert;
pub(crate) mod next_steps;
mod renewal;
mod snapshot_pair;
mod steps;
mod take;
mod too_expensive;
mod tracking_report;
mod view;
mod watch;

use crate::args::{HeapArgs, HeapCommand, HeapDiffArgs, HeapFailingArgs, HeapReportArgs, HeapShowArgs};
use crate::bounded::{Bounded, PART_FOR_MORE, may_take};
use crate::console::{Page, out};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::kind::or_other;
use remora_heap::{DominatorTree, HeapGraph};
use remora_heap_file::{Limits, Snapshot};
use remora_heap_report::{Diff, Report, Show, open_file};
use std::io::BufReader;
use std::path::Path;
use steps::{Reading, step};

/// Bytes of a file that are read at once.
const BUFFER: usize = 1 << 20;

/// Runs the command.
pub(crate) fn run(args: &HeapArgs) -> Result<Exit, Failure> {
    match &args.command {
        // No other engine can walk a heap.
        None => match args.take.watch {
            None => take::run(&args.take),
            Some(duration) => watch::run(&args.take, duration),
        }
        .map_err(Failure::of_a_heap),
        Some(HeapCommand::Report(args)) => report(args).map(|()| Exit::Done),
        Some(HeapCommand::Show(args)) => show(args).map(|()| Exit::Done),
        Some(HeapCommand::Diff(args)) => diff(args).map(|()| Exit::Done),
        Some(HeapCommand::View(args)) => view::run(args).map(|()| Exit::Done),
        Some(HeapCommand::Convert(args)) => convert::run(args).map(|()| Exit::Done),
    }
}

/// `remora heap report`.
fn report(args: &HeapReportArgs) -> Result<(), Failure> {
    let snapshot = open(&args.file)?;
    let tree = dominators(&args.file, &snapshot.graph)?;
    let report = reported(&args.file, &snapshot, tree, &args.failing)?;
    let (by, top) = (args.grouped.by, args.shown.top());
    out(&if args.shown.json { Page::json(&report.summary(top)) } else { report.text(by, top) })?;
    end_of_report(&args.file, &snapshot, &report)
}

/// `remora heap show`.
fn show(args: &HeapShowArgs) -> Result<(), Failure> {
    let snapshot = open(&args.file)?;
    let tree = dominators(&args.file, &snapshot.graph)?;
    let show = step("looking for paths", || Show::new(&args.file, &snapshot, tree, &args.what, args.shown.top()))?;
    out(&if args.shown.json { show.json() } else { show.text() })?;
    fail_if_incomplete(&args.file, &snapshot)
}

/// `remora heap diff`.
fn diff(args: &HeapDiffArgs) -> Result<(), Failure> {
    let (before, after) = (open(&args.before)?, open(&args.after)?);
    let trees = [dominators(&args.before, &before.graph)?, dominators(&args.after, &after.graph)?];
    let diff = step("comparing the snapshots", || Diff::new((&before, &trees[0]), (&after, &trees[1])));
    out(&if args.shown.json { diff.json() } else { diff.text(args.shown.top()) })?;
    fail_if_incomplete(&args.before, &before)?;
    fail_if_incomplete(&args.after, &after)
}

/// The report of a snapshot.
fn reported<'a>(
    file: &Path,
    snapshot: &'a Snapshot,
    tree: DominatorTree,
    failing: &HeapFailingArgs,
) -> Result<Report<'a>, Failure> {
    Ok(step("looking for suspects and findings", || Report::new(file, snapshot, tree, &failing.fail_if))?)
}

/// The failure after a report was printed: a condition about no type or a fulfilled one, or an incomplete snapshot.
fn end_of_report(file: &Path, snapshot: &Snapshot, report: &Report<'_>) -> Result<(), Failure> {
    if let Some(why) = report.condition_without_type() {
        return Err(Failure::Usage(why));
    }
    match report.condition_met() {
        Some(met) => Err(Failure::ConditionMet { file: file.to_owned(), met }),
        None => fail_if_incomplete(file, snapshot),
    }?;
    match report.condition_not_proven() {
        Some(condition) => Err(Failure::ConditionNotProven { file: file.to_owned(), condition }),
        None => Ok(()),
    }
}

/// Reads a snapshot. A snapshot without roots gets inferred ones (contract GCH-03): its whole heap was alive when it was taken.
fn open(file: &Path) -> Result<Snapshot, Failure> {
    let input = open_file(file)?;
    let whole = input.metadata().map_or(0, |metadata| metadata.len());
    let input = BufReader::with_capacity(BUFFER, Reading::new(input, whole));
    let read = remora_heap_file::read(Bounded::new(input), Limits::MOST);
    let mut snapshot = read.map_err(|error| or_other(file, Failure::heap_file(file, error)))?;
    step("looking for objects that only unknown roots hold", || snapshot.graph.infer_roots());
    Ok(snapshot)
}

/// The dominator tree of a snapshot, unless it takes too much memory.
fn dominators(file: &Path, graph: &HeapGraph) -> Result<DominatorTree, Failure> {
    leaves_memory(file, graph)?;
    Ok(step("computing what each object keeps alive", || DominatorTree::new(graph)))
}

/// Whether the tree fits in memory.
fn leaves_memory(file: &Path, graph: &HeapGraph) -> Result<(), Failure> {
    match may_take(DominatorTree::most_memory(graph)) {
        true => Ok(()),
        false => Err(Failure::too_large(file, PART_FOR_MORE)),
    }
}

/// Reports an incomplete snapshot, after its part was shown.
fn fail_if_incomplete(file: &Path, snapshot: &Snapshot) -> Result<(), Failure> {
    if snapshot.is_complete() { Ok(()) } else { Err(Failure::PartOfTheHeap { file: file.to_owned() }) }
}
