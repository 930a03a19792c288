//! The signal of an attach. Remora takes one that the application does not use, handles it, and restores its disposition.
//!
//! SIGURG, if the application has no handler for it. The kernel ignores it by default. So one still pending does no harm after the target
//! calls exec, and a debugger passes it on silently.
//! Otherwise a free real-time signal. Without a handler, it kills a process. So timers send it: exec deletes timers with their signals.
//! Not SIGPROF: other profilers use it. The first to restore SIG_DFL kills the process for the second.
//!
//! During the detach the disposition is SIG_IGN: with SIG_DFL, a late signal could kill the process. Then the original disposition returns,
//! because programs started by the target inherit SIG_IGN.

use crate::fork_guard::{ForkGuard, Pointers};
use crate::proc;
use remora_sampler::{Session, Slot, arm, cookie, create, delete, thread_cpu_of};
use remora_session::{ResourceKind, ResourceRegistry};
use remora_wire::{AgentError, AgentErrorCode};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Consecutive checks that must find no thread held by a debugger before the default returns.
const FREE_CHECKS: usize = 10;

/// Handlers find their attach by the signal's number. Each entry belongs to one attach. In a child, the pointers behind it are null.
static ATTACHES: [AtomicPtr<Pointers>; 65] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 65];

/// How often to check the threads while late handlers drain, and the pause between two checks.
const DRAIN_TRIES: usize = 500;
static DRAIN_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// CPU time that the handler never takes, nanoseconds. A thread that has used more since the first check, and does not count as inside, has
/// left the handler.
const LONGEST_HANDLER: u64 = 20_000_000;

/// Consecutive checks that must find no thread in a handler.
const QUIET_CHECKS: usize = 2;

/// A signal whose handler is ours.
pub struct OwnSignal {
    /// Its number.
    pub number: i32,
    found: libc::sigaction,
}

extern "C" fn handle(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(pointers) = ATTACHES.get(number as usize) else { return };
    // SAFETY: null, or published by `claim`. `release` clears it after the last handler, and the page outlives that.
    let Some(pointers) = (unsafe { pointers.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: null, as in a child, or a session. `stop_sampling` keeps its memory beyond the last handler.
    let Some(session) = (unsafe { pointers.session.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: the kernel passes these arguments to a handler registered with SA_SIGINFO, on the signalled thread.
    unsafe { remora_sampler::on_signal(session, info, context) };
}

impl OwnSignal {
    /// Takes SIGURG, or else the highest real-time signal, if it has the default disposition and none of `threads` blocks it. `threads` are
    /// all threads of the process. A thread blocks a single signal to wait for it; a thread that blocks all of them does not count.
    /// Handlers find their session through `fork_guard`, which must outlive them.
    ///
    /// # Errors
    /// [`AgentErrorCode::NoFreeSignal`].
    pub fn claim(fork_guard: &ForkGuard, threads: &[proc::Seen]) -> Result<OwnSignal, AgentError> {
        let wanted = wanted_by_anyone(threads);
        let pointers = std::ptr::from_ref::<Pointers>(fork_guard).cast_mut();
        for number in candidates() {
            if wanted & bit(number) != 0 || disposition(number) != libc::SIG_DFL {
                continue;
            }
            let free = ATTACHES[number as usize]
                .compare_exchange(std::ptr::null_mut(), pointers, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
            if free {
                if let Some(found) = install(number) {
                    return Ok(OwnSignal { number, found });
                }
                ATTACHES[number as usize].store(std::ptr::null_mut(), Ordering::Release);
            }
        }
        Err(AgentErrorCode::NoFreeSignal.into())
    }

    /// Restores the signal's disposition, after every source of the signal is gone. `sampled` are the threads that had a source. Returns
    /// only when none of them is in the handler.
    ///
    /// # Errors
    /// Another component handles the signal now, or a thread may still be in the handler: the library must then stay mapped.
    pub fn release(self, session: &Session, sampled: &[u32]) -> Result<(), AgentError> {
        if !ignore(self.number) {
            return Err(AgentErrorCode::SignalTaken.with(self.number as u64));
        }
        // Every source is gone and SIG_IGN has discarded pending signals. So no signal can reach the original disposition. It returns at
        // once: a program started meanwhile would inherit SIG_IGN for good. Only a debugger may still hold a signal. It delivers the signal
        // when it resumes the thread, and the default would then kill the process.
        let traced = own_threads_excluded().any(|thread| proc::tracing(thread).traced);
        if !traced || debugger_holds_nobody() {
            put_back(self.number, &self.found);
        }
        self.drain(session, sampled)?;
        ATTACHES[self.number as usize].store(std::ptr::null_mut(), Ordering::Release);
        Ok(())
    }

    /// The kernel shows the signal as blocked for a thread in the handler: from before its first instruction until after its last. But a
    /// thread may block it for other reasons: see [`Suspects`].
    fn drain(&self, session: &Session, sampled: &[u32]) -> Result<(), AgentError> {
        let mut quiet = 0;
        let mut suspects = Suspects::default();
        for _ in 0..DRAIN_TRIES {
            let busy = session.inside.load(Ordering::SeqCst) > 0
                || sampled.iter().any(|thread| suspects.may_be_inside(*thread, self.number));
            quiet = if busy { 0 } else { quiet + 1 };
            if quiet >= QUIET_CHECKS {
                return Ok(());
            }
            // SAFETY: `DRAIN_PAUSE` is static; a null remainder is allowed.
            unsafe { libc::nanosleep(&raw const DRAIN_PAUSE, std::ptr::null_mut()) };
        }
        Err(AgentErrorCode::HandlerRuns.with(self.number as u64))
    }
}

/// Waits until several consecutive checks find no thread held by the debugger. Returns false if it holds one for longer. Then the signal
/// stays ignored, because the default could kill the process, and the receipt reports it.
fn debugger_holds_nobody() -> bool {
    let mut free = 0;
    for _ in 0..DRAIN_TRIES {
        let held = own_threads_excluded().any(|thread| proc::tracing(thread).held);
        free = if held { 0 } else { free + 1 };
        if free >= FREE_CHECKS {
            return true;
        }
        // SAFETY: `DRAIN_PAUSE` is static; a null remainder is allowed.
        unsafe { libc::nanosleep(&raw const DRAIN_PAUSE, std::ptr::null_mut()) };
    }
    false
}

fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

/// The signals that an attach may take, in order of preference.
fn candidates() -> impl Iterator<Item = i32> {
    std::iter::once(libc::SIGURG).chain((libc::SIGRTMIN() + 4..libc::SIGRTMAX()).rev())
}

/// Sends the signal of an attach to single threads.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    signal: i32,
    process: i32,
}

impl Sender {
    /// A sender of this signal.
    pub fn new(signal: i32) -> Sender {
        // SAFETY: takes no arguments.
        Sender { signal, process: unsafe { libc::getpid() } }
    }

    /// The signal.
    pub fn signal(self) -> i32 {
        self.signal
    }

    /// Whether the signal kills a process without a handler for it.
    fn is_dangerous(self) -> bool {
        self.signal != libc::SIGURG
    }

    /// Checks that signals with a value may be sent to single threads. Sends none.
    ///
    /// # Errors
    /// The system's error number, from a seccomp filter for example.
    pub fn may_send(self) -> Result<(), i32> {
        // SAFETY: takes no arguments.
        let own = unsafe { libc::gettid() } as u32;
        if self.is_dangerous() || queue(0, self.process, own, 0) {
            return Ok(());
        }
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM))
    }

    /// Prepares to send the signal to `thread`, followed in `slot`. Returns false on failure.
    pub fn prepare(self, resources: &ResourceRegistry, slot: &Slot, thread: u32, index: u32, generation: u32) -> bool {
        slot.timer.store(0, Ordering::Relaxed);
        if !self.is_dangerous() {
            return true;
        }
        resources.acquire(ResourceKind::Timer);
        match create(libc::CLOCK_MONOTONIC, self.signal, thread, cookie(index, generation)) {
            Ok(id) => slot.timer.store(id as u32 + 1, Ordering::Release),
            Err(_) => resources.release(ResourceKind::Timer),
        }
        slot.timer.load(Ordering::Relaxed) != 0
    }

    /// Deletes the slot's timer when its thread is no longer followed.
    pub fn release_recording(self, resources: &ResourceRegistry, slot: &Slot) {
        if let Some(id) = slot.timer.swap(0, Ordering::AcqRel).checked_sub(1) {
            delete(id as i32);
            resources.release(ResourceKind::Timer);
        }
    }

    /// Sends it. False if the thread has ended.
    pub fn send(self, thread: u32, index: u32, slot: &Slot) -> bool {
        if self.is_dangerous() {
            return slot.timer.load(Ordering::Acquire).checked_sub(1).is_some_and(|timer| arm(timer as i32, 1));
        }
        queue(self.signal, self.process, thread, cookie(index, slot.generation.load(Ordering::Relaxed)))
    }
}

/// Sends a signal with a value to one thread of this process.
fn queue(signal: i32, process: i32, thread: u32, value: u64) -> bool {
    /// `siginfo_t` of a queued signal in the kernel's layout on x64 (Linux `include/uapi/asm-generic/siginfo.h`).
    #[repr(C)]
    struct Queued {
        signal: i32,
        errno: i32,
        code: i32,
        padding: i32,
        process: i32,
        user: u32,
        value: u64,
        rest: [u64; 12],
    }
    let info = Queued { signal, errno: 0, code: libc::SI_QUEUE, padding: 0, process, user: 0, value, rest: [0; 12] };
    // SAFETY: `info` is live and has the kernel's layout and size. For an ended thread, the kernel answers ESRCH.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, &raw const info) == 0 }
}

/// Signals that a thread waits for, or that are pending. The agent's threads block every signal, which does not show what the application
/// uses.
fn wanted_by_anyone(threads: &[proc::Seen]) -> u64 {
    let all = all_candidates();
    let others = threads.iter().filter(|seen| !is_agents_name(&seen.name));
    others.fold(0, |wanted, seen| wanted | wanted_by(seen.masks, all))
}

fn all_candidates() -> u64 {
    candidates().fold(0, |all, number| all | bit(number))
}

fn wanted_by(masks: proc::SignalMasks, all: u64) -> u64 {
    let chosen = if masks.blocked & all == all { masks.blocked & !all } else { masks.blocked };
    chosen | masks.pending
}

/// Whether a thread with these masks blocks a signal.
pub fn blocks_signal(masks: proc::SignalMasks, number: i32) -> bool {
    masks.blocked & bit(number) != 0
}

/// Threads that block our signal while the handler drains: in the handler, or for other reasons?
///
/// The handler never sleeps and is short. So a sleeping thread is not in it. Neither is a thread that has used more CPU time than the
/// handler can take.
#[derive(Default)]
struct Suspects {
    used_at_first: HashMap<u32, u64>,
}

impl Suspects {
    fn may_be_inside(&mut self, thread: u32, number: i32) -> bool {
        match proc::signal_masks(thread) {
            Some(masks) if masks.blocked & bit(number) != 0 && !masks.asleep => {
                let used = thread_cpu_of(thread);
                used.saturating_sub(*self.used_at_first.entry(thread).or_insert(used)) < LONGEST_HANDLER
            }
            _ => {
                self.used_at_first.remove(&thread);
                false
            }
        }
    }
}

/// All threads but those of agents, ours or another. A tracer of agents' threads shows nothing about the application.
fn own_threads_excluded() -> impl Iterator<Item = u32> {
    proc::threads().unwrap_or_default().into_iter().filter(|thread| is_agents(*thread) != Some(true))
}

/// Whether a thread belongs to an agent; `None` if it is gone or cannot be read.
pub fn is_agents(thread: u32) -> Option<bool> {
    Some(is_agents_name(&proc::thread_name(thread)?))
}

/// Whether a thread with this name belongs to an agent.
pub fn is_agents_name(name: &str) -> bool {
    name.starts_with(remora_wire::THREAD_NAME)
}

fn disposition(number: i32) -> libc::sighandler_t {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the disposition; `old` is live.
    unsafe { libc::sigaction(number, std::ptr::null(), &raw mut old) };
    old.sa_sigaction
}

fn ours() -> libc::sighandler_t {
    handle as *const () as libc::sighandler_t
}

/// Sets a disposition and returns the previous one.
fn set(number: i32, new: &libc::sigaction) -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs are live. The handler is ours, SIG_IGN, or the previous one.
    unsafe { libc::sigaction(number, std::ptr::from_ref(new), &raw mut old) };
    old
}

/// Restores the disposition that [`set`] returned, bit by bit: the C library would add a flag.
fn put_back(number: i32, found: &libc::sigaction) {
    /// `struct sigaction` in the kernel's layout on x64 (Linux `include/linux/signal_types.h`).
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let flags = found.sa_flags as u32;
    // Only the default is ever restored. It has no mask and no restorer.
    let action = Action { handler: found.sa_sigaction, flags: u64::from(flags), restorer: 0, mask: 0 };
    // SAFETY: `action` is live and has the kernel's layout, with a signal set of eight bytes. A null old value is allowed.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, &raw const action, std::ptr::null_mut::<Action>(), 8) };
}

fn simple(handler: libc::sighandler_t, flags: i32) -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this plain struct: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

/// Replaces the default by our handler. Returns the previous disposition, or `None` if it was no longer the default.
fn install(number: i32) -> Option<libc::sigaction> {
    let found = set(number, &simple(ours(), libc::SA_SIGINFO | libc::SA_RESTART));
    if found.sa_sigaction == libc::SIG_DFL {
        return Some(found);
    }
    // Another component took the signal since the check. It keeps the signal.
    set(number, &found);
    None
}

/// Replaces our handler by SIG_IGN. Returns false, without a change, if the handler is no longer ours.
fn ignore(number: i32) -> bool {
    let found = set(number, &simple(libc::SIG_IGN, 0));
    if found.sa_sigaction == ours() {
        return true;
    }
    set(number, &found);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_ignores_by_default_is_taken_first() {
        let candidates: Vec<i32> = candidates().collect();
        assert_eq!(candidates[..2], [libc::SIGURG, libc::SIGRTMAX() - 1]);
        assert!(!Sender::new(candidates[0]).is_dangerous() && Sender::new(candidates[1]).is_dangerous());
    }

    #[test]
    fn who_blocks_one_signal_wants_it_and_who_blocks_all_wants_none() {
        let all = all_candidates();
        let masks = |blocked, pending| proc::SignalMasks { blocked, pending, asleep: true };
        let one = bit(libc::SIGRTMAX() - 1);
        assert_eq!(wanted_by(masks(one, 0), all), one);
        assert_eq!(wanted_by(masks(u64::MAX, 0), all) & all, 0);
        assert_eq!(wanted_by(masks(u64::MAX, one), all) & all, one);
    }
}
