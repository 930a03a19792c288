//! What the agent does, apart from the operating system: callbacks, look-ups, the way from attach to detach.
//!
//! # Purpose
//! [`Agent`] is what the runtime calls; [`Worker`] is the agent's own thread; [`Shared`] is what callbacks leave for it; [`Gate`] keeps code from unloading while it is
//! looked up; [`Entrances`] keeps the library from leaving while a way into it is open.
//!
//! # Design constraints
//! core, std and the inside crates only. The operating system is the [`Platform`] trait, the runtime the [`Runtime`] trait: a model
//! of either can stand in. Callbacks never wait but in [`Gate::unloading`], bounded. How unloads, a full transport and errors are held: `gate.rs`,
//! `outward.rs` and `delivery.rs`, `catalogue.rs`.
//!
//! # Rejected
//! Enumerating at attach: a sampler meets what matters, and what it meets it can ask about (contract CAT-08).
#![forbid(unsafe_code)]

mod asking;
mod attached;
mod batch;
mod callbacks;
mod catalogue;
mod clr;
mod counting;
mod delivery;
mod entrances;
mod exchanged;
mod gate;
mod heap;
mod hearing;
mod host;
mod leaf;
mod modules;
mod orders;
mod outward;
mod persist;
mod platform;
mod runtime;
#[cfg(feature = "sabotage")]
pub mod sabotage;
#[cfg(not(feature = "sabotage"))]
mod sabotage;
mod shared;
mod snapshot;
mod stacks;
mod watch;
mod watching;
mod worker;

pub use batch::REPEATED;
pub use callbacks::Agent;
pub use catalogue::{Catalogue, MAXIMUM_ADDRESSES, Met};
pub use entrances::{EntranceKind, Entrances};
pub use gate::{Gate, Passage, Unload};
pub use heap::Snapshot;
pub use hearing::Hearing;
pub use host::{Alone, Host, HostedPlatform, Roles};
pub use leaf::{Caller, caller};
pub use orders::Orders;
pub use persist::{Attempt, persist};
pub use platform::{Child, CodeKind, CpuTimes, Platform, Received, Started, Words, words};
pub use runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
pub use shared::Shared;
pub use watch::Watch;
pub use worker::{Outcome, Worker};
