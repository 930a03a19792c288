//! The end of a recording: detach, prove, write, tell.

use super::child::Child;
use super::engine::{Ended, Engine, Kept};
use super::plan::Plan;
use super::processor::Processor;
use super::result::Outcome;
use crate::console::note;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{FileFormat, Output, Spool, place};
use remora_profile::Profile;
use remora_receipt::{Error, Facts, Kind, Receipt, Snapshot, Unread};
use remora_trigger::{Fate, Target};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a process that has hung up may take to end.
const ENDING_PATIENCE: Duration = Duration::from_secs(5);

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

/// What is known when it ends.
pub(crate) struct Finish<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) output: Output,
    pub(crate) before: Snapshot,
    pub(crate) target: Target,
    pub(crate) processor: Processor,
    pub(crate) why: Why,
}

impl Finish<'_> {
    /// Ends it.
    pub(crate) fn run(mut self, engine: Engine, child: Option<Child>) -> Result<Exit, Failure> {
        let Ended { mut profile, facts, kept, managed_frames, first_sample } = engine.end()?;
        self.complete(&mut profile);
        let receipt = self.prove(&facts);
        let written = write(&self.output, kept, &profile);
        let receipt_written = match &self.plan.receipt {
            Some(place) => place.write(|out| out.write_all(receipt.to_json().as_bytes())),
            None => Ok(()),
        };
        let outcome = Outcome {
            profile: &profile,
            receipt: &receipt,
            output: written.is_ok().then_some(&self.output),
            receipt_file: self.plan.receipt.as_ref().filter(|_| receipt_written.is_ok()),
            why: &self.why,
            managed_frames,
            first_sample,
        };
        outcome.tell(self.plan.json, &self.output)?;
        written?;
        receipt_written?;
        ended(self.why, &receipt, child)
    }

    /// What the recording side knows besides.
    fn complete(&mut self, profile: &mut Profile) {
        let used = self.processor.total().and_then(|used| u64::try_from(used.as_nanos()).ok());
        profile.meta.target_cpu = profile.meta.target_cpu.or(used);
        match &self.why {
            Why::DiskFull => profile.meta.notes.push("the recording ended early: the disk was full".to_owned()),
            Why::Failed(failure) => profile.meta.notes.push(format!("the recording ended early: {failure}")),
            _ => {}
        }
    }

    /// What of Remora is in the process now.
    fn prove(&self, facts: &Facts) -> Receipt {
        // One that is just ending looks like one that cannot be read: its end is waited for.
        let ending = matches!(self.why, Why::TargetEnded(_)) && self.target.fate() == Fate::Same;
        if (ending && self.target.wait(ENDING_PATIENCE)) || self.target.fate() == Fate::Ended {
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

/// How the command ends.
fn ended(why: Why, receipt: &Receipt, child: Option<Child>) -> Result<Exit, Failure> {
    match (why, child) {
        (Why::Failed(failure), _) => Err(failure),
        (Why::DiskFull, _) => Err(Failure::EndedByFullDisk),
        (Why::TargetEnded(why), None) => Err(Failure::TargetEnded(why)),
        (why, child) => {
            if let Some(mut child) = child {
                let patience = if matches!(why, Why::TargetEnded(_)) { COMMAND_PATIENCE } else { Duration::ZERO };
                note(&match child.status_within(patience) {
                    Some(status) => format!("{} ended ({status})", child.label()),
                    None => format!("{} runs on", child.label()),
                });
            }
            Ok(if receipt.clean() { Exit::Done } else { Exit::Unclean })
        }
    }
}
