//! Tables in Parquet, read back row by row.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use remora_heap::{DominatorTree, HeapGraph};
use remora_heap_export::Table;
use support::{ring, small};

/// Every row of a table, as it is printed.
fn rows(graph: &HeapGraph, table: Table) -> (Vec<String>, Vec<Vec<Field>>) {
    let mut bytes = Vec::new();
    table.write(graph, &DominatorTree::new(graph), &mut bytes).unwrap();
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{}", table.name(), graph.object_count()));
    std::fs::write(&path, bytes).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema().clone();
    let names = schema.get_fields().iter().map(|column| column.name().to_owned()).collect();
    let fields = |row: Row| row.into_columns().into_iter().map(|(_, field)| field).collect();
    (names, reader.get_row_iter(None).unwrap().map(|row| fields(row.unwrap())).collect())
}

fn text(text: &str) -> Field {
    Field::Str(text.to_owned())
}

/// Of more than one group of rows, and small ones.
fn graphs() -> [HeapGraph; 3] {
    [small(), ring(300_000), remora_heap::Builder::new().finish().unwrap()]
}

#[test]
fn objects_are_there_with_what_they_keep() {
    for graph in graphs() {
        let tree = DominatorTree::new(&graph);
        let (names, rows) = rows(&graph, Table::Objects);
        assert_eq!(names, ["address", "type", "bytes", "retained"]);
        assert_eq!(rows.len(), graph.object_count());
        for (row, object) in rows.iter().zip(graph.objects()) {
            let expected = [
                Field::ULong(graph.address(object)),
                Field::UInt(graph.type_ix(object).0),
                Field::ULong(graph.bytes(object)),
                Field::ULong(tree.retained(tree.node(object))),
            ];
            assert_eq!(*row, expected);
        }
    }
}

#[test]
fn references_are_there_one_for_each() {
    for graph in graphs() {
        let (names, rows) = rows(&graph, Table::References);
        assert_eq!(names, ["from", "to"]);
        let expected = graph.objects().flat_map(|from| {
            let address = |object| Field::ULong(graph.address(object));
            graph.references(from).map(move |to| [address(from), address(to)])
        });
        assert!(rows.iter().map(Vec::as_slice).eq(expected.map(|row| row.to_vec())), "{}", rows.len());
    }
}

#[test]
fn types_and_roots_are_there_with_their_names() {
    for graph in graphs() {
        let (names, types) = rows(&graph, Table::Types);
        assert_eq!(names, ["type", "name", "assembly"]);
        let known = graph.types().iter().enumerate();
        let expected: Vec<Vec<Field>> = known
            .map(|(number, known)| vec![Field::UInt(number as u32), text(&known.name), text(&known.assembly)])
            .collect();
        assert_eq!(types, expected);
        let (names, roots) = rows(&graph, Table::Roots);
        assert_eq!(names, ["address", "kind"]);
        let held = graph.roots().iter();
        let expected: Vec<Vec<Field>> =
            held.map(|root| vec![Field::ULong(graph.address(root.object)), text(root.kind.name())]).collect();
        assert_eq!(roots, expected);
    }
}
