//! The one signal of an attach: chosen where nobody listens, handled by us, and given back as it was found.
//!
//! SIGURG, if the application has no handler for it. The kernel ignores it by default. So one still on its way does no harm after the
//! target calls exec, and a debugger passes it on without a word.
//! Otherwise a free real-time signal. Without a handler, it kills a process. So timers send it: exec deletes timers with their signals.
//! Not SIGPROF: other profilers use it, and the first to leave with SIG_DFL kills the process for the second.
//! While leaving, a late signal must meet SIG_IGN, never SIG_DFL; afterwards the disposition found at the start is put back,
//! because programs started by the target inherit SIG_IGN.

use crate::fork_guard::{ForkGuard, Pointers};
use crate::proc;
use remora_sampler::{Session, Slot, arm, cookie, create, delete, thread_cpu_of};
use remora_session::{ResourceKind, ResourceRegistry};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Looks that must find no thread held by a debugger before the default is put back.
const FREE_LOOKS: usize = 10;

/// Handlers find their attach by the signal's number: each entry belongs to one attach, none is shared. What it points to is null in a child.
static ATTACHES: [AtomicPtr<Pointers>; 65] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 65];

/// How often the threads are looked at while late handlers drain, and how long is slept in between.
const DRAIN_TRIES: usize = 500;
static DRAIN_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Processor time that the handler never takes, nanoseconds: a thread that has used more since it was first looked at, and is not
/// counted as inside, has left it.
const LONGEST_HANDLER: u64 = 20_000_000;

/// Looks that must find no thread in a handler before it is believed.
const QUIET_LOOKS: usize = 2;

/// A signal whose handler is ours.
pub struct OwnSignal {
    /// Its number.
    pub number: i32,
    found: libc::sigaction,
}

extern "C" fn handle(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(pointers) = ATTACHES.get(number as usize) else { return };
    // SAFETY: null, or published by `claim` and taken back by `release` only after no handler runs; the page outlives that.
    let Some(pointers) = (unsafe { pointers.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: null, as in a child, or a session whose memory outlives the last handler.
    let Some(session) = (unsafe { pointers.session.load(Ordering::Acquire).as_ref() }) else { return };
    // SAFETY: the arguments are those of a handler registered with SA_SIGINFO, on the signalled thread.
    unsafe { remora_sampler::on_signal(session, info, context) };
}

impl OwnSignal {
    /// Takes SIGURG, or else the highest real-time signal, if it has the default disposition and none of `threads` blocks it. These are all
    /// threads of the process. Handlers look for the session `here`, which must outlive them. A thread blocks a single signal to wait for it. If it blocks all of them, it does not count.
    ///
    /// # Errors
    /// In words, when all are taken.
    pub fn claim(fork_guard: &ForkGuard, threads: &[proc::Seen]) -> Result<OwnSignal, String> {
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
        Err("SIGURG and every real-time signal are already used by the application".into())
    }

    /// Gives the signal back, after every source of it is gone. Returns only when none of `sampled`, the threads that had a source,
    /// is in the handler any more.
    ///
    /// # Errors
    /// In words, when that cannot be shown: the library must then stay mapped.
    pub fn release(self, session: &Session, sampled: &[u32]) -> Result<(), String> {
        if !ignore(self.number) {
            return Err(format!("another component has taken over signal {} from Remora", self.number));
        }
        // Every source is gone and what was pending is discarded, so that nothing can meet what was there before. It is put back at
        // once: a program that is started meanwhile would inherit SIG_IGN for good. Only a debugger may still hold a signal in its
        // hands: it passes it on when it lets the thread run, and the default would then end the process.
        let traced = own_threads_excluded().any(|thread| proc::tracing(thread).traced);
        if !traced || debugger_holds_nobody() {
            put_back(self.number, &self.found);
        }
        self.drain(session, sampled)?;
        ATTACHES[self.number as usize].store(std::ptr::null_mut(), Ordering::Release);
        Ok(())
    }

    /// While a thread is in the handler, the kernel shows the signal as blocked for it: from before the handler's first instruction
    /// until after its last. But a thread may block it for reasons of its own: see [`Suspects`].
    fn drain(&self, session: &Session, sampled: &[u32]) -> Result<(), String> {
        let mut quiet = 0;
        let mut suspects = Suspects::default();
        for _ in 0..DRAIN_TRIES {
            let busy = session.inside.load(Ordering::SeqCst) > 0
                || sampled.iter().any(|thread| suspects.may_be_inside(*thread, self.number));
            quiet = if busy { 0 } else { quiet + 1 };
            if quiet >= QUIET_LOOKS {
                return Ok(());
            }
            // SAFETY: sleeps; the remainder is not wanted.
            unsafe { libc::nanosleep(&raw const DRAIN_PAUSE, std::ptr::null_mut()) };
        }
        Err(format!("a thread has not returned from Remora's handler of signal {}", self.number))
    }
}

/// Waits until the debugger holds no thread, several looks in a row. If it holds one for longer, false: then the signal stays ignored,
/// which the receipt tells, because the default could end the process.
fn debugger_holds_nobody() -> bool {
    let mut free = 0;
    for _ in 0..DRAIN_TRIES {
        let held = own_threads_excluded().any(|thread| proc::tracing(thread).held);
        free = if held { 0 } else { free + 1 };
        if free >= FREE_LOOKS {
            return true;
        }
        // SAFETY: sleeps; the remainder is not wanted.
        unsafe { libc::nanosleep(&raw const DRAIN_PAUSE, std::ptr::null_mut()) };
    }
    false
}

fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

/// The signals that an attach may take, in this order.
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
        // SAFETY: takes nothing.
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

    /// Whether signals with a value may be sent to single threads. Sends none.
    ///
    /// # Errors
    /// The system's error number, of a seccomp filter for example.
    pub fn may_send(self) -> Result<(), i32> {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() } as u32;
        if self.is_dangerous() || queue(0, self.process, own, 0) {
            return Ok(());
        }
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM))
    }

    /// Prepares to send it to `thread`, followed in `slot`. False if that fails.
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

    /// Deletes the slot's timer: its thread is no longer followed.
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
    /// `siginfo_t` of a queued signal as the kernel takes it on x64 (Linux `include/uapi/asm-generic/siginfo.h`).
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
    // SAFETY: `info` is live and of the kernel's layout and size; a thread that has ended is answered with ESRCH.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, &raw const info) == 0 }
}

/// Signals that a thread waits for, or that wait for one. The agent's threads block every signal, which says nothing about the
/// application.
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

/// Threads that block our signal while the handler drains: in it, or for a reason of their own?
///
/// The handler never sleeps, and never takes long. So who sleeps is not in it, nor who has used more time than it can take.
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

/// Who traces the agent's threads says nothing about the application. Nor do those of another agent.
fn own_threads_excluded() -> impl Iterator<Item = u32> {
    proc::threads().unwrap_or_default().into_iter().filter(|thread| is_agents(*thread) != Some(true))
}

/// Whether a thread is one of an agent's; `None` if it is gone or cannot be asked.
pub fn is_agents(thread: u32) -> Option<bool> {
    Some(is_agents_name(&proc::thread_name(thread)?))
}

/// Whether a thread of this name is an agent's.
pub fn is_agents_name(name: &str) -> bool {
    name.starts_with(remora_wire::THREAD_NAME)
}

fn disposition(number: i32) -> libc::sighandler_t {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks; `old` is live.
    unsafe { libc::sigaction(number, std::ptr::null(), &raw mut old) };
    old.sa_sigaction
}

fn ours() -> libc::sighandler_t {
    handle as *const () as libc::sighandler_t
}

/// Sets a disposition and returns the whole of what was there.
fn set(number: i32, new: &libc::sigaction) -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs are live; the handler is ours, SIG_IGN, or what was there before.
    unsafe { libc::sigaction(number, std::ptr::from_ref(new), &raw mut old) };
    old
}

/// Puts back what [`set`] has returned, to the bit: the C library would add a flag of its own.
fn put_back(number: i32, found: &libc::sigaction) {
    /// `struct sigaction` as the kernel takes it on x64 (Linux `include/linux/signal_types.h`).
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    let flags = found.sa_flags as u32;
    // Only the default is ever put back, which has neither a mask nor a way home.
    let action = Action { handler: found.sa_sigaction, flags: u64::from(flags), restorer: 0, mask: 0 };
    // SAFETY: `action` is live and of the kernel's layout, whose set of signals has eight bytes; the old value is not wanted.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, &raw const action, std::ptr::null_mut::<Action>(), 8) };
}

fn simple(handler: libc::sighandler_t, flags: i32) -> libc::sigaction {
    // SAFETY: all-zero is a valid value of this plain struct: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

/// Puts our handler where the default was; what was there, if it still was the default.
fn install(number: i32) -> Option<libc::sigaction> {
    let found = set(number, &simple(ours(), libc::SA_SIGINFO | libc::SA_RESTART));
    if found.sa_sigaction == libc::SIG_DFL {
        return Some(found);
    }
    // Somebody was faster between the look and the taking: it stays theirs.
    set(number, &found);
    None
}

/// Puts SIG_IGN where our handler was; false, and nothing changed, if the handler is no longer ours.
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
