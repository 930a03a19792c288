//! An agent that the runtime loads at its start, by environment variables of the process.
//!
//! Initialize of the agent waits until this process has read the target and the agent samples. So the recording has the first managed code.

use crate::attach::{Asking, Prepared, Started, hear, monotonic, slot, welcome};
use crate::attached_agent::AttachedAgent;
use crate::control::Control;
use crate::target::Target;
use crate::{Error, NotAttached};
use remora_attach::Process;
use remora_wire::{CLSID_NOTIFICATION, STARTUP_VARIABLE, StartupOrder, Task, class_text};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Any of them set to 1 makes the runtime load a main profiler.
const SWITCHES: [&str; 2] = ["CORECLR_ENABLE_PROFILING", "DOTNET_ENABLE_PROFILING"];
/// The variables of a main profiler. The path for a word size comes before the one for all.
const MAIN: [&str; 3] = [SWITCHES[0], "CORECLR_PROFILER", "CORECLR_PROFILER_PATH_64"];
/// The notification-only profilers of .NET 6 and later, beside a main one; and what makes the runtime read that (inc/clrconfignames.h).
const BESIDE: &str = "CORECLR_NOTIFICATION_PROFILERS";
const BESIDE_SWITCH: &str = "CORECLR_ENABLE_NOTIFICATION_PROFILERS";

/// Everything that waits for an agent.
pub struct Startup {
    prepared: Prepared,
    variables: Vec<(&'static str, OsString)>,
    agent: Option<Control>,
}

impl Startup {
    /// Places library and socket for a command that this process will start. `known` are the variables that the command gets otherwise.
    pub(crate) fn prepare(
        ourselves: &Process,
        library: &[u8],
        task: Task,
        known: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Startup, Error> {
        let is_free = |name: &str| known(name).is_none_or(|value| value.is_empty());
        let is_on = |name: &&str| known(name).is_some_and(|value| value == "1");
        let beside = SWITCHES.iter().any(is_on);
        if beside && !is_free(BESIDE) {
            return Err(Error::StartupSlotsTaken);
        }
        let prepared = Prepared::of(ourselves, library, task)?;
        let class = class_text(CLSID_NOTIFICATION);
        let path = prepared.library.target_path.to_string();
        let mut variables: Vec<(&str, OsString)> = match beside {
            // .NET 9 and later read an entry of the list up to its semicolon only (vm/profilinghelper.cpp, AttemptLoadProfilerList).
            true => vec![(BESIDE, format!("{path}={class};").into()), (BESIDE_SWITCH, "1".into())],
            false => MAIN.into_iter().zip(["1".into(), class.into(), path.into()]).collect(),
        };
        let own_variables = variables.iter().map(|(name, _)| (*name).to_owned()).collect();
        let order = StartupOrder { config: prepared.config.encode(), own_variables };
        variables.push((STARTUP_VARIABLE, order.encode().into()));
        Ok(Startup { prepared, variables, agent: None })
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
        self.agent = Some(control);
        peer.map(Some).ok_or(Error::Stranger(None))
    }

    /// Lets the agent begin.
    pub(crate) fn begin(
        self,
        process: &Process,
        table: Option<&OwnedFd>,
    ) -> Result<(AttachedAgent, Started), NotAttached> {
        let Startup { prepared, agent, .. } = self;
        let asked = Asking { slot: slot(process, prepared.config.task), monotonic: monotonic(), at: Instant::now() };
        let arrived = agent.ok_or(Error::TargetEnded).and_then(|mut agent| {
            welcome(&mut agent, &prepared.memory, table)?;
            Ok(agent)
        });
        prepared.settle(process, Target::of(process.pid), asked, arrived)
    }
}
