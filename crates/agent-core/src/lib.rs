//! What the agent does, apart from the operating system: callbacks, look-ups, the way from attach to detach.
//!
//! # Purpose
//! [`Worker`] is the agent's own thread; [`Shared`] is what callbacks leave for it; [`Gate`] keeps code from unloading while it is
//! looked up; [`Entrances`] keeps the library from leaving while a way into it is open.
//!
//! # Design constraints
//! core, std and the inside crates only. The operating system is the [`Platform`] trait, the runtime the [`Runtime`] trait: a model
//! of either can stand in. Callbacks never wait but in [`Gate::unloading`], bounded.
//!
//! # Rejected
//! Enumerating at attach: a sampler meets what matters, and what it meets it can ask about (contract CAT-08).
#![forbid(unsafe_code)]

mod catalogue;
mod entrances;
mod gate;
mod leaf;
mod platform;
mod runtime;
mod shared;
mod worker;

pub use catalogue::{Catalogue, Describe};
pub use entrances::{EntranceKind, Entrances};
pub use gate::{Gate, Unload};
pub use leaf::{Caller, caller};
pub use platform::{CodeKind, Platform, Received, Started};
pub use runtime::{CodeBody, FunctionFacts, Runtime, TypeFacts};
pub use shared::Shared;
pub use worker::{Outcome, REPEATED, Worker};
