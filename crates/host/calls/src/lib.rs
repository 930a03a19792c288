//! The model of traced calls: methods, trees by thread, long calls, losses.
//!
//! # Purpose
//! [`Calls::read`] checks what the tracer has counted in shared memory, and takes the cost of the hooks out of the times. The formats are made
//! from it: a call tree as JSON, a timeline for Perfetto, and a [`remora_profile::Profile`] for flame graphs.
//!
//! # Design constraints
//! The table comes from the target: every index is checked, every walk is bounded by the number of nodes, and sums saturate.
//!
//! # Rejected
//! A file format of its own: the JSON of the call tree has everything.
#![forbid(unsafe_code)]

mod allocated;
mod json;
mod model;
mod profile;
mod read;
mod structures;
mod timeline;
mod totals;
mod values;

pub use allocated::{Allocated, AllocatedBy, MethodAllocations, by_method, by_type, with_callees};
pub use json::write_json;
pub use model::{Allocation, Calls, Cost, LongCall, Losses, Method, MethodIx, Node, NodeIx, Thread, ThreadIx};
pub use profile::{About, profile};
pub use read::Instant;
pub use timeline::write_timeline;
pub use totals::{MethodTotals, method_totals};
pub use values::{Argument, arguments, constant_of_result, described, result};
