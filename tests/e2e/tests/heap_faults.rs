//! Faults during a snapshot: each is reported clearly, the target continues, and the saved part is readable.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_e2e::{
    Facts, Finished, HeldCopy, Remora, Runtime, Start, Target, on_every_runtime, on_runtimes, remora, state, until,
};
use remora_holds::holds;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{behind, compile, open_folder};

/// From docs/reference/exit-codes.md.
const REFUSED: i32 = 19;
const HELD: i32 = 18;
const LEFT: i32 = 40;
const PART: i32 = 42;

/// Nodes of the program, where the copy needs work.
const MANY: u64 = 5_000_000;

#[test]
fn det_14_a_process_that_may_not_be_copied_is_left_as_it_was_with_the_reason() {
    let folder = open_folder();
    let no_copies = compile("no_copies", &[], &folder.path().join("no_copies"));
    on_every_runtime(|runtime| {
        let script = format!("exec {} \"$@\"", no_copies.display());
        let mut target = Start::managed(runtime, "heap").arg("1000").behind(&script).ready();
        let file = folder.path().join("refused.remora-heap");
        let before = Facts::of(target.pid());
        let command = ["heap", "-p", &target.pid().to_string(), "-o", file.to_str().unwrap()];
        let finished = remora(command);
        finished.failed_with(
            REFUSED,
            &["could not be copied", "Resource temporarily unavailable", "look what limits the process"],
        );
        assert!(!file.exists(), "nothing was walked");
        holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        assert_eq!(target.ask_number("nodes"), 1000);
    });
}

/// A user without other processes: the kernel counts all processes and threads of a user together.
const ALONE: &str = "setpriv --reuid 64123 --regid 64123 --clear-groups --inh-caps -all,+dac_read_search --ambient-caps +dac_read_search";

/// Threads of the agent.
const AGENT_THREADS: u64 = 2;

#[test]
fn det_14_a_user_who_may_have_no_more_processes_keeps_the_one_that_is_there() {
    let folder = open_folder();
    on_every_runtime(|runtime| {
        let start = Start::managed(runtime, "heap").arg("1000").behind(&format!("exec {ALONE} \"$@\""));
        // The background recompilation thread would change the count.
        let start = start.env("COMPlus_TieredCompilation", "0").env("DOTNET_TieredCompilation", "0");
        let mut target = start.ready();
        let file = folder.path().join("limited.remora-heap");
        let process = target.pid().to_string();
        let command = ["heap", "-p", &process, "--force", "--json", "-o", file.to_str().unwrap()];
        // The first attach makes the runtime create its detach thread.
        assert_eq!(remora(command).succeeded().json()["complete"], true);
        fs::remove_file(&file).unwrap();
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().count() as u64;
        // Users may limit themselves without any rights. Before .NET 6 the runtime creates that thread anew for each attach.
        let limit = threads + AGENT_THREADS + u64::from(runtime.major() < 6);
        let mut limiting = Command::new("setpriv");
        limiting.args([
            "--reuid",
            "64123",
            "--regid",
            "64123",
            "--clear-groups",
            "prlimit",
            "--pid",
            &process,
            &format!("--nproc={limit}"),
        ]);
        assert!(limiting.status().unwrap().success());
        let before = Facts::of(target.pid());
        let words = ["could not be copied", "Resource temporarily unavailable", "look what limits the process"];
        remora(command).failed_with(REFUSED, &words);
        assert!(!file.exists(), "nothing was walked");
        holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        assert_eq!(target.ask_number("nodes"), 1000);
    });
}

/// Allowed growth of the address space, KiB: too little for the runtime to load the library, or for the agent.
const TOO_LITTLE: [u64; 3] = [4 << 10, 12 << 10, 34 << 10];

/// Lets a process map this many bytes more, or any number.
fn may_map(target: &Target, more: Option<u64>) {
    let pages = fs::read_to_string(format!("/proc/{}/statm", target.pid())).unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = more.map_or("unlimited".to_owned(), |more| (pages * 4096 + more).to_string());
    let set = Command::new("prlimit").args(["--pid", &target.pid().to_string(), &format!("--as={limit}:")]).status();
    assert!(set.unwrap().success());
}

#[test]
fn a_process_that_may_have_no_more_address_space_is_left_as_it_was_with_the_limit_named() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["1000"]);
        let process = target.pid().to_string();
        let before = Facts::of(target.pid());
        let folder = open_folder();
        let [file, recording] = ["short.remora-heap", "short.remora"].map(|name| folder.path().join(name));
        let recording = recording.to_str().unwrap();
        let command = ["heap", "-p", &process, "-o", file.to_str().unwrap()];
        for more in TOO_LITTLE {
            may_map(&target, Some(more * 1024));
            let finished =
                remora(command).failed_with(REFUSED, &["was given no memory", "address space", "prlimit --pid"]);
            assert!(!finished.stderr.contains("eventpipe"), "{finished}");
            // A recording needs less. If it gets too little, the runtime's own sampler gets too little, too, and a runtime can hang or crash.
            let recorded = Remora::start(["record", "-p", &process, "-d", "1s", "--force", "-o", recording]).finish();
            let is_refused = recorded.code() == REFUSED && recorded.stderr.contains("address space");
            assert!(is_refused || more > TOO_LITTLE[0] && recorded.code() == 0, "{recorded}");
            assert!(!recorded.stderr.contains("using the runtime's own sampler"), "{recorded}");
            assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());
        }
        may_map(&target, None);
        remora(command).succeeded();
        assert_eq!(target.ask_number("nodes"), 1000);
    });
}

/// After a main profiler, .NET never calls the next one, which corrects its count. Without memory for its ring that one waited for a call
/// for ever, and every later command was refused.
#[test]
fn regression_an_agent_without_memory_kept_its_threads_in_a_process_that_never_called_it() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["1000"]);
        let process = target.pid().to_string();
        let folder = open_folder();
        let file = folder.path().join("short.remora-heap");
        let command = ["heap", "--roots", "-p", &process, "--force", "-o", file.to_str().unwrap()];
        // Enough for the libraries and for threads, and not for the rings.
        may_map(&target, Some(30 << 20));
        let refused = Remora::start(command).finish();
        assert!(refused.code() != 0 && refused.stderr.contains("memory"), "{refused}");
        until("no thread of the agent is left", || {
            Facts::of(target.pid()).threads.values().all(|name| !name.starts_with("remora"))
        });
        may_map(&target, None);
        remora(command).succeeded();
        assert_eq!(target.ask_number("nodes"), 1000);
    });
}

/// Without free descriptors .NET 8 crashes at its next work after a connection.
#[test]
fn det_14_a_process_without_free_descriptors_is_asked_nothing_and_learns_what_to_do() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &["1000"]);
        // It has loaded all that it needs. Without a descriptor for an assembly a program ends by itself.
        assert_eq!(target.ask_number("nodes"), 1000);
        let process = target.pid().to_string();
        let limit = |descriptors: &str| {
            let set = Command::new("prlimit").args(["--pid", &process, &format!("--nofile={descriptors}:")]).status();
            assert!(set.unwrap().success());
        };
        let held = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
        let numbers = held.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let numbers: Vec<u64> = numbers.collect();
        let free = |limit: u64| limit - numbers.iter().filter(|number| **number < limit).count() as u64;
        limit(&(0..).find(|limit| free(*limit) == 2).unwrap().to_string());
        let folder = open_folder();
        let file = folder.path().join("short.remora-heap");
        let command = ["heap", "-p", &process, "-o", file.to_str().unwrap()];
        let before = Facts::of(target.pid());
        remora(command).failed_with(REFUSED, &["descriptors that the process may have", "prlimit --pid"]);
        holds!(DET_14 rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        limit("1024");
        remora(command).succeeded();
        assert_eq!(target.ask_number("nodes"), 1000);
    });
}

/// The number of seccomp filters of a process.
fn filters(process: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("Seccomp_filters:")).expect("a kernel that counts filters");
    line.split_whitespace().last().unwrap().parse().unwrap()
}

/// Otherwise a runtime that exits in the copy would remove the process's diagnostics socket.
#[test]
fn det_14_what_the_copy_may_ask_of_the_kernel_leads_to_nothing_of_the_process() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "heap", &[&MANY.to_string()]);
        let folder = open_folder();
        let file = folder.path().join("confined.remora-heap");
        let before = filters(target.pid());
        let command = Remora::start(["heap", "-p", &target.pid().to_string(), "-o", file.to_str().unwrap()]);
        let copy = HeldCopy::of(&target, &command);
        holds!(DET_14 rem, (filters(copy.pid()), filters(target.pid())) == (before + 1, before));
        copy.go_on();
        command.finish().succeeded();
    });
}

#[test]
fn det_14_a_disk_that_fills_while_the_heap_is_walked_keeps_what_fits() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&MANY.to_string()]);
        let (disk, kept) = (open_folder(), open_folder());
        let before = Facts::of(target.pid());
        let finished = fill_while_walking(&target, disk.path(), kept.path());
        assert_eq!(finished.code(), PART, "{finished}");
        assert!(finished.to_string().contains("the disk is full"), "{finished}");
        let part = fs::read_dir(kept.path()).unwrap().flatten().map(|entry| entry.path()).next();
        let part = part.unwrap_or_else(|| panic!("nothing was kept: {finished}"));
        let again = remora(["heap", "report", part.to_str().unwrap()]);
        assert!(again.failed_with(PART, &["does not hold all of the heap"]).text().contains("NOT all of the heap"));
        holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        assert_eq!(target.ask_number("nodes"), MANY);
    });
}

/// Takes a snapshot on a small disk that is filled while the copy is stopped.
fn fill_while_walking(target: &Target, disk: &Path, kept: &Path) -> Finished {
    let script = format!(
        "mount -t tmpfs -o size=20m tmpfs {disk}; code=0; \"$@\" || code=$?; rm -f {disk}/rest; cp {disk}/* {kept}; exit $code",
        disk = disk.display(),
        kept = kept.display()
    );
    let output = disk.join("x.remora-heap");
    let command = ["heap", "-p", &target.pid().to_string(), "-o", output.to_str().unwrap()];
    let remora = Remora::spawn(behind(&script, command));
    let inside = PathBuf::from(format!("/proc/{}/root", remora.pid())).join(disk.strip_prefix("/").unwrap());
    let copy = HeldCopy::of(target, &remora);
    until("what the copy has told is written", || remora_e2e::spooled(&inside) > 1024);
    let mut rest = fs::File::create(inside.join("rest")).unwrap();
    let piece = [0; 4096];
    while rest.write_all(&piece).is_ok() {}
    drop(rest);
    copy.go_on();
    remora.finish()
}

#[test]
fn det_14_a_second_snapshot_meanwhile_is_refused_and_the_first_is_whole() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&MANY.to_string()]);
        let folder = open_folder();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(format!("{name}.remora-heap")));
        let process = target.pid().to_string();
        let before = Facts::of(target.pid());
        let command = Remora::start(["heap", "-p", &process, "--json", "-o", first.to_str().unwrap()]);
        let copy = HeldCopy::of(&target, &command);
        let refused = remora(["heap", "-p", &process, "-o", second.to_str().unwrap()]);
        refused.failed_with(HELD, &["remora"]);
        assert!(!second.exists());
        copy.go_on();
        let shown = command.finish().succeeded().json();
        assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
        holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        assert_eq!(target.ask_number("nodes"), MANY);
    });
}

/// A program with a thread that cannot be suspended.
struct Unstoppable {
    target: Target,
    page: PathBuf,
    worker: u32,
    _folder: tempfile::TempDir,
}

impl Unstoppable {
    fn start(runtime: &Runtime) -> Unstoppable {
        let folder = open_folder();
        let page = folder.path().join("page");
        fs::write(&page, [0; 4096]).unwrap();
        let mut target = Target::start(runtime, "unstoppable", &[page.to_str().unwrap()]);
        let worker = target.ask_number("run") as u32;
        Unstoppable { target, page, worker, _folder: folder }
    }

    /// Lets the runtime suspend the thread.
    fn relent(&self) {
        let mut page = fs::OpenOptions::new().write(true).open(&self.page).unwrap();
        page.write_all(&[1]).unwrap();
    }
}

#[test]
fn det_16_ctrl_c_ends_the_wait_for_a_collection_and_nothing_stays_once_it_has_happened() {
    on_runtimes(&[Runtime::major_is(3), Runtime::newest()], |runtime| {
        let mut program = Unstoppable::start(runtime);
        let folder = open_folder();
        let file = folder.path().join("none.remora-heap");
        let before = Facts::of(program.target.pid());
        let process = program.target.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "-o", file.to_str().unwrap()]);
        // It never sleeps except when the runtime suspends it.
        until("the runtime has begun to stop the program", || program.target.thread_state(program.worker) == 'S');
        command.signal(Signal::INT);
        let finished = command.finish();
        finished.failed_with(LEFT, &["interrupted before anything was recorded", "something of Remora remains"]);
        assert!(!file.exists(), "nothing was walked");
        program.relent();
        until("nothing is left", || Facts::of(program.target.pid()).left_since(&before).is_empty());
        let count = program.target.ask_number("count");
        let left = Facts::of(program.target.pid()).left_since(&before);
        holds!(DET_16 clr rem, left == Vec::<String>::new());
        until("the program goes on", || program.target.ask_number("count") > count);
    });
}

/// The GC starts while nobody drains the ring, so that everything fits and the copy waits for the next request.
#[test]
fn a_copy_that_ends_before_it_was_asked_about_static_fields_has_sent_the_heap_and_says_what_is_missing() {
    on_runtimes(&[Runtime::major_is(3), Runtime::newest()], |runtime| {
        let mut program = Unstoppable::start(runtime);
        let folder = open_folder();
        let file = folder.path().join("unasked.remora-heap");
        let before = Facts::of(program.target.pid());
        let process = program.target.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()]);
        until("the runtime has begun to stop the program", || program.target.thread_state(program.worker) == 'S');
        command.signal(Signal::STOP);
        until("nobody listens", || state(command.pid()) == Some('T'));
        program.relent();
        let copy = || Facts::of(program.target.pid()).children.first().copied();
        // It sleeps when it waits, and at no other time while there is space.
        until("the copy waits", || copy().and_then(state) == Some('S'));
        kill_process(Pid::from_raw(copy().unwrap() as i32).unwrap(), Signal::KILL).unwrap();
        command.signal(Signal::CONT);
        let shown = command.finish().succeeded().json();
        let notes = shown["notes"].to_string();
        assert!(notes.contains("not all static fields were read"), "{notes}");
        assert_eq!((&shown["complete"], &shown["static_fields"]), (&true.into(), &false.into()), "{shown:#}");
        assert_eq!(shown["receipt"]["clean"], true, "{}", shown["receipt"]);
        assert_eq!(Facts::of(program.target.pid()).left_since(&before), Vec::<String>::new());
        let count = program.target.ask_number("count");
        until("the program goes on", || program.target.ask_number("count") > count);
    });
}

#[test]
fn det_14_a_program_that_is_halted_while_its_heap_is_walked_keeps_nobody_from_the_whole_of_it() {
    on_every_runtime(|runtime| {
        let mut target = Target::start(runtime, "heap", &[&MANY.to_string()]);
        let folder = open_folder();
        let file = folder.path().join("halted.remora-heap");
        let before = Facts::of(target.pid());
        let process = target.pid().to_string();
        let command = Remora::start(["heap", "-p", &process, "--json", "-o", file.to_str().unwrap()]);
        let copy = HeldCopy::of(&target, &command);
        target.halt();
        copy.go_on();
        copy.until_it_has_ended();
        target.go_on();
        let shown = command.finish().succeeded().json();
        assert_eq!((&shown["complete"], &shown["receipt"]["clean"]), (&true.into(), &true.into()), "{shown:#}");
        holds!(DET_14 clr rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
        assert_eq!(target.ask_number("nodes"), MANY);
    });
}

/// This takes the half minute that a copy may be silent.
#[test]
fn a_copy_that_hangs_is_ended_and_what_it_has_sent_is_kept() {
    let mut target = Target::start(&Runtime::newest(), "heap", &[&MANY.to_string()]);
    let folder = open_folder();
    let file = folder.path().join("part.remora-heap");
    let process = target.pid().to_string();
    let before = Facts::of(target.pid());
    let command = Remora::start(["heap", "-p", &process, "-o", file.to_str().unwrap()]);
    HeldCopy::of(&target, &command);
    let finished = command.finish();
    let finished = finished.failed_with(PART, &["does not hold all of the heap"]);
    assert!(finished.text().contains("made no progress for 30 s and was ended"), "{finished}");
    remora(["heap", "report", file.to_str().unwrap()]).failed_with(PART, &["does not hold all of the heap"]);
    assert_eq!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());
    assert_eq!(target.ask_number("nodes"), MANY);
}

/// docs/reference/heap.md warns about this: from outside, nothing shows that a program is in such a region.
#[test]
fn gch_02_a_region_without_collections_is_ended_by_a_snapshot_as_by_any_collection_that_is_asked_for() {
    on_every_runtime(|runtime| {
        let folder = open_folder();
        let [page, file] = ["page", "x.remora-heap"].map(|name| folder.path().join(name));
        fs::write(&page, [0; 4096]).unwrap();
        let mut target = Target::start(runtime, "unstoppable", &[page.to_str().unwrap()]);
        assert_eq!(target.ask("no collections"), "begun");
        assert_eq!(target.ask("end"), "ended", "without a snapshot");
        assert_eq!(target.ask("no collections"), "begun");
        remora(["heap", "-p", &target.pid().to_string(), "-o", file.to_str().unwrap()]).succeeded();
        let shown = target.ask("end");
        holds!(GCH_02 clr, shown.contains("NoGCRegion mode"), "{shown}");
    });
}
