//! A modelled desktop target as a process of its own, and the trigger process against it: `remora model`.
//!
//! # Purpose
//! [`Target`] is a process with runtimes of the .NET Framework, into which real profiler libraries are attached. [`Client`] plays the
//! trigger in another process. It uses the real hosting interfaces (`ICLRMetaHost` to `ICLRProfiling`), whose servers are in the trigger
//! and ask the target through a Unix socket, as mscoree asks through a pipe.
//!
//! # Design constraints
//! It needs no rights and no .NET. Accounts are modelled: the trigger says who it is. The real protection is the socket's directory,
//! which only its owner may enter ([`Place`]).
//! The profiler's library is not judged: the target survives or crashes, as a real one does. `remora lab` judges.
//!
//! # Rejected
//! The diagnostics protocol of Core: the desktop has none.

mod channel;
mod client;
mod configuration;
mod kept;
mod message;
mod place;
mod remote_host;
mod scenario;
mod target;
mod watch;

/// Classes and codes of the profiling API, for who uses this module.
pub use corprof::{Guid, HResult};

/// The wait before something is tried again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

pub use client::{Client, ClientError, stop};
pub use configuration::{AppConfig, ConfigError};
pub use kept::KeptLines;
pub use message::{Action, LoadedProfiler, LogLine, Told};
pub use place::{Place, PlaceError, TargetState, is_name};
pub use scenario::{SCENARIOS, Scenario, TRIGGERS};
pub use target::{Target, TargetConfig};
pub use watch::{Ended, Watch};
