//! What a report finds by itself, in a program that was made to have it in known numbers, and beside it what looks alike and is in order.
#![forbid(unsafe_code)]

use remora_e2e::{Runtime, Target, on_every_runtime, remora};
use serde_json::{Value, json};

/// A payload, its array of bytes, and the subscriber that has it.
const SUBSCRIBER: u64 = 24 + (24 + 1000) + 24;
/// What captured a subscriber is not part of it.
const PLACES: u64 = 1000;
/// What a hashed collection makes of 1,000 that are asked for: the next prime that it knows.
const HASHED: u64 = 1103;

/// What the report of a snapshot says, for programs.
fn taken(runtime: &Runtime) -> Value {
    let mut target = Target::start(runtime, "found", &[]);
    assert_eq!(target.ask("bytes"), "1000");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("found.remora-heap");
    let (process, file) = (target.pid().to_string(), file.to_str().expect("a name"));
    let told = remora(["heap", "-p", &process, "--json", "-o", file]).succeeded().json();
    assert_eq!(told["complete"], Value::Bool(true), "{told:#}");
    told
}

/// The rows of a finding that are about the program's own types: those columns of each, in the order of the report.
#[track_caller]
fn rows(told: &Value, finding: &str, list: &str, about: &str, columns: &[&str]) -> Vec<Value> {
    let all = told["findings"][finding][list].as_array().expect("a list");
    let own = all.iter().filter(|row| [about, "method"].iter().any(|what| row[*what].as_str().is_some_and(is_own)));
    own.map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

fn is_own(name: &str) -> bool {
    name.contains("Found.") || name.contains("Item>") || name.contains("Pair>")
}

#[test]
fn what_wastes_room_is_found_with_its_numbers() {
    on_every_runtime(|runtime| {
        let told = taken(runtime);
        let arrays = rows(&told, "empty_arrays", "types", "type", &["type", "count", "places", "empty", "wasted"]);
        let expected = [
            json!(["Found.Place[]", 5, 5 * PLACES, 5 * PLACES - 100, 8 * (5 * PLACES - 100)]),
            json!(["Found.Place[,]", 1, 2000, 1999, 8 * 1999]),
        ];
        assert_eq!(arrays, expected);
        let mut collections =
            rows(&told, "collections", "types", "type", &["type", "count", "places", "used", "wasted", "exact"]);
        let generic = "System.Collections.Generic.";
        let of = |name: &str, count: u64, places: u64, used: u64, each: u64| {
            json!([format!("{generic}{name}"), count, places, used, (places - used) * each, false])
        };
        let mut expected = vec![
            of("Dictionary<int, Item>", 1, HASHED, 7, 24 + 4),
            // A key and a value for each of seven entries.
            of("Dictionary<string, Item>", 1, HASHED, 2 * 7, 24 + 4),
            of("List<Item>", 3, 3 * PLACES, 3 * 2, 8),
            of("HashSet<Item>", 1, HASHED, 7, 16 + 4),
            of("Stack<Item>", 1, 600, 1, 8),
            of("Queue<Item>", 1, 500, 0, 8),
        ];
        let by_name = |row: &Value| row[0].to_string();
        collections.sort_by_key(by_name);
        expected.sort_by_key(by_name);
        assert_eq!(collections, expected);
        // Numbers, pairs, characters and bytes: only their fields say how many are in use.
        assert_eq!(told["findings"]["collections"]["not_judged"], 5, "{:#}", told["findings"]["collections"]);
    });
}

#[test]
fn subscribers_that_only_an_event_keeps_are_found_and_others_are_not() {
    on_every_runtime(|runtime| {
        let told = taken(runtime);
        let columns = ["publisher", "events", "subscriber", "count", "retained"];
        let expected = [
            json!(["Found.Publisher", ["Changed"], "Found.Subscriber", 20, 20 * SUBSCRIBER]),
            json!([null, [], "Found.ByStatic", 3, 3 * SUBSCRIBER]),
            json!(["Found.Publisher", ["Changed"], "Found.Captures", 2, 2 * SUBSCRIBER]),
            json!(["Found.Derived", ["Custom"], "Found.Alone", 1, SUBSCRIBER]),
        ];
        assert_eq!(rows(&told, "subscriptions", "subscribers", "subscriber", &columns), expected);
    });
}

#[test]
fn what_waits_is_found_by_what_it_waits_for() {
    on_every_runtime(|runtime| {
        let told = taken(runtime);
        let expected = [
            json!(["Found.Program.Waits", 7, null]),
            json!(["Found.Program.WaitsForNumber", 4, null]),
            json!(["Found.Program.EndsLater", 3, null]),
        ];
        assert_eq!(rows(&told, "tasks", "types", "method", &["method", "count", "pending"]), expected);
        let timers = rows(&told, "timers", "types", "type", &["type", "count", "scheduled"]);
        let expected = [json!(["Found.Clock", 4, 4]), json!(["Found.State", 1, 1]), json!(["Found.Stopped", 3, 0])];
        assert_eq!(timers, expected);
        let delays = told["findings"]["timers"]["types"].as_array().expect("a list");
        let delay = delays.iter().find(|row| row["type"] == "System.Threading.Tasks.Task.DelayPromise");
        assert_eq!(delay.map(|row| (&row["count"], &row["scheduled"])), Some((&json!(3), &json!(3))));
    });
}

#[test]
fn what_has_a_finalizer_is_found_inherited_ones_too_and_what_only_looks_like_one_is_not() {
    on_every_runtime(|runtime| {
        let told = taken(runtime);
        let expected = [json!(["Found.Finalized", 6]), json!(["Found.Inherits", 4]), json!(["Found.Again", 2])];
        assert_eq!(rows(&told, "finalizers", "types", "type", &["type", "count"]), expected);
        assert_eq!(told["findings"]["finalizers"]["waiting"], Value::Null, "nobody has seen the queue");
    });
}

#[test]
fn objects_are_counted_by_assembly() {
    on_every_runtime(|runtime| {
        let told = taken(runtime);
        let number = |rows: &str, what: &str| -> u64 {
            told[rows].as_array().expect("rows").iter().map(|row| row[what].as_u64().expect("a number")).sum()
        };
        assert_eq!(number("assemblies", "count"), number("types", "count"));
        assert_eq!(number("assemblies", "bytes"), told["bytes"].as_u64().expect("a number"));
        let own = |rows: &str, what: &str| -> u64 {
            let all = told[rows].as_array().expect("rows").iter();
            all.filter(|row| row["assembly"] == "found").map(|row| row[what].as_u64().expect("a number")).sum()
        };
        assert_eq!(
            (own("assemblies", "count"), own("assemblies", "bytes")),
            (own("types", "count"), own("types", "bytes"))
        );
    });
}
