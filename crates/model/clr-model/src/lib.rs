//! The runtime's side of the profiling API as an executable model: one seed, one schedule.
//!
//! # Purpose
//! A profiler in [`runtime::Runtime`] sees the real COM interfaces and cannot distinguish it from the CLR. The model records its faults
//! ([`faults`]) instead of crashing a process. Remora's own agent runs in it unchanged ([`agent`]), under any number of schedules
//! ([`explore`]).
//!
//! # Design constraints
//! The model must be faithful, nothing else. [`differences`] lists where runtimes differ, with sources. Where the model and a live runtime
//! disagree, the model is wrong. Everything is deterministic ([`schedule`]).
//!
//! # Rejected
//! Modelling the runtime's computations (types, generics, IL): a profiler's races do not depend on them. So only metadata has fields,
//! parameters, attributes and type arguments, those of an example, and what a profiler adds to it has no content.

pub mod differences;
pub mod faults;

pub mod host;
pub mod library;
pub mod machine;
pub mod runtime;

#[cfg(feature = "agent")]
pub mod agent;
pub mod application;
pub mod callback_data;
pub mod desktop;
#[cfg(feature = "agent")]
pub mod explore;
pub mod info_calls;
pub mod lab;
pub mod mutation;
#[cfg(feature = "agent")]
pub mod scenario;
pub mod schedule;
pub mod scripted;
