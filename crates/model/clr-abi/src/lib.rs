//! The runtime's side of the profiling API: the vtables that a profiler calls, and the calls that it gets.
//!
//! # Purpose
//! To stand in for the CLR in tests, so that a profiler cannot tell the difference: it sees the real interfaces, slot by slot.
//! - [`InfoServer`] is Info: one method for each slot, each refusing until it is overridden; [`InfoObject`] puts the vtable before it.
//! - [`ProfilerObject`] is a profiler's callback object as the runtime holds it: one method for each slot that calls it.
//! - [`enumerators`] are the lists that Info hands out.
//! - [`MetadataServer`] is a module's metadata, and [`MetadataObject`] puts its two vtables before it.
//! - [`metahost`] is how a trigger process of the .NET Framework finds the runtimes of a process and attaches.
//!
//! # Design constraints
//! - Decides nothing: what a slot answers, when a callback comes, and who may ask what is the model's, above this crate.
//! - No panic of the model unwinds into a profiler, and none is swallowed: the model is handed the payload.
//! - What is counted is counted where a test can see it: references of profilers, enumerators that live.
//!
//! # Supported
//! ICorProfilerInfo to 15, ICorProfilerCallback to 11, the five enumerators of the API, IMetaDataImport2 and IMetaDataAssemblyImport, and of the .NET Framework's hosting
//! interfaces what an attach needs. Made from the table in `crates/target/corprof/abi`, but for the hosting interfaces, which are not in it.
//!
//! # Rejected
//! - Safe arguments: the model is to see what the profiler really gave, null and nonsense included.

#[rustfmt::skip]
#[path = "generated/callbacks.rs"]
pub mod callbacks;
mod counted;
mod cursor;
pub mod enumerators;
mod fence;
#[rustfmt::skip]
#[path = "generated/info.rs"]
pub mod info;
#[rustfmt::skip]
#[path = "generated/metadata.rs"]
pub mod metadata;
mod metadata_object;
pub mod metahost;
mod object;
mod profiler;
mod slot;
#[rustfmt::skip]
#[path = "generated/slot_lists.rs"]
pub mod slot_lists;

pub use callbacks::CALLBACK_SLOTS;
pub use counted::Live;
pub use info::{INFO_SLOTS, InfoServer};
pub use metadata::MetadataServer;
pub use metadata_object::MetadataObject;
pub use object::InfoObject;
pub use profiler::ProfilerObject;
pub use slot::Slot;
