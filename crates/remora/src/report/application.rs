//! Time by application method, entry points and reasons for blocked time: as text and JSON.

use super::findings::{self, FindingJson};
use super::hint::hints;
use super::method::{Method, name, place, short, without_parameters};
use crate::console::{Page, line, percent};
use remora_profile::{
    ApplicationMethod, ApplicationRule, ApplicationTime, BlockedTime, Callee, Event, FrameKind, Line, Profile, Wait,
};
use remora_terminal::Table;
use remora_terminal::duration::show;
use serde::Serialize;

/// The row of stacks without an application method. It must fit where a name does.
const NO_APPLICATION: &str = "no application method";
/// Callees shown of each method.
const CALLEES: usize = 2;
/// Lines of each method in JSON.
const LINES: usize = 5;
/// Lines shown of each method, if more than one has a twentieth of the time.
const LINES_SHOWN: usize = 3;
/// A twentieth of the time. Of callees with less, only the first one of the first method is shown.
const HOT_LINE: u64 = 20;
/// Entry points shown.
const ENTRY_POINTS: usize = 5;

/// The tables: methods, and for wall-clock time what threads wait for.
pub(crate) fn tables(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule, top: usize) -> Page {
    let problems = findings::text(profile, time, rule);
    let mut text = if problems.is_empty() { problems } else { problems + line("") };
    if profile.meta.event == Event::Wall && !time.blocked.is_empty() {
        text += blocked(profile, time, top) + line("");
    }
    text += methods(profile, time, rule, top);
    if !time.entry_points.is_empty() {
        text += line("") + entry_points(profile, time, top);
    }
    text
}

fn methods(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule, top: usize) -> Page {
    let busy = time.busy();
    let mut table = Table::new(&["time", "", "self", "application method, with calls outside", "line"]);
    (0..3).for_each(|column| table.align_right(column));
    let is_notable = |weight: u64| weight.saturating_mul(HOT_LINE) >= busy;
    let (shown, others) = time.methods.split_at(top.min(time.methods.len()));
    for (rank, method) in shown.iter().enumerate() {
        let hottest = method.lines.first().map(|line| place(profile, line.frame)).unwrap_or_default();
        table.row([
            show(method.weight()),
            percent(method.weight(), busy),
            show(method.self_weight),
            without_parameters(name(profile, method.frame)).to_owned(),
            hottest,
        ]);
        for (place, callee) in method.callees.iter().take(CALLEES).enumerate() {
            if place + rank > 0 && !is_notable(callee.weight) {
                break;
            }
            table.row(callee_row(profile, callee, busy, "calls"));
        }
        let hot = method.lines.iter().take_while(|line| is_notable(line.weight));
        let hot: Vec<&Line> = hot.take(LINES_SHOWN).collect();
        for hot in hot.iter().filter(|_| hot.len() > 1) {
            let [time, part] = [show(hot.weight), percent(hot.weight, busy)];
            table.row([time, part, String::new(), "  in line".to_owned(), place(profile, hot.frame)]);
        }
    }
    let weight = sum(others, ApplicationMethod::weight);
    let together = [show(weight), percent(weight, busy), show(sum(others, |method| method.self_weight))];
    table.more(others.len(), together, (3, ""));
    let elsewhere = time.elsewhere.saturating_sub(time.idle);
    let elsewhere = [show(elsewhere), percent(elsewhere, busy), String::new()];
    table.row(elsewhere.into_iter().chain([NO_APPLICATION.to_owned(), String::new()]));
    let notable = time.outside.iter().take_while(|callee| is_notable(callee.weight));
    for callee in notable.take(LINES_SHOWN) {
        table.row(callee_row(profile, callee, busy, "in"));
    }
    let fits = profile.frames().iter().any(|frame| rule.includes(profile, frame));
    table.render() + line(rule_text(rule, fits))
}

/// `calls Regex.IsMatch (94% jit)`.
fn callee_row(profile: &Profile, callee: &Callee, busy: u64, verb: &str) -> [String; 5] {
    let called = name(profile, callee.frame);
    // `[JIT]` says it already.
    let is_mark = profile.frame_at(callee.frame).kind == FrameKind::Synthetic;
    let cost = callee.cost.filter(|_| !is_mark);
    let cost = cost.map(|(cost, weight)| format!(" ({:.0}% {})", part(weight, callee.weight) * 100.0, cost.code()));
    let text = format!("  {verb} {}{}", short(called), cost.unwrap_or_default());
    [show(callee.weight), percent(callee.weight, busy), String::new(), text, String::new()]
}

fn part(weight: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { weight as f64 / all as f64 }
}

fn blocked(profile: &Profile, time: &ApplicationTime, top: usize) -> Page {
    let busy = time.busy();
    let mut table = Table::new(&["blocked", "", "threads", "waits for", "application method", "line"]);
    (0..3).for_each(|column| table.align_right(column));
    let rows: Vec<&BlockedTime> = time.blocked.iter().filter(|row| !row.is_idle).collect();
    let (shown, others) = rows.split_at(top.min(rows.len()));
    for row in shown {
        let method = row.frame.map(|frame| without_parameters(name(profile, frame)).to_owned());
        let via = row.via.map(|via| format!("none, in {}", short(name(profile, via))));
        table.row([
            show(row.weight),
            percent(row.weight, busy),
            row.threads.to_string(),
            waits_for(row.wait).to_owned(),
            method.or(via).unwrap_or_else(|| "none".to_owned()),
            row.frame.map(|frame| place(profile, frame)).unwrap_or_default(),
        ]);
    }
    let more = sum(others, |row| row.weight);
    table.more(others.len(), [show(more), percent(more, busy)], (4, ""));
    let pool = time.blocked.iter().filter(|row| row.wait == Wait::IdlePool).map(|row| row.weight);
    let pool = pool.fold(0, u64::saturating_add);
    table.row([
        show(time.idle),
        String::new(),
        time.idle_threads.to_string(),
        "idle".to_owned(),
        format!("{} in the thread pool", show(pool)),
        String::new(),
    ]);
    table.render()
}

fn entry_points(profile: &Profile, time: &ApplicationTime, top: usize) -> Page {
    let mut table = Table::new(&["time", "", "started by", "outermost application method"]);
    (0..2).for_each(|column| table.align_right(column));
    let busy = time.busy();
    let (shown, others) = time.entry_points.split_at(top.min(ENTRY_POINTS).min(time.entry_points.len()));
    for point in shown {
        table.row([
            show(point.weight),
            percent(point.weight, busy),
            point.entry.code().to_owned(),
            without_parameters(name(profile, point.frame)).to_owned(),
        ]);
    }
    let more = sum(others, |point| point.weight);
    table.more(others.len(), [show(more), percent(more, busy)], (3, ""));
    table.render()
}

/// The sum of a number of all `rows`.
fn sum<T>(rows: &[T], number: impl Fn(&T) -> u64) -> u64 {
    rows.iter().map(number).fold(0, u64::saturating_add)
}

/// In one or two words.
pub(super) fn waits_for(wait: Wait) -> &'static str {
    if wait == Wait::Cpu { "free CPU" } else { wait.code() }
}

fn rule_text(rule: &ApplicationRule, fits: bool) -> String {
    let hint = match (rule.assemblies.is_empty(), fits) {
        (true, _) => " (--application PATTERN)",
        (false, true) => "",
        (false, false) => " (no assembly of the recording fits)",
    };
    format!("{rule}{hint}")
}

/// The same as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ApplicationJson<'a> {
    /// The patterns of `--application`; empty for the rule of its own.
    assemblies: &'a [String],
    methods: Vec<MethodJson<'a>>,
    elsewhere_nanoseconds: u64,
    /// What runs without an application method, without idle threads.
    elsewhere: Vec<CalleeJson<'a>>,
    idle_nanoseconds: u64,
    idle_threads: usize,
    entry_points: Vec<EntryJson<'a>>,
    blocked: Vec<BlockedJson<'a>>,
    findings: Vec<FindingJson<'a>>,
    /// What to try next, in words.
    hints: Vec<String>,
}

#[derive(Debug, Serialize)]
struct MethodJson<'a> {
    name: &'a str,
    module: Option<&'a str>,
    self_nanoseconds: u64,
    caused_nanoseconds: u64,
    blocked_nanoseconds: u64,
    samples: u64,
    lines: Vec<LineJson<'a>>,
    callees: Vec<CalleeJson<'a>>,
}

#[derive(Debug, Serialize)]
struct LineJson<'a> {
    file: Option<&'a str>,
    line: Option<u32>,
    nanoseconds: u64,
}

#[derive(Debug, Serialize)]
struct CalleeJson<'a> {
    name: &'a str,
    module: Option<&'a str>,
    nanoseconds: u64,
    /// What at least half of it goes to.
    cost: Option<&'static str>,
    cost_nanoseconds: u64,
}

impl<'a> CalleeJson<'a> {
    fn of(profile: &'a Profile, callee: &Callee) -> CalleeJson<'a> {
        let Method { name, module, .. } = Method::at(profile, callee.frame);
        let (cost, cost_nanoseconds) = callee.cost.map_or((None, 0), |(cost, weight)| (Some(cost.code()), weight));
        CalleeJson { name, module, nanoseconds: callee.weight, cost, cost_nanoseconds }
    }
}

#[derive(Debug, Serialize)]
struct EntryJson<'a> {
    kind: &'static str,
    name: &'a str,
    module: Option<&'a str>,
    nanoseconds: u64,
}

#[derive(Debug, Serialize)]
struct BlockedJson<'a> {
    wait: &'static str,
    idle: bool,
    method: Option<&'a str>,
    /// Without a method: what the threads run.
    via: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    threads: usize,
    pool_threads: usize,
    nanoseconds: u64,
    pool_nanoseconds: u64,
}

impl<'a> ApplicationJson<'a> {
    pub(crate) fn of(
        profile: &'a Profile,
        time: &ApplicationTime,
        rule: &'a ApplicationRule,
        top: usize,
    ) -> ApplicationJson<'a> {
        let of = |frame| Method::at(profile, frame);
        let methods = time.methods.iter().take(top).map(|method| {
            let Method { name, module, .. } = of(method.frame);
            let lines = method.lines.iter().take(LINES).map(|line| {
                let Method { file, line: number, .. } = of(line.frame);
                LineJson { file, line: number, nanoseconds: line.weight }
            });
            let callees = method.callees.iter().take(CALLEES).map(|callee| CalleeJson::of(profile, callee));
            MethodJson {
                name,
                module,
                self_nanoseconds: method.self_weight,
                caused_nanoseconds: method.caused_weight,
                blocked_nanoseconds: method.blocked_weight,
                samples: method.samples,
                lines: lines.collect(),
                callees: callees.collect(),
            }
        });
        let entry_points = time.entry_points.iter().take(top).map(|point| {
            let Method { name, module, .. } = of(point.frame);
            EntryJson { kind: point.entry.code(), name, module, nanoseconds: point.weight }
        });
        let blocked = time.blocked.iter().take(top).map(|row| {
            let method = row.frame.map(of);
            BlockedJson {
                wait: row.wait.code(),
                idle: row.is_idle,
                via: row.via.map(|via| of(via).name),
                method: method.as_ref().map(|method| method.name),
                file: method.as_ref().and_then(|method| method.file),
                line: method.and_then(|method| method.line),
                threads: row.threads,
                pool_threads: row.pool_threads,
                nanoseconds: row.weight,
                pool_nanoseconds: row.pool_weight,
            }
        });
        ApplicationJson {
            assemblies: &rule.assemblies,
            methods: methods.collect(),
            elsewhere_nanoseconds: time.elsewhere,
            elsewhere: time.outside.iter().take(top).map(|callee| CalleeJson::of(profile, callee)).collect(),
            idle_nanoseconds: time.idle,
            idle_threads: time.idle_threads,
            entry_points: entry_points.collect(),
            blocked: blocked.collect(),
            findings: FindingJson::all(profile, time),
            hints: hints(profile, time, rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_parameters_and_callees_their_namespaces() {
        let cases = [
            ("System.Threading.Thread.Sleep(int)", "System.Threading.Thread.Sleep", "Thread.Sleep"),
            ("A.B.Cart<(int, string)>.Total(T)", "A.B.Cart<(int, string)>.Total", "Cart<(int, string)>.Total"),
            ("N.List<System.Int32>.Add(System.Int32)", "N.List<System.Int32>.Add", "List<System.Int32>.Add"),
            (
                "System.Threading.Tasks.DelayPromise..ctor(uint)",
                "System.Threading.Tasks.DelayPromise..ctor",
                "DelayPromise..ctor",
            ),
            ("N.Shop.Each<T>.lambda#0()", "N.Shop.Each<T>.lambda#0", "Shop.Each<T>.lambda#0"),
            ("libc.so+0x12", "libc.so+0x12", "libc.so+0x12"),
            ("Main", "Main", "Main"),
            ("[unknown]", "[unknown]", "[unknown]"),
            ("a>b(", "a>b", "a>b"),
            ("(", "(", "("),
        ];
        for (name, without, callee) in cases {
            assert_eq!((without_parameters(name), short(name)), (without, callee));
        }
    }
}
