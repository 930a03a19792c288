//! Controls a recording from outside: start, end, change of frequency, choice of one process among several.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::read_back::{ReadBack, array, converted, number, report};
use remora_e2e::{
    Facts, Recording, Remora, Runtime, Start, Target, cpu_time, on_every_runtime, on_runtimes, remora, spooled, until,
    until_used,
};
use remora_holds::holds;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const USAGE: i32 = 2;
const NO_PROCESS: i32 = 10;
const OUTPUT_REFUSED: i32 = 20;

/// A way to end a recording.
type End = fn(&mut Remora);

#[test]
fn ctl_01_det_01_each_way_to_end_it_detaches_and_completes_the_recording() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        let ways: [(&str, End); 4] = [
            ("Enter", Remora::press_enter),
            ("Ctrl-C", |remora| remora.signal(Signal::INT)),
            ("SIGTERM", |remora| remora.signal(Signal::TERM)),
            ("SIGHUP", |remora| remora.signal(Signal::HUP)),
        ];
        for (way, end) in ways {
            let mut recording = Recording::begun(&target, &[]);
            assert!(Facts::of(target.pid()).library_is_mapped(), "{way}");
            // On a busy machine the first samples are late.
            until_used(target.pid(), Duration::from_millis(200));
            end(recording.remora());
            let recorded = recording.finish();
            recorded.is_clean();
            holds!(CTL_01 clr rem, recorded.finished.json()["ended"] == "asked", "{way}");
            assert_eq!(recorded.readable(), recorded.samples(), "{way}");
            holds!(DET_01 clr rem, Facts::of(target.pid()).remora() == Vec::<String>::new(), "{way}");
            goes_on(&mut target);
        }
    });
}

/// With a full pipe or a stopped terminal, neither the duration nor the first signal had an effect.
#[test]
fn regression_a_recording_waited_in_the_target_for_whoever_did_not_read_standard_error() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    for (duration, signal) in [("1s", None), ("1h", Some(Signal::INT))] {
        let folder = remora_e2e::folder();
        let (mut reader, mut errors) = std::io::pipe().unwrap();
        fcntl_setfl(&errors, OFlags::NONBLOCK).unwrap();
        while errors.write(&[b'x'; 4096]).is_ok() {}
        fcntl_setfl(&errors, OFlags::empty()).unwrap();
        let mut command = Remora::command();
        command.args(["record", "-p", &target.pid().to_string(), "-d", duration, "-o"]);
        command.arg(folder.path().join("a.remora")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut remora = command.spawn().unwrap();
        drop(command);
        until("the agent has come", || Facts::of(target.pid()).library_is_mapped());
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&remora), signal).unwrap();
        }
        until("the agent has left", || Facts::of(target.pid()).remora().is_empty());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert!(text.contains("recording busy") && text.ends_with('\n'), "{text}");
        assert_eq!(remora.wait().unwrap().code(), Some(0), "{text}");
    }
}

#[test]
fn ctl_01_on_a_terminal_enter_and_ctrl_c_end_it_and_the_progress_is_shown() {
    let mut target = Target::start(&Runtime::newest(), "busy", &["1"]);
    for (key, how) in [("\n", "Enter"), ("\x03", "Ctrl-C")] {
        let folder = remora_e2e::folder();
        let (output, receipt) = (folder.path().join("a.remora"), folder.path().join("r.json"));
        let before = Facts::of(target.pid());
        let binary = Remora::command();
        let line = format!(
            "exec '{}' record -p {} -o '{}' --receipt '{}'",
            Path::new(binary.get_program()).display(),
            target.pid(),
            output.display(),
            receipt.display()
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
        let mut terminal = Remora::spawn(command);
        until("the agent samples", || Facts::of(target.pid()).dispositions != before.dispositions);
        // The line is drawn four times a second: the target has used more than that since.
        until_used(target.pid(), Duration::from_secs(1));
        terminal.type_in(key);
        let finished = terminal.finish();
        let text = finished.text();
        holds!(CTL_01 rem, finished.code() == 0, "{how}: {finished}");
        for word in ["samples", "/s", "lost", "target uses", "% CPU", "Receipt: clean"] {
            assert!(text.contains(word), "{how}: `{word}` is not shown: {text}");
        }
        let receipt: Value = serde_json::from_slice(&std::fs::read(&receipt).unwrap()).unwrap();
        assert_eq!(receipt["clean"], true, "{how}");
        assert!(remora_e2e::readable(&output, 0) > 0, "{how}");
        goes_on(&mut target);
    }
}

#[test]
fn det_16_a_second_signal_leaves_at_once_says_so_and_the_agent_leaves_by_itself() {
    let mut target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let mut recording = Recording::begun(&target, &[]);
    // Both are pending before it can end at the first.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        recording.remora().signal(signal);
    }
    let recorded = recording.finish();
    recorded.ended_with(130);
    let reported = recorded.finished.to_string();
    assert!(reported.contains("remora: interrupted a second time: the agent detaches by itself"), "{reported}");
    until("the agent has left", || Facts::of(target.pid()).remora().is_empty());
    holds!(DET_16 rem, target.is_alive() && Facts::of(target.pid()).remora().is_empty());
    goes_on(&mut target);
}

#[test]
fn ctl_01_a_number_and_enter_change_the_sampling_rate_while_it_records() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        let mut recording = Recording::begun(&target, &["--frequency", "10"]);
        until_used(target.pid(), Duration::from_secs(2));
        recording.remora().type_in("200\n");
        recording.remora().wait_until_it_says("sampling at 200 Hz");
        until_used(target.pid(), Duration::from_secs(1));
        recording.remora().press_enter();
        let recorded = recording.finish();
        recorded.is_clean();
        let summed = &recorded.finished.json()["recording"];
        assert!(array(&summed["notes"]).iter().any(|note| note.to_string().contains("changed to 200 Hz")), "{summed}");
        let weights = weights_in_order(&recorded.output());
        assert!(weights.len() > 30, "{weights:?}");
        let median = |weights: &[f64]| {
            let mut sorted = weights.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 2]
        };
        // The first eight instants are closer together, at any rate. A busy machine misses many of the others, so time counts here: the rate
        // changes after two seconds.
        let mut so_far = 0.0;
        let is_early = |weight: &&f64| {
            so_far += **weight;
            so_far < 1.7e3
        };
        let early: Vec<f64> = weights.iter().take_while(is_early).skip(8).copied().collect();
        let (slow, fast) = (median(&early), median(&weights[weights.len() - 20..]));
        holds!(CTL_01 clr rem, slow > fast * 4.0, "a sample stood for {slow} ms, then for {fast} ms");
        // At any rate, weights are CPU time.
        let (all, used) = (weights.iter().sum::<f64>() / 1e3, cpu_time(target.pid()).as_secs_f64());
        assert!(all < used * 1.05 && all > 2.5, "{all} s of {used} s");
    });
}

#[test]
fn ctl_01_h_and_enter_show_the_heap_while_it_records_and_both_receipts_are_clean() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "busy", &["1"]);
        let folder = remora_e2e::folder();
        let mut command = Remora::command();
        command.current_dir(folder.path());
        let mut recording = Recording::by(command, &target, &[]);
        recording.wait_until_it_samples();
        recording.remora().type_in("h\n");
        let has_one_place = runtime.major() < 6;
        if has_one_place {
            recording.remora().wait_until_it_says("no snapshot: before .NET 6 a process has one profiler");
        } else {
            recording.remora().wait_until_it_says("taking a snapshot of the heap");
            recording.remora().wait_until_it_says("types, by retained size");
            recording.remora().wait_until_it_says("Receipt: clean. Beside the recording, nothing of Remora is left");
            recording.remora().wait_until_it_says("kept in busy_");
        }
        assert!(Facts::of(target.pid()).library_is_mapped(), "it still records");
        until_used(target.pid(), Duration::from_millis(200));
        recording.remora().press_enter();
        recording.finish().is_clean();
        let snapshots = std::fs::read_dir(folder.path()).unwrap().flatten();
        let snapshots = snapshots.filter(|file| file.path().extension().is_some_and(|end| end == "remora-heap"));
        holds!(CTL_01 rem, snapshots.count() == usize::from(!has_one_place));
        assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
        goes_on(&mut target);
    });
}

/// Its duration is over while the snapshot is taken.
#[test]
fn regression_a_recording_that_ends_during_a_snapshot_waits_for_it_before_its_receipt() {
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        let folder = remora_e2e::folder();
        let mut command = Remora::command();
        command.current_dir(folder.path());
        let mut recording = Recording::by(command, &target, &[]);
        recording.wait_until_it_samples();
        until_used(target.pid(), Duration::from_millis(200));
        recording.remora().type_in("h\n\n");
        recording.finish().is_clean();
        assert_eq!(Facts::of(target.pid()).remora(), Vec::<String>::new());
    });
}

#[test]
fn a_command_is_recorded_until_its_end() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (output, receipt) = (folder.path().join("a.remora"), folder.path().join("r.json"));
        let mut running = Remora::spawn(started_by_remora(runtime, "busy", &["1"], &output, &receipt));
        // It is running, and has been recorded for a while: its standard input is ours, so the test can end it.
        until("something is on the disk", || {
            assert!(running.is_alive(), "{}", running.said_so_far());
            spooled(folder.path()) > 2048
        });
        running.type_in("quit\n");
        let finished = running.finish();
        assert_eq!(finished.code(), 0, "{finished}");
        assert!(finished.text().starts_with("ready\n"), "its output is passed on: {finished}");
        let receipt: Value = serde_json::from_slice(&std::fs::read(&receipt).unwrap()).unwrap();
        assert_eq!((&receipt["clean"], &receipt["process"]), (&Value::Bool(true), &Value::from("ended")));
        let read =
            ReadBack::from_speedscope(&remora_e2e::read_back::read_json(&converted(&output, "a.speedscope.json")));
        assert!(read.weight_under("Busy.Inner(uint)") > 0);
        let notes = report(&output)["notes"].to_string();
        assert!(notes.contains("after the command was started"), "what is not in it is told: {notes}");
    });
}

#[test]
fn a_command_that_fails_is_recorded_all_the_same_and_its_code_is_that_of_remora() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (output, receipt) = (folder.path().join("a.remora"), folder.path().join("r.json"));
        let mut running = Remora::spawn(started_by_remora(runtime, "crash", &[], &output, &receipt));
        until("something is on the disk", || {
            assert!(running.is_alive(), "{}", running.said_so_far());
            spooled(folder.path()) > 1024
        });
        running.type_in("exit\n");
        let finished = running.finish();
        assert_eq!(finished.code(), 7, "{finished}");
        assert!(remora_e2e::readable(&output, 0) > 0);
        assert!(finished.stderr.contains("exit status: 7") || finished.text().contains("exit status: 7"), "{finished}");
    });
}

#[test]
fn a_command_runs_on_when_its_recording_ends_first() {
    on_every_runtime(|runtime| {
        let folder = remora_e2e::folder();
        let (output, receipt) = (folder.path().join("a.remora"), folder.path().join("r.json"));
        let mut command = Remora::command();
        command
            .args(["record", "--duration", "1s", "-o"])
            .arg(&output)
            .arg("--receipt")
            .arg(&receipt)
            .args(["--", "sh", "-c"]);
        // Its input never ends and is always empty; its output is not ours, which would remain open.
        command.arg("mkfifo \"$0\" && exec \"$@\" 0<>\"$0\" >/dev/null 2>&1").arg(folder.path().join("input"));
        command.arg(runtime.launcher()).arg(Target::assembly("busy")).arg("1");
        let finished = Remora::spawn(command).finish();
        assert_eq!(finished.code(), 0, "{finished}");
        let line =
            finished.stderr.lines().find(|line| line.contains("runs on")).unwrap_or_else(|| panic!("{finished}"));
        let pid: u32 = line.split_once("(process ").unwrap().1.split_once(')').unwrap().0.parse().unwrap();
        let end = rustix::process::Pid::from_raw(pid as i32).unwrap();
        assert_eq!(Facts::of(pid).remora(), Vec::<String>::new());
        let used = cpu_time(pid);
        until("it works on", || cpu_time(pid) > used);
        rustix::process::kill_process(end, Signal::KILL).unwrap();
    });
}

/// Once, it inherited a variable that made its runtime wait for a recorder that had ended.
#[test]
fn what_a_command_starts_after_its_recording_has_ended_or_was_killed_runs_like_any_other() {
    on_every_runtime(|runtime| {
        for is_killed in [false, true] {
            let folder = remora_e2e::folder();
            let (first, second) = (folder.path().join("first"), folder.path().join("second"));
            for input in [&first, &second] {
                rustix::fs::mkfifoat(rustix::fs::CWD, input, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
            }
            // The second starts when the first has ended, long after the recording. Our own output would remain open.
            let script = "exec >/dev/null 2>&1; \"$0\" \"$1\" 1 0<>\"$2\"; \"$0\" \"$1\" 1 0<>\"$3\" >\"$4\"";
            let said = folder.path().join("said");
            let mut command = Remora::command();
            command.args(["record", "-o"]).arg(folder.path().join("a.remora"));
            command.args(if is_killed { &[][..] } else { &["--duration", "300ms"] });
            command.args(["--", "sh", "-c", script]).arg(runtime.launcher()).arg(Target::assembly("busy"));
            command.args([&first, &second, &said]);
            let before = leftovers();
            let mut recorder = Remora::spawn(command);
            recorder.wait_until_it_says("recording busy");
            if is_killed {
                recorder.signal(Signal::KILL);
            }
            recorder.finish();
            std::fs::write(&first, "quit\n").unwrap();
            until("the second program works", || {
                std::fs::read_to_string(&said).is_ok_and(|text| text.contains("ready"))
            });
            std::fs::write(&second, "quit\n").unwrap();
            assert_eq!(leftovers(), before, "nothing is in the directory for temporary files");
        }
    });
}

/// Temporary folders with names like ours.
fn leftovers() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("port").exists()).collect()
}

#[test]
fn a_process_is_found_by_its_name_exactly_or_the_several_are_listed() {
    let folder = remora_e2e::folder();
    // A name that no other test's target has.
    let name = format!("only{}", std::process::id());
    let from = Target::assembly("busy");
    for ending in ["dll", "runtimeconfig.json"] {
        std::fs::copy(from.with_extension(ending), folder.path().join(format!("{name}.{ending}"))).unwrap();
    }
    let start = || {
        let mut command = Command::new(Runtime::newest().launcher());
        command.arg(folder.path().join(format!("{name}.dll"))).arg("1");
        Start::of(command, &name).ready()
    };
    let record = |who: &str| {
        let output = folder.path().join(format!("{who}.folded"));
        remora(["record", "-n", who, "-d", "300ms", "--json", "--force", "-o", &output.to_string_lossy()])
    };
    let first = start();
    for who in [name.clone(), format!("{name}.dll")] {
        let finished = record(&who).succeeded();
        assert_eq!(number(&finished.json()["recording"]["process_id"]), u64::from(first.pid()));
    }
    record(&name[..name.len() - 1]).failed_with(NO_PROCESS, &["no .NET process is called", "remora ps"]);

    let second = start();
    let both = [first.pid().to_string(), second.pid().to_string()];
    record(&name).failed_with(NO_PROCESS, &["which one? 2 .NET processes fit", &both[0], &both[1], "-p PID"]);
    // Without a name any .NET process matches, and there are at least these two.
    remora(["record", "-d", "300ms"]).failed_with(NO_PROCESS, &["which one?", "-p PID"]);
    let listed = remora(["ps", "--json"]).succeeded().json();
    for pid in &both {
        assert!(array(&listed).iter().any(|process| number(&process["process_id"]).to_string() == **pid), "{listed}");
    }
    for pid in [first.pid(), second.pid()] {
        assert_eq!(Facts::of(pid).remora(), Vec::<String>::new());
    }
}

#[test]
fn durations_are_understood_in_each_form_and_absurd_ones_refused_before_anything_is_asked() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    // The first attach makes the runtime create its detach thread, which has the name of the diagnostics server's thread.
    let serving = || Facts::of(target.pid()).threads.into_values().filter(|name| name == ".NET EventPipe").count();
    let before = serving();
    for wrong in ["30", "0s", "-5s", "5 s", "1.5s", "32d", "24:00:00", "1::2", "soon", ""] {
        let output = Recording::start(&target, &[&format!("--duration={wrong}")]).finish();
        output.ended_with(USAGE);
        assert_eq!(output.finished.stderr.trim_end().lines().count(), 1, "{}", output.finished);
    }
    assert_eq!(serving(), before, "nothing was asked of the runtime");
    for (form, milliseconds) in
        [("1s", 1000), ("700ms", 700), ("00:00:01", 1000), ("00:00:00:01", 1000), ("0m1s100ms", 1100)]
    {
        let recorded = Recording::start(&target, &["--duration", form]).finish();
        recorded.is_clean();
        let reported = recorded.finished.json();
        assert_eq!(reported["ended"], "time-is-over");
        let lasted = number(&reported["recording"]["duration_nanoseconds"]);
        assert!(lasted >= milliseconds * 1_000_000, "{form}: {lasted}");
    }
}

fn goes_on(target: &mut Target) {
    let first = target.ask_number("count");
    while target.ask_number("count") == first {}
}

/// The milliseconds of each sample in time order, for the thread with most of them.
fn weights_in_order(recording: &Path) -> Vec<f64> {
    let packed = converted(recording, "a.firefox.json.gz");
    let unpacked = Command::new("gzip").arg("-dc").arg(packed).output().unwrap();
    let file: Value = serde_json::from_slice(&unpacked.stdout).unwrap();
    let threads = array(&file["threads"]).iter().map(|thread| array(&thread["samples"]["weight"]));
    let longest = threads.max_by_key(|weights| weights.len()).unwrap();
    assert_eq!(longest.len() as u64, number(&report(recording)["parts"][0]["threads"][0]["samples"]));
    longest.iter().filter_map(Value::as_f64).collect()
}

/// `remora record ... -- dotnet TARGET ARGUMENTS`.
fn started_by_remora(runtime: &Runtime, name: &str, arguments: &[&str], output: &Path, receipt: &Path) -> Command {
    let mut command = Remora::command();
    command.args(["record", "--frequency", "500", "-o"]).arg(output).arg("--receipt").arg(receipt).arg("--");
    command.arg(runtime.launcher()).arg(Target::assembly(name)).args(arguments);
    command
}

#[test]
fn regression_a_recording_whose_folder_was_removed_was_lost_and_the_message_named_a_file_that_was_gone() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "busy", &["1"]);
        for (engine, name) in [("agent", "a.remora"), ("agent", "a.html"), ("eventpipe", "a.html")] {
            let folder = remora_e2e::folder();
            let mut command = Remora::command();
            command.args(["record", "--engine", engine, "-p", &target.pid().to_string(), "-o"]);
            command.arg(folder.path().join(name));
            let mut remora = Remora::spawn(command);
            remora.wait_until_it_says("recording busy");
            until_used(target.pid(), Duration::from_millis(200));
            std::fs::remove_dir_all(folder.path()).unwrap();
            remora.signal(Signal::INT);
            let finished = remora.finish();
            assert_eq!(finished.code(), OUTPUT_REFUSED, "{finished}");
            let rest = finished.stderr.split_once("what was recorded is in ").unwrap_or_else(|| panic!("{finished}")).1;
            let saved = Path::new(rest.split_once(':').unwrap().0);
            let recorded = report(saved);
            std::fs::remove_file(saved).unwrap();
            assert!(number(&recorded["samples"]) > 0, "{recorded:#}");
        }
    });
}

/// The reader of a pipe that was checked once took the end of the check for the end of the result, and nobody read the result.
#[test]
fn regression_a_recording_into_a_pipe_waited_for_a_second_reader() {
    let target = Target::start(&Runtime::newest(), "busy", &["1"]);
    let folder = remora_e2e::folder();
    let pipe = folder.path().join("a.folded");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let (here, there) = std::sync::mpsc::channel();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            use std::io::Read;
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
            let opened = rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()).unwrap();
            here.send(()).unwrap();
            // From the first writer's opening to its end, as `cat` reads.
            let mut polled = [rustix::event::PollFd::new(&opened, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut polled, None).unwrap();
            rustix::fs::fcntl_setfl(&opened, rustix::fs::OFlags::empty()).unwrap();
            let mut text = String::new();
            std::fs::File::from(opened).read_to_string(&mut text).unwrap();
            text
        }
    });
    there.recv().unwrap();
    let finished = remora(["record", "-d", "300ms", "-p", &target.pid().to_string(), "-o", pipe.to_str().unwrap()]);
    assert_eq!(finished.code(), 0, "{finished}");
    assert!(reader.join().unwrap().contains("Busy"), "the recording came");
}
