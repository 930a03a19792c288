//! The end of a recording: detach, prove, write, tell.

use super::child::Child;
use super::engine::{Ended, Engine, Kept};
use super::plan::Plan;
use super::processor::Processor;
use super::progress::IDLE_SHARE;
use super::result::{Outcome, tell_of_nothing};
use crate::console::note;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Destination, FileFormat, Output, Spool};
use crate::proof::{Before, verdict, write_receipt};
use remora_profile::{Event, Profile};
use remora_receipt::Facts;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

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
    /// It takes as much of the memory or the disk as it may.
    Limit(String),
    /// What the process sends makes no sense any more.
    Unreadable(String),
    /// The disk is nearly full; what was recorded fits.
    DiskFull,
    /// Something broke.
    Failed(Failure),
}

/// What is known when it is attached to.
pub(crate) struct Finish<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) output: Output,
    pub(crate) before: Before,
}

/// How the recording ended.
pub(crate) struct End {
    pub(crate) why: Why,
    pub(crate) processor: Processor,
    pub(crate) child: Option<Child>,
    /// Told of a command that was started: how long it ran before.
    pub(crate) unrecorded: Option<String>,
}

impl Finish<'_> {
    /// Ends a recording.
    pub(crate) fn run(self, engine: Engine, mut end: End, hurried: impl Fn() -> bool) -> Result<Exit, Failure> {
        let Ended { mut profile, facts, kept, managed_frames, first_sample, target_ended, failure } =
            engine.end(hurried);
        if let (Some(failure), false) = (failure, matches!(end.why, Why::Failed(_))) {
            end.why = Why::Failed(failure);
        }
        complete(&mut profile, &mut end);
        let receipt = self.before.prove(&facts, target_ended || matches!(end.why, Why::TargetEnded(_)));
        let written = write(&self.output, kept, &profile);
        let receipt_written = write_receipt(&receipt, self.plan.receipt.as_ref());
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
        let receipt = self.before.prove(&facts, false);
        let written = write_receipt(&receipt, self.plan.receipt.as_ref());
        let file = self.plan.receipt.as_ref().filter(|_| written.is_ok());
        let told = tell_of_nothing(&receipt, &failure, file, (self.plan.json, &self.output));
        for lesser in [written, told].into_iter().filter_map(Result::err) {
            note(&format!("remora: {}", lesser.line()));
        }
        if receipt.clean() { failure } else { Failure::LeftBehind(Box::new(failure)) }
    }
}

/// What the recording side knows besides.
fn complete(profile: &mut Profile, end: &mut End) {
    let used = end.processor.total().and_then(|used| u64::try_from(used.as_nanos()).ok());
    profile.meta.target_cpu = profile.meta.target_cpu.or(used);
    profile.meta.notes.extend(end.unrecorded.take());
    profile.meta.notes.extend(idle(profile));
    match &end.why {
        Why::DiskFull => profile.meta.notes.push("the recording ended early: the disk was full".to_owned()),
        Why::Failed(failure) => profile.meta.notes.push(format!("the recording ended early: {failure}")),
        _ => {}
    }
}

/// Says of an idle target that it is idle: its profile of processor time is empty, or nearly. A note of the recording, so that each format tells it.
fn idle(profile: &Profile) -> Option<String> {
    let meta = &profile.meta;
    let used = meta.target_cpu? as f64 / meta.duration.max(1) as f64;
    let idle = meta.event == Event::Cpu && used < IDLE_SHARE;
    idle.then(|| {
        let share = used * 100.0;
        format!("the target was idle: it used {share:.1}% of a processor; --event wall shows what its threads wait for")
    })
}

/// Puts the recording where it was asked for. If that fails, it stays where it can be found, and the failure says where.
fn write(output: &Output, kept: Kept, profile: &Profile) -> Result<(), Failure> {
    let (part, whole) = match kept {
        Kept::Recording(spool) => {
            let (part, finished) = spool.finish(profile);
            if finished.is_ok() && output.format == FileFormat::Remora && output.destination.is_regular() {
                let saved = || part.kept().or_else(|| elsewhere(profile));
                return output.destination.put(&part).map_err(|failure| failure.saved_in(saved()));
            }
            (part, finished.is_ok())
        }
        Kept::Stream(stream) => (stream.into_file(), true),
    };
    output.write(profile).map_err(|failure| {
        let kept = if whole { part.kept() } else { None };
        let saved = kept.or_else(|| {
            elsewhere(profile).inspect(|_| {
                let _ = part.remove();
            })
        });
        failure.saved_in(saved.or_else(|| part.kept()))
    })?;
    if part.remove().is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
        note(&format!("{} could not be removed; it is not needed any more", part.path().display()));
    }
    Ok(())
}

/// Saves the recording in any place that takes it.
fn elsewhere(profile: &Profile) -> Option<PathBuf> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into(), std::env::home_dir()?];
    places.iter().find_map(|place| {
        let spool = Spool::create(&Destination::of(&place.join("remora"), false)).ok()?;
        let (part, finished) = spool.finish(profile);
        if finished.is_err() {
            // Half a recording beside the half that the spool has is of no use.
            let _ = part.remove();
        }
        finished.ok().map(|()| part.path())
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
        Why::Limit(why) => Err(Failure::EndedByLimit(why)),
        Why::Unreadable(why) => Err(Failure::TargetEnded(format!("{why}; what was recorded until then is complete"))),
        Why::TargetEnded(why) if !of_a_command => {
            Err(Failure::TargetEnded(format!("{why}; what was recorded until then is complete")))
        }
        Why::TargetEnded(_) | Why::TimeIsOver | Why::Asked => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(code(ended(Why::Limit("too much".into()), true), true), Exit::DiskFull);
        assert_eq!(code(ended(Why::Unreadable("nonsense".into()), true), true), Exit::TargetEnded);
        assert_eq!(code(ended(Why::Failed(Failure::Interrupted), false), true), Exit::Interrupted);
        for why in [Why::TimeIsOver, Why::Asked, gone(), Why::DiskFull, Why::Failed(Failure::Interrupted)] {
            assert_eq!(code(ended(why, false), false), Exit::Unclean);
        }
        let told = verdict(ended(Why::DiskFull, false), false).expect_err("two things are to be told").line();
        assert!(told.contains("the disk is full") && told.contains("the receipt lists it"), "{told}");
    }

    #[test]
    fn an_idle_target_is_told_as_such() {
        let mut profile = Profile::default();
        profile.meta.duration = 10_000_000_000;
        profile.meta.target_cpu = Some(20_000_000);
        let told = idle(&profile).expect("it is idle");
        assert!(told.contains("0.2% of a processor; --event wall"), "{told}");
        profile.meta.event = Event::Wall;
        assert_eq!(idle(&profile), None);
        profile.meta.event = Event::Cpu;
        profile.meta.target_cpu = Some(200_000_000);
        assert_eq!(idle(&profile), None);
        profile.meta.target_cpu = None;
        assert_eq!(idle(&profile), None);
    }
}
