//! The laboratory: a real profiler's library in the model, run after run, and a verdict for each clause.
//!
//! # Purpose
//! Each run is a separate process ([`run`]), so that a profiler's crash is a finding and not ours. The laboratory ([`laboratory`]) starts
//! them, survives them, and sums up their findings. Both share a page of memory with a run's findings and its threads' current callbacks
//! ([`page`]).
//!
//! # Design constraints
//! The profiler runs on threads of the system ([`crate::schedule::threads`]). Only the runtime's side is seeded, so replaying a seed is
//! best effort.
//!
//! # Rejected
//! One process for all runs: a profiler that crashes, pins its library or leaves a thread would end all later checks.

mod around;
mod backtrace;
pub mod clauses;
mod codes;
pub(crate) mod death;
mod elf;
pub(crate) mod hang;
pub mod laboratory;
mod leftovers;
pub(crate) mod library_file;
mod limits;
mod loading;
pub(crate) mod monitor;
mod observer;
pub mod output;
pub mod page;
pub(crate) mod proc_file;
mod process_wide;
mod recorder;
mod report;
pub(crate) mod request;
pub mod run;
pub(crate) mod run_processes;
mod shared_memory;
mod signals;
pub mod system;
mod tracers;
mod unload;

pub use clauses::{CrashedRun, Finding, LoadMode, Observation, RefusedCall, Verdict};
pub use laboratory::Laboratory;
pub use report::Report;
pub use run::{ClientData, RunSpec};
