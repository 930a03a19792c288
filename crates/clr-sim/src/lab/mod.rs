//! The laboratory: a real profiler's library in the model, run after run, and a verdict for each clause.
//!
//! # Purpose
//! Each run is a process of its own ([`child`]), so that a profiler's crash is a finding and not ours. The laboratory ([`parent`]) starts
//! them, outlives them, and adds up what they found. What a run has found, and in which callback its threads are, stands on a page of
//! memory that both have ([`page`]).
//!
//! # Design constraints
//! The profiler runs on threads of the system ([`crate::schedule::threads`]): only the runtime's side is seeded, and to replay a seed is
//! best effort.
//!
//! # Rejected
//! One process for all runs: the first profiler that crashes, pins its library or leaves a thread would be the last one judged.

pub mod child;
pub mod clauses;
pub(crate) mod image;
mod impatient;
mod offspring;
pub mod page;
pub mod parent;
mod residue;
mod system;
mod user;
pub(crate) mod witness;

pub use child::Order;
pub use clauses::{Finding, Verdict};
pub use parent::{Laboratory, Report};
