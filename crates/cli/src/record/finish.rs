//! The end of a recording: detach, prove, write, tell.

use super::child::Child;
use super::engine::{Ended, Engine, Kept};
use super::plan::Plan;
use super::processor::Processor;
use super::result::{Outcome, tell_of_nothing};
use crate::console::note;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{FileFormat, Output, Spool, place};
use remora_profile::Profile;
use remora_receipt::{Error, Facts, Kind, ProfilerSlot, Receipt, Snapshot, Unread};
use remora_trigger::{Fate, Target};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process that has hung up may take to end.
const ENDING_PATIENCE: Duration = Duration::from_secs(5);

/// How long an agent that was not made use of may take to leave by itself.
const LEAVING_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks whether it has.
const LEAVING_LOOK: Duration = Duration::from_millis(20);

/// The kernel's `PF_EXITING` among the flags of `/proc/PID/stat`.
const EXITING: u64 = 4;

/// How long the command may take to end after the process in it that was recorded. (It may be another one, and go on.)
const COMMAND_PATIENCE: Duration = Duration::from_secs(1);

/// Why the recording ended.
#[derive(Debug)]
pub(crate) enum Why {
    /// Its time is over.
    TimeIsOver,
    /// The user wished so.
    Asked,
    /// The process ended or replaced its program.
    TargetEnded(String),
    /// The disk is nearly full; what was recorded fits.
    DiskFull,
    /// Something broke.
    Failed(Failure),
}

/// What is known when it is attached to.
pub(crate) struct Finish<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) output: Output,
    pub(crate) before: Snapshot,
    pub(crate) target: Target,
}

/// How the recording ended.
pub(crate) struct End {
    pub(crate) why: Why,
    pub(crate) processor: Processor,
    pub(crate) child: Option<Child>,
    /// Told if the command ran before it could be recorded.
    pub(crate) late: Option<String>,
}

impl Finish<'_> {
    /// Ends a recording.
    pub(crate) fn run(self, engine: Engine, mut end: End) -> Result<Exit, Failure> {
        let Ended { mut profile, facts, kept, managed_frames, first_sample, target_ended, failure } = engine.end();
        if let (Some(failure), false) = (failure, matches!(end.why, Why::Failed(_))) {
            end.why = Why::Failed(failure);
        }
        complete(&mut profile, &mut end);
        let receipt = self.prove(&facts, target_ended || matches!(end.why, Why::TargetEnded(_)));
        let written = write(&self.output, kept, &profile);
        let receipt_written = self.write_receipt(&receipt);
        let outcome = Outcome {
            profile: &profile,
            receipt: &receipt,
            output: written.is_ok().then_some(&self.output),
            receipt_file: self.plan.receipt.as_ref().filter(|_| receipt_written.is_ok()),
            why: &end.why,
            managed_frames,
            first_sample,
        };
        let told = outcome.tell(self.plan.json, &self.output);
        let of_a_command = end.child.is_some();
        if let Some(child) = end.child {
            tell_of(child, &end.why);
        }
        let ended = told.and(written).and(receipt_written).and_then(|()| ended(end.why, of_a_command));
        verdict(ended, receipt.clean())
    }

    /// Ends what did not begin: if the runtime was asked for anything, something may be in the process.
    pub(crate) fn of_nothing(self, failure: Failure, facts: Option<Box<Facts>>) -> Failure {
        let Some(facts) = facts else { return failure };
        let receipt = self.prove(&facts, false);
        let written = self.write_receipt(&receipt);
        let file = self.plan.receipt.as_ref().filter(|_| written.is_ok());
        let told = tell_of_nothing(&receipt, &failure, file, (self.plan.json, &self.output));
        for lesser in [written, told].into_iter().filter_map(Result::err) {
            note(&format!("remora: {lesser}"));
        }
        if receipt.clean() { failure } else { Failure::LeftBehind(Box::new(failure)) }
    }

    fn write_receipt(&self, receipt: &Receipt) -> Result<(), Failure> {
        match &self.plan.receipt {
            Some(place) => place.write(|out| out.write_all(receipt.to_json().as_bytes())),
            None => Ok(()),
        }
    }

    /// What of Remora is in the process now.
    fn prove(&self, facts: &Facts, target_ended: bool) -> Receipt {
        if target_ended && self.target.fate() == Fate::Same {
            // Its end is what will be told: it is waited for, as far as it comes.
            self.target.wait(ENDING_PATIENCE);
        }
        if facts.slot != ProfilerSlot::None && !facts.attach_completed && facts.inert.is_none() {
            self.wait_for_the_agent();
        }
        let process_id = self.before.process_id;
        settled(|| self.look(facts), || is_ending(process_id), || self.target.wait(ENDING_PATIENCE))
    }

    /// An agent that finds nobody to record for leaves by itself.
    fn wait_for_the_agent(&self) {
        let earlier = self.before.mappings.ours.len();
        let deadline = Instant::now() + LEAVING_PATIENCE;
        while Instant::now() < deadline
            && Snapshot::take(Path::new("/proc"), self.before.process_id)
                .is_ok_and(|now| now.mappings.ours.len() > earlier)
        {
            std::thread::sleep(LEAVING_LOOK);
        }
    }

    fn look(&self, facts: &Facts) -> Receipt {
        if self.target.fate() == Fate::Ended {
            return Receipt::of_ended(&self.before, facts);
        }
        match Snapshot::take(Path::new("/proc"), self.before.process_id) {
            Ok(mut after) => {
                after.look_for(&facts.placed);
                Receipt::between(&self.before, &after, facts)
            }
            Err(Error::Gone { .. }) => Receipt::of_ended(&self.before, facts),
            // It is there, and nothing of it could be read.
            Err(error) => Receipt::between(&self.before, &unreadable(&self.before, &error), facts),
        }
    }
}

/// What the recording side knows besides.
fn complete(profile: &mut Profile, end: &mut End) {
    let used = end.processor.total().and_then(|used| u64::try_from(used.as_nanos()).ok());
    profile.meta.target_cpu = profile.meta.target_cpu.or(used);
    profile.meta.notes.extend(end.late.take());
    match &end.why {
        Why::DiskFull => profile.meta.notes.push("the recording ended early: the disk was full".to_owned()),
        Why::Failed(failure) => profile.meta.notes.push(format!("the recording ended early: {failure}")),
        _ => {}
    }
}

/// The receipt of a process that may just be ending: it looks like one that cannot be read, or in which something is left.
fn settled(look: impl Fn() -> Receipt, is_ending: impl FnOnce() -> bool, ends: impl FnOnce() -> bool) -> Receipt {
    let receipt = look();
    if !receipt.clean() && is_ending() && ends() { look() } else { receipt }
}

/// Whether a process is on its way out, or has gone: it has given up its memory, or is marked as exiting.
fn is_ending(process_id: u32) -> bool {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{process_id}/{what}"));
    let Ok(stat) = read("stat") else { return true };
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let dead = matches!(fields.next(), Some("Z" | "X"));
    // The fields go on with parent, group, session, terminal and its group.
    let exiting = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & EXITING != 0);
    dead || exiting || read("maps").is_ok_and(|maps| maps.is_empty())
}

/// A snapshot of which nothing could be read; the receipt does not call that clean.
fn unreadable(before: &Snapshot, error: &Error) -> Snapshot {
    let path = format!("/proc/{}", before.process_id);
    let everything = Unread { kind: Kind::Mapping, path, error: error.to_string() };
    Snapshot {
        process_id: before.process_id,
        start_time: before.start_time,
        unread: vec![everything],
        ..Snapshot::default()
    }
}

/// Puts the recording where it was asked for. If that fails, it stays where it can be found, and the failure says where.
fn write(output: &Output, kept: Kept, profile: &Profile) -> Result<(), Failure> {
    let (path, whole) = match kept {
        Kept::Recording(spool) => {
            let path = spool.path().to_owned();
            let whole = spool.finish(profile).is_ok();
            if let (true, FileFormat::Remora, Some((wanted, force))) =
                (whole, output.format, output.destination.regular())
            {
                return place(&path, wanted, force).map_err(|failure| failure.saved_in(&path));
            }
            (path, whole)
        }
        Kept::Stream(stream) => (stream.path().to_owned(), true),
    };
    match output.write(profile) {
        Ok(()) => {
            if std::fs::remove_file(&path).is_err() {
                note(&format!("{} could not be removed; it is not needed any more", path.display()));
            }
            Ok(())
        }
        Err(failure) if whole => Err(failure.saved_in(&path)),
        Err(failure) => match elsewhere(profile) {
            Some(saved) => {
                let _ = std::fs::remove_file(&path);
                Err(failure.saved_in(&saved))
            }
            None => Err(failure.saved_in(&path)),
        },
    }
}

/// Saves the recording in any place that takes it.
fn elsewhere(profile: &Profile) -> Option<PathBuf> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into(), std::env::home_dir()?];
    places.iter().find_map(|place| {
        let spool = Spool::create(Some(&place.join("remora"))).ok()?;
        let path = spool.path().to_owned();
        match spool.finish(profile) {
            Ok(path) => Some(path),
            Err(_) => {
                // Half a recording beside the half that the spool has is of no use.
                let _ = std::fs::remove_file(path);
                None
            }
        }
    })
}

/// Tells what became of the command that was started.
fn tell_of(mut child: Child, why: &Why) {
    // What ended the recording may have ended the command, too: Ctrl-C goes to both.
    let ending = matches!(why, Why::TargetEnded(_) | Why::Asked);
    let patience = if ending { COMMAND_PATIENCE } else { Duration::ZERO };
    note(&match child.status_within(patience) {
        Some(status) => format!("{} ended ({status})", child.label()),
        None => format!("{} runs on", child.label()),
    });
}

/// How the recording itself ended. A command that was started is recorded until it ends: that is no failure.
fn ended(why: Why, of_a_command: bool) -> Result<(), Failure> {
    match why {
        Why::Failed(failure) => Err(failure),
        Why::DiskFull => Err(Failure::EndedByFullDisk),
        Why::TargetEnded(why) if !of_a_command => Err(Failure::TargetEnded(why)),
        Why::TargetEnded(_) | Why::TimeIsOver | Why::Asked => Ok(()),
    }
}

/// How `remora` ends. What is left in somebody's process comes before everything else, which is about our own files and time.
fn verdict(ended: Result<(), Failure>, clean: bool) -> Result<Exit, Failure> {
    match (ended, clean) {
        (Ok(()), true) => Ok(Exit::Done),
        (Ok(()), false) => Ok(Exit::Unclean),
        (Err(failure), true) => Err(failure),
        (Err(failure), false) => Err(Failure::LeftBehind(Box::new(failure))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_receipt::Outcome as Became;
    use std::cell::Cell;
    use std::process::{Command, Stdio};

    fn code(ended: Result<(), Failure>, clean: bool) -> Exit {
        verdict(ended, clean).unwrap_or_else(|failure| failure.exit())
    }

    #[test]
    fn det_14_what_is_left_in_the_process_comes_before_how_the_recording_ended() {
        let gone = || Why::TargetEnded("the target ended during the recording".into());
        assert_eq!(code(ended(Why::Asked, false), true), Exit::Done);
        assert_eq!(code(ended(gone(), true), true), Exit::Done, "a command that ends by itself is recorded to its end");
        assert_eq!(code(ended(gone(), false), true), Exit::TargetEnded);
        assert_eq!(code(ended(Why::DiskFull, false), true), Exit::DiskFull);
        assert_eq!(code(ended(Why::Failed(Failure::Interrupted), false), true), Exit::Interrupted);
        for why in [Why::TimeIsOver, Why::Asked, gone(), Why::DiskFull, Why::Failed(Failure::Interrupted)] {
            assert_eq!(code(ended(why, false), false), Exit::Unclean);
        }
        let told = verdict(ended(Why::DiskFull, false), false).expect_err("two things are to be told").to_string();
        assert!(told.contains("the disk is full") && told.contains("the receipt lists it"), "{told}");
    }

    /// This very process as one in which something is left, or as one that has ended.
    fn receipt(became: Became) -> Receipt {
        let before = Snapshot { process_id: 7, start_time: 7, ..Snapshot::default() };
        match became {
            Became::Running => {
                Receipt::between(&before, &unreadable(&before, &Error::Gone { process_id: 7 }), &Facts::default())
            }
            Became::Ended => Receipt::of_ended(&before, &Facts::default()),
        }
    }

    #[test]
    fn det_17_a_process_that_is_just_ending_is_looked_at_again_when_it_has_ended() {
        let has_ended = Cell::new(false);
        let look = || receipt(if has_ended.get() { Became::Ended } else { Became::Running });
        let ends = || {
            has_ended.set(true);
            true
        };
        assert!(!look().clean());
        assert!(!settled(look, || false, ends).clean(), "one that lives is judged as it is");
        assert!(!has_ended.get());
        assert!(!settled(look, || true, || false).clean(), "one that does not end in time, too");
        let receipt = settled(look, || true, ends);
        assert_eq!((receipt.clean(), receipt.outcome), (true, Became::Ended));
    }

    #[test]
    fn a_process_is_ending_from_its_exit_until_it_is_gone() {
        assert!(!is_ending(std::process::id()));
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
        drop(child.stdin.take());
        let id = child.id();
        while !is_ending(id) {
            std::thread::yield_now();
        }
        child.wait().expect("collected");
        assert!(is_ending(id));
    }
}
