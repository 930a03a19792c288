//! One test suite for the contract: on live runtimes and on their models.
//!
//! # Purpose
//! Each test has one body. It gets a *world*, a live runtime or a model, and cannot distinguish them. So the model, on which everything
//! else is explored, must behave like live runtimes.
//!
//! # Design constraints
//! Where the two differ, the model is wrong. A test for live runtimes or models alone selects these worlds, and states the reason.
//!
//! # Rejected
//! Bodies over a trait with two implementations: the trait would be a second description of the runtime, which nothing checks.
#![forbid(unsafe_code)]

use remora_e2e::Runtime;
pub use remora_e2e::{on_runtimes, probe};

/// Limits a run to the worlds whose names begin with this: `sim`, `clr`, `sim 8`. For work on the model: `cargo xtask` passes it on only
/// with a filter, and clears it for a run of all tests.
const ONLY: &str = "REMORA_CONFORMANCE_ONLY";

/// Every live runtime of the matrix, and every model, including .NET 6, which has no live runtime here.
pub fn every_world() -> Vec<Runtime> {
    worlds(|_| true)
}

/// The worlds that satisfy `wanted`; at least one must.
pub fn worlds(wanted: impl Fn(&Runtime) -> bool) -> Vec<Runtime> {
    let only = std::env::var(ONLY).ok().filter(|only| !only.is_empty());
    let is_asked_for = |world: &Runtime| only.as_ref().is_none_or(|only| world.world().starts_with(only.as_str()));
    let live = if only.as_ref().is_some_and(|only| only.starts_with("sim")) { Vec::new() } else { Runtime::all() };
    let all = live.into_iter().chain(Runtime::models());
    let found: Vec<Runtime> = all.filter(|world| wanted(world) && is_asked_for(world)).collect();
    assert!(only.is_some() || !found.is_empty(), "there is no such world");
    found
}

/// Runs `test` in every world. After a failure it continues, and the panic names each failed world.
pub fn in_every_world(test: impl Fn(&Runtime)) {
    on_runtimes(&every_world(), test);
}

/// The same in live worlds only. Each caller states the reason.
pub fn in_live_worlds(test: impl Fn(&Runtime)) {
    on_runtimes(&worlds(|world| !world.is_model()), test);
}
