//! Collections with far more capacity than content.

use super::Shown;
use crate::columns::Columns;
use remora_heap::findings::Collections;
use remora_terminal::size::shown as size;
use remora_terminal::{Page, counted, grouped, line};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct CollectionsJson {
    /// Bytes of all their unused slots.
    wasted: u64,
    types: Vec<TypeJson>,
    /// The collections that waste most.
    worst: Vec<CollectionJson>,
    /// Collections of unknown usage: their fields are needed.
    not_judged: u64,
    /// Bytes of their slots.
    not_judged_bytes: u64,
}

#[derive(Debug, Serialize)]
struct TypeJson {
    r#type: String,
    count: u64,
    places: u64,
    used: u64,
    wasted: u64,
    /// Whether usage was read from fields; otherwise it is the number of references.
    exact: bool,
}

#[derive(Debug, Serialize)]
struct CollectionJson {
    address: u64,
    r#type: String,
    places: u64,
    used: u64,
    wasted: u64,
}

pub(super) fn json(shown: &Shown<'_>) -> CollectionsJson {
    let Collections { waste: found, not_judged, not_judged_bytes } = &shown.findings.collections;
    let types = found.rows.iter().map(|row| TypeJson {
        r#type: shown.name(row.type_ix),
        count: row.count,
        places: row.places,
        used: row.used,
        wasted: row.wasted,
        exact: row.is_exact,
    });
    let worst = found.worst.iter().take(shown.top).map(|one| CollectionJson {
        address: shown.graph.address(one.object),
        r#type: shown.graph.shown_type_of(one.object).into_owned(),
        places: one.places,
        used: one.used,
        wasted: one.wasted,
    });
    CollectionsJson {
        wasted: found.wasted,
        types: types.collect(),
        worst: worst.collect(),
        not_judged: *not_judged,
        not_judged_bytes: *not_judged_bytes,
    }
}

pub(super) fn section(shown: &Shown<'_>) -> Option<Page> {
    let found = &shown.findings.collections.waste;
    if !shown.is_much(found.wasted) {
        return None;
    }
    let columns = Columns { numbers: &["wasted", "collections", "places", "used"], texts: &["type"] };
    let table = columns.top(&found.rows, shown.top, |row| {
        let about = if row.is_exact { "" } else { "~" };
        let used = format!("{about}{}", grouped(row.used));
        [size(row.wasted), grouped(row.count), grouped(row.places), used, shown.name(row.type_ix)]
    });
    let worst = shown.named(found.worst.iter().map(|one| {
        let (used, places) = (grouped(one.used), counted(one.places, "place"));
        (one.object, format!("{used} of {places} used, {} wasted", size(one.wasted)))
    }));
    let by = match found.rows.iter().take(shown.top).all(|row| row.is_exact) {
        true => "",
        false => " (~ by references: null counts as unused, and of an entry its key and its value count)",
    };
    let head = format!("collections that are mostly room: {} of places that are not used{by}", size(found.wasted));
    Some(line(head) + table + worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::list;
    use remora_heap::findings::{Findings, Looked, NoValues, Waste, WasteRow};
    use remora_heap::tables::by_type;
    use remora_heap::{DominatorTree, TypeIx};

    #[test]
    fn what_a_mark_means_is_said_where_a_row_that_is_shown_has_it() {
        let graph = list(1);
        let tree = DominatorTree::new(&graph);
        let (rows, values) = (by_type(&graph, &tree), &NoValues);
        let mut findings = Findings::new(Looked { graph: &graph, tree: &tree, rows: &rows, values });
        let row = |is_exact| WasteRow { type_ix: TypeIx(0), count: 1, places: 32, used: 1, wasted: 248, is_exact };
        findings.collections.waste = Waste { rows: vec![row(true), row(false)], wasted: 496, worst: Vec::new() };
        let text = |top| section(&Shown { findings: &findings, graph: &graph, bytes: 500, top }).unwrap_or_default();
        assert!(text(2).contains("(~ by references") && text(2).contains("  ~1  "), "{}", text(2));
        assert!(!text(1).contains('~') && text(1).contains("and 1 other"), "{}", text(1));
    }
}
