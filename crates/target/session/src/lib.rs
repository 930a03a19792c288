//! What the agent does, apart from the operating system: callbacks, look-ups, the way from attach to detach.
//!
//! # Purpose
//! [`Agent`] is what the runtime calls; [`Worker`] is the agent's own thread; [`Shared`] is what callbacks leave for it; [`UnloadBarrier`] keeps code from unloading while it is
//! looked up; [`ResourceRegistry`] keeps the library from leaving while a way into it is open.
//!
//! # Design constraints
//! core, std and the inside crates only. The operating system is the [`Platform`] trait, the runtime the [`Runtime`] trait: a model
//! of either can stand in. Callbacks never wait but in [`UnloadBarrier::before_unload`], bounded. How unloads, a full transport and errors are held: `unload_barrier.rs`,
//! `transport_writer.rs` and `sample_writer.rs`, `method_cache.rs`.
//!
//! # Rejected
//! Enumerating at attach: a sampler meets what matters, and what it meets it can ask about (contract CAT-08).
#![forbid(unsafe_code)]

mod attached;
mod batch;
mod callbacks;
mod clr;
#[cfg(feature = "fault-injection")]
pub mod fault_injection;
#[cfg(not(feature = "fault-injection"))]
mod fault_injection;
mod gc_monitor;
mod guarded_runtime;
mod heap;
mod heap_tracker;
mod heap_tracking;
mod host;
mod leaf;
mod method_cache;
mod module_ids;
mod osr;
mod platform;
mod resource_registry;
mod retry;
mod runtime;
mod sample_writer;
mod shared;
mod snapshot;
mod stacks;
mod supported_tasks;
mod transport_writer;
mod unload_barrier;
mod worker;
mod young_object_cost;

pub use batch::REPEATED;
pub use callbacks::Agent;
pub use gc_monitor::GcMonitor;
pub use heap::Snapshot;
pub use heap_tracker::HeapTracker;
pub use host::{Host, HostedPlatform, ThreadRoles, UnpairedThread};
pub use leaf::{Caller, caller};
pub use method_cache::{MAXIMUM_ADDRESSES, MethodCache, SampledAddress};
pub use platform::{Child, CodeKind, CpuTimes, Platform, Received, Started, Words, words};
pub use resource_registry::{ResourceKind, ResourceRegistry};
pub use retry::{Progress, retry};
pub use runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
pub use shared::Shared;
pub use supported_tasks::SupportedTasks;
pub use unload_barrier::{Unload, UnloadBarrier, UnloadNotices};
pub use worker::{Outcome, Worker};
