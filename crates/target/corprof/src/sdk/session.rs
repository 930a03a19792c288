//! What a profiler's author asks the runtime, by what is allowed when: [`Beginning`], then [`Runtime`] in callbacks and [`Session`] after.
//!
//! | type | where | beyond the row above |
//! |---|---|---|
//! | [`Beginning`] | inside `attach` and `start` | the look-ups of `Runtime` |
//! | [`Runtime`] | inside callbacks | change what is wanted, ask for the end |
//! | [`Session`] | from the completed attach on | enumerate, stop the runtime, collect, start threads and sessions of events |
//!
//! They are lent, never given: none can be kept beyond the call, so none is there after the detach.

use super::adapter::Door;
use super::common::Common;
use super::id::{Assembly, Brand, Class, Function, Id, Module, Object, Thread};
use super::resource::{CloseHook, Resource, SignalHandler, TakenSignal};
use super::resource_registry::{CloseError, Detaching, OpenResource, ResourceHandle, ResourceRegistry};
use super::thread::OwnThread;
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

/// Which callbacks are wanted: both halves of the event mask, of what may be wanted and still detach.
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

/// A module, as [`Runtime::module`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFacts<'rt> {
    /// Where it lies in memory, in bytes; zero for a module without an image.
    pub base: usize,
    /// The file that it came from; a name, or nothing, for a module without one.
    pub path: String,
    /// The assembly that it belongs to; of the number zero until it is attached to one.
    pub assembly: Assembly<'rt>,
    /// What kind of module.
    pub flags: ModuleFlags,
}

/// An assembly, as [`Runtime::assembly`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssemblyFacts<'rt> {
    /// Its simple name.
    pub name: String,
    /// Its application domain.
    pub app_domain: Id<'rt, AppDomainId>,
    /// Its module that holds the manifest.
    pub module: Module<'rt>,
}

/// A class, as [`Runtime::class`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFacts<'rt> {
    /// The module that defines it.
    pub module: Module<'rt>,
    /// Its row there.
    pub token: TypeToken,
    /// The class that it extends; of the number zero for none.
    pub parent: Class<'rt>,
    /// Its type arguments.
    pub type_arguments: Vec<Class<'rt>>,
}

/// A function, as [`Runtime::function`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionFacts<'rt> {
    /// Its class; of the number zero where the runtime cannot say without a frame, as for code that generic classes share.
    pub class: Class<'rt>,
    /// The module that defines it.
    pub module: Module<'rt>,
    /// Its row there.
    pub token: MethodToken,
    /// Its own type arguments.
    pub type_arguments: Vec<Class<'rt>>,
}

/// One runtime of the process, as callbacks may ask it.
#[derive(Debug)]
pub struct Runtime<'rt> {
    pub(super) info: Info<Attached, Alive>,
    pub(super) common: Arc<Common>,
    pub(super) brand: Brand<'rt>,
}

impl<'rt> Runtime<'rt> {
    /// Which runtime it is.
    pub fn information(&self) -> Result<RuntimeInformation, HResult> {
        self.info.get_runtime_information()
    }

    /// Replaces what is wanted. What comes while it is not wanted no [`LiveSet`](super::LiveSet) hears of: take a new one when it is wanted again.
    ///
    /// The runtime refuses `AttachMask::GC` if it was not wanted from the beginning and collects concurrently.
    pub fn set_events(&self, events: impl Into<Events>) -> Result<(), HResult> {
        let events = events.into();
        self.info.set_event_mask2(events.low, events.high)
    }

    /// Asks the profiler to leave: `run` is told so, and detaches when it returns.
    pub fn detach(&self) {
        self.common.change(|state| state.detaching = true);
    }

    /// Whether the profiler has been asked to leave.
    pub fn is_detaching(&self) -> bool {
        self.common.state().detaching
    }

    /// A module's file, place, assembly and kind.
    pub fn module(&self, module: Module<'rt>) -> Result<ModuleFacts<'rt>, HResult> {
        let facts = self.info.get_module_info2(module.plain())?;
        Ok(ModuleFacts { base: facts.base, path: facts.path, assembly: Id::brand(facts.assembly), flags: facts.flags })
    }

    /// The metadata of a module, open until the answer is dropped; `None` for a module that has none.
    pub fn metadata(&self, module: Module<'rt>) -> Result<Option<ModuleMetadata<'_>>, HResult> {
        self.info.get_module_metadata(module.plain())
    }

    /// An assembly's name, domain and main module.
    pub fn assembly(&self, assembly: Assembly<'rt>) -> Result<AssemblyFacts<'rt>, HResult> {
        let facts = self.info.get_assembly_info(assembly.plain())?;
        Ok(AssemblyFacts { name: facts.name, app_domain: Id::brand(facts.app_domain), module: Id::brand(facts.module) })
    }

    /// A class's module, row, parent and type arguments. Arrays answer CORPROF_E_CLASSID_IS_ARRAY.
    pub fn class(&self, class: Class<'rt>) -> Result<ClassFacts<'rt>, HResult> {
        let facts = self.info.get_class_id_info2(class.plain())?;
        Ok(ClassFacts {
            module: Id::brand(facts.module),
            token: facts.token,
            parent: Id::brand(facts.parent),
            type_arguments: all_branded(&facts.type_arguments),
        })
    }

    /// A function's class, module, row and type arguments. Functions without metadata fail.
    pub fn function(&self, function: Function<'rt>) -> Result<FunctionFacts<'rt>, HResult> {
        let facts = self.info.get_function_info2(function.plain())?;
        Ok(FunctionFacts {
            class: Id::brand(facts.class),
            module: Id::brand(facts.module),
            token: facts.token,
            type_arguments: all_branded(&facts.type_arguments),
        })
    }

    /// A function in words, `Namespace.Type.Method`; the innermost type only, and no arguments.
    pub fn function_name(&self, function: Function<'rt>) -> Result<String, HResult> {
        let facts = self.function(function)?;
        let metadata = self.metadata(facts.module)?.ok_or(HResult::E_FAIL)?;
        let method = metadata.method(facts.token)?;
        let class = metadata.type_definition(method.class)?;
        Ok(format!("{}.{}", class.name, method.name))
    }

    /// Whose code is at this address, dynamic and precompiled code too, and which version of it.
    pub fn function_at(&self, address: usize) -> Result<(Function<'rt>, Id<'rt, RejitId>), HResult> {
        let (function, rejit) = self.info.get_function_from_ip3(address)?;
        Ok((Id::brand(function), Id::brand(rejit)))
    }

    /// The system's id of a managed thread.
    pub fn os_thread(&self, thread: Thread<'rt>) -> Result<u32, HResult> {
        self.info.get_thread_info(thread.plain())
    }

    /// The managed thread that calls.
    pub fn current_thread(&self) -> Result<Thread<'rt>, HResult> {
        self.info.get_current_thread_id().map(Id::brand)
    }

    /// The class of an object, good inside a callback of the collection or while the runtime stands.
    pub fn class_of(&self, object: Object<'rt>) -> Result<Class<'rt>, HResult> {
        self.info.get_class_from_object(object.plain()).map(Id::brand)
    }

    /// Everything else that an attached profiler may ask, with plain ids. What is done there no detach undoes by itself,
    /// and no type keeps one runtime's ids from another: hence the word (contract DET-22).
    ///
    /// ```compile_fail,E0061
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let _ = runtime.plain_info().set_environment_variable("A", "B", corprof::irreversible());
    /// }
    /// ```
    /// Even so the detach cannot be asked for:
    /// ```compile_fail,E0507
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let info = runtime.plain_info(corprof::irreversible());
    ///     let _ = info.request_profiler_detach(core::time::Duration::ZERO);
    /// }
    /// ```
    /// nor a session of events be started that the register does not know:
    /// ```compile_fail,E0133
    /// fn ask<'rt>(runtime: &corprof::sdk::Runtime<'rt>) {
    ///     let _ = runtime.plain_info(corprof::irreversible()).event_pipe_start_session(&[]);
    /// }
    /// ```
    pub fn plain_info(&self, _word: Irreversible) -> &Info<Attached, Alive> {
        &self.info
    }

    /// Makes a plain id one of this runtime again, as from a ring or a file.
    ///
    /// # Safety
    /// It is one of this very runtime, and still alive.
    pub unsafe fn brand<T>(&self, plain: T) -> Id<'rt, T> {
        Id::brand(plain)
    }
}

fn all_branded<'rt, T: Copy>(plain: &[T]) -> Vec<Id<'rt, T>> {
    Id::brand_all(plain).to_vec()
}

/// The runtime inside `attach` or `start`: what it says about itself, and nothing that would have holes yet.
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
    /// What only a profiler that is loaded with the process may do: hooks, and flags that forbid a detach; hence the word.
    ///
    /// One that attaches has no such thing (contract ATT-13):
    /// ```compile_fail,E0599
    /// fn hook<'rt>(beginning: &corprof::sdk::Beginning<'rt, corprof::Attached>) {
    ///     let info = beginning.startup_info(corprof::irreversible());
    /// }
    /// ```
    pub fn startup_info(&self, _word: Irreversible) -> &Info<Startup, Alive> {
        &self.own
    }
}

/// The runtime from the completed attach on.
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

/// Why a thread, a timer or the like was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStarted {
    /// The profiler is leaving.
    Detaching,
    /// The system, in words.
    System(String),
    /// The runtime.
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
            NotStarted::System(why) => write!(f, "the system refuses: {why}; the profiler goes on without it"),
            NotStarted::Runtime(code) => write!(f, "the runtime refuses: {code}: {}", code.meaning()),
        }
    }
}

impl core::error::Error for NotStarted {}

/// The runtime, standing: no managed thread runs until this is dropped.
///
/// Meanwhile wait for nothing that a managed thread may hold, and be quick: microseconds for each stack.
#[derive(Debug)]
pub struct Suspended<'session, 'rt> {
    raw: SuspendedRuntime<'session, Attached>,
    brand: Brand<'rt>,
}

impl<'rt> Session<'rt> {
    /// Every module that is loaded. A callback about one outranks it: see [`LiveSet`](super::LiveSet).
    pub fn modules(&self) -> Result<impl Iterator<Item = Result<Module<'rt>, HResult>>, HResult> {
        branded(self.info.enum_modules()?)
    }

    /// Every function that was compiled at run time; none that runs precompiled code, and no dynamic one. With its version.
    pub fn compiled_functions(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Function<'rt>, Id<'rt, RejitId>), HResult>>, HResult> {
        let all = self.info.enum_jited_functions2()?;
        let both = |one: JittedFunction| (Id::<FunctionId>::brand(one.function), Id::brand(one.rejit));
        Ok(all.map(move |one| one.map(both)))
    }

    /// Every managed thread. A callback about one outranks it.
    pub fn threads(&self) -> Result<impl Iterator<Item = Result<Thread<'rt>, HResult>>, HResult> {
        branded(self.info.enum_threads()?)
    }

    /// Collects, and returns when the collection is over. Not from a callback. The thread counts as one of the runtime's afterwards.
    pub fn collect(&self) -> Result<(), HResult> {
        self.info.force_gc()
    }

    /// Stops all managed threads. CORPROF_E_SUSPENSION_IN_PROGRESS says that somebody else is stopping them: ask again.
    pub fn suspend(&self) -> Result<Suspended<'_, 'rt>, HResult> {
        Ok(Suspended { raw: self.info.suspend_runtime()?, brand: PhantomData })
    }

    /// Waits so long, or until the profiler is asked to leave. Whether it is to go on.
    pub fn pause(&self, time: Duration) -> bool {
        !self.common.wait(Some(time), |state| state.detaching)
    }

    /// Waits until the profiler is asked to leave.
    pub fn wait_for_detach_request(&self) {
        self.common.wait(None, |state| state.detaching);
    }

    /// Starts a thread. It is to end when [`is_detaching`](Runtime::is_detaching) says so, and is joined before the detach is asked for.
    ///
    /// `name` is what the system shows, cut to 15 bytes. A panic ends the thread, not the target.
    pub fn start_thread(
        &self,
        name: &str,
        work: impl FnOnce(&Session<'rt>) + Send + 'rt,
    ) -> Result<ResourceHandle<'rt>, NotStarted> {
        let door = self.door.get().cloned().ok_or(NotStarted::Detaching)?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Told(Arc::clone(&over));
        let mut work = Some(work);
        let work: Box<dyn FnMut(&Session<'rt>) + Send + 'rt> = Box::new(move |session| {
            if let Some(work) = work.take() {
                work(session);
            }
        });
        // SAFETY: only this crate makes a `Session<'rt>`, and `'rt` is `'static` in each (`Core::begin`); authors cannot know it.
        let mut work: Box<dyn FnMut(&Session<'static>) + Send> = unsafe { core::mem::transmute(work) };
        self.resources.register(name, || {
            let main = move || {
                let _told = told;
                if let Some(door) = door.upgrade() {
                    door.with_session(&mut *work);
                }
                drop(work);
            };
            let handle = OwnThread::start(name, Box::new(main)).map_err(NotStarted::System)?;
            Ok(Resource::Thread { handle: Some(handle), over })
        })
    }

    /// Starts a session of the runtime's own events, which arrive in `event_pipe_event_delivered` on the threads that write them.
    /// Needs .NET 5.
    pub fn start_event_pipe(
        &self,
        name: &str,
        providers: &[ProviderConfig],
    ) -> Result<(ResourceHandle<'rt>, Id<'rt, SessionId>), NotStarted> {
        let mut id = SessionId(0);
        let ticket = self.resources.register(name, || {
            // SAFETY: it is in the register from here on, and `AllClosed` is not made before it is stopped.
            id = unsafe { self.info.event_pipe_start_session(providers) }.map_err(NotStarted::Runtime)?;
            Ok::<_, NotStarted>(Resource::EventPipe(id))
        })?;
        Ok((ticket, Id::brand(id)))
    }

    /// Registers something in another component that calls the profiler; `close` is asked to end that, and says whether it has.
    pub fn register_hook(&self, name: &str, close: CloseHook) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Hook(close)))
    }

    /// Handles a signal that nobody handles yet; take a real-time one.
    ///
    /// # Safety
    /// The handler is safe in a signal: it neither allocates nor locks nor panics, and keeps `errno`.
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
    /// The timer is this profiler's, and nobody else deletes it.
    pub unsafe fn register_timer(&self, name: &str, timer: libc::timer_t) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Timer(timer)))
    }

    /// Registers a child process, which is killed and waited for before the detach.
    ///
    /// # Safety
    /// The child is this profiler's, nobody has waited for it, and nobody else will.
    pub unsafe fn register_child(&self, name: &str, pid: libc::pid_t) -> Result<ResourceHandle<'rt>, NotStarted> {
        self.resources.register(name, || Ok(Resource::Child(pid)))
    }

    /// Closes what was started, before the end. Not from a thread about itself, nor an EventPipe session from inside its events.
    pub fn close(&self, ticket: ResourceHandle<'rt>) -> Result<(), CloseError> {
        self.resources.close(ticket, &self.info, self.timeout)
    }

    /// What is registered and open.
    pub fn open_resources(&self) -> Vec<OpenResource> {
        self.resources.open()
    }
}

fn branded<'rt, 's, T: Enumerated>(
    all: crate::Enumeration<'s, T>,
) -> Result<impl Iterator<Item = Result<Id<'rt, T>, HResult>> + use<'rt, 's, T>, HResult> {
    Ok(all.map(|one| one.map(Id::brand)))
}

/// Tells that a thread is over, even by a panic.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'rt> Suspended<'_, 'rt> {
    /// Every managed thread, which cannot end meanwhile. .NET 9.0.0 deadlocks here; later updates do not (dotnet/runtime#110062).
    pub fn threads(&self) -> Result<impl Iterator<Item = Result<Thread<'rt>, HResult>>, HResult> {
        let all = self.raw.info().enum_threads()?;
        branded::<ThreadId>(all)
    }

    /// Walks a thread's stack from the leaf: the function of each frame, `None` for native and dynamic code, and the address in it.
    ///
    /// Needs `AttachMask::STACK_SNAPSHOT`. CORPROF_E_STACKSNAPSHOT_UNSAFE is to be expected; a panic in `frame` ends the walk.
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
