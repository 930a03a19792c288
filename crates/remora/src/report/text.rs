//! The report as text.

use super::AS_IT_CAME;
use super::application::tables;
use super::exceptions::exceptions;
use super::hint::hint;
use crate::console::{Page, counted, grouped, line, percent};
use remora_profile::{
    ApplicationRule, ApplicationTime, CodeKind, FrameIx, HotMethod, Profile, Summary, ThreadIx, ThreadShare,
};
use remora_terminal::Table;
use remora_terminal::duration::show;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The beginning of a note on a recording that ended before its time.
pub(crate) const ENDED_EARLY: &str = "the recording ended early: ";

/// The whole report.
pub(super) fn render(
    profile: &Profile,
    summaries: &[(Option<ThreadIx>, Summary)],
    rule: &ApplicationRule,
    top: usize,
) -> Page {
    let mut text = head(profile);
    let thrown = exceptions(profile, rule, top);
    if !thrown.is_empty() {
        text += line("") + thrown;
    }
    for (thread, summary) in summaries {
        text += line("");
        if let Some(thread) = thread {
            let label = profile.threads()[thread.0 as usize].label();
            text += line(format!("{label}: {}, {}", counted(summary.samples, "sample"), show(summary.total_weight)));
        }
        let time = ApplicationTime::of(profile, rule, *thread);
        if summary.samples > 0 {
            text += tables(profile, &time, rule, top) + line("");
        }
        text += hottest(profile, summary, top);
        if summary.samples > 0 {
            text += line("");
            text += with_callees(profile, summary, top);
        }
        if thread.is_none() && summary.samples > 0 {
            text += line("");
            text += threads(profile, summary, &time.pool.members, top);
        }
    }
    let notes = notes(profile);
    if notes.is_empty() { text } else { text + line("") + notes }
}

/// The recording in a few lines.
pub(crate) fn head(profile: &Profile) -> Page {
    let meta = &profile.meta;
    let head = format!(
        "{} (process {}), {}: {} for {} at {} Hz, by {}",
        meta.application,
        meta.process_id,
        meta.runtime,
        meta.event.name(),
        show(meta.duration),
        meta.frequency,
        meta.engine
    );
    let hint = hint(profile).map(|hint| line(format!("hint: {hint}")));
    line(head) + line(account(profile)) + noted(profile, true) + hint.into_iter().sum()
}

/// The notes that do not change what the tables mean. They stand below them: the answer comes first.
pub(crate) fn notes(profile: &Profile) -> Page {
    noted(profile, false)
}

fn noted(profile: &Profile, concerns_meaning: bool) -> Page {
    let chosen = profile
        .meta
        .notes
        .iter()
        .filter(|note| concerns_meaning == (note.starts_with(ENDED_EARLY) || *note == AS_IT_CAME));
    chosen.map(|note| line(format!("note: {note}"))).sum()
}

/// Samples, and the reasons for missing ones.
fn account(profile: &Profile) -> String {
    let loss = &profile.loss;
    let mut text =
        format!("{}, {}", counted(profile.samples().len() as u64, "sample"), unit(profile, profile.total_weight()));
    let lost = loss.total_lost();
    if lost == 0 {
        text.push_str("; none lost");
    } else {
        let causes: Vec<String> =
            loss.lost.iter().map(|(cause, count)| format!("{}: {}", cause.meaning(), grouped(*count))).collect();
        let _ = write!(text, "; {} of {} lost ({})", grouped(lost), grouped(loss.taken.max(lost)), causes.join(", "));
    }
    let stacks =
        [(loss.truncated_stacks, "truncated"), (loss.broken_stacks, "broken"), (loss.incomplete_stacks, "incomplete")];
    for (count, state) in stacks.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "; {} {state}", counted(count, "stack"));
    }
    text
}

fn unit(profile: &Profile, weight: u64) -> String {
    format!("{} of {}", show(weight), profile.meta.time())
}

/// The methods with most self time.
pub(crate) fn hottest(profile: &Profile, summary: &Summary, top: usize) -> Page {
    let hot: Vec<&HotMethod> = summary.methods.iter().filter(|method| method.self_weight > 0).collect();
    if hot.is_empty() {
        return line("no samples");
    }
    methods(profile, summary, &hot, (top, "method, by its own time"))
}

/// The methods with most total time.
fn with_callees(profile: &Profile, summary: &Summary, top: usize) -> Page {
    let mut all: Vec<&HotMethod> = summary.methods.iter().collect();
    // Stable: methods with the same total keep their order by self time.
    all.sort_by_key(|method| std::cmp::Reverse(method.total_weight));
    methods(profile, summary, &all, (top, "method, with what it calls"))
}

fn methods(profile: &Profile, summary: &Summary, methods: &[&HotMethod], (top, title): (usize, &str)) -> Page {
    let row = |method: &&HotMethod| Row {
        weights: [method.self_weight, method.total_weight],
        label: label(profile, method.frame),
    };
    // The totals of methods contain each other, so they have no sum.
    let headings = Headings { columns: ["self", "total"], title, has_sum: [true, false] };
    table(&headings, summary.total_weight, methods, (top, row))
}

/// The headings of a table of two weights.
struct Headings<'a> {
    columns: [&'a str; 2],
    title: &'a str,
    /// Whether the weights of several rows can be added.
    has_sum: [bool; 2],
}

struct Row {
    weights: [u64; 2],
    label: String,
}

/// Rows of two weights, each with its part of `whole`, and what has them.
fn table<T>(headings: &Headings, whole: u64, all: &[T], (top, row): (usize, impl Fn(&T) -> Row)) -> Page {
    let [first, second] = headings.columns;
    let mut table = Table::new(&[first, "", second, "", headings.title]);
    (0..4).for_each(|column| table.align_right(column));
    let cells = |weight: u64| [show(weight), percent(weight, whole)];
    let (shown, others) = all.split_at(top.min(all.len()));
    for Row { weights, label } in shown.iter().map(&row) {
        table.row(weights.into_iter().flat_map(cells).chain([label]));
    }
    let sum = |column: usize| others.iter().map(|other| row(other).weights[column]).fold(0, u64::saturating_add);
    let sums = [0, 1].map(|column| if headings.has_sum[column] { cells(sum(column)) } else { Default::default() });
    table.more(others.len(), sums.into_iter().flatten(), (4, ""));
    table.render()
}

/// The threads with most time; those of the pool are one row.
fn threads(profile: &Profile, summary: &Summary, pool: &BTreeSet<ThreadIx>, top: usize) -> Page {
    let (of_pool, others): (Vec<_>, Vec<_>) = summary.threads.iter().partition(|share| pool.contains(&share.thread));
    let mut rows: Vec<([u64; 2], String)> = others
        .iter()
        .map(|share| ([share.weight, share.blocked_weight], profile.threads()[share.thread.0 as usize].label()))
        .collect();
    if !of_pool.is_empty() {
        let sum = |weight: fn(&ThreadShare) -> u64| of_pool.iter().map(|share| weight(share)).sum();
        let label = format!("{} of the thread pool", counted(of_pool.len() as u64, "thread"));
        rows.push(([sum(|share| share.weight), sum(|share| share.blocked_weight)], label));
        rows.sort_by_key(|([weight, _], _)| Reverse(*weight));
    }
    let row = |(weights, label): &([u64; 2], String)| Row { weights: *weights, label: label.clone() };
    let headings = Headings { columns: ["time", "waiting"], title: "thread", has_sum: [true; 2] };
    table(&headings, summary.total_weight, &rows, (top, row))
}

/// Name and module of a method. The namespace of a framework's method says enough.
fn label(profile: &Profile, frame: FrameIx) -> String {
    let frame = profile.frame_at(frame);
    let name = profile.text(frame.name);
    let is_framework = CodeKind::of(profile, frame) == CodeKind::Framework;
    match frame.module.filter(|_| !is_framework).map(|module| profile.text(module)) {
        // `libcoreclr.so+0x1234` names its module already.
        Some(module) if !name.starts_with(module) => format!("{name}  [{module}]"),
        _ => name.to_owned(),
    }
}
