//! A watched heap: a first snapshot, the GCs after it, and a last snapshot that verifies the heap mirror.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::probe::{NOTIFIED_CLASS, Stage};
use remora_e2e::{Facts, Finished, Remora, Runtime, Start, Target, on_every_runtime, on_runtimes, remora, until};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::Value;

/// Exit code of `remora`, from docs/reference/exit-codes.md.
const SLOT_TAKEN: i32 = 17;

/// Longer than any test, which ends it before.
const LONG: &str = "1h";

/// GC modes: the first version, and the variables.
const MODES: [(u32, &[(&str, &str)]); 3] = [
    (3, &[]),
    (3, &[("COMPlus_gcServer", "1"), ("DOTNET_gcServer", "1")]),
    // The GC with segments, which versions before 7 had.
    (8, &[("DOTNET_GCName", "libclrgc.so")]),
];

/// The program that allocates and drops on request.
fn program(runtime: &Runtime, variables: &[(&str, &str)]) -> Target {
    variables.iter().fold(Start::managed(runtime, "generations"), |start, (name, value)| start.env(name, value)).ready()
}

fn does(target: &mut Target, deeds: &[&str]) {
    for deed in deeds {
        assert_eq!(target.ask(deed), "done", "{deed}");
    }
}

/// Watches it, and returns after the first snapshot.
fn watched(target: &Target) -> Remora {
    let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG, "--json"]);
    command.wait_until_it_says("watching generations");
    command
}

/// Ends it as a user does.
fn ended(command: Remora) -> Finished {
    command.signal(Signal::INT);
    command.finish()
}

/// GCs of each generation, from the program: a GC also counts for all younger generations.
fn collections(target: &mut Target) -> [u64; 3] {
    let shown = target.ask("count");
    let counts: Vec<u64> = shown.split(' ').map(|count| count.parse().unwrap()).collect();
    [counts[0] - counts[1], counts[1] - counts[2], counts[2]]
}

fn row<'a>(shown: &'a Value, name: &str) -> &'a Value {
    let rows = shown["types"].as_array().unwrap();
    rows.iter().find(|row| row["type"] == name).unwrap_or_else(|| panic!("there is no {name}"))
}

#[track_caller]
fn is_true(shown: &Value) {
    let mirror = &shown["mirror"];
    holds!(GCH_03 clr rem, mirror["is_true"] == true, "{mirror:#}");
    for none in ["lost", "missing", "other", "contradictions", "unexplained_bytes"] {
        assert_eq!(mirror[none], 0, "{none}: {mirror:#}");
    }
    assert_eq!(mirror["unknown"], mirror["unknown_frozen"], "{mirror:#}");
}

/// For a type: objects at the start and at the end; allocated objects, those that survived their first GC, and those of them alive. Then
/// deaths of the first objects, and of others after zero, one and more GCs.
#[track_caller]
fn counts(shown: &Value, name: &str, expected: [u64; 9]) {
    let row = row(shown, name);
    let fields = ["objects_at_start", "objects", "allocated", "born", "born_and_there", "died_of_start"];
    let ages = ["none", "one", "two_to_five"].map(|age| row["died_after"][age].as_u64().unwrap());
    let counts: Vec<u64> = fields.map(|field| row[field].as_u64().unwrap()).into_iter().chain(ages).collect();
    assert_eq!(counts, expected, "{name}: {row:#}");
    assert_eq!(row["died_after"]["more"], 0, "{name}");
}

#[test]
fn gch_03_survivors_moves_and_deaths_of_known_objects_are_reported_exactly() {
    on_every_runtime(|runtime| {
        for (_, variables) in MODES.iter().filter(|(since, _)| runtime.major() >= *since) {
            let mut target = program(runtime, variables);
            does(&mut target, &["make node 1000", "make pair 300", "make large 4", "collect 2"]);
            let command = watched(&target);
            let before = collections(&mut target);
            does(&mut target, &["make node 500", "collect 0", "drop node 300", "collect 1", "collect 2"]);
            does(&mut target, &["hole pair", "make large 3", "compact", "drop large 2", "collect 2", "drop node 900"]);
            let after = collections(&mut target);
            let shown = ended(command).succeeded().json();
            is_true(&shown);
            assert_eq!(shown["receipt"]["clean"], true, "{variables:?}");
            // The last GC removed 200 of the allocated objects, which had survived five.
            counts(&shown, "Generations.Node", [1000, 300, 500, 500, 300, 1000, 0, 0, 200]);
            counts(&shown, "Generations.Pair<string>", [300, 150, 0, 0, 0, 150, 0, 0, 0]);
            // The last snapshot's own GC follows those that the program counts.
            let of = |generation: usize| shown["collections"][format!("generation_{generation}")].as_u64().unwrap();
            let expected = [after[0] - before[0], after[1] - before[1], after[2] - before[2] + 1];
            holds!(GCH_03 clr rem, [of(0), of(1), of(2)] == expected, "{variables:?}");
        }
    });
}

#[test]
fn gch_03_the_price_is_said_beforehand_and_reported_afterwards() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime, &[]);
        let mut command = Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG]);
        command.wait_until_it_says("Every collection takes longer");
        command.wait_until_it_says("watching generations");
        does(&mut target, &["waste node 100000", "collect 0"]);
        let said = ended(command).succeeded().text();
        for words in [
            "the watch paused the application for",
            " for 2 snapshots with a full GC, and made collections ",
            "one snapshot: ",
            "the heap mirror equals the last snapshot",
        ] {
            holds!(GCH_03 rem, said.contains(words), "{words} is not in {said}");
        }
    });
}

#[test]
fn gch_04_what_was_born_is_unknown_until_the_next_collection_and_then_added_with_its_class_and_size() {
    on_every_runtime(|runtime| {
        for (_, variables) in MODES.iter().filter(|(since, _)| runtime.major() >= *since) {
            let mut target = program(runtime, variables);
            let command = watched(&target);
            // The watch never sees these: only the runtime counts them.
            does(&mut target, &["waste boxed 10000", "collect 0"]);
            // The watch sees these in a GC of generation 0, and in an older one.
            does(&mut target, &["make blob 1000", "collect 0", "hole blob", "collect 2"]);
            // Only the last snapshot's GC sees these.
            does(&mut target, &["make node 77", "make large 5"]);
            let shown = ended(command).succeeded().json();
            is_true(&shown);
            counts(&shown, "Generations.Point", [0, 0, 10_000, 0, 0, 0, 10_000, 0, 0]);
            counts(&shown, "Generations.Node", [0, 77, 77, 77, 77, 0, 0, 0, 0]);
            holds!(GCH_04 clr rem, row(&shown, "Generations.Node")["born"] == 77);
            let blobs = row(&shown, "System.Byte[]");
            // Large objects are not counted at allocation, but found at the next full GC.
            let born = blobs["born"].as_u64().unwrap();
            assert!(born >= 1005 && blobs["died_after"]["one"].as_u64() >= Some(500), "{blobs:#}");
            assert!(blobs["bytes"].as_u64() > Some(5 * 100_000 + 500 * 100), "{blobs:#}");
        }
    });
}

/// A program that allocates on several threads all the time, and so runs GCs all the time.
#[test]
fn gch_03_the_mirror_of_a_busy_program_is_true_after_hundreds_of_collections() {
    on_every_runtime(|runtime| {
        for (_, variables) in MODES.iter().filter(|(since, _)| runtime.major() >= *since) {
            // 64 MiB, hexadecimal. By itself the runtime takes the size of the last cache: with a large one it collects once in two
            // seconds, and counts millions of new objects by type in that pause.
            let start = Start::managed(runtime, "gc").arg("3").env("COMPlus_GCgen0size", "4000000");
            let start = variables.iter().fold(start, |start, (name, value)| start.env(name, value));
            let target = start.ready();
            let shown = remora(["heap", "-p", &target.pid().to_string(), "--watch", "2s", "--json"]).succeeded().json();
            is_true(&shown);
            assert!(row(&shown, "Gc.Node")["allocated"].as_u64() > Some(1000), "{variables:?}");
        }
    });
}

/// While nobody drains the ring, events are lost: the loss is counted, and the mirror rebuilt.
#[test]
fn gch_03_what_found_no_room_is_reported_and_the_mirror_begins_anew() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime, &[]);
        // Every second object in between is gone: many small ranges.
        does(&mut target, &["make node 400000", "make pair 10", "collect 2", "hole node"]);
        let command = watched(&target);
        command.signal(Signal::STOP);
        // Each reports some hundred thousand ranges; the ring holds 32 MiB of them.
        for _ in 0..100 {
            does(&mut target, &["hole node", "make node 200000", "collect 2"]);
        }
        command.signal(Signal::CONT);
        does(&mut target, &["make pair 5", "collect 2"]);
        let ended = ended(command).failed_with(42, &["heap tracking lost events", "found no room once"]);
        let shown = ended.json();
        assert_eq!((&shown["mirror"]["lost"], &shown["receipt"]["clean"]), (&1.into(), &true.into()), "{shown:#}");
        holds!(
            GCH_03 rem, row(&shown, "Generations.Pair<string>")["objects"] == 15,
            "{:#}\n{:#}", shown["mirror"], shown["notes"]
        );
    });
}

/// Pinned objects stay young: the runtime counts and reports them again at each GC.
#[test]
fn gch_04_what_stays_young_is_born_and_counted_once() {
    on_every_runtime(|runtime| {
        for (_, variables) in MODES.iter().filter(|(since, _)| runtime.major() >= *since) {
            let mut target = program(runtime, variables);
            let command = watched(&target);
            does(
                &mut target,
                &["pin boxed 500", "collect 0", "waste node 1000", "collect 0", "collect 1", "collect 0"],
            );
            let shown = ended(command).succeeded().json();
            is_true(&shown);
            holds!(GCH_04 clr rem, row(&shown, "Generations.Point")["born"] == 500);
            counts(&shown, "Generations.Point", [0, 500, 500, 500, 500, 0, 0, 0, 0]);
            counts(&shown, "Generations.Node", [0, 0, 1000, 0, 0, 0, 1000, 0, 0]);
        }
    });
}

#[test]
fn det_16_if_the_command_is_killed_the_library_leaves_and_the_program_goes_on() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime, &[]);
        let command = watched(&target);
        does(&mut target, &["make node 1000", "collect 1"]);
        command.signal(Signal::KILL);
        until("the library is unmapped", || !Facts::of(target.pid()).library_is_mapped());
        does(&mut target, &["waste node 100000", "collect 0", "drop node 500", "collect 2"]);
        holds!(DET_16 clr rem, target.is_alive() && !Facts::of(target.pid()).library_is_mapped());
    });
}

/// The two snapshots are ordinary files.
#[test]
fn gch_03_the_first_and_the_last_snapshot_are_kept_where_that_is_asked_for() {
    on_every_runtime(|runtime| {
        let mut target = program(runtime, &[]);
        does(&mut target, &["make node 1000", "collect 2"]);
        let folder = remora_e2e::folder();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let asked = file("watched.remora-heap");
        let mut command =
            Remora::start(["heap", "-p", &target.pid().to_string(), "--watch", LONG, "--json", "-o", &asked]);
        command.wait_until_it_says("watching generations");
        does(&mut target, &["make node 234", "collect 1", "drop node 100"]);
        let shown = ended(command).succeeded().json();
        is_true(&shown);
        let (before, after) = (file("watched.before.remora-heap"), file("watched.after.remora-heap"));
        assert_eq!(shown["files"], serde_json::json!([before, after]));
        let nodes = |of: &str| {
            let report = remora(["heap", "report", of, "--json"]).succeeded().json();
            assert_eq!((&report["complete"], &report["static_fields"]), (&true.into(), &false.into()), "{of}");
            assert!(report["notes"].to_string().contains("does not ask about static fields"), "{report:#}");
            row(&report, "Generations.Node")["count"].as_u64().unwrap()
        };
        holds!(GCH_03 rem, (nodes(&before), nodes(&after)) == (1000, 1134));
        let diff = remora(["heap", "diff", &before, &after, "--json"]).succeeded().json();
        assert_eq!(row(&diff, "Generations.Node")["after"]["count"], 1134);
        let text = remora(["heap", "report", &after]).succeeded().text();
        assert!(text.contains("note: a watch does not ask about static fields"), "{text}");
        let unknown = "whether static fields belong to one is not known";
        remora(["heap", "show", &after, "Generations.Keeper"]).failed_with(2, &[unknown]);
        let node = remora(["heap", "show", &after, "Generations.Node"]).succeeded().text();
        assert!(node.contains("whether it has static fields is not known"), "{node}");
        let again = remora(["heap", "-p", &target.pid().to_string(), "--watch", "1s", "-o", &asked]);
        again.failed_with(20, &["watched.before.remora-heap exists"]);
    });
}

/// COR_PRF_HIGH_BASIC_GC.
const BASIC_GC: u32 = 0x10;

/// At the detach of the main profiler the runtime uncounts one notification-only profiler, and this is the only one.
#[test]
fn det_18_a_notified_profiler_that_comes_during_a_watch_hears_and_leaves_after_it() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut stage = Stage::start_program(runtime, "generations", &[], &[]);
        let command = watched(stage.target());
        let mut probe = stage.attached_class(&NOTIFIED_CLASS, 0, BASIC_GC);
        does(stage.target(), &["make node 500", "collect 0"]);
        is_true(&ended(command).succeeded().json());
        let before = probe.count("GarbageCollectionStarted");
        does(stage.target(), &["collect 0"]);
        holds!(DET_18 rem, probe.count("GarbageCollectionStarted") == before + 1, "the other profiler hears nothing any more");
        stage.leave(probe);
        assert!(stage.target().is_alive());
    });
}

#[test]
fn att_07_beside_a_main_profiler_it_is_refused_with_what_remains_possible() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let stage = Stage::start_program(runtime, "generations", &[], &[]);
        let main = stage.attached(0, 0);
        let process = stage.pid().to_string();
        let refused = remora(["heap", "-p", &process, "--watch", LONG]);
        let words = ["two snapshots beside the other profiler"];
        holds!(ATT_07 rem, refused.has_failed_with(SLOT_TAKEN, &words), "{refused}");
        stage.leave(main);
    });
}
