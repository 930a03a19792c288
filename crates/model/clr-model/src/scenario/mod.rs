//! One schedule of a whole recording: a program runs; the agent attaches, records and detaches; faults occur at any instant.

mod names;
mod other;
mod recording;

pub use recording::{Plan, RecordingResult};

use crate::agent::{AgentLibrary, Link, Process, Sampler, SystemFaults, enter_process};
use crate::application;
use crate::differences::RuntimeVersion;
use crate::faults::{Faults, Finding};
use crate::library::Library;
use crate::runtime::{GcMode, Runtime, Status};
use crate::schedule::{self, Chooser, End, Random, Schedule, Task, Timeline};
use remora_session::fault_injection::{InjectedFault, inject};
use remora_wire::{FromAgent, layout};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Limit for the agent's detach after the last other activity, nanoseconds of virtual time: the runtime's longest sleeps plus the agent's
/// longest waits.
const TIMEOUT: u64 = 1_300_000_000_000;

/// The Core versions that seeds draw from, oldest first. The last one, .NET 11, differs from 10 only before a profiler is loaded.
const EXPLORED: usize = 5;

/// The settings shared by every schedule of an exploration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScheduleSetting {
    /// The runtime version; drawn from the seed if none is given.
    pub runtime_version: Option<RuntimeVersion>,
    /// The injected fault of the agent.
    pub fault: Option<InjectedFault>,
    /// Whether to keep the lines of the timeline.
    pub records: bool,
    /// Whether the world is small, for walks over all schedules.
    pub small: bool,
}

/// The result of one schedule.
#[derive(Debug)]
pub struct Outcome {
    /// The broken clauses.
    pub findings: Vec<Finding>,
    /// The schedule itself.
    pub ran: Schedule,
    /// Coverage, for the summary of an exploration.
    pub reached: Coverage,
}

impl Outcome {
    /// The parts that must be equal when the same schedule runs again.
    pub fn trace(&self) -> (u64, &[u16], u64, &[Finding]) {
        (self.ran.timeline.hash(), &self.ran.choices, self.ran.time, &self.findings)
    }
}

/// The reached states. An exploration that never reaches a state proves nothing about it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The agent was detached and unmapped.
    pub detached: u64,
    /// It stayed, inert, and reported it.
    pub inert: u64,
    /// The process exited in the middle.
    pub exited: u64,
    /// The attach was refused.
    pub refused: u64,
    /// Delivered samples.
    pub samples: u64,
    /// Frames with a correct name.
    pub named: u64,
}

impl Coverage {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Coverage) -> Coverage {
        Coverage {
            detached: self.detached + other.detached,
            inert: self.inert + other.inert,
            exited: self.exited + other.exited,
            refused: self.refused + other.refused,
            samples: self.samples + other.samples,
            named: self.named + other.named,
        }
    }
}

/// Runs one schedule: `seed` decides the events, `chooser` their order.
pub fn run(seed: u64, chooser: Chooser, setting: ScheduleSetting) -> Outcome {
    let faults = Arc::new(Faults::default());
    let reached = Rc::new(RefCell::new(Coverage::default()));
    let timeline = if setting.records { Timeline::recording() } else { Timeline::default() };
    inject(setting.fault);
    let (of_world, of_director) = (faults.clone(), reached.clone());
    let ran = schedule::run(chooser, timeline, move || direct(seed, setting, &of_world, &of_director));
    enter_process(None);
    inject(None);
    let mut findings = faults.findings();
    findings.extend(of_end(&ran.end, ran.time));
    let reached = *reached.borrow();
    Outcome { findings, ran, reached }
}

fn of_end(end: &End, time: u64) -> Option<Finding> {
    let (clause, what) = match end {
        End::Complete => return None,
        End::Stuck(who) => ("DET-16", format!("nothing can go on any more: {}", who.join(", "))),
        End::Endless => ("DET-16", "it goes on for ever".into()),
        End::Panicked(words) => ("W4", format!("a panic that nobody catches: {words}")),
    };
    Some(Finding { clause, what, time })
}

/// The world's first thread: sets everything up, waits for the end, and checks.
fn direct(seed: u64, setting: ScheduleSetting, faults: &Arc<Faults>, reached: &Rc<RefCell<Coverage>>) {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let runtime_version = setting.runtime_version.unwrap_or_else(|| RuntimeVersion::ALL[1 + random.below(EXPLORED)]);
    let runtime = Runtime::start(runtime_version, faults.clone());
    let modes = [GcMode::Blocking, GcMode::Concurrent, GcMode::Concurrent, GcMode::Server];
    runtime.set_gc_mode(modes[random.below(modes.len())]);
    let process = Arc::new(Process {
        library: Library::new(AgentLibrary, faults.clone()),
        link: Arc::new(Link::new(4 + random.below(60))),
        sampler: Arc::new(Sampler::new([12, 100][random.below(2)])),
        system_faults: SystemFaults {
            threads_end_slowly: random.once_in(4),
            a_timer_stays: random.once_in(32),
            the_first_wake_is_slow: random.once_in(8),
        },
        runtime,
    });
    enter_process(Some(process.clone()));
    let (threads, steps) = if setting.small { (1, 2) } else { (1 + random.below(3), 4 + random.below(12)) };
    let of_threads = process.clone();
    let interrupt: application::Interrupt = Arc::new(move || of_threads.sampler.interrupt(&of_threads));
    let application = application::start(&process.runtime, &interrupt, &mut random, (threads, steps));
    let can_be_notified = runtime_version.differences().notification_profilers;
    let notification_only = can_be_notified && random.below(4) > 0;
    let plan = Plan::draw(&mut random, notification_only);
    let other = (!setting.small && random.once_in(4)).then(|| other::start(&process.runtime, faults, &mut random));
    let recorded = recording::start(&process, plan);
    let exits = !setting.small && random.once_in(6);
    if exits {
        schedule::sleep(random.below(60) as u64 * 1_000_000);
        // A program ends on a thread that the runtime knows, which is counted during Shutdown. If a process ends otherwise, the runtime
        // notifies no profiler (`fIsDllUnloading` in ceemain.cpp).
        process.runtime.begin_thread();
        process.runtime.exit();
    }
    wait_for_the_end(&process, &application, &recorded, other);
    check(&process, &recorded, reached);
    schedule::stop();
}

fn wait_for_the_end(process: &Process, application: &[Task], recorded: &RecordingResult, other: Option<Task>) {
    let others_done = || recorded.ended.load(Ordering::SeqCst) && other.is_none_or(schedule::has_ended);
    let application_done = || application.iter().all(|task| schedule::has_ended(*task));
    schedule::wait_until(Some(TIMEOUT), || {
        process.runtime.is_exiting() || (others_done() && application_done() && !process.runtime.is_attaching())
    });
    if process.runtime.is_exiting() {
        schedule::sleep(1_000_000_000);
        return;
    }
    schedule::wait_until(Some(TIMEOUT), || {
        agents(process).all(|agent| agent.status() == Status::Gone) && !process.library.is_mapped()
    });
    // The agent's threads may still run their last instructions.
    schedule::sleep(1_000_000_000);
}

/// The agent's own attach, if it succeeded so far.
fn agents(process: &Process) -> impl Iterator<Item = Arc<crate::runtime::Profiler>> {
    let library = process.library.clone();
    process.runtime.remembered().into_iter().filter(move |profiler| Arc::ptr_eq(&profiler.library, &library))
}

fn check(process: &Process, recorded: &RecordingResult, reached: &Rc<RefCell<Coverage>>) {
    let mut reached = reached.borrow_mut();
    recording::read(process, recorded);
    let names = recorded.names.lock().expect("no panic while locked");
    (reached.samples, reached.named) = (names.samples, names.named);
    drop(names);
    if process.runtime.is_exiting() {
        reached.exited = 1;
        return;
    }
    let Some(agent) = agents(process).next() else {
        reached.refused = 1;
        return;
    };
    let faults = &process.runtime.faults;
    match agent.status() {
        Status::Gone => {
            reached.detached = 1;
            check_detached(process, &agent, faults);
        }
        _ => check_inert(process, &agent, faults, &mut reached),
    }
    // A timer that cannot be deleted continues: its samples after the recording are not counted.
    if !process.system_faults.a_timer_stays {
        check_losses(process, faults);
    }
}

fn check_detached(process: &Process, agent: &crate::runtime::Profiler, faults: &Faults) {
    if agent.record().attach_completes > 0 && agent.record().detach_succeededs != 1 {
        faults.report("DET-10", format!("ProfilerDetachSucceeded came {} times", agent.record().detach_succeededs));
    }
    // A refused attach of another profiler may leak that profiler's library. Nothing else holds this one.
    if process.library.is_mapped() {
        faults.report("DET-14", "the profiler is gone and its library is still mapped");
    }
    if process.library.open_entrances() > 0 {
        faults.report("DET-04", "a way into the library is still open");
    }
    if process.runtime.enumerators.count() > 0 {
        faults.report("DET-14", "an enumerator of the runtime's was never released");
    }
}

/// An agent may stay only if the runtime would not survive its detach.
fn check_inert(process: &Process, agent: &crate::runtime::Profiler, faults: &Faults, reached: &mut Coverage) {
    let timer_stays = process.system_faults.a_timer_stays && process.library.open_entrances() > 0;
    let is_lost = process.runtime.has_lost_track() || agent.record().attach_completes == 0 || timer_stays;
    if !is_lost && !process.link.has_said(|said| matches!(said, FromAgent::Inert { .. })) {
        faults.report("DET-16", "the agent is still attached although nobody uses it any more");
        return;
    }
    if !is_lost {
        faults.report("DET-12", "the agent stays although it could have been detached");
    }
    if agent.mask() != (0, 0) && agent.record().attach_completes > 0 {
        faults.report("DET-18", "an agent that stays still asks for callbacks");
    }
    if process.library.open_entrances() > 0 && !timer_stays {
        faults.report("DET-18", "an agent that stays has left a way into its library open");
    }
    reached.inert = 1;
}

/// Samples are delivered or counted as lost (the receipt's first line).
fn check_losses(process: &Process, faults: &Faults) {
    let (taken, lost) = process.sampler.taken_and_lost();
    let sent = process.link.counter(layout::SENT);
    let refused = process.link.counter(layout::LOST_TRANSPORT_FULL);
    if taken != lost + sent + refused {
        faults.report("LOSS", format!("{taken} samples were taken, {sent} sent, {} counted as lost", lost + refused));
    }
}
