//! An agent that the runtime loads at its start, by environment variables of the process.
//!
//! Initialize of the agent waits until this process has read the target and the agent samples. So the recording has the first managed code.

use crate::attach::{Asking, Prepared, Started, hear, monotonic, slot, welcome};
use crate::attached_agent::AttachedAgent;
use crate::control::Control;
use crate::shared_memory::SharedMemory;
use crate::target::Target;
use crate::tracing::Tracing;
use crate::{Error, NotAttached};
use remora_attach::{Placed, Process, sweep_unused};
use remora_wire::{CLSID_NOTIFICATION, CLSID_TRACER, STARTUP_LIMIT, STARTUP_VARIABLE, StartupOrder, Task, class_text};
use rustix::net::{Shutdown, shutdown};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The variables of a main profiler. The path for a word size comes before the one for all.
const MAIN: [&str; 3] = ["CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH_64"];
/// The notification-only profilers of .NET 6 and later, beside a main one; and what makes the runtime read that (inc/clrconfignames.h).
const BESIDE: &str = "CORECLR_NOTIFICATION_PROFILERS";
const BESIDE_SWITCH: &str = "CORECLR_ENABLE_NOTIFICATION_PROFILERS";

/// Whether the runtime takes the value as other than 0: it reads a hexadecimal number (experiment: `1`, `01`, `0x1` and `2` load a profiler,
/// `0` and `true` do not).
fn is_on(value: &OsStr) -> bool {
    let text = value.to_string_lossy();
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).is_ok_and(|number| number != 0)
}

/// Everything that waits for an agent.
pub struct Startup {
    prepared: Prepared,
    variables: Vec<(&'static str, OsString)>,
    agent: Option<Control>,
    /// When the agent connected. Its process waits since then.
    heard: Instant,
}

impl Startup {
    /// Places library and socket for a command that this process will start. `known` are the variables that the command gets otherwise, `more`
    /// those that only the runtime's start needs.
    pub(crate) fn prepare(
        ourselves: &Process,
        library: &[u8],
        task: Task,
        more: &[(&'static str, &str)],
        known: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Startup, Error> {
        let known = |name: &str| known(name).filter(|value| !value.is_empty());
        let is_tracer = matches!(task, Task::Tracing { .. });
        let class = class_text(if is_tracer { CLSID_TRACER } else { CLSID_NOTIFICATION });
        let beside = known(MAIN[0]).is_some_and(|value| is_on(&value));
        if known(STARTUP_VARIABLE).is_some() {
            return Err(Error::AnotherRecorder);
        }
        // Only a main profiler may have hooks, and there is one.
        if beside && is_tracer {
            return Err(Error::MainSlotTaken);
        }
        if beside && known(BESIDE).is_some() {
            return Err(Error::StartupSlotsTaken);
        }
        // A recorder that was killed before its command had a runtime left its files. What cannot be removed now is for `remora detach`.
        let _ = sweep_unused(ourselves);
        let prepared = Prepared::of(ourselves, library, task)?;
        let path = prepared.library.target_path.to_string();
        if beside && path.contains([';', '=']) {
            let tried = format!("{path}: the runtime reads `;` and `=` in a list of profilers as separators");
            return Err(remora_attach::Error::NoLibraryPlace { tried }.into());
        }
        let mut variables: Vec<(&str, OsString)> = match beside {
            // .NET 9 and later read an entry of the list up to its semicolon only (vm/profilinghelper.cpp, AttemptLoadProfilerList).
            true => vec![(BESIDE, format!("{path}={class};").into()), (BESIDE_SWITCH, "1".into())],
            false => MAIN.into_iter().zip(["1".into(), class.into(), path.into()]).collect(),
        };
        variables.extend(more.iter().map(|(name, value)| (*name, OsString::from(value))));
        let before = |name: &str| known(name).and_then(|value| value.into_string().ok());
        let own_variables = variables.iter().map(|(name, _)| ((*name).to_owned(), before(name))).collect();
        let order = StartupOrder { config: prepared.config.encode(), own_variables };
        variables.push((STARTUP_VARIABLE, order.encode().into()));
        Ok(Startup { prepared, variables, agent: None, heard: Instant::now() })
    }

    /// The variables for the command.
    pub fn variables(&self) -> &[(&'static str, OsString)] {
        &self.variables
    }

    /// Waits for the agent, at most `timeout`. Returns the id of its process, which waits for [`crate::Session::begin`].
    ///
    /// # Errors
    /// [`Error::Stranger`] for any other peer.
    pub fn process(&mut self, timeout: Duration) -> Result<Option<u32>, Error> {
        let Some(mut control) = Control::accept(&self.prepared.listener, Instant::now() + timeout)? else {
            return Ok(None);
        };
        let peer = hear(&mut control, &self.prepared.config)?;
        (self.agent, self.heard) = (Some(control), Instant::now());
        // The agent of another process must not wait for an answer. If this fails, it waits until the socket is closed.
        let _ = shutdown(&self.prepared.listener, Shutdown::Both);
        peer.map(Some).ok_or(Error::Stranger(None))
    }

    /// The library's file, for other processes that the command starts with the same variables: the agent sets them back there. Dropping
    /// it deletes the file.
    pub fn split_library(&mut self) -> Placed {
        self.prepared.library.split_file()
    }

    /// Lets the tracer begin.
    ///
    /// # Errors
    /// [`Error::AgentRefused`]: the runtime refused the hooks. The program runs without them.
    pub fn begin_tracing(self, process: &Process) -> Result<Tracing, Error> {
        let mut agent = self.agent.ok_or(Error::TargetEnded)?;
        Tracing::begin(self.prepared, process, &mut agent)
    }

    /// The memory, to be filled with orders.
    pub(crate) fn memory(&self) -> &SharedMemory {
        &self.prepared.memory
    }

    /// Lets the agent begin.
    pub(crate) fn begin(
        self,
        process: &Process,
        table: Option<&OwnedFd>,
    ) -> Result<(AttachedAgent, Started), NotAttached> {
        let Startup { prepared, agent, heard, .. } = self;
        let asked = Asking { slot: slot(process, prepared.config.task), monotonic: monotonic(), at: Instant::now() };
        let arrived = agent.ok_or(Error::TargetEnded).and_then(|mut agent| {
            welcome(&mut agent, &prepared.memory, table)?;
            Ok(agent)
        });
        let (agent, mut began) = prepared.settle(process, Target::of(process.pid), asked, arrived)?;
        let waited = heard.elapsed();
        began.missed = waited.checked_sub(STARTUP_LIMIT);
        Ok((agent, began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_as_the_runtime_reads_it() {
        for value in ["1", "01", "0x1", "2", "10", " 1"] {
            assert!(is_on(OsStr::new(value)), "{value}");
        }
        for value in ["", "0", "00", "true", "x"] {
            assert!(!is_on(OsStr::new(value)), "{value}");
        }
    }
}
