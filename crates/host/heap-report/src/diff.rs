//! `remora heap diff`: differences between two snapshots, by type.

use super::origin::{doubts, origin};
use crate::columns::Columns;
use crate::totals::TotalsJson;
use remora_heap::DominatorTree;
use remora_heap::diff::{self, DiffRow};
use remora_heap::tables::{TypeRow, by_type};
use remora_heap_file::{Snapshot, State};
use remora_terminal::size::shown;
use remora_terminal::{Page, counted, grouped, line, signed};
use serde::Serialize;

/// The JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Summary {
    /// Whether both snapshots are complete.
    complete: bool,
    before: SnapshotJson,
    after: SnapshotJson,
    types: Vec<RowJson>,
    /// Doubts about the comparison.
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SnapshotJson {
    application: String,
    process_id: u32,
    taken_unix_nanoseconds: u64,
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct RowJson {
    r#type: String,
    assembly: String,
    before: TotalsJson,
    after: TotalsJson,
}

/// The differences between two snapshots, by type.
pub struct Diff<'a> {
    sides: [Side<'a>; 2],
    is_complete: bool,
    rows: Vec<DiffRow>,
    notes: Vec<String>,
}

impl<'a> Diff<'a> {
    /// Compares two snapshots, each with its dominator tree.
    pub fn new(before: (&'a Snapshot, &DominatorTree), after: (&'a Snapshot, &DominatorTree)) -> Diff<'a> {
        let (rows_before, rows_after) = (by_type(&before.0.graph, before.1), by_type(&after.0.graph, after.1));
        let (before, after) = (before.0, after.0);
        Diff {
            rows: diff::by_type(
                diff::Snapshot { graph: &before.graph, rows: &rows_before },
                diff::Snapshot { graph: &after.graph, rows: &rows_after },
            ),
            sides: [Side::of(before, &rows_before), Side::of(after, &rows_after)],
            is_complete: before.is_complete() && after.is_complete(),
            notes: doubts(&before.state, &after.state),
        }
    }

    /// As JSON: all types.
    pub fn json(&self) -> Page {
        let [before, after] = self.sides.each_ref().map(Side::json);
        let types = self.rows.iter().map(row_json).collect();
        Page::json(&Summary { complete: self.is_complete, before, after, types, notes: self.notes.clone() })
    }

    /// As text, with `top` rows.
    pub fn text(&self, top: usize) -> Page {
        let notes: Page = self.notes.iter().map(|note| line(format!("note: {note}"))).sum();
        head(&self.sides) + notes + line("") + text(&self.rows, top)
    }
}

/// One snapshot and its totals.
struct Side<'a> {
    state: &'a State,
    objects: u64,
    bytes: u64,
}

impl<'a> Side<'a> {
    fn of(snapshot: &'a Snapshot, rows: &[TypeRow]) -> Side<'a> {
        let sum = |of: fn(&TypeRow) -> u64| rows.iter().map(of).sum();
        Side { state: &snapshot.state, objects: sum(|row| row.totals.count), bytes: sum(|row| row.totals.bytes) }
    }

    fn text(&self) -> String {
        format!("{}: {} in {}", origin(self.state), shown(self.bytes), counted(self.objects, "object"))
    }

    fn json(&self) -> SnapshotJson {
        SnapshotJson {
            application: self.state.application.clone(),
            process_id: self.state.process_id,
            taken_unix_nanoseconds: self.state.taken_unix_nanoseconds,
            objects: self.objects,
            bytes: self.bytes,
        }
    }
}

/// Both snapshots and the difference of their totals.
fn head(sides: &[Side<'_>; 2]) -> Page {
    let [before, after] = sides;
    let difference = |of: fn(&Side<'_>) -> u64| i128::from(of(after)) - i128::from(of(before));
    let bytes = signed(difference(|side| side.bytes), shown);
    let objects = signed(difference(|side| side.objects), grouped);
    line(format!("before: {}", before.text()))
        + line(format!("after:  {}", after.text()))
        + line(format!("in all: {bytes}, {objects} objects"))
}

fn row_json(row: &DiffRow) -> RowJson {
    RowJson {
        r#type: row.name.clone(),
        assembly: row.assembly.clone(),
        before: row.before.into(),
        after: row.after.into(),
    }
}

fn text(rows: &[DiffRow], top: usize) -> Page {
    if rows.is_empty() {
        return line("Nothing has changed: every type has as many objects and bytes as before, and retains as much.");
    }
    let columns = Columns { numbers: &["retained", "own", "objects", "now"], texts: &["type"] };
    let table = columns.table(rows.iter().take(top).map(|row| {
        [
            signed(row.retained_growth(), shown),
            signed(row.growth(), shown),
            signed(i128::from(row.after.count) - i128::from(row.before.count), grouped),
            grouped(row.after.count),
            row.name.clone(),
        ]
    }));
    let mut text = line("types, by how much their own bytes have changed") + table.render();
    let left_out = &rows[rows.len().min(top)..];
    if !left_out.is_empty() {
        let together: i128 = left_out.iter().map(DiffRow::growth).sum();
        let types = counted(left_out.len() as u64, "type");
        let together = signed(together, shown);
        text += line(format!("not shown: {types} that changed less ({together} together); --top shows more"));
    }
    text
}
