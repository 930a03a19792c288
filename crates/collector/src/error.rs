//! Why a recording could not be taken.

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
    #[error("the connection to the agent in the target failed: {0}")]
    Channel(#[source] io::Error),
    /// The runtime said yes, but the agent never came.
    #[error(
        "the runtime accepted the agent, but it did not connect within {0} seconds; the target may be stopped or starved: \
         look whether it runs, then try again"
    )]
    NoHello(u64),
    /// Somebody else connected.
    #[error("a stranger connected in place of the agent (process {0:?}); nothing was recorded")]
    Stranger(Option<u32>),
    /// The agent cannot work in this process.
    #[error("the agent cannot record in this process: {0}")]
    Refused(String),
    /// The agent stays in the process, doing nothing.
    #[error(
        "the agent is loaded but must stay inert: {0}; a second `remora record` will work, or use --engine eventpipe"
    )]
    Inert(String),
    /// The target ended during the attach.
    #[error("the target ended while the agent was attaching")]
    TargetEnded,
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Error {
        Error::SharedMemory(error.into())
    }
}
