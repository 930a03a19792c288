//! The laboratory: a real profiler's library in the model, run after run, and a verdict for each clause.
//!
//! # Purpose
//! Each run is a process of its own ([`run`]), so that a profiler's crash is a finding and not ours. The laboratory ([`laboratory`]) starts
//! them, outlives them, and adds up what they found. What a run has found, and in which callback its threads are, stands on a page of
//! memory that both have ([`page`]).
//!
//! # Design constraints
//! The profiler runs on threads of the system ([`crate::schedule::threads`]): only the runtime's side is seeded, and to replay a seed is
//! best effort.
//!
//! # Rejected
//! One process for all runs: the first profiler that crashes, pins its library or leaves a thread would be the last one checked.

pub mod clauses;
pub mod laboratory;
mod leftovers;
pub(crate) mod library_file;
pub(crate) mod monitor;
pub mod page;
mod recorder;
pub mod run;
mod run_processes;
mod system;

pub use clauses::{Finding, Verdict};
pub use laboratory::{Laboratory, Report};
pub use run::RunSpec;
