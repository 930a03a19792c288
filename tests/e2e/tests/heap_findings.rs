//! The automatic findings of a report, for a program with known numbers of them, and beside them similar objects that are in order.
#![forbid(unsafe_code)]

use remora_e2e::{Runtime, Target, on_every_runtime, remora};
use serde_json::{Value, json};

/// A payload, its array of bytes, and the subscriber that has it.
const SUBSCRIBER: u64 = 24 + (24 + 1000) + 24;
/// Requested capacity of arrays and collections.
const PLACES: u64 = 1000;
/// The capacity of a hashed collection for a requested 1,000: the next prime in its table.
const HASHED: u64 = 1103;

/// The report of a snapshot as JSON.
fn taken(runtime: &Runtime, flags: &[&str]) -> Value {
    let mut target = Target::start(runtime, "found", &[]);
    assert_eq!(target.ask("bytes"), "1000");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("found.remora-heap");
    let (process, file) = (target.pid().to_string(), file.to_str().expect("a name"));
    let shown = remora(["heap", "-p", &process, "--json", "-o", file].iter().chain(flags)).succeeded().json();
    assert_eq!(shown["complete"], Value::Bool(true), "{shown:#}");
    shown
}

/// The rows of a finding about the program's own types: the given columns of each, in the order of the report.
#[track_caller]
fn rows(shown: &Value, finding: &str, list: &str, about: &str, columns: &[&str]) -> Vec<Value> {
    let all = shown["findings"][finding][list].as_array().expect("a list");
    let own = all.iter().filter(|row| [about, "method"].iter().any(|what| row[*what].as_str().is_some_and(is_own)));
    own.map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

/// Parts of the names of types that only the program defines or uses.
const OWN: [&str; 7] = ["Found.", "Item>", "Pair>", "List<int>", "<int, long>", "StringBuilder", "MemoryStream"];

fn is_own(name: &str) -> bool {
    OWN.iter().any(|part| name.contains(part))
}

#[test]
fn what_wastes_room_is_found_with_its_numbers() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &[]);
        let arrays = rows(&shown, "empty_arrays", "types", "type", &["type", "count", "places", "empty", "wasted"]);
        let expected = [
            json!(["Found.Place[]", 5, 5 * PLACES, 5 * PLACES - 100, 8 * (5 * PLACES - 100)]),
            json!(["Found.Place[,]", 1, 2000, 1999, 8 * 1999]),
        ];
        assert_eq!(arrays, expected);
        // Keys and values of seven entries are references.
        assert_eq!(collections(&shown), in_order(with_references(2 * 7, false)));
        // Numbers, pairs, characters and bytes: only their fields contain the used count.
        assert_eq!(shown["findings"]["collections"]["not_judged"], 5, "{:#}", shown["findings"]["collections"]);
    });
}

/// Rows about collections: type, count, capacity, used, wasted, and whether that is exact.
#[track_caller]
fn collections(shown: &Value) -> Vec<Value> {
    in_order(rows(shown, "collections", "types", "type", &["type", "count", "places", "used", "wasted", "exact"]))
}

fn in_order(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| row[0].to_string());
    rows
}

fn collection(name: &str, (count, places, used): (u64, u64, u64), each: u64, is_exact: bool) -> Value {
    json!([format!("System.{name}"), count, places, used, (places - used) * each, is_exact])
}

/// Collections whose references show how much is used; in one dictionary `used` entries.
fn with_references(used: u64, is_exact: bool) -> Vec<Value> {
    let generic = |name: &str, room, each| collection(&format!("Collections.Generic.{name}"), room, each, is_exact);
    vec![
        generic("Dictionary<int, Found.Item>", (1, HASHED, 7), 24 + 4),
        generic("Dictionary<string, Found.Item>", (1, HASHED, used), 24 + 4),
        generic("List<Found.Item>", (3, 3 * PLACES, 3 * 2), 8),
        generic("HashSet<Found.Item>", (1, HASHED, 7), 16 + 4),
        generic("Stack<Found.Item>", (1, 600, 1), 8),
        generic("Queue<Found.Item>", (1, 500, 0), 8),
    ]
}

#[test]
fn with_values_it_is_known_of_every_collection_how_much_is_used_and_of_every_task_whether_it_is_done() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &["--values"]);
        let mut expected = with_references(7, true);
        expected.extend([
            collection("Collections.Generic.Dictionary<int, long>", (1, HASHED, 7), 24 + 4, true),
            collection("Collections.Generic.List<int>", (1, PLACES, 3), 4, true),
            collection("Collections.Generic.List<Found.Pair>", (1, PLACES, 1), 16, true),
            collection("Text.StringBuilder", (1, 10_000, 3), 2, true),
            collection("IO.MemoryStream", (1, 10_000, 1), 1, true),
        ]);
        assert_eq!(collections(&shown), in_order(expected));
        assert_eq!(shown["findings"]["collections"]["not_judged"], 0, "{:#}", shown["findings"]["collections"]);
        let expected = [
            json!(["Found.Program.Waits", 7, 7]),
            json!(["Found.Program.WaitsForNumber", 4, 4]),
            json!(["Found.Program.EndsLater", 3, 0]),
            json!(["Found.Program.Outer", 2, 2]),
            json!(["Found.Program.Middle", 2, 2]),
            json!(["Found.Program.Inner", 2, 2]),
        ];
        assert_eq!(tasks(&shown), in_order(expected.to_vec()));
    });
}

/// The program's async methods. They come before all other tasks.
fn tasks(shown: &Value) -> Vec<Value> {
    let all = shown["findings"]["tasks"]["types"].as_array().expect("a list");
    let first = all.iter().take_while(|row| row["application"] == true).count();
    assert!(all[first..].iter().all(|row| row["application"] == false), "{all:#?}");
    let found = in_order(rows(shown, "tasks", "types", "method", &["method", "count", "pending"]));
    assert_eq!(found.len(), first, "{all:#?}");
    found
}

#[test]
fn what_an_async_method_waits_for_is_read_from_the_continuations_of_pending_tasks() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &["--values"]);
        let awaits = shown["findings"]["tasks"]["awaits"].as_array().expect("a list");
        let methods = ["Outer", "Middle", "Inner"].map(|method| format!("async Found.Program.{method}"));
        let chain = awaits.iter().find(|chain| chain["path"][0] == methods[0].as_str()).expect("a chain");
        assert_eq!(chain["count"], 2, "{awaits:#?}");
        let path = chain["path"].as_array().expect("names");
        assert_eq!(path[..3], methods.map(Value::from), "{awaits:#?}");
        // The task of the source that nobody completes.
        assert_eq!(path.len(), 4, "{awaits:#?}");
        assert!(awaits.iter().all(|chain| chain["path"][0] != "async Found.Program.Inner"), "{awaits:#?}");
    });
}

#[test]
fn subscribers_that_only_an_event_keeps_are_found_and_others_are_not() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &[]);
        let columns = ["publisher", "events", "subscriber", "count", "retained"];
        let expected = [
            json!(["Found.Publisher", ["Changed"], "Found.Subscriber", 20, 20 * SUBSCRIBER]),
            json!([null, ["Found.Publisher.Ticked"], "Found.ByAction", 4, 4 * SUBSCRIBER]),
            json!([null, ["Found.Publisher.Closed"], "Found.ByStatic", 3, 3 * SUBSCRIBER]),
            json!(["Found.Publisher", ["Changed"], "Found.Captures", 2, 2 * SUBSCRIBER]),
            json!(["Found.Derived", ["Custom"], "Found.Alone", 1, SUBSCRIBER]),
        ];
        assert_eq!(rows(&shown, "subscriptions", "subscribers", "subscriber", &columns), expected);
    });
}

#[test]
fn what_waits_is_found_by_what_it_waits_for() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &[]);
        let expected = [
            json!(["Found.Program.Waits", 7, null]),
            json!(["Found.Program.WaitsForNumber", 4, null]),
            json!(["Found.Program.EndsLater", 3, null]),
            json!(["Found.Program.Outer", 2, null]),
            json!(["Found.Program.Middle", 2, null]),
            json!(["Found.Program.Inner", 2, null]),
        ];
        assert_eq!(tasks(&shown), in_order(expected.to_vec()));
        let timers = rows(&shown, "timers", "types", "type", &["type", "count", "scheduled"]);
        let expected = [json!(["Found.Clock", 4, 4]), json!(["Found.State", 1, 1]), json!(["Found.Stopped", 3, 0])];
        assert_eq!(timers, expected);
        let delays = shown["findings"]["timers"]["types"].as_array().expect("a list");
        let delay = delays.iter().find(|row| row["type"] == "System.Threading.Tasks.Task.DelayPromise");
        assert_eq!(delay.map(|row| (&row["count"], &row["scheduled"])), Some((&json!(3), &json!(3))));
    });
}

#[test]
fn what_has_a_finalizer_is_found_inherited_ones_too_and_what_only_looks_like_one_is_not() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &[]);
        let expected = [json!(["Found.Finalized", 6]), json!(["Found.Inherits", 4]), json!(["Found.Again", 2])];
        assert_eq!(rows(&shown, "finalizers", "types", "type", &["type", "count"]), expected);
        assert_eq!(shown["findings"]["finalizers"]["waiting"], Value::Null, "nobody has seen the queue");
    });
}

#[test]
fn objects_are_counted_by_assembly() {
    on_every_runtime(|runtime| {
        let shown = taken(runtime, &[]);
        let number = |rows: &str, what: &str| -> u64 {
            shown[rows].as_array().expect("rows").iter().map(|row| row[what].as_u64().expect("a number")).sum()
        };
        assert_eq!(number("assemblies", "count"), number("types", "count"));
        assert_eq!(number("assemblies", "bytes"), shown["bytes"].as_u64().expect("a number"));
        let own = |rows: &str, what: &str| -> u64 {
            let all = shown[rows].as_array().expect("rows").iter();
            all.filter(|row| row["assembly"] == "found").map(|row| row[what].as_u64().expect("a number")).sum()
        };
        assert_eq!(
            (own("assemblies", "count"), own("assemblies", "bytes")),
            (own("types", "count"), own("types", "bytes"))
        );
    });
}
