//! Errors of the agent, as codes and numbers. The recorder has the words.

use crate::bytes::{Malformed, Reader, Writer};

/// Why the agent failed, or why it stays in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentError {
    /// What happened.
    pub code: AgentErrorCode,
    /// The number that belongs to the code, 0 without one.
    pub number: u64,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:literal,)+) => {
        /// What happened in the agent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum AgentErrorCode { $($(#[doc = $doc])+ $name = $value,)+ }

        impl AgentErrorCode {
            /// All codes.
            pub const ALL: &[AgentErrorCode] = &[$(AgentErrorCode::$name,)+];
        }
    };
}

codes! {
    /// A system call failed. Number: errno.
    System = 1,
    /// The agent panicked.
    Panicked = 2,
    /// A callback of the agent panicked.
    CallbackPanicked = 3,
    /// The shared memory cannot be mapped. Number: errno.
    SharedMemory = 4,
    /// The shared memory has another version.
    SharedMemoryVersion = 5,
    /// SIGURG and every real-time signal are in use.
    NoFreeSignal = 6,
    /// Another component handles the agent's signal now. Number: the signal.
    SignalTaken = 7,
    /// A thread has not returned from the agent's handler. Number: the signal.
    HandlerRuns = 8,
    /// The runtime refused the GC of a heap snapshot. Number: HRESULT.
    GcRefused = 9,
    /// The runtime refused to suspend and show its objects without a GC. Number: HRESULT.
    SuspensionRefused = 10,
    /// The runtime did not report the GC that it was asked for.
    GcNotReported = 11,
    /// The runtime does not enumerate its modules. Number: HRESULT.
    ModulesRefused = 12,
    /// The process cannot be copied. Number: errno.
    ForkRefused = 13,
    /// The forked copy made no progress and was ended.
    CopyHung = 14,
    /// The snapshot was given up before its GC.
    NotWanted = 15,
    /// The application allocates too much between two GCs for MONITOR_GC: the runtime would count it for too long.
    TooMuchAllocated = 16,
    /// The runtime refused MONITOR_GC. Number: HRESULT.
    GcMonitorRefused = 17,
    /// Heap tracking ended: the runtime would have counted allocations for too long.
    TrackingTooExpensive = 18,
    /// The runtime no longer calls this profiler; its detach would crash the process.
    NoCallbacks = 19,
    /// The process is ending.
    ProcessEnds = 20,
    /// A placeholder profiler, which stays on purpose.
    Placeholder = 21,
    /// A resource is still held. Number: its kind, in the order of the agent's resource registry.
    ResourceHeld = 22,
    /// The agent panicked and could not close every resource.
    NotClosedAfterPanic = 23,
    /// The library has no code for this task.
    NotSupported = 24,
    /// The runtime refused the hooks of the tracer. Number: HRESULT.
    HooksRefused = 25,
}

impl AgentErrorCode {
    /// The error with its number.
    pub const fn with(self, number: u64) -> AgentError {
        AgentError { code: self, number }
    }
}

impl From<AgentErrorCode> for AgentError {
    fn from(code: AgentErrorCode) -> AgentError {
        code.with(0)
    }
}

impl From<std::io::Error> for AgentError {
    fn from(error: std::io::Error) -> AgentError {
        AgentError::system(error.raw_os_error().unwrap_or(0))
    }
}

impl AgentError {
    /// A failed system call, by its error number.
    pub const fn system(errno: i32) -> AgentError {
        AgentErrorCode::System.with(errno as u64)
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u8(self.code as u8).u64(self.number);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<AgentError, Malformed> {
        let value = reader.u8()?;
        let code = AgentErrorCode::ALL.iter().find(|code| **code as u8 == value).ok_or(Malformed)?;
        Ok(code.with(reader.u64()?))
    }
}
