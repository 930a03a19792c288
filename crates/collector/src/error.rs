//! Why a recording could not be taken.

use remora_receipt::Facts;
use std::io;

/// See the variants; each says what happened, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target refused, or could not be asked.
    #[error(transparent)]
    Trigger(#[from] remora_trigger::Error),
    /// No memory for the ring.
    #[error("the shared memory for samples could not be made: {0}; free 8 MiB of memory, or use --engine eventpipe")]
    SharedMemory(#[source] io::Error),
    /// The channel to the agent failed.
    #[error(
        "the connection to the agent in the target failed: {0}; look whether the target still runs, then record again"
    )]
    Channel(#[source] io::Error),
    /// The runtime said yes, but the agent never came.
    #[error(
        "the runtime accepted the agent, but it did not connect within {0} seconds; the target may be stopped or starved: \
         look whether it runs, then try again"
    )]
    NoHello(u64),
    /// Somebody else connected.
    #[error(
        "a stranger connected in place of the agent (process {}); nothing was recorded: find out what that process is, and give \
         the target a TMPDIR of its own",
        .0.map_or_else(|| "unknown".to_owned(), |id| id.to_string())
    )]
    Stranger(Option<u32>),
    /// The agent cannot work in this process.
    #[error("the agent cannot record in this process: {0}; use --engine eventpipe")]
    Refused(String),
    /// The agent stays in the process, doing nothing.
    #[error(
        "the agent is loaded but must stay inert: {0}; the same command works if it is given again, or use --engine eventpipe"
    )]
    Inert(String),
    /// After a main profiler, the attach that would set the count right failed.
    #[error(
        "the runtime's count of profilers could not be set right: {0}; attach once more with any command of Remora before another \
         vendor's notification-only profiler comes"
    )]
    Count(Box<Error>),
    /// The target ended during the attach.
    #[error("the target ended while the agent was attaching; look why it ended, and record a process that stays")]
    TargetEnded,
}

/// An attach that came to nothing.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotAttached {
    /// Why.
    pub error: Error,
    /// What may be in the target all the same, for the receipt; `None` if the runtime was not asked for anything.
    pub facts: Option<Box<Facts>>,
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

    #[test]
    fn each_message_says_what_to_do() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let own = [
            Error::SharedMemory(broken()),
            Error::Channel(broken()),
            Error::NoHello(5),
            Error::Stranger(Some(42)),
            Error::Stranger(None),
            Error::Refused("no signal is free".into()),
            Error::Inert("another profiler has left".into()),
            Error::Count(Box::new(Error::TargetEnded)),
            Error::TargetEnded,
        ];
        for error in own {
            let text = error.to_string();
            assert!(text.split_once("; ").is_some_and(|(_, remedy)| !remedy.is_empty()), "{text}");
            assert!(!text.contains("Some(") && !text.contains("None"), "{text}");
        }
    }
}
