//! The calls to the runtime, by when they are allowed: [`Beginning`], then [`Runtime`] in callbacks, then [`Session`].
//!
//! | type | where | adds to the row before |
//! |---|---|---|
//! | [`Beginning`] | inside `attach` and `start` | the lookups of `Runtime` |
//! | [`Runtime`] | inside callbacks | set the event mask, request the detach |
//! | [`Session`] | after the attach is complete | enumerate, suspend, force a GC, start threads and EventPipe sessions |
//!
//! Each is lent for the call. None can be kept beyond it, so none exists after the detach.

use super::common::Common;
use super::id::{Assembly, Brand, Class, Function, Id, Module, Object, Thread};
use super::resource::{CloseHook, Resource, SignalHandler, TakenSignal};
use super::resource_registry::{CloseError, Detaching, OpenResource, ResourceHandle, ResourceRegistry};
use super::thread;
use crate::{
    Alive, AppDomainId, AttachMask, Attached, Enumerated, FunctionId, HResult, HighAttachMask, Info, Irreversible,
    JittedFunction, Loading, MethodToken, ModuleFlags, ModuleMetadata, ProviderConfig, RejitId, RuntimeInformation,
    SessionId, Startup, SuspendedRuntime, ThreadId, TypeToken,
};
use core::marker::PhantomData;
use core::ops::{ControlFlow, Deref};
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The requested events: both halves of the event mask. It holds only flags that still allow a detach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// The low half.
    pub low: AttachMask,
    /// The high half.
    pub high: HighAttachMask,
}

impl From<AttachMask> for Events {
    fn from(low: AttachMask) -> Events {
        Events { low, high: HighAttachMask::NONE }
    }
}

impl From<HighAttachMask> for Events {
    fn from(high: HighAttachMask) -> Events {
        Events { low: AttachMask::NONE, high }
    }
}

/// A module, from [`Runtime::module`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFacts<'rt> {
    /// Its base address in memory; zero for a module without an image.
    pub base: usize,
    /// Its file. For a module without one: a name, or nothing.
    pub path: String,
    /// Its assembly; id zero until it is attached to one.
    pub assembly: Assembly<'rt>,
    /// The kind of module.
    pub flags: ModuleFlags,
}

/// An assembly, from [`Runtime::assembly`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssemblyFacts<'rt> {
    /// Its simple name.
    pub name: String,
    /// Its application domain.
    pub app_domain: Id<'rt, AppDomainId>,
    /// Its manifest module.
    pub module: Module<'rt>,
}

/// A class, from [`Runtime::class`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFacts<'rt> {
    /// The module that defines it.
    pub module: Module<'rt>,
    /// Its token in that module.
    pub token: TypeToken,
    /// Its base class; id zero for none.
    pub parent: Class<'rt>,
    /// Its type arguments.
    pub type_arguments: Vec<Class<'rt>>,
}

/// A function, from [`Runtime::function`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionFacts<'rt> {
    /// Its class; id zero where the runtime needs a frame to decide, as for code that generic classes share.
    pub class: Class<'rt>,
    /// The module that defines it.
    pub module: Module<'rt>,
    /// Its token in that module.
    pub token: MethodToken,
    /// Its own type arguments.
    pub type_arguments: Vec<Class<'rt>>,
}

/// One runtime of the process, with the calls that callbacks may make.
#[derive(Debug)]
pub struct Runtime<'rt> {
    pub(super) info: Info<Attached, Alive>,
    pub(super) common: Arc<Common>,
    pub(super) brand: Brand<'rt>,
}

impl<'rt> Runtime<'rt> {
    /// Version and kind of the runtime.
    pub fn information(&self) -> Result<RuntimeInformation, HResult> {
        self.info.get_runtime_information()
    }

    /// Replaces the event mask.
    ///
    /// A [`LiveSet`](super::LiveSet) misses events that are not requested. Make a new one when you request them again.
    /// The runtime refuses `AttachMask::GC` later than `attach` if it collects concurrently.
    pub fn set_events(&self, events: impl Into<Events>) -> Result<(), HResult> {
        let events = events.into();
        self.info.set_event_mask2(events.low, events.high)
    }

    /// Requests the detach: `run` sees it, and the profiler detaches when `run` returns.
    ///
    /// Any callback may call it, also those of a GC, in which the runtime itself may refuse the request (contract DET-19).
    /// The detach then waits until that callback has returned.
    pub fn detach(&self) {
        self.common.change(|state| state.detaching = true);
    }

    /// Whether the detach was requested.
    pub fn is_detaching(&self) -> bool {
        self.common.state().detaching
    }

    /// A module's file, base address, assembly and kind.
    pub fn module(&self, module: Module<'rt>) -> Result<ModuleFacts<'rt>, HResult> {
        let facts = self.info.get_module_info2(module.plain())?;
        Ok(ModuleFacts { base: facts.base, path: facts.path, assembly: Id::brand(facts.assembly), flags: facts.flags })
    }

    /// A module's metadata, open until it is dropped; `None` for a module without metadata.
    pub fn metadata(&self, module: Module<'rt>) -> Result<Option<ModuleMetadata<'_>>, HResult> {
        self.info.get_module_metadata(module.plain())
    }

    /// An assembly's name, domain and manifest module.
    pub fn assembly(&self, assembly: Assembly<'rt>) -> Result<AssemblyFacts<'rt>, HResult> {
        let facts = self.info.get_assembly_info(assembly.plain())?;
        Ok(AssemblyFacts { name: facts.name, app_domain: Id::brand(facts.app_domain), module: Id::brand(facts.module) })
    }

    /// A class's module, token, base class and type arguments. Arrays return CORPROF_E_CLASSID_IS_ARRAY.
    pub fn class(&self, class: Class<'rt>) -> Result<ClassFacts<'rt>, HResult> {
        let facts = self.info.get_class_id_info2(class.plain())?;
        Ok(ClassFacts {
            module: Id::brand(facts.module),
            token: facts.token,
            parent: Id::brand(facts.parent),
            type_arguments: all_branded(&facts.type_arguments),
        })
    }

    /// A function's class, module, token and type arguments. Functions without metadata fail.
    pub fn function(&self, function: Function<'rt>) -> Result<FunctionFacts<'rt>, HResult> {
        let facts = self.info.get_function_info2(function.plain())?;
        Ok(FunctionFacts {
            class: Id::brand(facts.class),
            module: Id::brand(facts.module),
            token: facts.token,
            type_arguments: all_branded(&facts.type_arguments),
        })
    }

    /// A function's name, `Namespace.Type.Method`: the innermost type only, and no arguments.
    pub fn function_name(&self, function: Function<'rt>) -> Result<String, HResult> {
        let facts = self.function(function)?;
        let metadata = self.metadata(facts.module)?.ok_or(HResult::E_FAIL)?;
        let method = metadata.method(facts.token)?;
        let class = metadata.type_definition(method.class)?;
        Ok(format!("{}.{}", class.name, method.name))
    }

    /// The function whose code is at this address, and its version. Includes dynamic and precompiled code.
    pub fn function_at(&self, address: usize) -> Result<(Function<'rt>, Id<'rt, RejitId>), HResult> {
        let (function, rejit) = self.info.get_function_from_ip3(address)?;
        Ok((Id::brand(function), Id::brand(rejit)))
    }

    /// The operating system's id of a managed thread.
    pub fn os_thread(&self, thread: Thread<'rt>) -> Result<u32, HResult> {
        self.info.get_thread_info(thread.plain())
    }

    /// The calling managed thread.
    pub fn current_thread(&self) -> Result<Thread<'rt>, HResult> {
        self.info.get_current_thread_id().map(Id::brand)
    }

    /// The class of an object. Valid inside a GC callback or while the runtime is suspended.
    pub fn class_of(&self, object: Object<'rt>) -> Result<Class<'rt>, HResult> {
        self.info.get_class_from_object(object.plain()).map(Id::brand)
    }

    /// Every other call of an attached profiler, with plain ids.
    ///
    /// No detach undoes their effects, and no type keeps the ids of two runtimes apart. So it needs [`Irreversible`] (contract DET-22).
    /// ```compile_fail,E0061
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let _ = runtime.plain_info().set_environment_variable("A", "B", corprof::irreversible());
    /// }
    /// ```
    /// It still cannot request the detach:
    /// ```compile_fail,E0507
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let info = runtime.plain_info(corprof::irreversible());
    ///     let _ = info.request_profiler_detach(core::time::Duration::ZERO);
    /// }
    /// ```
    /// or start an EventPipe session that the resource registry does not know:
    /// ```compile_fail,E0133
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let _ = runtime.plain_info(corprof::irreversible()).event_pipe_start_session(&[]);
    /// }
    /// ```
    pub fn plain_info(&self, _word: Irreversible) -> &Info<Attached, Alive> {
        &self.info
    }

    /// Makes a plain id, such as one from a ring or a file, an id of this runtime again.
    ///
    /// # Safety
    /// The id is from this very runtime, and still alive.
    pub unsafe fn brand<T>(&self, plain: T) -> Id<'rt, T> {
        Id::brand(plain)
    }
}

fn all_branded<'rt, T: Copy>(plain: &[T]) -> Vec<Id<'rt, T>> {
    Id::brand_all(plain).to_vec()
}

/// The runtime inside `attach` or `start`: only calls whose answers are complete this early.
///
/// Enumerations come later (contract CAT-02):
/// ```compile_fail,E0599
/// fn early<'rt>(beginning: &corprof::sdk::Beginning<'rt, corprof::Attached>) {
///     let modules = beginning.modules();
/// }
/// ```
#[derive(Debug)]
pub struct Beginning<'rt, L: Loading> {
    pub(super) runtime: Runtime<'rt>,
    pub(super) own: Info<L, Alive>,
}

impl<'rt, L: Loading> Deref for Beginning<'rt, L> {
    type Target = Runtime<'rt>;

    fn deref(&self) -> &Runtime<'rt> {
        &self.runtime
    }
}

impl Beginning<'_, Startup> {
    /// Calls only for a profiler loaded at startup: hooks, and flags that forbid a detach. So it needs [`Irreversible`].
    ///
    /// An attached profiler has no such call (contract ATT-13):
    /// ```compile_fail,E0599
    /// fn hook<'rt>(beginning: &corprof::sdk::Beginning<'rt, corprof::Attached>) {
    ///     let info = beginning.startup_info(corprof::irreversible());
    /// }
    /// ```
    pub fn startup_info(&self, _word: Irreversible) -> &Info<Startup, Alive> {
        &self.own
    }
}

/// The runtime after the attach is complete.
pub struct Session<'rt> {
    pub(super) runtime: Runtime<'rt>,
    pub(super) resources: ResourceRegistry<'rt>,
    pub(super) door: OnceLock<Weak<dyn Door>>,
    pub(super) timeout: Duration,
}

impl<'rt> Deref for Session<'rt> {
    type Target = Runtime<'rt>;

    fn deref(&self) -> &Runtime<'rt> {
        &self.runtime
    }
}

/// Lends the session to a thread.
pub(super) trait Door: Send + Sync {
    fn with_session(&self, work: &mut dyn FnMut(&Session<'static>));
}

/// Why a thread, a timer or another resource was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStarted {
    /// The profiler is detaching.
    Detaching,
    /// The system's error message.
    System(String),
    /// The runtime's error.
    Runtime(HResult),
}

impl From<Detaching> for NotStarted {
    fn from(_: Detaching) -> NotStarted {
        NotStarted::Detaching
    }
}

impl core::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NotStarted::Detaching => Detaching.fmt(f),
            NotStarted::System(why) => write!(f, "the system refused: {why}; the profiler continues without it"),
            NotStarted::Runtime(code) => write!(f, "the runtime refused: {code}: {}", code.meaning()),
        }
    }
}

impl core::error::Error for NotStarted {}

/// The suspended runtime: no managed thread runs until this is dropped.
///
/// Meanwhile, wait for nothing that a managed thread may hold, and be quick: microseconds for each stack.
#[derive(Debug)]
pub struct Suspended<'session, 'rt> {
    raw: SuspendedRuntime<'session, Attached>,
    brand: Brand<'rt>,
}

impl<'rt> Session<'rt> {
    /// Every loaded module. A callback about a module outranks it: see [`LiveSet`](super::LiveSet).
    pub fn modules(&self) -> Result<impl Iterator<Item = Result<Module<'rt>, HResult>>, HResult> {
        branded(self.info.enum_modules()?)
    }

    /// Every function compiled at run time, with its version. Not functions with precompiled code, and not dynamic ones.
    pub fn compiled_functions(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Function<'rt>, Id<'rt, RejitId>), HResult>>, HResult> {
        let all = self.info.enum_jited_functions2()?;
        let both = |one: JittedFunction| (Id::<FunctionId>::brand(one.function), Id::brand(one.rejit));
        Ok(all.map(move |one| one.map(both)))
    }

    /// Every managed thread. A callback about a thread outranks it.
    pub fn threads(&self) -> Result<impl Iterator<Item = Result<Thread<'rt>, HResult>>, HResult> {
        branded(self.info.enum_threads()?)
    }

    /// Forces a GC, and returns when it has ended. Not from a callback. The calling thread counts as a runtime thread afterwards.
    pub fn collect(&self) -> Result<(), HResult> {
        self.info.force_gc()
    }

    /// Suspends all managed threads. CORPROF_E_SUSPENSION_IN_PROGRESS: another suspension is under way; try again.
    pub fn suspend(&self) -> Result<Suspended<'_, 'rt>, HResult> {
        Ok(Suspended { raw: self.info.suspend_runtime()?, brand: PhantomData })
    }

    /// Waits for this time, or until the detach is requested. Returns whether the profiler may continue.
    pub fn pause(&self, time: Duration) -> bool {
        !self.common.wait(Some(time), |state| state.detaching)
    }

    /// Waits until the detach is requested.
    pub fn wait_for_detach_request(&self) {
        self.common.wait(None, |state| state.detaching);
    }

    /// Starts a thread. It must end when [`is_detaching`](Runtime::is_detaching) is true; the SDK joins it before the detach request.
    ///
    /// The system shows `name`, cut to 15 bytes. A panic ends the thread, not the target.
    pub fn start_thread(
        &self,
        name: &str,
        work: impl FnOnce(&Session<'rt>) + Send + 'rt,
    ) -> Result<ResourceHandle<'rt>, NotStarted> {
        let door = self.door.get().cloned().ok_or(NotStarted::Detaching)?;
        let over = Arc::new(AtomicBool::new(false));
        let flag = OverFlag(Arc::clone(&over));
        let mut work = Some(work);
        let work: Box<dyn FnMut(&Session<'rt>) + Send + 'rt> = Box::new(move |session| {
            if let Some(work) = work.take() {
                work(session);
            }
        });
        // SAFETY: only this crate makes a `Session<'rt>`, always with `'rt` = `'static` (`Adapter::begin`). Authors cannot see that.
        let mut work: Box<dyn FnMut(&Session<'static>) + Send> = unsafe { core::mem::transmute(work) };
        self.resources.register(name, || {
            let main = move || {
                let _flag = flag;
                if let Some(door) = door.upgrade() {
                    door.with_session(&mut *work);
                }
                drop(work);
            };
            let handle = thread::start(name, main).map_err(NotStarted::System)?;
            Ok(Resource::Thread { handle: Some(handle), over })
        })
    }

    /// Starts an EventPipe session. Its events arrive in `event_pipe_event_delivered`, on the threads that write them. Needs .NET 5.
    pub fn start_event_pipe(
        &self,
        name: &str,
        providers: &[ProviderConfig],
    ) -> Result<(ResourceHandle<'rt>, Id<'rt, SessionId>), NotStarted> {
        let mut id = SessionId(0);
        let ticket = self.resources.register(name, || {
            // SAFETY: the session is registered from here on, and `AllClosed` exists only after it is stopped.
            id = unsafe { self.info.event_pipe_start_session(providers) }.map_err(NotStarted::Runtime)?;
            Ok::<_, NotStarted>(Resource::EventPipe(id))
        })?;
        Ok((ticket, Id::brand(id)))
    }

    /// Registers another component's hook that calls the profiler. `close` removes the hook, and returns an error if it could not.
    pub fn register_hook(&self, name: &str, close: CloseHook) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Hook(close)))
    }

    /// Handles a signal that has no handler yet; choose a real-time one.
    ///
    /// # Safety
    /// The handler is async-signal-safe: it does not allocate, lock or panic, and keeps `errno`.
    pub unsafe fn handle_signal(
        &self,
        name: &str,
        number: i32,
        handler: SignalHandler,
    ) -> Result<ResourceHandle<'rt>, NotStarted> {
        let take = || TakenSignal::take(number, handler).map(Resource::Signal).map_err(NotStarted::System);
        self.resources.register(name, take)
    }

    /// Registers a POSIX timer, which is deleted before the detach.
    ///
    /// # Safety
    /// The timer belongs to this profiler, and no other code deletes it.
    pub unsafe fn register_timer(&self, name: &str, timer: libc::timer_t) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Timer(timer)))
    }

    /// Registers a child process. The SDK kills and reaps it before the detach.
    ///
    /// # Safety
    /// The child belongs to this profiler. It is not reaped yet, and no other code will reap it.
    pub unsafe fn register_child(&self, name: &str, pid: libc::pid_t) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Child(pid)))
    }

    /// Closes a resource early. A thread must not close itself, and no callback may close the EventPipe session that it runs for.
    pub fn close(&self, ticket: ResourceHandle<'rt>) -> Result<(), CloseError> {
        self.resources.close(ticket, &self.info, self.timeout)
    }

    /// The open resources.
    pub fn open_resources(&self) -> Vec<OpenResource> {
        self.resources.open()
    }
}

fn branded<'rt, 's, T: Enumerated>(
    all: crate::Enumeration<'s, T>,
) -> Result<impl Iterator<Item = Result<Id<'rt, T>, HResult>> + use<'rt, 's, T>, HResult> {
    Ok(all.map(|one| one.map(Id::brand)))
}

/// Marks a thread as ended when dropped, even by a panic.
struct OverFlag(Arc<AtomicBool>);

impl Drop for OverFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'rt> Suspended<'_, 'rt> {
    /// Every managed thread; none can end while suspended. .NET 9.0.0 deadlocks here; later updates do not (dotnet/runtime#110062).
    pub fn threads(&self) -> Result<impl Iterator<Item = Result<Thread<'rt>, HResult>>, HResult> {
        let all = self.raw.info().enum_threads()?;
        branded::<ThreadId>(all)
    }

    /// Walks a thread's stack from the leaf. `frame` gets the function and the address in it; `None` for native and dynamic code.
    ///
    /// Needs `AttachMask::STACK_SNAPSHOT`. Expect CORPROF_E_STACKSNAPSHOT_UNSAFE. A panic in `frame` ends the walk.
    pub fn walk(
        &self,
        thread: Thread<'rt>,
        mut frame: impl FnMut(Option<Function<'rt>>, usize) -> ControlFlow<()>,
    ) -> Result<(), HResult> {
        self.raw.do_stack_snapshot(thread.plain(), &mut |function, address| {
            frame((function.0 != 0).then_some(Id::brand(function)), address)
        })
    }
}
