//! The kinds of resources, and how each is closed so that it *provably* no longer runs the library's code (contract DET-04).

use crate::detach::OwnThread;
use crate::{Alive, Attached, Info, SessionId};
use core::ffi::c_void;
use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(1);

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ResourceKind {
    /// One of the profiler's own threads. Closing: asked to end, and joined.
    Thread,
    /// A hook in another component that calls the profiler. Closing: its owner removes it.
    Hook,
    /// A child process. Closing: killed and reaped.
    Child,
    /// A POSIX timer. Closing: deleted.
    Timer,
    /// A signal handler. Closing: the signal is ignored, so that none is pending; no thread is inside; the old handler is restored.
    SignalHandler,
    /// An EventPipe session. Its events come synchronously, and a detach does not stop them.
    /// Closing: stopped, which waits for events under way.
    EventPipeSession,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResourceKind::Thread => "thread",
            ResourceKind::Hook => "hook",
            ResourceKind::Child => "child",
            ResourceKind::Timer => "timer",
            ResourceKind::SignalHandler => "signal handler",
            ResourceKind::EventPipeSession => "EventPipe session",
        })
    }
}

/// A signal handler as the kernel calls it with `SA_SIGINFO`.
pub type SignalHandler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// Closes a hook. An error leaves the hook open.
pub type CloseHook = Box<dyn FnMut() -> Result<(), String> + Send>;

pub(super) enum Resource {
    Thread { handle: Option<OwnThread>, over: Arc<AtomicBool> },
    Hook(CloseHook),
    Child(libc::pid_t),
    Timer(libc::timer_t),
    Signal(TakenSignal),
    EventPipe(SessionId),
}

// SAFETY: a timer's handle is a number valid in the whole process, whatever its type. Every other variant is `Send` itself.
unsafe impl Send for Resource {}

impl Resource {
    pub fn kind(&self) -> ResourceKind {
        match self {
            Resource::Thread { .. } => ResourceKind::Thread,
            Resource::Hook(_) => ResourceKind::Hook,
            Resource::Child(_) => ResourceKind::Child,
            Resource::Timer(_) => ResourceKind::Timer,
            Resource::Signal(_) => ResourceKind::SignalHandler,
            Resource::EventPipe(_) => ResourceKind::EventPipeSession,
        }
    }

    /// Closes the resource. May be tried again after an error.
    pub fn close(&mut self, info: &Info<Attached, Alive>, timeout: Duration) -> Result<(), String> {
        match self {
            Resource::Thread { handle, over } => join(handle, over, timeout),
            Resource::Hook(close) => {
                crate::panics::quietly(close).unwrap_or_else(|| Err("what closes it panicked".into()))
            }
            Resource::Child(pid) => reap(*pid),
            Resource::Timer(timer) => delete(*timer),
            Resource::Signal(taken) => taken.close(timeout),
            Resource::EventPipe(session) => {
                info.event_pipe_stop_session(*session).map_err(|code| format!("the runtime does not stop it: {code}"))
            }
        }
    }
}

fn join(handle: &mut Option<OwnThread>, over: &AtomicBool, timeout: Duration) -> Result<(), String> {
    if !until(timeout, || over.load(Ordering::Acquire)) {
        return Err("it does not end although it was asked to".into());
    }
    if let Some(handle) = handle.take() {
        handle.join();
    }
    Ok(())
}

/// Kills and reaps a child. `__WALL` covers any exit signal.
fn reap(pid: libc::pid_t) -> Result<(), String> {
    // SAFETY: `register_child`'s caller guarantees that the child is not reaped yet, so it keeps its id.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    loop {
        // SAFETY: a null status pointer is allowed.
        let answer = unsafe { libc::waitpid(pid, core::ptr::null_mut(), libc::__WALL) };
        match (answer, errno()) {
            (-1, libc::EINTR) => {}
            // Another wait was faster: the child is gone all the same.
            (-1, libc::ECHILD) => return Ok(()),
            (-1, error) => return Err(format!("it cannot be waited for: error {error}")),
            _ => return Ok(()),
        }
    }
}

fn delete(timer: libc::timer_t) -> Result<(), String> {
    // SAFETY: `register_timer`'s caller guarantees that the timer is this profiler's, and it is deleted once.
    match unsafe { libc::timer_delete(timer) } {
        0 => Ok(()),
        _ => Err(format!("the system does not delete it: error {}", errno())),
    }
}

/// A signal with the profiler's handler.
pub(super) struct TakenSignal {
    number: i32,
    handler: libc::sighandler_t,
    found: libc::sigaction,
    /// The threads that already blocked the signal when it was taken, and so are not inside the handler.
    deaf: BTreeSet<u32>,
    ignored: bool,
}

impl TakenSignal {
    /// Takes a signal that has no handler.
    pub fn take(number: i32, handler: SignalHandler) -> Result<TakenSignal, String> {
        let deaf = threads_blocking(number);
        let handler = handler as *const () as libc::sighandler_t;
        let found = set(number, handler, libc::SA_SIGINFO | libc::SA_RESTART)?;
        if found.sa_sigaction != libc::SIG_DFL {
            // SAFETY: restores the action that `set` has just returned; `found` is a live local.
            unsafe { libc::sigaction(number, &raw const found, core::ptr::null_mut()) };
            return Err(format!("signal {number} is handled by somebody else already"));
        }
        Ok(TakenSignal { number, handler, found, deaf, ignored: false })
    }

    fn close(&mut self, timeout: Duration) -> Result<(), String> {
        if !self.ignored {
            let there = set(self.number, libc::SIG_IGN, 0)?;
            if there.sa_sigaction != self.handler {
                // SAFETY: restores the action that `set` has just returned; `there` is a live local.
                unsafe { libc::sigaction(self.number, &raw const there, core::ptr::null_mut()) };
                return Err("somebody has put another handler over it, who may call this one".into());
            }
            self.ignored = true;
        }
        // A thread inside the handler blocks the signal until it returns.
        if !until(timeout, || threads_blocking(self.number).is_subset(&self.deaf)) {
            return Err("a thread that blocks it may still be inside".into());
        }
        // SAFETY: restores the action that `take` found; `self.found` is live.
        unsafe { libc::sigaction(self.number, &raw const self.found, core::ptr::null_mut()) };
        Ok(())
    }
}

fn set(number: i32, handler: libc::sighandler_t, flags: i32) -> Result<libc::sigaction, String> {
    // SAFETY: all-zero is a valid value of these plain structs: no flags, empty mask.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    // SAFETY: both structs are live locals, and the handler has the signature that the flags require.
    match unsafe { libc::sigaction(number, &raw const new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(format!("signal {number} cannot be handled: error {}", errno())),
    }
}

/// The threads that block the signal. Not those that block every signal: the profiler's own, and threads being created.
fn threads_blocking(number: i32) -> BTreeSet<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok());
    threads.filter(|thread| blocked_by(*thread).is_some_and(|mask| is_blocked(mask, number))).collect()
}

fn is_blocked(mask: u64, number: i32) -> bool {
    /// SIGKILL and SIGSTOP cannot be blocked, and the C library reserves 32 to 34.
    const ALL: u64 = !(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32 | 1 << 33);
    mask & 1 << (number - 1) != 0 && mask & ALL != ALL
}

fn blocked_by(thread: u32) -> Option<u64> {
    // As bytes: the thread's name in this file may not be UTF-8.
    let status = std::fs::read(format!("/proc/self/task/{thread}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether the condition holds before the timeout ends. Not for callbacks: it sleeps.
pub(super) fn until(timeout: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + timeout;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
    true
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remora_holds::holds;
    use std::sync::atomic::AtomicU32;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    fn disposition(number: i32) -> libc::sighandler_t {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut found: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: only reads the action; `found` is a live local.
        unsafe { libc::sigaction(number, core::ptr::null(), &raw mut found) };
        found.sa_sigaction
    }

    static INSIDE: AtomicU32 = AtomicU32::new(0);
    static HELD: AtomicBool = AtomicBool::new(true);

    extern "C" fn held(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        while HELD.load(Ordering::SeqCst) {
            core::hint::spin_loop();
        }
    }

    #[test]
    fn det_04_a_signal_handler_is_closed_only_when_no_thread_is_inside_and_its_place_is_as_it_was() {
        let number = libc::SIGRTMIN() + 11;
        let mut taken = TakenSignal::take(number, held).expect("nobody handles it");
        assert!(TakenSignal::take(number, held).is_err(), "it is taken");
        std::thread::scope(|scope| {
            // SAFETY: the signal's handler is `held`, which is async-signal-safe.
            let one = scope.spawn(|| unsafe { libc::raise(number) });
            while INSIDE.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            holds!(DET_04 rem, taken.close(SHORT).unwrap_err().contains("inside"));
            assert_eq!(disposition(number), libc::SIG_IGN, "no new one gets in");
            HELD.store(false, Ordering::SeqCst);
            one.join().expect("it returns");
            holds!(DET_04 rem, taken.close(LONG) == Ok(()));
        });
        assert_eq!(disposition(number), libc::SIG_DFL);
    }

    #[test]
    fn det_04_a_signal_handler_that_somebody_has_covered_is_not_closed() {
        let number = libc::SIGRTMIN() + 12;
        let mut taken = TakenSignal::take(number, held).expect("nobody handles it");
        let covering = set(number, libc::SIG_IGN, 0).expect("it can be set");
        holds!(DET_04 rem, taken.close(SHORT).unwrap_err().contains("somebody"));
        assert_eq!(disposition(number), libc::SIG_IGN, "theirs stays");
        // SAFETY: restores the action that `set` returned; `covering` is a live local.
        unsafe { libc::sigaction(number, &raw const covering, core::ptr::null_mut()) };
        assert_eq!(taken.close(LONG), Ok(()));
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "that it is waited for is what is tested")]
    fn det_04_a_timer_is_deleted_and_a_child_is_gone() {
        let mut timer: libc::timer_t = core::ptr::null_mut();
        // SAFETY: `timer` is a live local; a null event is allowed, and an unarmed timer never sends its signal.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, core::ptr::null_mut(), &raw mut timer) };
        assert_eq!((made, delete(timer)), (0, Ok(())));
        holds!(DET_04 rem, delete(timer).is_err(), "the timer is still there");
        let child = std::process::Command::new("sleep").arg("1000").spawn().expect("there is sleep");
        let pid = child.id() as libc::pid_t;
        assert_eq!(reap(pid), Ok(()));
        holds!(DET_04 rem, !std::path::Path::new(&format!("/proc/{pid}")).exists(), "the child is still there");
    }

    #[test]
    fn a_thread_that_blocks_all_that_can_be_blocked_is_not_inside_a_handler() {
        let one = 1 << 44;
        assert!(is_blocked(one, 45) && !is_blocked(one, 46));
        assert!(!is_blocked(!0, 45) && !is_blocked(0xFFFF_FFFE_7FFB_FEFF, 45));
    }
}
