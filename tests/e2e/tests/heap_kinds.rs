//! A program with known numbers of objects of every kind: a snapshot must have the same counts, bytes, references and retained bytes.
#![forbid(unsafe_code)]

#[path = "support/heap.rs"]
mod heap;

use heap::snapshot;
use remora_e2e::{Runtime, Target, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The number of each kind: a class's layout is trusted only after some of its objects.
const ROUNDS: u64 = 50;

/// A leaf: header, class, a number; also the minimum size of any object.
const LEAF: u64 = 24;

/// For each round: type, objects, bytes, references, and retained bytes.
type Row = (&'static str, u64, u64, u64, u64);

/// Objects made once in each round. A size is header, class and fields; the runtime reorders the fields of nested values.
const ROWS: &[Row] = &[
    ("Kinds.Leaf", 37, 37 * LEAF, 0, 37 * LEAF),
    // A cycle is retained as a whole.
    ("Kinds.Ring", 7, 7 * 24, 7, 7 * 24),
    ("Kinds.Self", 1, 24, 1, 24),
    ("Kinds.Left", 1, 24, 1, 48),
    ("Kinds.Right", 1, 24, 1, 24),
    ("Kinds.Derived", 1, 48, 2, 48 + 2 * LEAF),
    // The boxed value refers to two of its leaves, too.
    ("Kinds.HasNested", 1, 104, 6, 104 + LEAF),
    ("Kinds.Two", 1, 40, 2, 40),
    // More runs of references than the walk records for a class.
    ("Kinds.HasSixteen", 1, 400, 12, 400 + 8 * LEAF),
    ("Kinds.Sixteen[]", 1, 24 + 2 * 384, 12, 24 + 2 * 384 + 8 * LEAF),
    ("Kinds.Explicit", 1, 32, 1, 32 + LEAF),
    ("Kinds.Colour", 1, 24, 0, 24),
    ("Kinds.Plain", 1, 32, 0, 32),
    ("Kinds.Two[]", 1, 24 + 5 * 24, 8, 24 + 5 * 24 + 8 * LEAF),
    ("Kinds.Nested[]", 1, 24 + 3 * 40, 3, 24 + 3 * 40 + 3 * LEAF),
    ("Kinds.Box<int>", 1, 24, 0, 24),
    ("Kinds.Box<Kinds.Leaf>", 2, 48, 1, 48 + LEAF),
    ("Kinds.Box<string>", 1, 24, 1, 24 + 22 + 2 * 10),
    ("Kinds.Box<Kinds.Box<Kinds.Leaf>>", 1, 24, 1, 48),
    ("Kinds.Box<Kinds.Two>", 1, 40, 1, 40 + LEAF),
    ("Kinds.Box<Kinds.Colour>", 1, 24, 0, 24),
    ("Kinds.Box<int[]>", 1, 24, 1, 24 + 32),
    ("Kinds.Box<Kinds.Plain?>", 1, 32, 0, 32),
    // All share one string, a literal.
    ("Kinds.Outer<int>.Inner<string>", 1, 32, 1, 32),
    ("Kinds.Outer<Kinds.Leaf>.Inner<Kinds.Plain>", 1, 40, 1, 40 + LEAF),
    ("Kinds.Owner", 1, 32, 2, OWNED),
    ("Kinds.Item", 3, 72, 0, 72),
    // One of them has lower bound 1: it also stores bound and length.
    ("Kinds.Item[]", 2, 32 + 48, 2, 32 + 48 + 48),
    ("Kinds.Item[,]", 1, 24 + 16 + 6 * 8, 1, 24 + 16 + 6 * 8 + 24),
    ("Kinds.Item[][]", 1, 40, 1, 40 + 32 + 24),
    ("Kinds.Odd[]", 1, 24 + 15, 0, 24 + 15),
    ("Kinds.Colour[]", 1, 24 + 6, 0, 24 + 6),
    ("Kinds.Plain[]", 1, 24, 0, 24),
    // Large ones.
    ("Kinds.Huge[]", 1, 24 + 20_000 * 16, 0, 24 + 20_000 * 16),
    ("Kinds.Member[]", 1, 24 + 20_000 * 8, 1000, 24 + 20_000 * 8 + 1000 * 24),
    ("Kinds.Member", 1000, 24_000, 0, 24_000),
    // Held by handles; a weak handle retains nothing.
    ("Kinds.Handled", 1, 24, 0, 24),
    ("Kinds.Fixed[]", 1, 24 + 7 * 4, 0, 24 + 7 * 4),
    ("Kinds.Weakly", 1, 24, 0, 24),
    ("Kinds.Dead", 0, 0, 0, 0),
    ("Kinds.Finalized", 1, 24, 0, 24),
    // A dependent handle adds no reference.
    ("Kinds.Key", 1, 24, 0, 24),
    ("Kinds.Value", 1, 24, 1, 24 + LEAF),
    ("Kinds.Closed", 3, 72, 0, 72),
    // Each object of a collectible type refers to its loader allocator.
    ("Loaded.Thing", 1, 24, 2, 48),
    ("Loaded.Thing[]", 1, 56, 1, 56),
    ("Loaded.Alone", 2, 48, 2, 48),
];

/// An owner, its two arrays, and their elements: arrays of every element kind, and strings.
const OWNED: u64 = 32 + THINGS + PLANES + TEXTS;
const THINGS: u64 = 24 + 20 * 8 + 27 + 30 + 27 + 27 + 30 + 30 + 36 + 36 + 48 + 48 + 36 + 48 + 48 + 48 + 39 + 30 + 24;
const PLANES: u64 = (88 + 24) + (40 + 32 + 24) + (48 + 24);
const TEXTS: u64 = 24 + 4 * 8 + (22 + 2) + (22 + 4) + (22 + 2002);

/// Objects that exist once.
const ONCE: &[&str] = &["Kinds.OnStack", "Kinds.OnThread", "Kinds.InStatic"];

/// Count, bytes, references and retained bytes by type.
fn taken(target: &Target, file: &Path) -> BTreeMap<String, [u64; 4]> {
    let process = target.pid().to_string();
    let shown = remora(["heap", "-p", &process, "--json", "-o", file.to_str().expect("a name")]).succeeded().json();
    assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&Value::Bool(true), &Value::Bool(true)), "{shown:#}");
    let graph = snapshot(file).graph;
    let mut references = BTreeMap::<&str, u64>::new();
    for object in graph.objects() {
        *references.entry(&graph.type_of(object).name).or_default() += graph.references(object).len() as u64;
    }
    let number = |row: &Value, what: &str| row[what].as_u64().expect("a number");
    let mut rows = BTreeMap::<String, [u64; 4]>::new();
    for row in shown["types"].as_array().expect("types") {
        let name = row["type"].as_str().expect("a name");
        let [count, bytes, all, retained] = rows.entry(name.to_owned()).or_default();
        // An array with lower bound 1 has another class with the same name, and a separate row.
        *count += number(row, "count");
        *bytes += number(row, "bytes");
        *all = references.get(name).copied().unwrap_or(0);
        *retained += number(row, "retained");
    }
    rows
}

#[track_caller]
fn assert_holds(taken: &BTreeMap<String, [u64; 4]>, name: &str, expected: [u64; 4]) {
    holds!(
        GCH_02 clr rem, taken.get(name).copied().unwrap_or_default() == expected,
        "{name}: count, bytes, references, retained"
    );
}

#[test]
fn gch_02_every_kind_of_object_is_counted_with_its_bytes_references_and_what_it_retains() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "kinds", &[&ROUNDS.to_string()]);
        let folder = tempfile::tempdir().expect("a folder");
        let before = taken(&target, &folder.path().join("before.remora-heap"));
        for &(name, count, bytes, references, retained) in ROWS {
            assert_holds(&before, name, [count, bytes, references, retained].map(|number| ROUNDS * number));
        }
        let pinned = pinned_arrays(runtime, &mut target);
        assert_holds(&before, "Kinds.Pinnable[]", [pinned, pinned * (24 + 88), 0, pinned * (24 + 88)]);
        assert_holds(&before, "Kinds.InGenericStatic", [2, 48, 0, 48]);
        ONCE.iter().for_each(|name| assert_holds(&before, name, [1, 24, 0, 24]));
        assert_eq!(target.ask("held"), "whole");

        // Only the objects held by the thread are gone.
        assert_eq!(target.ask("end"), "ended");
        let after = taken(&target, &folder.path().join("after.remora-heap"));
        for name in ["Kinds.OnStack", "Kinds.OnThread"] {
            assert_holds(&after, name, [0; 4]);
        }
        for (name, row) in before.iter().filter(|(name, _)| name.starts_with("Kinds.") && !name.starts_with("Kinds.On"))
        {
            assert_holds(&after, name, *row);
        }
    });
}

/// The heap of pinned objects came with .NET 5.
fn pinned_arrays(runtime: &Runtime, target: &mut Target) -> u64 {
    let has_pinned_heap = target.ask("pinned heap") == "yes";
    assert_eq!(has_pinned_heap, runtime.major() >= 5);
    if has_pinned_heap { ROUNDS } else { 0 }
}
