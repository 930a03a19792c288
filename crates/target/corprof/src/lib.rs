//! The CLR profiling API for Rust: raw vtables, IIDs, HRESULTs, safe wrappers, typestates.
//!
//! # Purpose
//! Write profilers that attach to a running .NET process and detach. Calls that the runtime would refuse do not compile.
//! - [`sys`]: the API as the runtime declares it, every interface and slot, generated from the table in `crates/target/corprof/abi`.
//! - [`ProfilerCallback`]: the runtime's callbacks, one safe method for each slot, each a no-op until you override it.
//!   [`CallbackObject`] makes a COM object of it. A panic fence around every slot keeps panics out of the runtime.
//! - [`Info`]: the calls to the runtime. [`Info<Attached, Alive>`](Attached) lacks those that the runtime refuses to an attached profiler.
//!   [`Info<_, Sealed>`](Sealed) has none.
//! - [`dll_get_class_object`]: the body of the one function that the library must export.
//! - [`detach`]: the parts of a safe detach and unload, for a profiler without the SDK.
//! - [`sdk`]: the layer above, for a profiler that implements one trait. Begin there.
//! - [`HResult`]: the runtime's error codes, with name and meaning.
//!
//! ```
//! use corprof::*;
//! use std::sync::Mutex;
//!
//! #[derive(Default)]
//! struct Profiler {
//!     info: Mutex<Option<Info<Attached, Alive>>>,
//! }
//!
//! impl ProfilerCallback for Profiler {
//!     fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
//!         info.set_event_mask2(AttachMask::MODULE_LOADS | AttachMask::THREADS, HighAttachMask::NONE)?;
//!         *self.info.lock().map_err(|_| HResult::E_FAIL)? = Some(info);
//!         Ok(())
//!     }
//!
//!     fn load_as_notification_only(&self) -> bool {
//!         true
//!     }
//! }
//!
//! const CLASS: Guid = Guid::from_u128(0x4E1D_2C8A_6B3F_4C57_9A10_52D7_0C3B_88E1);
//!
//! fn make(class: &Guid) -> Option<*mut sys::IUnknown> {
//!     (*class == CLASS).then(|| CallbackObject::create(Profiler::default()))
//! }
//!
//! /// The library exports this, unmangled.
//! # #[allow(non_snake_case)]
//! unsafe extern "system" fn DllGetClassObject(class: *const Guid, interface: *const Guid, object: *mut *mut core::ffi::c_void) -> i32 {
//!     unsafe { dll_get_class_object(class, interface, object, make) }
//! }
//! ```
//!
//! # Design constraints
//! - Runs inside the target process: core, std and libc only, no state of its own.
//! - On a runtime thread it touches no thread-local with a destructor, which would pin the library.
//!   It allocates nothing on the way into a callback that does not panic.
//! - The runtime does not count references on its Info object, and frees it after the detach. So each load has one [`Info`]:
//!   it cannot be cloned, the detach request consumes it, and enumerators and metadata borrow from it.
//! - Buffers that the runtime fills are bounded ([`buffer::LONGEST_TEXT`], [`buffer::LONGEST_LIST`]); the rest is cut off.
//! - Values that a newer runtime adds are passed through, never refused.
//!
//! # Supported
//! CoreCLR 3.1 to 10 on 64-bit Linux, up to ICorProfilerInfo15 and ICorProfilerCallback11.
//! If the runtime is too old for a call, the call returns [`HResult::info_required`], which names the interface.
//!
//! # Rejected
//! - Tying an id to its lifetime: ids are plain numbers that pass through rings and files. Code that stores ids must drop stale ones.
//! - Policy, outside of [`sdk`]: when to detach, what to do after a panic, which thread may make which call.
//! - A panic hook. The standard hook prints to the target's standard error, and touches a thread-local with a destructor, which pins the
//!   library on that thread. A profiler that must be unmapped after a panic sets its own hook, which does neither.
//! - A safe EventPipeCreateProvider2: it leaves a pointer into the library behind, which nothing removes.

pub mod buffer;
mod callback;
pub mod detach;
mod factory;
pub mod guid;
pub mod hresult;
mod ids;
mod info;
mod mask;
mod metadata;
mod panics;
pub mod sdk;
#[rustfmt::skip]
#[path = "generated/sys/mod.rs"]
pub mod sys;
mod values;

pub use callback::{CALLBACK_IIDS, CallbackObject, CallbackToken, ProfilerCallback, SLOT_NAMES};
pub use factory::{Make, dll_get_class_object};
pub use guid::Guid;
pub use hresult::{HRESULTS, HResult, HResultFacts};
pub use ids::{
    AppDomainId, AssemblyId, ClassId, EventId, FieldToken, FunctionId, HandleId, MethodToken, ModuleId, ObjectId,
    ProviderId, RejitId, SessionId, ThreadId, Token, TypeToken,
};
pub use info::{
    Alive, ArgumentRoom, ArrayClass, AssemblyInfo, Attached, ClassHead, ClassInfo, DetachRefused, DynamicFunction,
    EnterLeave3, EnterLeave3WithInfo, Enumerated, Enumeration, FieldPlace, FrozenRange, FunctionInfo, GenerationRange,
    HeapView, Info, JittedFunction, Life, Loading, ModuleInfo, ProviderConfig, RuntimeInformation, Sealed, Startup,
    SuspendedRuntime,
};
pub use mask::{
    AttachMask, ForbiddenBits, Half, HighAttachMask, HighStartupMask, Irreversible, IrreversibleMask, NotificationMask,
    StartupMask, irreversible,
};
pub use metadata::{GenericParameter, MethodProperties, ModuleMetadata, TypeProperties};
pub use values::{
    CodeRange, GcReason, IlMapping, JitCache, ModuleFlags, RootFlags, RootKind, RuntimeKind, SuspendReason,
    TransitionReason,
};
