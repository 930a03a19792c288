//! What of the target is watched from outside while it is recorded: processor time, mappings, whether it is still there.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// The watched process.
pub struct Target {
    directory: PathBuf,
    ticks_a_second: u64,
    begun: Option<u64>,
    last: Option<(u64, Instant)>,
    start_time: Option<u64>,
}

impl Target {
    /// The process with this id, as it is now.
    pub fn of(process_id: u32) -> Target {
        let mut target = Target {
            directory: PathBuf::from(format!("/proc/{process_id}")),
            ticks_a_second: rustix::param::clock_ticks_per_second(),
            begun: None,
            last: None,
            start_time: None,
        };
        target.begun = target.processor_time();
        target.start_time = target.stat(START_TIME);
        target
    }

    /// Processor time used since the watch began, nanoseconds.
    pub fn used(&self) -> Option<u64> {
        Some(self.processor_time()?.saturating_sub(self.begun?))
    }

    /// Processors in use since the last question: 1.0 is one of them busy.
    pub fn used_since_last(&mut self) -> Option<f64> {
        let (used, now) = (self.processor_time()?, Instant::now());
        let (before, then) = self.last.replace((used, now))?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| used.saturating_sub(before) as f64 / 1e9 / seconds)
    }

    /// Whether a file of this name is mapped.
    pub fn maps(&self, name: &str) -> bool {
        fs::read(self.directory.join("maps"))
            .is_ok_and(|maps| maps.windows(name.len().max(1)).any(|window| window == name.as_bytes()))
    }

    /// Why the agent hung up.
    pub fn why_gone(&self, leaving: bool) -> String {
        let same = self.stat(START_TIME).is_some_and(|time| Some(time) == self.start_time) && !self.is_ending();
        if leaving {
            "the agent has left".into()
        } else if same {
            "the agent ended although the target runs on: the target replaced itself by another program (exec), or the agent failed".into()
        } else {
            "the target ended during the recording".into()
        }
    }

    /// Whether it has ended, or is about to: a process gives up its memory before its descriptors, and only then becomes a zombie.
    fn is_ending(&self) -> bool {
        let empty = fs::read(self.directory.join("maps")).is_ok_and(|maps| maps.is_empty());
        empty || self.fields().is_some_and(|fields| matches!(fields.first().map(String::as_str), Some("Z" | "X")))
    }

    fn processor_time(&self) -> Option<u64> {
        let ticks = self.stat(USER_TIME)? + self.stat(SYSTEM_TIME)?;
        Some(ticks * (1_000_000_000 / self.ticks_a_second.max(1)))
    }

    fn stat(&self, field: usize) -> Option<u64> {
        self.fields()?.get(field)?.parse().ok()
    }

    /// The fields of `stat` from the state (field 3) on; the name before it may hold anything.
    fn fields(&self) -> Option<Vec<String>> {
        let stat = fs::read_to_string(self.directory.join("stat")).ok()?;
        Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
    }
}

/// Field 14 of `/proc/PID/stat`, counted from the state.
const USER_TIME: usize = 11;
/// Field 15.
const SYSTEM_TIME: usize = 12;
/// Field 22.
const START_TIME: usize = 19;
