//! The examples of `corprof::sdk` on live runtimes: each attaches, reports, detaches, is unmapped, and does so again.
//!
//! Each connects to the socket named in its client data, and detaches when the listener closes the connection: so every step is a
//! handshake.
#![forbid(unsafe_code)]

use remora_e2e::probe::switches;
use remora_e2e::{
    Facts, Runtime, Start, TIMEOUT, Target, diagnostics, folder, on_every_runtime, on_runtimes, remora, sdk_example,
    until,
};
use remora_holds::holds;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

/// This many samples make the busy method stand out.
const ENOUGH_SAMPLES: u32 = 50;

/// An attached example, and our end of its connection.
struct Attached {
    pid: u32,
    library: String,
    shown: BufReader<UnixStream>,
}

impl Attached {
    /// Attaches one of the examples, whose class id ends in this number.
    fn to(target: &Target, name: &str, class: [u8; 16]) -> Attached {
        Attached::with(target, name, class, "")
    }

    /// The same, with words before the socket's path in the client data.
    fn with(target: &Target, name: &str, class: [u8; 16], words: &str) -> Attached {
        let folder = folder();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).expect("a new path");
        let library = sdk_example(name).to_string_lossy().into_owned();
        let data = format!("{words}{}", path.display());
        let answer = diagnostics::attach_profiler(target.pid(), &class, &library, data.as_bytes());
        assert_eq!(answer, Ok(()), "{name} cannot attach");
        // It connects before the runtime answers.
        let (stream, _) = listener.accept().expect("it has called");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a wait can be bounded");
        Attached { pid: target.pid(), library, shown: BufReader::new(stream) }
    }

    /// The lines up to one with this beginning.
    #[track_caller]
    fn until_line(&mut self, start: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.starts_with(start)) {
            let mut line = String::new();
            let read = self.shown.read_line(&mut line);
            assert!(line.ends_with('\n'), "no line begins with `{start}`: {lines:?}, then {read:?}");
            // Of the examples' output only the reason for a failed detach has these words.
            assert!(!line.contains("the profiler "), "{line}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// Closes the connection; returns the output until the library is unmapped and the thread that asked has ended.
    #[track_caller]
    fn leave(self) -> Vec<String> {
        let (pid, library) = (self.pid, self.library.clone());
        let said = self.detach();
        let has_thread = || Facts::of(pid).threads.values().any(|name| name.starts_with("corprof-"));
        until("the example and its threads are gone", || !is_mapped(pid, &library) && !has_thread());
        said
    }

    /// Closes the connection; returns the output until the runtime has accepted the detach.
    #[track_caller]
    fn detach(mut self) -> Vec<String> {
        self.shown.get_ref().shutdown(Shutdown::Write).expect("it is still there");
        self.until_line("detached")
    }
}

fn is_mapped(pid: u32, library: &str) -> bool {
    Facts::of(pid).maps.iter().any(|mapping| mapping.name == library)
}

fn quiet(runtime: &Runtime, name: &str) -> Target {
    Start::managed(runtime, name).ready()
}

/// The class id of the example exported under `{636F7270-726F-6600-...}` with these last eight bytes.
fn class(last: &[u8; 8]) -> [u8; 16] {
    let mut class = *b"procor\0f--------";
    class[8..].copy_from_slice(last);
    class
}

#[test]
fn det_12_the_sdks_module_logger_attaches_tells_and_is_gone_twice() {
    on_every_runtime(|runtime| {
        let mut target = quiet(runtime, "obedient");
        for _ in 0..2 {
            let mut logger = Attached::to(&target, "module_logger", class(b"module\0\x01"));
            let found = logger.until_line("caught up:");
            assert!(found.iter().any(|line| line.contains("System.Private.CoreLib.dll")), "{found:?}");
            target.ask("a load");
            logger.until_line("loaded ");
            target.ask("a unload");
            logger.until_line("unloading ");
            logger.leave();
        }
        holds!(DET_12 rem, target.quit().success());
    });
}

#[test]
fn det_12_the_sdks_sampler_attaches_names_the_busy_method_and_is_gone_twice() {
    on_every_runtime(|runtime| {
        let mut target = quiet(runtime, "busy");
        for _ in 0..2 {
            let mut sampler = Attached::to(&target, "sampler", class(b"sample\0\x01"));
            until("the busy method is the one that is met most", || {
                let line = sampler.until_line("").remove(0);
                // The first rounds may sample any part of the program.
                let (counts, method) = line.split_once(" in ").unwrap_or_else(|| panic!("not a count: {line}"));
                let all: u32 = counts.rsplit(' ').next().and_then(|all| all.parse().ok()).unwrap();
                all >= ENOUGH_SAMPLES && method.starts_with("Busy.")
            });
            sampler.leave();
            target.ask_number("count");
        }
        holds!(DET_12 rem, target.quit().success());
    });
}

#[test]
fn det_12_the_sdks_collection_watcher_attaches_counts_each_and_is_gone_twice() {
    on_every_runtime(|runtime| {
        let mut target = quiet(runtime, "obedient");
        for _ in 0..2 {
            let mut watcher = Attached::to(&target, "gc_watcher", class(b"watch\0\0\x01"));
            for _ in 0..3 {
                target.ask("a gc");
                watcher.until_line("collected generation 2 in ");
            }
            let rest = watcher.leave();
            assert_eq!(rest, ["detached, 0 collections lost"], "an idle program was collected without being asked");
        }
        holds!(DET_12 rem, target.quit().success());
    });
}

#[test]
fn det_04_the_sdk_closes_an_entrance_of_each_kind_and_nothing_of_them_is_left() {
    on_every_runtime(|runtime| {
        let mut target = quiet(runtime, "obedient");
        target.ask("b throw");
        let before = Facts::of(target.pid());
        for _ in 0..2 {
            let mut everything = Attached::to(&target, "every_resource", class(b"entry\0\0\x01"));
            let open = everything.until_line("all:");
            let mut kinds = vec!["thread", "hook", "signal handler", "timer", "child"];
            // EventPipe sessions of a profiler exist since .NET 5.
            kinds.extend((runtime.major() >= 5).then_some("EventPipe session"));
            assert_eq!(open.len(), kinds.len() + 1, "{open:?}");
            for (line, kind) in open.iter().zip(kinds) {
                assert!(line.starts_with(&format!("open: {kind} ")), "{line}, where {kind} is meant");
            }
            assert_ne!(Facts::of(target.pid()).left_since(&before), Vec::<String>::new());
            target.ask("b throw");
            assert_eq!(everything.leave(), ["detached"]);
            holds!(DET_04 rem, Facts::of(target.pid()).left_since(&before) == Vec::<String>::new());
            target.ask("b throw");
        }
        assert!(target.quit().success());
    });
}

/// The detach thread polls this often while the callback runs.
const CHECKS: u64 = 20;

#[test]
fn det_19_the_sdk_detaches_when_asked_inside_a_callback_and_waits_for_that_callback() {
    on_every_runtime(|runtime| {
        // In a callback of a GC, .NET Core 3.1 itself refuses the request.
        for (words, question) in [("load ", "a load"), ("gc ", "a gc")] {
            let mut target = quiet(runtime, "obedient");
            let mut asker = Attached::with(&target, "detaches_in_callback", class(b"inside\0\x01"), words);
            target.tell(question);
            asker.until_line("asked");
            let threads = || Facts::of(target.pid()).threads;
            until("the worker has ended", || !threads().values().any(|name| name == "corprof-worker"));
            let detach_thread = threads().iter().find(|(_, name)| *name == "corprof-detach").map(|(id, _)| *id);
            let detach_thread = detach_thread.expect("it waits for the callback");
            let from = switches(target.pid(), detach_thread);
            until("the detach thread has polled", || switches(target.pid(), detach_thread) >= from + CHECKS);
            holds!(DET_19 rem, is_mapped(target.pid(), &asker.library), "the callback still runs");
            asker.shown.get_ref().write_all(b"!").expect("it is still there");
            assert_eq!(
                asker.until_line("detached"),
                ["returns, and the runtime answers Ok(())", "detached"],
                "{words}"
            );
            until("the profiler is unmapped", || !is_mapped(target.pid(), &asker.library));
            target.read_line();
            assert!(target.quit().success());
        }
    });
}

#[test]
fn sbs_03_two_sdk_profilers_from_one_library_are_two_and_leave_one_by_one() {
    // Before .NET 6 a runtime has one profiler.
    on_runtimes(&Runtime::from_major(6), |runtime| {
        let mut target = quiet(runtime, "obedient");
        let mut watchers = [(); 2].map(|()| Attached::to(&target, "gc_watcher", class(b"watch\0\0\x01")));
        target.ask("a gc");
        for watcher in &mut watchers {
            watcher.until_line("collected generation 2 in ");
        }
        let [first, mut second] = watchers;
        first.detach();
        target.ask("a gc");
        second.until_line("collected generation 2 in ");
        holds!(SBS_03 clr rem, is_mapped(target.pid(), &second.library));
        second.leave();
        assert!(target.quit().success());
    });
}

#[test]
fn det_04_det_05_det_14_the_laboratory_finds_nothing_wrong_with_the_examples() {
    let folder = folder();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).expect("a new path");
    // Every connection is closed at once, so the profiler detaches.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.shutdown(Shutdown::Write);
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut std::io::sink()));
        }
    });
    let path = path.to_string_lossy().into_owned();
    for (name, class) in [
        ("module_logger", "636f7270-726f-6600-6d6f-64756c650001"),
        ("sampler", "636f7270-726f-6600-7361-6d706c650001"),
        ("gc_watcher", "636f7270-726f-6600-7761-746368000001"),
        ("every_resource", "636f7270-726f-6600-656e-747279000001"),
    ] {
        let library = sdk_example(name).to_string_lossy().into_owned();
        let judged = ["lab", &library, "--clsid", class, "--client-data", &path, "--seeds", "8", "--json"];
        let shown = remora(judged).succeeded().json();
        let verdict = |clause| {
            let findings = shown["findings"].as_array().expect("a list");
            findings.iter().find(|finding| finding["clause"] == clause).map(|finding| finding["verdict"].clone())
        };
        holds!(DET_04 rem, verdict("DET-04") == Some("honoured".into()), "{name}: {shown:#}");
        holds!(DET_05 rem, verdict("DET-05") == Some("honoured".into()), "{name}: {shown:#}");
        holds!(DET_14 rem, verdict("DET-14") == Some("honoured".into()), "{name}: {shown:#}");
        for clause in ["DET-12", "DET-17", "MOD-01"] {
            assert_eq!(verdict(clause), Some("honoured".into()), "{name}, {clause}: {shown:#}");
        }
    }
}

#[test]
fn det_17_a_process_ends_as_it_would_with_an_sdk_profiler_in_it() {
    on_every_runtime(|runtime| {
        let target = quiet(runtime, "obedient");
        let mut logger = Attached::to(&target, "module_logger", class(b"module\0\x01"));
        logger.until_line("caught up:");
        holds!(DET_17 clr rem, target.quit().success());
    });
}
