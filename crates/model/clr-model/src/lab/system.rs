//! Calls of the C library: the dynamic linker, signal dispositions, and the handler that records a crash.

use super::backtrace;
use super::limits;
use super::page::{CRASH, Crash, EXIT, HANG};
use super::shared_memory::SharedMemory;
use crate::schedule::{self, threads};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Signals of a crash.
const CRASHES: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// Open files of a run, at most. As in a runtime's process, which raises its soft limit to the hard one (pal/src/init/pal.cpp,
/// INIT_IncreaseDescriptorLimit): but a look at millions would take longer than a run.
const MOST_FILES: u64 = 65_536;

/// Number of the last real-time signal.
const LAST_SIGNAL: c_int = 64;

static PAGE: OnceLock<SharedMemory> = OnceLock::new();
/// Where the library's file is mapped, or was mapped.
static FIRST: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
/// Where it was mapped before, if it is mapped for the second time.
static FIRST_BEFORE: AtomicU64 = AtomicU64::new(0);
static END_BEFORE: AtomicU64 = AtomicU64::new(0);
/// Where the last freed client data lie.
static FIRST_FREED: AtomicU64 = AtomicU64::new(0);
static END_OF_FREED: AtomicU64 = AtomicU64::new(0);
static UNMAPPED: AtomicBool = AtomicBool::new(false);

/// A hanging thread writes its stack, or has written it. Later ones do not.
static HANGS: AtomicBool = AtomicBool::new(false);
/// It has written it.
static HAS_STACK: AtomicBool = AtomicBool::new(false);
/// The run itself ends, so its exit is not the profiler's.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The longest time for that.
const LONGEST_WALK: Duration = Duration::from_millis(500);

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
    /// The thread loads the library: where it lies is not known yet.
    static LOADS: Cell<bool> = const { Cell::new(false) };
}

/// An open library.
#[derive(Debug)]
pub struct Opened(*mut c_void);

// SAFETY: a handle of the linker, which allows its use on any thread.
unsafe impl Send for Opened {}

/// Memory in pages of its own, which can be closed. It stays mapped.
#[derive(Debug)]
pub struct OwnPages {
    start: usize,
    length: usize,
    mapped: usize,
}

impl OwnPages {
    /// Pages that begin with these bytes. `None` without bytes, or without memory.
    pub fn with(bytes: &[u8]) -> Option<OwnPages> {
        let mapped = bytes.len().next_multiple_of(rustix::param::page_size());
        if mapped == 0 {
            return None;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address, so no reference points into this memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the new memory has at least this many bytes, and nothing else points to it.
        unsafe { start.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(OwnPages { start: start as usize, length: bytes.len(), mapped })
    }

    /// The address of the bytes.
    pub fn start(&self) -> *mut u8 {
        self.start as *mut u8
    }

    /// Their number.
    pub fn length(&self) -> usize {
        self.length
    }

    /// From now on, each access is a crash.
    pub fn close(&self) {
        FIRST_FREED.store(self.start as u64, Ordering::SeqCst);
        END_OF_FREED.store((self.start + self.mapped) as u64, Ordering::SeqCst);
        // SAFETY: exactly the pages of this value, which no reference of ours points into.
        unsafe { libc::mprotect(self.start as *mut c_void, self.mapped, libc::PROT_NONE) };
    }
}

/// Opens a library as the runtime does (`dlopen` with RTLD_LAZY; source: pal/src/loader/module.cpp, LOADLoadLibrary).
///
/// # Errors
/// The linker's message.
pub fn open(path: &str) -> Result<Opened, String> {
    let name = CString::new(path).map_err(|_| "its name has a zero in it".to_owned())?;
    LOADS.with(|loads| loads.set(true));
    // SAFETY: the name outlives the call. This process exists to run the library's constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    LOADS.with(|loads| loads.set(false));
    if handle.is_null() { Err(last_error()) } else { Ok(Opened(handle)) }
}

impl Opened {
    /// The address of an export.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an open handle and a name that outlives the call.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Releases the reference.
    pub fn close(self) {
        // SAFETY: an open handle; `self` is consumed, so it is closed once.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Where the library lies to which an address belongs.
pub fn library_at(address: usize) -> Option<usize> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut known: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the linker compares the address, and does not read there; the place for the answer is a local.
    let found = unsafe { libc::dladdr(address as *const c_void, &raw mut known) };
    (found != 0).then_some(known.dli_fbase as usize)
}

fn last_error() -> String {
    // SAFETY: takes no arguments.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "no reason was given".to_owned();
    }
    // SAFETY: the linker's text, valid until its next call on this thread.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// The handler of every signal, by signal. 1 is ignored, 0 is the default.
pub fn handlers() -> BTreeMap<i32, usize> {
    let handler = |signal: c_int| {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: changes nothing; the out pointer is a local.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        (answer == 0).then_some((signal, action.sa_sigaction))
    };
    (1..=LAST_SIGNAL).filter_map(handler).collect()
}

/// Whether the process can open nothing any more: it has too much open, or a limit that is too low.
pub fn has_no_descriptor() -> bool {
    // SAFETY: takes numbers only. Standard input may be closed: that is another error.
    let copy = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
    let error = io::Error::last_os_error().raw_os_error();
    let is_full = copy < 0 && matches!(error, Some(libc::EMFILE | libc::EINVAL));
    if copy >= 0 {
        // SAFETY: its own descriptor.
        unsafe { libc::close(copy) };
    }
    is_full
}

/// The signals that the running thread blocks.
pub fn blocked_signals() -> BlockedSignals {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: changes nothing; the out pointer is a local.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked) };
    let is_blocked = |signal: &c_int| {
        // SAFETY: a set that the call above has filled, and a valid signal.
        unsafe { libc::sigismember(&raw const blocked, *signal) == 1 }
    };
    (1..=LAST_SIGNAL).filter(is_blocked).fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Signals as bits.
pub type BlockedSignals = u64;

/// The armed interval timers.
pub fn interval_timers() -> impl Iterator<Item = &'static str> {
    let kinds = [
        (libc::ITIMER_REAL, "the interval timer of real time"),
        (libc::ITIMER_VIRTUAL, "the interval timer of user time"),
        (libc::ITIMER_PROF, "the interval timer of processor time"),
    ];
    kinds.into_iter().filter(|(kind, _)| is_armed(*kind)).map(|(_, name)| name)
}

fn is_armed(kind: c_int) -> bool {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut timer: libc::itimerval = unsafe { std::mem::zeroed() };
    // SAFETY: a valid kind of timer, and a local place for the answer.
    let answer = unsafe { libc::getitimer(kind as _, &raw mut timer) };
    answer == 0 && (timer.it_value.tv_sec, timer.it_value.tv_usec) != (0, 0)
}

/// Prepares this process for the evidence of a crash: no core file, a handler that writes crashes to the page, and orphans as its children.
/// It dies with the laboratory.
pub fn prepare(page: SharedMemory) {
    // The first and only call.
    let _ = PAGE.set(page);
    backtrace::prepare(page);
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // A failure only leaves a core file.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = Some(files.maximum.map_or(MOST_FILES, |most| most.min(MOST_FILES)));
    // A failure only leaves the limit that the laboratory has.
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: most, maximum: most },
    );
    // SAFETY: takes plain numbers; reads and writes no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    threads::end_with_parent();
    for signal in CRASHES {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = crashed as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: a handler with this signature, which is async-signal-safe.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
    // SAFETY: a function with this signature, which stays as long as the process. Without memory for it, an exit has no stack.
    unsafe { libc::atexit(exits) };
}

/// The run ends now.
pub fn ends() {
    ENDS.store(true, Ordering::SeqCst);
}

/// Records where the library is mapped.
pub fn mapped(range: (u64, u64)) {
    FIRST_BEFORE.store(FIRST.swap(range.0, Ordering::SeqCst), Ordering::SeqCst);
    END_BEFORE.store(END.swap(range.1, Ordering::SeqCst), Ordering::SeqCst);
    UNMAPPED.store(false, Ordering::SeqCst);
}

/// Records that the library is unmapped.
pub fn unmapped() {
    UNMAPPED.store(true, Ordering::SeqCst);
}

/// Records that the running thread has requested the detach.
pub fn asks() {
    ASKED.with(|asked| asked.set(true));
}

/// Lets a thread of this process write its stack, unless another one has. It gets a signal that it may block, or that its system call may
/// not let through: then there is none.
pub fn show_stack(thread: u32) {
    if HANGS.load(Ordering::SeqCst) {
        return;
    }
    let signal = libc::SIGRTMAX();
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = hangs as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: a handler with this signature, which is async-signal-safe but for the unwinder's locks.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    // SAFETY: takes numbers. The thread is in a callback, so it exists, or the call fails.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) };
    let begun = Instant::now();
    while !HAS_STACK.load(Ordering::SeqCst) && begun.elapsed() < LONGEST_WALK {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Records where a thread hangs.
extern "C" fn hangs(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let (library_first, library_end) = (FIRST.load(Ordering::SeqCst), END.load(Ordering::SeqCst));
    let instruction = instruction(context);
    let thread = schedule::current().0 as u64;
    let hang = Crash { signal: signal as u64, thread, instruction, library_first, library_end, ..Crash::default() };
    // A thread may get its signal late, when another one writes.
    if let Some(page) =
        PAGE.get().filter(|page| page.is_own() && !page.is_over() && !HANGS.swap(true, Ordering::SeqCst))
    {
        page.write(HANG, bytes_of(&hang));
        backtrace::walk();
        HAS_STACK.store(true, Ordering::SeqCst);
    }
}

/// Records which thread calls `exit`, and from where.
extern "C" fn exits() {
    let page = PAGE.get().filter(|page| page.is_own() && !page.is_over() && !ENDS.load(Ordering::SeqCst));
    if let Some(page) = page {
        let (library_first, library_end) = (FIRST.load(Ordering::SeqCst), END.load(Ordering::SeqCst));
        let (thread, own) = (schedule::current().0 as u64, u64::from(threads::is_own_thread()));
        let exit = Crash { signal: Crash::EXITS, thread, own, library_first, library_end, ..Crash::default() };
        page.write(EXIT, bytes_of(&exit));
        backtrace::walk();
    }
}

fn bytes_of(crash: &Crash) -> &[u8] {
    // SAFETY: a plain struct of numbers without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(crash).cast::<u8>(), size_of::<Crash>()) }
}

/// Records how the process crashes. Then the default handler lets it die.
extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let at = instruction(context);
    let library = FIRST.load(Ordering::SeqCst)..END.load(Ordering::SeqCst);
    let before = FIRST_BEFORE.load(Ordering::SeqCst)..END_BEFORE.load(Ordering::SeqCst);
    let (place, library) = match (library.contains(&at), UNMAPPED.load(Ordering::SeqCst)) {
        _ if LOADS.with(Cell::get) => (Crash::ELSEWHERE, library),
        (true, false) => (Crash::IN_LIBRARY, library),
        (true, true) => (Crash::IN_UNMAPPED_LIBRARY, library),
        (false, _) if before.contains(&at) => (Crash::IN_UNMAPPED_LIBRARY, before),
        (false, _) => (Crash::ELSEWHERE, library),
    };
    let thread = schedule::current().0 as u64;
    // SAFETY: the kernel passes a valid description of the signal; each of them has room for an address.
    let accessed = unsafe { (*info).si_addr() } as u64;
    let is_freed = signal == libc::SIGSEGV
        && (FIRST_FREED.load(Ordering::SeqCst)..END_OF_FREED.load(Ordering::SeqCst)).contains(&accessed);
    let asker = u64::from(ASKED.with(Cell::get));
    let own = u64::from(schedule::threads::is_own_thread());
    let (library_first, library_end) = (library.start, library.end);
    let (freed, instruction) = (u64::from(is_freed), at);
    let signal_number = signal as u64;
    let limited = u64::from(limits::is_limited());
    let crash = Crash {
        signal: signal_number,
        thread,
        place,
        asker,
        freed,
        own,
        instruction,
        library_first,
        library_end,
        limited,
    };
    if let Some(page) = PAGE.get().filter(|page| page.is_own() && page.end()) {
        page.write(CRASH, bytes_of(&crash));
        backtrace::record();
    }
    if matches!(signal, libc::SIGABRT | libc::SIGTRAP) {
        // SAFETY: takes a number; the default handler now ends the process.
        unsafe { libc::raise(signal) };
    }
}

/// The interrupted instruction; 0 if unknown.
#[cfg(target_arch = "x86_64")]
fn instruction(context: *mut c_void) -> u64 {
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}

#[cfg(target_arch = "aarch64")]
fn instruction(context: *mut c_void) -> u64 {
    // SAFETY: the kernel passes a context to a handler with SA_SIGINFO, valid until the handler returns.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.pc
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction(_: *mut c_void) -> u64 {
    0
}
