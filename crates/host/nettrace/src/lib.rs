//! Reads EventPipe streams (nettrace) and turns the runtime's own samples into a profile.
//!
//! # Purpose
//! The fallback where no library may be loaded into the target: the runtime's own sampler.
//! [`Parser`] reads the stream and emits events; [`SampledProfile`] makes a profile of them.
//!
//! # Design constraints
//! Sans-IO: bytes are pushed in pieces of any size, as a socket delivers them.
//! The stream is untrusted: every length is checked, every table bounded, nothing panics.
//! A truncated stream gives the profile up to its end; losses are counted and reported.
//!
//! # Supported
//! Format version 4 (`Nettrace` with `!FastSerialization.1`), which .NET Core 3.0 to .NET 10 write.
//! The commands CollectTracing to CollectTracing4 all yield it; a later format must be requested.
//!
//! # Rejected
//! Format 3 (`netperf`, .NET Core 2) and format 6 (user events): refused by name.
//! Resolving fields by their declared types: the few relevant events have fixed layouts.
#![forbid(unsafe_code)]

mod blob;
mod error;
mod event;
mod il_text;
mod method_table;
mod parser;
mod payload;
pub mod providers;
mod sampled;
mod samples;
mod sequence;

pub use error::{Error, Result};
pub use event::{Event, EventType, Sink, StreamEnd, Trace};
pub use il_text::method_name;
pub use parser::Parser;
pub use sampled::SampledProfile;
