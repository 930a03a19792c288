//! Starts runs, several at a time, outlives them, and adds up what they found.

use super::child::{Order, clause_of_hang};
use super::clauses::{CLAUSES, Finding, Verdict};
use super::page::{Crash, Line, Page};
use crate::differences::Personality;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A run that takes longer hangs where it cannot see it itself: in a constructor of the library, say.
const LONGEST_RUN: Duration = Duration::from_secs(15);
/// Into so many waits it is divided.
const TURNS: u32 = 100;
/// How long the first run of each runtime waits for the profiler's wish to leave, and later ones if it came.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same of later runs if it did not come.
const SHORT_PATIENCE: Duration = Duration::from_millis(30);
/// Runs of a runtime that may hang; the rest is left out.
const MOST_HANGS: usize = 2;
/// Findings of one clause that are told; the rest says the same.
const MOST_OF_A_CLAUSE: usize = 8;
/// Runs at a time, for each processor: they mostly wait.
const RUNS_A_PROCESSOR: usize = 3;

/// What is to be judged, and how.
pub struct Laboratory<'a> {
    /// The profiler's library.
    pub library: String,
    /// Its class; any, where none is given.
    pub class: Option<u128>,
    /// What InitializeForAttach is handed; nothing, where none is given.
    pub client_data: Option<String>,
    /// The runtimes.
    pub personalities: Vec<Personality>,
    /// Schedules of each.
    pub seeds: u64,
    /// A command that does [`super::child::run`] with this order.
    pub command: &'a (dyn Fn(&str) -> Command + Sync),
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// A verdict for each clause, and for a broken one each way in which it was broken.
    pub findings: Vec<Finding>,
    /// Runs that were made.
    pub runs: u64,
    /// Runs that were left out, since too many of the same runtime had hung.
    pub left_out: u64,
    /// Why the laboratory could not judge, where it could not.
    pub failures: BTreeSet<String>,
}

impl Report {
    /// Whether anything was broken.
    pub fn has_broken(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Broken)
    }
}

/// One run, as it was seen from outside.
struct Ran {
    personality: Personality,
    seed: u64,
    lines: Vec<Line>,
    hung: bool,
    asked: bool,
}

impl Laboratory<'_> {
    /// Runs everything.
    pub fn run(&self) -> Report {
        let first: Vec<Order> = self.personalities.iter().map(|one| self.order(*one, 0, PATIENCE)).collect();
        let mut all = self.all(&first);
        let asked: BTreeMap<&str, bool> = all
            .iter()
            .filter_map(|ran| Some((name(ran.as_ref().ok()?.personality), ran.as_ref().ok()?.asked)))
            .collect();
        let later: Vec<Order> = (1..self.seeds)
            .flat_map(|seed| self.personalities.iter().map(move |one| (seed, *one)))
            .map(|(seed, one)| {
                let leaves = asked.get(name(one)).copied().unwrap_or(false);
                self.order(one, seed, if leaves { PATIENCE } else { SHORT_PATIENCE })
            })
            .collect();
        let wanted = (first.len() + later.len()) as u64;
        all.extend(self.all(&later));
        let mut report = add_up(&all);
        report.left_out = wanted - all.len() as u64;
        report
    }

    fn order(&self, personality: Personality, seed: u64, patience: Duration) -> Order {
        let (library, class, client_data) = (self.library.clone(), self.class, self.client_data.clone());
        Order { library, class, client_data, personality: name(personality).to_owned(), seed, patience }
    }

    /// Several at a time. What is missing was left out.
    fn all(&self, orders: &[Order]) -> Vec<Result<Ran, String>> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let hangs: Mutex<BTreeMap<String, usize>> = Mutex::default();
        let work = || {
            while let Some(order) = orders.get(next.fetch_add(1, Ordering::SeqCst)) {
                let hung = hangs.lock().expect("no panic while locked").get(&order.personality).copied();
                if hung.unwrap_or(0) >= MOST_HANGS {
                    continue;
                }
                let ran = self.one(order).map_err(|error| format!("a run could not be started: {error}"));
                if ran.as_ref().is_ok_and(|ran| ran.hung) {
                    *hangs.lock().expect("no panic while locked").entry(order.personality.clone()).or_default() += 1;
                }
                done.lock().expect("no panic while locked").push(ran);
            }
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..processors * RUNS_A_PROCESSOR {
                scope.spawn(work);
            }
        });
        done.into_inner().expect("no panic while locked")
    }

    fn one(&self, order: &Order) -> io::Result<Ran> {
        let page = Page::new()?;
        let words = serde_json::to_string(order).map_err(io::Error::other)?;
        let mut command = (self.command)(&words);
        command.stdin(page.for_run()?).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: what the profiler starts ends with the run.
        let mut child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let ended = wait(pid)?;
        // The run itself is not waited for yet, so that the group's number is still its own.
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.wait()?;
        let mut lines = page.lines();
        let is_done = lines.contains(&Line::Done);
        if !ended && is_done {
            let message = format!("the process did not end within {} seconds", LONGEST_RUN.as_secs());
            lines.push(Line::Broken { clause: "DET-17".into(), callback: None, message });
        } else if !ended {
            lines.extend(of_hang(&page));
        } else if !is_done || !status.success() {
            lines.extend(of_death(&page, status, is_done));
        }
        let hung = !ended
            || lines
                .iter()
                .any(|line| matches!(line, Line::Broken { message, .. } if message.contains("has not returned")));
        let asked = lines.contains(&Line::AskedForDetach);
        let personality = Personality::by_name(&order.personality).unwrap_or(Personality::Core8);
        Ok(Ran { personality, seed: order.seed, lines, hung, asked })
    }
}

fn name(personality: Personality) -> &'static str {
    personality.differences().name
}

/// Whether the process ended in time. Waited for in turns: while the whole machine stands, as one whose lid is shut, only one passes.
fn wait(pid: Pid) -> io::Result<bool> {
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let turn = Timespec { tv_sec: 0, tv_nsec: (LONGEST_RUN / TURNS).as_nanos() as i64 };
    for _ in 0..TURNS {
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&turn)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn of_hang(page: &Page) -> Vec<Line> {
    let seats = page.callbacks();
    let told = seats.into_iter().map(|(_, callback)| Line::Broken {
        clause: clause_of_hang(&callback).to_owned(),
        message: format!("{callback} has not returned: the run was ended after {} seconds", LONGEST_RUN.as_secs()),
        callback: Some(callback),
    });
    let told: Vec<Line> = told.collect();
    if told.is_empty() { vec![Line::Failed("a run did not come to its end".into())] } else { told }
}

/// A crash, or an exit that nobody asked for.
fn of_death(page: &Page, status: ExitStatus, is_done: bool) -> Option<Line> {
    let seats = page.callbacks();
    let callback = |seat: Option<usize>| {
        let known = seats.iter().find(|(known, _)| seat.is_none_or(|seat| *known == seat));
        known.map(|(_, callback)| callback.clone())
    };
    // A run in which a callback hangs ends itself so.
    if is_done && status.signal() == Some(Signal::KILL.as_raw()) {
        return None;
    }
    if let Some(signal) = status.signal() {
        let crash = page.crash();
        let seat = crash.map(|crash| crash.seat as usize % super::page::SEATS);
        let (clause, whence) = place(crash, is_done);
        let message = format!("the process crashed with {} {whence}", signal_name(signal));
        return Some(Line::Broken { clause: clause.into(), callback: callback(seat), message });
    }
    if is_done && status.success() {
        return None;
    }
    let code = status.code().unwrap_or_default();
    if seats.is_empty() && !is_done && page.lines().is_empty() {
        return Some(Line::Failed(format!("a run ended with status {code} before it began")));
    }
    let message = format!("the process was ended by the profiler, with status {code}");
    Some(Line::Broken { clause: "MOD-01".into(), callback: callback(None), message })
}

fn place(crash: Option<Crash>, is_done: bool) -> (&'static str, &'static str) {
    match crash {
        Some(Crash { place: Crash::IN_UNMAPPED_LIBRARY, asker: 1, .. }) => {
            ("DET-05", "in the thread that had asked for the detach: its library was unmapped under it")
        }
        Some(Crash { place: Crash::IN_UNMAPPED_LIBRARY, .. }) => {
            ("DET-04", "at an address of the library after it was unmapped: a way into it was still open")
        }
        _ if is_done => ("DET-17", "while it exited"),
        Some(Crash { place: Crash::IN_LIBRARY, .. }) => ("MOD-01", "in the profiler's own code"),
        _ => ("MOD-01", "in what the profiler called or had changed"),
    }
}

fn signal_name(signal: i32) -> String {
    let known =
        [(4, "SIGILL"), (5, "SIGTRAP"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV")];
    let name = known.iter().find(|(number, _)| *number == signal).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("signal {signal}"))
}

/// From runs to verdicts.
fn add_up(all: &[Result<Ran, String>]) -> Report {
    let mut report = Report::default();
    let mut exercised = BTreeSet::new();
    let mut notes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut broken: BTreeMap<(&str, Option<&str>, &str), (&'static str, u64)> = BTreeMap::new();
    for ran in all {
        let ran = match ran {
            Ok(ran) => ran,
            Err(words) => {
                report.failures.insert(words.clone());
                continue;
            }
        };
        report.runs += 1;
        for line in &ran.lines {
            match line {
                Line::Exercised(clause) => {
                    exercised.insert(clause.as_str());
                }
                Line::Broken { clause, callback, message } => {
                    let first = broken
                        .entry((clause, callback.as_deref(), message))
                        .or_insert((name(ran.personality), ran.seed));
                    if ran.seed < first.1 {
                        *first = (name(ran.personality), ran.seed);
                    }
                }
                Line::Note { clause, message } => {
                    notes.insert(clause, message);
                }
                Line::Failed(words) => {
                    report.failures.insert(words.clone());
                }
                Line::AskedForDetach | Line::Done => {}
            }
        }
    }
    let mut told = findings_of_broken(&broken);
    let rest = CLAUSES.iter().filter(|clause| !broken.keys().any(|key| key.0 == clause.id)).map(|clause| {
        let is_exercised = exercised.contains(clause.id);
        Finding {
            clause: clause.id.to_owned(),
            verdict: if is_exercised { Verdict::Honoured } else { Verdict::NotExercised },
            seed: None,
            personality: None,
            callback: None,
            message: if is_exercised {
                clause.honoured
            } else {
                notes.get(clause.id).copied().unwrap_or(clause.exercise)
            }
            .to_owned(),
        }
    });
    told.extend(rest);
    told.sort_by(|one, other| (&one.clause, one.seed).cmp(&(&other.clause, other.seed)));
    report.findings = told;
    report
}

fn findings_of_broken(broken: &BTreeMap<(&str, Option<&str>, &str), (&'static str, u64)>) -> Vec<Finding> {
    let mut told: Vec<Finding> = Vec::new();
    for ((clause, callback, message), (personality, seed)) in broken {
        if told.iter().filter(|known| known.clause == *clause).count() >= MOST_OF_A_CLAUSE {
            continue;
        }
        told.push(Finding {
            clause: (*clause).to_owned(),
            verdict: Verdict::Broken,
            seed: Some(*seed),
            personality: Some((*personality).to_owned()),
            callback: callback.map(str::to_owned),
            message: (*message).to_owned(),
        });
    }
    told
}
