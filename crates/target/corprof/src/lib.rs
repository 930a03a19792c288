//! The CLR profiling API for Rust: raw vtables, IIDs, HRESULTs, safe wrappers, typestates.
//!
//! # Purpose
//! To write a profiler that attaches to a running .NET process and detaches from it, where the compiler refuses what the runtime would refuse.
//! - [`sys`] is the API as the runtime declares it, every interface and slot, made from the table in `crates/target/corprof/abi`.
//! - [`ProfilerCallback`] is what the runtime tells: one safe method for each slot, each doing nothing until it is overridden.
//!   [`CallbackObject`] makes a COM object of it; every slot is fenced, so that no panic crosses into the runtime.
//! - [`Info`] is what a profiler asks: [`Info<Attached, Alive>`](Attached) has no call that the runtime refuses to an attached profiler,
//!   [`Info<_, Sealed>`](Sealed) has no call at all.
//! - [`dll_get_class_object`] is the body of the one function that the library must export.
//! - [`sdk`] is a layer above all of this, for a profiler that is written by implementing one trait: begin there.
//! - [`HResult`] says what the runtime answered, by name and in words.
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
//! - Runs inside somebody else's process: core, std and libc only, no state of its own.
//! - On a thread of the runtime it touches no thread-local with a destructor, which would pin the library,
//!   and allocates nothing on the way into a callback that does not panic.
//! - The runtime counts no references on its Info object and frees it when the detach is over.
//!   So there is one [`Info`] for each load, it cannot be cloned, asking for the detach consumes it,
//!   and enumerators and metadata borrow from it.
//! - Buffers that the runtime fills are bounded ([`buffer::LONGEST_TEXT`], [`buffer::LONGEST_LIST`]); what is longer is cut off.
//! - Values that a newer runtime adds are carried, never refused.
//!
//! # Supported
//! CoreCLR 3.1 to 10 on 64-bit Linux, up to ICorProfilerInfo15 and ICorProfilerCallback11.
//! A call that the runtime is too old for answers [`HResult::info_required`] and names the interface.
//!
//! # Rejected
//! - A bound between an id and its life: ids are plain numbers that travel through rings and files.
//!   That a stale id never reaches the runtime is for whoever keeps them to see to.
//! - Policy, outside of [`sdk`]: when to detach, what to do after a panic, which thread may ask what.
//! - A panic hook: the standard one prints to the target's standard error, and touches a thread-local with a destructor,
//!   which pins the library on that thread. A profiler that means to be unmapped after a panic sets its own, which does neither.
//! - EventPipeCreateProvider2 in a safe form: it leaves a pointer into the library behind that nothing takes back.

pub mod buffer;
mod callback;
mod factory;
pub mod guid;
pub mod hresult;
mod ids;
mod info;
mod mask;
mod metadata;
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
    Alive, ArrayClass, AssemblyInfo, Attached, ClassHead, ClassInfo, DetachRefused, DynamicFunction, EnterLeave3,
    EnterLeave3WithInfo, Enumerated, Enumeration, FieldPlace, FrozenRange, FunctionInfo, GenerationRange, HeapView,
    Info, JittedFunction, Life, Loading, ModuleInfo, ProviderConfig, RuntimeInformation, Sealed, Startup,
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
