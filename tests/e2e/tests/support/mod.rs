//! Shared by the tests of bad input and of unusual places: made-up programs, and the check that a target is unchanged.
//!
//! They need root for namespaces, other users and mounts.

#![allow(dead_code, reason = "each test program uses its part of it")]

use remora_e2e::{Facts, Finished, Remora, Runtime, Start, Target, until, until_used};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs the following command as an unprivileged user that can read everything root can.
pub const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all,+dac_read_search --ambient-caps +dac_read_search";

/// CPU time of a target in which any engine takes samples.
const ENOUGH: Duration = Duration::from_millis(500);

/// More signals than any working thread blocks.
const ALMOST_ALL_SIGNALS: u32 = 56;

/// A folder that every user may enter, removed with the value.
pub fn open_folder() -> tempfile::TempDir {
    let folder = remora_e2e::folder();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

/// Compiles `support/native/SOURCE.c` into `output`.
pub fn compile(source: &str, flags: &[&str], output: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/native");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(output);
    command.arg(folder.join(format!("{source}.c"))).args(flags).arg("-ldl");
    let ran = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    output.to_owned()
}

/// A target with a separate temporary folder, and its facts for later comparison.
pub struct Watched {
    /// The target, or the command before it.
    pub target: Target,
    /// The target's process id.
    pub pid: u32,
    /// Its temporary files.
    pub temporary: tempfile::TempDir,
    before: Option<(Facts, BTreeSet<OsString>)>,
}

impl Watched {
    /// Starts `busy` on this runtime; `change` may add variables and arguments.
    pub fn busy(runtime: &Runtime, change: impl FnOnce(Start) -> Start) -> Watched {
        Watched::start(Start::managed(runtime, "busy").arg("1"), change)
    }

    /// Starts `busy` through a shell script that ends in `exec "$@"`.
    pub fn behind(script: &str, runtime: &Runtime, change: impl FnOnce(Start) -> Start) -> Watched {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", script, "sh"]).arg(runtime.launcher()).arg(Target::assembly("busy")).arg("1");
        Watched::start(Start::of(command, &format!("busy on {} behind `{script}`", runtime.name())), change)
    }

    /// Starts a program with a separate temporary folder.
    pub fn start(start: Start, change: impl FnOnce(Start) -> Start) -> Watched {
        let temporary = open_folder();
        let target = change(start.env("TMPDIR", temporary.path())).ready();
        let pid = innermost(target.pid());
        let mut watched = Watched { target, pid, temporary, before: None };
        watched.look();
        watched
    }

    /// Records the state that must be the same later.
    pub fn look(&mut self) {
        // A thread that is just being created blocks every signal for a moment.
        let mut facts = Facts::of(self.pid);
        until("no thread is being born", || {
            facts = Facts::of(self.pid);
            facts.blocked.values().all(|mask| mask.count_ones() < ALMOST_ALL_SIGNALS)
        });
        self.before = Some((facts, self.files()));
    }

    /// Panics unless the target is as it was at the last `look`.
    #[track_caller]
    pub fn is_untouched(&mut self) {
        assert!(self.target.is_alive(), "the target has ended: {}", self.target.errors());
        let Some((facts, files)) = &self.before else { panic!("it was not looked at") };
        assert_eq!(Facts::of(self.pid).left_since(facts), Vec::<String>::new());
        // Other tests' files appear and vanish in shared folders.
        until("nothing is left in its folders", || self.files().is_subset(files));
    }

    /// Panics unless `remora record` fails with this code and these words, on one line, and leaves the target untouched. Returns how it
    /// ended.
    #[track_caller]
    pub fn is_refused(&mut self, flags: &[&str], code: i32, words: &[&str]) -> Finished {
        let (_folder, finished) = record(self.pid, flags);
        refused(&finished, code, words);
        self.is_untouched();
        finished
    }

    /// Panics unless `remora check` reports the failed check `name` with this code.
    #[track_caller]
    pub fn fails_the_check(&mut self, name: &str, code: i32) {
        let checked = remora_e2e::remora(["check", "-p", &self.pid.to_string()]);
        assert_eq!(checked.code(), code, "{checked}");
        let line =
            checked.text().lines().find(|line| line.starts_with("FAILED") && line.contains(name)).map(str::to_owned);
        assert!(line.is_some_and(|line| line.contains("; ")), "no remedy for `{name}`: {checked}");
        let text = checked.text();
        assert!(text.lines().last().is_some_and(|line| line.starts_with("record would not work: ")), "{checked}");
        self.is_untouched();
    }

    /// Panics unless `remora check` reports the failed check `name`, and that `record` would use the runtime's own sampler instead.
    #[track_caller]
    pub fn leaves_the_sampler_only(&mut self, name: &str) {
        let pid = self.pid.to_string();
        let shown = remora_e2e::remora(["check", "--json", "-p", &pid]).succeeded().json();
        assert_eq!(shown["recordable"], true, "{shown:#}");
        assert_eq!(shown["engine"], "eventpipe", "{shown:#}");
        let checks = shown["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let failed = checks.iter().find(|check| check["passed"] == false);
        assert!(failed.is_some_and(|check| check["name"] == name && check["remedy"].is_string()), "{shown:#}");
        let checked = remora_e2e::remora(["check", "-p", &pid]).succeeded().text();
        let last = checked.lines().last().unwrap_or_default();
        assert!(last.starts_with("record would work, with the runtime's own sampler only: "), "{checked}");
        self.is_untouched();
    }

    /// Panics unless it can be recorded without leftovers. Returns the number of samples.
    #[track_caller]
    pub fn is_recorded(&mut self, flags: &[&str]) -> u64 {
        let (folder, finished) = record(self.pid, flags);
        assert_eq!(finished.code(), 0, "{finished}");
        let receipt = std::fs::read(folder.path().join("receipt.json")).unwrap();
        let receipt: serde_json::Value = serde_json::from_slice(&receipt).unwrap();
        assert_eq!(receipt["clean"], true, "{receipt:#}");
        let samples = samples_in(&folder.path().join("recording.remora"));
        assert!(samples > 0);
        self.is_untouched();
        samples
    }

    /// Waits until the program's counter changes.
    pub fn goes_on(&mut self) {
        let first = self.target.ask_number("count");
        while self.target.ask_number("count") == first {}
    }

    /// Names in the folders where Remora could have put files; in shared folders only names like ours.
    fn files(&self) -> BTreeSet<OsString> {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let apart = std::fs::read_link(format!("/proc/{}/ns/mnt", self.pid)).ok()
            != std::fs::read_link("/proc/self/ns/mnt").ok();
        let mut found = names(self.temporary.path());
        found.extend(names(&root.join(self.temporary.path().strip_prefix("/").unwrap())));
        if apart {
            let ours = |name: &OsString| {
                ["remora-", "libremora"].iter().any(|start| name.to_string_lossy().starts_with(start))
            };
            for folder in ["tmp", "var/tmp", "dev/shm", ""] {
                let all = names(&root.join(folder));
                let own = all
                    .difference(&names(&Path::new("/").join(folder)))
                    .filter(|name| ours(name))
                    .cloned()
                    .collect::<Vec<_>>();
                found.extend(own);
            }
        }
        found
    }
}

/// Runs `remora record` on a busy process until that has used some CPU time; returns the folder with `recording.remora` and
/// `receipt.json`, and the result.
pub fn record(pid: u32, flags: &[&str]) -> (tempfile::TempDir, Finished) {
    let folder = remora_e2e::folder();
    let mut command = Remora::command();
    command.args(["record", "-p", &pid.to_string()]);
    command.arg("-o").arg(folder.path().join("recording.remora"));
    command.arg("--receipt").arg(folder.path().join("receipt.json")).args(flags);
    (folder, ended_when_busy(command, pid))
}

/// Runs a command that records a busy process, until that has used some CPU time.
pub fn ended_when_busy(command: Command, pid: u32) -> Finished {
    let mut remora = Remora::spawn(command);
    until("it records or gives up", || remora.said_so_far().contains("Ctrl-C ends it") || !remora.is_alive());
    if remora.is_alive() {
        until_used(pid, ENOUGH);
        remora.signal(rustix::process::Signal::INT);
    }
    remora.finish()
}

/// Panics unless `remora report` reads the whole recording; returns its number of samples.
#[track_caller]
pub fn samples_in(file: &Path) -> u64 {
    let finished = remora_e2e::remora([OsStr::new("report"), file.as_os_str(), "--json".as_ref()]).succeeded();
    finished.json()["samples"].as_u64().unwrap_or_else(|| panic!("no samples are told: {finished}"))
}

/// Panics unless it failed with this code and one line with cause and fix.
#[track_caller]
pub fn refused(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), code, "{finished}");
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert!(matches!(lines[..], [line] if line.starts_with("remora: ") && line.contains("; ")), "{finished}");
    for word in words {
        assert!(lines[0].contains(word), "`{word}` is not in the message: {finished}");
    }
}

/// Runs `remora` through a shell script that ends in `"$@"`.
pub fn remora_behind<A: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = A>) -> Finished {
    Remora::spawn(behind(script, arguments)).finish()
}

/// The command for [`remora_behind`].
pub fn behind<A: AsRef<OsStr>>(script: &str, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", script, "sh"]).arg(Remora::command().get_program()).args(arguments);
    command
}

/// The names in a folder; none if it cannot be read.
pub fn names(folder: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default()
}

/// The process at the end of a chain of only children: the program started by `unshare --fork`.
fn innermost(pid: u32) -> u32 {
    match Facts::of(pid).children.first() {
        Some(child) => innermost(*child),
        None => pid,
    }
}
