//! `remora heap` on live runtimes: what it counts, and that the process is as it was.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Remora, Target, on_every_runtime, remora, until};
use serde_json::Value;

/// Nodes of the known program.
const NODES: u64 = 20_000;

/// Object header, class and two references.
const NODE: u64 = 32;

fn heap_of(target: &Target) -> Value {
    let finished = remora(["heap", "--process-id", &target.pid().to_string(), "--json"]).succeeded();
    let told = finished.json();
    assert_eq!(told["receipt"]["clean"], true, "{:#}", told["receipt"]);
    assert_eq!((&told["complete"], &told["notes"]), (&Value::Bool(true), &Value::Array(Vec::new())));
    told
}

/// Objects and bytes of a type.
fn of(told: &Value, name: &str) -> (u64, u64) {
    let types = told["types"].as_array().unwrap();
    let row = types.iter().find(|row| row["type"] == name).unwrap_or_else(|| {
        let near: Vec<&Value> =
            types.iter().map(|row| &row["type"]).filter(|text| text.to_string().contains("Known")).collect();
        panic!("no type {name}: {near:?}")
    });
    (row["count"].as_u64().unwrap(), row["bytes"].as_u64().unwrap())
}

#[test]
fn gch_02_det_14_every_object_of_a_known_program_is_counted_and_nothing_is_left_however_often() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&NODES.to_string()]);
        for round in 0..3 {
            let before = Facts::of(target.pid());
            let told = heap_of(&target);
            assert_eq!(of(&told, "Known.Node"), (NODES, NODES * NODE), "round {round}");
            // One is shared.
            assert_eq!(of(&told, "Known.Leaf"), (NODES / 2 + 1, (NODES / 2 + 1) * 24));
            for (name, count) in [
                ("Known.Pair<int, Leaf>", 1),
                ("Known.Pair<string, Node>.Inner", 1),
                ("Known.Leaf[,]", 1),
                ("Known.Node[][]", 1),
                ("Known.Node[]", 1),
            ] {
                assert_eq!(of(&told, name).0, count, "{name}");
            }
            let after = Facts::of(target.pid());
            assert_eq!(after.left_since(&before), Vec::<String>::new(), "round {round}");
            assert_eq!(target.ask_number("nodes"), NODES);
        }
    });
}

#[test]
fn det_16_remora_killed_while_a_heap_is_walked_leaves_neither_library_nor_copy() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["3000000"]);
        let command = Remora::start(["heap", "--process-id", &target.pid().to_string(), "--json"]);
        until("the library is there", || Facts::of(target.pid()).library_is_mapped());
        command.signal(rustix::process::Signal::KILL);
        until("the library is unmapped and the copy gone", || {
            let facts = Facts::of(target.pid());
            !facts.library_is_mapped() && facts.children.is_empty()
        });
        assert_eq!(target.ask_number("nodes"), 3_000_000);
    });
}
