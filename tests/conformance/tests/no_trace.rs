//! Leftovers of a profiler after its detach: none, on live runtimes and their models.
//!
//! The profiler is `tests/probe`. The tests compare the kernel's view of the process before and after. Remora takes no part.
#![forbid(unsafe_code)]

use remora_conformance::in_every_world;
use remora_conformance::probe::{Seat, Stage};
use remora_e2e::{Facts, Mapping, TIMEOUT, diagnostics};
use remora_holds::holds;
use std::fmt::Debug;
use std::time::Instant;

/// Module loads, compilations, threads.
const LOW: u32 = 0x4 | 0x20 | 0x200;
/// GCs, without the flag that disables concurrent GC.
const GC: u32 = 0x10;
/// Set and command of a request that the runtime's port accepts, or refuses if it is too old.
const PROCESS_INFO: (u8, u8) = (4, 0);
/// A leak in each round shows after several rounds.
const ROUNDS: usize = 3;
/// The first release whose detach thread is permanent.
const FIRST_TO_KEEP_ITS_THREAD: u32 = 6;
/// The mappings of the runtime's memory for compiled code, which grows with the program.
const CODE: [&str; 2] = ["/memfd:doublemapper", "/dev/zero"];

#[test]
fn det_14_threads_mappings_and_descriptors_are_as_before_but_for_the_runtimes_own_detach_thread() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        // Permanent resources of the program's and the port's first use.
        works(&mut stage);
        let _ = diagnostics::command_until_closed(stage.pid(), PROCESS_INFO.0, PROCESS_INFO.1, &[]);
        let mut before = Facts::of(stage.pid());
        let (own, detacher) = stage.attached_with_detach_thread(0);
        if runtime.major() >= FIRST_TO_KEEP_ITS_THREAD {
            let name = Facts::of(stage.pid()).threads.remove(&detacher.thread());
            before.threads.insert(detacher.thread(), name.unwrap_or_default());
        }
        comes_and_goes(&mut stage, own, &before);
        for _ in 1..ROUNDS {
            let own = stage.attached(0, 0);
            comes_and_goes(&mut stage, own, &before);
        }
    });
}

/// An attached probe is visible, gets callbacks, and detaches.
#[track_caller]
fn comes_and_goes(stage: &mut Stage, mut own: Seat, before: &Facts) {
    let there = traces(&Facts::of(stage.pid()), before).join("\n");
    assert!(["mapping ", "threads ", "descriptors "].iter().all(|kind| there.contains(kind)), "not seen:\n{there}");
    own.done(&format!("mask {LOW:#x} {GC:#x}"));
    works(stage);
    assert!(own.count("JITCompilationFinished") > 0 && own.count("GarbageCollectionFinished") > 0);
    stage.leave(own);
    until_nothing_is_left(stage, before);
}

/// The runtime closes the connection, and the thread id vanishes, slightly after the last report.
#[track_caller]
fn until_nothing_is_left(stage: &Stage, before: &Facts) {
    let end = Instant::now() + TIMEOUT;
    let mut left = traces(&Facts::of(stage.pid()), before);
    while !left.is_empty() {
        assert!(Instant::now() < end, "this is left:\n{}", left.join("\n"));
        std::thread::yield_now();
        left = traces(&Facts::of(stage.pid()), before);
    }
    holds!(DET_14 sim clr, left == Vec::<String>::new());
}

/// Verbs that need no memory or descriptors of their own, unlike a load.
fn works(stage: &mut Stage) {
    for verb in ["jit", "throw", "gc"] {
        stage.act(&format!("a {verb}"));
        stage.act(&format!("b {verb}"));
    }
}

/// The differences from before, by kind.
fn traces(after: &Facts, before: &Facts) -> Vec<String> {
    // The model's own process has a name of this project.
    let own = before.remora();
    let mut traces: Vec<String> = after.left_since(before).into_iter().filter(|trace| !own.contains(trace)).collect();
    let mut differ = |kind: &str, after: &dyn Debug, before: &dyn Debug| {
        let (after, before) = (format!("{after:?}"), format!("{before:?}"));
        if after != before {
            traces.push(format!("{kind} {after}, before {before}"));
        }
    };
    differ("threads", &after.threads, &before.threads);
    differ("descriptors", &after.descriptors, &before.descriptors);
    differ("files that are mapped", &files(after), &files(before));
    traces
}

/// Mapped files, without memory for code.
fn files(facts: &Facts) -> Vec<&Mapping> {
    let is_file = |name: &str| name.starts_with('/') && !CODE.iter().any(|code| name.starts_with(code));
    facts.maps.iter().filter(|mapping| is_file(&mapping.name)).collect()
}
