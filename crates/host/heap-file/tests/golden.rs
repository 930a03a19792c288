//! Files of every version are read as they were written: each golden file lies beside a text with everything that it holds.
//!
//! `cargo run --package remora-heap-file --example golden PATH` writes the file of a new version. Files of old versions never change.
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "golden/snapshot.rs"]
mod snapshot;

use remora_heap::TypeIx;
use remora_heap_file::{Content, Limits, contents, layouts, read};
use std::fmt::Write;

/// Everything that the readers find in a file, as text.
fn everything(file: &[u8]) -> String {
    let snapshot = read(file, Limits::MOST).unwrap();
    let (graph, mut out) = (&snapshot.graph, String::new());
    writeln!(out, "{:#?}", snapshot.state).unwrap();
    writeln!(
        out,
        "whole {}, unknown chunks {}, torn bytes {}",
        snapshot.whole, snapshot.unknown_chunks, snapshot.torn_bytes
    )
    .unwrap();
    writeln!(out, "free bytes {}, roots without a name {}", snapshot.free_bytes, snapshot.roots_unnamed).unwrap();
    writeln!(out, "{:?}", graph.completeness()).unwrap();
    for (index, one) in graph.types().iter().enumerate() {
        writeln!(out, "type {one:?}, {:?}", graph.facts(TypeIx(index as u32))).unwrap();
    }
    for object in graph.objects() {
        let references: Vec<u64> = graph.references(object).map(|target| graph.address(target)).collect();
        let (address, bytes, name) = (graph.address(object), graph.bytes(object), &graph.type_of(object).name);
        writeln!(out, "object {address:x}, {bytes} bytes, {name}, refers to {references:x?}").unwrap();
    }
    for root in graph.roots() {
        let note = graph.root_note(root.object, root.kind);
        writeln!(out, "root {:?} of {:x}: {note:?}", root.kind, graph.address(root.object)).unwrap();
    }
    for field in &snapshot.statics {
        writeln!(out, "static {field:?}").unwrap();
    }
    contents(file, |content| {
        match content {
            Content::Text(text) => {
                writeln!(out, "text of {:x}: {:?} of {} characters", text.address, text.text(), text.characters)
            }
            Content::Values { address, whole, bytes } => writeln!(out, "values of {address:x}: {bytes:?} of {whole}"),
        }
        .unwrap()
    })
    .unwrap();
    for layout in layouts(file).unwrap().iter() {
        writeln!(out, "layout {layout:?}").unwrap();
    }
    out
}

#[test]
fn golden_v2_is_read_as_it_was_written() {
    let found = everything(include_bytes!("golden/v2.remora-heap"));
    assert!(found == include_str!("golden/v2.txt"), "{found}");
}

#[test]
fn the_current_version_writes_what_the_newest_golden_file_holds() {
    assert_eq!(everything(&snapshot::file().unwrap()), include_str!("golden/v2.txt"));
}
