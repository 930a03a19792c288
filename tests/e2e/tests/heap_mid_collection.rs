//! A snapshot requested during a GC must not take that GC for its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

#[path = "support/heap.rs"]
mod heap;

use heap::{Heap, Reported, named, snapshot};
use remora_e2e::probe::{Seat, Stage};
use remora_e2e::{Facts, Remora, Runtime, on_runtimes, until};
use remora_holds::holds;

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;

/// On 3.1 a process has one profiler, so no other one can hold a GC.
#[test]
fn gch_01_a_whole_collection_that_began_before_the_attach_is_not_taken_for_the_snapshots_own() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut stage = Stage::start_program(runtime, "obedient", &[], &[]);
        let mut probe = stage.attached(MONITOR_GC, 0);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.remora-heap");
        // Its start has been reported already: the snapshot sees only its end.
        probe.done("hold GarbageCollectionFinished");
        stage.target().tell("start a gc");
        let held = stage.seat("GarbageCollectionFinished");
        // Requested only now, so the held GC is not recorded.
        probe.done(&format!("witness {}", folder.path().display()));
        let process = stage.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()]);
        until("the agent is there while the collection is held", || agents(stage.pid()) == 2);
        held.leave(0);
        let shown = command.finish().succeeded().json();
        assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
        assert_eq!(stage.target().read_line(), "started");
        assert_eq!(stage.act("finish a"), "collected");
        probe.done("witnessed");
        let (shown, taken) = (Reported::read(folder.path()), named(&snapshot(&file).graph));
        let taken: Heap<()> = taken.iter().map(|(address, object)| (*address, object.called(()))).collect();
        let shown: Heap<()> = shown.objects.iter().map(|(address, object)| (*address, object.called(()))).collect();
        holds!(
            GCH_01 clr rem, shown == taken,
            "{} objects in the collection that the snapshot asked for, {} in the snapshot", shown.len(), taken.len()
        );
        stage.leave(probe);
    });
}

/// The agent's threads, which start after it has requested its callbacks.
fn agents(process: u32) -> usize {
    Facts::of(process).threads.values().filter(|name| name.starts_with("remora-agent")).count()
}

/// COR_PRF_HIGH_BASIC_GC, which keeps concurrent GC possible.
const BASIC_GC: u32 = 0x10;

/// At the end of such a GC the program runs: objects allocated meanwhile cannot be walked, and dead ones are still there.
#[test]
fn gch_01_a_whole_collection_beside_the_program_that_was_asked_for_meanwhile_is_not_taken_for_the_snapshots_own() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut stage = Stage::start_program(runtime, "gc", &["0"], &[]);
        let mut probe = stage.attached(0, BASIC_GC);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.remora-heap");
        // The program repeats until a GC has started that the runtime reports as background.
        until("collections run beside the program", || stage.act("full") == "background");
        probe.done("hold GarbageCollectionStarted");
        stage.target().tell("full");
        let beside = whole_collection_begins(&stage, &mut probe);
        let process = stage.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()]);
        until("the agent is there while the beginning is held", || agents(stage.pid()) == 2);
        probe.done("hold GarbageCollectionStarted");
        beside.leave(0);
        // The next full GC waits for the end of this one. Until that one ends, too, there is no fork.
        let next = whole_collection_begins(&stage, &mut probe);
        holds!(
            GCH_01 clr rem, Facts::of(stage.pid()).children.len() == 0,
            "a copy was made at the end of somebody else's collection"
        );
        next.leave(0);
        let shown = command.finish().succeeded().json();
        assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
        stage.target().read_line();
        stage.leave(probe);
    });
}

/// The start of a full GC, which is held; GCs of younger generations continue.
fn whole_collection_begins(stage: &Stage, probe: &mut Seat) -> Seat {
    loop {
        let held = stage.seat("GarbageCollectionStarted");
        if held.id() == "0x2" {
            return held;
        }
        probe.done("hold GarbageCollectionStarted");
        held.leave(0);
    }
}

/// GCs that the program runs in sequence: it is hardly ever between two of them.
const COLLECTIONS: usize = 3000;
/// Objects that it keeps, so that each GC takes its time.
const KEPT: u64 = 500_000;

/// On 3.1 a process has one profiler, so none can hold a GC for another. A program that only collects is mostly in a GC when a profiler
/// attaches.
#[test]
fn gch_01_who_comes_in_the_middle_of_a_collection_hears_its_end_without_a_beginning_and_ignores_it() {
    on_runtimes(&[Runtime::major_is(3)], |runtime| {
        let mut stage = Stage::start_program(runtime, "gc", &["0", &KEPT.to_string()], &[]);
        for _ in 0..COLLECTIONS {
            stage.target().tell("collect");
        }
        until("a profiler has come in the middle of a collection", || {
            let mut probe = stage.attached(MONITOR_GC, 0);
            until("whole collections were told of", || probe.count("GarbageCollectionFinished") > 2);
            let shown = probe.done("log");
            let shown = shown.iter().filter_map(|entry| entry.split_once(':').map(|(name, _)| name));
            let shown: Vec<&str> = shown.filter(|name| name.starts_with("GarbageCollection")).collect();
            let is_mid = shown[0] == "GarbageCollectionFinished";
            let pairs = &shown[usize::from(is_mid)..];
            holds!(
                GCH_01 clr,
                pairs.chunks_exact(2).all(|pair| pair == ["GarbageCollectionStarted", "GarbageCollectionFinished"]),
                "{shown:?}"
            );
            stage.leave(probe);
            is_mid
        });
        // The product's snapshots of such a program are complete.
        let folder = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let file = folder.path().join(format!("{round}.remora-heap"));
            let process = stage.pid().to_string();
            let snapshot = Remora::start(["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()]);
            let shown = snapshot.finish().succeeded().json();
            assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
            let nodes = shown["types"].as_array().unwrap().iter().find(|row| row["type"] == "Gc.Node").unwrap();
            holds!(GCH_01 rem, nodes["count"] == KEPT, "{shown:#}");
        }
    });
}
