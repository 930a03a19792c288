//! `remora heap --no-gc` on live runtimes: the heap including garbage, without a GC.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Target, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;

const NODES: u64 = 20_000;

/// The first runtime version that supports it.
const FIRST: u32 = 9;

#[test]
fn gch_02_det_14_without_a_collection_every_object_is_there_and_garbage_too() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&NODES.to_string()]);
        let directory = tempfile::tempdir().unwrap();
        let (process, file) = (target.pid().to_string(), directory.path().join("as-it-is.remora-heap"));
        let take = ["heap", "--process-id", &process, "--no-gc", "--json", "-o", file.to_str().unwrap()];
        if runtime.major() < FIRST {
            remora(take).failed_with(19, &["that came with .NET 9", "leave --no-gc out"]);
            return;
        }
        for round in 0..3 {
            let (before, collections) = (Facts::of(target.pid()), target.ask_number("collections"));
            let shown = remora(take).succeeded().json();
            assert_eq!((&shown["complete"], &shown["garbage"]), (&Value::Bool(true), &Value::Bool(true)), "{shown:#}");
            assert_eq!((&shown["receipt"]["clean"], &shown["notes"]), (&Value::Bool(true), &Value::Array(vec![])));
            let row = shown["types"].as_array().unwrap().iter().find(|row| row["type"] == "Known.Node").unwrap();
            assert_eq!(row["count"], NODES, "round {round}: they are all alive");
            assert_eq!(target.ask_number("collections"), collections, "round {round}: nothing was collected");
            holds!(
                DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new(), "round {round}"
            );
            std::fs::remove_file(&file).unwrap();
        }
        // Garbage exists until the next GC.
        target.ask_number("waste 1000");
        let counted = |shown: &Value| {
            let rows = shown["types"].as_array().unwrap();
            rows.iter().find(|row| row["type"] == "Known.Waste").map_or(0, |row| row["count"].as_u64().unwrap())
        };
        assert_eq!(counted(&remora(take).succeeded().json()), 1000);
        std::fs::remove_file(&file).unwrap();
        let collected = ["heap", "--process-id", &process, "--json", "-o", file.to_str().unwrap()];
        holds!(GCH_02 clr rem, counted(&remora(collected).succeeded().json()) == 0);
    });
}
