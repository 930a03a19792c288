//! What a program has made shortly before its roots are asked for, or before it is watched: the runtime counts it class by class, object by
//! object, in a collection that is told with MONITOR_GC, and takes seconds where there are very many classes. So it must have grown old.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Remora, Runtime, Start, Target, on_every_runtime, remora};
use rustix::process::Signal;

/// Ways to collect.
const MODES: [&[(&str, &str)]; 3] = [
    &[],
    &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1")],
    &[("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")],
];

/// More types than a watch has the runtime count in one collection, whatever their addresses.
const TYPES: usize = 40_000;

/// All of one of each are young at once.
const MUCH_YOUNG: [(&str, &str); 2] = [("COMPlus_GCgen0size", "8000000"), ("DOTNET_GCgen0size", "0x8000000")];

fn program(runtime: &Runtime, mode: &[(&str, &str)]) -> Target {
    let start = Start::managed(runtime, "generations");
    mode.iter().fold(start, |start, (name, value)| start.env(name, value)).ready()
}

/// Makes objects of a type, and says in which generation they are when `meanwhile` has happened; and what came of that.
fn generation<R>(target: &mut Target, name: &str, meanwhile: impl FnOnce() -> R) -> (String, R) {
    assert_eq!(target.ask(&format!("make {name} 50")), "done");
    assert_eq!(target.ask(&format!("generation {name}")), "0");
    let came = meanwhile();
    (target.ask(&format!("generation {name}")), came)
}

#[test]
fn gch_02_what_is_young_has_grown_old_when_roots_are_told_and_when_a_watch_begins() {
    on_every_runtime(|runtime| {
        for mode in MODES {
            let mut target = program(runtime, mode);
            let process = target.pid().to_string();
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("young.remora-heap");
            let ordinary = ["heap", "-p", &process, "--force", "-o", file.to_str().unwrap()];
            let with_roots: Vec<&str> = ordinary.into_iter().chain(["--roots"]).collect();
            let (after, _) = generation(&mut target, "node", || remora(ordinary).succeeded());
            assert_eq!(after, "1", "one collection; {mode:?}");
            let (after, _) = generation(&mut target, "pair", || remora(&with_roots).succeeded());
            assert_eq!(after, "2", "that of the roots came behind another; {mode:?}");
            let (after, watch) = generation(&mut target, "text", || {
                let mut watch = Remora::start(["heap", "-p", &process, "--watch", "1h"]);
                watch.wait_until_it_says("watching generations");
                watch
            });
            assert_eq!(after, "2", "that of the first picture came behind another; {mode:?}");
            watch.signal(Signal::INT);
            watch.finish().succeeded();
        }
    });
}

#[test]
fn gch_03_a_watch_ends_before_the_runtime_counts_tens_of_thousands_of_types() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime, &MUCH_YOUNG);
        assert_eq!(target.ask(&format!("types {TYPES}")), "done");
        let mut watch = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", "1h", "--json"]);
        watch.wait_until_it_says("watching generations");
        for deed in ["copies", "collect 0"] {
            assert_eq!(target.ask(deed), "done");
        }
        let ended = watch.finish().failed_with(42, &["there was no last snapshot to compare it with"]);
        let told = ended.json();
        let note = told["notes"][0].as_str().unwrap();
        assert!(note.contains("ended before the runtime had counted by type"), "{told:#}");
        assert_eq!(told["receipt"]["clean"], true, "{told:#}");
        // It counts no more in later collections, either, and the program is as it was.
        assert_eq!(target.ask("copies"), "done");
        assert_eq!(target.ask("collect 0"), "done");
    });
}
