//! `remora heap diff`: what has grown between two snapshots: types, holders, suspects, and new paths to roots.

use super::origin::{doubts, origin};
use crate::columns::{Columns, more, sum};
use crate::holders::{Holders, holders};
use crate::long_paths::{JSON, STEP, TEXT};
use crate::new_paths::{NewPath, NewPaths, new_paths};
use crate::suspects::{self, SuspectJson, Suspects, of_application};
use crate::totals::TotalsJson;
use remora_heap::diff::{self, DiffRow};
use remora_heap::findings::{Findings, Looked, NoValues, Subscriptions};
use remora_heap::suspects::Suspect;
use remora_heap::tables::{TypeRow, by_type};
use remora_heap::{Allowance, DominatorTree, HeapGraph, RootKind, Type};
use remora_heap_file::{Snapshot, State};
use remora_terminal::size::shown;
use remora_terminal::{Page, counted, grouped, line, signed, titled};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// New paths to roots are those of this many types, which grew most.
const TRACED: usize = 5;
/// JSON has this many new paths. A list whose node types alternate has a new path for each node.
const PATHS_JSON: usize = 1000;

/// The JSON output. A field keeps its name and meaning; new ones may be added.
#[derive(Debug, Serialize)]
struct Summary {
    /// Whether both snapshots are complete.
    complete: bool,
    before: SnapshotJson,
    after: SnapshotJson,
    /// The largest growth of the retained size first.
    types: Vec<RowJson>,
    /// Holders, by type and root, whose retained size grew, the largest growth first.
    holders: Vec<HolderJson>,
    /// The number of others.
    holders_left_out: usize,
    /// The suspects of the later snapshot whose type grew.
    suspect_details: Vec<SuspectJson>,
    /// Paths to roots that objects of the growing types have only in the later snapshot, most objects first.
    new_paths: Vec<PathJson>,
    /// The number of others.
    new_paths_left_out: usize,
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
    /// Whether it belongs to the application.
    application: bool,
    before: TotalsJson,
    after: TotalsJson,
}

#[derive(Debug, Serialize)]
struct HolderJson {
    r#type: String,
    held_by: Option<String>,
    objects: u64,
    /// The address of the one with the largest retained size.
    example: u64,
    retained_before: u64,
    retained_after: u64,
}

#[derive(Debug, Serialize)]
struct PathJson {
    objects: u64,
    root: String,
    types: Vec<String>,
    /// Types of a long path that are left out in its middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    types_left_out: Option<usize>,
}

/// What has grown between two snapshots.
pub struct Diff<'a> {
    sides: [Side<'a>; 2],
    after: (&'a Snapshot, &'a DominatorTree),
    is_complete: bool,
    rows: Vec<DiffRow>,
    holders: Vec<Growing>,
    suspects: Vec<Suspect>,
    subscriptions: Subscriptions,
    new_paths: NewPaths,
    notes: Vec<String>,
}

/// Holders of one type with the same root that retain more than before.
struct Growing {
    now: Holders,
    before: u64,
}

impl<'a> Diff<'a> {
    /// Compares two snapshots, each with its dominator tree.
    pub fn new(before: (&'a Snapshot, &'a DominatorTree), after: (&'a Snapshot, &'a DominatorTree)) -> Diff<'a> {
        let (rows_before, rows_after) = (by_type(&before.0.graph, before.1), by_type(&after.0.graph, after.1));
        let rows = diff::by_type(
            diff::Snapshot { graph: &before.0.graph, rows: &rows_before },
            diff::Snapshot { graph: &after.0.graph, rows: &rows_after },
        );
        let (graph, tree) = (&after.0.graph, after.1);
        let grown = |of: &Type| {
            rows.iter().any(|row| row.name == of.name && row.assembly == of.assembly && row.retained_growth() > 0)
        };
        let mut suspects = suspects::find(graph, tree);
        suspects.retain(|suspect| suspect.holders.first().is_some_and(|holder| grown(graph.type_of(*holder))));
        let is_empty = before.0.graph.roots().is_empty() || graph.roots().is_empty();
        let comparable = is_empty || seen_roots(&before.0.graph) == seen_roots(graph);
        let mut notes = doubts(&before.0.state, &after.0.state);
        if !comparable {
            notes.push(OTHER_ROOTS.to_owned());
        }
        let traced = if comparable { traced(&rows) } else { Vec::new() };
        Diff {
            holders: growing(before, after, comparable),
            new_paths: new_paths(&before.0.graph, graph, &traced),
            suspects,
            subscriptions: Findings::new(Looked { graph, tree, rows: &rows_after, values: &NoValues }).subscriptions,
            rows,
            sides: [Side::of(before.0, &rows_before), Side::of(after.0, &rows_after)],
            is_complete: before.0.is_complete() && after.0.is_complete(),
            notes,
            after,
        }
    }

    /// As JSON: all types.
    pub fn json(&self) -> Page {
        let [before, after] = self.sides.each_ref().map(Side::json);
        let (holders, new_paths) = (self.holders_json(), self.paths_json());
        Page::json(&Summary {
            complete: self.is_complete,
            before,
            after,
            types: self.rows.iter().map(row_json).collect(),
            holders_left_out: self.holders.len() - holders.len(),
            holders,
            suspect_details: self.suspects().json(),
            new_paths_left_out: self.new_paths.count() - new_paths.len(),
            new_paths,
            notes: self.notes.clone(),
        })
    }

    /// As text, with `top` rows.
    pub fn text(&self, top: usize) -> Page {
        let notes: Page = self.notes.iter().map(|note| line(format!("note: {note}"))).sum();
        let head = head(&self.sides) + notes;
        if self.rows.is_empty() {
            return head
                + titled(
                    "Nothing has changed: every type has as many objects and bytes as before, and retains as much.",
                );
        }
        let (own, others): (Vec<&DiffRow>, Vec<&DiffRow>) = self.rows.iter().partition(|row| is_own(row));
        let mut text = head + table("application types", &own, top) + table("types of the framework", &others, top);
        text += self.holder_table(top);
        if !self.suspects.is_empty() {
            text += self.suspects().text();
        }
        text + self.path_table(top)
    }

    fn suspects(&self) -> Suspects<'_> {
        let (Snapshot { graph, state, .. }, tree) = self.after;
        Suspects { graph, tree, state, subscriptions: &self.subscriptions, all: &self.suspects }
    }

    /// The first holders. A million of them may have one type, with a name of kilobytes.
    fn holders_json(&self) -> Vec<HolderJson> {
        let (graph, allowance) = (&self.after.0.graph, Allowance::new(Allowance::VALUES));
        let has_room = |row: &&Growing| allowance.take(STEP + graph.type_at(row.now.of).name.len());
        self.holders.iter().take_while(has_room).map(|row| self.holder_json(row)).collect()
    }

    fn holder_json(&self, Growing { now, before }: &Growing) -> HolderJson {
        let graph = &self.after.0.graph;
        HolderJson {
            r#type: graph.shown_type(now.of).into_owned(),
            held_by: now.held_by.clone(),
            objects: now.objects,
            example: graph.address(now.first),
            retained_before: *before,
            retained_after: now.retained,
        }
    }

    fn holder_table(&self, top: usize) -> Page {
        if self.holders.is_empty() {
            return Page::default();
        }
        let columns = Columns { numbers: &["retained", "now"], texts: &["object", "held by"] };
        let graph = &self.after.0.graph;
        let mut table = columns.table(self.holders.iter().take(top).map(|row| {
            let Growing { now, .. } = row;
            let held_by = now.held_by.clone().unwrap_or_default();
            [signed(row.growth().into(), shown), shown(now.retained), now.name(graph), held_by]
        }));
        table.let_last_go_below();
        titled("growing holders: objects that no other object alone keeps")
            + table.render()
            + more(self.holders.len(), top)
    }

    fn paths_json(&self) -> Vec<PathJson> {
        let allowance = Allowance::new(Allowance::VALUES);
        self.new_paths.shown(JSON, &allowance).take(PATHS_JSON).map(path_json).collect()
    }

    fn path_table(&self, top: usize) -> Page {
        let count = self.new_paths.count();
        if count == 0 {
            return Page::default();
        }
        let allowance = Allowance::new(Allowance::VALUES);
        let rows: Vec<[String; 2]> = self.new_paths.shown(TEXT, &allowance).take(top).map(path_cells).collect();
        let left_out = match count - rows.len() {
            // No `--top` shows more of these.
            left if rows.len() < top.min(count) => line(format!("and {}", counted(left as u64, "other"))),
            _ => more(count, rows.len()),
        };
        let columns = Columns { numbers: &["objects"], texts: &["path"] };
        titled("new paths to roots, of objects of the types that grew most")
            + columns.table(rows.into_iter()).render()
            + left_out
    }
}

impl Growing {
    fn growth(&self) -> u64 {
        self.now.retained - self.before
    }
}

/// The note on snapshots of which one has roots that were not looked for in the other.
const OTHER_ROOTS: &str = "the two did not look for the same kinds of roots (`--roots`, static fields): \
                           holders are compared by their type alone, and paths to roots not at all";

/// Whether the snapshot has roots of static fields, and whether it has any of those that only `--roots` finds.
fn seen_roots(graph: &HeapGraph) -> (bool, bool) {
    let has = |is_meant: fn(RootKind) -> bool| graph.roots().iter().any(|root| is_meant(root.kind));
    (has(|kind| kind == RootKind::Static), has(|kind| !matches!(kind, RootKind::Static | RootKind::Inferred)))
}

/// The holders that retain more than before, the largest growth first. Without `by_root`, those of one type are compared as one: a root
/// that was not looked for says nothing of growth.
fn growing(before: (&Snapshot, &DominatorTree), after: (&Snapshot, &DominatorTree), by_root: bool) -> Vec<Growing> {
    let graph = &before.0.graph;
    let holders = |graph: &HeapGraph, tree: &DominatorTree| {
        let rows = holders(graph, tree);
        if by_root { rows } else { Holders::by_type(rows) }
    };
    let mut known = HashMap::<(&str, Option<String>), u64>::new();
    for row in holders(graph, before.1) {
        *known.entry((&graph.type_at(row.of).name, row.held_by)).or_default() += row.retained;
    }
    let grown = |now: Holders| {
        let key = (&*after.0.graph.type_at(now.of).name, now.held_by.clone());
        let before = known.get(&key).copied().unwrap_or(0);
        (now.retained > before).then_some(Growing { now, before })
    };
    let mut grown: Vec<Growing> = holders(&after.0.graph, after.1).into_iter().filter_map(grown).collect();
    grown.sort_by_key(|row| (Reverse(row.growth()), row.now.first));
    grown
}

/// The types whose paths are compared: of the application if one of its types grew, otherwise the others.
fn traced(rows: &[DiffRow]) -> Vec<(&str, &str)> {
    let grown = || rows.iter().filter(|row| row.retained_growth() > 0 && row.after.count > row.before.count);
    let types =
        |own: bool| grown().filter(move |row| is_own(row) == own).take(TRACED).map(|row| (&*row.name, &*row.assembly));
    let own: Vec<(&str, &str)> = types(true).collect();
    if own.is_empty() { types(false).collect() } else { own }
}

fn is_own(row: &DiffRow) -> bool {
    of_application(&row.assembly, &row.name)
}

fn path_json(path: NewPath<'_>) -> PathJson {
    let mut steps = path.begins.into_iter().chain(path.ends).map(str::to_owned);
    PathJson {
        objects: path.objects,
        root: steps.next().unwrap_or_default(),
        types: steps.collect(),
        types_left_out: Some(path.left_out).filter(|count| *count > 0),
    }
}

/// A path as a row of a table.
fn path_cells(path: NewPath<'_>) -> [String; 2] {
    let hidden = (path.left_out > 0).then(|| format!("… {}", counted(path.left_out as u64, "other")));
    let steps = path.begins.into_iter().chain(hidden.as_deref()).chain(path.ends);
    [grouped(path.objects), steps.collect::<Vec<_>>().join(" → ")]
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
        application: is_own(row),
        before: row.before.into(),
        after: row.after.into(),
    }
}

fn table(title: &str, rows: &[&DiffRow], top: usize) -> Page {
    if rows.is_empty() {
        return Page::default();
    }
    let columns = Columns { numbers: &["retained", "own", "objects", "now"], texts: &["type"] };
    let mut assemblies = HashMap::<&str, HashSet<&str>>::new();
    for row in rows {
        assemblies.entry(&row.name).or_default().insert(&row.assembly);
    }
    let name = |row: &DiffRow| match assemblies[&*row.name].len() {
        1 => row.name.clone(),
        _ => format!("{}, {}", row.name, row.assembly),
    };
    let growth = |row: &DiffRow| i128::from(row.after.count) - i128::from(row.before.count);
    let cells = |row: &&DiffRow| {
        [
            signed(row.retained_growth(), shown),
            signed(row.growth(), shown),
            signed(growth(row), grouped),
            grouped(row.after.count),
            name(row),
        ]
    };
    // What types retain has no sum: a part of it is in what others retain.
    let together = |others: &[&DiffRow]| {
        let own = others.iter().map(|row| row.growth()).sum();
        let objects = others.iter().map(|row| growth(row)).sum();
        vec![String::new(), signed(own, shown), signed(objects, grouped), grouped(sum(others, |row| row.after.count))]
    };
    let table = columns.top_with_sums(rows, top, cells, together);
    titled(format!("{title}, by growth of their retained size")) + table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_paths::tests::list;
    use remora_heap::{Builder, Object, ObjectIx, TypeFlags};

    fn snapshot(graph: HeapGraph) -> Snapshot {
        Snapshot {
            roots_unnamed: 0,
            statics_left_out: 0,
            statics: Vec::new(),
            graph,
            free_bytes: 0,
            free_in: [0; 5],
            state: State { complete: true, ..State::default() },
            whole: true,
            unknown_chunks: 0,
            torn_bytes: 0,
        }
    }

    fn compared<T>(before: HeapGraph, after: HeapGraph, look: impl FnOnce(&Diff<'_>) -> T) -> T {
        let [before, after] = [before, after].map(snapshot);
        let trees = [&before, &after].map(|side| DominatorTree::new(&side.graph));
        look(&Diff::new((&before, &trees[0]), (&after, &trees[1])))
    }

    /// Objects of one type, each with a root of its own.
    fn holders_of_one_type(objects: u64, name: &str) -> HeapGraph {
        let mut builder = Builder::new();
        let of = Type { name: name.into(), assembly: "App".into(), flags: TypeFlags::default() };
        let type_ix = builder.add_type(of).expect("there is room");
        for address in (1..=objects).map(|index| index * 24) {
            builder.add_object(Object { address, type_ix, bytes: 24 }, []).expect("there is room");
            builder.add_root(address, RootKind::Static).expect("there is room");
        }
        let mut graph = builder.finish().expect("there is room");
        for index in 0..objects as u32 {
            graph.note_root(ObjectIx(index), RootKind::Static, format!("App.Cache.field{index}"));
        }
        graph
    }

    #[test]
    fn regression_a_difference_wrote_the_path_of_each_node_of_a_list_of_alternating_types() {
        let (json, text) = compared(list(2), list(3000), |diff| (diff.json(), diff.text(1_000_000)));
        assert_eq!(json.matches("\"root\": \"static\"").count(), 1000);
        assert!(json.contains("\"new_paths_left_out\": 1998") && json.len() < 20 << 20, "{} bytes", json.len());
        let longest = text.lines().map(str::len).max();
        assert!(longest.is_some_and(|bytes| bytes < 300), "{longest:?}");
        let end = "      1  static → App.Even → App.Odd → App.Even → App.Odd → App.Even → App.Odd → App.Even → App.Odd → App.Even \
                   → … 2,986 others → App.Odd → App.Even → App.Odd → App.Even → App.Odd\n";
        assert!(text.contains(end), "{:?}", text.lines().last());
    }

    /// `--roots`, which the report of the first one suggests, made each handle and each local a new holder.
    #[test]
    fn regression_what_only_the_later_snapshot_looked_for_was_shown_as_growth() {
        let rooted = |kind| {
            let mut graph = Builder::new();
            let page = Type { name: "App.Page".into(), assembly: "App".into(), flags: TypeFlags::default() };
            let page = graph.add_type(page).expect("there is room");
            for address in [0x1000, 0x2000] {
                graph.add_object(Object { address, type_ix: page, bytes: 24 }, []).expect("there is room");
                graph.add_root(address, kind).expect("there is room");
            }
            graph.finish().expect("there is room")
        };
        let (holders, json) =
            compared(rooted(RootKind::Inferred), rooted(RootKind::Handle), |diff| (diff.holders.len(), diff.json()));
        assert_eq!(holders, 0);
        assert!(
            json.contains("did not look for the same kinds of roots") && json.contains("\"new_paths\": []"),
            "{json}"
        );
        let same = compared(rooted(RootKind::Handle), rooted(RootKind::Handle), |diff| diff.json());
        assert!(!same.contains("did not look"), "{same}");
    }

    #[test]
    fn paths_that_a_table_has_no_room_for_are_counted() {
        let text = compared(list(2), list(3000), |diff| diff.text(10));
        assert!(text.ends_with("and 2,988 others (--top shows more)\n"), "{:?}", text.lines().last());
    }

    #[test]
    fn regression_the_type_name_of_many_holders_was_repeated_for_each_of_them() {
        let name = "N".repeat(16 << 10);
        let (before, after) = (holders_of_one_type(0, &name), holders_of_one_type(5000, &name));
        let rows = compared(before, after, |diff| diff.holders_json());
        let bytes: usize = rows.iter().map(|row| row.r#type.len()).sum();
        assert!((60 << 20..=Allowance::VALUES).contains(&bytes), "{bytes} bytes of names");
        assert_eq!((rows[0].objects, rows.len()), (1, 4080));
        let json = compared(holders_of_one_type(0, "App.Page"), holders_of_one_type(9, "App.Page"), |diff| diff.json());
        assert!(json.contains("\"holders_left_out\": 0,"), "{json}");
    }
}
