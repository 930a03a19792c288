//! Hostile heap snapshots, and everything computed from them: reports, queries, exports.

use remora_heap::diff::{self, Snapshot};
use remora_heap::findings::{Findings, Looked, NoValues};
use remora_heap::layout::Layouts;
use remora_heap::{Allowance, DominatorTree, HeapGraph, Referrers, ShortestPaths, StaticField, tables};
use remora_heap_export::{About, Format, Table, TooLarge};
use remora_heap_file::{Limits, State, TypeRow, Writer};
use std::io::{self, Write};

/// Objects that a file of some kilobytes may claim.
const OBJECTS: u32 = 1 << 20;
/// Their maximum total bytes: exports split an object into pieces of 2 GiB, and an address space has 131,072 of them.
const BYTES: u64 = 1 << 42;
/// Bytes of a type's name, and the number of named types.
const NAME: usize = 16;
const NAMES: usize = 32;
/// Types that findings recognise by name.
const KNOWN: [&str; 9] = [
    "System.Object",
    "System.Object[]",
    "System.MulticastDelegate",
    "System.EventHandler",
    "System.Collections.Generic.List<Node>",
    "System.Collections.Generic.Dictionary<Node, Node>",
    "System.Threading.Tasks.Task",
    "System.Threading.TimerQueueTimer",
    "App.Shop.<>c__DisplayClass0_0",
];
/// Number of objects queried.
const ASKED: usize = 64;
/// Maximum bytes of an export: for each item of the graph, and for an empty one.
const LONGEST: u64 = 512;
const BESIDE: u64 = 64 << 10;

fn opened(file: &[u8]) -> Option<remora_heap_file::Snapshot> {
    let limits = Limits { objects: OBJECTS, references: OBJECTS, types: OBJECTS, bytes: BYTES, ..Limits::MOST };
    let mut snapshot = remora_heap_file::read(file, limits).ok()?;
    snapshot.graph.infer_roots();
    Some(snapshot)
}

/// The snapshot of a file with these bytes as stream, and with type names from them. Checksums would reject damage to a complete file,
/// but an attacker computes valid ones.
fn opened_stream(bytes: &[u8]) -> Option<remora_heap_file::Snapshot> {
    let text = |piece: &[u8]| String::from_utf8_lossy(piece).into_owned();
    let rows: Vec<TypeRow> = bytes
        .chunks(NAME)
        .enumerate()
        .map(|(number, piece)| TypeRow {
            name: text(piece),
            assembly: text(&piece[..1]),
            flags: number as u32,
            events: vec![(text(piece), text(piece))],
        })
        .take(NAMES)
        .collect();
    opened_as(bytes, &rows)
}

/// The same with type names that findings recognise.
fn opened_as_known(bytes: &[u8]) -> Option<remora_heap_file::Snapshot> {
    let assembly = "System.Private.CoreLib".to_owned();
    let events = vec![("Changed".to_owned(), "System.EventHandler".to_owned())];
    let row = |name: &&str| TypeRow {
        name: (*name).to_owned(),
        assembly: assembly.clone(),
        flags: 4,
        events: events.clone(),
    };
    // The mapping from classes to names depends on the input.
    let first = bytes.len() % KNOWN.len();
    opened_as(bytes, &KNOWN.iter().cycle().skip(first).take(NAMES).map(row).collect::<Vec<_>>())
}

fn opened_as(bytes: &[u8], rows: &[TypeRow]) -> Option<remora_heap_file::Snapshot> {
    let notes = vec![String::from_utf8_lossy(bytes).into_owned()];
    let state = State { complete: true, notes, ..State::default() };
    let file = Writer::create(Vec::new()).and_then(|mut file| {
        file.stream(bytes)?;
        file.types(rows)?;
        file.finish(&state)
    });
    opened(&file.ok()?)
}

pub(crate) fn heap_file(bytes: &[u8]) -> bool {
    let Some(snapshot) = opened(bytes) else { return false };
    retained_adds_up(&snapshot.graph);
    let enough = Allowance::new(Allowance::VALUES);
    let named = |field: &StaticField| (field.whole_name(), field.member(&Layouts::default(), &enough), field.holds());
    assert!(snapshot.statics.iter().map(named).all(|(name, ..)| !name.is_empty()));
    snapshot.whole
}

fn retained_adds_up(graph: &HeapGraph) {
    let tree = DominatorTree::new(graph);
    assert_eq!(tree.retained(tree.root()), bytes_of(graph));
    assert!(graph.objects().all(|object| tree.retained(tree.node(object)) >= graph.bytes(object)));
}

fn bytes_of(graph: &HeapGraph) -> u64 {
    graph.objects().map(|object| graph.bytes(object)).sum()
}

/// The queries of `heap report`, `heap show` and `heap diff`.
pub(crate) fn heap_questions(bytes: &[u8]) -> bool {
    let Some(snapshot) = opened_stream(bytes) else { return false };
    let graph = &snapshot.graph;
    retained_adds_up(graph);
    let tree = DominatorTree::new(graph);
    let (types, assemblies) = (tables::by_type(graph, &tree), tables::by_assembly(graph, &tree));
    assert_eq!(types.iter().map(|row| row.totals.count).sum::<u64>(), graph.object_count() as u64);
    assert_eq!(types.iter().map(|row| row.totals.bytes).sum::<u64>(), bytes_of(graph));
    assert_eq!(assemblies.iter().map(|row| row.totals.bytes).sum::<u64>(), bytes_of(graph));
    assert!(types.iter().all(|row| row.totals.bytes <= row.totals.retained && row.totals.retained <= bytes_of(graph)));
    let (paths, referrers) = (ShortestPaths::new(graph), Referrers::new(graph));
    let all: usize = graph.objects().map(|object| referrers.of(object).len()).sum();
    assert_eq!(all, graph.reference_count());
    for object in graph.objects().take(ASKED) {
        // Every object has a root, if only an inferred one.
        let path = paths.to(graph, object).map(|path| path.objects);
        assert_eq!(path.and_then(|objects| objects.last().copied()), Some(object));
        assert_eq!(Referrers::of_one(graph, object).count(), referrers.of(object).len());
        assert_eq!(graph.object_at(graph.address(object)), Some(object));
    }
    let same = Snapshot { graph, rows: &types };
    assert!(diff::by_type(same, same).is_empty());
    findings_hold(graph, &tree);
    if let Some(known) = opened_as_known(bytes) {
        findings_hold(&known.graph, &DominatorTree::new(&known.graph));
    }
    snapshot.whole
}

/// Every finding refers to the heap.
fn findings_hold(graph: &HeapGraph, tree: &DominatorTree) {
    let rows = tables::by_type(graph, tree);
    let found = Findings::new(Looked { graph, tree, rows: &rows, values: &NoValues });
    let all = bytes_of(graph);
    assert!(found.arrays.wasted <= all && found.subscriptions.retained <= all);
    assert!(found.collections.waste.rows.iter().all(|row| row.used <= row.places));
    assert!(found.timers.scheduled <= found.timers.count);
    assert!(found.tasks.count <= graph.object_count() as u64 && found.finalizers.count <= graph.object_count() as u64);
}

/// The output of `heap convert`.
pub(crate) fn heap_export(bytes: &[u8]) -> bool {
    let Some(snapshot) = opened_stream(bytes) else { return false };
    let graph = &snapshot.graph;
    let state = &snapshot.state;
    let about = About {
        application: state.application.clone(),
        process_id: state.process_id,
        runtime: state.runtime.clone(),
        taken_unix_nanoseconds: state.taken_unix_nanoseconds,
        complete: snapshot.is_complete(),
        notes: state.notes.clone(),
    };
    let names: usize = graph.types().iter().map(|known| known.name.len() + known.assembly.len() + 1).sum();
    let said: usize =
        about.notes.iter().map(String::len).sum::<usize>() + about.application.len() + about.runtime.len();
    // An object too large for a format is split into pieces of 2 GiB.
    let pieces = bytes_of(graph) >> 31;
    let things = graph.object_count() + graph.reference_count() + graph.roots().len() + names + said;
    let longest = LONGEST * (things as u64 + pieces) + BESIDE;
    for format in [Format::HeapSnapshot, Format::GcDump] {
        let refused: Result<(), TooLarge> = remora_heap_export::check(graph, format);
        if refused.is_err() {
            continue;
        }
        let mut written = Bounded { bytes: Vec::new(), longest };
        let wrote = remora_heap_export::write(graph, &about, format, &mut written);
        assert!(wrote.is_ok(), "{format:?}: {wrote:?}");
        if format == Format::HeapSnapshot {
            is_heap_snapshot(&written.bytes, graph);
        }
    }
    let tree = DominatorTree::new(graph);
    for table in Table::ALL {
        let mut written = Bounded { bytes: Vec::new(), longest };
        let wrote = table.write(graph, &tree, &mut written);
        assert!(wrote.is_ok(), "{table:?}: {wrote:?}");
        assert!(written.bytes.starts_with(b"PAR1") && written.bytes.ends_with(b"PAR1"), "{table:?}");
    }
    snapshot.whole
}

/// It is valid JSON for any type names, and has the stated number of nodes and edges.
fn is_heap_snapshot(bytes: &[u8], graph: &HeapGraph) {
    let json: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(json) => json,
        Err(error) => panic!("it is no JSON: {error}"),
    };
    let length = |of: &serde_json::Value| of.as_array().map_or(0, Vec::len);
    let snapshot = &json["snapshot"];
    for (what, count, fields) in [("nodes", "node_count", "node_fields"), ("edges", "edge_count", "edge_fields")] {
        let (count, fields) = (snapshot[count].as_u64(), length(&snapshot["meta"][fields]));
        assert_eq!(count, Some((length(&json[what]) / fields) as u64), "{what}");
        assert!(count >= Some(graph.object_count() as u64 * u64::from(what == "nodes")), "{what}");
    }
}

/// Accepts no more than the maximum.
struct Bounded {
    bytes: Vec<u8>,
    longest: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!((self.bytes.len() + bytes.len()) as u64 <= self.longest, "more than {} bytes", self.longest);
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
