//! The callbacks of a correct profiler, and the place of each fault in them.

use crate::fault::{Fault, fault};
use crate::shared::{Shared, never_return};
use crate::{ends, habits, own_metadata, own_thread, refused_attach, rejit};
use corprof::{
    Alive, Attached, FunctionId, HResult, Info, MethodToken, ModuleId, ObjectId, ProfilerCallback, RejitId, Startup,
    sys,
};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

/// COR_PRF_MONITOR_MODULE_LOADS.
const MODULE_LOADS: u32 = 0x4;
/// COR_PRF_MONITOR_ENTERLEAVE, which is forbidden for attached profilers.
const ENTER_LEAVE: u32 = 0x1000;
/// COR_PRF_MONITOR_GC.
const COLLECTIONS: u32 = 0x80;
/// COR_PRF_ENABLE_REJIT.
const REJIT: u32 = 0x4_0000;
/// COR_PRF_MONITOR_EXCEPTIONS.
const EXCEPTIONS: u32 = 0x40;
/// The variable of [`Fault::WantsVariable`].
const VARIABLE: &str = "REMORA_TEST_OF_THE_LAB";
/// Client data that no command line can pass.
const NO_TEXT: &[u8] = &[0xFF, 0, 0xFE];
/// More than any process of a test has.
const DESCRIPTORS: c_int = 1024;
/// More than a pipe holds.
const LOUD_LINES: usize = 100_000;
/// Microseconds.
const BETWEEN_QUESTIONS: u32 = 200;
/// For [`Fault::CrashesAfterShutdown`].
static IS_SHUT_DOWN: AtomicBool = AtomicBool::new(false);
/// The client data of [`Fault::KeepsClientData`].
static CLIENT_DATA: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// A time that a timer never reaches in a test, seconds.
const AN_HOUR: libc::time_t = 3600;

/// The profiler.
#[derive(Default)]
pub struct Profiler(Arc<Shared>);

impl Profiler {
    fn info(&self) -> *mut sys::ICorProfilerInfo {
        self.0.info()
    }

    /// Requests the detach once, in the current callback.
    fn leave(&self) {
        let stays = matches!(
            fault(),
            Fault::Stays
                | Fault::LeavesSuspended
                | Fault::HangsInShutdown
                | Fault::SlowShutdown
                | Fault::CrashesAfterShutdown
                | Fault::CrashesInShutdown
                | Fault::OwnThread
                | Fault::HangsAtOwnUnload
                | Fault::HangsAtExit
                | Fault::EndsAtExit
                | Fault::EndsOnOwnThread
                | Fault::LoadsInShutdown
                | Fault::LeavesExitHandler
                | Fault::OnlyNotified
                | Fault::DetachesLate
                | Fault::DetachesUnheard
                | Fault::UsesObjectAfterDetach
                | Fault::CallsAfterSealing
                | Fault::AsksWithoutReference
                | Fault::NeverReturns
                | Fault::HangsBesideSleeper
                | Fault::WaitsAfterRefusal
                | Fault::SignalsThreads
                | Fault::PairsSignals
                | Fault::FiltersOwnThreads
                | Fault::WantsList
                | Fault::WatchesExceptions
                | Fault::StartsSessionInException
        );
        if !stays
            && !rejit::is_wanted()
            && habits::may_ask()
            && self.0.completed.load(Ordering::SeqCst)
            && !self.0.asked.swap(true, Ordering::SeqCst)
        {
            habits::asks();
            own_thread::ask(self.info());
            habits::has_asked();
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        match fault() {
            Fault::FreesAtRelease => refused_attach::free(),
            Fault::ForbidsMemory => habits::forbid_memory(),
            Fault::UsesObjectAfterDetach => own_thread::MEMBER.store(null_mut(), Ordering::SeqCst),
            _ => {}
        }
    }
}

impl ProfilerCallback for Profiler {
    fn load_as_notification_only(&self) -> bool {
        if fault() == Fault::HangsBeforeAttach {
            never_return();
        }
        matches!(fault(), Fault::OnlyNotified | Fault::DetachesUnheard)
    }

    fn initialize(&self, info: Info<Startup, Alive>) -> Result<(), HResult> {
        let raw = info.as_raw();
        self.0.info.store(raw, Ordering::SeqCst);
        let mask = if fault() == Fault::SetsRejit { MODULE_LOADS | REJIT } else { MODULE_LOADS };
        match fault() {
            Fault::DoesNothing => return Ok(()),
            Fault::RefusesAttach => return Err(HResult::E_FAIL),
            Fault::RefusesWithThread => return Err(refused_attach::refuse()),
            Fault::HangsInInitialize => never_return(),
            _ => {}
        }
        // SAFETY: the runtime keeps Info valid until it accepts a detach.
        unsafe { sys::ICorProfilerInfo5::SetEventMask2(raw.cast(), mask, 0) };
        match fault() {
            Fault::OwnThread | Fault::AsksWithoutReference => own_thread::start(&self.0),
            Fault::LeavesTimer => leave_timer(),
            _ => {}
        }
        // No ProfilerAttachComplete follows.
        self.0.completed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn initialize_for_attach(&self, info: Info<Attached, Alive>, client_data: &[u8]) -> Result<(), HResult> {
        let raw = info.as_raw();
        if matches!(fault(), Fault::DoesNothing | Fault::OnlyFromStart) {
            return Ok(());
        }
        self.0.info.store(raw, Ordering::SeqCst);
        // SAFETY: the runtime keeps Info valid until it accepts a detach.
        unsafe { sys::ICorProfilerInfo5::SetEventMask2(raw.cast(), MODULE_LOADS, 0) };
        if rejit::is_wanted() {
            // SAFETY: the runtime keeps Info valid until it accepts a detach.
            let answer = unsafe { sys::ICorProfilerInfo5::SetEventMask2(raw.cast(), MODULE_LOADS | rejit::MASK, 0) };
            return HResult(answer).ok();
        }
        match fault() {
            Fault::RefusesAttach => return Err(HResult::E_FAIL),
            Fault::JoinsBeforeRefusal
            | Fault::JoinsAtUnload
            | Fault::RefusesWithThread
            | Fault::RefusesWithSleeper
            | Fault::RefusesWithHolder
            | Fault::RefusesAndFrees
            | Fault::FreesAtRelease => return Err(refused_attach::refuse()),
            Fault::EnumeratesEarly => drop(info.enum_modules()),
            Fault::ForbiddenFlags => {
                // SAFETY: the runtime keeps Info valid until it accepts a detach.
                unsafe { sys::ICorProfilerInfo::SetEventMask(raw, MODULE_LOADS | ENTER_LEAVE) };
            }
            Fault::SetsRejit => {
                // SAFETY: the runtime keeps Info valid until it accepts a detach.
                unsafe { sys::ICorProfilerInfo::SetEventMask(raw, MODULE_LOADS | REJIT) };
            }
            // SAFETY: the runtime keeps Info valid until it accepts a detach.
            Fault::WatchesCollections | Fault::WantsList => unsafe {
                let answer = sys::ICorProfilerInfo::SetEventMask(raw, MODULE_LOADS | COLLECTIONS);
                return HResult(answer).ok();
            },
            // SAFETY: the runtime keeps Info valid until it accepts a detach.
            Fault::WatchesExceptions | Fault::StartsSessionInException => unsafe {
                let answer = sys::ICorProfilerInfo::SetEventMask(raw, MODULE_LOADS | EXCEPTIONS);
                return HResult(answer).ok();
            },
            Fault::WantsVariable if !has_variable(raw) => return Err(HResult::E_FAIL),
            Fault::WantsInherited if !inherits_variable() => return Err(HResult::E_FAIL),
            Fault::KeepsClientData => CLIENT_DATA.store(client_data.as_ptr().cast_mut(), Ordering::SeqCst),
            Fault::WantsClientData => {
                let is_own = client_data == std::process::id().to_string().as_bytes();
                return if is_own || client_data == NO_TEXT { Ok(()) } else { Err(HResult::E_INVALIDARG) };
            }
            Fault::DetachesUnheard => own_thread::start(&self.0),
            Fault::HangsBesideSleeper => leave_sleeper(),
            Fault::LeavesThread => leave_thread(),
            Fault::HidesThread => {
                leave_thread();
                habits::take_all_descriptors();
            }
            Fault::LeavesTimer => leave_timer(),
            Fault::LeavesIntervalTimer => leave_interval_timer(),
            Fault::AsksForEver => ask_for_ever(raw),
            Fault::LeavesHandler => leave_handler(),
            Fault::LeavesChild => leave_child(),
            Fault::LeavesSibling => leave_sibling(),
            Fault::LeavesDaemon => leave_daemon(),
            Fault::IsTraced => be_traced(),
            // SAFETY: takes no pointers. It stops the process, which is the fault.
            Fault::Stops => _ = unsafe { libc::raise(libc::SIGSTOP) },
            Fault::WritesToStdout => write(1, b"{\"not\": \"ours\"}\n"),
            // SAFETY: takes numbers only. The descriptors belong to others, which is the fault.
            Fault::ClosesDescriptors => (0..DESCRIPTORS).for_each(|number| _ = unsafe { libc::close(number) }),
            Fault::StartsProcess => start_process(),
            // SAFETY: both go on, which is the fault.
            Fault::Forks => _ = unsafe { libc::fork() },
            Fault::CrashesLoudly => {
                (0..LOUD_LINES).for_each(|_| write(2, b"noise\n"));
                write(2, b"last \x1b[31mwords\xff\n");
            }
            Fault::LeavesExitHandler => leave_exit_handler(),
            Fault::LeavesDescriptor => leave_descriptor(),
            Fault::PinsLibrary => drop(own_thread::pin_library()),
            Fault::MisalignsPlace => ask_with_odd_addresses(raw),
            Fault::EndsOnOwnThread | Fault::LoadsInShutdown | Fault::NeedsCppLibrary => ends::begin(client_data),
            _ => habits::begin(),
        }
        Ok(())
    }

    fn profiler_attach_complete(&self) {
        match fault() {
            Fault::OwnThread
            | Fault::HangsAtOwnUnload
            | Fault::OnlyNotified
            | Fault::CallsAfterSealing
            | Fault::UsesObjectAfterDetach
            | Fault::AsksWithoutReference
            | Fault::LeavesExitHandler
            | Fault::DetachesLate => own_thread::start(&self.0),
            // SAFETY: the runtime keeps Info valid until it accepts a detach; every Core has the slot.
            Fault::LeavesSuspended => _ = unsafe { sys::ICorProfilerInfo10::SuspendRuntime(self.info().cast()) },
            Fault::LoadsClass => own_metadata::load_class(self.info()),
            Fault::LeavesSession => start_session(self.info()),
            Fault::SetsVariable => set_variable(self.info()),
            Fault::LeavesProvider => create_provider(self.info()),
            Fault::IgnoresRefusal | Fault::WaitsAfterRefusal => {
                // SAFETY: the runtime keeps Info valid until it accepts a detach.
                unsafe { sys::ICorProfilerInfo::SetEventMask(self.info(), MODULE_LOADS | COLLECTIONS) };
                if fault() == Fault::IgnoresRefusal {
                    // SAFETY: the runtime keeps Info valid until it accepts a detach.
                    unsafe { sys::ICorProfilerInfo::ForceGC(self.info()) };
                }
            }
            Fault::KeepsEnumerator => {
                let mut modules = null_mut();
                // SAFETY: the runtime keeps Info valid until it accepts a detach; `modules` is valid for writing.
                unsafe { sys::ICorProfilerInfo3::EnumModules(self.info().cast(), &mut modules) };
            }
            _ => {}
        }
        self.0.completed.store(true, Ordering::SeqCst);
    }

    fn exception_thrown(&self, exception: ObjectId) {
        let mut class = 0;
        match fault() {
            // SAFETY: the runtime keeps Info valid until it accepts a detach; the exception stays where it is until this callback returns.
            Fault::WatchesExceptions => unsafe {
                // As long as a busy machine may interrupt the thread anywhere.
                libc::usleep(BETWEEN_QUESTIONS);
                sys::ICorProfilerInfo::GetClassFromObject(self.info(), exception.0, &raw mut class);
            },
            Fault::StartsSessionInException => start_session(self.info()),
            _ => {}
        }
    }

    fn module_load_started(&self, _: ModuleId) {
        if matches!(fault(), Fault::NeverReturns | Fault::HangsBesideSleeper) {
            never_return();
        }
        habits::module_loads();
    }

    fn module_load_finished(&self, module: ModuleId, _: HResult) {
        match fault() {
            Fault::OpensMetadata => own_metadata::open(self.info(), module.0),
            // SAFETY: none: the invalid write is the fault.
            Fault::Crashes | Fault::CrashesLoudly => unsafe {
                std::ptr::without_provenance_mut::<u32>(8).write_volatile(1)
            },
            // SAFETY: none: the invalid write is the fault.
            Fault::CrashesAfterShutdown if IS_SHUT_DOWN.load(Ordering::SeqCst) => unsafe {
                std::ptr::without_provenance_mut::<u32>(8).write_volatile(1)
            },
            // SAFETY: takes no pointers. It ends the process, which is the fault.
            Fault::Exits => unsafe { libc::_exit(7) },
            // SAFETY: none: the runtime has freed this memory, which is the fault.
            Fault::KeepsClientData => _ = unsafe { CLIENT_DATA.load(Ordering::SeqCst).read_volatile() },
            _ => habits::module_has_loaded(),
        }
    }

    fn module_unload_finished(&self, module: ModuleId, _: HResult) {
        if fault() == Fault::StaleId {
            let mut length = 0;
            // SAFETY: unsound in a real process: the id is stale, which is the fault.
            unsafe {
                sys::ICorProfilerInfo3::GetModuleInfo2(
                    self.info().cast(),
                    module.0,
                    null_mut(),
                    0,
                    &mut length,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                )
            };
        }
        if fault() == Fault::StaleIdFirstForm {
            // SAFETY: unsound in a real process: the id is stale, which is the fault.
            unsafe {
                let (info, no) = (self.info(), null_mut);
                sys::ICorProfilerInfo::GetModuleInfo(info, module.0, null_mut(), 0, null_mut(), null_mut(), no())
            };
        }
        habits::module_has_unloaded(self.info());
        if fault() == Fault::RejitsUnloaded {
            rejit::wrong_moment(self.info(), module);
        }
        self.leave();
    }

    fn runtime_suspend_finished(&self) {
        if fault() == Fault::RejitsInSuspension {
            rejit::wrong_moment(self.info(), ModuleId(0));
        }
    }

    fn jit_compilation_finished(&self, function: FunctionId, _: HResult, _: bool) {
        if rejit::is_wanted() {
            rejit::compiled(self.info(), function);
        }
    }

    fn rejit_parameters(
        &self,
        module: ModuleId,
        method: MethodToken,
        control: *mut sys::ICorProfilerFunctionControl,
    ) -> Result<(), HResult> {
        rejit::give_body(self.info(), (module, method), control)
    }

    fn rejit_compilation_started(&self, _: FunctionId, _: RejitId, _: bool) {
        if fault() == Fault::GivesBodyTooLate {
            rejit::give_late_body();
        }
    }

    fn rejit_compilation_finished(&self, function: FunctionId, _: RejitId, _: HResult, _: bool) {
        rejit::compiled_again(self.info(), function);
    }

    fn shutdown(&self) {
        match fault() {
            Fault::HangsInShutdown => never_return(),
            Fault::CrashesAfterShutdown => {
                IS_SHUT_DOWN.store(true, Ordering::SeqCst);
                // Until a callback of another thread crashes.
                never_return();
            }
            // SAFETY: none: the invalid write is the fault.
            Fault::CrashesInShutdown => unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) },
            Fault::SlowShutdown => std::thread::sleep(Duration::from_secs(3)),
            _ => ends::shut_down(),
        }
    }

    fn profiler_detach_succeeded(&self) {
        match fault() {
            Fault::HangsInDetachSucceeded => never_return(),
            Fault::SleepsUninterruptibly => {
                sleep_uninterruptibly(Duration::from_secs(5));
                std::thread::sleep(Duration::from_millis(500));
            }
            _ => {}
        }
    }
}

/// Starts an EventPipe session that nobody stops.
fn start_session(info: *mut sys::ICorProfilerInfo) {
    let mut session = 0;
    let name: Vec<u16> = "Microsoft-Windows-DotNETRuntime".encode_utf16().chain([0]).collect();
    let config = sys::COR_PRF_EVENTPIPE_PROVIDER_CONFIG {
        providerName: name.as_ptr(),
        keywords: 0,
        loggingLevel: 5,
        filterData: std::ptr::null(),
    };
    // SAFETY: the runtime keeps Info valid until it accepts a detach, and has the slot since .NET 6. The list has one entry, and `session`
    // is valid for writing.
    unsafe { sys::ICorProfilerInfo12::EventPipeStartSession(info.cast(), 1, &config, 0, &mut session) };
}

/// Sets an environment variable of the process, for good.
fn set_variable(info: *mut sys::ICorProfilerInfo) {
    let name: Vec<u16> = VARIABLE.encode_utf16().chain([0]).collect();
    // SAFETY: the runtime keeps Info valid until it accepts a detach, and has the slot since .NET 6; both texts end with zero.
    unsafe { sys::ICorProfilerInfo11::SetEnvironmentVariable(info.cast(), name.as_ptr(), name.as_ptr()) };
}

/// Creates an EventPipe provider, which nobody can remove.
fn create_provider(info: *mut sys::ICorProfilerInfo) {
    let name: Vec<u16> = VARIABLE.encode_utf16().chain([0]).collect();
    let mut provider = 0;
    // SAFETY: the runtime keeps Info valid until it accepts a detach, and has the slot since .NET 6; `provider` is valid for writing.
    unsafe { sys::ICorProfilerInfo12::EventPipeCreateProvider(info.cast(), name.as_ptr(), &mut provider) };
}

/// They serve on x86-64, where .NET reads and writes there like anywhere.
fn ask_with_odd_addresses(info: *mut sys::ICorProfilerInfo) {
    let (name, mut places) = ([0_u16; 2], [0_u32; 2]);
    let name = name.as_ptr().wrapping_byte_add(1);
    let length = places.as_mut_ptr().wrapping_byte_add(1);
    // SAFETY: the runtime keeps Info valid until it accepts a detach. The name ends with zero, and the place has room. Both are odd, which
    // is the fault.
    unsafe { sys::ICorProfilerInfo11::GetEnvironmentVariable(info.cast(), name, 0, length, null_mut()) };
}

/// Whether the process has the variable.
fn has_variable(info: *mut sys::ICorProfilerInfo) -> bool {
    let name: Vec<u16> = VARIABLE.encode_utf16().chain([0]).collect();
    let mut length = 0;
    // SAFETY: the runtime keeps Info valid until it accepts a detach, and has the slot since .NET Core 3.0. The name ends with a zero, and
    // `length` is valid for writing.
    let answer = unsafe {
        sys::ICorProfilerInfo11::GetEnvironmentVariable(info.cast(), name.as_ptr(), 0, &mut length, null_mut())
    };
    answer == 0 && length > 0
}

/// Whether the C library knows it.
fn inherits_variable() -> bool {
    let name: Vec<u8> = VARIABLE.bytes().chain([0]).collect();
    // SAFETY: the name ends with a zero.
    !unsafe { libc::getenv(name.as_ptr().cast()) }.is_null()
}

fn leave_thread() {
    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        never_return();
        null_mut()
    }
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) };
}

fn leave_sleeper() {
    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        sleep_uninterruptibly(Duration::from_secs(60));
        null_mut()
    }
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) };
}

fn leave_timer() {
    let mut timer: libc::timer_t = null_mut();
    // SAFETY: the clock exists, the event is the default, and `timer` is valid for writing.
    unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, null_mut(), &raw mut timer) };
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let once = libc::itimerspec { it_interval: never, it_value: libc::timespec { tv_sec: AN_HOUR, tv_nsec: 0 } };
    // SAFETY: the timer was just created.
    unsafe { libc::timer_settime(timer, 0, &raw const once, null_mut()) };
}

fn leave_interval_timer() {
    let interval = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::itimerval { it_interval: interval, it_value: libc::timeval { tv_sec: AN_HOUR, tv_usec: 0 } };
    // SAFETY: `once` is a valid value for this timer.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, null_mut()) };
}

/// Its own reference keeps its code mapped: the fault is its calls, not their location.
fn ask_for_ever(info: *mut sys::ICorProfilerInfo) {
    extern "C" fn run(info: *mut c_void) -> *mut c_void {
        loop {
            let mut mask = 0;
            // SAFETY: unsound in a real process once the runtime has freed the object, which is the fault.
            unsafe { sys::ICorProfilerInfo::GetEventMask(info.cast(), &raw mut mask) };
            // SAFETY: takes no pointers.
            unsafe { libc::usleep(BETWEEN_QUESTIONS) };
        }
    }
    own_thread::pin_library();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, info.cast()) };
}

fn leave_handler() {
    extern "C" fn handler(_: c_int) {}
    // SAFETY: the handler has the required signature.
    unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
}

/// Unlike those of `atexit`, such functions do not go with their library.
fn leave_exit_handler() {
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    extern "C" fn exits(_: c_int, _: *mut c_void) {}
    // SAFETY: the function has the required signature.
    unsafe { on_exit(exits, null_mut()) };
}

fn leave_child() {
    // SAFETY: the child only waits, and ends with its parent's process group.
    if unsafe { libc::fork() } == 0 {
        never_return();
    }
}

fn leave_sibling() {
    let none = 0_usize;
    // SAFETY: without a stack of its own, the child goes on in a copy of this one. It only waits until it is killed.
    if unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, none, none, none, none) } == 0 {
        never_return();
    }
}

fn write(descriptor: c_int, bytes: &[u8]) {
    // SAFETY: as many bytes as the list has.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
}

/// The parent of a vfork is in state D until its child ends, like a thread that reads a slow disk. The child has its own memory.
fn sleep_uninterruptibly(time: Duration) {
    let (flags, none) = (libc::CLONE_VFORK | libc::SIGCHLD, 0_usize);
    // SAFETY: no stack and no addresses are passed, so this is a fork that waits.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), none, none, none, none) };
    if child == 0 {
        let time = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: 0 };
        // SAFETY: a local, and no place for the rest.
        unsafe { libc::nanosleep(&raw const time, null_mut()) };
        // SAFETY: takes a number.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the status is not wanted.
    unsafe { libc::waitpid(child as libc::pid_t, null_mut(), 0) };
}

/// It ends at once.
fn start_process() {
    // SAFETY: the child only ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: takes a number.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: the status is not wanted.
    unsafe { libc::waitpid(child, null_mut(), 0) };
}

fn leave_descriptor() {
    // SAFETY: the path is a static C string.
    unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
}

fn leave_daemon() {
    // SAFETY: the child only leaves its process group, and waits.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: takes no arguments.
        unsafe { libc::setsid() };
        never_return();
    }
}

fn be_traced() {
    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        // SAFETY: PTRACE_TRACEME ignores its pointers.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<c_void>(), null_mut::<c_void>()) };
        never_return();
        null_mut()
    }
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
    unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) };
}
