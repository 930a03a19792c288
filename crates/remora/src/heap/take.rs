//! `remora heap -p`: takes a snapshot, stores it, and shows it.

use super::allowance::Allowance;
use super::attaching::{ATTACH_TIME_LIMIT, not_attached, prepare, receipt_place, say_what_stays, set_right};
use super::convert::Target;
use super::next_steps::kept;
use super::{dominators, end_of_report, open, reported};
use crate::args::HeapTakeArgs;
use crate::baseline::{receipt_json, receipt_text, verdict, write_receipt};
use crate::console::{Page, StatusLine, counted, grouped, line, note, note_all, out};
use crate::detach_wait::wait_for_an_earlier_one;
use crate::exit::Exit;
use crate::failure::{Cut, Failure};
use crate::instance_lock::is_held_by_the_parent;
use crate::library;
use crate::output::{Destination, FileFormat, HeapSpool, Named, NamedFormat, default_output};
use crate::stop::{Input, Stop};
use crate::target::choose;
use jiff::Zoned;
use remora_attach::{Process, TargetText};
use remora_collector::{Classes, HeapAbout, HeapProgress, HeapSession, HeapWait, NamingBudget};
use remora_heap::TypeFlags;
use remora_heap_file::{MethodRow, State, TypeRow};
use remora_heap_report::Summary;
use remora_heap_stream::{ClassFacts, Foreign};
use remora_receipt::{Outcome, Receipt};
use remora_terminal::size;
use remora_wire::{AgentErrorCode, Contents, HeapSnapshot, Moment, Roots};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wait for events of the copy between two checks whether it should end.
const STEP: Duration = Duration::from_millis(50);

/// JSON output: the report, and how the snapshot was taken.
#[derive(Debug, Serialize)]
struct Taken<'a> {
    /// The snapshot's file.
    file: &'a Path,
    #[serde(flatten)]
    summary: Summary,
    receipt: serde_json::Value,
}

/// Destinations of the results.
struct Places {
    snapshot: Destination,
    receipt: Option<Destination>,
}

/// Runs the command.
pub(crate) fn run(args: &HeapTakeArgs) -> Result<Exit, Failure> {
    let mut stop = Stop::listen(Input::Unheard).map_err(Failure::Signals)?;
    let process = choose(&args.target, &args.unseen)?;
    wait_for_an_earlier_one(&process, &mut stop)?;
    let places = Places::resolve(args, &process)?;
    let (allowance, _hold, before) = prepare(args, &process)?;
    stop.attach_begins()?;
    say_beforehand(args, &process);
    let mut spool = HeapSpool::create(&places.snapshot, args.strings || args.values)?;
    let mut session = match HeapSession::attach(&process, library::FOR_HEAPS, wanted(args), ATTACH_TIME_LIMIT) {
        Ok(session) => session,
        Err(refused) => {
            spool.discard();
            return not_attached(args, &before, &process, refused);
        }
    };
    let walked = walk(&mut session, &mut spool, &mut stop, &allowance);
    let (cut, broke) = walked.map_or_else(|broke| (None, Some(broke)), |cut| (cut, None));
    let keeping = Keeping { process: &process, destination: &places.snapshot, args, cut };
    session.begin_detach();
    // The runtime takes its time to detach an agent. The rest of the snapshot is written meanwhile.
    let about = session.about();
    let mut spooled = match about.complete {
        true => Spooled::Kept(keeping.keep(spool, about, session.classes(), NamingBudget::new(stop.hurried()))),
        false => Spooled::Unfinished(spool),
    };
    let mut finished = session.detach(&mut |piece| spooled.stream(piece), || stop.is_signalled());
    finished.facts.beside = is_held_by_the_parent(&process);
    if args.roots && !finished.target_ended {
        set_right(&before, &process, &mut finished.facts);
    }
    let receipt = before.verify(&finished.facts, finished.target_ended);
    let written = write_receipt(&receipt, places.receipt.as_ref());
    let (about, mut classes) = (finished.about, finished.classes);
    let kept = match spooled {
        Spooled::Kept(kept) => kept,
        Spooled::Unfinished(spool) if about.objects == 0 => {
            spool.discard();
            receipt_alone(args, &receipt)?;
            Err(keeping.nothing(finished.failed, about.notes, stop.wish().is_some()))
        }
        Spooled::Unfinished(spool) => keeping.keep(spool, about, &mut classes, NamingBudget::new(stop.hurried())),
    };
    let is_kept = kept.is_ok();
    let reported = kept.and_then(|file| print(args, &file, &receipt));
    let broke = broke.or(finished.failure.map(Failure::from));
    let has_ended = receipt.outcome == Outcome::Ended;
    let ended = match broke {
        _ if finished.target_ended || has_ended && broke.is_some() => {
            let kept = if is_kept { "the objects received until then are kept" } else { "nothing of its heap is kept" };
            Err(Failure::TargetEnded(format!("the target ended during the snapshot; {kept}")))
        }
        None if has_ended => {
            Err(Failure::TargetEnded("the target ended during the detach; the snapshot was complete by then".into()))
        }
        Some(failure) => Err(failure),
        None => Ok(()),
    };
    verdict(ended.and(reported).and(written), receipt.clean())
}

/// Announces what `--roots` does to the process beyond an ordinary snapshot.
fn say_beforehand(args: &HeapTakeArgs, process: &Process) {
    if !args.roots {
        return;
    }
    note(
        "--roots takes the main profiler's place for the time of the snapshot: no other main profiler can come meanwhile. \
         Concurrent GC is off until the detach. The application pauses for one full GC, or for two if counting young objects takes too \
         long. If it still takes too long then, there is no snapshot.",
    );
    say_what_stays(process);
}

/// The snapshot's settings.
fn wanted(args: &HeapTakeArgs) -> HeapSnapshot {
    HeapSnapshot {
        moment: if args.no_gc && !args.gc { Moment::AsItIs } else { Moment::Collected },
        contents: match (args.values, args.strings) {
            (true, _) => Contents::Values,
            (false, true) => Contents::Strings,
            (false, false) => Contents::None,
        },
        roots: if args.roots { Roots::Seen } else { Roots::Inferred },
    }
}

impl Places {
    fn resolve(args: &HeapTakeArgs, process: &Process) -> Result<Places, Failure> {
        let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
        let named = args.output.clone();
        let path = named.unwrap_or_else(|| default_output(&process.name(), &Zoned::now(), ".remora-heap"));
        let snapshot = Destination::of(&path, args.force);
        if !snapshot.is_regular() {
            return usage(
                "a snapshot is kept in a file, which is read again to show it; give -o the name of a regular file",
            );
        }
        if FileFormat::from_path(&path).is_ok() {
            return usage(
                "the file's extension is that of a recording's format, and a snapshot is none; call it FILE.remora-heap",
            );
        }
        if Target::from_path(&path).is_ok() {
            return usage(
                "a snapshot is kept in Remora's own format, from which others are made; call it FILE.remora-heap, and give that to `remora heap convert`",
            );
        }
        let receipt = receipt_place(args)?;
        snapshot.check_apart(receipt.as_ref(), "the snapshot")?;
        snapshot.check()?;
        receipt.as_ref().map_or(Ok(()), Destination::check)?;
        Ok(Places { snapshot, receipt })
    }
}

/// Runs until the copy has sent everything, or until it must end early; returns the reason.
fn walk(
    session: &mut HeapSession,
    spool: &mut HeapSpool,
    stop: &mut Stop,
    allowance: &Allowance,
) -> Result<Option<Cut>, Failure> {
    let mut line = StatusLine::new();
    let begun = Instant::now();
    let mut progress = HeapProgress::default();
    let mut walks = None;
    let mut cut = None;
    while !progress.ended && cut.is_none() && stop.wish().is_none() && !spool.must_end() {
        progress = session.step(STEP, &mut |piece| spool.stream(piece))?;
        if progress.objects > 0 {
            // The time for the objects before the first check is unknown.
            walks.get_or_insert_with(|| (Instant::now(), progress.objects));
        }
        let walked = walks.map(|(since, first): (Instant, u64)| (since.elapsed(), first));
        line.show(&progressed(&progress, begun.elapsed(), walked));
        cut = allowance.exceeded(&progress).map(Cut::Limit);
    }
    line.clear();
    let interrupted = || stop.wish().map(|_| Cut::Interrupted);
    Ok(cut.or_else(interrupted).or_else(|| spool.must_end().then_some(Cut::FullDisk)))
}

/// `walked` is the duration of the walk so far, and the number of objects at its beginning.
fn progressed(progress: &HeapProgress, since: Duration, walked: Option<(Duration, u64)>) -> String {
    let Some((walks, first)) = walked else {
        return format!("the collection, for {} s · Ctrl-C gives it up", since.as_secs());
    };
    let objects = format!("{}, {}", counted(progress.objects, "object"), size::shown(progress.bytes));
    if let Some(wait) = progress.waits_for {
        return format!("{objects} · {} · Ctrl-C ends it", waiting(wait));
    }
    // The target counts, and can count backwards.
    let rate = (walks >= STEP).then(|| progress.objects.saturating_sub(first) as f64 / walks.as_secs_f64());
    format!(
        "{objects}{}{} · Ctrl-C ends it",
        rate.map(|rate| format!(" · {} objects a second", grouped(rate as u64))).unwrap_or_default(),
        left(progress, walks).map(|left| format!(" · about {left} s left")).unwrap_or_default()
    )
}

fn waiting(wait: HeapWait) -> String {
    match wait {
        HeapWait::Assemblies => "waiting for the list of assemblies".to_owned(),
        HeapWait::Files { read, all } => format!("looking for static fields in {all} assemblies: {read} done"),
        HeapWait::StaticFields => "reading static fields".to_owned(),
    }
}

/// Estimated seconds for the rest; `None` while there is no estimate.
fn left(progress: &HeapProgress, walks: Duration) -> Option<u64> {
    let rest = progress.bytes_in_all.checked_sub(progress.bytes)?;
    let seconds = walks.as_secs_f64() * rest as f64 / progress.bytes as f64;
    (progress.bytes > 0 && walks >= STEP).then_some(seconds.ceil() as u64)
}

/// The snapshot's storage so far.
enum Spooled {
    /// Incomplete.
    Unfinished(HeapSpool),
    /// Complete and at its destination, or why that failed.
    Kept(Result<PathBuf, Failure>),
}

impl Spooled {
    fn stream(&mut self, piece: Foreign<&[u8]>) {
        if let Spooled::Unfinished(spool) = self {
            spool.stream(piece);
        }
    }
}

/// The host's facts about a snapshot, and its destination.
struct Keeping<'a> {
    process: &'a Process,
    destination: &'a Destination,
    args: &'a HeapTakeArgs,
    /// Why it ended before it was complete.
    cut: Option<Cut>,
}

impl Keeping<'_> {
    /// Why there is nothing to keep.
    fn nothing(&self, failed: Option<AgentErrorCode>, notes: Vec<String>, interrupted: bool) -> Failure {
        if interrupted { Failure::Interrupted } else { Failure::no_snapshot(self.cut.as_ref(), failed, notes) }
    }

    /// Moves the snapshot to its destination.
    fn keep(
        &self,
        spool: HeapSpool,
        about: HeapAbout,
        classes: &mut Classes,
        mut budget: NamingBudget,
    ) -> Result<PathBuf, Failure> {
        let all = 0..classes.count();
        let types = rows(classes, all, &mut budget);
        let methods: Vec<MethodRow> =
            classes.methods(&mut budget).into_iter().map(|(id, name)| MethodRow { id, name }).collect();
        let laid_out = classes.laid_out(&mut budget);
        let named = Named { types: &types, methods: &methods, laid_out: &laid_out };
        let mut notes = about.notes;
        notes.extend(self.cut.as_ref().map(Cut::to_string));
        notes.extend(classes.note());
        notes.extend(budget.note());
        let state = State {
            collection_nanoseconds: about.collection,
            copy_nanoseconds: about.fork,
            extra_memory_bytes: about.extra_memory,
            has_garbage: self.args.no_gc,
            has_texts: self.args.strings || self.args.values,
            has_values: self.args.values,
            ranges_unwalked: about.ranges_unwalked,
            objects_unwalked: about.objects_unwalked,
            complete: about.complete && spool.is_whole(),
            has_static_fields: about.static_fields,
            notes,
            ..state_of(self.process, about.runtime, now())
        };
        spool.finish(&named, &state, self.destination)
    }
}

/// What a snapshot says of its process.
pub(super) fn state_of(process: &Process, runtime: String, taken_unix_nanoseconds: u64) -> State {
    State {
        taken_unix_nanoseconds,
        process_id: process.pid,
        application: process.name().within(TargetText::LONGEST),
        command_line: process.command_text(),
        runtime,
        ..State::default()
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// The names of the classes, within the budget.
pub(super) fn rows(classes: &mut Classes, which: impl Iterator<Item = u32>, budget: &mut NamingBudget) -> Vec<TypeRow> {
    which
        .map(|class| {
            if !budget.is_left() {
                return TypeRow { name: unnamed(classes.facts(class)), ..TypeRow::default() };
            }
            let is_array = matches!(classes.facts(class), Some(ClassFacts::Array { .. }));
            let (name, file) = classes.name(class).unwrap_or_else(|| (unnamed(classes.facts(class)), None));
            let kinds = [
                (is_array, TypeFlags::ARRAY),
                (name == "System.String", TypeFlags::STRING),
                (classes.has_finalizer(class), TypeFlags::FINALIZABLE),
            ];
            let flags = kinds.into_iter().filter(|(is, _)| *is).fold(0, |flags, (_, flag)| flags | flag.0);
            let assembly = file.as_deref().map(simple_name).unwrap_or_default().to_owned();
            // Delegates in static fields belong to no object.
            let events = classes.events(class).into_iter().filter(|event| !event.is_static);
            let events = events.map(|event| (event.name, event.delegate)).collect();
            TypeRow { name, assembly, flags, events }
        })
        .collect()
}

/// A name for a class that the runtime does not describe, or whose assembly cannot be read.
fn unnamed(facts: Option<&ClassFacts>) -> String {
    match facts {
        Some(ClassFacts::Plain { token, .. }) => format!("[unnamed type {token:#010x}]"),
        Some(ClassFacts::Array { .. }) => "[unnamed array]".to_owned(),
        Some(ClassFacts::Unknown { code: 0 }) | None => "[unknown]".to_owned(),
        Some(ClassFacts::Unknown { code }) => format!("[unknown: the runtime answers {code:#010x}]"),
    }
}

/// An assembly's name, from its file name.
pub(super) fn simple_name(file: &str) -> &str {
    [".dll", ".exe"].iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(file)
}

/// Shows the receipt where there is nothing else to show.
pub(super) fn receipt_alone(args: &HeapTakeArgs, receipt: &Receipt) -> Result<(), Failure> {
    if !args.shown.json {
        note_all(&receipt_text(receipt));
        return Ok(());
    }
    out(&Page::json(&json!({ "receipt": receipt_json(receipt) })))
}

/// Shows the stored snapshot.
fn print(args: &HeapTakeArgs, file: &Path, receipt: &Receipt) -> Result<(), Failure> {
    let kept_alone = |failure| match failure {
        Failure::TooLargeToRead { file, .. } => match receipt_alone(args, receipt) {
            Ok(()) => Failure::NotShown { file },
            Err(failure) => failure,
        },
        failure => failure,
    };
    let snapshot = open(file).map_err(kept_alone)?;
    let tree = dominators(file, &snapshot.graph).map_err(kept_alone)?;
    let report = reported(file, &snapshot, tree, &args.failing)?;
    let (by, top) = (args.grouped.by, args.shown.top_of_new());
    out(&if args.shown.json {
        let receipt = receipt_json(receipt);
        Page::json(&Taken { file, summary: report.summary(top), receipt })
    } else {
        report.text(by, top)
            + line("")
            + receipt_text(receipt)
            + line("")
            + kept(&[file.to_owned()], report.most_wanted().as_deref())
    })?;
    end_of_report(file, &snapshot, &report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_still_takes_is_reported_once_that_can_be_known() {
        let of = |bytes, bytes_in_all| HeapProgress { objects: 100, bytes, bytes_in_all, ..HeapProgress::default() };
        let ten = Duration::from_secs(10);
        assert_eq!(left(&of(250, 1000), ten), Some(30));
        assert_eq!(left(&of(1000, 1000), ten), Some(0));
        assert_eq!(left(&of(250, 1000), STEP / 2), None, "too early");
        assert_eq!(left(&of(250, 0), ten), None, "a runtime that shows its objects does not say how many");
        assert_eq!(left(&of(0, 1000), ten), None);
        let shown = progressed(&of(250, 1000), ten, Some((ten, 30)));
        assert_eq!(shown, "100 objects, 250 B · 7 objects a second · about 30 s left · Ctrl-C ends it");
        let shown = progressed(&of(250, 1000), ten, Some((STEP / 2, 30)));
        assert_eq!(shown, "100 objects, 250 B · Ctrl-C ends it", "how fast it is cannot be told yet");
        let backwards = progressed(&of(250, 0), ten, Some((ten, 101)));
        assert_eq!(backwards, "100 objects, 250 B · 0 objects a second · Ctrl-C ends it");
        assert!(progressed(&of(0, 0), ten, None).starts_with("the collection, for 10 s"));
    }

    #[test]
    fn after_the_last_object_the_line_says_what_the_snapshot_waits_for_and_no_rate() {
        let ten = Duration::from_secs(10);
        let shown = |wait| {
            let objects = HeapProgress { objects: 100, bytes: 250, bytes_in_all: 1000, ..HeapProgress::default() };
            progressed(&HeapProgress { waits_for: Some(wait), ..objects }, ten, Some((ten, 30)))
        };
        assert_eq!(
            shown(HeapWait::Files { read: 7, all: 98 }),
            "100 objects, 250 B · looking for static fields in 98 assemblies: 7 done · Ctrl-C ends it"
        );
        assert_eq!(shown(HeapWait::StaticFields), "100 objects, 250 B · reading static fields · Ctrl-C ends it");
        assert!(shown(HeapWait::Assemblies).contains("waiting for the list of assemblies"));
    }
}
