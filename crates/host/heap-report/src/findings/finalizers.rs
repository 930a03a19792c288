//! Objects with a finalizer, and the finalization queue.

use super::{MANY, Shown};
use crate::columns::Columns;
use remora_terminal::size::shown as size;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct FinalizersJson {
    /// Objects with a finalizer.
    count: u64,
    /// Those in the queue; null if the snapshot has no queue.
    waiting: Option<u64>,
    types: Vec<TypeJson>,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    count: u64,
    retained: u64,
    waiting: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> FinalizersJson {
    let finalizers = &shown.findings.finalizers;
    let types = finalizers.rows.iter().map(|row| TypeJson {
        r#type: shown.name(row.type_ix),
        count: row.count,
        retained: row.retained,
        waiting: row.waiting,
    });
    FinalizersJson { count: finalizers.count, waiting: finalizers.waiting, types: types.collect() }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let finalizers = &shown.findings.finalizers;
    let waiting = finalizers.waiting.unwrap_or(0);
    if finalizers.count < MANY && waiting == 0 {
        return None;
    }
    let columns = Columns { numbers: &["retained", "objects", "waiting"], texts: &["type"] };
    let table = columns.top(&finalizers.rows, shown.top, |row| {
        let waits = finalizers.waiting.map_or("?".to_owned(), |_| grouped(row.waiting));
        [size(row.retained), grouped(row.count), waits, shown.name(row.type_ix)]
    });
    let queue = match finalizers.waiting {
        Some(0) => "none waits for it".to_owned(),
        Some(1) => "1 waits for it in the queue".to_owned(),
        Some(waiting) => format!("{} wait for it in the queue", grouped(waiting)),
        None => "how many wait for it is not in the snapshot".to_owned(),
    };
    let head = format!("finalizers: {} with one, suppressed or not; {queue}", counted(finalizers.count, "object"));
    Some(line(head) + table)
}
