//! Objects that only an event keeps alive.

use super::{MANY, Shown};
use crate::columns::Columns;
use crate::suspects::event;
use remora_heap::findings::SubscriptionRow;
use remora_terminal::size::shown as size;
use remora_terminal::{Page, grouped, line};
use serde::Serialize;

/// Subscribers of one type to one event that get a section, however little they retain.
const FEW: u64 = MANY / 10;

#[derive(Debug, Serialize)]
pub(super) struct SubscriptionsJson {
    /// Retained size of all subscribers.
    retained: u64,
    subscribers: Vec<RowJson>,
}

#[derive(Debug, Serialize)]
struct RowJson {
    /// Null if the delegate is in a static field.
    publisher: Option<String>,
    /// The events it may be; for a static field its full name.
    events: Vec<String>,
    delegate: String,
    subscriber: String,
    count: u64,
    retained: u64,
    /// The address of the subscriber with the largest retained size.
    example: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> SubscriptionsJson {
    let found = &shown.findings.subscriptions;
    let rows = found.rows.iter().map(|row| RowJson {
        publisher: row.publisher.map(|publisher| shown.name(publisher)),
        events: row.events.clone(),
        delegate: shown.name(row.delegate),
        subscriber: shown.name(row.subscriber),
        count: row.count,
        retained: row.retained,
        example: shown.graph.address(row.example),
    });
    SubscriptionsJson { retained: found.retained, subscribers: rows.collect() }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let found = &shown.findings.subscriptions;
    let worth: Vec<&SubscriptionRow> =
        found.rows.iter().filter(|row| shown.is_much(row.retained) || row.count >= FEW).collect();
    if worth.is_empty() {
        return None;
    }
    let columns = Columns { numbers: &["retained", "subscribers"], texts: &["of type", "to", "for example"] };
    let table = columns.top(&worth, shown.top, |row| {
        let example = format!("@{:#x}", shown.graph.address(row.example));
        [size(row.retained), grouped(row.count), shown.name(row.subscriber), event(shown.graph, row), example]
    });
    Some(line("subscribers that only an event keeps alive: unsubscribed, they would go") + table)
}
