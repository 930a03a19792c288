//! Writes the files of a trace, and prints its summary.

use super::allocated;
use super::plan::TraceOutput;
use crate::console::{Page, counted, line, out};
use crate::failure::Failure;
use crate::output::{FOR_ALL, Reserve};
use remora_calls::{About, Calls, LongCall, MethodTotals, described, method_totals};
use remora_terminal::duration::{show, show_short};
use remora_terminal::{Table, grouped};
use rustix::fs::Mode;
use std::cmp::Reverse;
use std::io::{BufWriter, Write};

/// The result.
pub(crate) struct Outcome<'a> {
    pub(crate) calls: &'a Calls,
    pub(crate) about: &'a About,
    pub(crate) top: usize,
    pub(crate) outputs: &'a [TraceOutput],
}

impl Outcome<'_> {
    /// Writes all files, each into the space that was reserved for it; the first failure is returned after the others were tried.
    pub(crate) fn write(&self, reserves: Vec<Option<Reserve>>) -> Result<(), Failure> {
        let write = |(output, reserve): (&TraceOutput, Option<Reserve>)| {
            drop(reserve);
            // Arguments are data of the application: its user's, as a rule.
            let mode = if self.calls.has_values { Mode::RUSR | Mode::WUSR } else { FOR_ALL };
            output.destination.write_as(mode, |out| {
                let mut out = BufWriter::with_capacity(1 << 16, out);
                output.format.write(self.calls, self.about, &mut out)?;
                out.flush()
            })
        };
        self.outputs.iter().zip(reserves).map(write).fold(Ok(()), Result::and)
    }

    /// Prints the summary on standard output.
    pub(crate) fn tell(&self, json: bool, written: bool) -> Result<(), Failure> {
        if json {
            let mut text = Vec::new();
            // A vector takes everything.
            let _ = remora_calls::write_json(self.calls, self.about, &mut text);
            let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            return out(&Page::json(&value));
        }
        let mut text = self.text();
        if written {
            let files = self.outputs.iter().filter_map(|output| output.destination.path());
            text += line("") + files.map(|file| line(format!("wrote {}", file.display()))).sum();
        }
        out(&text)
    }

    fn text(&self) -> Page {
        let About { application, process_id, runtime, notes, .. } = self.about;
        let Calls { duration, threads, .. } = self.calls;
        let totals = method_totals(self.calls);
        let mut text = line(format!(
            "{application} (process {process_id}), {runtime}: {} of {} on {} in {}",
            counted(self.calls.calls(), "call"),
            counted(totals.len() as u64, "method"),
            counted(threads.len() as u64, "thread"),
            show(*duration)
        ));
        text += notes.iter().map(|note| line(format!("note: {note}"))).sum();
        text += line("");
        text += match self.calls.counts_objects {
            true => allocated::tables(self.calls, self.top, Table::render),
            false => table(self.calls, &totals, self.top),
        };
        text + if self.calls.has_values { slowest(self.calls, self.top) } else { Page::default() }
    }
}

/// The slowest calls with their arguments.
fn slowest(calls: &Calls, top: usize) -> Page {
    let mut recorded: Vec<&LongCall> = calls.long.iter().filter(|call| !call.values.is_empty()).collect();
    recorded.sort_by_key(|call| Reverse(call.duration));
    if recorded.is_empty() {
        return Page::default();
    }
    let lines = recorded.into_iter().take(top).map(|call| {
        let node = &calls.nodes[call.node.0 as usize];
        let method = calls.method(node);
        let thread = calls.threads[node.thread.0 as usize].id;
        let thrown = if call.threw { ", exception" } else { "" };
        let described = described(&method.name, &call.values, &method.parameters);
        line(format!("  {:>8}  {described} [thread {thread}{thrown}]", show_short(call.duration)))
    });
    line("") + line("slowest recorded calls with arguments or a result") + lines.sum()
}

/// The methods with most time of their own.
fn table(calls: &Calls, totals: &[MethodTotals], top: usize) -> Page {
    let mut table = Table::new(&["calls", "self", "total", "mean", "longest", "thrown", "method"]);
    (0..6).for_each(|column| table.align_right(column));
    table.let_last_go_below();
    let (shown, others) = totals.split_at(top.min(totals.len()));
    for sum in shown {
        let mean = sum.total.checked_div(sum.calls).unwrap_or_default();
        let times = [sum.own, sum.total, mean, sum.longest].map(show_short);
        let numbers = [grouped(sum.calls)].into_iter().chain(times).chain([grouped(sum.exceptions)]);
        table.row(numbers.chain([calls.methods[sum.method.0 as usize].name.clone()]));
    }
    let sum = |number: fn(&MethodTotals) -> u64| others.iter().map(number).fold(0, u64::saturating_add);
    table.more(others.len(), [grouped(sum(|one| one.calls)), show_short(sum(|one| one.own))], (6, ""));
    table.render()
}
