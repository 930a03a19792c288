//! A trigger process: finds the runtimes of a target, chooses one, and has a profiler attached, by the road that its system has.

use super::desktop::{NO_RUNTIME, Road};
use super::walk::Walk;
use super::{Machine, Process, diagnostics};
use crate::differences::{Personality, Release};
use crate::mutation;
use crate::schedule;
use corprof::{Guid, HResult};
use remora_clr_sim_abi::Live;
use std::fmt;
use std::sync::Arc;

/// The largest message of the diagnostics protocol is told by 16 bits.
const fn fits(size: usize, largest: usize) -> bool {
    largest == 0 || size <= largest
}

/// What it wants (contract ATT-02). The target is named beside it.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The profiler's class.
    pub class: Guid,
    /// Its library, as the target sees it; without one, the registry says, where there is one.
    pub path: Option<String>,
    /// The time-out, milliseconds.
    pub milliseconds: u32,
    /// Handed to InitializeForAttach.
    pub client_data: Vec<u8>,
    /// Which of the target's runtimes; the first that attaches if it says nothing.
    pub release: Option<Release>,
    /// The trigger's own time-out, nanoseconds: how long it waits where the runtime's does not end the wait.
    pub patience: Option<u64>,
}

impl Wish {
    /// A profiler by its class and library.
    pub fn of(class: Guid, path: &str) -> Wish {
        Wish {
            class,
            path: Some(path.to_owned()),
            milliseconds: 10_000,
            client_data: Vec::new(),
            release: None,
            patience: None,
        }
    }
}

/// A runtime that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its version, or its name where it has none to tell.
    pub what: String,
    /// Why it cannot be attached to, and what to do.
    pub refusal: Option<&'static str>,
}

/// Why no profiler was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such process.
    NoSuchProcess,
    /// The trigger's account may not.
    AccessDenied,
    /// The process has not loaded a runtime; what the variables begin with that profile it from the start.
    NoRuntime {
        /// As `COR` of `COR_PROFILER`.
        prefix: &'static str,
    },
    /// It has one that cannot be attached to.
    NotAttachable(&'static str),
    /// The message would be larger than the protocol allows; nothing was sent.
    TooLarge {
        /// What it would have, bytes.
        size: usize,
    },
    /// Nothing came before the trigger's own time-out. The attach may still succeed.
    GaveUp,
    /// The runtime's own answer.
    Answered(HResult),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoSuchProcess => out.write_str("There is no such process: it may have ended. List the processes again."),
            Refused::AccessDenied => out.write_str(
                "Access is denied, since the process belongs to somebody else or is trusted more. Run this as its user, or as an \
                 administrator with SE_DEBUG_NAME (root on Linux).",
            ),
            Refused::NoRuntime { .. } if mutation::is("ATT-04/2") => {
                out.write_str("The process has not loaded a runtime yet.")
            }
            Refused::NoRuntime { prefix } => write!(
                out,
                "The process has not loaded a runtime yet, so there is nothing to attach to. Try again later; to profile it from the \
                 start, start it with {prefix}_ENABLE_PROFILING=1, {prefix}_PROFILER and {prefix}_PROFILER_PATH."
            ),
            Refused::NotAttachable(reason) => write!(out, "The runtime cannot be attached to: {reason}."),
            Refused::TooLarge { size } => write!(
                out,
                "Nothing was sent, since the message would have {size} bytes, which is more than the runtime takes. Hand over less \
                 client data."
            ),
            Refused::GaveUp => out.write_str(
                "The runtime has not answered in time. The attach may still succeed; look whether it has before trying again.",
            ),
            Refused::Answered(code) => write!(out, "The runtime has refused the profiler: {code}."),
        }
    }
}

/// See the module's text.
pub struct Trigger {
    machine: Arc<Machine>,
    process: Arc<Process>,
    live: Live,
}

impl Trigger {
    /// One that runs as a process.
    pub fn new(machine: &Arc<Machine>, process: &Arc<Process>) -> Trigger {
        Trigger { machine: machine.clone(), process: process.clone(), live: Live::default() }
    }

    /// Objects of the hosting interfaces that it has not released.
    pub fn objects(&self) -> usize {
        self.live.count()
    }

    /// The runtimes of a process, and which of them attach.
    pub fn list(&self, target: u32) -> Result<Vec<Listed>, Refused> {
        if self.is_on_desktop() {
            let found = self.walk(target)?.runtimes(target as usize).map_err(Refused::Answered)?;
            return Ok(found.iter().map(|one| Listed { what: one.version(), refusal: one.refusal() }).collect());
        }
        let target = self.machine.process(target).ok_or(Refused::NoSuchProcess)?;
        if !self.process.account.may_attach_to(&target.account, self.machine.personality) {
            return Err(Refused::AccessDenied);
        }
        let attaches = target.runtimes().into_iter();
        let attaches = attaches.map(|one| Listed { what: one.version().to_string(), refusal: None });
        let others = target.others().into_iter();
        let others = others.map(|one| Listed { what: one.name().to_owned(), refusal: Some(one.reason()) });
        Ok(attaches.chain(others.filter(|_| !mutation::is("ATT-03"))).collect())
    }

    /// Has a profiler attached, and waits for the answer.
    pub fn attach(&self, target: u32, wish: &Wish) -> Result<(), Refused> {
        let size = diagnostics::message_size(wish);
        if !fits(size, self.machine.personality.differences().largest_message) && !mutation::is("ATT-11/2") {
            return Err(Refused::TooLarge { size });
        }
        if self.is_on_desktop() {
            self.attach_through(target, target, wish)
        } else {
            self.attach_by_socket(target, wish)
        }
    }

    /// The desktop's road, where what attaches was found in another process than the one that is to be attached to.
    pub fn attach_through(&self, found_in: u32, target: u32, wish: &Wish) -> Result<(), Refused> {
        let found = self.walk(found_in)?.runtimes(found_in as usize).map_err(Refused::Answered)?;
        let prefix = self.machine.personality.differences().startup_prefix;
        let is_wanted = |version: &str| wish.release.is_none_or(|release| release.to_string() == version);
        let wanted: Vec<_> = found.iter().filter(|one| is_wanted(&one.version())).collect();
        let attaching = wanted.iter().find_map(|one| one.profiling().ok());
        let refusal = wanted.iter().find_map(|one| one.refusal()).map(Refused::NotAttachable);
        let attaching = attaching.ok_or(refusal.unwrap_or(Refused::NoRuntime { prefix }))?;
        match attaching.attach(target, wish) {
            NO_RUNTIME => Err(Refused::NoRuntime { prefix }),
            HResult::E_ACCESSDENIED => Err(Refused::AccessDenied),
            code => code.ok().map_err(Refused::Answered),
        }
    }

    fn attach_by_socket(&self, target: u32, wish: &Wish) -> Result<(), Refused> {
        let server = diagnostics::connect(&self.machine, &self.process, target)?;
        let (runtime, answer) = diagnostics::send(&server, wish)?;
        let has_come = schedule::wait_until(wish.patience, || answer.get().is_some() || runtime.is_exiting());
        let code = answer.get();
        match code {
            Some(code) => code.ok().map_err(Refused::Answered),
            None if has_come => Err(Refused::Answered(HResult::CORPROF_E_IPC_FAILED)),
            None => Err(Refused::GaveUp),
        }
    }

    fn walk(&self, target: u32) -> Result<Walk, Refused> {
        let road = Road::new(&self.machine, &self.process);
        match road.open_process(target) {
            Err(HResult::E_ACCESSDENIED) => return Err(Refused::AccessDenied),
            Err(_) => return Err(Refused::NoSuchProcess),
            Ok(_) => {}
        }
        Walk::begin(road, &self.live).map_err(Refused::Answered)
    }

    fn is_on_desktop(&self) -> bool {
        self.machine.personality == Personality::Desktop4
    }
}
