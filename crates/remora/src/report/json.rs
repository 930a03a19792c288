//! The report as JSON. A field keeps its name and meaning; new ones may be added.

use super::application::ApplicationJson;
use super::exceptions::ExceptionsJson;
use super::method::Method;
use crate::console::Page;
use remora_profile::{ApplicationRule, ApplicationTime, Profile, Summary, ThreadIx};
use remora_recording::Recording;
use serde::Serialize;

/// The document.
#[derive(Debug, Serialize)]
struct Report<'a> {
    complete: bool,
    unknown_chunks: u64,
    #[serde(flatten)]
    summed: Summed<'a>,
    exceptions: Option<ExceptionsJson<'a>>,
    parts: Vec<Part<'a>>,
}

/// A recording's summary; `record --json` prints the same.
#[derive(Debug, Serialize)]
pub(crate) struct Summed<'a> {
    application: &'a str,
    process_id: u32,
    runtime: &'a str,
    command_line: &'a str,
    event: &'static str,
    engine: &'a str,
    frequency: u32,
    started_unix_nanoseconds: u64,
    duration_nanoseconds: u64,
    target_cpu_nanoseconds: Option<u64>,
    samples: usize,
    weight_nanoseconds: u64,
    loss: Account,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct Account {
    taken: u64,
    delivered: u64,
    lost: Vec<Lost>,
    truncated_stacks: u64,
    broken_stacks: u64,
    repaired_stacks: u64,
    incomplete_stacks: u64,
    repeated_stacks: u64,
    moved_on: u64,
    stray_signals: u64,
}

#[derive(Debug, Serialize)]
struct Lost {
    cause: &'static str,
    samples: u64,
}

/// The hottest methods of all threads, or of one.
#[derive(Debug, Serialize)]
pub(crate) struct Part<'a> {
    thread: Option<ThreadName<'a>>,
    samples: u64,
    weight_nanoseconds: u64,
    methods: Vec<Method<'a>>,
    application: ApplicationJson<'a>,
    threads: Vec<Share<'a>>,
}

#[derive(Debug, Serialize)]
struct ThreadName<'a> {
    id: u32,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct Share<'a> {
    #[serde(flatten)]
    thread: ThreadName<'a>,
    weight_nanoseconds: u64,
    waiting_nanoseconds: u64,
    samples: u64,
    /// Whether it ran work of the thread pool.
    pool: bool,
}

/// The whole report.
pub(super) fn render(
    recording: &Recording,
    summaries: &[(Option<ThreadIx>, Summary)],
    rule: &ApplicationRule,
    top: usize,
) -> Page {
    let profile = &recording.profile;
    let parts = summaries.iter().map(|(thread, summary)| Part::of(profile, *thread, summary, (rule, top))).collect();
    Page::json(&Report {
        complete: recording.complete,
        unknown_chunks: recording.unknown_chunks,
        summed: Summed::of(profile),
        exceptions: ExceptionsJson::of(profile, rule, top),
        parts,
    })
}

impl<'a> Summed<'a> {
    pub(crate) fn of(profile: &'a Profile) -> Summed<'a> {
        let (meta, loss) = (&profile.meta, &profile.loss);
        Summed {
            application: &meta.application,
            process_id: meta.process_id,
            runtime: &meta.runtime,
            command_line: &meta.command_line,
            event: meta.event.name(),
            engine: &meta.engine,
            frequency: meta.frequency,
            started_unix_nanoseconds: meta.started_unix_nanoseconds,
            duration_nanoseconds: meta.duration,
            target_cpu_nanoseconds: meta.target_cpu,
            samples: profile.samples().len(),
            weight_nanoseconds: profile.total_weight(),
            loss: Account {
                taken: loss.taken,
                delivered: loss.delivered,
                lost: loss.lost.iter().map(|&(cause, samples)| Lost { cause: cause.name(), samples }).collect(),
                truncated_stacks: loss.truncated_stacks,
                broken_stacks: loss.broken_stacks,
                repaired_stacks: loss.repaired_stacks,
                incomplete_stacks: loss.incomplete_stacks,
                repeated_stacks: loss.repeated_stacks,
                moved_on: loss.moved_on,
                stray_signals: loss.stray_signals,
            },
            notes: &meta.notes,
        }
    }
}

impl<'a> Part<'a> {
    pub(crate) fn of(
        profile: &'a Profile,
        thread: Option<ThreadIx>,
        summary: &Summary,
        (rule, top): (&'a ApplicationRule, usize),
    ) -> Part<'a> {
        let hottest = summary.methods.iter().take(top);
        let time = ApplicationTime::of(profile, rule, thread);
        Part {
            thread: thread.map(|thread| ThreadName::of(profile, thread)),
            samples: summary.samples,
            weight_nanoseconds: summary.total_weight,
            methods: hottest.map(|hot| Method::of(profile, hot)).collect(),
            application: ApplicationJson::of(profile, &time, rule, top),
            threads: summary
                .threads
                .iter()
                .map(|share| Share {
                    thread: ThreadName::of(profile, share.thread),
                    weight_nanoseconds: share.weight,
                    waiting_nanoseconds: share.blocked_weight,
                    samples: share.samples,
                    pool: time.pool.members.contains(&share.thread),
                })
                .collect(),
        }
    }
}

impl<'a> ThreadName<'a> {
    fn of(profile: &'a Profile, thread: ThreadIx) -> ThreadName<'a> {
        let thread = &profile.threads()[thread.0 as usize];
        ThreadName { id: thread.id, name: &thread.name }
    }
}
