//! A runtime that handles an attach request after nobody waits for it any more.
//!
//! Its diagnostics server answers the process info request, and nothing else until the test lets it: by then `remora` has given up.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

mod support;

use remora_e2e::{Facts, Recording, Remora, Runtime, Start, Target, on_every_runtime, until};
use remora_holds::holds;
use rustix::fs::inotify;
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Exit codes of `remora`, from docs/reference/exit-codes.md.
const NO_PROCESS: i32 = 10;
const NO_ANSWER: i32 = 15;

#[test]
fn att_08_an_agent_loaded_after_its_trigger_timed_out_detaches_by_itself() {
    on_every_runtime(|runtime| {
        let mut late = Late::start(runtime);
        let recording = Recording::start(&late.target, &[]);
        let library = late.placed_library();
        let kept = late.path("kept");
        std::fs::hard_link(&library, &kept).unwrap();
        recording.finish().ended_with(NO_ANSWER);
        assert!(!library.exists(), "remora leaves its file behind");
        // As if the runtime had opened it just before.
        std::fs::rename(&kept, &library).unwrap();
        let loaded = Watch::over(&library);
        late.answers();
        // The linker closes a library once it is mapped.
        loaded.wait_until_it_is_closed();
        std::fs::remove_file(&library).unwrap();
        late.is_as_before();
    });
}

#[test]
fn att_08_a_request_that_is_heard_too_late_finds_no_library_and_changes_nothing() {
    on_every_runtime(|runtime| {
        let mut late = Late::start(runtime);
        let recording = Recording::start(&late.target, &[]);
        late.placed_library();
        recording.finish().ended_with(NO_ANSWER);
        late.answers();
        late.is_as_before();
    });
}

/// Its directories and its socket vanish at different instants.
#[test]
fn a_process_that_ends_before_it_has_answered_has_ended_whatever_was_wanted_of_it() {
    on_every_runtime(|runtime| {
        for wanted in [&["record"][..], &["heap"], &["heap", "--roots"], &["heap", "--watch", "1h"]] {
            let late = Late::start(runtime);
            let process = late.target.pid().to_string();
            let folder = remora_e2e::folder();
            let file = folder.path().join(if wanted[0] == "record" { "a.remora" } else { "a.remora-heap" });
            let rest = ["-p", &process, "-o", file.to_str().unwrap()];
            let command = Remora::start(wanted.iter().chain(&rest));
            late.placed_library();
            late.target.signal(Signal::KILL);
            let ended = command.finish().failed_with(NO_PROCESS, &["ended"]);
            assert!(!file.exists() && !ended.stderr.contains("count of profilers"), "{}", ended.stderr);
        }
    });
}

/// `busy` with a diagnostics server that stops reading for a while, and a separate temporary folder.
struct Late {
    target: Target,
    before: Facts,
    folder: tempfile::TempDir,
}

impl Late {
    fn start(runtime: &Runtime) -> Late {
        let folder = support::open_folder();
        let deaf = support::compile("deaf", &["-shared", "-fPIC"], &folder.path().join("deaf.so"));
        // .NET Core 3.1 knows none of the three versions of the request, and gets each.
        let questions = if runtime.major() < 5 { "3" } else { "1" };
        let start = Start::managed(runtime, "busy").arg("1").env("TMPDIR", folder.path());
        let start =
            start.env("LD_PRELOAD", &deaf).env("DEAF_AFTER", questions).env("DEAF_UNTIL", folder.path().join("heard"));
        let target = start.ready();
        Late { before: Facts::of(target.pid()), target, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The library that `remora` has placed.
    fn placed_library(&self) -> PathBuf {
        let is_it = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("libremora_agent-");
        let found = || support::names(self.folder.path()).into_iter().find(is_it);
        until("the library is placed", || found().is_some());
        self.path(&found().unwrap().to_string_lossy())
    }

    /// Lets the server read again.
    fn answers(&self) {
        std::fs::write(self.path("heard"), "").unwrap();
    }

    /// Nothing of the request is left, and the next one works. It is served after that one.
    fn is_as_before(&mut self) {
        let pid = self.target.pid();
        until("nothing of ours is in the target", || Facts::of(pid).remora().is_empty());
        Recording::of(&self.target, &[]).is_clean();
        holds!(ATT_08 rem, Facts::of(pid).left_since(&self.before) == Vec::<String>::new());
        let ours = |name: &&std::ffi::OsString| name.to_string_lossy().contains("remora");
        assert_eq!(support::names(self.folder.path()).iter().filter(ours).count(), 0);
        let first = self.target.ask_number("count");
        until("the target goes on", || self.target.ask_number("count") > first);
    }
}

/// Watches a file by inotify.
struct Watch(std::os::fd::OwnedFd);

impl Watch {
    fn over(path: &Path) -> Watch {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, path, inotify::WatchFlags::CLOSE_NOWRITE).unwrap();
        Watch(watch)
    }

    fn wait_until_it_is_closed(&self) {
        let mut watched = [rustix::event::PollFd::new(&self.0, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: remora_e2e::TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        let seen = rustix::event::poll(&mut watched, Some(&limit)).unwrap();
        assert_eq!(seen, 1, "the runtime never loaded the library");
    }
}
