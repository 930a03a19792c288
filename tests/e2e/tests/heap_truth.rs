//! Snapshots of heaps against what the runtime itself tells of the same heap at the same instant.
#![forbid(unsafe_code)]

#[path = "support/heap.rs"]
mod heap;

use heap::{Heap, Names, Told, Walked};
use remora_e2e::probe::{Seat, Stage};
use remora_e2e::{Runtime, on_every_runtime};
use std::path::Path;

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

/// The program with one of each kind, and a probe in it that is told everything of each collection.
fn watched(runtime: &Runtime) -> (Stage, Seat) {
    let mut stage = Stage::start_program(runtime, "kinds", &[]);
    let probe = stage.attached(MONITOR_GC, 0);
    stage.act("held");
    (stage, probe)
}

fn wish(probe: &mut Seat, folder: &Path, walks: &str) {
    probe.done(&format!("witness {} {walks}", folder.display()));
}

#[test]
fn gch_02_the_walk_of_a_copy_and_the_callbacks_of_the_same_collection_agree_object_by_object() {
    on_every_runtime(|runtime| {
        let (stage, mut probe) = watched(runtime);
        let folder = tempfile::tempdir().expect("a folder");
        wish(&mut probe, folder.path(), "walk");
        probe.done("gc");
        probe.done("witnessed");
        let (told, walked) = (Told::read(folder.path()), Walked::read(folder.path()));
        explore(&told, &walked.objects, &mut probe, &walked.frozen);
        stage.leave(probe);
    });
}

fn explore(told: &Told, walked: &Heap<u64>, probe: &mut Seat, frozen: &[(u64, u64)]) {
    let mut names = Names::asked_by(probe);
    println!("told {} walked {} frozen {frozen:x?} roots {} dependents {}", told.objects.len(), walked.len(), told.roots.len(), told.dependents.len());
    let mut only_told = std::collections::BTreeMap::<String, u64>::new();
    for (address, object) in &told.objects {
        match walked.get(address) {
            None => *only_told.entry(format!("only told: {}", if object.class==0 {"0".into()} else {names.of(object.class)})).or_default() += 1,
            Some(other) if other != object => *only_told.entry(format!("differ: {} {:x?} {:x?}", names.of(object.class), object, other)).or_default() += 1,
            _ => {}
        }
    }
    for (address, object) in walked {
        if !told.objects.contains_key(address) {
            let f = frozen.iter().any(|(a, b)| a <= address && address < b);
            *only_told.entry(format!("only walked: {} {f}", if object.class==0 {"0".into()} else {names.of(object.class)})).or_default() += 1;
        }
    }
    for (what, count) in only_told {
        println!("{count} {what}");
    }
}
