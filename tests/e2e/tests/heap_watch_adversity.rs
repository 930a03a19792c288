//! A watched heap in unusual conditions: reloaded modules, double GCs, a killed copy.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Facts, Finished, Remora, Runtime, Start, Target, on_every_runtime, remora, until};
use remora_holds::holds;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than any test, which ends it before.
const LONG: &str = "1h";

/// Whenever possible the runtime compacts in two GCs with one start event (gc.cpp, `provisional_mode_triggered`).
const PROVISIONAL: [(&str, &str); 2] = [("COMPlus_GCProvModeStress", "1"), ("DOTNET_GCProvModeStress", "1")];

fn does(target: &mut Target, deeds: &[&str]) {
    for deed in deeds {
        assert_eq!(target.ask(deed), "done", "{deed}");
    }
}

/// Watches it, and returns after the first snapshot.
fn watched(target: &Target, name: &str) -> Remora {
    let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG, "--json"]);
    command.wait_until_it_says(&format!("watching {name}"));
    command
}

/// Ends it as a user does.
fn ended(command: Remora) -> Finished {
    command.signal(Signal::INT);
    command.finish()
}

fn rows<'a>(shown: &'a Value, name: &str) -> Vec<&'a Value> {
    shown["types"].as_array().unwrap().iter().filter(|row| row["type"] == name).collect()
}

/// Types of a reloaded module have their names, and so have those of the unloaded one. Modules in between vanish faster than the watch
/// looks for modules: their types may lack names, but have no objects left.
#[test]
fn cat_05_gch_03_types_of_a_module_that_has_gone_and_of_one_that_came_in_its_place_have_names() {
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "reloads").ready();
        does(&mut target, &["load", "make 100"]);
        let command = watched(&target, "reloads");
        for _ in 0..4 {
            does(&mut target, &["collect 0", "unload", "load", "make 100", "collect 2"]);
        }
        let shown = ended(command).succeeded().json();
        let of = |name: &str| {
            let rows = rows(&shown, name);
            ["objects_at_start", "objects", "died_of_start"]
                .map(|field| rows.iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>())
        };
        for (name, expected) in [("Plugin.Item", 100), ("Plugin.Pair<Plugin.Item>", 100), ("[unnamed type]", 0)] {
            holds!(CAT_05 rem, of(name) == [expected; 3], "{name}: {shown:#}");
        }
        holds!(
            GCH_03 clr rem, (&shown["mirror"]["is_true"], &shown["receipt"]["clean"]) == (&true.into(), &true.into()),
            "{shown:#}"
        );
    });
}

fn provisional(runtime: &Runtime) -> Target {
    PROVISIONAL
        .iter()
        .fold(Start::managed(runtime, "generations"), |start, (name, value)| start.env(name, value))
        .ready()
}

/// Addresses reported by the first of two GCs are invalid after the second.
#[test]
fn gch_03_after_two_collections_with_one_start_the_mirror_is_reported_stale_and_never_wrong() {
    on_every_runtime(|runtime| {
        let mut target = provisional(runtime);
        does(&mut target, &["make node 20000", "make pair 3000", "make large 4", "collect 2"]);
        let command = watched(&target, "generations");
        for _ in 0..40 {
            does(&mut target, &["make node 3000", "waste node 20000", "hole pair", "make pair 1500", "collect 1"]);
            does(&mut target, &["drop node 3000", "waste boxed 20000", "collect 0"]);
        }
        let finished = ended(command).failed_with(42, &["heap tracking lost events"]);
        let shown = finished.json();
        let mirror = &shown["mirror"];
        assert!(mirror["lost"].as_u64() > Some(0), "{mirror:#}");
        for none in ["contradictions", "unexplained_bytes"] {
            holds!(GCH_03 clr rem, mirror[none] == 0, "{none}: {mirror:#}");
        }
        assert_eq!(shown["receipt"]["clean"], true, "{shown:#}");
        // The last snapshot is still complete.
        assert_eq!(rows(&shown, "Generations.Node")[0]["objects"], 20_000, "{shown:#}");
    });
}

#[test]
fn gch_02_a_snapshot_of_a_program_that_collects_twice_under_one_beginning_is_whole() {
    on_every_runtime(|runtime| {
        let mut target = provisional(runtime);
        does(
            &mut target,
            &["make node 20000", "make pair 3000", "make large 4", "collect 1", "hole pair", "collect 1"],
        );
        let folder = remora_e2e::folder();
        for round in 0..5_u64 {
            does(&mut target, &["make node 1000", "waste boxed 20000", "collect 1"]);
            let file = folder.path().join(format!("{round}.remora-heap")).display().to_string();
            let shown = remora(["heap", "-p", &target.pid().to_string(), "--json", "-o", &file]).succeeded().json();
            assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
            let count = |name: &str| rows(&shown, name)[0]["count"].as_u64().unwrap();
            let counts = [count("Generations.Node"), count("Generations.Pair<string>")];
            holds!(GCH_02 clr rem, counts == [21_000 + 1000 * round, 1500], "{shown:#}");
        }
    });
}

/// A partial heap cannot start a mirror: the snapshot is repeated.
#[test]
fn a_copy_that_is_killed_costs_a_watch_another_snapshot_and_nothing_else() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "heap", &["2000000"]);
        let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG, "--json"]);
        let copies = || Facts::of(target.pid()).children;
        until("there is a copy", || !copies().is_empty());
        let copy = Pid::from_raw(*copies().first().expect("it walks") as i32).unwrap();
        kill_process(copy, Signal::STOP).unwrap();
        kill_process(copy, Signal::KILL).unwrap();
        command.wait_until_it_says("watching heap");
        let shown = ended(command).succeeded().json();
        assert_eq!(
            (&shown["mirror"]["is_true"], &shown["receipt"]["clean"]),
            (&true.into(), &true.into()),
            "{shown:#}"
        );
        assert!(shown["notes"].to_string().contains("was ended by signal 9"), "{shown:#}");
    });
}
