//! The agent's errors in words.

use remora_attach::HResult;
use remora_wire::{AgentError, AgentErrorCode};
use std::io;

/// The kinds of resources, in the order of the agent's resource registry.
const RESOURCES: [&str; 5] = ["thread", "timer", "signal handler", "EventPipe session", "child process"];

/// What happened in the agent. No line of it comes from the target: it sends codes and numbers.
pub(crate) fn words(error: AgentError) -> String {
    use AgentErrorCode as Code;
    let AgentError { code, number } = error;
    let system = || io::Error::from_raw_os_error(number as i32);
    let hresult = || HResult(number as u32);
    match code {
        Code::System => system().to_string(),
        Code::Panicked => "the agent panicked, stops and detaches".into(),
        Code::CallbackPanicked => "a callback of the agent panicked".into(),
        Code::SharedMemory => format!("the shared memory is not usable: {}", system()),
        Code::SharedMemoryVersion => "the shared memory is of another version".into(),
        Code::NoFreeSignal => "SIGURG and every real-time signal are already used by the application".into(),
        Code::SignalTaken => format!("another component has taken over signal {number} from Remora"),
        Code::HandlerRuns => format!("a thread has not returned from Remora's handler of signal {number}"),
        Code::GcRefused => format!("the runtime refused the GC: {}", hresult()),
        Code::SuspensionRefused => {
            format!(
                "the runtime refused to show its objects without a GC, which .NET 9 and later can do: {}",
                hresult()
            )
        }
        Code::GcNotReported => "the runtime did not report its GC".into(),
        Code::ModulesRefused => format!("the runtime does not enumerate its modules: {}", hresult()),
        Code::ForkRefused => format!("the process could not be copied: {}", system()),
        Code::CopyHung => "the forked copy of the process made no progress for 30 s and was ended".into(),
        Code::NotWanted => "the snapshot was given up before its GC".into(),
        Code::TooMuchAllocated => {
            "the application allocates too much between two GCs for the runtime to count it in time".into()
        }
        Code::GcMonitorRefused => format!("the runtime refused to report its GCs: {}", hresult()),
        Code::TrackingTooExpensive => {
            "the watch ended before a GC: the runtime would have counted new objects by type for a second or more"
                .into()
        }
        Code::NoCallbacks => "another profiler came or went, and the runtime no longer calls this one: \
                              its detach would crash the process, so the library stays mapped and does nothing"
            .into(),
        Code::ProcessEnds => "the process is ending".into(),
        Code::Placeholder => "it stays so that the runtime counts its profilers right".into(),
        Code::ResourceHeld => {
            let kind = usize::try_from(number).ok().and_then(|kind| RESOURCES.get(kind));
            format!("a resource of the agent is still in use: {}", kind.unwrap_or(&"unknown"))
        }
        Code::NotClosedAfterPanic => "the agent panicked and could not close every resource".into(),
        Code::HooksRefused => format!("the runtime refused the hooks for entries and exits of methods: {}", hresult()),
        Code::NotSupported => "the library was not built for this task".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_words_of_its_own_and_unknown_numbers_do_no_harm() {
        let all: std::collections::BTreeSet<String> =
            AgentErrorCode::ALL.iter().map(|code| words(code.with(u64::MAX))).collect();
        assert_eq!(all.len(), AgentErrorCode::ALL.len());
        assert!(all.iter().all(|text| !text.is_empty() && !text.contains(char::is_control)), "{all:?}");
    }
}
