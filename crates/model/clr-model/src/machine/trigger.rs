//! A trigger process: it finds the runtimes of a target, chooses one, and attaches a profiler in its system's way.

use super::hosting_client::HostingClient;
use super::hosting_server::{HostingServer, NO_RUNTIME};
use super::{Machine, Process, diagnostics};
use crate::differences::{Release, RuntimeVersion};
use crate::mutation;
use crate::schedule;
use corprof::{Guid, HResult};
use remora_clr_abi::Live;
use std::fmt;
use std::sync::Arc;

/// The diagnostics protocol has 16 bits for the size of a message.
const fn fits(size: usize, largest: usize) -> bool {
    largest == 0 || size <= largest
}

/// The options of an attach (contract ATT-02). The target is a separate argument.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// The profiler's class.
    pub class: Guid,
    /// Its library, as the target sees it. Without a path, the registry is used, where there is one.
    pub path: Option<String>,
    /// The time-out, milliseconds.
    pub milliseconds: u32,
    /// The data for InitializeForAttach.
    pub client_data: Vec<u8>,
    /// The target's runtime by release. `None` is the first one that accepts an attach.
    pub release: Option<Release>,
    /// The trigger's own time-out, nanoseconds, for runtimes whose time-out does not end the wait.
    pub timeout: Option<u64>,
}

impl AttachOptions {
    /// A profiler by its class and library.
    pub fn of(class: Guid, path: &str) -> AttachOptions {
        AttachOptions {
            class,
            path: Some(path.to_owned()),
            milliseconds: 10_000,
            client_data: Vec::new(),
            release: None,
            timeout: None,
        }
    }
}

/// A runtime found in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeEntry {
    /// Its version, or its name if it has no version.
    pub what: String,
    /// Why no profiler can be attached to it, and the remedy.
    pub refusal: Option<&'static str>,
}

/// Why no profiler was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachError {
    /// The process does not exist.
    NoSuchProcess,
    /// The trigger's account lacks the right.
    AccessDenied,
    /// The process has not loaded a runtime. The prefix is that of the variables for a profiler at startup.
    NoRuntime {
        /// For example `COR` in `COR_PROFILER`.
        prefix: &'static str,
    },
    /// Its runtime does not accept an attach.
    NotAttachable(&'static str),
    /// The message exceeds the protocol's limit; nothing was sent.
    TooLarge {
        /// Its size, bytes.
        size: usize,
    },
    /// No answer before the trigger's own time-out. The attach may still succeed.
    GaveUp,
    /// The runtime's answer.
    Answered(HResult),
}

impl fmt::Display for AttachError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::NoSuchProcess => out.write_str("There is no such process: it may have ended. List the processes again."),
            AttachError::AccessDenied => out.write_str(
                "Access is denied, since the process belongs to somebody else or is trusted more. Run this as its user, or as an \
                 administrator with SE_DEBUG_NAME (root on Linux).",
            ),
            AttachError::NoRuntime { .. } if mutation::is("ATT-04/2") => {
                out.write_str("The process has not loaded a runtime yet.")
            }
            AttachError::NoRuntime { prefix } => write!(
                out,
                "The process has not loaded a runtime yet, so there is nothing to attach to. Try again later; to profile it from the \
                 start, start it with {prefix}_ENABLE_PROFILING=1, {prefix}_PROFILER and {prefix}_PROFILER_PATH."
            ),
            AttachError::NotAttachable(reason) => write!(out, "The runtime cannot be attached to: {reason}."),
            AttachError::TooLarge { size } => write!(
                out,
                "Nothing was sent, since the message would have {size} bytes, which is more than the runtime takes. Hand over less \
                 client data."
            ),
            AttachError::GaveUp => out.write_str(
                "The runtime has not answered in time. The attach may still succeed; look whether it has before trying again.",
            ),
            AttachError::Answered(code) => write!(out, "The runtime has refused the profiler: {code}."),
        }
    }
}

/// See the module documentation.
pub struct Trigger {
    machine: Arc<Machine>,
    process: Arc<Process>,
    live: Live,
}

impl Trigger {
    /// A trigger that runs as this process.
    pub fn new(machine: &Arc<Machine>, process: &Arc<Process>) -> Trigger {
        Trigger { machine: machine.clone(), process: process.clone(), live: Live::default() }
    }

    /// Unreleased objects of the hosting interfaces.
    pub fn objects(&self) -> usize {
        self.live.count()
    }

    /// The runtimes of a process, with those that accept an attach.
    pub fn list(&self, target: u32) -> Result<Vec<RuntimeEntry>, AttachError> {
        if self.is_on_desktop() {
            let found = self.hosting_client(target)?.runtimes(target as usize).map_err(AttachError::Answered)?;
            return Ok(found.iter().map(|one| RuntimeEntry { what: one.version(), refusal: one.refusal() }).collect());
        }
        let target = self.machine.process(target).ok_or(AttachError::NoSuchProcess)?;
        if !self.process.account.may_attach_to(&target.account, self.machine.runtime_version) {
            return Err(AttachError::AccessDenied);
        }
        let attaches = target.runtimes().into_iter();
        let attaches = attaches.map(|one| RuntimeEntry { what: one.version().to_string(), refusal: None });
        let others = target.others().into_iter();
        let others = others.map(|one| RuntimeEntry { what: one.name().to_owned(), refusal: Some(one.reason()) });
        Ok(attaches.chain(others.filter(|_| !mutation::is("ATT-03"))).collect())
    }

    /// Attaches a profiler, and waits for the answer.
    pub fn attach(&self, target: u32, options: &AttachOptions) -> Result<(), AttachError> {
        let size = diagnostics::message_size(options);
        if !fits(size, self.machine.runtime_version.differences().largest_message) && !mutation::is("ATT-11/2") {
            return Err(AttachError::TooLarge { size });
        }
        if self.is_on_desktop() {
            self.attach_through(target, target, options)
        } else {
            self.attach_by_socket(target, options)
        }
    }

    /// Attaches through the .NET Framework's hosting interfaces. The attach interface comes from another process than the target.
    pub fn attach_through(&self, found_in: u32, target: u32, options: &AttachOptions) -> Result<(), AttachError> {
        let prefix = self.machine.runtime_version.differences().startup_prefix;
        attach_with(&self.hosting_client(found_in)?, found_in as usize, target, options, prefix)
    }

    fn attach_by_socket(&self, target: u32, options: &AttachOptions) -> Result<(), AttachError> {
        let server = diagnostics::connect(&self.machine, &self.process, target)?;
        let (runtime, answer) = diagnostics::send(&server, options)?;
        let has_come = schedule::wait_until(options.timeout, || answer.get().is_some() || runtime.is_exiting());
        let code = answer.get();
        match code {
            Some(code) => code.ok().map_err(AttachError::Answered),
            None if has_come => Err(AttachError::Answered(HResult::CORPROF_E_IPC_FAILED)),
            None => Err(AttachError::GaveUp),
        }
    }

    fn hosting_client(&self, target: u32) -> Result<HostingClient, AttachError> {
        let server = HostingServer::new(&self.machine, &self.process);
        match server.open_process(target) {
            Err(HResult::E_ACCESSDENIED) => return Err(AttachError::AccessDenied),
            Err(_) => return Err(AttachError::NoSuchProcess),
            Ok(_) => {}
        }
        HostingClient::begin(Arc::new(server), &self.live).map_err(AttachError::Answered)
    }

    fn is_on_desktop(&self) -> bool {
        self.machine.runtime_version == RuntimeVersion::Desktop4
    }
}

/// Chooses a runtime of the process behind the handle, and attaches through its interfaces. `prefix` is that of the variables for a
/// profiler at startup.
pub(crate) fn attach_with(
    client: &HostingClient,
    handle: usize,
    target: u32,
    options: &AttachOptions,
    prefix: &'static str,
) -> Result<(), AttachError> {
    let found = client.runtimes(handle).map_err(AttachError::Answered)?;
    let is_wanted = |version: &str| match options.release {
        Some(release) => release.to_string() == version,
        None => passes_filter(version),
    };
    let (wanted, others): (Vec<_>, Vec<_>) = found.iter().partition(|one| is_wanted(&one.version()));
    let attaching = wanted.iter().find_map(|one| one.profiling().ok());
    let asked = wanted.iter().chain(others.iter().filter(|_| options.release.is_none()));
    let refusal = asked.filter_map(|one| one.refusal()).next().map(AttachError::NotAttachable);
    let attaching = attaching.ok_or(refusal.unwrap_or(AttachError::NoRuntime { prefix }))?;
    match attaching.attach(target, options) {
        NO_RUNTIME => Err(AttachError::NoRuntime { prefix }),
        HResult::E_ACCESSDENIED => Err(AttachError::AccessDenied),
        code => code.ok().map_err(AttachError::Answered),
    }
}

/// The filter of the documented sample (seed 001): `v`, then a digit from 4 on, or a major version of two digits.
fn passes_filter(version: &str) -> bool {
    let mut letters = version.chars();
    let (first, second, third) = (letters.next(), letters.next(), letters.next());
    let Some(digit) = second.filter(|_| matches!(first, Some('v' | 'V'))) else { return false };
    digit >= '4' || third != Some('.')
}

#[cfg(test)]
mod tests {
    use super::passes_filter;

    #[test]
    fn the_documented_filter_takes_version_4_and_later() {
        for (version, passes) in [
            ("v4.0.30319", true),
            ("V4.0.30319", true),
            ("v10.0.1", true),
            ("v2.0.50727", false),
            ("v1.1.4322", false),
            ("4.0.30319", false),
            ("v", false),
            ("", false),
        ] {
            assert_eq!(passes_filter(version), passes, "{version}");
        }
    }
}
