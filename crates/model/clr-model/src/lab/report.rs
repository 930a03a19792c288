//! Sums up the findings of all runs: a verdict for each clause.

use super::clauses::{CLAUSES, CrashedRun, Finding, LoadMode, Observation, RefusedCall, Verdict};
use super::death::AFTER_SHUTDOWN;
use super::page::Line;
use crate::differences::RuntimeVersion;
use corprof::HResult;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum of reported findings for a clause; more would repeat them.
const MOST_OF_A_CLAUSE: usize = 8;

/// What is said of several events that are one.
const DIFFERS: &str = "; the name or number differs in each run";

/// The result of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// How the library was loaded.
    pub mode: LoadMode,
    /// A verdict for each clause; for a broken one, each way in which it was broken.
    pub findings: Vec<Finding>,
    /// The calls that the model answered with an error.
    pub refused: Vec<RefusedCall>,
    /// Whether the profiler was loaded, and did nothing in any run: no event mask, no call of Info that its work needs.
    pub did_nothing: bool,
    /// Runs made.
    pub runs: u64,
    /// Runs that could not be judged.
    pub unjudged: u64,
    /// Runs skipped after too many hangs of the same runtime.
    pub left_out: u64,
    /// What the profiler did that no clause is about.
    pub observations: Vec<Observation>,
    /// Why runs could not be checked.
    pub failures: BTreeSet<String>,
}

impl Report {
    /// Whether any clause was broken.
    pub fn has_broken(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Broken)
    }
}

/// One run, seen from outside.
pub struct RunResult {
    /// Its runtime.
    pub runtime_version: RuntimeVersion,
    /// Its schedule.
    pub seed: u64,
    /// The name of the profiler's file, as in its frames.
    pub library: String,
    /// What was found.
    pub lines: Vec<Line>,
    /// The number of these lines that the run wrote. The others say how it died.
    pub own_lines: usize,
    /// Whether it did not end by itself.
    pub hung: bool,
    /// Whether the profiler asked for its detach.
    pub asked: bool,
    /// Where it crashed, if it did, or where a callback hangs.
    pub backtrace: Vec<String>,
    /// The callback that hangs there.
    pub hung_in: Option<String>,
    /// The callbacks that ran when it died.
    pub running: Vec<String>,
    /// Whether it crashed in a callback after Shutdown had begun.
    pub after_shutdown: bool,
    /// The last lines of its standard error.
    pub stderr: String,
}

impl RunResult {
    fn origin(&self) -> Origin {
        (self.seed, self.runtime_version.differences().name)
    }
}

/// A run, by its seed and its runtime.
type Origin = (u64, &'static str);

/// An event: clause, callback and message.
type Event<'a> = (&'a str, Option<&'a str>, &'a str);

/// The runs with each event.
type Events<'a> = BTreeMap<Event<'a>, BTreeSet<Origin>>;

/// What the lines of all runs say.
#[derive(Default)]
struct Sums<'a> {
    exercised: BTreeSet<&'a str>,
    notes: BTreeMap<&'a str, &'a str>,
    unjudged: BTreeMap<&'a str, &'a str>,
    broken: Events<'a>,
    remarks: Events<'a>,
    refused: BTreeMap<(&'a str, u32), BTreeSet<Origin>>,
    seen: BTreeMap<&'a str, BTreeSet<Origin>>,
    preempted: BTreeMap<(&'a str, Origin), u64>,
    /// The runs that died of an event in a callback after Shutdown had begun.
    after_shutdown: Events<'a>,
    /// Events that are a hang.
    hangs: BTreeSet<Event<'a>>,
    /// The callbacks that ran in each run that died of an event whose thread is not known.
    beside: BTreeMap<Event<'a>, BTreeSet<&'a str>>,
    /// The first run that died of an event.
    deaths: BTreeMap<Event<'a>, &'a RunResult>,
    works: bool,
}

/// Turns runs into verdicts.
pub fn add_up(mode: LoadMode, all: &[Result<RunResult, String>]) -> Report {
    let failures = all.iter().filter_map(|ran| ran.as_ref().err().cloned()).collect();
    let mut report = Report { mode, failures, ..Report::default() };
    let mut sums = Sums::default();
    for ran in all.iter().flatten() {
        report.runs += 1;
        report.unjudged += u64::from(ran.lines.iter().any(|line| matches!(line, Line::Unjudged { .. })));
        report.failures.extend(ran.lines.iter().filter_map(|line| match line {
            Line::Failed(words) => Some(words.clone()),
            _ => None,
        }));
        sums.add(ran);
    }
    sums.join_ends_in_destructor();
    report.findings = sums.findings(mode);
    report.did_nothing = !sums.works && sums.exercised.contains(mode.clause_of_load());
    let call = |((call, code), runs): (&(&str, u32), &BTreeSet<Origin>)| RefusedCall {
        call: (*call).to_owned(),
        code: format!("{code:#010x}"),
        name: HResult(*code as i32).name(),
        runs: runs.len() as u64,
    };
    report.refused = sums.refused.iter().map(call).collect();
    let seen = sums.seen.iter();
    report.observations =
        seen.map(|(message, runs)| Observation { message: (*message).to_owned(), runs: runs.len() as u64 }).collect();
    report
}

impl<'a> Sums<'a> {
    fn add(&mut self, ran: &'a RunResult) {
        let origin = ran.origin();
        for (place, line) in ran.lines.iter().enumerate() {
            match line {
                Line::Exercised(clause) => _ = self.exercised.insert(clause),
                Line::Broken { clause, callback, message } | Line::Hangs { clause, callback, message } => {
                    let event: Event = (clause, callback.as_deref(), message);
                    self.broken.entry(event).or_default().insert(origin);
                    if place >= ran.own_lines && ran.after_shutdown {
                        self.after_shutdown.entry(event).or_default().insert(origin);
                    }
                    if place >= ran.own_lines && callback.is_none() {
                        let running: BTreeSet<&str> = ran.running.iter().map(String::as_str).collect();
                        let common = self.beside.entry(event).or_insert_with(|| running.clone());
                        common.retain(|callback| running.contains(callback));
                    }
                    let known = self.deaths.get(&event);
                    let is_hang = matches!(line, Line::Hangs { .. });
                    if is_hang {
                        self.hangs.insert(event);
                    }
                    let hangs = is_hang && *callback == ran.hung_in;
                    if (place >= ran.own_lines || hangs) && known.is_none_or(|known| origin < known.origin()) {
                        self.deaths.insert(event, ran);
                    }
                }
                Line::Remark { clause, callback, message } => {
                    _ = self.remarks.entry((clause, callback.as_deref(), message)).or_default().insert(origin);
                }
                Line::Refused { call, code } => _ = self.refused.entry((call, *code)).or_default().insert(origin),
                Line::Preempted { clause, milliseconds } => {
                    _ = self.preempted.insert((clause, origin), *milliseconds);
                }
                Line::Seen(message) => _ = self.seen.entry(message).or_default().insert(origin),
                Line::Note { clause, message } => _ = self.notes.insert(clause, message),
                Line::Unjudged { clause, message } => _ = self.unjudged.insert(clause, message),
                Line::Worked => self.works = true,
                Line::Failed(_)
                | Line::AskedForDetach
                | Line::UnloadBegins { .. }
                | Line::UnloadIsOver
                | Line::ShutsDown
                | Line::Filters(_)
                | Line::EndsItself
                | Line::Done => {}
            }
        }
    }

    /// A destructor that never returns, or crashes, does so wherever the last reference on the library is released: in the runtime's unload, on
    /// a thread of the profiler's own, or in the exit of the process. If the frames of the profiler's in one stack are all in the other, that is
    /// one cause, and the first of these places is the finding. It has the runs of the others, too.
    fn join_ends_in_destructor(&mut self) {
        const WHY: &str = "a run did not come to its end, because of a destructor of the library";
        let place = |event: &Event| match event {
            (_, Some("dlclose"), _) => Some(0),
            ("MOD-01", None, _) => Some(1),
            ("DET-17", None, _) => Some(2),
            _ => None,
        };
        let frames = |event: &Event| {
            let Some(ran) = self.deaths.get(event) else { return BTreeSet::new() };
            let of_library = format!("{}+", ran.library);
            ran.backtrace.iter().filter(|frame| frame.starts_with(&of_library)).collect::<BTreeSet<_>>()
        };
        let mut same: Vec<(Event, Event)> = Vec::new();
        for is_hang in [true, false] {
            let ends = || self.deaths.keys().filter(|event| self.hangs.contains(*event) == is_hang);
            let placed = || ends().filter_map(|event| Some((place(event)?, event)));
            let Some((first_place, first)) = placed().min() else { continue };
            let of_first = frames(first);
            let is_same = |event: &Event| {
                let of_event = frames(event);
                let is_within = of_event.is_subset(&of_first) || of_first.is_subset(&of_event);
                is_within && !of_event.is_disjoint(&of_first)
            };
            same.extend(placed().filter(|(at, one)| *at > first_place && is_same(one)).map(|(_, one)| (*first, *one)));
        }
        for (first, other) in same {
            let runs = self.broken.remove(&other).unwrap_or_default();
            self.broken.entry(first).or_default().extend(runs);
            self.unjudged.insert(other.0, WHY);
        }
    }

    fn findings(&self, mode: LoadMode) -> Vec<Finding> {
        let mut findings = self.findings_of(&self.broken, Verdict::Broken);
        findings.extend(self.findings_of(&self.remarks, Verdict::Remark));
        let is_settled = |clause: &str| self.broken.keys().chain(self.remarks.keys()).any(|key| key.0 == clause);
        let rest = CLAUSES.iter().filter(|clause| clause.is_checked(mode) && !is_settled(clause.id)).map(|clause| {
            if let Some(why) = self.unjudged.get(clause.id) {
                Finding::of(clause.id, Verdict::NotExercised, why)
            } else if self.exercised.contains(clause.id) {
                Finding::of(clause.id, Verdict::Honoured, clause.honoured)
            } else {
                let why = self.notes.get(clause.id).copied().unwrap_or(clause.exercise);
                Finding::of(clause.id, Verdict::NotExercised, why)
            }
        });
        findings.extend(rest);
        findings.sort_by(|one, other| (&one.clause, one.seed).cmp(&(&other.clause, other.seed)));
        findings
    }

    fn findings_of(&self, events: &Events<'a>, verdict: Verdict) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for (event, runs, differs) in joined(events) {
            let (clause, callback, message) = event;
            let (event, runs) = (&event, &runs);
            // If it also crashes before, Shutdown is not the cause.
            let only_late = self.after_shutdown.get(event) == Some(runs);
            let beside = self
                .beside
                .get(event)
                .and_then(|callbacks| if callbacks.len() == 1 { callbacks.first() } else { None });
            let beside = beside.map_or_else(String::new, |callback| format!(", while {callback} ran"));
            let differs = if differs { DIFFERS } else { "" };
            let message = format!("{message}{beside}{differs}{}", if only_late { AFTER_SHUTDOWN } else { "" });
            if findings.iter().filter(|known| known.clause == clause).count() < MOST_OF_A_CLAUSE {
                findings.push(Finding {
                    runs: Some(runs.len() as u64),
                    seed: runs.first().map(|(seed, _)| *seed),
                    runtime_version: runs.first().map(|(_, runtime_version)| (*runtime_version).to_owned()),
                    callback: callback.map(str::to_owned),
                    preemption_ms: self.preemption(clause, runs),
                    crash: self.deaths.get(event).map(|ran| crashed_run(ran)),
                    ..Finding::of(clause, verdict, &message)
                });
            }
        }
        findings
    }

    /// The shortest delay, if each of these runs needed one.
    fn preemption(&self, clause: &str, runs: &BTreeSet<Origin>) -> Option<u64> {
        let delays: Option<Vec<u64>> = runs.iter().map(|run| self.preempted.get(&(clause, *run)).copied()).collect();
        delays?.into_iter().min()
    }
}

/// Events that differ only in a number or a name, each of them in a single run of its own, as one: a profiler names a thread by its number, or
/// a file at random.
fn joined<'a>(events: &Events<'a>) -> Vec<(Event<'a>, BTreeSet<Origin>, bool)> {
    type OfKind<'a, 'e> = Vec<(Event<'a>, &'e BTreeSet<Origin>)>;
    let mut alike: BTreeMap<(&str, Option<&str>, String), OfKind> = BTreeMap::new();
    for (event, runs) in events {
        alike.entry((event.0, event.1, without_names(event.2))).or_default().push((*event, runs));
    }
    let mut all = Vec::new();
    for mut of_kind in alike.into_values() {
        of_kind.sort_by_key(|(_, runs)| runs.first().copied());
        let (single, others): (Vec<_>, Vec<_>) = of_kind.into_iter().partition(|(_, runs)| runs.len() == 1);
        let runs: BTreeSet<Origin> = single.iter().flat_map(|(_, runs)| runs.iter().copied()).collect();
        // A run may attach twice.
        let are_one = runs.len() > 1 && single.len() <= 2 * runs.len();
        let (first, rest) = if are_one { (single.first(), &[][..]) } else { (None, &single[..]) };
        all.extend(first.map(|(event, _)| (*event, runs, true)));
        all.extend(rest.iter().chain(&others).map(|(event, runs)| (*event, (*runs).clone(), false)));
    }
    all
}

/// Without what is in parentheses, and without digits.
fn without_names(message: &str) -> String {
    let mut depth = 0_usize;
    let mut is_kept = |letter: &char| {
        depth = if *letter == '(' { depth + 1 } else { depth.saturating_sub(usize::from(*letter == ')')) };
        depth == 0 && !letter.is_ascii_digit()
    };
    message.chars().filter(|letter| is_kept(letter)).collect()
}

fn crashed_run(ran: &RunResult) -> CrashedRun {
    let (seed, runtime_version) = ran.origin();
    let (backtrace, stderr) = (ran.backtrace.clone(), ran.stderr.clone());
    CrashedRun { seed, runtime_version: runtime_version.to_owned(), backtrace, stderr }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crashed(seed: u64, after_shutdown: bool) -> Result<RunResult, String> {
        let (clause, callback, message) = ("MOD-01".into(), Some("ModuleLoadFinished".into()), "it crashed".into());
        Ok(RunResult {
            runtime_version: RuntimeVersion::Core8,
            seed,
            library: String::new(),
            lines: vec![Line::Broken { clause, callback, message }],
            own_lines: 0,
            hung: false,
            asked: false,
            backtrace: Vec::new(),
            hung_in: None,
            running: Vec::new(),
            after_shutdown,
            stderr: String::new(),
        })
    }

    #[test]
    fn a_clause_that_one_run_says_nothing_about_is_not_called_honoured() {
        let ran = |seed, line: Line| crashed(seed, false).map(|ran| RunResult { lines: vec![line], ..ran });
        let [_, unjudged] = super::super::limits::of_early_end();
        let report = add_up(LoadMode::Attach, &[ran(0, Line::Exercised("MOD-01".into())), ran(1, unjudged)]);
        let of_clause = report.findings.iter().find(|finding| finding.clause == "MOD-01").expect("one");
        assert_eq!(of_clause.verdict, Verdict::NotExercised);
    }

    #[test]
    fn a_death_on_an_unknown_thread_is_one_finding_and_says_what_ran_in_each_run() {
        let ran = |seed, running: &[&str]| {
            let line = Line::Broken { clause: "MOD-01".into(), callback: None, message: "it ended".into() };
            let running = running.iter().map(ToString::to_string).collect();
            crashed(seed, false).map(|ran| RunResult { lines: vec![line], running, ..ran })
        };
        let found = |all: &[Result<RunResult, String>]| -> Vec<String> {
            let findings = add_up(LoadMode::Attach, all).findings.into_iter();
            findings.filter(|finding| finding.verdict == Verdict::Broken).map(|finding| finding.message).collect()
        };
        let [one, other] = ["ThreadCreated", "ThreadDestroyed"];
        assert_eq!(found(&[ran(0, &[one, other]), ran(1, &[one])]), ["it ended, while ThreadCreated ran"]);
        assert_eq!(found(&[ran(0, &[one]), ran(1, &[other])]), ["it ended"]);
        assert_eq!(found(&[ran(0, &[one, other]), ran(1, &[one, other])]), ["it ended"]);
    }

    #[test]
    fn what_differs_only_by_a_name_in_each_run_is_one_finding() {
        let ran = |seed, messages: &[&str]| {
            let line = |message: &&str| Line::Broken {
                clause: "DET-04".into(),
                callback: None,
                message: (*message).to_owned(),
            };
            crashed(seed, false).map(|ran| RunResult { lines: messages.iter().map(line).collect(), ..ran })
        };
        let found = |all: &[Result<RunResult, String>]| -> Vec<(String, Option<u64>)> {
            let findings = add_up(LoadMode::Attach, all).findings.into_iter();
            let broken = findings.filter(|finding| finding.verdict == Verdict::Broken);
            broken.map(|finding| (finding.message, finding.runs)).collect()
        };
        let (one, other) = ("a thread (work-17) was there", "a thread (work-18) was there");
        assert_eq!(found(&[ran(0, &[one]), ran(1, &[other])]), [(format!("{one}{DIFFERS}"), Some(2))]);
        assert_eq!(found(&[ran(0, &[one, other]), ran(1, &[one, other])]).len(), 2, "both in each run");
        assert_eq!(found(&[ran(0, &[one, other])]).len(), 2, "both in one run");
    }

    #[test]
    fn an_end_in_a_destructor_is_one_finding_with_all_runs_only_if_its_stack_is_the_same() {
        let ran = |seed, clause: &str, callback: Option<&str>, frames: &[&str]| {
            let (clause, callback, message) = (clause.to_owned(), callback.map(str::to_owned), "it hangs".to_owned());
            let lines = vec![Line::Hangs { clause, callback: callback.clone(), message }];
            let backtrace = frames.iter().map(ToString::to_string).collect();
            let library = "p.so".to_owned();
            crashed(seed, false).map(|ran| RunResult { lines, library, backtrace, hung_in: callback, ..ran })
        };
        let found = |all: &[Result<RunResult, String>]| -> Vec<(String, Option<u64>)> {
            let findings = add_up(LoadMode::Attach, all).findings.into_iter();
            let broken = findings.filter(|finding| finding.verdict == Verdict::Broken);
            broken.map(|finding| (finding.clause, finding.runs)).collect()
        };
        let unload = || ran(0, "DET-07", Some("dlclose"), &["p.so+0x1", "p.so+0x2"]);
        let same = ran(1, "DET-17", None, &["libc.so+0x9", "p.so+0x1", "p.so+0x2", "p.so+0x3"]);
        assert_eq!(found(&[unload(), same]), [("DET-07".to_owned(), Some(2))]);
        let another = ran(1, "DET-17", None, &["p.so+0x1", "p.so+0x4"]);
        assert_eq!(found(&[unload(), another]).len(), 2, "only a helper is the same");
    }

    #[test]
    fn a_crash_before_and_after_shutdown_is_one_finding_that_does_not_blame_it() {
        let messages = |all: &[Result<RunResult, String>]| -> Vec<String> {
            let findings = add_up(LoadMode::Attach, all).findings.into_iter();
            findings.filter(|finding| finding.verdict == Verdict::Broken).map(|finding| finding.message).collect()
        };
        assert_eq!(messages(&[crashed(0, true), crashed(1, false)]), ["it crashed"]);
        assert_eq!(messages(&[crashed(0, true), crashed(1, true)]), [format!("it crashed{AFTER_SHUTDOWN}")]);
    }
}
