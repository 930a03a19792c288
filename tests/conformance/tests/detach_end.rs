//! The minimum duration of a detach, and its end: the library is freed, then the event is written, then the next attach is served. On
//! live runtimes and their models.
//!
//! The profiler is `tests/probe`, which can block the linker while it frees the library.
#![forbid(unsafe_code)]

use remora_conformance::probe::{CLASS, Seat, Stage, meanwhile};
use remora_conformance::{in_every_world, on_runtimes, worlds};
use remora_e2e::{RuntimeMessages, diagnostics, on_runtimes_at_once, until};
use remora_holds::holds;
use std::time::{Duration, Instant};

const FAIL: u32 = 0x8000_4005;
const MODULE_NOT_FOUND: u32 = 0x8007_007E;

/// The model's time passes this much faster (`crates/model/clr-model/src/host.rs`).
const COMPRESSION: u32 = 10;
/// More than the error of the runtime's clock, milliseconds.
const TICK: u64 = 50;
/// Entries about profilers: attach requested, profiler loaded, detach started, detach finished; library could not be loaded.
const ASKED: &str = "[0x2512].";
const LOADED: &str = "[0x2507].";
const LEAVING: &str = "[0x2513].";
const LEFT: &str = "[0x2514].";
const BROKEN: &str = "[0x2504].";

#[test]
fn det_23_the_entry_about_the_detach_comes_after_the_library_is_freed() {
    // Live only: the model has entries, but not the texts of the runtime's resources. .NET Core 3.1 writes none (ATT-15).
    on_runtimes(&worlds(|world| !world.is_model() && world.major() >= 8), |runtime| {
        let mut stage = Stage::start(runtime);
        let pid = stage.pid();
        let messages = RuntimeMessages::of(pid);
        let freed = held_while_it_is_freed(&mut stage);
        // Entries arrive in the order in which they were written. An entry after that of this attach, which would load nothing, was
        // written while the library was not free yet, or later.
        let attaching = std::thread::spawn(move || diagnostics::attach_profiler(pid, &CLASS, "/nowhere/lib.so", &[]));
        assert_eq!(messages.wait_for(4), [ASKED, LOADED, LEAVING, ASKED]);
        assert!(stage.is_mapped());
        freed.leave(0);
        let written = messages.wait_for(5);
        holds!(DET_23 clr, !stage.is_mapped(), "the entry has come, and the library is not free");
        holds!(DET_23 clr, written[4] == LEFT);
        let answer = attaching.join().unwrap_or_else(|_| panic!("the attach broke off"));
        assert_eq!(answer, Err(MODULE_NOT_FOUND));
        holds!(DET_23 clr, messages.wait_for(6) == [ASKED, LOADED, LEAVING, ASKED, LEFT, BROKEN]);
        // And attaches are served.
        let own = stage.attached(0, 0);
        stage.leave(own);
        assert_eq!(messages.wait_for(10)[6..], [ASKED, LOADED, LEAVING, LEFT]);
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_23_while_the_library_is_freed_no_attach_is_served_and_then_each_is() {
    in_every_world(|runtime| {
        let mut stage = Stage::start(runtime);
        let freed = held_while_it_is_freed(&mut stage);
        let attaching = stage.attach(&[]);
        until("the request is taken", || stage.waiting_requests() == 0);
        meanwhile(runtime);
        holds!(DET_23 sim clr, !stage.has_come("InitializeForAttach") && attaching.is_pending());
        assert!(stage.is_mapped());
        freed.leave(0);
        stage.seat("InitializeForAttach").leave(FAIL);
        holds!(DET_23 sim clr, attaching.answer() == Err(FAIL));
        until("the library is unmapped", || !stage.is_mapped());
        let own = stage.attached(0, 0);
        stage.leave(own);
        assert_eq!(stage.act("finish a"), "obedient");
    });
}

#[test]
fn det_09_before_the_runtime_looks_it_sleeps_the_expected_time_within_its_bounds() {
    in_every_world(|runtime| {
        // The runtime limits ten minutes to five seconds. The only check of that maximum is that the test does not time out.
        // But .NET Core 3.1 sleeps ten minutes: there a sleep longer than five seconds has to suffice.
        let longest = if runtime.major() < 6 { (8_000, 8_000) } else { (600_000, 5_000) };
        for (expected, least) in [(0, 2_500), (1, 300), (1_000, 1_000), longest] {
            let stage = Stage::start_with_usual_sleeps(runtime);
            let mut own = stage.attached(0, 0);
            let before = Instant::now();
            own.done(&format!("detach {expected}"));
            own.leave(0);
            stage.seat("ProfilerDetachSucceeded");
            let slept = before.elapsed();
            // The runtime counts in clock ticks.
            let least = Duration::from_millis(least - TICK) / if runtime.is_model() { COMPRESSION } else { 1 };
            holds!(DET_09 sim clr, slept >= least, "expected to take {expected} ms, it looked after {slept:?}");
            stage.gone_after_command();
        }
    });
}

#[test]
fn det_09_the_runtime_looks_after_the_expected_time_after_twice_that_and_then_steadily() {
    // Live only: in the model time is simulated, and its own tests look at every sleep.
    on_runtimes_at_once(&worlds(|world| !world.is_model()), |runtime| {
        /// Handed over as the expected time, milliseconds.
        const EXPECTED: u64 = 1000;
        // .NET Core 3.1 sleeps ten minutes then, later versions five seconds.
        let looks = if runtime.major() < 6 { vec![1_000, 2_000] } else { vec![1_000, 2_000, 7_000] };
        let mut stage = Stage::start_with_usual_sleeps(runtime);
        let (mut own, held, detacher) = stage.held_in_load_with_detach_thread();
        let begun = Instant::now();
        own.done(&format!("detach {EXPECTED}"));
        own.leave(0);
        // A check is where the thread runs after a sleep. It may give up the CPU several times then.
        let (mut before, mut changed, mut seen) = (detacher.sleeps(), begun, Vec::new());
        until("the runtime has looked so often, and on 3.1 would have once more", || {
            let sleeps = detacher.sleeps();
            if sleeps != before {
                seen.extend((changed.elapsed() > Duration::from_millis(EXPECTED / 2)).then(|| begun.elapsed()));
                (before, changed) = (sleeps, Instant::now());
            }
            seen.len() >= 3 || runtime.major() < 6 && seen.len() >= 2 && begun.elapsed() > Duration::from_secs(8)
        });
        let is_late = |(seen, least): (&Duration, &u64)| *seen >= Duration::from_millis(least - TICK);
        holds!(DET_09 clr, seen.len() == looks.len() && seen.iter().zip(&looks).all(is_late), "{seen:?}");
        held.leave(0);
        drop(stage);
    });
}

/// A detaching probe at the point where the linker frees its library, blocked there.
fn held_while_it_is_freed(stage: &mut Stage) -> Seat {
    let (mut own, held) = stage.held_in_load();
    own.done("hold Unloading");
    own.done("detach 300");
    let asked = own.thread();
    own.leave(0);
    // Its own reference on the library is released: the runtime's is the last one.
    until("the asking thread has ended", || !stage.threads().contains(&asked));
    held.leave(0);
    stage.seat("ProfilerDetachSucceeded");
    stage.seat("Released");
    stage.seat("Unloading")
}
