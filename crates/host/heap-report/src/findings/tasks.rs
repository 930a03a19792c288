//! Pending tasks: async methods of the application first, and what they wait for.

use super::awaits::{self, AwaitsJson, Waits};
use super::{MANY, Shown};
use crate::columns::Columns;
use remora_heap::findings::TaskRow;
use remora_terminal::size::shown as size;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct TasksJson {
    /// All tasks.
    count: u64,
    /// Pending tasks; null if unknown.
    pending: Option<u64>,
    types: Vec<TypeJson>,
    /// What async methods of the application wait for; empty without field values.
    awaits: Vec<AwaitsJson>,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    /// Their async method.
    method: Option<String>,
    /// Whether that, or else the type, is the application's.
    application: bool,
    count: u64,
    pending: Option<u64>,
    retained: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> TasksJson {
    let tasks = &shown.findings.tasks;
    let types = rows(shown).into_iter().map(|row| TypeJson {
        r#type: shown.name(row.type_ix),
        method: row.method.clone(),
        application: shown.is_own(row),
        count: row.count,
        pending: row.pending,
        retained: row.retained,
    });
    TasksJson { count: tasks.count, pending: tasks.pending, types: types.collect(), awaits: awaits::json(shown) }
}

/// The table, and the chains if they are `below` it.
pub(super) fn section(shown: &Shown<'_>, waits: Option<&Waits>, below: bool) -> Option<Page> {
    let tasks = &shown.findings.tasks;
    let wait_alike = waits.is_some_and(Waits::are_alike);
    if tasks.pending.unwrap_or(tasks.count) < MANY && !wait_alike {
        return None;
    }
    let columns = Columns { numbers: &["retained", "tasks", "not done"], texts: &["of"] };
    let table = columns.top(&rows(shown), shown.top, |row| {
        let pending = row.pending.map_or("?".to_owned(), grouped);
        [size(row.retained), grouped(row.count), pending, shown.task(row)]
    });
    let head = match tasks.pending {
        Some(pending) => format!("tasks: {}, of which {} not done", counted(tasks.count, "task"), grouped(pending)),
        None => format!("tasks: {}, done or not", counted(tasks.count, "task")),
    };
    Some(line(head) + table + waits.filter(|_| below).map(|waits| waits.page.clone()).unwrap_or_default())
}

/// The rows, the application's first.
fn rows<'a>(shown: &Shown<'a>) -> Vec<&'a TaskRow> {
    let mut rows: Vec<&TaskRow> = shown.findings.tasks.rows.iter().collect();
    rows.sort_by_cached_key(|row| !shown.is_own(row));
    rows
}
