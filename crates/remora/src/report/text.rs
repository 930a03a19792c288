//! The report as text.

use super::application::tables;
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

/// The whole report.
pub(super) fn render(
    profile: &Profile,
    summaries: &[(Option<ThreadIx>, Summary)],
    rule: &ApplicationRule,
    top: usize,
) -> Page {
    let mut text = head(profile);
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
    text
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
    let notes = meta.notes.iter().map(|note| line(format!("note: {note}"))).sum();
    line(head)
        + line(account(profile))
        + notes
        + hint(profile).map(|hint| line(format!("hint: {hint}"))).into_iter().sum()
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
    let rows = methods.iter().take(top);
    let rows = rows.map(|method| ([method.self_weight, method.total_weight], label(profile, method.frame)));
    table(["self", "total", title], summary.total_weight, rows, methods.len())
}

/// Rows of two weights, each with its part of `whole`, and what has them. `count`: how many there are in all.
fn table(
    [first, second, title]: [&str; 3],
    whole: u64,
    rows: impl ExactSizeIterator<Item = ([u64; 2], String)>,
    count: usize,
) -> Page {
    let mut table = Table::new(&[first, "", second, "", title]);
    (0..4).for_each(|column| table.align_right(column));
    let more = count.saturating_sub(rows.len());
    for ([first, second], label) in rows {
        table.row([show(first), percent(first, whole), show(second), percent(second, whole), label]);
    }
    if more > 0 {
        let text = format!("{} more", grouped(more as u64));
        table.row([String::new(), String::new(), String::new(), String::new(), text]);
    }
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
    let count = rows.len();
    rows.truncate(top);
    table(["time", "waiting", "thread"], summary.total_weight, rows.into_iter(), count)
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
