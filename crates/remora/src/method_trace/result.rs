//! The result of a trace: a table of methods, then the slowest calls.

use super::call;
use super::recent_rate::{Counted, RecentRate};
use crate::args::trace::TraceArgs;
use crate::console::{Page, counted, grouped, line, out};
use crate::failure::Failure;
use remora_attach::Process;
use remora_collector::{Calls, MethodTrace, TraceCounts};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Columns of the table.
const WIDTH: usize = 80;
/// Columns of its numbers: calls, errors, mean, p50, p99, max.
const NUMBERS: [usize; 6] = [12, 8, 8, 8, 8, 8];

/// Why a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    Asked,
    TimeIsOver,
    Limit,
    TooManyCalls,
    TargetEnded,
}

impl EndReason {
    fn code(self) -> &'static str {
        match self {
            EndReason::Asked => "asked",
            EndReason::TimeIsOver => "duration",
            EndReason::Limit => "limit",
            EndReason::TooManyCalls => "too-many-calls",
            EndReason::TargetEnded => "target-ended",
        }
    }
}

/// Methods named of those that cannot be traced for one reason.
const NAMED_OF_A_REASON: usize = 3;

/// What to print.
pub(super) struct Outcome<'a> {
    pub(super) args: &'a TraceArgs,
    pub(super) process: &'a Process,
    pub(super) trace: &'a MethodTrace,
    pub(super) found: u32,
    pub(super) lasted: Duration,
    pub(super) why: EndReason,
    /// What the user changed, as JSON.
    pub(super) changes: Vec<serde_json::Value>,
}

/// A row of the table.
struct Row {
    name: String,
    calls: Calls,
    failed: Option<u32>,
    steps_of: Option<u32>,
    is_taken_out: bool,
    is_async: bool,
    returns_task: bool,
    /// Since when it was traced, after the begin of the trace.
    since: Option<Duration>,
    /// How long it was.
    traced: Duration,
}

impl Outcome<'_> {
    pub(super) fn print(&self) -> Result<(), Failure> {
        out(&if self.args.json { self.json() } else { self.text() })
    }

    /// Methods by their total time, longest first.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .trace
            .methods()
            .iter()
            .map(|(number, method)| Row {
                name: call::name(method) + if method.returns_task { "*" } else { "" },
                calls: self.trace.calls(*number),
                failed: method.failed,
                steps_of: method.steps_of,
                is_taken_out: method.is_taken_out,
                is_async: method.is_async,
                returns_task: method.returns_task,
                since: method.time.since(),
                traced: method.time.lasted(self.lasted),
            })
            .collect();
        rows.sort_by(|one, other| other.calls.total.cmp(&one.calls.total).then_with(|| one.name.cmp(&other.name)));
        rows
    }

    fn text(&self) -> Page {
        let rows = self.rows();
        let called: Vec<&Row> = rows.iter().filter(|row| row.calls.entered > 0 || row.calls.steps > 0).collect();
        let top = self.args.top as usize;
        let mut text = self.head(&rows) + line("");
        if !called.is_empty() {
            text += line(heading());
            text += called.iter().take(top).map(|row| row.lines()).sum::<Page>();
            if called.iter().take(top).any(|row| row.returns_task) {
                text += line("* returns a task without being async: timed until it returns");
            }
            if called.len() > top {
                text += line(format!("and {} more; --top shows more", called.len() - top));
            }
        }
        if called.iter().take(top).any(|row| row.is_taken_out) {
            text += line("(out): taken out during the trace, with the calls until then");
        }
        if called.iter().take(top).any(|row| row.added().is_some()) {
            text += line("since: added so long after the begin of the trace");
        }
        let known = rows.iter().filter(|row| row.steps_of.is_none()).count() + self.trace.untraceable().len();
        let beyond = (self.found as usize).saturating_sub(known);
        if beyond > 0 {
            text += line(format!(
                "{} more match and are not traced: the limit is reached",
                counted(beyond as u64, "method")
            ));
        }
        let never = rows.len() - called.len();
        if never > 0 {
            text += line(format!("{} not called", counted(never as u64, "method")));
        }
        for row in rows.iter().filter(|row| row.failed.is_some()).take(top) {
            let code = remora_attach::HResult(row.failed.unwrap_or_default());
            text += line(format!("not traced: {}: the runtime refused ({code})", row.name));
        }
        text + self.untraceable() + self.slowest() + self.losses()
    }

    /// A line for each reason, with some of the methods.
    fn untraceable(&self) -> Page {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, why) in self.trace.untraceable() {
            reasons.entry(why).or_default().push(name);
        }
        let shown = |(why, names): (&str, Vec<&str>)| {
            let some = names.iter().take(NAMED_OF_A_REASON).copied().collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(NAMED_OF_A_REASON);
            let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
            line(format!("not traced: {some}{more}: {why}"))
        };
        reasons.into_iter().map(shown).sum()
    }

    fn head(&self, rows: &[Row]) -> Page {
        let calls: u64 = rows.iter().map(|row| row.calls.ended).sum();
        let mut text = line(format!(
            "traced {} of {} ({}) for {}: {}",
            counted(rows.iter().filter(|row| row.is_traced()).count() as u64, "method"),
            self.process.name(),
            self.process.pid,
            remora_terminal::duration::show(self.lasted.as_nanos() as u64),
            counted(calls, "call"),
        ));
        let TraceCounts { probe_cost: cost, stack_time, .. } = self.trace.counts();
        let probed: u64 = rows.iter().map(|row| row.calls.probed()).sum();
        let share = probed as f64 * cost as f64 / 1e12 / self.lasted.as_secs_f64().max(1e-9);
        text += line(format!(
            "the probes took at least {:.0} ns a call or step, {:.2} % of a CPU; finding callers took {:.2} % of the time",
            cost as f64 / 1e3,
            share * 100.0,
            stack_time as f64 / 1e7 / self.lasted.as_secs_f64().max(1e-9)
        ));
        if self.why == EndReason::Limit {
            text += line(format!("ended by --limit: {} recorded", counted(self.trace.records_seen(), "call")));
        }
        if self.why == EndReason::TooManyCalls {
            text += line(format!(
                "ended by itself: the methods were called more than {} times a second (--most-calls)",
                grouped(self.args.most_calls)
            ));
        }
        text
    }

    fn slowest(&self) -> Page {
        let records = self.trace.records();
        if records.is_empty() {
            return Page::default();
        }
        let mut text = line("") + line("slowest recorded calls");
        let without_callers = records.iter().filter(|record| record.stack.is_empty()).count();
        let within = call::within(self.trace);
        for (record, within) in records.iter().zip(within).take(self.args.top as usize) {
            let thrown = if record.is_thrown { ", exception" } else { "" };
            text += line(format!(
                "  {:>8}  {}  {} [thread {}{thrown}]",
                short(record.duration),
                call::time_of_day(self.trace, record),
                call::shown(self.trace, record, self.args.arguments),
                record.thread
            ));
            if let Some(outer) = within.and_then(|index| records.get(index)) {
                let name = call::shown(self.trace, outer, false);
                text += line(format!("            in {name} ({})", short(outer.duration)));
            }
            text += call::nearest(self.trace, record)
                .map(|callers| line(format!("            by {callers}")))
                .into_iter()
                .sum();
        }
        if without_callers > 0 {
            text += line(format!(
                "{} without callers: they waited, and no stack was walked at the first wait",
                counted(without_callers as u64, "recorded call")
            ));
        }
        text
    }

    fn losses(&self) -> Page {
        let counts = self.trace.counts();
        let of = |count: u64, what: &str| (count > 0).then(|| line(format!("{what}: {}", grouped(count))));
        [
            of(counts.records_lost, "slow calls that were not recorded, since too many came at once"),
            of(counts.calls_lost, "async calls whose end was not seen, since too many waited at the same time"),
            of(counts.stacks_failed, "recorded calls without callers"),
            of(counts.names_lost, "callers without a name"),
            of(counts.rejit_errors, "errors that the runtime reported while it replaced methods"),
        ]
        .into_iter()
        .flatten()
        .sum()
    }

    fn json(&self) -> Page {
        let rows = self.rows();
        let methods: Vec<_> = rows.iter().map(Row::json).collect();
        let within = call::within(self.trace);
        let records = self.trace.records().iter().zip(within);
        let records: Vec<_> = records.map(|(record, within)| call::as_json(self.trace, record, within)).collect();
        let untraceable: Vec<_> =
            self.trace.untraceable().iter().map(|(name, why)| json!({ "method": name, "why": why })).collect();
        let counts = self.trace.counts();
        Page::json(&json!({
            "process_id": self.process.pid,
            "ended": self.why.code(),
            "lasted_nanoseconds": self.lasted.as_nanos() as u64,
            "methods_found": self.found,
            "methods": methods,
            "changes": self.changes,
            "not_traced": untraceable,
            "calls": records,
            "calls_recorded": self.trace.records_seen(),
            "calls_not_recorded": counts.records_lost,
            "calls_without_end": counts.calls_lost,
            "calls_without_callers": self.trace.records().iter().filter(|record| record.stack.is_empty()).count(),
            "callers_without_name": counts.names_lost,
            "runtime_errors": counts.rejit_errors,
            "probe_cost_picoseconds": counts.probe_cost,
            "stack_nanoseconds": counts.stack_time,
            "agent_was_there": self.trace.was_reused(),
            "stays": [self.trace.library()],
        }))
    }
}

impl Row {
    /// Whether it is a method that was traced to the end.
    fn is_traced(&self) -> bool {
        self.steps_of.is_none() && self.failed.is_none() && !self.is_taken_out
    }

    fn lines(&self) -> Page {
        let calls = &self.calls;
        // Steps of other calls are in the sums.
        let is_whole = self.is_async && calls.entered == calls.ended;
        let running = calls.running.checked_div(calls.entered).filter(|_| is_whole);
        let steps = calls.steps as f64 / calls.entered.max(1) as f64;
        let open = calls.entered.saturating_sub(calls.ended);
        let detail = match running {
            Some(running) => Some(format!("of each call {} on a thread, in {steps:.1} steps", short(running))),
            None if open > 0 => {
                Some(format!("{} of {} calls had no end in the trace", grouped(open), grouped(calls.entered)))
            }
            None if self.is_async => {
                Some(format!("{} of calls that began before the trace", counted(calls.steps, "step")))
            }
            None => None,
        };
        let since = self.added().map(|since| format!("since {}", short(since.as_nanos() as u64)));
        let details: Vec<String> = since.into_iter().chain(detail).collect();
        let below = if details.is_empty() { Page::default() } else { line(format!("    {}", details.join("; "))) };
        line(self.text()) + below
    }

    /// After the begin of the trace, if it was added later.
    fn added(&self) -> Option<Duration> {
        self.since.filter(|since| !since.is_zero())
    }

    fn text(&self) -> String {
        let calls = &self.calls;
        let time = |nanoseconds: Option<u64>| nanoseconds.map_or_else(|| "-".to_owned(), short);
        let ended = |value: u64| (calls.ended > 0).then_some(value);
        let cells = [
            grouped(calls.ended),
            grouped(calls.thrown),
            time(calls.mean()),
            time(calls.percentile(0.5)),
            time(calls.percentile(0.99)),
            time(ended(calls.longest)),
        ];
        let mark = if self.is_taken_out { " (out)" } else { "" };
        row(&format!("{}{mark}", self.name), &cells)
    }

    fn json(&self) -> serde_json::Value {
        let calls = &self.calls;
        let ended = |value: u64| (calls.ended > 0).then_some(value);
        json!({
            "method": self.name.trim_end_matches('*'),
            "returns_task": self.returns_task,
            "is_steps": self.steps_of.is_some(),
            "is_taken_out": self.is_taken_out,
            "is_async": self.is_async,
            "steps": self.is_async.then_some(calls.steps),
            "running_nanoseconds": self.is_async.then_some(calls.running),
            "calls_begun": calls.entered,
            "calls": calls.ended,
            "exceptions": calls.thrown,
            "total_nanoseconds": calls.total,
            "shortest_nanoseconds": ended(calls.shortest),
            "mean_nanoseconds": calls.mean(),
            "p50_nanoseconds": calls.percentile(0.5),
            "p90_nanoseconds": calls.percentile(0.9),
            "p99_nanoseconds": calls.percentile(0.99),
            "longest_nanoseconds": ended(calls.longest),
            "since_nanoseconds": self.since.map(|since| since.as_nanos() as u64),
            "traced_nanoseconds": self.traced.as_nanos() as u64,
            "refused": self.failed,
        })
    }
}

fn heading() -> String {
    row("method", &["calls", "errors", "mean", "p50", "p99", "max"].map(str::to_owned))
}

/// A row of the table: a name that does not fit loses its beginning.
fn row(name: &str, cells: &[String; 6]) -> String {
    let room = WIDTH - NUMBERS.iter().sum::<usize>();
    let length = name.chars().count();
    let name = match length > room {
        true => format!("…{}", name.chars().skip(length - (room - 1)).collect::<String>()),
        false => format!("{name:room$}"),
    };
    NUMBERS.iter().zip(cells).fold(name, |text, (width, cell)| format!("{text}{cell:>width$}"))
}

/// A duration in at most seven columns.
fn short(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..10_000 => format!("{:.1} µs", value / 1e3),
        10_000..1_000_000 => format!("{:.0} µs", value / 1e3),
        1_000_000..10_000_000 => format!("{:.1} ms", value / 1e6),
        10_000_000..1_000_000_000 => format!("{:.0} ms", value / 1e6),
        1_000_000_000..60_000_000_000 => format!("{:.1} s", value / 1e9),
        _ => format!("{:.0} s", value / 1e9),
    }
}

/// The line that is overwritten while the trace runs.
pub(super) fn status(trace: &MethodTrace, recent: &mut RecentRate, lasted: Duration) -> String {
    let counted = trace.methods().keys().map(|number| trace.calls(*number)).fold(Counted::default(), |sum, calls| {
        Counted { calls: sum.calls + calls.ended, probed: sum.probed + calls.probed() }
    });
    let (rate, probes) = recent.take(lasted, counted);
    let share = probes * trace.counts().probe_cost as f64 / 1e10;
    format!(
        "{} calls ({rate:.0} a second), {} recorded, probes {share:.2} % of a CPU",
        grouped(counted.calls),
        grouped(trace.records_seen())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_eighty_columns_whatever_the_name_and_the_numbers() {
        let cells = ["1,234,567", "12", "999 ns", "9.9 µs", "999 ms", "59.9 s"].map(str::to_owned);
        for name in ["A.B", "Company.Product.Feature.Subfeature.VeryLongName.Method"] {
            assert_eq!(row(name, &cells).chars().count(), WIDTH);
        }
        assert!(row("Company.Product.Feature.Subfeature.Method", &cells).contains("Subfeature.Method"));
        assert_eq!(heading().chars().count(), WIDTH);
        for nanoseconds in [0, 999, 9_999, 999_999, 9_999_999, 999_999_999, 59_999_999_999, 3_600_000_000_000] {
            assert!(short(nanoseconds).chars().count() <= 7, "{}", short(nanoseconds));
        }
    }

    #[test]
    fn a_row_says_since_when_only_if_its_method_was_added_during_the_trace() {
        let mut calls = Calls::default();
        (calls.entered, calls.ended) = (3, 2);
        let row = |since: u64| Row {
            name: "Shop.Cart.Add".into(),
            calls: calls.clone(),
            failed: None,
            steps_of: None,
            is_taken_out: false,
            is_async: false,
            returns_task: false,
            since: Some(Duration::from_secs(since)),
            traced: Duration::from_secs(5),
        };
        let below = |since| row(since).lines().lines().nth(1).map(str::to_owned);
        assert_eq!(below(12).as_deref(), Some("    since 12.0 s; 1 of 3 calls had no end in the trace"));
        assert_eq!(below(0).as_deref(), Some("    1 of 3 calls had no end in the trace"));
        assert_eq!(row(12).json()["since_nanoseconds"], 12_000_000_000_u64);
    }
}
