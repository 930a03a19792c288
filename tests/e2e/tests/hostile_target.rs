//! A hostile process: whatever it sends or withholds, `remora` ends and reports the reason.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it does not expect")]

mod support;

use remora_e2e::{MemoryGroup, Remora, Start, Target, remora};
use std::process::Command;
use support::{compile, open_folder};

/// A process with this behaviour (`src/bin/hostile`), and a folder for results.
struct Hostile {
    target: Target,
    folder: tempfile::TempDir,
}

impl Hostile {
    fn start(manner: &str) -> Hostile {
        let folder = open_folder();
        let runtime = folder.path().join("Microsoft.NETCore.App/8.0.4");
        std::fs::create_dir_all(&runtime).unwrap();
        let library = compile("old_runtime", &["-shared", "-fPIC"], &runtime.join("libcoreclr.so"));
        let start = Start::of(Command::new(env!("CARGO_BIN_EXE_hostile")), manner).arg(manner);
        Hostile { target: start.env("LD_PRELOAD", library).ready(), folder }
    }

    fn remora(&self, arguments: &[&str]) -> Remora {
        let process = self.target.pid().to_string();
        let file = self.folder.path().join(if arguments[0] == "heap" { "out.remora-heap" } else { "out.remora" });
        Remora::start(arguments.iter().copied().chain(["-p", &process, "-o", file.to_str().unwrap()]))
    }

    /// The same, in a group with this much memory.
    fn remora_within(&self, group: &MemoryGroup, arguments: &[&str]) -> Remora {
        let mut command = group.command();
        command.arg(Remora::command().get_program()).args(arguments).args(["-p", &self.target.pid().to_string()]);
        command.arg("-o").arg(self.folder.path().join("out.remora"));
        Remora::spawn(command)
    }
}

/// Unclean: nobody confirmed the end of the session.
const UNCLEAN: i32 = 40;

#[test]
fn an_unreadable_stream_is_abandoned_and_not_spooled() {
    let hostile = Hostile::start("unreadable");
    let finished = hostile.remora(&["record", "--engine", "eventpipe", "-d", "1s"]).finish();
    let words = ["cannot be read any further", "did not end its session of events within 1s"];
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(words.iter().all(|word| finished.text().contains(word)), "{finished}");
}

#[test]
fn an_endless_stream_is_abandoned_after_a_few_seconds_without_names() {
    let hostile = Hostile::start("endless");
    let finished = hostile.remora(&["record", "--engine", "eventpipe", "-d", "1s"]).finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("did not end its session of events within 15s"), "{finished}");
}

#[test]
fn ctrl_c_at_the_end_of_a_stream_that_never_ends_is_obeyed_at_once() {
    let hostile = Hostile::start("endless");
    let remora = hostile.remora(&["record", "--engine", "eventpipe", "-d", "1s"]);
    assert_eq!(hostile.target.read_line(), "asked to stop");
    remora.signal(rustix::process::Signal::INT);
    let finished = remora.finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("the session did not end properly: interrupted"), "{finished}");
}

#[test]
fn a_silent_agent_is_abandoned_and_what_stays_is_reported() {
    let hostile = Hostile::start("silent");
    let finished = hostile.remora(&["heap"]).finish();
    let words = ["nothing came from the agent in the process for 60 s", "the agent's thread did not end"];
    finished.failed_with(UNCLEAN, &words);
}

#[test]
fn regression_a_watch_with_a_silent_agent_is_abandoned_and_what_stays_is_reported() {
    // Both at once: each is waited for for a minute and more.
    std::thread::scope(|scope| {
        for manner in ["silent", "half-way"] {
            scope.spawn(move || {
                let hostile = Hostile::start(manner);
                let finished = hostile.remora(&["heap", "--watch", "60s", "--json"]).finish();
                assert_eq!(finished.code(), UNCLEAN, "{finished}");
                let stderr = &finished.stderr;
                assert!(stderr.contains("nothing came from the agent in the process for 60 s"), "{finished}");
                assert_eq!(finished.json()["receipt"]["clean"], false, "{finished}");
            });
        }
    });
}

#[test]
fn an_agent_that_stops_half_way_is_abandoned_and_what_it_sent_is_kept() {
    let hostile = Hostile::start("half-way");
    let finished = hostile.remora(&["heap"]).finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("nothing came from the agent in the process for 60 s"), "{finished}");
}

#[test]
fn ctrl_c_during_the_silence_of_an_agent_is_obeyed_and_what_stays_is_reported() {
    for manner in ["silent", "half-way"] {
        let hostile = Hostile::start(manner);
        let remora = hostile.remora(&["heap"]);
        assert_eq!(hostile.target.read_line(), "silent from now on");
        remora.signal(rustix::process::Signal::INT);
        let finished = remora.finish();
        assert_eq!(finished.code(), UNCLEAN, "{finished}");
        let shown = finished.text() + &finished.stderr;
        assert!(shown.contains("interrupted") && shown.contains("the agent's thread did not end"), "{finished}");
    }
}

#[test]
fn a_recording_of_an_agent_whose_ring_never_runs_empty_ends_when_its_time_is_over() {
    let hostile = Hostile::start("flooding");
    let remora = hostile.remora(&["record", "--engine", "agent", "-d", "1s"]);
    let finished = remora.finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("the agent's thread did not end"), "{finished}");
}

#[test]
fn a_recording_of_an_agent_whose_records_are_expensive_ends_when_its_time_is_over() {
    let hostile = Hostile::start("expensive");
    let finished = hostile.remora(&["record", "--engine", "agent", "-d", "1s"]).finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("the agent's thread did not end"), "{finished}");
}

#[test]
fn regression_a_recording_with_one_deep_stack_was_summed_up_for_hours() {
    let hostile = Hostile::start("deep");
    let finished = hostile.remora(&["record", "--engine", "agent", "-d", "1s"]).finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("M0"), "{finished}");
}

#[test]
fn ctrl_c_during_a_recording_of_an_agent_whose_records_are_expensive_is_obeyed() {
    let hostile = Hostile::start("expensive");
    let remora = hostile.remora(&["record", "--engine", "agent"]);
    assert_eq!(hostile.target.read_line(), "silent from now on");
    remora.signal(rustix::process::Signal::INT);
    let finished = remora.finish();
    assert_eq!(finished.code(), UNCLEAN, "{finished}");
    assert!(finished.text().contains("the agent's thread did not end"), "{finished}");
}

#[test]
fn a_recorder_whose_memory_an_agent_fills_ends_the_recording_before_the_kernel_ends_it() {
    for (manner, limits) in [("growing", &[640][..]), ("branching", &[160, 640])] {
        for limit in limits {
            let hostile = Hostile::start(manner);
            let group = MemoryGroup::new(limit << 20);
            let finished = hostile.remora_within(&group, &["record", "--engine", "agent", "-d", "10m"]).finish();
            let words = [
                "what the target sent takes more than a quarter of the memory that was free",
                "the agent's thread did not end",
            ];
            assert_eq!(finished.code(), UNCLEAN, "{manner}: {finished}");
            assert!(words.iter().all(|word| (finished.text() + &finished.stderr).contains(word)), "{finished}");
            assert_eq!(group.kills(), 0, "{manner}, {limit} MiB");
            remora(["report", hostile.folder.path().join("out.remora").to_str().unwrap()]).succeeded();
        }
    }
}

#[test]
fn regression_one_collection_filled_the_memory_of_a_watch_between_two_looks_at_it() {
    let hostile = Hostile::start("bearing");
    // Its report takes 400 MB, of which the recorder takes half of this group. Applied, it would take 4 GB.
    let group = MemoryGroup::new(1 << 30);
    let finished = hostile.remora_within(&group, &["heap", "--watch", "10m", "--json"]).finish();
    assert_eq!((finished.code(), group.kills()), (UNCLEAN, 0), "{finished}");
    assert_eq!(finished.json()["mirror"]["is_true"], false, "{finished}");
}

#[test]
fn regression_a_last_snapshot_whose_collection_found_no_room_was_not_repeated() {
    let hostile = Hostile::start("unheard");
    let finished = hostile.remora(&["heap", "--watch", "1s"]).finish();
    let said = "GC reports found no room once, and the heap mirror was rebuilt";
    assert!(finished.text().contains(said), "{finished}");
}

#[test]
fn regression_the_name_of_one_method_in_an_event_stream_filled_the_memory() {
    let hostile = Hostile::start("named");
    let group = MemoryGroup::new(640 << 20);
    let finished =
        hostile.remora_within(&group, &["record", "--engine", "eventpipe", "-e", "wall", "-d", "2s"]).finish();
    assert_eq!(group.kills(), 0, "{finished}");
    assert!(finished.text().contains("A<BBB"), "{finished}");
}

#[test]
fn the_stream_of_a_heap_that_never_ends_is_cut_at_what_the_memory_of_the_process_allows() {
    let hostile = Hostile::start("flooding-heap");
    let finished = hostile.remora(&["heap"]).finish();
    finished.failed_with(UNCLEAN, &["longer than its memory allows, and was cut", "the agent's thread did not end"]);
}
