//! One `remora record` of a target, from its start to its recording and receipt.

use crate::{Facts, Finished, Remora, Target, cpu_time, until, until_used};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// CPU time that yields some samples, with every engine.
const SOME_SAMPLES: Duration = Duration::from_millis(200);

/// The same for an idle target: samples of blocked threads.
const ENOUGH_SENT: u64 = 30;

/// Samples lost because the ring between the agent and this `remora` was full, an index for [`Recording::counter`].
pub const LOST_TRANSPORT_FULL: u64 = 11;
/// Samples with a separate stack walk.
pub const WALKED: u64 = 16;

/// A running `remora record`. Its files are removed with it.
pub struct Recording {
    remora: Remora,
    folder: tempfile::TempDir,
    pid: u32,
    before: Facts,
}

/// The result of a `remora record`.
pub struct Recorded {
    /// How the command ended.
    pub finished: Finished,
    /// The receipt; null if there is none.
    pub receipt: Value,
    folder: tempfile::TempDir,
}

/// Word of the shared memory: samples sent by the agent (`remora_wire::layout::SENT`).
const SENT: u64 = 9;

impl Recording {
    /// Starts it with these arguments in addition to process, output and receipt. The default engine is the agent.
    pub fn start(target: &Target, arguments: &[&str]) -> Recording {
        Recording::by(Remora::command(), target, arguments)
    }

    /// Like [`Recording::start`], by a command that executes `remora`: as another user, with fewer rights.
    pub fn by(mut command: std::process::Command, target: &Target, arguments: &[&str]) -> Recording {
        let folder = crate::folder();
        let before = Facts::of(target.pid());
        command.arg("record").arg("-p").arg(target.pid_argument()).arg("--json");
        command.arg("-o").arg(folder.path().join("recording.remora"));
        command.arg("--receipt").arg(folder.path().join("receipt.json")).args(arguments);
        if !arguments.contains(&"--engine") {
            command.args(["--engine", "agent"]);
        }
        Recording { remora: Remora::spawn(command), folder, pid: target.pid(), before }
    }

    /// Starts it and waits until the agent samples and a busy target has worked for some samples.
    pub fn begun(target: &Target, arguments: &[&str]) -> Recording {
        let mut recording = Recording::start(target, arguments);
        recording.wait_until_it_samples();
        until_used(target.pid(), SOME_SAMPLES);
        recording
    }

    /// A whole recording of a busy target, ended after some samples; or the refusal.
    pub fn of(target: &Target, arguments: &[&str]) -> Recorded {
        if arguments.contains(&"--engine") && !arguments.contains(&"agent") {
            // The runtime's own sampler leaves no sign in the target that shows its start.
            let mut all = vec!["--duration", "2s"];
            all.extend(arguments);
            return Recording::start(target, &all).finish();
        }
        let mut recording = Recording::start(target, arguments);
        if !recording.comes_to_sample() {
            return recording.finish();
        }
        if arguments.contains(&"wall") {
            // An idle target uses almost no CPU time, but still has samples.
            let goal = cpu_time(target.pid()) + SOME_SAMPLES;
            until("it has samples", || cpu_time(target.pid()) >= goal || recording.counter(SENT) >= ENOUGH_SENT);
        } else {
            until_used(target.pid(), SOME_SAMPLES);
        }
        recording.stop()
    }

    /// Waits until the agent's handler is installed in the target.
    pub fn wait_until_it_samples(&mut self) {
        until("the agent samples", || {
            assert!(self.remora.is_alive(), "remora ended before it recorded: {}", self.remora.said_so_far());
            self.samples_now()
        });
    }

    /// Waits until the agent samples, or `remora` has given up. Whether it has not.
    pub fn comes_to_sample(&mut self) -> bool {
        until("remora samples or gives up", || self.samples_now() || !self.remora.is_alive());
        self.remora.is_alive()
    }

    fn samples_now(&self) -> bool {
        Facts::of(self.pid).dispositions != self.before.dispositions
    }

    /// Waits until the agent has sent samples: they are in the recording even if the target ends.
    pub fn wait_until_samples_are_handed_over(&self) {
        until("samples are handed over", || self.counter(SENT) > 0);
    }

    /// Waits until a part of the recording is on the disk.
    pub fn wait_until_it_is_spooled(&mut self) {
        until("something is on the disk", || {
            assert!(self.remora.is_alive(), "remora ended before it recorded: {}", self.remora.said_so_far());
            self.spool().and_then(|spool| spool.metadata().ok()).is_some_and(|facts| facts.len() > 1024)
        });
    }

    /// The file with the recording so far.
    pub fn spool(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.to_string_lossy().contains(".unfinished."))
    }

    /// A counter in the memory that the agent shares with this `remora`, by the index of the word.
    pub fn counter(&self, word: u64) -> u64 {
        counter(self.remora.pid(), word).unwrap_or_else(|error| panic!("the shared memory cannot be read: {error}"))
    }

    /// The target's facts before the recording.
    pub fn before(&self) -> &Facts {
        &self.before
    }

    /// The command itself.
    pub fn remora(&mut self) -> &mut Remora {
        &mut self.remora
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(self) -> Recorded {
        self.remora.signal(rustix::process::Signal::INT);
        self.finish()
    }

    /// Waits for its end.
    pub fn finish(self) -> Recorded {
        Recorded::of(self.remora, self.folder)
    }

    /// Kills the command with SIGKILL; returns its folder with the leftovers.
    pub fn kill(self) -> tempfile::TempDir {
        let Recording { remora, folder, .. } = self;
        drop(remora);
        folder
    }
}

fn counter(remora: u32, word: u64) -> std::io::Result<u64> {
    let descriptors = std::fs::read_dir(format!("/proc/{remora}/fd"))?.flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("memfd:remora-ring"))
    };
    let memory = descriptors.into_iter().find(is_ours).ok_or(std::io::ErrorKind::NotFound)?;
    let mut bytes = [0; 8];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(memory)?, &mut bytes, word * 8)?;
    Ok(u64::from_le_bytes(bytes))
}

impl Recorded {
    /// Waits for the end of a `remora` that writes `recording.remora` and `receipt.json` in this folder.
    pub fn of(remora: Remora, folder: tempfile::TempDir) -> Recorded {
        let finished = remora.finish();
        let receipt = std::fs::read(folder.path().join("receipt.json"));
        let receipt = receipt.map_or(Value::Null, |bytes| {
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|error| panic!("the receipt is not JSON ({error}): {finished}"))
        });
        Recorded { finished, receipt, folder }
    }

    /// Panics with all output, unless the command ended with this code.
    #[track_caller]
    pub fn ended_with(&self, code: i32) -> &Recorded {
        assert_eq!(self.finished.code(), code, "{}\nreceipt: {:#}", self.finished, self.receipt);
        self
    }

    /// Panics unless the command succeeded, took samples, and left nothing.
    #[track_caller]
    pub fn is_clean(&self) -> &Recorded {
        self.ended_with(0);
        assert_eq!(self.receipt["clean"], true, "{:#}", self.receipt);
        assert!(self.samples() > 0, "no samples: {}", self.finished);
        self
    }

    /// Samples in the recording, from the command's JSON output.
    pub fn samples(&self) -> u64 {
        self.finished.json()["recording"]["samples"].as_u64().unwrap_or(0)
    }

    /// The receipt's leftovers: `kind: what: why`, a line each.
    pub fn left(&self) -> String {
        let left = self.receipt["left"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines =
            left.iter().map(|left| format!("{}: {}: {}", text(&left["kind"]), text(&left["what"]), text(&left["why"])));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The recording's file.
    pub fn output(&self) -> PathBuf {
        self.folder.path().join("recording.remora")
    }

    /// Panics unless the recording is a valid file; returns the number of its samples.
    #[track_caller]
    pub fn readable(&self) -> u64 {
        readable(&self.output(), 0)
    }
}

/// Panics unless `remora report` reads the file and ends with `code`; returns the number of its samples.
#[track_caller]
pub fn readable(file: &Path, code: i32) -> u64 {
    let finished = crate::remora([std::ffi::OsStr::new("report"), file.as_os_str(), "--json".as_ref()]);
    assert_eq!(finished.code(), code, "{finished}");
    finished.json()["samples"].as_u64().unwrap_or_else(|| panic!("no samples are told: {finished}"))
}
