//! Time by application method, entry points and reasons for blocked time: as text and JSON.

use super::findings::{self, FindingJson};
use super::method::{Method, name, place, without_parameters};
use crate::console::{Page, line, percent};
use remora_profile::{ApplicationRule, ApplicationTime, BlockedTime, Event, Line, Profile, Wait};
use remora_symbols::split_outside;
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
const HOT_LINE: u64 = 20;
/// A tenth of the time is worth a hint.
const NOTABLE: u64 = 10;
/// Entry points shown.
const ENTRY_POINTS: usize = 5;

/// The tables: methods, and for wall-clock time what threads wait for.
pub(crate) fn tables(profile: &Profile, time: &ApplicationTime, rule: &ApplicationRule, top: usize) -> Page {
    let problems = findings::text(profile, time);
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
    for method in time.methods.iter().take(top) {
        let hottest = method.lines.first().map(|line| place(profile, line.frame)).unwrap_or_default();
        table.row([
            show(method.weight()),
            percent(method.weight(), busy),
            show(method.self_weight),
            without_parameters(name(profile, method.frame)).to_owned(),
            hottest,
        ]);
        for callee in method.callees.iter().take(CALLEES) {
            let calls = format!("  calls {}", short(name(profile, callee.frame)));
            table.row([show(callee.weight), percent(callee.weight, busy), String::new(), calls, String::new()]);
        }
        let hot = method.lines.iter().take_while(|line| line.weight.saturating_mul(HOT_LINE) >= busy);
        let hot: Vec<&Line> = hot.take(LINES_SHOWN).collect();
        for hot in hot.iter().filter(|_| hot.len() > 1) {
            let [time, part] = [show(hot.weight), percent(hot.weight, busy)];
            table.row([time, part, String::new(), "  in line".to_owned(), place(profile, hot.frame)]);
        }
    }
    let elsewhere = time.elsewhere.saturating_sub(time.idle);
    let elsewhere = [show(elsewhere), percent(elsewhere, busy), String::new()];
    table.row(elsewhere.into_iter().chain([NO_APPLICATION.to_owned(), String::new()]));
    let fits = profile.frames().iter().any(|frame| rule.includes(profile, frame));
    table.render() + line(rule_text(rule, fits))
}

fn blocked(profile: &Profile, time: &ApplicationTime, top: usize) -> Page {
    let busy = time.busy();
    let mut table = Table::new(&["blocked", "", "threads", "waits for", "application method", "line"]);
    (0..3).for_each(|column| table.align_right(column));
    for row in time.blocked.iter().filter(|row| row.frame.is_some()).take(top) {
        table.row([
            show(row.weight),
            percent(row.weight, busy),
            row.threads.to_string(),
            waits_for(row.wait).to_owned(),
            row.frame.map(|frame| without_parameters(name(profile, frame)).to_owned()).unwrap_or_default(),
            row.frame.map(|frame| place(profile, frame)).unwrap_or_default(),
        ]);
    }
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
    let may_be_lock = |row: &BlockedTime| {
        let is_without_lines = row.frame.is_some_and(|frame| profile.frame_at(frame).line.is_none());
        row.wait == Wait::Runtime && is_without_lines && row.weight.saturating_mul(NOTABLE) >= busy
    };
    let hint = time.blocked.iter().any(may_be_lock).then(|| {
        line("hint: `runtime` can be a `lock` here; with the assembly's PDB it is known (beside it, or --symbols DIR)")
    });
    table.render() + hint.into_iter().sum()
}

fn entry_points(profile: &Profile, time: &ApplicationTime, top: usize) -> Page {
    let mut table = Table::new(&["time", "", "started by", "outermost application method"]);
    (0..2).for_each(|column| table.align_right(column));
    for point in time.entry_points.iter().take(top.min(ENTRY_POINTS)) {
        table.row([
            show(point.weight),
            percent(point.weight, time.busy()),
            point.entry.code().to_owned(),
            without_parameters(name(profile, point.frame)).to_owned(),
        ]);
    }
    table.render()
}

/// In one or two words.
fn waits_for(wait: Wait) -> &'static str {
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

/// Type and method, without namespace and parameters: `Thread.Sleep`, `DelayPromise..ctor`.
fn short(name: &str) -> &str {
    let name = without_parameters(name);
    let parts = split_outside(name, ["<", ">"], &['.']);
    // The name of a constructor begins with a dot.
    let is_constructor = parts.iter().rev().nth(1).is_some_and(|part| part.is_empty());
    let kept = parts.iter().rev().take(if is_constructor { 3 } else { 2 });
    let length: usize = kept.map(|part| part.len() + 1).sum();
    &name[name.len().saturating_sub(length - 1)..]
}

/// The same as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ApplicationJson<'a> {
    /// The patterns of `--application`; empty for the rule of its own.
    assemblies: &'a [String],
    methods: Vec<MethodJson<'a>>,
    elsewhere_nanoseconds: u64,
    idle_nanoseconds: u64,
    idle_threads: usize,
    entry_points: Vec<EntryJson<'a>>,
    blocked: Vec<BlockedJson<'a>>,
    findings: Vec<FindingJson<'a>>,
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
    method: Option<&'a str>,
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
            let callees = method.callees.iter().take(CALLEES).map(|callee| {
                let Method { name, module, .. } = of(callee.frame);
                CalleeJson { name, module, nanoseconds: callee.weight }
            });
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
            idle_nanoseconds: time.idle,
            idle_threads: time.idle_threads,
            entry_points: entry_points.collect(),
            blocked: blocked.collect(),
            findings: FindingJson::all(profile, time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_profile::{Frame, FrameKind, Meta, Sample, State, Thread};

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
            ("Shop.Each.lambda#0()", "Shop.Each.lambda#0", "Each.lambda#0"),
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

    #[test]
    fn a_wait_in_the_runtime_without_a_pdb_is_said_to_be_a_lock_perhaps() {
        let shown = |line: Option<u32>, module: &str| {
            let mut profile = Profile::new(Meta { event: Event::Wall, ..Meta::default() });
            let thread = profile.add_thread(Thread { id: 1, name: "main".into() });
            let mut frame = |name: &str, module: &str, kind, line: Option<u32>| {
                let (name, module) = (profile.string(name), Some(profile.string(module)));
                let file = line.map(|_| profile.string("Shop.cs"));
                profile.frame(Frame { kind, name, module, file, line })
            };
            let method = frame("Shop.Take()", module, FrameKind::Managed, line);
            let futex = frame("futex", "libc.so.6", FrameKind::Native, None);
            let stack = profile.stack_from_root([method, futex]).expect("there are frames");
            profile.add_sample(Sample { time: 0, thread, stack, weight: 9, state: State::Blocked });
            let rule = ApplicationRule::default();
            tables(&profile, &ApplicationTime::of(&profile, &rule, None), &rule, 5).contains("can be a `lock`")
        };
        assert_eq!([shown(None, "Shop.dll"), shown(Some(4), "Shop.dll")], [true, false]);
        assert!(!shown(None, "System.Net.dll"), "idle");
    }
}
