//! `remora heap diff`: what has changed from one snapshot to a later one, type by type.

use super::size::shown;
use super::{open, told_if_incomplete};
use crate::args::HeapDiffArgs;
use crate::console::{counted, grouped, out, plain};
use crate::failure::Failure;
use crate::report::pretty;
use crate::table::Table;
use remora_heap::DominatorTree;
use remora_heap::diff::{self, DiffRow};
use remora_heap::tables::{TypeRow, by_type};
use remora_heap_file::Snapshot;
use serde::Serialize;

/// What is printed for programs. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Told {
    /// Whether both hold all of their heaps.
    complete: bool,
    types: Vec<RowTold>,
}

#[derive(Debug, Serialize)]
struct RowTold {
    r#type: String,
    assembly: String,
    before: Totals,
    after: Totals,
}

#[derive(Debug, Serialize)]
struct Totals {
    count: u64,
    bytes: u64,
    retained: u64,
}

/// Runs the command.
pub(crate) fn run(args: &HeapDiffArgs) -> Result<(), Failure> {
    let (before, after) = (open(&args.before)?, open(&args.after)?);
    let (rows_before, rows_after) = (rows(&before), rows(&after));
    let rows = diff::by_type(
        diff::Snapshot { graph: &before.graph, rows: &rows_before },
        diff::Snapshot { graph: &after.graph, rows: &rows_after },
    );
    out(&if args.shown.json {
        let types = rows.iter().map(told).collect();
        pretty(&Told { complete: before.is_complete() && after.is_complete(), types })
    } else {
        text(&rows, args.shown.top as usize)
    })?;
    told_if_incomplete(&args.before, &before)?;
    told_if_incomplete(&args.after, &after)
}

fn rows(snapshot: &Snapshot) -> Vec<TypeRow> {
    by_type(&snapshot.graph, &DominatorTree::new(&snapshot.graph))
}

fn told(row: &DiffRow) -> RowTold {
    let totals = |totals: remora_heap::tables::Totals| Totals {
        count: totals.count,
        bytes: totals.bytes,
        retained: totals.retained,
    };
    RowTold {
        r#type: row.name.clone(),
        assembly: row.assembly.clone(),
        before: totals(row.before),
        after: totals(row.after),
    }
}

fn text(rows: &[DiffRow], top: usize) -> String {
    if rows.is_empty() {
        return "Nothing has changed: every type has as many objects and bytes as before, and retains as much.\n"
            .to_owned();
    }
    let mut table = Table::new(&["retained", "own", "objects", "now", "type"]);
    (0..4).for_each(|column| table.align_right(column));
    for row in rows.iter().take(top) {
        table.row([
            signed(row.retained_growth(), shown),
            signed(row.growth(), shown),
            signed(i128::from(row.after.count) - i128::from(row.before.count), grouped),
            grouped(row.after.count),
            plain(&row.name),
        ]);
    }
    let mut text = "types, by how much their own bytes have changed\n".to_owned() + &table.render();
    let left_out = &rows[rows.len().min(top)..];
    if !left_out.is_empty() {
        let together: i128 = left_out.iter().map(DiffRow::growth).sum();
        let types = counted(left_out.len() as u64, "type");
        text +=
            &format!("not shown: {types} that changed less ({} together); --top shows more\n", signed(together, shown));
    }
    text
}

/// `+1.50 GiB`.
fn signed(number: i128, show: impl Fn(u64) -> String) -> String {
    let size = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    match number {
        0 => "0".to_owned(),
        1.. => format!("+{}", show(size)),
        _ => format!("-{}", show(size)),
    }
}
