//! Tables of tracers, read: times without the cost of the hooks, and tables that a hostile target has written.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_call_table::{Call, Kind, RESULT, Table, Values, layout};
use remora_calls::{
    About, Calls, Instant, by_method, by_type, described, method_totals, profile, with_callees, write_json,
    write_timeline,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes of each table.
const NODES: usize = 1 << 10;

fn words() -> Vec<AtomicU64> {
    (0..layout::size_in_bytes(NODES, false) / 8).map(|_| AtomicU64::new(0)).collect()
}

/// `Main` calls `Twice` two times, for 100 ns each, and each calls `Leaf`, for 40 ns; `Main` has not ended after 1,000 ns. By the monotonic
/// clock, so a tick is a nanosecond. A hooked call costs 4 ns inside and 6 ns outside.
fn filled(words: &[AtomicU64]) -> Table<'_> {
    let table = Table::new(words).unwrap();
    for name in ["", "App.Main", "App.Twice", "App.Leaf"] {
        table.add_method(1, 7, name).unwrap();
    }
    table.add_module("").unwrap();
    table.add_module("/srv/App.dll").unwrap();
    table.set_header(layout::LONG_TICKS, 90);
    table.set_header(layout::STARTED, 500);
    table.set_header(layout::STARTED_MONOTONIC, 500);
    table.set_header(layout::COST_INSIDE, 4 * 256);
    table.set_header(layout::COST_OUTSIDE, 6 * 256);
    let thread = table.thread(table.begin_thread(42, 500).unwrap()).unwrap();
    thread.set_name(b"main");
    let now = Cell::new(1000);
    let clock = || now.get();
    let enter = |method, frame, ticks| {
        now.set(now.get() + ticks);
        table.enter(thread, Call { method, frame }, &clock);
    };
    let leave = |method, frame, ticks| {
        now.set(now.get() + ticks);
        table.leave(thread, Call { method, frame }, &clock);
    };
    enter(1, 900, 0);
    for _ in 0..2 {
        enter(2, 800, 10);
        enter(3, 700, 30);
        leave(3, 700, 40);
        leave(2, 800, 30);
    }
    table
}

fn read(table: &Table<'_>) -> Calls {
    Calls::read(table, Instant { ticks: 0, monotonic: 2000 })
}

#[test]
fn the_cost_of_hooks_is_taken_from_each_call_and_its_caller() {
    let words = words();
    let calls = read(&filled(&words));
    let rows: Vec<_> = method_totals(&calls)
        .iter()
        .map(|sum| {
            let name = calls.methods[sum.method.0 as usize].name.as_str();
            (name, sum.calls, sum.own, sum.total, sum.longest, sum.active)
        })
        .collect();
    // Main: 1000 - 200 of callees - 4 - 2 * 6. Twice: 200 - 80 - 2 * 4 - 2 * 6. Leaf: 80 - 2 * 4.
    let expected = [
        ("App.Main", 1, 784, 784 + 100 + 72, 996, 1),
        ("App.Twice", 2, 100, 172, 96, 0),
        ("App.Leaf", 2, 72, 72, 36, 0),
    ];
    assert_eq!(rows, expected);
    assert_eq!((calls.duration, calls.calls(), calls.cost.whole()), (1500, 5, 10.0));
    let long: Vec<_> = calls.long.iter().map(|call| (call.start, call.duration)).collect();
    assert_eq!(long, [(510, 100), (620, 100)]);
    assert_eq!(calls.methods[0].module, "/srv/App.dll");
}

#[test]
fn the_time_of_a_recursive_method_is_counted_once() {
    let words = words();
    let table = filled(&words);
    let thread = table.thread(table.begin_thread(43, 500).unwrap()).unwrap();
    let now = Cell::new(0);
    let at = |time: u64| {
        now.set(time);
        || now.get()
    };
    for (depth, frame) in [900, 800, 700].into_iter().enumerate() {
        table.enter(thread, Call { method: 2, frame }, &at(1000 + 100 * depth as u64));
    }
    for (depth, frame) in [700, 800, 900].into_iter().enumerate() {
        table.leave(thread, Call { method: 2, frame }, &at(1300 + 100 * depth as u64));
    }
    let calls = read(&table);
    let twice = method_totals(&calls).into_iter().find(|sum| calls.methods[sum.method.0 as usize].name == "App.Twice");
    // On the other thread 172; here 500, without the cost of three calls.
    assert_eq!(twice.unwrap().total, 172 + 500 - 3 * 4 - 2 * 6);
}

/// Of a thousand threads that named the deepest of a million nodes, each walked all of them.
#[test]
fn regression_threads_that_name_the_same_active_node_walked_its_callers_again() {
    let words = words();
    let table = filled(&words);
    let before = read(&table).nodes;
    let innermost = |thread: u32| &words[layout::HEADER_WORDS + thread as usize * layout::THREAD_WORDS + 3];
    let other = table.begin_thread(43, 500).unwrap();
    innermost(other.0).store(innermost(0).load(Ordering::Relaxed), Ordering::Relaxed);
    assert_eq!(read(&table).nodes, before, "the time of the active call is counted once");
}

#[test]
fn every_format_has_the_calls() {
    let words = words();
    let calls = read(&filled(&words));
    let about = About { application: "App".into(), process_id: 42, ..About::default() };
    let mut text = Vec::new();
    write_json(&calls, &about, &mut text).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["methods"][0]["name"], "App.Main");
    assert_eq!(json["nodes"].as_array().unwrap().len(), 3);
    let mut text = Vec::new();
    write_timeline(&calls, &about, &mut text).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let event = &json["traceEvents"][2];
    assert_eq!((event["ph"].as_str(), event["ts"].as_f64(), event["dur"].as_f64()), (Some("X"), Some(0.51), Some(0.1)));
    let profile = profile(&calls, about);
    assert_eq!(profile.total_weight(), 784 + 100 + 72);
    assert_eq!(profile.samples().len(), 3);
}

#[test]
fn objects_are_leaves_below_the_call_that_allocates_them_and_have_no_time() {
    let words = words();
    let table = filled(&words);
    table.set_header(layout::ALLOCATIONS, 1);
    let [order, same, text] = ["Shop.Order", "Shop.Order", "System.String"].map(|name| table.add_type(name).unwrap().0);
    let thread = table.thread(table.threads().next().unwrap().0).unwrap();
    let clock = || 1500;
    // `Main` is the innermost call of the first thread.
    for (ty, bytes) in [(order, 24), (same, 32), (text, 100), (text, 101)] {
        table.allocate(thread, ty, bytes, 600, &clock);
    }
    let other = table.thread(table.begin_thread(43, 600).unwrap()).unwrap();
    table.allocate(other, text, 7, 600, &clock);
    let calls = read(&table);
    assert_eq!((calls.nodes.len(), calls.calls()), (3, 5), "calls are as without objects");
    let sums = by_type(&calls);
    let shown: Vec<_> = sums.iter().map(|one| (calls.types[one.of].as_str(), one.sum.objects, one.sum.bytes)).collect();
    assert_eq!(shown, [("System.String", 3, 208), ("Shop.Order", 2, 56)]);
    assert_eq!(calls.methods[sums[0].most].name, "App.Main");
    assert_eq!(sums[0].part.bytes, 201, "without what no traced method allocates");
    let outside = by_method(&calls).into_iter().find(|one| one.of.is_none()).unwrap();
    assert_eq!((outside.sum.objects, outside.sum.bytes), (1, 7));
    let profile = profile(&calls, About::default());
    assert_eq!((profile.meta.name(), profile.total_weight()), ("alloc", 264));
    let mut text = Vec::new();
    write_json(&calls, &About::default(), &mut text).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["types"][0]["name"], "System.String");
    assert_eq!(json["allocations"].as_array().unwrap().len(), 4);
    let of = |name: &str| json["methods"].as_array().unwrap().iter().find(|method| method["name"] == name).unwrap();
    assert_eq!(of("App.Main")["allocated"]["total_bytes"], 257);
    assert_eq!(of("App.Leaf")["allocated"], serde_json::Value::Null);
}

#[test]
fn a_method_has_the_objects_of_its_callees_and_each_once_if_it_calls_itself() {
    let words = words();
    let table = filled(&words);
    table.set_header(layout::ALLOCATIONS, 1);
    let order = table.add_type("Shop.Order").unwrap().0;
    let thread = table.thread(table.threads().next().unwrap().0).unwrap();
    let clock = || 1500;
    // `Main` calls `Twice`, which calls itself.
    for (frame, bytes) in [(800, 24), (700, 32)] {
        table.enter(thread, Call { method: 2, frame }, &clock);
        table.allocate(thread, order, bytes, frame - 100, &clock);
    }
    let calls = read(&table);
    let sums = with_callees(&calls);
    let name = |index: usize| calls.methods[sums[index].method.0 as usize].name.as_str();
    let bytes = |index: usize| (name(index), sums[index].total.bytes, sums[index].own.bytes);
    assert_eq!((sums.len(), bytes(0), bytes(1)), (2, ("App.Main", 56, 0), ("App.Twice", 56, 56)));
}

/// Numbers without a seed of the system (Marsaglia, "Xorshift RNGs").
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_table_with_any_content_is_read_without_harm() {
    let words = words();
    let mut state = 0x5EED;
    for _ in 0..40 {
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let table = filled(&words);
        table.add_type("Shop.Order");
        for _ in 0..2000 {
            // Most of the table is empty: damage what is used, too.
            let from = if random(&mut state).is_multiple_of(2) { words.len() - NODES * layout::NODE_WORDS } else { 0 };
            let at = from + random(&mut state) as usize % (words.len() - from);
            let value = match random(&mut state) % 4 {
                0 => random(&mut state),
                1 => u64::MAX,
                2 => ((random(&mut state) % 2000) << 32) | (random(&mut state) % 5),
                _ => random(&mut state) % 5000,
            };
            words[at].store(value, Ordering::Relaxed);
        }
        for word in 0..40 {
            if random(&mut state).is_multiple_of(3) {
                table.set_header(word, random(&mut state));
            }
        }
        let calls = read(&table);
        assert!(calls.nodes.len() <= NODES);
        for (index, node) in calls.nodes.iter().enumerate() {
            assert!(node.parent.is_none_or(|parent| (parent.0 as usize) < index));
        }
        let mut text = Vec::new();
        write_json(&calls, &About::default(), &mut text).unwrap();
        write_timeline(&calls, &About::default(), &mut text).unwrap();
        profile(&calls, About::default());
        by_type(&calls);
        by_method(&calls);
        with_callees(&calls);
    }
}

/// A table in which one call of `App.Pay` has arguments and a result.
fn with_values(words: &[AtomicU64]) -> Table<'_> {
    words[layout::HAS_VALUES].store(1, Ordering::Relaxed);
    let table = Table::new(words).unwrap();
    table.add_method(0, 0, "").unwrap();
    table
        .add_method_with(
            0,
            7,
            "App.Pay",
            "number\nmeans\nthing\nnothing\nmood\tenum\t7=Angry\n<result>\tflags\t1=Ready",
        )
        .unwrap();
    table.add_module("").unwrap();
    table.set_header(layout::VALUES_LEFT, 10);
    table.set_header(layout::STARTED_MONOTONIC, 500);
    let thread = table.thread(table.begin_thread(42, 500).unwrap()).unwrap();
    let mut values = Values::default();
    values.add_number(0, Kind::Signed, -17_i64 as u64);
    values.add_text(1, 1000, "caf\u{e9}".encode_utf16());
    values.add_null(3);
    values.add_number(4, Kind::Unsigned, 7);
    let call = Call { method: 1, frame: 900 };
    table.enter_with(thread, call, Some(&values), &|| 1000);
    table.leave_with(thread, call, &|| 1100, |values| values.add_number(RESULT, Kind::Signed, 1));
    table
}

#[test]
fn a_call_is_described_by_its_arguments_and_result() {
    let words: Vec<_> = (0..layout::size_in_bytes(NODES, true) / 8).map(|_| AtomicU64::new(0)).collect();
    let table = with_values(&words);
    let calls = read(&table);
    let call = &calls.long[0];
    let text = described("App.Pay", &call.values, &calls.methods[0].parameters);
    assert_eq!(text, "App.Pay(number=-17, means=\"caf\u{e9}\"\u{2026}, thing, nothing=null, mood=Angry) = Ready");
    let mut json = Vec::new();
    write_json(&calls, &About::default(), &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let recorded = &json["recorded_calls"][0];
    assert_eq!(
        (&recorded["arguments"][1]["name"], &recorded["arguments"][1]["value"]),
        (&"means".into(), &"caf\u{e9}".into())
    );
    assert_eq!((&recorded["arguments"][2]["name"], &recorded["result"]), (&"nothing".into(), &1.into()));
    assert_eq!(json["hook_nanoseconds_a_call"], serde_json::Value::Null);
}
