//! `.heapsnapshot`, loaded by the DevTools of headless Chromium: by the very code that their Memory panel runs, out of the browser.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "../../../crates/host/heap-export/tests/support/mod.rs"]
mod support;

use remora_browser::Browser;
use remora_heap::{DominatorTree, HeapGraph, ObjectIx};
use remora_heap_export::Format;
use serde_json::Value;
use std::collections::BTreeMap;
use support::{exported, huge, ring, small};

/// Loads what stands behind it, and tells what DevTools make of it: classes, and of each object how much it keeps and how far it is.
const LOAD: &str = r#"
const load = async (text) => {
  const { HeapSnapshotLoader, HeapSnapshot } = await import('/devtools/entrypoints/heap_snapshot_worker/heap_snapshot_worker.js');
  const loader = new HeapSnapshotLoader.HeapSnapshotLoader({ sendEvent() {} });
  // In pieces, as files come.
  for (let at = 0; at < text.length; at += 65536) { loader.write(text.slice(at, at + 65536)); }
  loader.close();
  const channel = new MessageChannel();
  new HeapSnapshot.SecondaryInitManager(channel.port2);
  const snapshot = await loader.buildSnapshot(channel.port1);
  const classes = Object.values(snapshot.aggregatesWithFilter({}));
  return {
    total: snapshot.totalSize,
    classes: Object.fromEntries(classes.map((one) => [one.name, [one.count, one.self]])),
    retained: [...snapshot.retainedSizes],
    distances: [...snapshot.nodeDistances],
  };
};
return load("#;

/// What DevTools say of a graph.
fn loaded(browser: &Browser, graph: &HeapGraph) -> Value {
    let file = String::from_utf8(exported(graph, Format::HeapSnapshot)).unwrap();
    browser.run(&format!("{LOAD}{});", Value::from(file)))
}

/// What they say of an object, in a list that begins with what stands for roots.
fn of_object<'a>(shown: &'a Value, list: &str, graph: &HeapGraph, object: ObjectIx) -> &'a Value {
    let list = shown[list].as_array().unwrap();
    &list[list.len() - graph.object_count() + object.0 as usize]
}

#[test]
fn devtools_count_and_weigh_objects_as_the_graph_does() {
    let browser = Browser::open_devtools("inspector.html");
    for graph in [small(), ring(20_000)] {
        let shown = loaded(&browser, &graph);
        let bytes: u64 = graph.objects().map(|object| graph.bytes(object)).sum();
        assert_eq!(shown["total"], bytes);
        let mut classes = BTreeMap::<String, (u64, u64)>::new();
        for object in graph.objects() {
            let known = graph.type_of(object);
            let is_shared = known.name == "Shop.Node";
            let name = if is_shared { format!("{} [{}]", known.name, known.assembly) } else { known.name.clone() };
            let class = classes.entry(name).or_default();
            *class = (class.0 + 1, class.1 + graph.bytes(object));
        }
        assert_eq!(serde_json::from_value::<BTreeMap<String, (u64, u64)>>(shown["classes"].clone()).unwrap(), classes);
    }
}

#[test]
fn devtools_find_that_an_object_keeps_what_the_graph_says() {
    let browser = Browser::open_devtools("inspector.html");
    for graph in [small(), ring(20_000)] {
        let (shown, tree) = (loaded(&browser, &graph), DominatorTree::new(&graph));
        for object in graph.objects() {
            let retained = of_object(&shown, "retained", &graph, object);
            assert_eq!(*retained, tree.retained(tree.node(object)), "{object:?}");
        }
        for root in graph.roots() {
            let distance = of_object(&shown, "distances", &graph, root.object);
            assert_eq!(*distance, 1, "{root:?} is held by the program itself");
        }
    }
}

#[test]
fn devtools_add_up_the_pieces_of_a_large_object() {
    let browser = Browser::open_devtools("inspector.html");
    let graph = huge();
    let shown = loaded(&browser, &graph);
    assert_eq!(shown["total"], graph.objects().map(|object| graph.bytes(object)).sum::<u64>());
    let large = graph.objects().find(|object| graph.bytes(*object) > 10_000_000_000).unwrap();
    // Behind the root and the one kind of roots.
    assert_eq!(shown["retained"][large.0 as usize + 2], graph.bytes(large));
}
