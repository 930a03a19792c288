//! One suite, two arms: what the contract says of the runtime, on live runtimes and on the models of them.
//!
//! # Purpose
//! The body of a test is written once. It gets a *world*, a live runtime or a model, and cannot tell which: so that the model, in which
//! everything else is explored, is held to what live runtimes do, and what live runtimes do is written down as a program.
//!
//! # Design constraints
//! Where the two answer differently the model is wrong. A test that runs in one arm only says so by the worlds that it asks for, and why.
//!
//! # Rejected
//! Bodies over a trait that each arm implements: the trait would be a second description of the runtime, which nothing holds to the first.
#![forbid(unsafe_code)]

use remora_e2e::Runtime;
pub use remora_e2e::{on_runtimes, probe};

/// Limits a run to the worlds whose names begin with this: `sim`, `clr`, `sim 8`. An aid for who changes the model: `cargo xtask` hands it
/// on only where a filter was given, and empties it for a run of all tests.
const ONLY: &str = "REMORA_CONFORMANCE_ONLY";

/// Every live runtime of the matrix, and every model, .NET 6 among them, of which there is no live one.
pub fn every_world() -> Vec<Runtime> {
    worlds(|_| true)
}

/// The worlds of which this is true. There must be one.
pub fn worlds(wanted: impl Fn(&Runtime) -> bool) -> Vec<Runtime> {
    let only = std::env::var(ONLY).ok().filter(|only| !only.is_empty());
    let is_asked_for = |world: &Runtime| only.as_ref().is_none_or(|only| world.world().starts_with(only.as_str()));
    let live = if only.as_ref().is_some_and(|only| only.starts_with("sim")) { Vec::new() } else { Runtime::all() };
    let all = live.into_iter().chain(Runtime::models());
    let found: Vec<Runtime> = all.filter(|world| wanted(world) && is_asked_for(world)).collect();
    assert!(only.is_some() || !found.is_empty(), "there is no such world");
    found
}

/// Runs `test` in every world; if it fails in some, the others are tried all the same, and the panic names each that failed.
pub fn in_every_world(test: impl Fn(&Runtime)) {
    on_runtimes(&every_world(), test);
}

/// The same in the live ones alone. Whoever asks for them says why.
pub fn in_live_worlds(test: impl Fn(&Runtime)) {
    on_runtimes(&worlds(|world| !world.is_model()), test);
}
