//! Scheduled timers.

use super::{MANY, Shown};
use crate::columns::Columns;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct TimersJson {
    /// All timers.
    count: u64,
    /// Scheduled timers.
    scheduled: u64,
    types: Vec<TypeJson>,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    /// The type with the callback, or of a lambda that captured nothing, the state object's; null if both are unknown.
    r#type: Option<String>,
    count: u64,
    scheduled: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> TimersJson {
    let timers = &shown.findings.timers;
    let types = timers.rows.iter().map(|row| TypeJson {
        r#type: row.calls.map(|calls| shown.name(calls)),
        count: row.count,
        scheduled: row.scheduled,
    });
    TimersJson { count: timers.count, scheduled: timers.scheduled, types: types.collect() }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let timers = &shown.findings.timers;
    if timers.count < MANY {
        return None;
    }
    let columns = Columns { numbers: &["timers", "to fire"], texts: &["calling"] };
    let table = columns.top(&timers.rows, shown.top, |row| {
        let calls = row.calls.map_or("[not known]".to_owned(), |calls| shown.name(calls));
        [grouped(row.count), grouped(row.scheduled), calls]
    });
    let (count, scheduled) = (counted(timers.count, "timer"), grouped(timers.scheduled));
    Some(line(format!("timers: {count}, of which {scheduled} are to fire")) + table)
}
