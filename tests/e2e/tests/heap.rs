//! `remora heap` on live runtimes: its counts, and an unchanged process.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_e2e::{Facts, Finished, HeldCopy, Remora, Runtime, Start, Target, on_every_runtime, remora, spooled, until};
use remora_holds::holds;
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::open_folder;

/// Nodes of the test program.
const NODES: u64 = 20_000;

/// Object header, class and two references.
const NODE: u64 = 32;

/// Object header, class and a number.
const LEAF: u64 = 24;

fn heap_of(target: &Target, file: &Path) -> Value {
    let (process, file) = (target.pid().to_string(), file.to_str().unwrap());
    let answer = remora(["heap", "--process-id", &process, "--json", "-o", file]).succeeded().json();
    assert_eq!((&answer["receipt"]["clean"], &answer["file"]), (&Value::Bool(true), &Value::from(file)), "{answer:#}");
    assert_eq!((&answer["complete"], &answer["notes"]), (&Value::Bool(true), &Value::Array(Vec::new())));
    answer
}

/// Objects, bytes and retained bytes of a type.
fn of(answer: &Value, name: &str) -> (u64, u64, u64) {
    let types = answer["types"].as_array().unwrap();
    let row = types.iter().find(|row| row["type"] == name).unwrap_or_else(|| {
        let near: Vec<&Value> =
            types.iter().map(|row| &row["type"]).filter(|text| text.to_string().contains("Known")).collect();
        panic!("no type {name}: {near:?}")
    });
    let number = |what: &str| row[what].as_u64().unwrap();
    (number("count"), number("bytes"), number("retained"))
}

#[test]
fn ctl_01_gch_02_det_14_every_object_of_a_known_program_is_counted_and_nothing_is_left_however_often() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&NODES.to_string()]);
        let directory = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let before = Facts::of(target.pid());
            let answer = heap_of(&target, &directory.path().join(format!("{round}.remora-heap")));
            // Each node retains the rest of the chain, and every second one a leaf.
            let (nodes, leaves) = (NODES * NODE, NODES / 2 * LEAF);
            holds!(
                [CTL_01 GCH_02] clr rem, of(&answer, "Known.Node") == (NODES, nodes, nodes + leaves), "round {round}"
            );
            // One leaf is shared: no single object retains it.
            assert_eq!(of(&answer, "Known.Leaf"), (NODES / 2 + 1, leaves + LEAF, leaves + LEAF));
            for (name, count) in [
                ("Known.Pair<int, Known.Leaf>", 1),
                ("Known.Pair<string, Known.Node>.Inner", 1),
                ("Known.Leaf[,]", 1),
                ("Known.Node[][]", 1),
                ("Known.Node[]", 1),
            ] {
                assert_eq!(of(&answer, name).0, count, "{name}");
            }
            let strange =
                answer["types"].as_array().unwrap().iter().filter(|row| row["type"].as_str().unwrap().starts_with('['));
            assert_eq!(strange.collect::<Vec<_>>(), Vec::<&Value>::new(), "every class has a name");
            let after = Facts::of(target.pid());
            holds!(DET_14 clr rem, after.left_since(&before) == Vec::<String>::new(), "round {round}");
            assert_eq!(target.ask_number("nodes"), NODES);
        }
    });
}

#[test]
fn a_snapshot_is_kept_in_a_file_which_tells_the_same_again_and_what_has_changed_since() {
    on_every_runtime(|runtime| {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let mut target = Target::start(runtime, "heap", &["1000"]);
        let before = heap_of(&target, &file("before.remora-heap"));
        target.ask_number("grow 500");
        heap_of(&target, &file("after.remora-heap"));

        let (before_file, after_file) = (file("before.remora-heap"), file("after.remora-heap"));
        let (before_file, after_file) = (before_file.to_str().unwrap(), after_file.to_str().unwrap());
        let again = remora(["heap", "report", before_file, "--json"]).succeeded().json();
        for what in
            ["types", "objects", "bytes", "references", "roots", "holders", "suspects", "collection_nanoseconds"]
        {
            assert_eq!(again[what], before[what], "{what}");
        }
        let text = remora(["heap", "report", before_file]).succeeded().text();
        assert!(text.contains("Known.Node") && text.contains("more are inferred: these objects"), "{text}");

        let changed = remora(["heap", "diff", before_file, after_file, "--json"]).succeeded().json();
        let row = changed["types"].as_array().unwrap().iter().find(|row| row["type"] == "Known.Node").unwrap();
        let count = |when: &str| row[when]["count"].as_u64().unwrap();
        assert_eq!((count("before"), count("after")), (1000, 1500));
        let text = remora(["heap", "diff", before_file, after_file]).succeeded().text();
        assert!(text.contains("+500"), "{text}");

        let node = remora(["heap", "show", after_file, "Known.Node", "--json"]).succeeded().json();
        assert_eq!((&node["count"], &node["bytes"]), (&Value::from(1500), &Value::from(1500 * NODE)), "{node:#}");
        let greatest = &node["objects"][0];
        let at = format!("@{:#x}", greatest["address"].as_u64().unwrap());
        let shown = remora(["heap", "show", after_file, &at, "--json"]).succeeded().json();
        assert_eq!(&shown["object"], greatest, "{shown:#}");
        assert_eq!(shown["path"]["objects"].as_array().unwrap().last(), Some(greatest), "{shown:#}");
        remora(["heap", "show", after_file, "@0x10"]).failed_with(2, &["there is no object at 0x10"]);

        // A condition applies to a new snapshot, too, and the receipt is still reported.
        let (process, limited) = (target.pid().to_string(), file("limited.remora-heap"));
        let take =
            ["heap", "-p", &process, "-o", limited.to_str().unwrap(), "--fail-if", "count(\"Known.Node\") > 1499"];
        remora(take)
            .failed_with(43, &["meets a condition of --fail-if: count(\"Known.Node\") > 1499: here 1,500 objects"]);
        let dump = file("limited.gcdump");
        remora(["heap", "convert", limited.to_str().unwrap(), "-o", dump.to_str().unwrap()]).succeeded();
        assert!(std::fs::metadata(&dump).unwrap().len() > 0);

        // An existing file is not overwritten, and the process not contacted.
        let (process, untouched) = (target.pid().to_string(), Facts::of(target.pid()));
        remora(["heap", "-p", &process, "-o", before_file]).failed_with(20, &["--force"]);
        assert_eq!(Facts::of(target.pid()).left_since(&untouched), Vec::<String>::new());
    });
}

#[test]
fn det_16_remora_killed_while_a_heap_is_walked_leaves_neither_library_nor_copy() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["3000000"]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("killed.remora-heap");
        let (process, file) = (target.pid().to_string(), file.to_str().unwrap());
        let command = Remora::start(["heap", "--process-id", &process, "--json", "-o", file]);
        let copy = HeldCopy::of(&target, &command);
        command.signal(Signal::KILL);
        copy.go_on();
        until("the library is unmapped and the copy gone", || {
            let facts = Facts::of(target.pid());
            !facts.library_is_mapped() && facts.children.is_empty()
        });
        let facts = Facts::of(target.pid());
        holds!(DET_16 clr rem, (facts.library_is_mapped(), facts.children.len()) == (false, 0));
        assert_eq!(target.ask_number("nodes"), 3_000_000);
    });
}

#[test]
fn a_copy_that_costs_more_memory_than_it_may_is_ended_and_what_it_has_sent_is_kept() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["3000000"]);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cut.remora-heap");
        let (process, file) = (target.pid().to_string(), file.to_str().unwrap());
        let before = Facts::of(target.pid());
        // Below the minimum for a copy: the process is not contacted.
        let least = remora(["heap", "-p", &process, "-o", file, "--max-extra-memory", "1MiB"]);
        least.failed_with(19, &["no room for a copy", "--max-extra-memory"]);
        assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());

        let command = Remora::start(["heap", "-p", &process, "--json", "-o", file, "--max-extra-memory", "40MiB"]);
        // The copy is stopped while the program writes to each of its 96 MB.
        HeldCopy::of(&target, &command);
        until("what the copy has told is written", || spooled(directory.path()) > 1024);
        assert_eq!(target.ask_number("touch"), 3_000_000);
        let finished = command.finish();
        assert_eq!(finished.code(), 42, "{finished}");
        let answer = finished.json();
        assert_eq!(
            (&answer["complete"], &answer["receipt"]["clean"]),
            (&Value::Bool(false), &Value::Bool(true)),
            "{answer:#}"
        );
        assert!(answer["notes"].to_string().contains("more than 40.0 MiB (--max-extra-memory)"), "{answer:#}");
        assert!(answer["extra_memory_bytes"].as_u64().unwrap() > 40 << 20);
        let again = remora(["heap", "report", file]).failed_with(42, &["does not hold all of the heap"]);
        assert!(again.text().contains("NOT all of the heap"), "{again}");
        assert_eq!(target.ask_number("nodes"), 3_000_000);
    });
}

/// The copy could be read by root only, and its cost was unknown to everybody else: `--max-extra-memory` had no effect.
#[test]
fn regression_a_limit_of_memory_applied_only_to_snapshots_by_root() {
    const USER: u32 = 64_124;
    on_every_runtime(|runtime| {
        let mut target = Start::managed(runtime, "heap").arg("3000000").as_user(USER).ready();
        let directory = open_folder();
        let file = directory.path().join("cut.remora-heap");
        let user = USER.to_string();
        let mut command = Command::new("setpriv");
        // The target's capability, too: it may read programs where only root can.
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps", "-all,+dac_read_search"]);
        command.args(["--ambient-caps", "+dac_read_search"]).arg(Remora::command().get_program());
        let process = target.pid().to_string();
        command.args(["heap", "-p", &process, "--json", "--max-extra-memory", "40MiB", "-o"]).arg(&file);
        let command = Remora::spawn(command);
        HeldCopy::of(&target, &command);
        until("what the copy has told is written", || spooled(directory.path()) > 1024);
        assert_eq!(target.ask_number("touch"), 3_000_000);
        let finished = command.finish();
        assert_eq!(finished.code(), 42, "{finished}");
        let answer = finished.json();
        assert!(answer["notes"].to_string().contains("more than 40.0 MiB (--max-extra-memory)"), "{answer:#}");
        assert!(answer["extra_memory_bytes"].as_u64().unwrap() > 40 << 20);
        assert_eq!(target.ask_number("nodes"), 3_000_000);
    });
}

/// A snapshot whose copy was stopped after sending some objects; then runs `happens`; returns the command's output.
fn halted(runtime: &Runtime, happens: fn(&mut Target, &Remora, &HeldCopy)) -> (Target, Finished, Value) {
    let mut target = Target::start(runtime, "heap", &["2000000"]);
    let directory = tempfile::tempdir().unwrap();
    let (file, receipt) = (directory.path().join("part.remora-heap"), directory.path().join("receipt.json"));
    let process = target.pid().to_string();
    let [file, receipt_file] = [&file, &receipt].map(|path| path.to_str().unwrap());
    let command = Remora::start(["heap", "-p", &process, "--json", "-o", file, "--receipt", receipt_file]);
    let copy = HeldCopy::of(&target, &command);
    until("what the copy has told is written", || spooled(directory.path()) > 1024);
    happens(&mut target, &command, &copy);
    let finished = command.finish();
    // In every case the objects so far are readable, and marked as a part.
    remora(["heap", "report", file]).failed_with(42, &["does not hold all of the heap"]);
    let receipt = serde_json::from_slice(&std::fs::read(&receipt).unwrap()).unwrap();
    (target, finished, receipt)
}

#[test]
fn a_copy_that_is_killed_costs_the_rest_of_the_snapshot_and_nothing_else() {
    on_every_runtime(|runtime| {
        let (mut target, finished, receipt) = halted(runtime, |_, _, copy| copy.kill());
        assert_eq!((finished.code(), &receipt["clean"]), (42, &Value::Bool(true)), "{finished}");
        assert!(finished.text().contains("was ended by signal 9"), "{finished}");
        assert_eq!(target.ask_number("nodes"), 2_000_000);
        assert_eq!(target.ask("children"), "-1", "nobody's child is left to be waited for");
    });
}

#[test]
fn ctrl_c_ends_the_copy_and_keeps_what_it_has_sent_and_a_second_snapshot_learns_of_the_first() {
    on_every_runtime(|runtime| {
        let (mut target, finished, receipt) = halted(runtime, |target, command, _| {
            let process = target.pid().to_string();
            remora(["heap", "-p", &process, "-o", "/nowhere/second.remora-heap"]).failed_with(20, &[]);
            remora(["record", "-p", &process, "-o", "/dev/null", "--format", "folded"]).failed_with(18, &[]);
            command.signal(Signal::INT);
        });
        assert_eq!((finished.code(), &receipt["clean"]), (42, &Value::Bool(true)), "{finished}");
        assert!(finished.text().contains("interrupted"), "{finished}");
        assert_eq!(target.ask_number("nodes"), 2_000_000);
    });
}

#[test]
fn det_17_a_target_that_is_killed_while_its_heap_is_walked_leaves_a_part_and_no_copy() {
    on_every_runtime(|runtime| {
        let (_, finished, receipt) = halted(runtime, |target, _, copy| {
            target.signal(Signal::KILL);
            target.wait();
            copy.until_it_has_ended();
        });
        holds!(DET_17 rem, (finished.code(), &receipt["clean"]) == (41, &Value::Bool(true)), "{finished}");
    });
}

#[test]
fn det_17_a_copy_that_a_new_program_inherits_is_reported_in_the_receipt() {
    on_every_runtime(|runtime| {
        let (mut target, finished, receipt) = halted(runtime, |target, _, _| target.tell("exec"));
        // It ended, and only the new program could reap it.
        let answer = receipt["left"].to_string();
        holds!(
            DET_17 rem, finished.code() == 40 && answer.contains("nobody asked for its exit status"),
            "{finished}\n{answer}"
        );
        assert_eq!(target.ask("still here?"), "still here?", "cat repeats what it reads");
    });
}
