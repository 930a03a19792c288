//! The runtime's side: the calls to it, by how the profiler was loaded and whether it is still alive.
//!
//! [`Info`] is neither `Clone` nor counted. The runtime owns its object, and frees it after the detach, whatever references exist.
//! So each load has one `Info`, and [`request_profiler_detach`](Info::request_profiler_detach) consumes it.
//! Enumerators and metadata borrow from it, and are gone by then.
//! `SAFETY:` notes rely on this: an `Info` that is [`Alive`] has a valid object, by the contract of [`Info::from_unknown`].

mod attached;
mod code;
mod detach;
mod enumeration;
mod event_pipe;
mod heap;
mod hooks;
mod irreversible;
mod lookup;
mod startup;
mod suspension;

pub use detach::DetachRefused;
pub use enumeration::{Enumerated, Enumeration, JittedFunction};
pub use event_pipe::ProviderConfig;
pub use heap::{ClassHead, FieldPlace, FrozenRange, GenerationRange, HeapView};
pub use hooks::ArgumentRoom;
pub use lookup::{ArrayClass, AssemblyInfo, ClassInfo, DynamicFunction, FunctionInfo, ModuleInfo, RuntimeInformation};
pub use startup::{EnterLeave3, EnterLeave3WithInfo};
pub use suspension::SuspendedRuntime;

use crate::{Guid, HResult, sys};
use core::fmt;
use core::marker::PhantomData;

mod private {
    /// Seals the state traits: only this module implements them.
    pub trait Closed {}
}

/// How the profiler was loaded.
pub trait Loading: private::Closed {
    /// The name: `attached` or `startup`.
    const NAME: &'static str;
}

/// Whether the runtime still accepts calls.
pub trait Life: private::Closed {}

/// Attached to a running process.
#[derive(Debug)]
pub enum Attached {}

/// Loaded at startup.
#[derive(Debug)]
pub enum Startup {}

/// The runtime accepts calls.
#[derive(Debug)]
pub enum Alive {}

/// A detach was accepted: the runtime accepts no more calls.
#[derive(Debug)]
pub enum Sealed {}

impl private::Closed for Attached {}
impl private::Closed for Startup {}
impl private::Closed for Alive {}
impl private::Closed for Sealed {}

impl Loading for Attached {
    const NAME: &'static str = "attached";
}

impl Loading for Startup {
    const NAME: &'static str = "startup";
}

impl Life for Alive {}
impl Life for Sealed {}

/// The runtime's Info object, in its newest version.
///
/// Calls that are not for an attached profiler do not exist on it:
/// ```compile_fail,E0599
/// fn hook(info: &corprof::Info<corprof::Attached, corprof::Alive>, mapper: corprof::sys::FunctionIDMapper2) {
///     unsafe { info.set_function_id_mapper2(mapper, core::ptr::null_mut()) };
/// }
/// ```
/// ```compile_fail,E0599
/// fn hook(info: &corprof::Info<corprof::Attached, corprof::Alive>, hooks: corprof::EnterLeave3) {
///     unsafe { info.set_enter_leave_function_hooks3(hooks) };
/// }
/// ```
/// A profiler loaded at startup has them:
/// ```
/// fn hook(info: &corprof::Info<corprof::Startup, corprof::Alive>, hooks: corprof::EnterLeave3) -> Result<(), corprof::HResult> {
///     unsafe { info.set_enter_leave_function_hooks3(hooks) }
/// }
/// ```
/// Once a detach is accepted, no call exists:
/// ```compile_fail,E0599
/// fn ask(info: corprof::Info<corprof::Attached, corprof::Sealed>) {
///     info.force_gc();
/// }
/// ```
/// and earlier results cannot be kept beyond it:
/// ```compile_fail,E0505
/// fn keep(info: corprof::Info<corprof::Attached, corprof::Alive>) {
///     let mut modules = info.enum_modules().unwrap();
///     let detached = info.request_profiler_detach(core::time::Duration::ZERO);
///     modules.next();
/// }
/// ```
/// Each load has one, so that no copy outlives the detach:
/// ```compile_fail,E0308
/// fn copy(info: &corprof::Info<corprof::Attached, corprof::Alive>) -> corprof::Info<corprof::Attached, corprof::Alive> {
///     info.clone()
/// }
/// ```
pub struct Info<L: Loading, S: Life> {
    raw: *mut sys::ICorProfilerInfo,
    version: u8,
    state: PhantomData<(L, S)>,
}

// SAFETY: the runtime's object may be called from any thread, and the wrapper holds nothing else.
unsafe impl<L: Loading, S: Life> Send for Info<L, S> {}
// SAFETY: the runtime's object may be called from several threads at a time, and the wrapper holds nothing else.
unsafe impl<L: Loading, S: Life> Sync for Info<L, S> {}

impl<L: Loading, S: Life> fmt::Debug for Info<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Info<{}>(ICorProfilerInfo{})", L::NAME, self.version)
    }
}

/// The versions of Info, newest first.
const VERSIONS: [(u8, Guid); 15] = [
    (15, sys::IID_ICorProfilerInfo15),
    (14, sys::IID_ICorProfilerInfo14),
    (13, sys::IID_ICorProfilerInfo13),
    (12, sys::IID_ICorProfilerInfo12),
    (11, sys::IID_ICorProfilerInfo11),
    (10, sys::IID_ICorProfilerInfo10),
    (9, sys::IID_ICorProfilerInfo9),
    (8, sys::IID_ICorProfilerInfo8),
    (7, sys::IID_ICorProfilerInfo7),
    (6, sys::IID_ICorProfilerInfo6),
    (5, sys::IID_ICorProfilerInfo5),
    (4, sys::IID_ICorProfilerInfo4),
    (3, sys::IID_ICorProfilerInfo3),
    (2, sys::IID_ICorProfilerInfo2),
    (1, sys::IID_ICorProfilerInfo),
];

impl<L: Loading> Info<L, Alive> {
    /// The newest Info interface of the object that the runtime passes to `Initialize` or `InitializeForAttach`.
    ///
    /// It keeps no reference: the runtime does not count them, and frees the object after the detach.
    ///
    /// # Safety
    /// `unknown` is the runtime's Info object, and stays alive until a detach is accepted. `L` is how the profiler was really loaded.
    /// No other `Info` is made from the object.
    pub unsafe fn from_unknown(unknown: *mut sys::IUnknown) -> Result<Info<L, Alive>, HResult> {
        for (version, iid) in VERSIONS {
            let mut object = core::ptr::null_mut();
            // SAFETY: the caller guarantees a live object; `iid` and `object` are live.
            let answer = HResult(unsafe { sys::IUnknown::QueryInterface(unknown, &iid, &mut object) });
            if answer.is_success() && !object.is_null() {
                // SAFETY: releases the reference from QueryInterface; the runtime keeps the object alive.
                unsafe { sys::IUnknown::Release(object.cast()) };
                return Ok(Info { raw: object.cast(), version, state: PhantomData });
            }
        }
        Err(HResult::E_NOINTERFACE)
    }

    /// The calls that every profiler has, however it was loaded, as a separate value. For the SDK, which lets only one outlive a call.
    pub(crate) fn common(&self) -> Info<Attached, Alive> {
        Info { raw: self.raw, version: self.version, state: PhantomData }
    }

    /// The newest Info version of the runtime: 11 on .NET Core 3.1, 12 on 5, 13 on 7, 14 on 8, 15 on 9 and 10.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The raw object, for calls without a safe form here. It has the slots up to [`version`](Self::version).
    ///
    /// Do not use the pointer after a detach was accepted.
    pub fn as_raw(&self) -> *mut sys::ICorProfilerInfo {
        self.raw
    }

    /// The raw object as `Interface`, the type of version `version`, or an error that names the version.
    fn at<Interface>(&self, version: u8) -> Result<*mut Interface, HResult> {
        if self.version >= version { Ok(self.raw.cast()) } else { Err(HResult::info_required(version)) }
    }
}
