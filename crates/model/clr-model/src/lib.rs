//! The runtime's side of the profiling API as an executable model: one seed, one schedule.
//!
//! # Purpose
//! A profiler that runs against [`runtime::Runtime`] sees the real COM interfaces and cannot tell it from the CLR; what it does wrong is
//! written down ([`faults`]) instead of crashing a process. Remora's own agent runs in it unchanged ([`agent`]), under any number of
//! schedules ([`explore`]).
//!
//! # Design constraints
//! Faithful is the model's only virtue: where runtimes differ, [`differences`] says so with the source, and where the model and a live
//! runtime disagree, the model is wrong. Everything is deterministic ([`schedule`]).
//!
//! # Rejected
//! Modelling what the runtime computes (types, generics, IL): a profiler's races do not depend on it. So metadata tells of modules,
//! classes and methods, but of no fields, parameters, properties, attributes and type arguments; and nothing can be written there.

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
#[cfg(feature = "agent")]
pub mod explore;
pub mod info_calls;
pub mod lab;
pub mod mutation;
#[cfg(feature = "agent")]
pub mod scenario;
pub mod schedule;
pub mod scripted;
