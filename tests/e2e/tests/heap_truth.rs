//! Compares snapshots with the runtime's own report of the same heap at the same instant. In one GC it reports each object and root to a
//! probe (COR_PRF_MONITOR_GC). At the end of the same GC the heap is walked.
#![forbid(unsafe_code)]

#[path = "support/heap.rs"]
mod heap;

use heap::{Heap, Names, Reported, Walked, graph_of_stream, named, snapshot};
use remora_e2e::probe::{Seat, Stage};
use remora_e2e::{Runtime, on_every_runtime, on_runtimes, remora};
use remora_heap_file::{HeapGraph, Snapshot};
use remora_holds::holds;
use std::collections::BTreeSet;
use std::path::Path;

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

/// COR_PRF_GC_ROOT_STACK, and the value for handles.
const STACK: u64 = 1;
const HANDLE: u64 = 3;

/// COR_PRF_GC_ROOT_PINNING, and COR_PRF_GC_ROOT_WEAKREF, which keeps nothing alive.
const PINNING: u64 = 1;
const WEAK: u64 = 2;

/// The number of each kind: a class's layout is trusted only after some of its objects.
const ROUNDS: usize = 40;

/// The program with all kinds of objects, and a probe that records everything reported in each GC.
fn watched(runtime: &Runtime) -> (Stage, Seat) {
    watched_in_mode(runtime, &[])
}

/// The same with the GC mode of these variables.
fn watched_in_mode(runtime: &Runtime, variables: &[(&str, &str)]) -> (Stage, Seat) {
    let mut stage = Stage::start_program(runtime, "kinds", &[&ROUNDS.to_string()], variables);
    let probe = stage.attached(MONITOR_GC, 0);
    assert_eq!(stage.act("held"), "whole");
    (stage, probe)
}

fn wish(probe: &mut Seat, folder: &Path, walks: &str) {
    probe.done(&format!("witness {} {walks}", folder.display()));
}

/// The probe forces a GC, and walks the heap in a copy with the product's own walker.
fn walk_by_probe(probe: &mut Seat) -> (Reported, Walked, HeapGraph) {
    let folder = tempfile::tempdir().expect("a folder");
    wish(probe, folder.path(), "walk");
    probe.done("gc");
    // A request during another full GC is satisfied by that one.
    while probe.ask("witnessed").is_err() {
        probe.done("gc");
    }
    (Reported::read(folder.path()), Walked::read(folder.path()), graph_of_stream(folder.path()))
}

/// Takes a snapshot by the command; the probe records the same GC.
fn snapshot_beside(stage: &Stage, probe: &mut Seat) -> (Reported, Snapshot) {
    let folder = tempfile::tempdir().expect("a folder");
    wish(probe, folder.path(), "");
    let (process, file) = (stage.pid().to_string(), folder.path().join("beside.remora-heap"));
    let command = ["heap", "-p", &process, "--json", "-o", file.to_str().expect("a name")];
    let answer = remora(command).succeeded().json();
    assert_eq!(answer["receipt"]["clean"], true, "{answer:#}");
    probe.done("witnessed");
    (Reported::read(folder.path()), snapshot(&file))
}

/// The reported and the walked objects agree, except for literals allocated in between.
///
/// A thread that allocates a frozen object is in preemptive mode, so a GC does not suspend it. It may register the object between the
/// runtime's report and the walk. (dotnet/runtime, src/coreclr/vm/frozenobjectheap.cpp, since 8: GCX_PREEMP around RegisterOrUpdate.)
/// Such objects follow all reported ones in their segment.
#[track_caller]
fn assert_both_know(shown: &Reported, mut walked: Heap<u64>) {
    for (begin, end) in &shown.frozen {
        let last = shown.objects.range(begin..end).next_back().map_or(*begin, |(address, _)| *address);
        walked.retain(|address, object| !(*address > last && address < end && object.references.is_empty()));
    }
    assert_same(&shown.objects, &walked);
}

/// Fails with the first differing objects instead of both heaps.
#[track_caller]
fn assert_same<C: PartialEq + std::fmt::Debug>(shown: &Heap<C>, walked: &Heap<C>) {
    let addresses: BTreeSet<&u64> = shown.keys().chain(walked.keys()).collect();
    let others = addresses.into_iter().filter(|address| shown.get(address) != walked.get(address));
    let others: Vec<String> = others
        .map(|address| format!("{address:#x}: told {:x?}, walked {:x?}", shown.get(address), walked.get(address)))
        .collect();
    holds!(
        GCH_02 clr rem, others.is_empty(), "{} objects differ: {:#?}", others.len(), &others[..others.len().min(10)]
    );
}

#[test]
fn gch_02_the_walk_of_a_copy_and_the_callbacks_of_the_same_collection_agree_object_by_object() {
    on_every_runtime(|runtime| {
        let (mut stage, mut probe) = watched(runtime);
        // There are no differences to explain. The runtime also reports frozen objects, and loader allocators of collectible types as
        // ordinary references. It reports no free objects. Neither side has the references of dependent handles.
        let (shown, walked, _) = walk_by_probe(&mut probe);
        assert!(shown.objects.len() > ROUNDS * 1000, "{} objects", shown.objects.len());
        assert_both_know(&shown, walked.objects);
        assert_eq!(stage.act("held"), "whole");
        stage.leave(probe);
    });
}

/// Server GC; blocking GC; and, from 8 on, the GC with segments, which older versions had instead of regions.
const MODES: [(u32, &[(&str, &str)]); 3] = [
    (3, &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1")]),
    (3, &[("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")]),
    (8, &[("DOTNET_GCName", "libclrgc.so")]),
];

#[test]
fn gch_02_walk_and_callbacks_agree_in_every_mode_of_the_collector() {
    on_every_runtime(|runtime| {
        for (_, variables) in MODES.iter().filter(|(since, _)| runtime.major() >= *since) {
            let (stage, mut probe) = watched_in_mode(runtime, variables);
            let (shown, walked, _) = walk_by_probe(&mut probe);
            assert!(shown.objects.len() > ROUNDS * 1000, "{variables:?}: {} objects", shown.objects.len());
            assert_both_know(&shown, walked.objects);
            stage.leave(probe);
        }
    });
}

/// Busy programs: they allocate, load and unload types, create and discard methods.
const BUSY: [(&str, &[&str]); 3] = [("gc", &["2"]), ("collectible", &[]), ("dynamic", &[])];

#[test]
fn gch_02_walk_and_callbacks_agree_while_the_program_works() {
    on_every_runtime(|runtime| {
        for (program, arguments) in BUSY {
            let stage = Stage::start_program(runtime, program, arguments, &[]);
            let mut probe = stage.attached(MONITOR_GC, 0);
            for _ in 0..3 {
                let (shown, walked, _) = walk_by_probe(&mut probe);
                assert_both_know(&shown, walked.objects);
            }
            // For a program that forces GCs itself, the probe would record one of those.
            if runtime.major() >= 6 && program == "gc" {
                let (shown, snapshot) = snapshot_beside(&stage, &mut probe);
                assert_same(&nameless(shown.objects), &nameless(named(&snapshot.graph)));
            }
            stage.leave(probe);
        }
    });
}

fn nameless<C>(heap: Heap<C>) -> Heap<()> {
    heap.into_iter().map(|(address, object)| (address, object.called(()))).collect()
}

/// On 3.1 a process has one profiler: no snapshot beside another.
#[test]
fn gch_02_a_snapshot_beside_a_main_profiler_and_its_callbacks_agree_object_by_object() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let (mut stage, mut probe) = watched(runtime);
        let (shown, snapshot) = snapshot_beside(&stage, &mut probe);
        let mut names = Names::asked_by(&mut probe);
        let shown = shown.objects.iter().map(|(address, object)| {
            let name = names.of(object.class);
            (*address, object.called(if is_in_no_file(&name) { unnamed(&snapshot.graph, *address) } else { name }))
        });
        assert_same(&shown.collect(), &named(&snapshot.graph));
        assert_eq!(stage.act("held"), "whole");
        stage.leave(probe);
    });
}

/// The only difference between names: an assembly loaded from bytes has no file that could name its types.
fn is_in_no_file(name: &str) -> bool {
    ["Loaded.Stray", "Loaded.Stray[]", "Loaded.Lone"].contains(&name)
}

/// The snapshot's name for such an object, which must say that it is unnamed.
fn unnamed(graph: &HeapGraph, address: u64) -> String {
    let name = graph.object_at(address).map(|object| graph.type_of(object).name.clone()).unwrap_or_default();
    assert!(name.starts_with("[unnamed "), "{name}");
    name
}

#[test]
fn gch_02_what_is_inferred_to_be_held_is_held_by_a_root_of_the_same_collection() {
    on_every_runtime(|runtime| {
        let (stage, mut probe) = watched(runtime);
        let (shown, _, mut graph) = walk_by_probe(&mut probe);
        graph.infer_roots();
        let why = Why::of(&shown);
        let inferred: BTreeSet<u64> = graph.roots().iter().map(|root| graph.address(root.object)).collect();
        // No cycle of this program is referenced only from outside of the heap, so no root of several candidates is inferred.
        let unexplained: Vec<&u64> = inferred.iter().filter(|object| !why.holds(**object)).collect();
        holds!(GCH_02 rem, unexplained.is_empty(), "{:x?} of {}", unexplained, inferred.len());
        // Every object is alive after a full GC: roots are inferred from that.
        let reached = reached(&shown.objects, why.all());
        let dead: Vec<&u64> = shown.objects.keys().filter(|object| !reached.contains(*object)).collect();
        assert!(dead.is_empty(), "{} objects are held by nothing: {:x?}", dead.len(), &dead[..dead.len().min(10)]);

        let mut names = Names::asked_by(&mut probe);
        let mut of = |name: &str| -> BTreeSet<u64> {
            shown.objects.iter().filter(|(_, object)| names.of(object.class) == name).map(|(at, _)| *at).collect()
        };
        // A literal is in the frozen heap, on versions that have one.
        let texts: BTreeSet<u64> =
            of("Kinds.Outer<int>.Inner<string>").iter().flat_map(|at| shown.objects[at].references.clone()).collect();
        assert_eq!((texts.len(), texts.is_subset(&why.frozen)), (1, runtime.major() >= 8));
        let [values, on_stack, handled, pinned] =
            ["Kinds.Value", "Kinds.OnStack", "Kinds.Handled", "Kinds.Fixed[]"].map(&mut of);
        let roots_of = |objects: &BTreeSet<u64>| -> Vec<(u64, u64)> {
            let roots = shown.roots.iter().filter(|root| objects.contains(&root.object));
            roots.map(|root| (root.kind, root.flags)).collect()
        };
        holds!(
            GCH_02 clr,
            (roots_of(&handled), roots_of(&pinned)) == (vec![(HANDLE, 0); ROUNDS], vec![(HANDLE, PINNING); ROUNDS])
        );
        assert!(roots_of(&on_stack).contains(&(STACK, 0)), "{:?}", roots_of(&on_stack));
        // No reported root holds the target of a dependent handle: the runtime reports that separately, and the snapshot infers a root.
        assert_eq!((values.len(), roots_of(&values)), (ROUNDS, vec![]));
        assert!(values.iter().all(|value| why.dependent.contains(value)));
        for (what, objects) in [("values", &values), ("stack", &on_stack), ("handles", &handled), ("pinned", &pinned)] {
            assert!(objects.is_subset(&inferred), "{what}");
        }
        stage.leave(probe);
    });
}

/// The reasons that keep an object alive without a reference from another object.
struct Why {
    /// The runtime reported a root that is not weak.
    root: BTreeSet<u64>,
    /// A dependent handle.
    dependent: BTreeSet<u64>,
    /// It is in the frozen heap: code refers to it, which the runtime does not report.
    frozen: BTreeSet<u64>,
}

impl Why {
    fn of(shown: &Reported) -> Why {
        let strong = shown.roots.iter().filter(|root| root.flags & WEAK == 0 && root.object != 0);
        let root: BTreeSet<u64> = strong.map(|root| root.object).collect();
        let strange: Vec<&u64> = root.iter().filter(|object| !shown.objects.contains_key(object)).collect();
        assert!(strange.is_empty(), "roots that hold no object: {strange:x?}");
        let dependent = shown.dependents.iter().map(|(_, to)| *to).collect();
        let is_frozen = |object: &u64| shown.frozen.iter().any(|(begin, end)| (begin..end).contains(&object));
        let frozen = shown.objects.keys().copied().filter(is_frozen).collect();
        Why { root, dependent, frozen }
    }

    fn holds(&self, object: u64) -> bool {
        self.root.contains(&object) || self.dependent.contains(&object) || self.frozen.contains(&object)
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.root.iter().chain(&self.dependent).chain(&self.frozen).copied()
    }
}

fn reached<C>(objects: &Heap<C>, from: impl Iterator<Item = u64>) -> BTreeSet<u64> {
    let mut waiting: Vec<u64> = from.collect();
    let mut reached: BTreeSet<u64> = waiting.iter().copied().collect();
    while let Some(object) = waiting.pop() {
        let references = objects.get(&object).map_or(&[][..], |object| &object.references);
        waiting.extend(references.iter().copied().filter(|target| reached.insert(*target)));
    }
    reached
}
