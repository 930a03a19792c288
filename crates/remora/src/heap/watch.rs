//! `remora heap -p PID --watch TIME`: takes a first snapshot, follows every GC in a heap mirror, and verifies the mirror with a last
//! snapshot.

use super::allowance::Allowance;
use super::attaching::{not_attached, prepare, receipt_place, say_what_stays, set_right};
use super::renewal::{Due, MOST_IN_A_ROW, Renewal};
use super::snapshot_pair::SnapshotPair;
use super::take::receipt_alone;
use super::too_expensive::too_expensive;
use super::tracking_report::{LastSnapshot, TrackingReport};
use crate::args::HeapTakeArgs;
use crate::baseline::{verdict, write_receipt};
use crate::console::{StatusLine, counted, grouped, note};
use crate::detach_wait::wait_for_an_earlier_one;
use crate::exit::Exit;
use crate::failure::{Cut, Failure};
use crate::library;
use crate::output::Destination;
use crate::stop::{Input, Stop};
use crate::target::choose;
use remora_attach::{Process, TargetText};
use remora_collector::{HeapProgress, MemoryLimit, NamingBudget, WatchSession, WatchState, Watched as Event};
use remora_heap_tracking::{Compared, Watch};
use std::time::{Duration, Instant};

/// Time limit of the attach, which waits for a concurrent GC to end.
const ATTACH_TIME_LIMIT: Duration = Duration::from_secs(30);
/// Wait for events of the agent between two checks whether the watch should end.
const STEP: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn run(args: &HeapTakeArgs, duration: Duration) -> Result<Exit, Failure> {
    let mut stop = Stop::listen(Input::Unheard).map_err(Failure::Signals)?;
    let process = choose(&args.target, &args.unseen)?;
    wait_for_an_earlier_one(&process, &mut stop)?;
    let destination = receipt_place(args)?;
    destination.as_ref().map_or(Ok(()), Destination::check)?;
    let both = args.output.as_deref().map(|file| SnapshotPair::beside(file, args.force)).transpose()?;
    both.as_ref().map_or(Ok(()), |both| both.check_apart(destination.as_ref()))?;
    let (allowance, _hold, before) = prepare(args, &process)?;
    stop.attach_begins()?;
    say_beforehand(&process);
    let session = match WatchSession::attach(&process, library::FOR_HEAPS, ATTACH_TIME_LIMIT) {
        Ok(session) => session,
        Err(refused) => return not_attached(args, &before, &process, refused),
    };
    let mut course = Course::new(&process, session, (duration, allowance), both);
    let broke = course.run(&mut stop).err();
    let Course { session, mut tracking, end, lasted, cut, .. } = course;
    let mut finished = session.detach(&mut |event| _ = tracking.feed(event), stop.hurried());
    if !finished.target_ended {
        set_right(&before, &process, &mut finished.facts);
    }
    let receipt = before.verify(&finished.facts, finished.target_ended);
    let written = write_receipt(&receipt, destination.as_ref());
    let target_ended = finished.target_ended;
    let failure = finished.failure.take().map(Failure::from);
    let failed = finished.failed;
    if tracking.watch.cache().is_some() {
        finished.notes.extend(cut.as_ref().map(Cut::to_string));
    }
    let Tracking { watch, both, .. } = tracking;
    let runtime = finished.facts.runtime.clone();
    let kept = both.map_or(Ok(Vec::new()), |both| {
        both.keep(&process, &runtime, &mut finished.classes, NamingBudget::new(stop.hurried()))
    });
    let has_begun = watch.cache().is_some();
    let reported = if has_begun {
        let files = kept.as_deref().unwrap_or_default();
        let budget = NamingBudget::new(stop.hurried());
        TrackingReport::new(&process, watch, finished, end, (lasted, budget)).print(args, files, &receipt)
    } else {
        receipt_alone(args, &receipt)?;
        Err(match stop.wish() {
            Some(_) => Failure::Interrupted,
            None => Failure::no_snapshot(cut.as_ref(), failed, std::mem::take(&mut finished.notes)),
        })
    };
    let ended = match broke.or(failure) {
        _ if target_ended => Err(Failure::TargetEnded(
            match has_begun {
                true => "the target ended during the watch; the result until then is complete",
                false => "the target ended before the watch had its first snapshot: nothing is known of its heap",
            }
            .to_owned(),
        )),
        Some(failure) => Err(failure),
        None => Ok(()),
    };
    verdict(ended.and(reported).and(kept.map(drop)).and(written), receipt.clean())
}

/// Announces what a watch does to the process.
fn say_beforehand(process: &Process) {
    note(
        "--watch takes the main profiler's place until it ends: no other main profiler can come meanwhile. Concurrent GC is \
         off until the detach. Every collection takes longer, since the runtime counts young objects and reports live ones: the end \
         shows by how much. There is a full GC at the start (two if counting young objects takes too long), one at the end (up to \
         three if its report finds no room), and one after each loss of events, every ten seconds at most.",
    );
    say_what_stays(process);
}

/// The heap mirror, and the stored snapshots.
struct Tracking {
    watch: Watch,
    both: Option<SnapshotPair>,
    /// When the first bytes of the present snapshot came: its copy was made just before.
    copied: Option<Instant>,
}

impl Tracking {
    /// Passes an event to the mirror and the stored snapshots. Returns the comparison when a snapshot has ended.
    fn feed(&mut self, event: Event<'_>) -> Option<Option<Compared>> {
        match event {
            // On an error the mirror is stale, and reports so.
            Event::Piece(piece) => _ = self.watch.piece(piece),
            Event::Stream(bytes) => {
                self.copied.get_or_insert_with(Instant::now);
                self.watch.stream(bytes);
                if let Some(both) = &mut self.both {
                    both.stream(bytes);
                }
            }
            Event::Snapshot(about) => {
                let compared = self.watch.snapshot();
                if let Some(both) = &mut self.both {
                    match self.watch.cache() {
                        Some(_) => both.snapshot(about),
                        None => both.give_up(),
                    }
                }
                return Some(compared);
            }
        }
        None
    }
}

/// A mirror that grows only within the free memory.
fn guarded() -> Watch {
    let limit = MemoryLimit::nearly_all();
    Watch::guarded(move || limit.is_exceeded())
}

/// A running watch.
struct Course {
    session: WatchSession,
    tracking: Tracking,
    name: String,
    process_id: u32,
    duration: Duration,
    allowance: Allowance,
    /// When the first snapshot ended.
    begun: Option<Instant>,
    /// When its copy was made.
    first_copied: Option<Instant>,
    /// When to take another snapshot.
    renewal: Renewal,
    /// How often the last snapshot was requested: not yet, or again since it was unusable.
    last_requests: u32,
    end: LastSnapshot,
    /// Time between the copies of the first and the last snapshot, or until the end.
    lasted: Duration,
    /// Why it ended early.
    cut: Option<Cut>,
}

impl Course {
    fn new(
        process: &Process,
        session: WatchSession,
        (duration, allowance): (Duration, Allowance),
        both: Option<SnapshotPair>,
    ) -> Course {
        Course {
            session,
            tracking: Tracking { watch: guarded(), both, copied: None },
            name: process.name().within(TargetText::LONGEST),
            process_id: process.pid,
            duration,
            allowance,
            begun: None,
            first_copied: None,
            renewal: Renewal::new(Instant::now()),
            last_requests: 0,
            end: LastSnapshot::default(),
            lasted: Duration::ZERO,
            cut: None,
        }
    }

    /// Runs until the last snapshot has been compared, or the watch must end early.
    fn run(&mut self, stop: &mut Stop) -> Result<(), Failure> {
        let mut line = StatusLine::new();
        while !self.end.was_taken {
            let mut compared = None;
            let tracking = &mut self.tracking;
            let state = self.session.step(STEP, &mut |event| compared = tracking.feed(event).or(compared))?;
            if let Some(compared) = compared {
                self.snapshot_ended(compared);
            }
            line.show(&self.progressed(&state));
            self.cut = self.cut.take().or_else(|| self.allowance.exceeded(&progress(&state)).map(Cut::Limit));
            if self.tracking.both.as_ref().is_some_and(SnapshotPair::must_end) {
                self.cut = Some(Cut::FullDisk);
            }
            self.cut = self.cut.take().or_else(|| too_expensive(self.tracking.watch.longest_extra()).map(Cut::Limit));
            let wishes_end = stop.wish().is_some();
            if state.ended || self.cut.is_some() || wishes_end && self.begun.is_none() {
                break;
            }
            self.go_on(&state, wishes_end);
        }
        line.clear();
        if !self.end.was_taken {
            self.lasted = self.first_copied.map_or(Duration::ZERO, |copied| copied.elapsed());
        }
        Ok(())
    }

    fn snapshot_ended(&mut self, compared: Option<Compared>) {
        self.renewal.taken(Instant::now());
        let copied = self.tracking.copied.take();
        if self.begun.is_none() && compared.is_some() {
            (self.begun, self.first_copied) = (Some(Instant::now()), copied);
            note(&format!("watching {} (process {}); Ctrl-C ends it before its time", self.name, self.process_id));
        }
        if self.last_requests == 0 {
            self.tracking.watch.go_on();
        } else if compared.is_none() && !self.end.was_given_up && self.last_requests < MOST_IN_A_ROW {
            // The ring had no room for the end of its GC, or for the copy. It has been emptied since.
            self.tracking.watch.go_on();
            self.ends();
        } else {
            self.tracking.watch.end();
            self.end.was_taken = true;
            self.lasted = copied.zip(self.first_copied).map_or(Duration::ZERO, |(last, first)| last - first);
            if let Some(Compared::With(difference)) = compared {
                self.end.difference = Some(difference);
            }
        }
    }

    /// Requests another snapshot, if one is due.
    fn go_on(&mut self, state: &WatchState, wishes_end: bool) {
        if state.is_taking || self.last_requests > 0 {
            return;
        }
        let lasted = self.begun.map(|begun| begun.elapsed());
        // Without a complete first snapshot there is no mirror to update: the agent missed its GC, or the snapshot was incomplete.
        let is_stale = self.tracking.watch.is_stale() || lasted.is_none();
        let due = if is_stale { self.renewal.stale(Instant::now()) } else { Due::Later };
        match (due, lasted) {
            (_, Some(lasted)) if lasted >= self.duration || wishes_end => self.ends(),
            (Due::GiveUp, Some(_)) => {
                self.end.was_given_up = true;
                self.ends();
            }
            (Due::GiveUp, None) => {
                self.cut = Some(Cut::Limit(format!("all {MOST_IN_A_ROW} snapshot attempts failed")));
            }
            (Due::Now, _) => self.session.take_another(),
            (Due::Later, _) => {}
        }
    }

    /// Requests the last snapshot.
    fn ends(&mut self) {
        self.last_requests += 1;
        self.session.take_another();
    }

    fn progressed(&self, state: &WatchState) -> String {
        match self.begun {
            None if state.objects == 0 => "the first collection · Ctrl-C gives it up".to_owned(),
            None => format!("the first snapshot, {} objects · Ctrl-C gives it up", grouped(state.objects)),
            Some(_) if self.last_requests > 0 => "the last snapshot".to_owned(),
            Some(begun) => {
                let known = self.tracking.watch.cache().map_or(0, remora_heap_tracking::ObjectCache::count);
                format!(
                    "{} s of {} s, {}, {} objects · Ctrl-C ends it with a last snapshot",
                    begun.elapsed().as_secs(),
                    self.duration.as_secs(),
                    counted(self.tracking.watch.collections().count(), "collection"),
                    grouped(known),
                )
            }
        }
    }
}

fn progress(state: &WatchState) -> HeapProgress {
    HeapProgress { objects: state.objects, extra_memory: state.extra_memory, ..HeapProgress::default() }
}
