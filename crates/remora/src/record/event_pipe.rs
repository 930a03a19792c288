//! The runtime's own sampler: loads nothing into the process, but sees less.
//!
//! Names arrive only at the end of the stream, and with them the profile. Until then the raw stream is spooled to disk: `remora report`,
//! `remora convert` and other tools for .nettrace files read it.

use super::engine_step::{EndReason, Ended, Kept, NotStarted, Step};
use super::plan::Plan;
use crate::console::note;
use crate::failure::Failure;
use crate::output::{Destination, StreamSpool};
use crate::ps;
use remora_attach::{
    Error, EventPipeConfig, EventPipeSession, Process, Provider, Rundown, Stacks, TargetText, Version,
    check_address_space,
};
use remora_collector::MemoryLimit;
use remora_nettrace::{SampledProfile, providers};
use remora_profile::{Event, Meta, Profile, ThreadIx};
use remora_receipt::{EventSession, Facts};
use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// The runtime's buffer in the target, MiB.
const BUFFER: u32 = 64;
/// Timeout for the runtime's list of methods and modules at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for the first entry of that list, and between two entries.
const QUIET_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for the stop request, and for its answer: a busy machine may let the runtime's thread wait for seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a user in a hurry, and the timeout for the end of an unreadable stream.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time from the user's signal to the end.
const HURRIED_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait for data between two checks for a second interrupt.
const INTERVAL: Duration = Duration::from_millis(50);
const OWN_FREQUENCY: &str =
    "The runtime's sampler takes about 1,000 samples a second of each thread: --frequency has no effect.";
const NO_SYMBOLS: &str = "The runtime's sampler shows no native frames and no lines: --symbols has no effect.";
/// Shown before the recording.
const WRONG_MARKS: &str = "this runtime marks nearly all samples of its own sampler as outside managed code: `-e cpu` will find nearly nothing, \
                           use `-e wall` (.NET 10.0.4 and later do better)";
/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// The agent that this engine replaces.
#[derive(Debug)]
pub(crate) struct InPlaceOf {
    /// Why the agent cannot be used.
    pub(crate) because: String,
    /// Facts about leftovers of the agent, if it was tried.
    pub(crate) facts: Option<Box<Facts>>,
}

/// Why the recording ended, built from a text.
type Becomes = fn(String) -> EndReason;

/// A session.
pub(crate) struct EventPipe {
    session: EventPipeSession,
    sampled: SampledProfile,
    spool: StreamSpool,
    process: Process,
    begun: Instant,
    facts: Facts,
    piece: Vec<u8>,
    notes: Vec<String>,
    /// Why no more data is accepted: the kind of end and its text.
    ended: Option<(Becomes, String)>,
    /// Whether the stream itself has ended, rather than our decoding of it.
    over: bool,
    /// Whether the stream can no longer be decoded.
    is_unreadable: bool,
    limit: MemoryLimit,
    /// Why the spooled stream is incomplete, if it is.
    failure: Option<Failure>,
}

impl EventPipe {
    /// Starts a session. The spool is beside `output`.
    pub(crate) fn start(
        process: &Process,
        plan: &Plan,
        output: &Destination,
        in_place_of: Option<InPlaceOf>,
    ) -> Result<EventPipe, NotStarted> {
        let version = process.runtime().and_then(|runtime| runtime.version);
        if plan.event == Event::Cpu && version.is_some_and(Version::has_wrong_sample_marks) {
            note(WRONG_MARKS);
        }
        let mut notes = vec![OWN_FREQUENCY.to_owned()];
        if !plan.symbols.is_empty() {
            notes.push(NO_SYMBOLS.to_owned());
        }
        let mut of_the_agent = None;
        if let Some(InPlaceOf { because, facts }) = in_place_of {
            notes.push(format!("The agent was not used: {because}."));
            of_the_agent = facts;
        }
        let (session, spool, attach) = match open(process, output) {
            Ok(opened) => opened,
            Err(failure) => return Err(NotStarted { failure, facts: of_the_agent }),
        };
        // The receipt then covers both.
        let facts =
            Facts { attach, runtime: ps::runtime(process), ..of_the_agent.map(|facts| *facts).unwrap_or_default() };
        Ok(EventPipe {
            session,
            sampled: SampledProfile::new(plan.event),
            spool,
            process: process.clone(),
            begun: Instant::now(),
            facts,
            piece: vec![0; PIECE],
            notes,
            ended: None,
            over: false,
            is_unreadable: false,
            limit: MemoryLimit::eighth(),
            failure: None,
        })
    }

    /// Receives new data, waiting at most `timeout`.
    pub(crate) fn step(&mut self, timeout: Duration) -> Result<Step, Failure> {
        let deadline = Instant::now() + timeout;
        while self.ended.is_none() && self.failure.is_none() && self.take(deadline)? {}
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let samples = self.sampled.samples() as u64;
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = (seconds > 0.0).then(|| samples as f64 / seconds);
        Ok(Step { samples, lost: self.sampled.lost(), rate, ended: self.ended.clone().map(|(why, text)| why(text)) })
    }

    /// Whether the disk is nearly full.
    pub(crate) fn is_low(&self) -> bool {
        self.spool.is_low()
    }

    /// Stops the session and takes what the runtime lists at its end: not longer than that may take, and where somebody is in a
    /// hurry, only as long as something comes.
    pub(crate) fn end(mut self, hurried: impl Fn() -> bool) -> Ended {
        self.facts.recording = nanoseconds(self.begun.elapsed());
        let asked = Instant::now();
        let target_ended = self.over;
        let stopped = if self.over { Ok(()) } else { self.stop(asked, &hurried) };
        // The runtime answers only after it has ended the session.
        let limit = if hurried() { SHORT_TIMEOUT } else { REQUEST_TIMEOUT };
        let stopped = stopped.and_then(|()| self.session.finish(limit).map_err(|error| error.to_string()));
        self.facts.event_session = match stopped {
            Ok(()) => EventSession::Ended,
            Err(why) => {
                self.notes.push(format!("the session did not end properly: {why}"));
                EventSession::NotEnded(why)
            }
        };
        self.facts.detach = nanoseconds(asked.elapsed());
        let mut profile = self.sampled.finish(Meta {
            duration: self.facts.recording,
            process_id: self.process.pid,
            application: self.process.name().within(TargetText::LONGEST),
            command_line: self.process.command_text(),
            runtime: self.facts.runtime.clone(),
            notes: self.notes,
            ..Meta::default()
        });
        profile.meta.notes.extend(self.ended.map(|(_, text)| text));
        name_threads(&mut profile, &self.process);
        Ended {
            profile,
            facts: self.facts,
            kept: Kept::Stream(self.spool),
            managed_frames: None,
            // A note says that it reads no symbols.
            without_lines: Vec::new(),
            first_sample: None,
            target_ended,
            failure: self.failure,
        }
    }

    /// Requests the end, and receives data until then; fails with the reason if it stopped waiting.
    fn stop(&mut self, asked: Instant, hurried: impl Fn() -> bool) -> Result<(), String> {
        let limit = if hurried() { SHORT_TIMEOUT } else { REQUEST_TIMEOUT };
        self.session.stop(limit).map_err(|error| error.to_string())?;
        let ended = self.ended.take();
        self.spool.ends();
        self.limit = MemoryLimit::eighth();
        let waited = self.take_the_end(asked, hurried);
        // This end of the stream was requested; any earlier end was not.
        self.ended = ended.or_else(|| self.ended.take().filter(|_| !self.over));
        waited
    }

    fn take_the_end(&mut self, asked: Instant, hurried: impl Fn() -> bool) -> Result<(), String> {
        let mut end = End::new(asked, self.sampled.named());
        while !self.over {
            let now = Instant::now();
            if let Some(after) = end.is_late(now, self.sampled.named(), self.is_unreadable) {
                let late = Error::TimedOut { step: "end its session of events", after };
                return Err(self.process.explain(late).to_string());
            }
            let taken = self.sampled.named() + self.sampled.samples();
            let interrupted = end.is_interrupted(now, taken, hurried()).then(|| "interrupted".to_owned());
            if let Some(why) = interrupted.or_else(|| self.limit.exceeded()) {
                return Err(why);
            }
            self.take(now + INTERVAL).map_err(|failure| failure.to_string())?;
        }
        Ok(())
    }

    /// Reads once; returns whether more may follow at once.
    fn take(&mut self, deadline: Instant) -> Result<bool, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        self.session.wait_at_most(Some(left))?;
        match self.session.read(&mut self.piece) {
            Ok(0) => self.is_over("the target ended during the recording"),
            Ok(length) => {
                let piece = &self.piece[..length];
                // Keep reading unreadable data: the runtime cannot end a session while nobody reads its stream.
                if self.is_unreadable {
                    return Ok(true);
                }
                if let Err(failure) = self.spool.write(piece) {
                    self.failure.get_or_insert(failure);
                }
                // An undecodable stream keeps its profile up to that point; the profile's notes say so.
                self.is_unreadable = self.sampled.push(piece.into()).is_err();
                if self.is_unreadable {
                    self.ended =
                        Some((EndReason::Unreadable, "the runtime's stream cannot be read any further".to_owned()));
                } else if let Some(why) = self.limit.exceeded() {
                    self.ended = Some((EndReason::Limit, why));
                } else if self.spool.is_cut() {
                    let why = "the runtime's stream takes more than half of the free disk space";
                    self.ended = Some((EndReason::Limit, why.to_owned()));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(_) => self.is_over("the connection to the target broke during the recording"),
        }
        Ok(true)
    }

    fn is_over(&mut self, why: &str) {
        self.over = true;
        self.ended = Some((EndReason::TargetEnded, why.to_owned()));
    }
}

/// The progress of a session's end.
struct End {
    asked: Instant,
    /// When the last name arrived.
    last: Instant,
    /// The number of names by then.
    named: usize,
    /// Once the user has sent a signal.
    hurry: Option<Hurry>,
}

/// The time since the user's signal.
struct Hurry {
    since: Instant,
    taken: usize,
    /// When more was taken for the last time.
    last: Instant,
}

impl End {
    fn new(asked: Instant, named: usize) -> End {
        End { asked, last: asked, named, hurry: None }
    }

    /// Whether the user has sent a signal, and nothing more was taken for a short while: names, or samples from the runtime's buffer. Even
    /// if more and more is taken, some seconds are enough.
    /// A first signal asks for the end, which is under way here: names that still come are worth more than the moment they take.
    /// Only a second one ends the wait at once, with the command.
    fn is_interrupted(&mut self, now: Instant, taken: usize, is_hurried: bool) -> bool {
        if !is_hurried {
            return false;
        }
        let hurry = self.hurry.get_or_insert(Hurry { since: now, taken, last: now });
        if taken > hurry.taken {
            (hurry.taken, hurry.last) = (taken, now);
        }
        now >= hurry.last + SHORT_TIMEOUT || now >= hurry.since + HURRIED_TIMEOUT
    }

    /// Which timeout has come to its end, if one has, when so much is named.
    fn is_late(&mut self, now: Instant, named: usize, is_unreadable: bool) -> Option<Duration> {
        if named > self.named {
            (self.named, self.last) = (named, now);
        }
        let timeout = if is_unreadable { SHORT_TIMEOUT } else { QUIET_TIMEOUT };
        let quiet = (now >= self.last + timeout).then_some(timeout);
        quiet.or((now >= self.asked + STOP_TIMEOUT).then_some(STOP_TIMEOUT))
    }
}

/// Starts the runtime's session and creates the spool; also returns the time that took, nanoseconds.
fn open(process: &Process, output: &Destination) -> Result<(EventPipeSession, StreamSpool, u64), Failure> {
    let space = check_address_space(process);
    if space.has_failed() {
        return Err(Failure::precondition(process, space));
    }
    let provider = |wanted: providers::Wanted| Provider {
        name: wanted.name.to_owned(),
        keywords: wanted.keywords,
        level: wanted.level,
        filter: String::new(),
    };
    let config = EventPipeConfig {
        buffer_mebibytes: BUFFER,
        rundown: Rundown::Default,
        stacks: Stacks::Walked,
        providers: providers::WANTED.into_iter().map(provider).collect(),
    };
    let spool = StreamSpool::create(output)?;
    let asked = Instant::now();
    match EventPipeSession::start(process, &config) {
        Ok(session) => Ok((session, spool, nanoseconds(asked.elapsed()))),
        Err(error) => {
            spool.discard();
            Err(error.into())
        }
    }
}

/// The stream has thread ids only; the system has the names of threads that are still alive.
fn name_threads(profile: &mut Profile, process: &Process) {
    if process.namespaced_pid != process.pid {
        return;
    }
    // By the threads that there are: the stream can claim any number.
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", process.pid)) else { return };
    let names: HashMap<u32, String> = tasks
        .flatten()
        .filter_map(|task| {
            let name = std::fs::read(task.path().join("comm")).ok()?;
            let id = task.file_name().to_str()?.parse().ok()?;
            Some((id, String::from_utf8_lossy(&name).trim_end().to_owned()))
        })
        .collect();
    for index in 0..profile.threads().len() {
        let thread = profile.thread_mut(ThreadIx(index as u32));
        thread.name = names.get(&thread.id).cloned().unwrap_or_default();
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_session_is_waited_for_as_long_as_something_is_named_and_not_for_ever() {
        let asked = Instant::now();
        let after = |seconds| asked + Duration::from_secs(seconds);
        let mut end = End::new(asked, 7);
        assert_eq!(end.is_late(after(14), 7, false), None);
        assert_eq!(end.is_late(after(14), 8, false), None);
        assert_eq!(end.is_late(after(28), 8, false), None, "another one was named");
        assert_eq!(end.is_late(after(29), 8, false), Some(QUIET_TIMEOUT));
        assert_eq!(end.is_late(after(59), 9, false), None);
        assert_eq!(end.is_late(after(60), 10, false), Some(STOP_TIMEOUT), "whatever is named");
        let mut end = End::new(asked, 7);
        assert_eq!(end.is_late(after(1), 7, true), Some(SHORT_TIMEOUT), "nothing more can be named");
    }

    #[test]
    fn regression_the_first_ctrl_c_after_the_end_of_the_time_took_the_names() {
        let asked = Instant::now();
        let after = |milliseconds| asked + Duration::from_millis(milliseconds);
        let mut end = End::new(asked, 0);
        assert!(!end.is_interrupted(after(5000), 7, false), "nobody is in a hurry");
        assert!(!end.is_interrupted(after(5000), 7, true), "the end is under way");
        assert!(!end.is_interrupted(after(5900), 8, true), "something came");
        assert!(!end.is_interrupted(after(6800), 8, true), "a moment ago");
        assert!(end.is_interrupted(after(6900), 8, true), "nothing more comes");
    }

    /// A runtime that sent ever more kept the command for a minute.
    #[test]
    fn regression_ctrl_c_was_without_effect_as_long_as_anything_came() {
        let asked = Instant::now();
        let mut end = End::new(asked, 0);
        let mut comes =
            |second: u64| end.is_interrupted(asked + Duration::from_secs(second) / 2, second as usize, true);
        assert_eq!((2..100).find(|half| comes(*half)), Some(12), "five seconds after the signal");
    }
}
