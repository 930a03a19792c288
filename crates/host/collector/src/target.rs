//! Observes the target from outside during a recording: CPU time, mappings, whether it still runs.

use remora_attach::ends_soon;
use remora_attach::proc::{Proc, Stat};
use std::time::Instant;

/// The observed process.
#[derive(Default)]
pub struct Target {
    pub(crate) process_id: u32,
    ticks_a_second: u64,
    begun: Option<u64>,
    last: Option<(u64, Instant)>,
    start_time: Option<u64>,
}

impl Target {
    /// The process with this id, as it is now.
    pub fn of(process_id: u32) -> Target {
        let ticks_a_second = rustix::param::clock_ticks_per_second();
        let mut target = Target { process_id, ticks_a_second, ..Target::default() };
        target.begun = target.cpu_time();
        target.start_time = target.stat().map(|stat| stat.start_time);
        target
    }

    /// Starts to count CPU time.
    pub fn begin(&mut self) {
        self.begun = self.cpu_time();
    }

    /// CPU time used since [`Target::begin`], nanoseconds.
    pub fn used(&self) -> Option<u64> {
        Some(self.cpu_time()?.saturating_sub(self.begun?))
    }

    /// CPUs in use since the last call; 1.0 is one busy CPU.
    pub fn used_since_last(&mut self) -> Option<f64> {
        let (used, now) = (self.cpu_time()?, Instant::now());
        let (before, then) = self.last.replace((used, now))?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| used.saturating_sub(before) as f64 / 1e9 / seconds)
    }

    /// Whether the process maps a file of this name.
    pub fn maps(&self, name: &str) -> bool {
        let maps = Proc::default().read(self.process_id, "maps");
        maps.is_ok_and(|maps| maps.windows(name.len().max(1)).any(|window| window == name.as_bytes()))
    }

    /// Why the agent hung up.
    pub fn why_gone(&self, leaving: bool) -> String {
        if leaving {
            "the agent has left".into()
        } else if self.has_ended() {
            "the target ended during the recording".into()
        } else {
            "the agent ended although the target runs on: the target replaced itself by another program (exec), or the agent failed".into()
        }
    }

    /// Whether the profiled program has ended: the process exited, or `exec` replaced the program and its libraries.
    pub fn program_has_ended(&self, library: &str) -> bool {
        self.has_ended() || !self.maps(library)
    }

    /// Waits a moment for [`Target::program_has_ended`].
    pub(crate) fn program_ends_soon(&self, library: &str) -> bool {
        ends_soon(|| self.program_has_ended(library))
    }

    /// Whether the process has ended, or is about to.
    pub fn has_ended(&self) -> bool {
        self.stat().is_none_or(|stat| Some(stat.start_time) != self.start_time) || self.is_ending()
    }

    /// Whether it has ended or is about to: a process releases its memory before its descriptors, and only then becomes a zombie.
    fn is_ending(&self) -> bool {
        let empty = Proc::default().read(self.process_id, "maps").is_ok_and(|maps| maps.is_empty());
        empty || self.stat().is_some_and(|stat| stat.is_ending())
    }

    fn cpu_time(&self) -> Option<u64> {
        Some(self.stat()?.cpu_time * (1_000_000_000 / self.ticks_a_second.max(1)))
    }

    fn stat(&self) -> Option<Stat> {
        Proc::default().stat(self.process_id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_program_has_ended_when_its_process_has_or_when_it_was_replaced() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
        let target = Target::of(child.id());
        // A file that no process maps: like a library after its program ended.
        assert!(!target.has_ended() && target.program_has_ended("libremora_agent-no-such-file"));
        drop(child.stdin.take());
        while !target.is_ending() {
            std::thread::yield_now();
        }
        assert!(target.has_ended() && target.program_has_ended(""));
        child.wait().expect("collected");
        assert!(target.has_ended());
        assert_eq!(target.why_gone(false), "the target ended during the recording");
    }

    #[test]
    fn a_process_that_runs_and_has_the_library_has_not_ended() {
        let executable = std::env::current_exe().expect("this test");
        let name = executable.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(!Target::of(std::process::id()).program_has_ended(&name));
    }
}
