//! Snapshots of heaps against what the runtime itself tells of the same heap at the same instant.
#![forbid(unsafe_code)]

#[path = "support/heap.rs"]
mod heap;

use heap::{Heap, Names, Told, Walked, named, snapshot};
use remora_e2e::probe::{Seat, Stage};
use remora_e2e::{Runtime, on_every_runtime, on_runtimes, remora};
use std::path::Path;

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

/// The program with one of each kind, and a probe in it that is told everything of each collection.
fn watched(runtime: &Runtime) -> (Stage, Seat) {
    let mut stage = Stage::start_program(runtime, "kinds", &["300"]);
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
        let (mut stage, mut probe) = watched(runtime);
        let folder = tempfile::tempdir().expect("a folder");
        wish(&mut probe, folder.path(), "walk");
        probe.done("gc");
        probe.done("witnessed");
        let (told, walked) = (Told::read(folder.path()), Walked::read(folder.path()));
        assert_eq!(told.objects, walked.objects);
        stage.leave(probe);
    });
}

/// Takes a snapshot by the command, beside the probe, which is told of the same collection.
fn snapshot_beside(stage: &Stage, probe: &mut Seat) -> (Told, remora_heap_file::Snapshot) {
    let folder = tempfile::tempdir().expect("a folder");
    wish(probe, folder.path(), "");
    let (process, file) = (stage.pid().to_string(), folder.path().join("beside.remora-heap"));
    let command = ["heap", "-p", &process, "--json", "-o", file.to_str().expect("a name")];
    let answer = remora(command).succeeded().json();
    assert_eq!(answer["receipt"]["clean"], true, "{answer:#}");
    probe.done("witnessed");
    (Told::read(folder.path()), snapshot(&file))
}

#[test]
fn gch_02_a_snapshot_beside_a_main_profiler_and_its_callbacks_agree_object_by_object() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let (mut stage, mut probe) = watched(runtime);
        let (told, snapshot) = snapshot_beside(&stage, &mut probe);
        let walked = named(&snapshot.graph);
        println!("{} {}", told.objects.len(), walked.len());
        let mut names = Names::asked_by(&mut probe);
        let told_named: Heap<String> = told.objects.iter().map(|(a, o)| (*a, o.called(names.of(o.class)))).collect();
        let mut what = std::collections::BTreeMap::<String, u64>::new();
        for (a, o) in &told_named {
            if walked.get(a) != Some(o) {
                let w = walked.get(a);
                if w.is_some_and(|w| w.bytes == o.bytes && w.references == o.references) {
                    *what.entry(format!("name {} {}", o.class, w.unwrap().class)).or_default() += 1;
                } else {
                    *what.entry(format!("{o:x?} {:x?}", w)).or_default() += 1;
                }
            }
        }
        for (w, c) in what { println!("{c} {w}"); }
        assert_eq!(told_named.len(), walked.len());
        // roots
        let mut graph = snapshot.graph.clone();
        graph.infer_roots();
        let held: std::collections::BTreeMap<u64, &heap::Root> = told.roots.iter().map(|root| (root.object, root)).collect();
        let mut kinds = std::collections::BTreeMap::<String, u64>::new();
        for root in graph.roots() {
            let a = graph.address(root.object);
            let n = &walked[&a].class;
            let frozen_or = match held.get(&a) { Some(r) => format!("reported kind {} flags {}", r.kind, r.flags), None => {
                format!("NOT dependent? {} {n} ", told.dependents.iter().any(|d| d.1 == a)) } };
            *kinds.entry(frozen_or).or_default() += 1;
        }
        println!("roots told {} null {} inferred {}", told.roots.len(), told.roots.iter().filter(|r| r.object == 0).count(), graph.roots().len());
        println!("{:?}", told.roots.iter().map(|r| (r.kind, r.flags)).fold(std::collections::BTreeMap::<_, u64>::new(), |mut m, k| { *m.entry(k).or_default() += 1; m }));
        for (w, c) in kinds { println!("{c} {w}"); }
        stage.leave(probe);
    });
}
