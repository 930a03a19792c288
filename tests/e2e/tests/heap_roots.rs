//! `remora heap --roots` on live runtimes: the roots that the runtime reports, and the process after a main profiler.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/heap.rs"]
mod heap;

use heap::snapshot;
use remora_e2e::{Facts, ForeignProfiler, Kind, Runtime, Start, Target, on_every_runtime, on_runtimes, remora};
use remora_heap::{HeapGraph, ObjectIx, RootKind};
use remora_holds::holds;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The number of objects of each kind.
const ROUNDS: usize = 20;

/// The first runtime that counts profilers beside the main one.
const FIRST_WITH_COUNT: u32 = 6;

/// Exit code of `remora`, from docs/reference/exit-codes.md.
const SLOT_TAKEN: i32 = 17;

/// GC modes.
const MODES: [&[(&str, &str)]; 3] = [
    &[],
    &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1")],
    &[("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")],
];

fn kinds(runtime: &Runtime, mode: &[(&str, &str)]) -> Target {
    let start = Start::managed(runtime, "kinds").arg(ROUNDS.to_string());
    let mut target = mode.iter().fold(start, |start, (name, value)| start.env(name, value)).ready();
    target.ask("settle");
    target
}

fn take(target: &Target, file: &Path) -> Value {
    let process = target.pid().to_string();
    let shown = remora(["heap", "-p", &process, "--roots", "--force", "--json", "-o", file.to_str().unwrap()])
        .succeeded()
        .json();
    assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&Value::Bool(true), &Value::Bool(true)), "{shown:#}");
    // The program loads assemblies from bytes, so some of its objects have no names.
    let notes: Vec<&str> = shown["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(notes.iter().all(|note| note.contains("objects are of types without names")), "{notes:?}");
    shown
}

/// For each object of a type: the kinds of its roots, with their descriptions.
fn held(graph: &HeapGraph, name: &str) -> Vec<BTreeSet<(RootKind, Option<String>)>> {
    let of = |object: ObjectIx| {
        let roots = graph.roots().iter().filter(|root| root.object == object);
        roots.map(|root| (root.kind, graph.root_note(object, root.kind).map(str::to_owned))).collect()
    };
    graph.objects().filter(|object| graph.type_of(*object).name == name).map(of).collect()
}

#[test]
fn gch_02_roots_have_the_kinds_and_words_that_the_runtime_tells() {
    on_every_runtime(|runtime| {
        for mode in MODES {
            let target = kinds(runtime, mode);
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("roots.remora-heap");
            let shown = take(&target, &file);
            let graph = snapshot(&file).graph;
            let only = |kind, note: Option<&str>| BTreeSet::from([(kind, note.map(str::to_owned))]);
            holds!(
                GCH_02 clr rem, held(&graph, "Kinds.Handled") == vec![only(RootKind::Handle, None); ROUNDS], "{mode:?}"
            );
            assert_eq!(held(&graph, "Kinds.Fixed[]"), vec![only(RootKind::Pinned, None); ROUNDS], "{mode:?}");
            // A weak handle is no root: these are held by a list.
            assert_eq!(held(&graph, "Kinds.Weakly"), vec![BTreeSet::new(); ROUNDS], "{mode:?}");
            let on_stack = held(&graph, "Kinds.OnStack");
            assert_eq!(on_stack, [only(RootKind::Stack, Some("in Kinds.Program.Hold()"))], "{mode:?}");
            let values = held(&graph, "Kinds.Value");
            let keys: BTreeSet<String> = graph
                .objects()
                .filter(|object| graph.type_of(*object).name == "Kinds.Key")
                .map(|key| format!("as long as Kinds.Key (at {:#x}) is alive", graph.address(key)))
                .collect();
            let by = |kinds: &BTreeSet<(RootKind, Option<String>)>| match kinds.first() {
                Some((RootKind::Dependent, Some(note))) if kinds.len() == 1 => note.clone(),
                _ => panic!("a value is held otherwise: {kinds:?}"),
            };
            assert_eq!((values.len(), keys.len()), (ROUNDS, ROUNDS));
            assert_eq!(values.iter().map(by).collect::<BTreeSet<_>>(), keys, "each by a key of its own; {mode:?}");
            // The runtime reports no roots for frozen objects; before .NET 8 there are none.
            assert_eq!(shown["roots"]["inferred"].is_null(), runtime.major() < 8, "{mode:?}: {}", shown["roots"]);
        }
    });
}

#[test]
fn det_18_after_roots_were_seen_others_come_and_go() {
    on_runtimes(&Runtime::from_major(FIRST_WITH_COUNT), |runtime| {
        let mut target = kinds(runtime, &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("roots.remora-heap");
        for round in 0..3 {
            take(&target, &file);
            let mut other = ForeignProfiler::attach(&target, Kind::NotificationOnly).expect("attached");
            other.collect().expect("collected");
            let counts = other.counts();
            holds!(DET_18 rem, counts.attached && counts.finished >= 3, "round {round}: the runtime counts wrong: {counts:?}");
            other.detach().expect("detached");
        }
        let mut main = ForeignProfiler::attach(&target, Kind::Main).expect("the place is free");
        main.collect().expect("collected");
        assert!(main.counts().finished >= 3);
        main.detach().expect("detached");
        assert!(target.is_alive());
    });
}

/// Descriptors like the agent's eventfd.
fn events(facts: &Facts) -> usize {
    facts.descriptors.values().filter(|what| what.contains("eventfd")).count()
}

#[test]
fn det_14_what_stays_after_roots_were_seen_is_one_inert_library_for_each_time() {
    on_every_runtime(|runtime| {
        let target = kinds(runtime, &[]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("roots.remora-heap");
        let before = Facts::of(target.pid());
        for times in 1..=3 {
            let shown = take(&target, &file);
            let stays = if runtime.major() >= FIRST_WITH_COUNT { times } else { 0 };
            let allowed = shown["receipt"]["allowed"].as_array().unwrap();
            let mapped = allowed.iter().filter(|left| left["kind"] == "mapping").count();
            assert_eq!(mapped, stays, "{shown:#}");
            let left = Facts::of(target.pid()).left_since(&before);
            holds!(DET_14 clr rem, left.iter().all(|left| left.contains("-stays.so")), "{left:?}");
            assert_eq!(events(&Facts::of(target.pid())), events(&before), "what stays holds no descriptor");
            // An ordinary snapshot works as before, and names the earlier leftovers.
            let process = target.pid().to_string();
            let ordinary = ["heap", "-p", &process, "--force", "--json", "-o", file.to_str().unwrap()];
            let shown = remora(ordinary).succeeded().json();
            assert_eq!(shown["receipt"]["clean"], true, "{shown:#}");
        }
    });
}

#[test]
fn att_07_beside_another_main_profiler_roots_are_refused_with_what_remains_possible() {
    on_every_runtime(|runtime| {
        let target = kinds(runtime, &[]);
        let mut other = ForeignProfiler::attach(&target, Kind::Main).expect("attached");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("roots.remora-heap");
        let (process, before) = (target.pid().to_string(), Facts::of(target.pid()));
        let with_roots = ["heap", "-p", &process, "--roots", "--json", "-o", file.to_str().unwrap()];
        let refused = remora(with_roots);
        let words = ["taken by", "leave --roots out", "beside the other profiler"];
        holds!(ATT_07 rem, refused.has_failed_with(SLOT_TAKEN, &words), "{refused}");
        assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new(), "nothing was loaded");
        let without = ["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()];
        if runtime.major() >= FIRST_WITH_COUNT {
            holds!(ATT_07 clr rem, remora(without).succeeded().json()["complete"] == true);
        } else {
            let refused = remora(without);
            let words = ["taken by", "before .NET 6 there is room for one only"];
            holds!(ATT_07 rem, refused.has_failed_with(SLOT_TAKEN, &words), "{refused}");
        }
        other.collect().expect("the other one goes on");
    });
}
