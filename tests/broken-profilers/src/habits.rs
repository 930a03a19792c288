//! Profilers with odd habits: they change or use up what belongs to the whole process.

use crate::fault::{Fault, fault};
use crate::shared::never_return;
use crate::{seccomp, signals};
use corprof::sys;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a child of [`Fault::WaitsForChild`] lives on after the request.
const A_LITTLE: Duration = Duration::from_millis(30);
/// What [`Fault::OpensManyFiles`] opens, unless the system allows less.
const MANY_FILES: u64 = 2000;
/// User and group of [`Fault::ChangesUser`].
const NOBODY: u32 = 65534;
/// What [`Fault::AbortsUnderLimit`] allows.
const FEWER_FILES: u64 = 512;
/// The longest time without a request.
const LONGEST: Duration = Duration::from_millis(500);
/// The time before the request of [`Fault::AbortsBeforeRequest`].
const BEFORE_REQUEST: Duration = Duration::from_millis(200);
/// The longest time until a request is answered.
const LONGEST_REQUEST: Duration = Duration::from_secs(2);

/// Threads of [`Fault::FiltersOwnThreads`].
const FILTERED: usize = 32;

/// For [`Fault::WaitsForChild`]: it has a child, and another thread has requested the detach.
static HAS_CHILD: AtomicBool = AtomicBool::new(false);
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// For [`Fault::KeepsChildInCallback`] and [`Fault::LeavesChildInCallback`]: the request was answered.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);
/// For [`Fault::LeavesKey`]: a thread of the program has a value.
static HAS_KEY: AtomicBool = AtomicBool::new(false);

/// For [`Fault::HangsTwice`] and [`Fault::ExitsBesideAnother`]: a thread is in ModuleLoadFinished.
static HANGS: AtomicBool = AtomicBool::new(false);

/// In InitializeForAttach.
pub fn begin() {
    match fault() {
        Fault::TakesDescriptors => take_all_descriptors(),
        Fault::IgnoresSignal => ignore_signal(),
        Fault::ChangesProcess => change_process(),
        Fault::LimitsMemory => limit(libc::RLIMIT_AS, 1 << 20),
        Fault::LimitsFiles => limit(libc::RLIMIT_NOFILE, 3),
        Fault::ForbidsFiles => forbid(libc::RLIMIT_NOFILE, 0),
        Fault::ForbidsMemoryEarly => forbid(libc::RLIMIT_AS, 1 << 20),
        Fault::ForbidsTime => forbid(libc::RLIMIT_CPU, 0),
        Fault::AbortsUnderLimit => limit(libc::RLIMIT_NOFILE, FEWER_FILES),
        Fault::OpensManyFiles => open_many_files(),
        Fault::RenamesProcess => rename_process(),
        // SAFETY: the paths are static C strings, and the list ends with null. The process becomes another one, which is the fault.
        Fault::Execs => unsafe {
            libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), std::ptr::null::<u8>());
        },
        // SAFETY: the paths are static C strings, and the list ends with null. The process becomes another one, which is the fault.
        Fault::ExecsForEver => unsafe {
            libc::execl(c"/bin/sleep".as_ptr(), c"sleep".as_ptr(), c"1000".as_ptr(), std::ptr::null::<u8>());
        },
        // SAFETY: PTRACE_TRACEME ignores its pointers.
        Fault::LetsItselfBeTraced => unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<c_void>(), null_mut::<c_void>());
        },
        Fault::RemovesFile => remove_file(),
        Fault::FiltersProcess => seccomp::filter_all(),
        Fault::DeniesThreads => seccomp::deny_all(&[libc::SYS_clone, libc::SYS_clone3]),
        Fault::DeniesFiles => seccomp::deny_all(&[libc::SYS_openat]),
        Fault::DeniesFolders => {
            seccomp::deny_all(&[libc::SYS_getdents64]);
            start_filtered_threads();
        }
        Fault::DeniesSleep => seccomp::deny_all(&[libc::SYS_clock_nanosleep]),
        Fault::KillsAtSleep => seccomp::kill_at(libc::SYS_clock_nanosleep),
        // SAFETY: the path is a static C string.
        Fault::ChangesRoot => _ = unsafe { libc::chroot(c"/dev".as_ptr()) },
        Fault::ChangesNamespace => change_namespace(),
        Fault::ChangesUser => become_nobody(),
        Fault::FiltersOwnThreads => start_filtered_threads(),
        Fault::SignalsThreads => signals::begin(),
        _ => {}
    }
}

/// In ModuleLoadStarted, on a thread of the program.
pub fn module_loads() {
    if fault() == Fault::PairsSignals {
        signals::block(libc::SIG_BLOCK);
    }
}

/// In ModuleLoadFinished, on a thread of the program.
pub fn module_has_loaded() {
    match fault() {
        Fault::WaitsForChild if !HAS_CHILD.load(Ordering::SeqCst) => wait_for_child(),
        Fault::KeepsChildInCallback | Fault::LeavesChildInCallback if !HAS_CHILD.load(Ordering::SeqCst) => {
            wait_for_child();
        }
        Fault::SignalsThreads => signals::send_to_all(),
        Fault::PairsSignals => signals::block(libc::SIG_UNBLOCK),
        Fault::LeavesKey => leave_key(),
        // SAFETY: takes no pointers. It ends the thread in the callback, which is the fault.
        Fault::EndsThread => _ = unsafe { libc::syscall(libc::SYS_exit, 0) },
        // SAFETY: takes no arguments. It ends the process, which is the fault.
        Fault::AbortsUnderLimit => unsafe { libc::abort() },
        // SAFETY: takes a number. It ends the process, which is the fault.
        Fault::RenamesProcess => unsafe { libc::_exit(7) },
        Fault::HangsTwice if !HANGS.load(Ordering::SeqCst) => hang_without_signals(),
        Fault::ExitsBesideAnother if !HANGS.swap(true, Ordering::SeqCst) => std::thread::sleep(LONGEST),
        _ => {}
    }
}

/// In ModuleUnloadFinished.
pub fn module_has_unloaded(info: *mut sys::ICorProfilerInfo) {
    /// No function and no class has it.
    const NOBODY: usize = 0x77;
    if fault() == Fault::HangsTwice && HANGS.load(Ordering::SeqCst) {
        never_return();
    }
    if fault() == Fault::ExitsBesideAnother && HANGS.load(Ordering::SeqCst) {
        // SAFETY: takes a number. It ends the process, which is the fault.
        unsafe { libc::exit(7) };
    }
    if fault() == Fault::AsksByOldForms {
        let (count, no) = (&mut 0_u32, 0);
        // SAFETY: unsound in a real process: the id is stale, which is the fault. The place is valid for writing.
        unsafe { sys::ICorProfilerInfo2::GetCodeInfo2(info.cast(), NOBODY, no, count, null_mut()) };
        // SAFETY: as for the first call, the stale id is the fault, and the place is valid for writing.
        unsafe { sys::ICorProfilerInfo::GetILToNativeMapping(info, NOBODY, no, count, null_mut()) };
        let mut kind = 0;
        // SAFETY: as for the first call, the stale id is the fault, and the place is valid for writing.
        unsafe { sys::ICorProfilerInfo2::GetStaticFieldInfo(info.cast(), NOBODY, 0x0400_0001, &raw mut kind) };
    }
}

/// Whether it may request the detach now.
pub fn may_ask() -> bool {
    match fault() {
        Fault::WaitsForChild | Fault::KeepsChildInCallback | Fault::LeavesChildInCallback => {
            HAS_CHILD.load(Ordering::SeqCst)
        }
        Fault::LeavesKey => HAS_KEY.load(Ordering::SeqCst),
        Fault::HangsTwice | Fault::ExitsBesideAnother => false,
        _ => true,
    }
}

/// It requests the detach next.
pub fn asks() {
    IS_ASKED.store(true, Ordering::SeqCst);
    if fault() == Fault::AbortsBeforeRequest {
        std::thread::sleep(BEFORE_REQUEST);
        // SAFETY: takes no arguments. It ends the process, which is the fault.
        unsafe { libc::abort() };
    }
}

/// At the last Release: the runtime has started every thread that it needs for this attach.
pub fn forbid_memory() {
    forbid(libc::RLIMIT_AS, 1 << 20);
}

/// The request was answered.
pub fn has_asked() {
    HAS_ASKED.store(true, Ordering::SeqCst);
}

/// As `system` does: while it waits for the child, the process ignores SIGINT and SIGQUIT.
fn wait_for_child() {
    extern "C" fn handler(_: c_int) {}
    let signals = [
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGQUIT, libc::SIG_IGN),
        (libc::SIGUSR2, handler as *const () as libc::sighandler_t),
    ];
    // SAFETY: the handlers have the required signature.
    let before = signals.map(|(signal, handler)| (signal, unsafe { libc::signal(signal, handler) }));
    // SAFETY: the child only waits until it is killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        never_return();
    }
    HAS_CHILD.store(true, Ordering::SeqCst);
    let (begun, is_short) = (Instant::now(), fault() == Fault::WaitsForChild);
    let (until, longest) = if is_short { (&IS_ASKED, LONGEST) } else { (&HAS_ASKED, LONGEST_REQUEST) };
    while !until.load(Ordering::SeqCst) && begun.elapsed() < longest {
        std::thread::yield_now();
    }
    if is_short {
        std::thread::sleep(A_LITTLE);
    }
    if fault() == Fault::LeavesChildInCallback {
        return;
    }
    // SAFETY: its own child, which nobody has waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: the status is not wanted.
    unsafe { libc::waitpid(child, null_mut(), 0) };
    for (signal, handler) in before {
        // SAFETY: the handler that was there.
        unsafe { libc::signal(signal, handler) };
    }
}

/// They live as long as the process, and are more than the program has.
fn start_filtered_threads() {
    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        seccomp::filter_thread();
        never_return();
        null_mut()
    }
    for _ in 0..FILTERED {
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `thread` is valid for writing, the attributes are the default, and `run` has the required signature.
        unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) };
    }
}

fn ignore_signal() {
    // SAFETY: takes numbers only.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
}

/// Opens descriptors until none is left.
pub fn take_all_descriptors() {
    // SAFETY: the path is a static C string.
    while unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) } >= 0 {}
}

/// The working directory, the mask of new files, a limit, and the signal mask of the runtime's thread.
fn change_process() {
    // SAFETY: the path is a static C string.
    unsafe { libc::chdir(c"/".as_ptr()) };
    // SAFETY: takes a number.
    unsafe { libc::umask(0o777) };
    limit(libc::RLIMIT_MSGQUEUE, 4711);
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set, and a valid signal.
    unsafe { libc::sigaddset(&raw mut signals, libc::SIGUSR1) };
    // SAFETY: a local set; the old one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, null_mut()) };
}

fn limit(resource: libc::__rlimit_resource_t, most: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    let mut before = limit;
    // SAFETY: a local place for the limit.
    unsafe { libc::getrlimit(resource, &raw mut before) };
    let limit = libc::rlimit { rlim_max: before.rlim_max, ..limit };
    // SAFETY: a local value.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// Its first process ends only when somebody has waited for all others there.
fn change_namespace() {
    // SAFETY: takes a number.
    unsafe { libc::unshare(libc::CLONE_NEWPID) };
    for _ in 0..2 {
        // SAFETY: the children only wait until they are killed.
        if unsafe { libc::fork() } == 0 {
            never_return();
        }
    }
}

fn become_nobody() {
    // SAFETY: takes a number.
    unsafe { libc::setgid(NOBODY) };
    // SAFETY: takes a number.
    unsafe { libc::setuid(NOBODY) };
}

/// A limit that an unprivileged process cannot raise again.
fn forbid(resource: libc::__rlimit_resource_t, most: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a local value.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// Aborts if the process may have fewer than a runtime's process may.
fn open_many_files() {
    let mut allowed = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a local place for the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut allowed) };
    let count = MANY_FILES.min(allowed.rlim_max / 2);
    // SAFETY: the path is a static C string.
    let open = || unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let opened: Vec<c_int> = (0..count).map(|_| open()).collect();
    if opened.iter().any(|number| *number < 0) {
        std::process::abort();
    }
    // SAFETY: its own descriptors.
    opened.into_iter().for_each(|number| _ = unsafe { libc::close(number) });
}

/// The process has the name of its first thread.
fn rename_process() {
    // A failure leaves the name, which the test sees.
    let _ = std::fs::write(format!("/proc/self/task/{}/comm", std::process::id()), "worker");
}

fn hang_without_signals() {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set.
    unsafe { libc::sigfillset(&raw mut signals) };
    // SAFETY: a local set; the old one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, null_mut()) };
    HANGS.store(true, Ordering::SeqCst);
    never_return();
}

/// Its own file.
fn remove_file() {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut own: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is inside this library, and `own` is valid for writing.
    unsafe { libc::dladdr(remove_file as *const () as *const _, &raw mut own) };
    // SAFETY: the linker's name of this library is a C string.
    let name: &CStr = unsafe { CStr::from_ptr(own.dli_fname) };
    // SAFETY: a C string.
    unsafe { libc::unlink(name.as_ptr()) };
}

/// A value of the running thread with a destructor in this library. Nobody deletes the key.
fn leave_key() {
    extern "C" fn end(_: *mut c_void) {}
    let mut key = 0;
    // SAFETY: `key` is valid for writing, and the destructor has the required signature. It outlives its library, which is the fault.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        // SAFETY: a new key; the value is never read.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
        HAS_KEY.store(true, Ordering::SeqCst);
    }
}
