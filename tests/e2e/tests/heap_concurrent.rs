//! Concurrent GC: a profiler that requests all references disables it, a snapshot never does.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::probe::Stage;
use remora_e2e::{Facts, HeldCopy, Remora, Target, on_every_runtime, until};
use remora_holds::holds;

/// COR_PRF_MONITOR_GC.
const MONITOR_GC: u32 = 0x80;
/// CORPROF_E_CONCURRENT_GC_NOT_PROFILABLE.
const CONCURRENT_NOT_PROFILABLE: u32 = 0x8013_1376;

/// Nodes of the program, so that the copy has work.
const MANY: u64 = 4_000_000;
/// Full collections that are asked for until one runs beside the program.
const COLLECTIONS: usize = 500;

#[test]
fn gch_05_who_asks_for_the_walk_inside_initialize_for_attach_ends_collections_beside_the_program_until_the_detach() {
    on_every_runtime(|runtime| {
        let mut stage = Stage::start_program(runtime, "gc", &["0"], &[]);
        // The program repeats until a GC has started that the runtime reports as background.
        until("collections run beside the program", || stage.act("full") == "background");

        let mut probe = stage.attached(MONITOR_GC, 0);
        holds!(GCH_05 clr, stage.act("full") == "blocking", "while it is asked for");
        probe.done("mask 0 0");
        assert_eq!(stage.act("full"), "blocking", "and when it is not any more");
        stage.leave(probe);
        until("collections run beside the program again", || stage.act("full") == "background");

        // Later it is refused, and nothing changes.
        let mut probe = stage.attached(0, 0);
        holds!(GCH_05 clr, probe.refused(&format!("mask {MONITOR_GC:#x} 0")) == CONCURRENT_NOT_PROFILABLE);
        until("they still do", || stage.act("full") == "background");
        stage.leave(probe);
    });
}

/// Blocking GC, and server GC.
const MODES: [&[(&str, &str)]; 2] = [
    &[("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")],
    &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1"), ("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")],
];

#[test]
fn gch_05_blocking_and_server_mode_grant_the_walk_at_any_time_and_tell_every_object() {
    on_every_runtime(|runtime| {
        for variables in MODES {
            let stage = Stage::start_program(runtime, "kinds", &["40"], variables);
            let mut probe = stage.attached(0, 0);
            probe.done(&format!("mask {MONITOR_GC:#x} 0"));
            let folder = tempfile::tempdir().unwrap();
            probe.done(&format!("witness {}", folder.path().display()));
            probe.done("gc");
            probe.done("witnessed");
            let objects = std::fs::metadata(folder.path().join("objects")).unwrap().len();
            // Address, class, size and number of references of each, in words.
            holds!(GCH_05 clr, objects > 40_000 * 4 * 8, "{variables:?}: {objects} bytes");
            stage.leave(probe);
        }
    });
}

#[test]
fn gch_05_a_snapshot_leaves_collections_beside_the_program_as_they_were() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "gc", &["0", &MANY.to_string()]);
        let full = |target: &mut Target| target.ask("full");
        until("collections run beside the program", || full(&mut target) == "background");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("beside.remora-heap");
        let command = Remora::start(["heap", "-p", &target.pid().to_string(), "--json", "-o", file.to_str().unwrap()]);
        // The walk is stopped, and the agent waits for it.
        let copy = HeldCopy::of(&target, &command);
        let is_beside = (0..COLLECTIONS).any(|_| full(&mut target) == "background");
        let facts = Facts::of(target.pid());
        let is_there = facts.threads.values().any(|name| name.starts_with("remora-agent"));
        assert!(is_there, "{facts:?}");
        holds!(GCH_05 clr rem, is_beside, "with the agent there, every collection has stopped the program");
        copy.go_on();
        let shown = command.finish().succeeded().json();
        assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
        until("and when it has left", || full(&mut target) == "background");
    });
}
