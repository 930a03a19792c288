//! The recorder: it requests the attach, reads the transport, and detaches or dies when the seed says so.

use super::names::Names;
use crate::agent::Process;
use crate::runtime::AttachRequest;
use crate::schedule::{self, MILLISECOND, Random};
use corprof::{Guid, HResult};
use remora_wire::{CLSID_MAIN, CLSID_NOTIFICATION, Config, FromAgent, Sampling, Task, ToAgent};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The trigger's own time-out for an attach answer, not the runtime's.
const TIMEOUT: u64 = 5_000 * MILLISECOND;

/// The plan of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The kind of profiler.
    pub notification_only: bool,
    /// Duration of the recording, nanoseconds.
    pub records: u64,
    /// Whether it is killed instead of detaching.
    pub is_killed: bool,
    /// Whether it changes the sampling rate in the middle.
    pub changes_rate: bool,
}

impl Plan {
    /// Draws a plan from a seed.
    pub fn draw(random: &mut Random, notification_only: bool) -> Plan {
        Plan {
            notification_only,
            records: random.below(60) as u64 * MILLISECOND,
            is_killed: random.once_in(4),
            changes_rate: random.once_in(4),
        }
    }
}

/// The result of a recording.
#[derive(Default)]
pub struct RecordingResult {
    /// Whether it has ended.
    pub ended: AtomicBool,
    /// The runtime's answer, if the recorder waited for it.
    pub answer: Mutex<Option<HResult>>,
    /// The symbols of the samples.
    pub names: Mutex<Names>,
}

/// Starts the recorder.
pub fn start(process: &Arc<Process>, plan: Plan) -> Arc<RecordingResult> {
    let recorded = Arc::new(RecordingResult::default());
    let (process, result) = (process.clone(), recorded.clone());
    schedule::spawn("the recording process", move || {
        run(&process, plan, &result);
        result.ended.store(true, Ordering::SeqCst);
    });
    recorded
}

fn run(process: &Arc<Process>, plan: Plan, recorded: &Arc<RecordingResult>) {
    let answer = process.runtime.ask_for_attach(request(process, plan.notification_only));
    if plan.is_killed && plan.records < 2 * MILLISECOND {
        schedule::point();
        schedule::note("The recording process is killed", 0);
        return process.link.kill();
    }
    let answered = schedule::wait_until(Some(TIMEOUT), || answer.get().is_some() || process.runtime.is_exiting());
    *recorded.answer.lock().expect("no panic while locked") = answer.get();
    if !answered || !answer.get().is_some_and(HResult::is_success) {
        return process.link.kill();
    }
    process.link.say(ToAgent::Begin);
    read_until(process, recorded, plan.records / 2, || false);
    if plan.changes_rate {
        process.link.say(ToAgent::SetFrequency(99));
    }
    read_until(process, recorded, plan.records / 2, || false);
    if plan.is_killed {
        schedule::note("The recording process is killed", 0);
        return process.link.kill();
    }
    schedule::note("The recording process asks for the detach", 0);
    process.link.say(ToAgent::Detach);
    let is_over = |said: &FromAgent| {
        matches!(said, FromAgent::Detached | FromAgent::Inert { .. } | FromAgent::DetachRefused { .. })
    };
    read_until(process, recorded, TIMEOUT, || process.link.has_said(is_over));
    process.link.kill();
}

/// Reads the transport for this time, or until `is_over`.
fn read_until(process: &Process, recorded: &RecordingResult, nanoseconds: u64, is_over: impl Fn() -> bool) {
    let end = schedule::now() + nanoseconds;
    while schedule::now() < end && !is_over() && !process.runtime.is_exiting() && !schedule::is_stopped() {
        schedule::wait_until(Some((end - schedule::now()).min(MILLISECOND)), &is_over);
        read(process, recorded);
    }
}

/// Reads all messages in the transport.
pub fn read(process: &Process, recorded: &RecordingResult) {
    while let Some(words) = process.link.transport.pop() {
        recorded.names.lock().expect("no panic while locked").take(process, &words);
    }
}

fn request(process: &Process, notification_only: bool) -> AttachRequest {
    let (data1, data2, data3, data4) = if notification_only { CLSID_NOTIFICATION } else { CLSID_MAIN };
    let config = Config {
        nonce: [0; 16],
        socket_path: "/tmp/remora".into(),
        task: Task::CpuSampling(Sampling { frequency: 99, signal_budget: 1000 }),
    };
    AttachRequest {
        class: Guid { data1, data2, data3, data4 },
        library: Some(process.library.clone()),
        client_data: config.encode(),
    }
}
