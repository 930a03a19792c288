//! Known problems in words, and as JSON.

use super::hint::{hints, hints_of_time};
use super::method::{Method, name, place, short, without_parameters};
use crate::console::{Page, line, percent};
use remora_profile::{
    ApplicationRule, ApplicationTime, BlockedTime, COLLECT, Event, Finding, FrameIx, Problem, Profile, Wait, WaitPlace,
};
use remora_terminal::duration::show;
use serde::Serialize;
use std::collections::HashSet;

/// Methods named that may hold a lock.
const HOLDERS: usize = 3;

/// A paragraph for each problem, then for each hint that the times give.
pub(crate) fn text(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule) -> Page {
    let problems = all(profile, time).into_iter().map(|words| line(format!("problem: {words}")));
    problems.chain(hints_of_time(profile, time, rule).into_iter().map(|words| line(format!("hint: {words}")))).sum()
}

/// The problems of a whole recording and the hints, for its page.
pub(crate) fn advice(profile: &Profile, rule: &ApplicationRule) -> Vec<String> {
    let time = ApplicationTime::of(profile, rule, None);
    let problems = all(profile, &time).into_iter().map(|words| format!("Problem: {words}"));
    problems.chain(hints(profile, &time, rule).into_iter().map(|words| format!("Hint: {words}"))).collect()
}

fn all(profile: &Profile, time: &ApplicationTime) -> Vec<String> {
    Finding::all(profile, time).iter().map(|finding| words(profile, time, finding)).collect()
}

fn words(profile: &Profile, time: &ApplicationTime, finding: &Finding) -> String {
    let place = finding.frame.map(|frame| method(profile, frame));
    let callee = finding.callee.map(|frame| short(name(profile, frame)));
    let method = place.clone().unwrap_or_default();
    let Finding { threads, extent, .. } = finding;
    let part = format!("{:.0}%", extent * 100.0);
    match finding.problem {
        Problem::SyncOverAsync => format!(
            "sync over async. {threads} pool threads wait for tasks {}, {}: {part} of the pool's time{}. Use await \
             there, not Result, Wait or GetResult.",
            places(profile, finding),
            show(finding.weight),
            grew(time)
        ),
        Problem::PoolStarvation => format!(
            "thread-pool starvation. The pool's {threads} threads are blocked for {part} of their time. Most wait for: \
             {}, {}{}.",
            finding.wait.map(Wait::code).unwrap_or_default(),
            places(profile, finding),
            grew(time)
        ),
        Problem::LockConvoy => {
            let lock = if finding.wait == Some(Wait::RwLock) { "reader-writer lock" } else { "lock" };
            let (lock, held) = match is_one_place(finding) {
                true => (format!("a {lock}"), "it"),
                false => (format!("{lock}s"), "them"),
            };
            let places = places(profile, finding);
            let holders = holders(profile, time, finding);
            format!(
                "lock convoy. On average, {extent:.1} threads wait for {lock} {places}; {threads} did at some time. Do \
                 less while holding {held}.{holders}"
            )
        }
        Problem::Exceptions => format!(
            "exceptions. At least {part} of the CPU time goes to throwing and catching them, mostly from {method}. \
             Test for the case first, for example with TryParse."
        ),
        Problem::GarbageCollection => {
            format!("garbage collection. At least {part} of the CPU time goes to it{}", allocators(profile, finding))
        }
        Problem::Jit => format!(
            "JIT. {part} of the CPU time compiles methods, throughout the recording, most of them for {} in {method}. A \
             compiled Regex or expression that is made again and again does that: make it once and keep it.",
            callee.unwrap_or("the runtime")
        ),
        Problem::CpuShortage => {
            let place = place.map(|place| format!("of application methods mostly {place}"));
            let place = place.unwrap_or_else(|| format!("mostly in {}", without_method(callee)));
            cpu_shortage(profile, time, finding, &place)
        }
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

/// Who may hold the lock: methods that wait for it, and for something else, too. A place in a convoy only shows who waits.
fn holders(profile: &Profile, time: &ApplicationTime, finding: &Finding) -> String {
    let method_of = |row: &BlockedTime| row.frame.map(|frame| without_parameters(name(profile, frame)));
    let of_lock: HashSet<&str> =
        time.blocked.iter().filter(|row| Some(row.wait) == finding.wait).filter_map(method_of).collect();
    let is_other = |row: &&BlockedTime| !row.is_idle && !row.wait.is_for_lock() && row.wait != Wait::Cpu;
    let may_hold = |row: &&BlockedTime| method_of(row).is_some_and(|method| of_lock.contains(method));
    let rows = time.blocked.iter().filter(is_other).filter(may_hold).take(HOLDERS);
    let shown = rows.filter_map(|row| Some(format!("{} waits for {}", method(profile, row.frame?), row.wait.code())));
    match shown.collect::<Vec<_>>() {
        shown if shown.is_empty() => String::new(),
        shown => format!(" Perhaps with a lock held: {}.", shown.join(", ")),
    }
}

/// Nine tenths are at the first place.
pub(super) fn is_one_place(finding: &Finding) -> bool {
    finding.places.first().is_some_and(|place| place.weight / 9 >= finding.weight / 10)
}

/// `in Orders.Price (Orders.cs:42)`, or the largest of several places.
fn places(profile: &Profile, finding: &Finding) -> String {
    let place = |place: &WaitPlace| {
        let method = place.frame.map(|frame| method(profile, frame));
        method.unwrap_or_else(|| without_method(place.via.map(|via| short(name(profile, via)))))
    };
    if is_one_place(finding) {
        return finding.places.first().map(|first| format!("in {}", place(first))).unwrap_or_default();
    }
    let with_part = |at: &WaitPlace| format!("{} in {}", percent(at.weight, finding.weight), place(at));
    let shown: Vec<String> = finding.places.iter().map(with_part).collect();
    format!("at {} places ({})", finding.place_count, shown.join(", "))
}

fn grew(time: &ApplicationTime) -> String {
    let (before, after) = (time.pool.threads_at_first, time.pool.members.len());
    match after > before {
        true => format!("; the pool grew from {before} to {after} threads"),
        false => String::new(),
    }
}

fn cpu_shortage(profile: &Profile, time: &ApplicationTime, finding: &Finding, place: &str) -> String {
    let Finding { extent, weight, .. } = finding;
    let duration = profile.meta.duration;
    let used = profile.meta.target_cpu.unwrap_or(time.running);
    format!(
        "CPU shortage. On average, {:.1} threads waited for a CPU, {:.0}% of the time in which they could run, {place}. \
         The process used {} of a CPU: the machine is busy, the container's limit is reached, or the program has more busy threads than CPUs.",
        if duration == 0 { 0.0 } else { *weight as f64 / duration as f64 },
        extent * 100.0,
        percent(used, duration)
    )
}

/// Who allocates, or how to find out.
fn allocators(profile: &Profile, finding: &Finding) -> String {
    match (finding.frame, finding.callee) {
        // Where the JIT inlines GC.Collect, the stack is that of an allocation.
        (Some(frame), None) => {
            format!(", mostly for {}. Allocate less there, and do not call GC.Collect.", method(profile, frame))
        }
        (Some(frame), Some(callee)) if name(profile, callee).starts_with(COLLECT) => {
            format!(": {} calls GC.Collect. Remove that call.", method(profile, frame))
        }
        (Some(frame), Some(_)) => format!(
            ". No stack shows who allocates. Look first at {}: it spends most time in the runtime's own code, as \
             allocations do.",
            method(profile, frame)
        ),
        (None, _) => format!(
            ". No stack shows who allocates. On .NET 9 and later, `remora heap -p {} --no-gc` shows the types of the \
             garbage.",
            profile.meta.process_id
        ),
    }
}

fn without_method(callee: Option<&str>) -> String {
    format!("{}, without an application method", callee.unwrap_or("the runtime"))
}

/// `Orders.Price (Orders.cs:42)`.
pub(super) fn method(profile: &Profile, frame: FrameIx) -> String {
    let (name, place) = (without_parameters(name(profile, frame)), place(profile, frame));
    if place.is_empty() { name.to_owned() } else { format!("{name} ({place})") }
}

/// A problem as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct FindingJson<'a> {
    problem: &'static str,
    method: Option<&'a str>,
    /// What the method calls; without a method, what the threads run.
    callee: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    wait: Option<&'static str>,
    threads: usize,
    nanoseconds: u64,
    /// Of waits: the places with most of it.
    places: Vec<PlaceJson<'a>>,
    /// The number of all places.
    place_count: usize,
    /// Threads that wait at a time, or a part of the time of the pool or of the CPU.
    extent: f64,
}

/// A place where threads wait, as JSON.
#[derive(Debug, Serialize)]
struct PlaceJson<'a> {
    method: Option<&'a str>,
    /// Without a method: what the threads run.
    via: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    nanoseconds: u64,
}

impl<'a> PlaceJson<'a> {
    fn of(profile: &'a Profile, place: &WaitPlace) -> PlaceJson<'a> {
        let method = place.frame.map(|frame| Method::at(profile, frame));
        PlaceJson {
            method: method.as_ref().map(|method| method.name),
            via: place.via.map(|frame| name(profile, frame)),
            file: method.as_ref().and_then(|method| method.file),
            line: method.and_then(|method| method.line),
            nanoseconds: place.weight,
        }
    }
}

impl<'a> FindingJson<'a> {
    pub(crate) fn all(profile: &'a Profile, time: &ApplicationTime) -> Vec<FindingJson<'a>> {
        let json = |finding: Finding| {
            let method = finding.frame.map(|frame| Method::at(profile, frame));
            FindingJson {
                problem: finding.problem.code(),
                method: method.as_ref().map(|method| method.name),
                callee: finding.callee.map(|frame| name(profile, frame)),
                file: method.as_ref().and_then(|method| method.file),
                line: method.and_then(|method| method.line),
                wait: finding.wait.map(Wait::code),
                threads: finding.threads,
                nanoseconds: finding.weight,
                places: finding.places.iter().map(|place| PlaceJson::of(profile, place)).collect(),
                place_count: finding.place_count,
                extent: finding.extent,
            }
        };
        Finding::all(profile, time).into_iter().map(json).collect()
    }
}
