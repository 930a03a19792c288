//! Why a recording failed: codes, facts and remedies. `Display` states the cause; [`Error::remedies`] says what to do.

use crate::agent_error::words;
use crate::target::Target;
use remora_attach::{HResult, Remedy};
use remora_receipt::{Facts, ProfilerSlot};
use remora_wire::{AgentError, AgentErrorCode};
use rustix::io::Errno;
use std::io;

/// Why a recording failed.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Error {
    /// The target refused the attach, or could not be asked.
    #[error(transparent)]
    Attach(#[from] remora_attach::Error),
    /// The runtime has no free slot for a notification-only profiler. For a main profiler the same code means something else:
    /// `CORPROF_E_PROFILER_ALREADY_ACTIVE` (vm/profilinghelper.cpp, LoadProfiler; `MAX_NOTIFICATION_PROFILERS`, vm/profilepriv.h).
    #[strum(serialize = "profiler-slot-taken")]
    #[error(
        "the runtime refused: all of its 32 places for notification-only profilers are taken (CORPROF_E_PROFILER_ALREADY_ACTIVE, \
         0x8013136a)"
    )]
    NoPlaceLeft,
    /// No memory for the ring.
    #[strum(serialize = "shared-memory-failed")]
    #[error("the shared memory for samples could not be made: {0}")]
    SharedMemory(#[source] io::Error),
    /// The channel to the agent failed.
    #[strum(serialize = "agent-connection-lost")]
    #[error("the connection to the agent in the target failed: {0}")]
    Channel(#[source] io::Error),
    /// The runtime accepted the attach, but the agent never connected.
    #[strum(serialize = "agent-not-connected")]
    #[error(
        "the runtime accepted the agent, but it did not connect within {0} seconds: the target may be stopped or starved"
    )]
    NoHello(u64),
    /// Another process connected.
    #[strum(serialize = "wrong-peer")]
    #[error(
        "another process connected in place of the agent ({}), and nothing was recorded",
        .0.map_or_else(|| "unknown".to_owned(), |id| format!("process {id}"))
    )]
    Stranger(Option<u32>),
    /// The agent cannot work in this process.
    #[error("the agent cannot record in this process: {0}")]
    AgentRefused(String),
    /// The system gives the process no memory, most likely because of its address space limit. The agent wants up to 64 MiB of address
    /// space, and never touches most of it.
    #[error("the agent was given no memory in this process: {0} (it needs 64 MiB of address space)")]
    NoMemory(String),
    /// The agent stays in the process, inert.
    #[strum(serialize = "agent-inert")]
    #[error("the agent is loaded but must stay inert: {0}")]
    Inert(String),
    /// After a main profiler, the attach to correct the count failed.
    #[strum(serialize = "profiler-count-wrong")]
    #[error("the runtime's count of profilers could not be corrected: {0}")]
    Count(String),
    /// A placeholder corrected the count by one, but the check of the result failed.
    #[strum(serialize = "profiler-count-unknown")]
    #[error("whether the runtime counts its profilers correctly could not be seen: {0}")]
    CountUnseen(String),
    /// The environment names both a main and a notification-only profiler, and a process loads no third one at its start.
    #[error("the environment already has the runtime load other profilers at its start, main and notification-only")]
    StartupSlotsTaken,
    /// The environment names a main profiler, and only a main profiler can trace.
    #[error(
        "the environment already has the runtime load a main profiler at its start, and only that one may have hooks"
    )]
    MainSlotTaken,
    /// The environment is that of a command which another recorder has started.
    #[error("another `remora` has started this one, and has the runtime load its own agent")]
    AnotherRecorder,
    /// The target ended during the attach.
    #[strum(serialize = "process-ended")]
    #[error("the target ended while the agent was attaching")]
    TargetEnded,
}

/// A failed attach.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotAttached {
    /// Why it failed.
    pub error: Error,
    /// What may nevertheless be in the target, for the receipt; `None` if the runtime was not asked.
    pub facts: Option<Box<Facts>>,
}

impl Error {
    /// A stable name, in kebab case.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Attach(error) => error.code(),
            other => other.into(),
        }
    }

    /// Alternative remedies: any of them helps.
    pub fn remedies(&self) -> Vec<Remedy> {
        match self {
            Error::Attach(error) => error.remedies(),
            Error::NoPlaceLeft => vec![Remedy::DetachOthers, Remedy::Restart, Remedy::UseEventPipe],
            // The limit of file sizes holds for memfds, too.
            Error::SharedMemory(error) if error.kind() == io::ErrorKind::FileTooLarge => vec![Remedy::RaiseOwnFileSize],
            Error::SharedMemory(_) => vec![Remedy::FreeMemory, Remedy::UseEventPipe],
            // The runtime's own sampler needs as much, and a runtime that gets no memory for it can crash or hang.
            Error::NoMemory(_) => vec![Remedy::FreeMemory],
            Error::Channel(_) | Error::NoHello(_) | Error::TargetEnded => vec![Remedy::LookAtTarget],
            Error::Stranger(_) => vec![Remedy::GiveOwnTmpdir],
            Error::AgentRefused(_) => vec![Remedy::UseEventPipe],
            Error::Inert(_) => vec![Remedy::RepeatCommand, Remedy::UseEventPipe],
            Error::StartupSlotsTaken => vec![Remedy::FreeStartupSlot],
            Error::MainSlotTaken => vec![Remedy::FreeMainSlot],
            Error::AnotherRecorder => vec![Remedy::LeaveOneRecorderOut],
            Error::Count(_) | Error::CountUnseen(_) => vec![Remedy::AttachOnceMore],
        }
    }

    /// Whether the runtime had no free slot. Then no profiler was loaded, and none detaches (vm/profilinghelper.cpp, LoadProfiler).
    pub(crate) fn is_refused_for_want_of_a_place(&self) -> bool {
        matches!(self, Error::Attach(remora_attach::Error::RuntimeRefused(HResult::PROFILER_ALREADY_ACTIVE)))
    }

    /// The agent has failed at its start.
    pub(crate) fn of_the_agent(error: AgentError) -> Error {
        let is_system = matches!(error.code, AgentErrorCode::System | AgentErrorCode::SharedMemory);
        match is_system && error.number == Errno::NOMEM.raw_os_error() as u64 {
            true => Error::NoMemory(words(error)),
            false => Error::AgentRefused(words(error)),
        }
    }

    /// [`Error::TargetEnded`] if the target has ended: that explains any other error.
    pub(crate) fn or_the_end_of(self, target: &Target) -> Error {
        if target.has_ended() { Error::TargetEnded } else { self }
    }

    /// What a refusal means for a profiler of this slot.
    pub(crate) fn in_place_of(self, slot: ProfilerSlot) -> Error {
        let is_beside = slot == ProfilerSlot::NotificationOnly;
        if is_beside && self.is_refused_for_want_of_a_place() { Error::NoPlaceLeft } else { self }
    }
}

impl<E: Into<Error>> From<E> for NotAttached {
    fn from(error: E) -> NotAttached {
        NotAttached { error: error.into(), facts: None }
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Error {
        Error::SharedMemory(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn each_error_has_a_remedy_and_its_message_none() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let own = [
            Error::NoPlaceLeft,
            Error::SharedMemory(broken()),
            Error::Channel(broken()),
            Error::NoHello(5),
            Error::Stranger(Some(42)),
            Error::Stranger(None),
            Error::AgentRefused("no signal is free".into()),
            Error::of_the_agent(AgentError::system(12)),
            Error::Inert("another profiler has left".into()),
            Error::Count("it ends".into()),
            Error::CountUnseen("it ends".into()),
            Error::TargetEnded,
        ];
        for error in own {
            let text = error.to_string();
            assert!(!error.remedies().is_empty() && !text.contains("; "), "{text}");
            assert!(!text.contains("Some(") && !text.contains("None"), "{text}");
        }
    }

    #[test]
    fn who_is_refused_for_want_of_a_place_has_not_come_and_another_messages_advice_is_left_out() {
        let refused = |code| Error::from(remora_attach::Error::RuntimeRefused(HResult(code)));
        assert!(refused(0x8013_136A).is_refused_for_want_of_a_place());
        assert!(
            !refused(0x8000_4005).is_refused_for_want_of_a_place()
                && !Error::TargetEnded.is_refused_for_want_of_a_place()
        );
        let unseen = Error::CountUnseen(Error::NoPlaceLeft.to_string()).to_string();
        assert!(unseen.contains("32 places"), "{unseen}");
    }

    #[test]
    fn no_memory_is_distinguished_from_other_refusals() {
        for code in [AgentErrorCode::System, AgentErrorCode::SharedMemory] {
            assert!(matches!(Error::of_the_agent(code.with(12)), Error::NoMemory(_)), "{code:?}");
            assert!(matches!(Error::of_the_agent(code.with(11)), Error::AgentRefused(_)), "{code:?}");
        }
        assert!(matches!(Error::of_the_agent(AgentErrorCode::SignalTaken.with(12)), Error::AgentRefused(_)));
    }

    #[test]
    fn what_goes_wrong_with_a_target_that_has_ended_is_its_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
        let target = Target::of(child.id());
        assert!(matches!(Error::NoHello(5).or_the_end_of(&target), Error::NoHello(5)));
        drop(child.stdin.take());
        child.wait().expect("collected");
        for error in [Error::NoHello(5), Error::Inert(String::new()), Error::Channel(io::ErrorKind::BrokenPipe.into())]
        {
            assert!(matches!(error.or_the_end_of(&target), Error::TargetEnded));
        }
    }

    #[test]
    fn no_place_for_one_that_is_only_notified_is_nobody_elses_main_place() {
        let refused = || Error::from(remora_attach::Error::RuntimeRefused(HResult::PROFILER_ALREADY_ACTIVE));
        let text = refused().in_place_of(ProfilerSlot::NotificationOnly).to_string();
        assert!(text.contains("32 places") && !text.contains("main profiler"), "{text}");
        let text = refused().in_place_of(ProfilerSlot::Main).to_string();
        assert!(text.contains("main profiler"), "{text}");
        let other = Error::TargetEnded.in_place_of(ProfilerSlot::NotificationOnly);
        assert!(matches!(other, Error::TargetEnded));
    }
}
