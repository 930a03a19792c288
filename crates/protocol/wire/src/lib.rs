//! The protocol between the agent in the target and the collector.
//!
//! # Purpose
//! Four things pass between the two processes. This crate defines all of them:
//! - [`Config`], the client data of the attach request;
//! - [`ToAgent`] and [`FromAgent`], the control messages on the socket;
//! - [`Message`], the bulk messages in the shared ring;
//! - [`layout`], the counters beside that ring.
//!
//! What the agent says about the heap has a crate of its own: `crates/protocol/heap-stream`.
//!
//! # Design constraints
//! Depends on nothing. Every decoder takes [`Foreign`] data and accepts hostile bytes: it returns [`Malformed`], never panics, and bounds its
//! allocations. Both ends
//! send [`VERSION`]. They come from one build, so another version is refused, not translated.
//!
//! # Rejected
//! serde: the target layer links core, std and libc only.
#![forbid(unsafe_code)]

mod agent_error;
mod assembly;
mod bytes;
mod char_boundary;
mod config;
mod control;
mod foreign;
mod message;
mod startup;

pub mod layout;
pub mod method_trace;
pub mod unwind;

pub use agent_error::{AgentError, AgentErrorCode};
pub use assembly::{is_framework, matches_pattern};
pub use bytes::Malformed;
pub use char_boundary::floor_char_boundary;
pub use config::{Config, Contents, HeapSnapshot, Moment, Roots, Sampling, Task};
pub use control::{Frame, FromAgent, Received, ToAgent};
pub use foreign::Foreign;
pub use message::{Message, MethodKind, Place, TypeKind, encode_sample, encode_thrown, sample_flags};
pub use startup::{STARTUP_LIMIT, STARTUP_VARIABLE, StartupOrder, class_text};

/// Version of everything in this crate.
pub const VERSION: u32 = 1;

/// CLSID under which the library loads as the main profiler, in the memory order of a GUID's four parts.
pub const CLSID_MAIN: (u32, u16, u16, [u8; 8]) =
    (0x7d0c_3f5e, 0x52a1, 0x4c8b, [0x9e, 0x11, 0x52, 0x45, 0x4d, 0x4f, 0x52, 0x41]);

/// CLSID under which it loads as a notification-only profiler (.NET 6 and later).
pub const CLSID_NOTIFICATION: (u32, u16, u16, [u8; 8]) =
    (0x7d0c_3f5e, 0x52a1, 0x4c8b, [0x9e, 0x12, 0x52, 0x45, 0x4d, 0x4f, 0x52, 0x41]);

/// CLSID of the tracer, which only loads at startup, as the main profiler.
pub const CLSID_TRACER: (u32, u16, u16, [u8; 8]) =
    (0x7d0c_3f5e, 0x52a1, 0x4c8b, [0x9e, 0x13, 0x52, 0x45, 0x4d, 0x4f, 0x52, 0x41]);

/// The library's file name in the target: this prefix, a unique part, then `.so`.
pub const LIBRARY_PREFIX: &str = "libremora_agent";

/// Name of the agent's threads in the system, and the beginning of [`SAMPLER_NAME`].
pub const THREAD_NAME: &str = "remora-agent";

/// Name of the agent's thread that samples.
pub const SAMPLER_NAME: &str = "remora-agent-s";

/// Name of the shared memory, as `/proc/PID/maps` shows it after `/memfd:`.
pub const MEMORY_NAME: &str = "remora-ring";

/// Name of an unwind table's memory. The receipt recognizes our memory by its prefix.
pub const TABLE_NAME: &str = "remora-unwind";
