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
