//! What only the C library tells: the linker's calls, signal dispositions, the handler that writes a crash down.

use super::page::{CRASH, Crash};
use crate::schedule;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Signals by which a process dies of its own code.
const CRASHES: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// Number of the last real-time signal.
const LAST_SIGNAL: c_int = 64;

static PAGE: AtomicI32 = AtomicI32::new(-1);
/// Where the library's file is mapped, or was.
static FIRST: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
static UNMAPPED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// A library that is open.
#[derive(Debug)]
pub struct Opened(*mut c_void);

// SAFETY: a handle of the linker, which may be used on any thread.
unsafe impl Send for Opened {}

/// Opens a library as the runtime does (`dlopen` with RTLD_LAZY; source: pal/src/loader/module.cpp, LOADLoadLibrary).
///
/// # Errors
/// The linker's words.
pub fn open(path: &str) -> Result<Opened, String> {
    let name = CString::new(path).map_err(|_| "its name has a zero in it".to_owned())?;
    // SAFETY: a name that lives; what the library's constructors do is what this process is for.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    if handle.is_null() { Err(last_error()) } else { Ok(Opened(handle)) }
}

impl Opened {
    /// The address of what it exports by that name.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an open handle and a name that lives.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Gives the reference back.
    pub fn close(self) {
        // SAFETY: an open handle, closed once.
        unsafe { libc::dlclose(self.0) };
    }
}

fn last_error() -> String {
    // SAFETY: takes nothing.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "no reason was given".to_owned();
    }
    // SAFETY: the linker's own text, which stays until its next call on this thread.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// The handler of every signal that has one, by the signal; ignored and default ones are 1 and 0.
pub fn handlers() -> BTreeMap<i32, usize> {
    let handler = |signal: c_int| {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: nothing is changed, and there is a place for the answer.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        (answer == 0).then_some((signal, action.sa_sigaction))
    };
    (1..=LAST_SIGNAL).filter_map(handler).collect()
}

/// The interval timers that are armed.
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
    // SAFETY: a kind that there is, and a place for the answer.
    let answer = unsafe { libc::getitimer(kind as _, &raw mut timer) };
    answer == 0 && (timer.it_value.tv_sec, timer.it_value.tv_usec) != (0, 0)
}

/// Makes this process one whose death tells everything: no core file, a handler that writes crashes to the page, and grandchildren that
/// become its children. It dies with the laboratory.
pub fn prepare(page: c_int) {
    PAGE.store(page, Ordering::SeqCst);
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // A core file would be untidy, no more.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: takes plain numbers; reads and writes no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    // SAFETY: takes plain numbers; reads and writes no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    for signal in CRASHES {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = crashed as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: a handler of that signature, which uses only what a handler may.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Says where the library is mapped.
pub fn mapped(range: (u64, u64)) {
    FIRST.store(range.0, Ordering::SeqCst);
    END.store(range.1, Ordering::SeqCst);
    UNMAPPED.store(false, Ordering::SeqCst);
}

/// Says that it no longer is.
pub fn unmapped() {
    UNMAPPED.store(true, Ordering::SeqCst);
}

/// Says that the running thread has asked for the detach.
pub fn asks() {
    ASKED.with(|asked| asked.set(true));
}

/// Writes down how the process crashes. Then it goes on, and dies of it: the handler is the default one again.
extern "C" fn crashed(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let at = instruction(context);
    let inside = (FIRST.load(Ordering::SeqCst)..END.load(Ordering::SeqCst)).contains(&at);
    let place = match (inside, UNMAPPED.load(Ordering::SeqCst)) {
        (true, false) => Crash::IN_LIBRARY,
        (true, true) => Crash::IN_UNMAPPED_LIBRARY,
        (false, _) => Crash::ELSEWHERE,
    };
    let seat = schedule::current().0 as u64;
    let crash = Crash { signal: signal as u64, seat, place, asker: u64::from(ASKED.with(Cell::get)) };
    // SAFETY: a plain struct that lives, and its size.
    unsafe {
        libc::pwrite(PAGE.load(Ordering::SeqCst), (&raw const crash).cast(), size_of::<Crash>(), CRASH as libc::off_t)
    };
    if matches!(signal, libc::SIGABRT | libc::SIGTRAP) {
        // SAFETY: the same signal again, which now ends the process.
        unsafe { libc::raise(signal) };
    }
}

/// The instruction at which the signal came; 0 where that is not known.
#[cfg(target_arch = "x86_64")]
fn instruction(context: *mut c_void) -> u64 {
    // SAFETY: what the kernel hands to a handler with SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}

#[cfg(target_arch = "aarch64")]
fn instruction(context: *mut c_void) -> u64 {
    // SAFETY: what the kernel hands to a handler with SA_SIGINFO, alive until the handler returns.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.pc
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction(_: *mut c_void) -> u64 {
    0
}
