//! Pending tasks.

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
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    /// Their async method.
    method: Option<String>,
    count: u64,
    pending: Option<u64>,
    retained: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> TasksJson {
    let tasks = &shown.findings.tasks;
    let types = tasks.rows.iter().map(|row| TypeJson {
        r#type: shown.name(row.type_ix),
        method: row.method.clone(),
        count: row.count,
        pending: row.pending,
        retained: row.retained,
    });
    TasksJson { count: tasks.count, pending: tasks.pending, types: types.collect() }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let tasks = &shown.findings.tasks;
    if tasks.pending.unwrap_or(tasks.count) < MANY {
        return None;
    }
    let columns = Columns { numbers: &["retained", "tasks", "not done"], texts: &["of"] };
    let table = columns.top(&tasks.rows, shown.top, |row| {
        let pending = row.pending.map_or("?".to_owned(), grouped);
        [size(row.retained), grouped(row.count), pending, of(shown, row)]
    });
    let head = match tasks.pending {
        Some(pending) => format!("tasks: {}, of which {} not done", counted(tasks.count, "task"), grouped(pending)),
        None => format!("tasks: {}, done or not", counted(tasks.count, "task")),
    };
    Some(line(head) + table)
}

fn of(shown: &Shown<'_>, row: &TaskRow) -> String {
    row.method.as_ref().map_or_else(|| shown.name(row.type_ix), |method| format!("async {method}"))
}
