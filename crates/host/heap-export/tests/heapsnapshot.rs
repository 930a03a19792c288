//! `.heapsnapshot`, read back by what the format says of itself: its `meta` tells which number means what.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_heap_export::Format;
use serde_json::Value;
use std::collections::HashSet;
use support::{Facts, exported, huge, of_graph, ring, small};

/// What DevTools keep a number in.
fn number(value: &Value) -> u64 {
    let number = value.as_u64().unwrap();
    assert!(u32::try_from(number).is_ok(), "{number} does not fit into 32 bits");
    number
}

/// A table of numbers with names for its columns.
struct Rows {
    fields: Vec<String>,
    numbers: Vec<u64>,
}

impl Rows {
    fn of(file: &Value, rows: &str, fields: &str, count: &str) -> Rows {
        let fields: Vec<String> = serde_json::from_value(file["snapshot"]["meta"][fields].clone()).unwrap();
        let numbers: Vec<u64> = file[rows].as_array().unwrap().iter().map(number).collect();
        assert_eq!(numbers.len() as u64, fields.len() as u64 * file["snapshot"][count].as_u64().unwrap(), "{rows}");
        Rows { fields, numbers }
    }

    fn count(&self) -> usize {
        self.numbers.len() / self.fields.len()
    }

    fn at(&self, row: usize, field: &str) -> u64 {
        self.numbers[row * self.fields.len() + self.fields.iter().position(|known| known == field).unwrap()]
    }
}

/// A strict reader: everything that must hold of such a file is asserted.
fn read(bytes: &[u8]) -> Facts {
    let file: Value = serde_json::from_slice(bytes).unwrap();
    let nodes = Rows::of(&file, "nodes", "node_fields", "node_count");
    let edges = Rows::of(&file, "edges", "edge_fields", "edge_count");
    let strings: Vec<String> = serde_json::from_value(file["strings"].clone()).unwrap();
    let meta = &file["snapshot"]["meta"];
    let kind = |types: &str, place: u64| meta[types][0][place as usize].as_str().unwrap().to_owned();
    let name = |node: usize| strings[nodes.at(node, "name") as usize].clone();
    let mut facts = Facts::default();
    let (mut ids, mut held, mut edge) = (HashSet::new(), HashSet::new(), 0);
    for node in 0..nodes.count() {
        let of = kind("node_types", nodes.at(node, "type"));
        assert!(
            nodes.at(node, "id") % 2 == 1 && ids.insert(nodes.at(node, "id")),
            "ids of objects are odd, and differ"
        );
        if of == "object" {
            let entry = facts.types.entry(name(node)).or_default();
            entry.0 += 1;
            entry.1 += nodes.at(node, "self_size");
        } else {
            assert_eq!((of.as_str(), nodes.at(node, "self_size")), ("synthetic", 0));
        }
        for number in 0..nodes.at(node, "edge_count") {
            let to = edges.at(edge, "to_node") as usize;
            assert_eq!(to % nodes.fields.len(), 0, "it is the place of a node's first number");
            let (to, key) = (to / nodes.fields.len(), edges.at(edge, "name_or_index"));
            match (of.as_str(), kind("edge_types", edges.at(edge, "type")).as_str()) {
                ("synthetic", "shortcut") if node == 0 => {
                    assert!(strings[key as usize] == "held" && held.insert(to), "each but once");
                }
                ("synthetic", "element") if node == 0 => assert_eq!((key, to), (number, number as usize + 1)),
                ("synthetic", "element") => {
                    assert_eq!(key, number);
                    let root = name(node).strip_prefix('(').unwrap().strip_suffix(" roots)").unwrap().to_owned();
                    *facts.roots.entry((root, name(to))).or_default() += 1;
                    assert!(held.contains(&to));
                }
                ("object", "element") => {
                    assert_eq!(key, number);
                    *facts.edges.entry((name(node), name(to))).or_default() += 1;
                }
                other => panic!("{other:?}"),
            }
            edge += 1;
        }
    }
    assert_eq!(edge, edges.count(), "every edge is some node's");
    facts
}

/// DevTools know nothing of assemblies: types of one name in two of them have these beside their names.
fn named(known: &remora_heap::Type) -> String {
    if known.name == "Shop.Node" { format!("Shop.Node [{}]", known.assembly) } else { known.name.clone() }
}

#[test]
fn everything_is_read_back_exactly() {
    for graph in [small(), ring(100_000), remora_heap::Builder::new().finish().unwrap()] {
        assert_eq!(read(&exported(&graph, Format::HeapSnapshot)), of_graph(&graph, named));
    }
}

#[test]
fn an_object_of_more_than_32_bits_is_reported_in_pieces_of_which_none_is_lost() {
    let graph = huge();
    let facts = read(&exported(&graph, Format::HeapSnapshot));
    let rest = "[the rest of objects that are too large for this format]";
    assert_eq!(facts.types["byte[]"].0, 3);
    assert_eq!(facts.types["byte[]"].1 + facts.types[rest].1, 13_000_000_007 + 3_000_000_000 + 24);
    assert_eq!(facts.types[rest].0, 3);
    assert_eq!(facts.edges[&("byte[]".to_owned(), rest.to_owned())], 1);
    assert_eq!(facts.edges[&(rest.to_owned(), rest.to_owned())], 2);
}

#[test]
fn what_is_missing_is_said() {
    let file: Value = serde_json::from_slice(&exported(&small(), Format::HeapSnapshot)).unwrap();
    let reported = &file["snapshot"]["remora"];
    assert_eq!(reported["complete"], false);
    assert_eq!(reported["account"][0], "Shop (4711), .NET 8.0.4: NOT all of the heap");
    assert_eq!(reported["account"][1], "3 ranges of the heap were not walked to their end");
}
