//! Known problems in words, and as JSON.

use super::hint::hint;
use super::method::{Method, name, place, without_parameters};
use crate::console::{Page, line};
use remora_profile::{ApplicationRule, ApplicationTime, Event, Finding, FrameIx, PoolTime, Problem, Profile};
use remora_terminal::duration::show;
use serde::Serialize;

/// A paragraph for each problem.
pub(crate) fn text(profile: &Profile, time: &ApplicationTime) -> Page {
    all(profile, time).into_iter().map(|words| line(format!("problem: {words}"))).sum()
}

/// The problems of a whole recording and the hint, for its page.
pub(crate) fn advice(profile: &Profile, rule: &ApplicationRule) -> Vec<String> {
    let problems = all(profile, &ApplicationTime::of(profile, rule, None)).into_iter();
    let problems = problems.map(|words| format!("Problem: {words}"));
    problems.chain(hint(profile).map(|words| format!("Hint: {words}"))).collect()
}

fn all(profile: &Profile, time: &ApplicationTime) -> Vec<String> {
    Finding::all(profile, time).iter().map(|finding| words(profile, &time.pool, finding)).collect()
}

fn words(profile: &Profile, pool: &PoolTime, finding: &Finding) -> String {
    let method = finding.frame.map(|frame| method(profile, frame)).unwrap_or_default();
    let Finding { threads, extent, .. } = finding;
    let part = format!("{:.0}%", extent * 100.0);
    let (before, after) = (pool.threads_at_first, pool.members.len());
    let grew = match after > before {
        true => format!("; the pool grew from {before} to {after} threads"),
        false => String::new(),
    };
    match finding.problem {
        Problem::SyncOverAsync => format!(
            "sync over async. {threads} pool threads wait for tasks in {method}, {}: {part} of the pool's time{grew}. \
             Use await there, not Result, Wait or GetResult.",
            show(finding.weight)
        ),
        Problem::PoolStarvation => format!(
            "thread-pool starvation. The pool's {threads} threads are blocked for {part} of their time, mostly in \
             {method}, which waits for: {}{grew}.",
            finding.wait.map(remora_profile::Wait::code).unwrap_or_default()
        ),
        Problem::LockConvoy => {
            let all = profile.meta.duration.saturating_mul(*threads as u64);
            format!(
                "lock convoy. {threads} threads wait for the lock in {method}, {} of their {}. Do less while holding it.",
                show(finding.weight),
                show(all)
            )
        }
        Problem::Exceptions => format!(
            "exceptions. At least {part} of the CPU time goes to throwing and catching them, mostly from {method}. \
             Test for the case first, for example with TryParse."
        ),
        Problem::GarbageCollection => format!(
            "garbage collection. At least {part} of the CPU time goes to it{}. Allocate less there.",
            if method.is_empty() { String::new() } else { format!(", mostly in allocations of {method}") }
        ),
        Problem::CpuShortage => format!(
            "CPU shortage. Threads waited {} for a CPU, {part} of the time in which they could run: the machine is busy \
             with other work, or the container's limit is reached.",
            show(finding.weight)
        ),
        Problem::Spinning if finding.frame.is_none() => {
            let hint = match profile.meta.event {
                Event::Cpu => " -e wall shows what the program waits for.",
                Event::Wall => "",
            };
            format!("spinning. {part} of the CPU time goes to idle pool threads, which spin before they sleep.{hint}")
        }
        Problem::Spinning => {
            format!("spinning. {part} of the CPU time goes to loops that only wait, mostly in {method}.")
        }
    }
}

/// `Orders.Price (Orders.cs:42)`.
fn method(profile: &Profile, frame: FrameIx) -> String {
    let (name, place) = (without_parameters(name(profile, frame)), place(profile, frame));
    if place.is_empty() { name.to_owned() } else { format!("{name} ({place})") }
}

/// A problem as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FindingJson<'a> {
    problem: &'static str,
    method: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    wait: Option<&'static str>,
    threads: usize,
    nanoseconds: u64,
    /// Threads that wait at a time, or a part of the time of the pool or of the CPU.
    extent: f64,
}

impl<'a> FindingJson<'a> {
    pub(crate) fn all(profile: &'a Profile, time: &ApplicationTime) -> Vec<FindingJson<'a>> {
        let json = |finding: Finding| {
            let method = finding.frame.map(|frame| Method::at(profile, frame));
            FindingJson {
                problem: finding.problem.code(),
                method: method.as_ref().map(|method| method.name),
                file: method.as_ref().and_then(|method| method.file),
                line: method.and_then(|method| method.line),
                wait: finding.wait.map(remora_profile::Wait::code),
                threads: finding.threads,
                nanoseconds: finding.weight,
                extent: finding.extent,
            }
        };
        Finding::all(profile, time).into_iter().map(json).collect()
    }
}
