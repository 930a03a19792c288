//! `remora heap`: a snapshot of the heap, taken by a copy of the process while the program goes on.

use crate::args::HeapArgs;
use crate::console::{counted, note, out, plain};
use crate::duration::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hold::Hold;
use crate::library;
use crate::preconditions::{examine, obstacle};
use crate::report::pretty;
use crate::table::Table;
use crate::target::choose;
use remora_collector::{ClassNames, HeapFinished, HeapSession, NotAttached};
use remora_receipt::{Facts, Receipt, Snapshot};
use remora_trigger::{Fate, Target};
use remora_wire::heap::{ClassFacts, HeapVisitor};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long an attach may take.
const ATTACH_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which the copy is waited for before looking whether it should end.
const STEP: Duration = Duration::from_millis(50);

/// Objects of each class, counted while they arrive.
#[derive(Debug, Default)]
struct Counts {
    classes: Vec<(u64, u64)>,
    references: u64,
}

impl HeapVisitor for Counts {
    fn range(&mut self, _: u64, _: u64, _: u64) {}

    fn class(&mut self, _: u64, _: ClassFacts) {
        self.classes.push((0, 0));
    }

    fn object(&mut self, _: u64, class: u32, size: u64) {
        if let Some((count, bytes)) = self.classes.get_mut(class as usize) {
            *count += 1;
            *bytes += size;
        }
    }

    fn reference(&mut self, _: u64) {
        self.references += 1;
    }

    fn gap(&mut self, _: u64, _: u64) {}

    fn broken(&mut self, _: u64) {}

    fn end(&mut self, _: u64) {}
}

/// One row of the table of types.
#[derive(Debug, Serialize)]
struct Row {
    r#type: String,
    assembly: Option<String>,
    count: u64,
    bytes: u64,
}

/// What is printed for programs. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Told<'a> {
    /// Whether every object was told of.
    complete: bool,
    objects: u64,
    bytes: u64,
    references: u64,
    /// How long the program stood for the collection, the copying of the process in it.
    collection_nanoseconds: Option<u64>,
    /// How long of that the copying took.
    fork_nanoseconds: Option<u64>,
    types: &'a [Row],
    notes: &'a [String],
    receipt: serde_json::Value,
}

/// Runs the command.
pub(crate) fn run(args: &HeapArgs) -> Result<Exit, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, interrupted.clone()).map_err(Failure::Signals)?;
    }
    let process = choose(&args.target)?;
    if let Some(obstacle) = obstacle(&process, &examine(&process)?) {
        return Err(obstacle.failure);
    }
    let _hold = Hold::take(&process)?;
    let target = Target::hold(&process)?;
    let before = Snapshot::take(Path::new("/proc"), process.pid).map_err(Failure::Snapshot)?;
    let mut counts = Counts::default();
    let mut session = match HeapSession::attach(&process, library::BYTES, ATTACH_PATIENCE) {
        Ok(session) => session,
        Err(NotAttached { error, facts: None }) => return Err(error.into()),
        Err(NotAttached { error, facts: Some(facts) }) => {
            let receipt = look(&target, &before, &facts);
            note(&receipt.to_string());
            let failure = Failure::from(error);
            return Err(if receipt.clean() { failure } else { Failure::LeftBehind(Box::new(failure)) });
        }
    };
    let broke = walk(&mut session, &mut counts, &interrupted).err();
    let mut finished = session.detach(&mut counts);
    if interrupted.load(Ordering::SeqCst) {
        finished.notes.push("interrupted: what is shown is what had been walked by then".to_owned());
    }
    let receipt = look(&target, &before, &finished.facts);
    let rows = rows(&counts, &mut finished.names);
    tell(args, &counts, &rows, &finished, &receipt)?;
    match broke.or(finished.failure.map(Failure::from)) {
        Some(failure) if receipt.clean() => Err(failure),
        Some(failure) => Err(Failure::LeftBehind(Box::new(failure))),
        None if !receipt.clean() => Ok(Exit::Unclean),
        None if finished.target_ended => Ok(Exit::TargetEnded),
        None => Ok(Exit::Done),
    }
}

/// Until the copy has told everything, or nobody wants it any more.
fn walk(session: &mut HeapSession, counts: &mut Counts, interrupted: &AtomicBool) -> Result<(), Failure> {
    while !interrupted.load(Ordering::SeqCst) && !session.step(STEP, counts)?.ended {}
    Ok(())
}

/// What of Remora is in the process now.
fn look(target: &Target, before: &Snapshot, facts: &Facts) -> Receipt {
    if target.fate() == Fate::Ended {
        return Receipt::of_ended(before, facts);
    }
    match Snapshot::take(Path::new("/proc"), before.process_id) {
        Ok(mut after) => {
            after.look_for(&facts.placed);
            Receipt::between(before, &after, facts)
        }
        Err(_) => Receipt::of_ended(before, facts),
    }
}

fn rows(counts: &Counts, names: &mut ClassNames) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (class, (count, bytes)) in counts.classes.iter().enumerate() {
        if *count == 0 {
            continue;
        }
        let (name, assembly) = names.name(class as u32).unwrap_or_else(|| {
            let facts = names.facts(class as u32);
            (facts.map_or_else(|| "[unknown]".to_owned(), |facts| format!("[unnamed: {facts:?}]")), None)
        });
        rows.push(Row { r#type: name, assembly, count: *count, bytes: *bytes });
    }
    rows.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.r#type.cmp(&other.r#type)));
    rows
}

fn tell(
    args: &HeapArgs,
    counts: &Counts,
    rows: &[Row],
    finished: &HeapFinished,
    receipt: &Receipt,
) -> Result<(), Failure> {
    let (objects, bytes) = rows.iter().fold((0, 0), |(count, bytes), row| (count + row.count, bytes + row.bytes));
    if args.json {
        return out(&pretty(&Told {
            complete: finished.complete,
            objects,
            bytes,
            references: counts.references,
            collection_nanoseconds: finished.collection,
            fork_nanoseconds: finished.fork,
            types: rows,
            notes: &finished.notes,
            receipt: serde_json::from_str(&receipt.to_json()).unwrap_or_default(),
        }));
    }
    let mut table = Table::new(&["bytes", "objects", "type"]);
    table.align_right(0);
    table.align_right(1);
    for row in rows.iter().take(args.top as usize) {
        table.row([row.bytes.to_string(), row.count.to_string(), plain(&row.r#type)]);
    }
    let whole = if finished.complete { "" } else { "NOT all of the heap: " };
    let references = counted(counts.references, "reference");
    let mut text = format!("{}\n{whole}{}, {bytes} bytes, {references}\n", table.render(), counted(objects, "object"));
    for line in &finished.notes {
        text.push_str(&format!("note: {}\n", plain(line)));
    }
    if let (Some(collection), Some(fork)) = (finished.collection, finished.fork) {
        text.push_str(&format!("the program stood for {}, of which {} for the copy\n", show(collection), show(fork)));
    }
    out(&format!("{text}\n{receipt}"))
}
