//! Objects allocated shortly before a snapshot with roots or a watch. In a GC with MONITOR_GC the runtime counts them by class, object by
//! object, which takes seconds with very many classes. Such objects must age first.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Remora, Runtime, Start, Target, on_every_runtime, remora};
use remora_holds::holds;
use rustix::process::Signal;

/// GC modes.
const MODES: [&[(&str, &str)]; 3] = [
    &[],
    &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1")],
    &[("COMPlus_gcConcurrent", "0"), ("DOTNET_gcConcurrent", "0")],
];

/// More types than a watch lets the runtime count in one GC, at any addresses.
const TYPES: usize = 40_000;

/// Makes generation 0 large enough for one object of each type, twice.
const MUCH_YOUNG: [(&str, &str); 2] = [("COMPlus_GCgen0size", "8000000"), ("DOTNET_GCgen0size", "0x8000000")];

fn program(runtime: &Runtime, mode: &[(&str, &str)]) -> Target {
    let start = Start::managed(runtime, "generations");
    mode.iter().fold(start, |start, (name, value)| start.env(name, value)).ready()
}

/// Runs `happens` on a program that has allocated objects of type `name`, among them one of each of `types` types. Returns the number of
/// full GCs meanwhile, and the result.
fn collections<R>(target: &mut Target, (name, types): (&str, usize), happens: impl FnOnce() -> R) -> (u32, R) {
    let whole = |target: &mut Target| -> u32 { target.ask("count").rsplit(' ').next().unwrap().parse().unwrap() };
    assert_eq!(target.ask(&format!("types {types}")), "done");
    // Leftovers of the previous run are old by then.
    (0..2).for_each(|_| assert_eq!(target.ask("collect 2"), "done"));
    assert_eq!(target.ask("copies"), "done");
    assert_eq!(target.ask(&format!("make {name} 50")), "done");
    assert_eq!(target.ask(&format!("generation {name}")), "0");
    let before = whole(target);
    let came = happens();
    (whole(target) - before, came)
}

#[test]
fn gch_02_of_few_young_types_roots_and_a_watch_take_one_collection_and_of_very_many_two() {
    on_every_runtime(|runtime| {
        for (mode, types, expected) in
            [(MODES[0], 0, 1), (MODES[1], 0, 1), (MODES[2], 0, 1), (MODES[1], TYPES, 2), (&MUCH_YOUNG[..], TYPES, 2)]
        {
            let mut target = program(runtime, mode);
            let process = target.pid().to_string();
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("young.remora-heap");
            let ordinary = ["heap", "-p", &process, "--force", "-o", file.to_str().unwrap()];
            let with_roots: Vec<&str> = ordinary.into_iter().chain(["--roots"]).collect();
            let (made, _) = collections(&mut target, ("node", types), || remora(ordinary).succeeded());
            assert_eq!(made, 1, "{mode:?}");
            let (made, _) = collections(&mut target, ("pair", 0), || remora(&with_roots).succeeded());
            holds!(GCH_02 clr rem, made == expected, "{mode:?}");
            let (made, watch) = collections(&mut target, ("text", 0), || {
                let mut watch = Remora::start(["heap", "-p", &process, "--watch", "1h"]);
                watch.wait_until_it_says("watching generations");
                watch
            });
            holds!(GCH_02 clr rem, made == expected, "{mode:?}");
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
        let shown = ended.json();
        let note = shown["notes"][0].as_str().unwrap();
        holds!(GCH_03 rem, note.contains("the runtime would have counted new objects by type"), "{shown:#}");
        assert_eq!(shown["receipt"]["clean"], true, "{shown:#}");
        // Later GCs do not count more, either, and the program is unchanged.
        assert_eq!(target.ask("copies"), "done");
        assert_eq!(target.ask("collect 0"), "done");
    });
}
