//! The runtime's half of the profiling API: the vtables that a profiler calls, and the callbacks that it gets.
//!
//! # Purpose
//! A replacement for the CLR in tests. A profiler sees the real interfaces, slot by slot.
//! - [`InfoServer`] is Info: one method per slot, each refusing until overridden. [`InfoObject`] adds the vtable.
//! - [`ProfilerObject`] is a profiler's callback object as the runtime holds it, with one method per slot.
//! - [`enumerators`] are the lists that Info returns.
//! - [`MetadataServer`] is a module's metadata. [`MetadataObject`] adds its five vtables.
//! - [`dispenser`] opens metadata without Info.
//! - [`metahost`] lets a trigger process of the .NET Framework find the runtimes of a process and attach.
//!
//! # Design constraints
//! - Decides nothing. The model above this crate decides answers, callbacks and permissions.
//! - No panic of the model unwinds into a profiler, and none is swallowed: the model gets the payload.
//! - Tests can see every count: references of profilers, live enumerators.
//!
//! # Supported
//! ICorProfilerInfo to 15, ICorProfilerCallback to 11, the API's five enumerators, IMetaDataImport2, IMetaDataAssemblyImport,
//! IMetaDataEmit2, IMetaDataAssemblyEmit, IMetaDataTables2 and IMetaDataDispenserEx, and the hosting interfaces of the .NET Framework that an attach needs:
//! generated from the table in `crates/target/corprof/abi`.
//!
//! # Rejected
//! - Safe arguments: the model must see the profiler's real arguments, null and nonsense included.

#[rustfmt::skip]
#[path = "generated/callbacks.rs"]
pub mod callbacks;
mod counted;
mod cursor;
pub mod dispenser;
pub mod enumerators;
#[rustfmt::skip]
#[path = "generated/info.rs"]
pub mod info;
#[rustfmt::skip]
#[path = "generated/metadata.rs"]
pub mod metadata;
mod metadata_object;
pub mod metahost;
mod object;
mod panics;
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

/// The answer of a slot. The profiler gets the code of either variant. Refusals are errors, so that `?` ends a method.
pub type Answer = Result<corprof::HResult, corprof::HResult>;

/// The code that the profiler gets.
pub(crate) fn code(answer: Answer) -> corprof::HResult {
    answer.unwrap_or_else(|refused| refused)
}
