//! Findings of a snapshot, as text and JSON: one section for each finding with a result.

mod arrays;
mod awaits;
mod collections;
mod finalizers;
mod subscriptions;
mod tasks;
mod timers;

use crate::suspects::of_application;
pub(crate) use awaits::Waits;
use remora_heap::findings::{Findings, TaskRow};
use remora_heap::{HeapGraph, ObjectIx, TypeIx};
use remora_terminal::size::shown as size;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

/// Waste gets a section from one of this many parts of the heap.
const PART: u64 = 1000;
/// This many objects get a section, whatever their size.
const MANY: u64 = 100;
/// Objects listed individually in a section.
const NAMED: usize = 3;

/// The findings shown, and their heap.
pub(crate) struct Shown<'a> {
    pub(crate) findings: &'a Findings,
    pub(crate) graph: &'a HeapGraph,
    /// Bytes of all objects.
    pub(crate) bytes: u64,
    /// Rows of each table.
    pub(crate) top: usize,
}

/// The JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
pub(crate) struct FindingsJson {
    /// Whether the snapshot had field values.
    had_values: bool,
    empty_arrays: arrays::ArraysJson,
    collections: collections::CollectionsJson,
    subscriptions: subscriptions::SubscriptionsJson,
    tasks: tasks::TasksJson,
    timers: timers::TimersJson,
    finalizers: finalizers::FinalizersJson,
}

impl FindingsJson {
    pub(crate) fn of(shown: &Shown<'_>) -> FindingsJson {
        FindingsJson {
            had_values: shown.findings.had_values,
            empty_arrays: arrays::json(shown),
            collections: collections::json(shown),
            subscriptions: subscriptions::json(shown),
            tasks: tasks::json(shown),
            timers: timers::json(shown),
            finalizers: finalizers::json(shown),
        }
    }
}

/// Event subscribers as text: most leaks are of this kind.
pub(crate) fn subscribers(shown: &Shown<'_>) -> Page {
    subscriptions::section(shown).map(|section| line("") + section).unwrap_or_default()
}

/// The other findings as text; what async methods wait for only if it was not shown `before`.
pub(crate) fn sections(shown: &Shown<'_>, waits: Option<&Waits>, before: bool) -> Page {
    let sections = [
        collections::section(shown),
        arrays::section(shown),
        tasks::section(shown, waits, !before),
        timers::section(shown),
        finalizers::section(shown),
        would_be_known(shown),
    ];
    sections.into_iter().flatten().map(|section| line("") + section).sum()
}

/// One line about the findings that a snapshot with values would add.
fn would_be_known(shown: &Shown<'_>) -> Option<Page> {
    let Findings { had_values, collections, tasks, .. } = shown.findings;
    if *had_values {
        return None;
    }
    let in_collections = shown.is_much(collections.not_judged_bytes).then(|| {
        let room = size(collections.not_judged_bytes);
        format!("how much of {} in {} is used", room, counted(collections.not_judged, "collection"))
    });
    let in_tasks = (tasks.count >= MANY).then(|| format!("which of {} are not done", counted(tasks.count, "task")));
    let known: Vec<String> = [in_collections, in_tasks].into_iter().flatten().collect();
    let known = known.join("; ");
    (!known.is_empty()).then(|| line(format!("A snapshot that is taken with --values says, too: {known}.")))
}

impl Shown<'_> {
    /// Whether these bytes deserve a section.
    fn is_much(&self, bytes: u64) -> bool {
        bytes > 0 && bytes >= self.bytes / PART
    }

    /// Whether a row's async method, or else its type, is the application's.
    fn is_own(&self, row: &TaskRow) -> bool {
        let of = self.graph.type_at(row.machine.unwrap_or(row.type_ix));
        of_application(&of.assembly, &of.name)
    }

    /// `async App.Shop.OrderAsync`, or a type.
    fn task(&self, row: &TaskRow) -> String {
        row.method.as_ref().map_or_else(|| self.name(row.type_ix), |method| format!("async {method}"))
    }

    fn name(&self, index: TypeIx) -> String {
        self.graph.shown_type(index).into_owned()
    }

    /// A line for each of the first objects; those of one type with the same text share one.
    fn named(&self, objects: impl Iterator<Item = (ObjectIx, String)>) -> Page {
        let mut lines: Vec<(ObjectIx, String, u64)> = Vec::new();
        for (object, text) in objects {
            let of = self.graph.type_ix(object);
            match lines.iter_mut().find(|line| line.1 == text && self.graph.type_ix(line.0) == of) {
                Some(line) => line.2 += 1,
                None => lines.push((object, text, 0)),
            }
        }
        let named = lines.into_iter().take(NAMED.min(self.top)).map(|(object, text, alike)| {
            let alike = if alike > 0 { format!(" and {} alike", grouped(alike)) } else { String::new() };
            line(format!("{}{alike}: {text}", crate::suspects::object(self.graph, object)))
        });
        named.sum()
    }
}
