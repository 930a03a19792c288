//! Every decoder of Remora as an entry: a function that takes any bytes and must return without a panic. Time and memory must be
//! proportional to the input.
//!
//! # Purpose
//! Data from a target, a file or a socket may come from an attacker, or from a crashing program. `tests/smoke.rs` runs the entries in
//! every test run, and the targets in `fuzz/` run them for any time.
//!
//! # Design constraints
//! Where possible an entry checks more than survival: decoded data is encoded again and must decode to the same.
//! Seeds are the encoders' output, and fixtures. Inputs that once broke an entry are in `fuzz/corpus` under the entry's name.
//!
//! # Rejected
//! A dependency on a fuzzing engine here: the tests of this repository must run with only a stable compiler.
#![forbid(unsafe_code)]

mod call_table;
mod chunked;
mod heap_classes;
mod heap_index;
mod heap_values;
mod heap_watch;
mod heaps;
mod inside;
mod method_trace;
mod mutation;
mod outside;
mod recording_views;
mod seeds;
mod symbols;

pub use mutation::{mutate, with_counts};

/// One decoder.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name of the fuzz target, and of its corpus folder.
    pub name: &'static str,
    /// Decodes the input and returns whether it was valid; panics if an invariant is violated.
    pub run: fn(&[u8]) -> bool,
    /// Valid inputs in addition to its corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutations in a short run: fewer for slow entries.
    pub rounds: u64,
}

/// Every decoder.
pub const ENTRIES: [Entry; 37] = [
    Entry { name: "wire_message", run: inside::wire_message, seeds: seeds::messages, rounds: 20_000 },
    Entry { name: "wire_config", run: inside::wire_config, seeds: seeds::configs, rounds: 20_000 },
    Entry { name: "wire_control", run: inside::wire_control, seeds: seeds::controls, rounds: 20_000 },
    Entry { name: "il_body", run: method_trace::il_body, seeds: method_trace::bodies, rounds: 20_000 },
    Entry { name: "il_signature", run: method_trace::il_signature, seeds: method_trace::signatures, rounds: 20_000 },
    Entry {
        name: "wire_method_trace",
        run: method_trace::wire_method_trace,
        seeds: method_trace::messages,
        rounds: 20_000,
    },
    Entry { name: "call_table", run: call_table::call_table, seeds: call_table::seeds, rounds: 500 },
    Entry { name: "heap_stream", run: inside::heap_stream, seeds: seeds::heaps, rounds: 20_000 },
    Entry { name: "heap_stream_statics", run: inside::heap_stream_statics, seeds: seeds::statics, rounds: 20_000 },
    Entry { name: "wire_unwind", run: inside::wire_unwind, seeds: seeds::unwind_tables, rounds: 20_000 },
    Entry { name: "agent_sample", run: inside::agent_sample, seeds: seeds::samples, rounds: 20_000 },
    Entry { name: "agent_ring", run: inside::agent_ring, seeds: seeds::rings, rounds: 20_000 },
    Entry { name: "agent_links", run: inside::agent_links, seeds: seeds::links, rounds: 20_000 },
    Entry { name: "leaf_caller", run: inside::leaf_caller, seeds: seeds::methods, rounds: 20_000 },
    Entry { name: "trigger_codec", run: outside::trigger_codec, seeds: seeds::diagnostics, rounds: 20_000 },
    Entry { name: "trigger_elf", run: outside::trigger_elf, seeds: seeds::elfs, rounds: 1_000 },
    Entry { name: "trigger_proc", run: outside::trigger_proc, seeds: seeds::trigger_proc, rounds: 20_000 },
    Entry { name: "receipt_proc", run: outside::receipt_proc, seeds: seeds::receipt_proc, rounds: 20_000 },
    Entry { name: "nettrace", run: outside::nettrace, seeds: Vec::new, rounds: 3_000 },
    Entry { name: "heap_file", run: heaps::heap_file, seeds: seeds::heap_files, rounds: 2_000 },
    Entry { name: "heap_classes", run: heap_classes::heap_classes, seeds: heap_classes::seeds, rounds: 500 },
    Entry { name: "heap_chunks", run: chunked::heap_chunks, seeds: chunked::heaps, rounds: 3_000 },
    Entry { name: "heap_request", run: outside::heap_request, seeds: seeds::requests, rounds: 20_000 },
    Entry { name: "heap_export", run: heaps::heap_export, seeds: seeds::heap_graphs, rounds: 2_000 },
    Entry { name: "heap_questions", run: heaps::heap_questions, seeds: seeds::heap_graphs, rounds: 2_000 },
    Entry { name: "heap_index", run: heap_index::heap_index, seeds: seeds::heap_indexes, rounds: 2_000 },
    Entry { name: "heap_values", run: heap_values::heap_values, seeds: heap_values::seeds, rounds: 5_000 },
    Entry { name: "heap_watch", run: heap_watch::heap_watch, seeds: heap_watch::seeds, rounds: 5_000 },
    Entry { name: "recording", run: outside::recording, seeds: seeds::recordings, rounds: 2_000 },
    Entry { name: "recording_chunks", run: chunked::recording_chunks, seeds: chunked::recordings, rounds: 20_000 },
    Entry {
        name: "recording_views",
        run: recording_views::recording_views,
        seeds: recording_views::seeds,
        rounds: 1_000,
    },
    Entry { name: "symbols_bundle", run: symbols::bundle, seeds: seeds::bundles, rounds: 20_000 },
    Entry { name: "symbols_image", run: symbols::image, seeds: seeds::images, rounds: 200 },
    Entry { name: "symbols_pdb", run: symbols::pdb, seeds: seeds::pdbs, rounds: 200 },
    Entry { name: "symbols_elf", run: symbols::elf, seeds: seeds::elfs, rounds: 500 },
    Entry { name: "symbols_maps", run: symbols::maps, seeds: seeds::maps, rounds: 5_000 },
    Entry { name: "symbols_names", run: symbols::names, seeds: seeds::names, rounds: 5_000 },
];

/// Runs the entry with this name: the body of a fuzz target.
///
/// # Panics
/// If there is no such entry, or an invariant is violated.
pub fn feed(name: &str, bytes: &[u8]) {
    match ENTRIES.iter().find(|entry| entry.name == name) {
        Some(entry) => {
            (entry.run)(bytes);
        }
        None => panic!("there is no entry {name}"),
    }
}
