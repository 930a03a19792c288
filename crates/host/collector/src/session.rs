//! One recording by the agent: attach, collect, detach.

use crate::account;
use crate::agent_error::words;
use crate::assembler::{Assembler, MOST_TIME};
use crate::attach::{Started, monotonic, shown_runtime};
use crate::attached_agent::AttachedAgent;
use crate::files::Files;
use crate::limits::{Allowance, MemoryLimit, keep_note};
use crate::names::Names;
use crate::profiler_count::attach_agent_with_callbacks;
use crate::rate;
use crate::scaling::scale;
use crate::shared_memory::SharedMemory;
use crate::symbol_files::NoSymbols;
use crate::unwinding::Unwinding;
use crate::{Error, NotAttached, Startup};
use remora_attach::{HResult, Process, TargetText};
use remora_profile::{Event, LossCause, Meta, Profile};
use remora_receipt::Facts;
use remora_wire::{Foreign, FromAgent, Sampling, Task, ToAgent, layout};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval between passes over the ring. The ring holds 25 times the maximum data of one interval, and each pass takes a CPU from the
/// target for a moment.
const INTERVAL: Duration = Duration::from_millis(40);

/// Pause when a detaching agent sends nothing.
const DETACH_INTERVAL: Duration = Duration::from_millis(5);

/// Signals and read stacks a second, at most, if all threads are sampled.
pub const WALL_BUDGET: u32 = 2_000;

/// The same if only threads on a CPU are sampled: the frequency times the number of CPUs, and at least this.
pub const CPU_BUDGET: u32 = 10_000;

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to sample.
    pub event: Event,
    /// Samples a second and thread.
    pub frequency: u32,
    /// Signals a second for the whole process; `None` for the default: [`CPU_BUDGET`] or [`WALL_BUDGET`].
    pub signal_budget: Option<u32>,
    /// Directories with symbols.
    pub symbols: Vec<PathBuf>,
    /// How long the attach may take.
    pub timeout: Duration,
}

/// Progress of a recording.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Samples in the profile.
    pub samples: u64,
    /// Samples taken but not in the profile (those still on their way excluded).
    pub lost: u64,
    /// Threads seen.
    pub threads: usize,
    /// Samples a second, over the whole recording.
    pub effective_rate: f64,
    /// CPUs that the target used since the last step; 1.0 is one busy CPU.
    pub target_cpu: Option<f64>,
    /// Why no more data arrives, if so.
    pub ended: Option<String>,
    /// Whether the cause is the memory limit of this process, not the target.
    pub is_cut: bool,
}

/// The result of a recording: the profile, and the facts for the receipt.
#[derive(Debug)]
pub struct Finished {
    /// The recording.
    pub profile: Profile,
    /// For the receipt.
    pub facts: Facts,
    /// Managed frames in all samples, and how many of them have a name.
    pub managed_frames: (u64, u64),
    /// The files of assemblies without lines, and why.
    pub without_lines: Vec<(String, NoSymbols)>,
    /// From the attach request to the first sample, nanoseconds.
    pub first_sample: Option<u64>,
    /// Whether the target ended, or replaced its program with `exec`, before the agent had detached.
    pub target_ended: bool,
    /// An error during the detach.
    pub failure: Option<Error>,
}

/// A recording in progress.
pub struct Session {
    agent: AttachedAgent,
    assembler: Assembler,
    unwinding: Unwinding,
    words: Foreign<Vec<u64>>,
    /// Whether the frequency was changed meanwhile: the real rate then has nothing to be compared with.
    frequency_changed: bool,
    /// The last answer about exceptions that was not taken yet.
    exceptions: Option<WatchesExceptions>,
}

/// The agent's answer to [`Session::watch_exceptions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchesExceptions {
    /// They are recorded from now on.
    On,
    /// They are not recorded any more.
    Off,
    /// The runtime refused the change, with this HRESULT.
    Refused(HResult),
}

impl Session {
    /// Places the library, attaches, and returns when the agent samples.
    ///
    /// # Errors
    /// [`NotAttached`]; its facts name everything that stays or is still unloading.
    pub fn attach(process: &Process, library: &[u8], options: &Options) -> Result<Session, NotAttached> {
        Session::of(process, options, |table| {
            attach_agent_with_callbacks(process, library, task(options), table, options.timeout)
        })
    }

    /// Places the library and a socket for a process that this one, `ourselves`, will start, and whose runtime loads the agent. `known` are
    /// the variables of that process's environment without [`Startup::variables`].
    ///
    /// # Errors
    /// Nothing stays.
    pub fn prepare(
        ourselves: &Process,
        library: &[u8],
        options: &Options,
        known: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Startup, Error> {
        Startup::prepare(ourselves, library, task(options), &[], known)
    }

    /// Begins to record the process of [`Startup::process`], before its first managed code.
    ///
    /// # Errors
    /// [`NotAttached`], as for [`Session::attach`].
    pub fn begin(process: &Process, startup: Startup, options: &Options) -> Result<Session, NotAttached> {
        let mut session = Session::of(process, options, |table| startup.begin(process, table))?;
        session.unwinding = session.unwinding.of_a_starting();
        Ok(session)
    }

    fn of(
        process: &Process,
        options: &Options,
        attach: impl FnOnce(Option<&OwnedFd>) -> Result<(AttachedAgent, Started), NotAttached>,
    ) -> Result<Session, NotAttached> {
        let mut files = Files::of(process.program().clone()).with_symbols(options.symbols.clone());
        let mut unwinding = Unwinding::of(files.for_another());
        let table = unwinding.prepare();
        let (mut agent, began) = attach(table.as_ref())?;
        let mut meta = meta(process, options, &began);
        meta.notes.extend(began.missed.map(|missed| {
            let missed = missed.as_millis();
            format!("remora was late: the program started without it, and its first {missed} ms are not recorded")
        }));
        files.refresh_maps();
        let assembler = Assembler::new(Profile::new(meta), Names::new(files), began.time);
        agent.limit = Some(MemoryLimit::quarter());
        Ok(Session {
            agent,
            assembler,
            unwinding,
            words: Foreign::default(),
            frequency_changed: false,
            exceptions: None,
        })
    }

    /// Takes new data, and waits at most `timeout`. Call it repeatedly while recording.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn step(&mut self, timeout: Duration) -> Result<Progress, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let took = self.drain();
            self.unwinding.step(&mut self.agent.control);
            self.listen();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.agent.reason_to_end().is_some() || left.is_zero() {
                return Ok(self.progress());
            }
            if took == 0 {
                // The ring sends no wakeups: the next pass finds its new data.
                self.agent.control.wait(left.min(INTERVAL).min(self.unwinding.rest()))?;
            }
        }
    }

    /// The recording so far.
    pub fn profile(&self) -> &Profile {
        &self.assembler.profile
    }

    /// Changes the frequency, hertz.
    pub fn set_frequency(&mut self, hertz: u32) {
        self.frequency_changed = true;
        self.agent.control.send(&ToAgent::SetFrequency(hertz));
    }

    /// Begins or ends to record thrown exceptions. [`Session::exceptions_answer`] has the effect.
    pub fn watch_exceptions(&mut self, watches: bool) {
        self.agent.control.send(&ToAgent::WatchExceptions(watches));
    }

    /// The agent's last answer to [`Session::watch_exceptions`], once.
    pub fn exceptions_answer(&mut self) -> Option<WatchesExceptions> {
        self.exceptions.take()
    }

    /// Stops sampling, detaches, waits until the library is unmapped, and closes the loss account. The wait is bounded, and short if the
    /// caller is in a hurry. An error on the way is part of the result, beside the profile and the facts about leftovers.
    pub fn detach(mut self, hurried: impl Fn() -> bool) -> Finished {
        let Session { agent, assembler, words, .. } = &mut self;
        assembler.profile.meta.duration = agent.begun.elapsed().as_nanos() as u64;
        assembler.profile.meta.target_cpu = agent.target.used();
        let mut notes = Vec::new();
        let failure = agent.leave(
            DETACH_INTERVAL,
            |memory| drain(memory, words, assembler),
            |message| keep_note(&mut notes, said(message)),
            hurried,
        );
        assembler.profile.meta.notes.append(&mut notes);
        self.finish(failure)
    }

    fn drain(&mut self) -> usize {
        if !self.agent.is_taken_from() {
            return 0;
        }
        drain(&mut self.agent.memory, &mut self.words, &mut self.assembler)
    }

    fn listen(&mut self) {
        let Session { agent, assembler, exceptions, .. } = self;
        let meta = &mut assembler.profile.meta;
        agent.listen(|message| match message {
            FromAgent::WatchesExceptions { watches, code } => {
                *exceptions = Some(answer(watches, code));
                if watches {
                    meta.exceptions.get_or_insert(0);
                }
            }
            message => keep_note(&mut meta.notes, said(message)),
        });
    }

    fn progress(&mut self) -> Progress {
        let loss = &self.assembler.profile.loss;
        let seconds = self.agent.begun.elapsed().as_secs_f64();
        Progress {
            samples: loss.delivered,
            lost: [layout::LOST_RING_FULL, layout::LOST_TRANSPORT_FULL, layout::LOST_THREAD_SILENT]
                .into_iter()
                // Only shown, and added with saturation.
                .map(|which| self.agent.memory.counter(which).unchecked())
                .fold(loss.total_lost(), u64::saturating_add),
            threads: self.assembler.profile.threads().len(),
            effective_rate: if seconds > 0.0 { loss.delivered as f64 / seconds } else { 0.0 },
            target_cpu: self.agent.target.used_since_last(),
            ended: self.agent.reason_to_end().map(str::to_owned),
            is_cut: self.agent.ended.is_none() && self.agent.cut.is_some(),
        }
    }

    fn finish(mut self, failure: Option<Error>) -> Finished {
        // Only shown, and added with saturation.
        let counter = |which| self.agent.memory.counter(which).unchecked();
        let used = self.assembler.used.take();
        let of_files = self.assembler.notes();
        let profile = &mut self.assembler.profile;
        // Ignore clocks whose values make no sense.
        let used = used.filter(|used| scale(profile, used, MOST_TIME));
        if let Some(used) = used.as_ref().filter(|used| used.is_last) {
            profile.meta.target_cpu = Some(used.process);
        }
        let early_end = match (self.agent.target_ended, self.agent.ended_before_its_time()) {
            (true, _) => Some(LossCause::TargetEnded),
            (false, cut) => cut.map(|_| LossCause::CutShort),
        };
        account::close(&mut profile.loss, counter, early_end);
        // Whatever the agent counts, those are there.
        let there = profile.thrown().len() as u64;
        profile.meta.exceptions = profile.meta.exceptions.map(|_| counter(layout::THROWN).max(there));
        let mut notes = account::notes(counter, self.agent.leaving.unwrap_or_default().early_unloads);
        if !self.frequency_changed {
            notes.extend(rate::notes(profile, counter));
        }
        notes.extend(match &used {
            Some(used) if !used.is_last => Some(account::read_early(profile, used)),
            Some(_) => None,
            None => (profile.loss.delivered > 0).then(|| account::NOT_SCALED.to_owned()),
        });
        notes.extend(used.and_then(|used| account::unsampled(profile, &used)));
        notes.extend(account::missed_runs(profile, counter(layout::RUNS_MISSED)));
        notes.extend(of_files);
        notes.extend(self.agent.ended_before_its_time().map(str::to_owned));
        profile.meta.notes.extend(notes);
        Finished {
            first_sample: self.assembler.first_sample.map(|time| time.saturating_sub(self.agent.requested)),
            managed_frames: self.assembler.managed_frames(counter(layout::FAILED_LOOKUPS)),
            without_lines: self.assembler.without_lines(),
            profile: self.assembler.profile,
            facts: self.agent.facts,
            target_ended: self.agent.target_ended,
            failure,
        }
    }
}

/// Takes the data of one pass, and returns the number of messages.
fn drain(memory: &mut SharedMemory, words: &mut Foreign<Vec<u64>>, assembler: &mut Assembler) -> usize {
    assembler.begin_pass(Instant::now());
    take(memory, words, assembler, memory.allowance(&Instant::now))
}

fn take(
    memory: &SharedMemory,
    words: &mut Foreign<Vec<u64>>,
    assembler: &mut Assembler,
    mut allowance: Allowance<'_>,
) -> usize {
    let mut took = 0;
    while memory.pop(words, &mut allowance) {
        assembler.take(words.all());
        took += 1;
    }
    took
}

fn answer(watches: bool, code: u32) -> WatchesExceptions {
    match (code, watches) {
        (0, true) => WatchesExceptions::On,
        (0, false) => WatchesExceptions::Off,
        (code, _) => WatchesExceptions::Refused(HResult(code)),
    }
}

/// A note, if the message is about a failure.
fn said(message: FromAgent) -> Option<String> {
    match message {
        FromAgent::Failed(error) => Some(words(error)),
        _ => None,
    }
}

fn task(options: &Options) -> Task {
    let sampling =
        |budget| Sampling { frequency: options.frequency, signal_budget: options.signal_budget.unwrap_or(budget) };
    match options.event {
        Event::Cpu => Task::CpuSampling(sampling(cpu_budget(options.frequency))),
        Event::Wall => Task::WallSampling(sampling(WALL_BUDGET)),
    }
}

fn cpu_budget(frequency: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    frequency.saturating_mul(processors).max(CPU_BUDGET)
}

fn meta(process: &Process, options: &Options, began: &Started) -> Meta {
    let since = monotonic().saturating_sub(began.time);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    Meta {
        event: options.event,
        engine: format!("agent ({})", began.engine),
        frequency: options.frequency,
        started_unix_nanoseconds: now.saturating_sub(since),
        process_id: process.pid,
        application: process.name().within(TargetText::LONGEST),
        command_line: process.command_text(),
        runtime: shown_runtime(process),
        ..Meta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LONGEST_PASS;
    use remora_ring::{HEADER_WORDS, Ring};
    use remora_wire::Message;
    use std::cell::Cell;

    #[test]
    fn expensive_records_end_a_look_by_its_time_and_the_others_come_with_the_next() {
        let memory = SharedMemory::new(false).expect("a memfd");
        let ring = Ring::new(memory.words_of(layout::messages(false, HEADER_WORDS))).expect("a ring");
        for time in 0..100 {
            let sample = Message::Sample { thread: 1, time, weight: 1, flags: 0, addresses: vec![time] }.encode();
            ring.push(&[&sample]).expect("room");
        }
        let mut assembler = Assembler::new(Profile::new(Meta::default()), Names::new(Files::of_ourselves()), 0);
        let (begun, looks) = (Instant::now(), Cell::new(0));
        // Each record takes a tenth of a pass.
        let clock = || {
            looks.set(looks.get() + 1);
            begun + LONGEST_PASS / 10 * (looks.get() - 1)
        };
        let mut words = Foreign::default();
        assert_eq!(take(&memory, &mut words, &mut assembler, memory.allowance(&clock)), 9);
        let still = || begun;
        assert_eq!(take(&memory, &mut words, &mut assembler, memory.allowance(&still)), 91);
        assert_eq!(assembler.profile.loss.delivered, 100, "nothing is lost");
    }
}
