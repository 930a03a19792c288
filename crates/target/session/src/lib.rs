//! The agent apart from the operating system: callbacks, look-ups, and the way from attach to detach.
//!
//! # Purpose
//! The runtime calls [`Agent`]. [`Worker`] is the agent's worker thread. Callbacks leave their state for it in [`Shared`].
//! [`UnloadBarrier`] delays unloads of code during its look-up. [`ResourceRegistry`] prevents the detach while any resource is held.
//!
//! # Design constraints
//! Only core, std and the target crates. The operating system is the [`Platform`] trait, the runtime the [`Runtime`] trait: a model can
//! replace either. Callbacks never wait, except in [`UnloadBarrier::before_unload`], bounded. `unload_barrier.rs` handles unloads,
//! `transport_writer.rs` and `sample_writer.rs` a full transport, `method_cache.rs` errors.
//!
//! # Rejected
//! Enumerating at attach: samples contain the code that matters, and the worker can ask about it then (contract CAT-08).
#![forbid(unsafe_code)]

mod attached;
mod batch;
mod callbacks;
mod certainty;
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
pub use platform::{Child, CodeKind, CpuTimes, Platform, Started, Words, words};
pub use resource_registry::{ResourceKind, ResourceRegistry};
pub use retry::{Progress, retry};
pub use runtime::{CodeBody, FunctionFacts, ModuleFacts, Runtime, TypeFacts};
pub use shared::Shared;
pub use supported_tasks::SupportedTasks;
pub use unload_barrier::{Unload, UnloadBarrier, UnloadNotices};
pub use worker::{Outcome, Worker};
