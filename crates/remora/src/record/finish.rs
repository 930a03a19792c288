//! The end of a recording: detach, verify, write, report.

use super::Beside;
use super::child::{COMMAND_TIMEOUT, Child};
use super::engine::Engine;
use super::engine_step::{EndReason, Ended, Kept};
use super::plan::Plan;
use super::processor::Processor;
use super::result::{Outcome, tell_of_nothing};
use super::without_lines::WithoutLines;
use crate::baseline::{Baseline, verdict, write_receipt};
use crate::console::note;
use crate::exit::of_command;
use crate::failure::Failure;
use crate::output::{Destination, FileFormat, Output, Spool, Unfinished};
use crate::report::ENDED_EARLY;
use remora_profile::Profile;
use remora_receipt::Facts;
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

/// Everything needed to finish, collected at the attach.
pub(crate) struct Finish<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) output: Output,
    pub(crate) before: Baseline,
}

/// How the recording ended.
pub(crate) struct End {
    pub(crate) why: EndReason,
    pub(crate) processor: Processor,
    pub(crate) child: Option<Child>,
    /// For a started command: how long it ran unrecorded.
    pub(crate) unrecorded: Option<String>,
    /// The heap snapshots and the trace that the user wanted.
    pub(super) beside: Beside,
}

impl Finish<'_> {
    /// Ends a recording.
    pub(crate) fn run(self, engine: Engine, mut end: End, hurried: impl Fn() -> bool) -> Result<ExitCode, Failure> {
        end.beside.traces.ask_to_end();
        let Ended { mut profile, mut facts, kept, managed_frames, without_lines, first_sample, target_ended, failure } =
            engine.end(&hurried);
        let without_lines = WithoutLines::of(&profile, &self.plan.rule, without_lines);
        profile.meta.notes.extend(without_lines.note());
        // The receipt must not see their agent.
        end.beside.snapshots.finish();
        end.beside.traces.finish(&hurried);
        facts.traced = end.beside.traces.have_left_an_agent();
        if let (Some(failure), false) = (failure, matches!(end.why, EndReason::Failed(_))) {
            end.why = EndReason::Failed(failure);
        }
        complete(&mut profile, &mut end);
        let receipt = self.before.verify(&facts, target_ended || matches!(end.why, EndReason::TargetEnded(_)));
        let (shown, written) = self.write(kept, profile);
        let receipt_written = write_receipt(&receipt, self.plan.receipt.as_ref());
        let outcome = Outcome {
            profile: &shown,
            rule: &self.plan.rule,
            receipt: &receipt,
            output: written.is_ok().then_some(&self.output),
            receipt_file: self.plan.receipt.as_ref().filter(|_| receipt_written.is_ok()),
            why: &end.why,
            managed_frames,
            without_lines: &without_lines,
            first_sample,
        };
        let printed = outcome.tell(self.plan.json, &self.output);
        let of_a_command = end.child.is_some();
        let by_itself = matches!(end.why, EndReason::TargetEnded(_));
        let status = end.child.and_then(|child| tell_of(child, &end.why, hurried)).filter(|_| by_itself);
        let ended = printed.and(written).and(receipt_written).and_then(|()| ended(end.why, of_a_command));
        verdict(ended, receipt.clean()).map(|exit| of_command(exit, status))
    }

    /// Writes the recording to its output, and returns the profile with the frames that are shown. The spool has
    /// the whole recording before its frames are folded, since folding takes the profile apart.
    fn write(&self, kept: Kept, profile: Profile) -> (Profile, Result<(), Failure>) {
        let (output, frames) = (&self.output, self.plan.runtime_frames);
        let (part, is_whole, is_recording) = match kept {
            Kept::Recording(spool) => {
                let (part, finished) = spool.finish(&profile);
                (part, finished.is_ok(), true)
            }
            Kept::Stream(stream) => (stream.into_file(), true, false),
        };
        if output.format != FileFormat::Remora {
            let shown = frames.shown(profile, Some(output.format));
            let written = self.export(&part, is_whole, &shown);
            return (shown, written);
        }
        let is_moved = is_recording && is_whole && output.destination.is_regular();
        let written = match is_moved {
            true => output
                .destination
                .put(&part)
                .map_err(|failure| failure.saved_in(part.kept().or_else(|| elsewhere(&profile)))),
            false => self.export(&part, is_whole, &profile),
        };
        (frames.shown(profile, None), written)
    }

    /// Writes `profile` beside the spool's file. If that fails, the failure names the file that has it.
    fn export(&self, part: &Unfinished, is_whole: bool, profile: &Profile) -> Result<(), Failure> {
        self.output.write(profile, &self.plan.rule).map_err(|failure| {
            let kept = if is_whole { part.kept() } else { None };
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

    /// Finishes a recording that did not start. If the runtime was contacted, something may be in the process.
    pub(crate) fn of_nothing(self, failure: Failure, facts: Option<Box<Facts>>) -> Failure {
        let Some(facts) = facts else { return failure };
        let receipt = self.before.verify(&facts, false);
        let written = write_receipt(&receipt, self.plan.receipt.as_ref());
        let file = self.plan.receipt.as_ref().filter(|_| written.is_ok());
        let printed = tell_of_nothing(&receipt, &failure, file, (self.plan.json, &self.output));
        for lesser in [written, printed].into_iter().filter_map(Result::err) {
            note(&format!("remora: {}", lesser.line()));
        }
        if receipt.clean() { failure } else { Failure::LeftBehind(Box::new(failure)) }
    }
}

/// Adds the facts that only the command has.
fn complete(profile: &mut Profile, end: &mut End) {
    let used = end.processor.total().and_then(|used| u64::try_from(used.as_nanos()).ok());
    profile.meta.target_cpu = profile.meta.target_cpu.or(used);
    profile.meta.notes.extend(end.unrecorded.take());
    match &end.why {
        EndReason::DiskFull => profile.meta.notes.push(format!("{ENDED_EARLY}the disk was full")),
        EndReason::Failed(failure) => profile.meta.notes.push(format!("{ENDED_EARLY}{failure}")),
        _ => {}
    }
}

/// Saves the recording in the first directory that can store it.
fn elsewhere(profile: &Profile) -> Option<PathBuf> {
    let places = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into(), std::env::home_dir()?];
    places.iter().find_map(|place| {
        let spool = Spool::create(&Destination::of(&place.join("remora"), false)).ok()?;
        let (part, finished) = spool.finish(profile);
        if finished.is_err() {
            // A partial recording is useless beside the spool.
            let _ = part.remove();
        }
        finished.ok().map(|()| part.path())
    })
}

/// Reports the state of the started command, and returns its exit status if it has ended.
fn tell_of(mut child: Child, why: &EndReason, is_hurried: impl Fn() -> bool) -> Option<ExitStatus> {
    let status = match why {
        EndReason::TargetEnded(_) => child.status_after_its_process(is_hurried),
        // Ctrl-C goes to the command, too.
        EndReason::Asked => child.status_within(COMMAND_TIMEOUT),
        _ => child.status_within(Duration::ZERO),
    };
    note(&match status {
        Some(status) => format!("{} ended ({status})", child.label()),
        None => format!("{} runs on", child.label()),
    });
    status
}

/// The recording's own outcome. A started command is recorded until it ends: that is no failure.
fn ended(why: EndReason, of_a_command: bool) -> Result<(), Failure> {
    match why {
        EndReason::Failed(failure) => Err(failure),
        EndReason::DiskFull => Err(Failure::EndedByFullDisk),
        EndReason::Limit(why) => Err(Failure::EndedByLimit(why)),
        EndReason::Unreadable(why) => Err(Failure::TargetEnded(format!("{why}; the recording until then is complete"))),
        EndReason::TargetEnded(why) if !of_a_command => {
            Err(Failure::TargetEnded(format!("{why}; the recording until then is complete")))
        }
        EndReason::TargetEnded(_) | EndReason::TimeIsOver | EndReason::Asked => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn code(ended: Result<(), Failure>, clean: bool) -> Exit {
        verdict(ended, clean).unwrap_or_else(|failure| failure.exit())
    }

    #[test]
    fn what_is_left_in_the_process_comes_before_how_the_recording_ended() {
        let gone = || EndReason::TargetEnded("the target ended during the recording".into());
        assert_eq!(code(ended(EndReason::Asked, false), true), Exit::Done);
        assert_eq!(code(ended(gone(), true), true), Exit::Done, "a command that ends by itself is recorded to its end");
        assert_eq!(code(ended(gone(), false), true), Exit::TargetEnded);
        assert_eq!(code(ended(EndReason::DiskFull, false), true), Exit::DiskFull);
        assert_eq!(code(ended(EndReason::Limit("too much".into()), true), true), Exit::DiskFull);
        assert_eq!(code(ended(EndReason::Unreadable("nonsense".into()), true), true), Exit::TargetEnded);
        assert_eq!(code(ended(EndReason::Failed(Failure::Interrupted), false), true), Exit::Interrupted);
        for why in [
            EndReason::TimeIsOver,
            EndReason::Asked,
            gone(),
            EndReason::DiskFull,
            EndReason::Failed(Failure::Interrupted),
        ] {
            assert_eq!(code(ended(why, false), false), Exit::Unclean);
        }
        let text = verdict(ended(EndReason::DiskFull, false), false).expect_err("it has two reasons").line();
        assert!(text.contains("the disk is full") && text.contains("the receipt lists it"), "{text}");
    }
}
