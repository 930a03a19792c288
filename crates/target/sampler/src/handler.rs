//! The signal handler's body.
//!
//! The sampler asks a thread for a sample ([`crate::Ask`]) and sends it a signal. The handler checks whether the thread still does what the
//! sampler saw. If so, it walks the stack and pushes the sample.
//!
//! A signal needs some microseconds. By then, a running thread may have blocked, and a blocked one may run.
//! The handler then takes no sample, and counts this.

use crate::memory::{Asked, Bounded, Memory};
use crate::record::{LEAF_WORDS, MAXIMUM_DEPTH, RawSample};
use crate::session::{Aimed, Ask, Seen, Session, Slot};
use crate::stack::{Code, Output, Registers, walk};
use crate::waiting::scheduled;
use crate::{Native, Ranges, clock};
use core::sync::atomic::Ordering;
use remora_wire::{layout, sample_flags};

/// A thread has not slept since the ask if it was off the CPU for less than this, nanoseconds.
const NEVER_SLEPT: u64 = 5_000;

/// A thread has only entered the handler since the ask if it used less CPU time than this, nanoseconds.
const NEVER_RAN: u64 = 50_000;

/// The sampler took a thread's CPU if it got one within this time of the thread losing its own, nanoseconds.
const AT_THE_SAME_TIME: u64 = 12_000;

/// Proof that the code runs in a signal handler: only [`on_signal`] makes it.
pub struct InSignal(());

/// Handles one signal of this attach. errno stays as it was.
///
/// # Safety
/// `info` and `context` are the arguments that the kernel passed to a handler with `SA_SIGINFO`. Called on the signalled thread.
pub unsafe fn on_signal(session: &Session, info: *const libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: only returns the C library's place for this thread's error number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the place lives as long as this thread, and only this thread uses it.
    let saved = unsafe { *errno };
    session.inside.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the caller passes the kernel's arguments, on the signalled thread.
    unsafe { dispatch(&InSignal(()), session, info, context) };
    session.inside.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: the place lives as long as this thread, and only this thread uses it.
    unsafe { *errno = saved };
}

/// # Safety
/// As [`on_signal`].
unsafe fn dispatch(token: &InSignal, session: &Session, info: *const libc::siginfo_t, context: *const libc::c_void) {
    if !session.armed.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: `info` is valid: the kernel passed it to this handler.
    let code = unsafe { (*info).si_code };
    // SAFETY: `info` is valid. Timers and queued signals have a value. It is only decoded, never used as a pointer.
    let value = unsafe { (*info).si_value().sival_ptr } as u64;
    let Some(aimed) = session.aimed(value).filter(|_| code == libc::SI_TIMER || code == libc::SI_QUEUE) else {
        session.count(layout::STRAY_SIGNALS);
        return;
    };
    // SAFETY: `context` is valid: the kernel passed this signal's ucontext to the handler.
    let (registers, handles_fault) = unsafe { (registers(context), handles_fault(context)) };
    answer(token, session, &aimed, &registers, handles_fault);
}

fn answer(token: &InSignal, session: &Session, aimed: &Aimed, registers: &Registers, handles_fault: bool) {
    let slot = aimed.slot;
    let weight = slot.ask.weight.swap(0, Ordering::AcqRel);
    if weight == 0 {
        session.count(layout::STRAY_SIGNALS);
        return;
    }
    // SAFETY: `registers` belong to this thread: it executed at their instruction.
    let call = unsafe { in_system_call(registers) };
    let judged = if handles_fault { None } else { judged(&slot.ask, weight, call, session.traced) };
    let Some((seen, weight)) = judged else {
        session.count(layout::MOVED_ON);
        let seen = Seen::from_stored(slot.ask.seen.load(Ordering::Relaxed));
        if matches!(seen, Seen::Running | Seen::Preempted) && !handles_fault {
            session.count(layout::RUNS_MISSED);
        }
        slot.answers.at.store(0, Ordering::Release);
        return;
    };
    let flags = match seen {
        Seen::Running | Seen::Preempted => 0,
        Seen::Blocked => sample_flags::BLOCKED,
        Seen::Runnable => sample_flags::BLOCKED | sample_flags::RUNNABLE,
    };
    let taken = take(token, session, &Taking { aimed, weight, flags }, registers);
    // If the ring is full, the thread's next samples get this weight.
    if taken && flags != 0 {
        slot.answers.off_cpu.fetch_add(weight, Ordering::Relaxed);
    }
    // Only a blocked thread keeps its stack, so that its sample can be repeated. If the call has ended, the thread goes on to another wait.
    let stays = taken && seen == Seen::Blocked && call == SystemCall::Interrupted;
    if stays {
        let is_error = registers.result == INTERRUPTED;
        let behind = registers.instruction.wrapping_add(if is_error { 0 } else { 2 });
        slot.answers.instruction.store(behind, Ordering::Relaxed);
        slot.answers.stack.store(registers.stack, Ordering::Relaxed);
        slot.answers.slices.store(scheduled().map_or(0, |counted| counted.slices), Ordering::Relaxed);
    }
    slot.answers.at.store(if stays { clock::thread_cpu() } else { 0 }, Ordering::Release);
}

/// Whether the thread was in a handler of SIGSEGV, which blocks that signal. .NET runs it on an alternate stack of 12 KiB. With AVX-512,
/// two signal frames leave too little of that for a walk.
///
/// # Safety
/// `context` is the ucontext that the kernel gave to the handler.
unsafe fn handles_fault(context: *const libc::c_void) -> bool {
    // SAFETY: `context` is valid for the handler's duration. The kernel's mask is the first word of the C library's.
    let mask = unsafe { (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read() };
    mask & 1 << (libc::SIGSEGV - 1) != 0
}

/// The thread's state when the sampler asked it, and the sample's weight. `None` if it has done something else since.
fn judged(ask: &Ask, weight: u64, call: SystemCall, traced: bool) -> Option<(Seen, u64)> {
    let seen = Seen::from_stored(ask.seen.load(Ordering::Relaxed));
    let off_cpu = ask.off_cpu.load(Ordering::Relaxed);
    if is_as_seen(ask, seen, call, traced) {
        return Some((seen, if seen == Seen::Runnable { off_cpu } else { weight }));
    }
    // It waited for a CPU, but not because of the sampler.
    let waited = seen == Seen::Preempted && off_cpu > 0 && is_as_seen(ask, Seen::Runnable, call, traced);
    waited.then_some((Seen::Runnable, off_cpu))
}

/// Whether the thread has done nothing else since the sampler asked it.
fn is_as_seen(ask: &Ask, seen: Seen, call: SystemCall, traced: bool) -> bool {
    let now = clock::monotonic();
    let used = || clock::thread_cpu().saturating_sub(ask.used.load(Ordering::Relaxed));
    match seen {
        // The kernel ends an uninterruptible wait before it delivers the signal.
        Seen::Blocked => call != SystemCall::None,
        // The kernel delivers the signal before the thread goes on.
        Seen::Runnable => used() < NEVER_RAN,
        // The thread may have run in a system call that would wait next, until the signal interrupted it.
        Seen::Running if call == SystemCall::Interrupted => {
            now.saturating_sub(ask.at.load(Ordering::Relaxed)).saturating_sub(used()) < NEVER_SLEPT
        }
        Seen::Running => true,
        // A debugger halts the thread for each signal, so the times mean nothing.
        Seen::Preempted if traced => used() < NEVER_RAN,
        Seen::Preempted => lost_cpu_at(ask, now)
            .is_some_and(|lost_at| lost_at.abs_diff(ask.woke_at.load(Ordering::Relaxed)) < AT_THE_SAME_TIME),
    }
}

/// When the calling thread lost its CPU before it ran again, monotonic nanoseconds. `None` if the kernel does not provide it.
fn lost_cpu_at(ask: &Ask, now: u64) -> Option<u64> {
    let runs_since = now.checked_sub(clock::thread_cpu().checked_sub(ask.used.load(Ordering::Relaxed))?)?;
    runs_since.checked_sub(scheduled()?.waited.checked_sub(ask.waited.load(Ordering::Relaxed))?)
}

struct Taking<'a> {
    aimed: &'a Aimed<'a>,
    weight: u64,
    flags: u8,
}

/// Walks the stack and pushes the sample; false if there is no room for it. Not part of the handler's own stack frame, see
/// [`handles_fault`].
#[inline(never)]
fn take(_: &InSignal, session: &Session, taking: &Taking, registers: &Registers) -> bool {
    session.count(layout::TAKEN);
    session.count(layout::WALKED);
    let Aimed { thread, index, slot, .. } = *taking.aimed;
    let low = slot.stack_low.load(Ordering::Relaxed);
    let high = trusted_end(session, slot, thread, registers.stack);
    // SAFETY: this handler runs on the slot's thread with its signal masked, so nothing else uses the scratch now.
    let scratch = unsafe { &mut *slot.scratch() };
    let (addresses, rest) = scratch.split_at_mut(MAXIMUM_DEPTH);
    let (window, windows) = rest.split_at_mut(LEAF_WORDS);
    // SAFETY: `on_signal` keeps `inside` raised until this function returns.
    let (ranges, native) = unsafe { (session.table(&session.ranges), session.table(&session.native)) };
    let code = Code { ranges: Ranges::new(ranges), links: session.links, native: Native::new(native) };
    let out = Output { addresses: &mut *addresses, windows: &mut *windows };
    let stack = registers.stack & !7;
    let (found, copied) = if low <= registers.stack && registers.stack < high {
        capture(registers, &Bounded { low: stack, high }, &code, out, window)
    } else {
        capture(registers, &Asked { low: stack }, &code, out, window)
    };
    let sample = RawSample {
        thread,
        slot: index,
        flags: taking.flags | found.flags | session.collecting(thread),
        time: clock::monotonic(),
        weight: taking.weight,
        stack_pointer: registers.stack,
        frame_pointer: registers.frame,
        addresses: addresses.get(..found.depth).unwrap_or_default(),
        window: window.get(..copied).unwrap_or_default(),
        windows: windows.get(..found.windows).unwrap_or_default(),
    };
    session.push(&sample)
}

/// The end of the stack part that may be read without the kernel; 0 if there is none. The mapping around a stack may be larger than the
/// stack, and its rest may get unmapped. The C library puts a thread's control block at the end of each stack that it makes: all below
/// belongs to the stack. The main thread's stack has a mapping of its own.
pub(crate) fn trusted_end(session: &Session, slot: &Slot, thread: u32, stack: u64) -> u64 {
    let end = slot.stack_high.load(Ordering::Relaxed);
    let block = thread_control_block();
    if stack < block && block <= end {
        block
    } else if thread == session.main_thread {
        end
    } else {
        0
    }
}

/// The address of the running thread's control block. The block contains it (System V ABI for x64, thread-local storage).
fn thread_control_block() -> u64 {
    let block: u64;
    // SAFETY: reads the first word of the running thread's control block, which exists from the thread's first instruction to its last.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) block, options(nostack, preserves_flags, readonly)) };
    block
}

pub(crate) fn capture(
    registers: &Registers,
    memory: &impl Memory,
    code: &Code,
    out: Output,
    window: &mut [u64],
) -> (crate::Walk, usize) {
    (walk(registers, memory, code, out), memory.words(registers.stack & !7, window))
}

/// # Safety
/// `context` is the ucontext that the kernel gave to the handler.
unsafe fn registers(context: *const libc::c_void) -> Registers {
    // SAFETY: `context` is valid for the handler's duration: the kernel passed it.
    let general = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let register = |which: libc::c_int| general[which as usize] as u64;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        result: register(libc::REG_RAX),
    }
}

/// The result of a system call that a signal interrupted and that is not restarted.
const INTERRUPTED: u64 = (-(libc::EINTR as i64)) as u64;

/// Whether a signal arrived in a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemCall {
    /// No system call.
    None,
    /// Interrupted. The kernel returns to the `syscall` instruction to restart it, or after it with -EINTR.
    Interrupted,
    /// Ended. The thread has executed nothing since.
    Ended,
}

/// # Safety
/// The instruction pointer is that of the running thread.
unsafe fn in_system_call(registers: &Registers) -> SystemCall {
    let at = registers.instruction;
    // SAFETY: the thread executes at `at`, as the caller ensures.
    if unsafe { is_system_call(at, at) } {
        return SystemCall::Interrupted;
    }
    // SAFETY: the thread executes at `at`, as the caller ensures.
    match unsafe { is_system_call(at.wrapping_sub(2), at) } {
        true if registers.result == INTERRUPTED => SystemCall::Interrupted,
        true => SystemCall::Ended,
        false => SystemCall::None,
    }
}

/// Whether a `syscall` instruction is at `place`. Reads only the page of `running`.
///
/// # Safety
/// The thread executes at `running`.
unsafe fn is_system_call(place: u64, running: u64) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // The second byte of the instruction may lie on the next page.
    if place < 4096 || place >> 12 != running >> 12 || place & 0xfff == 0xfff {
        return false;
    }
    // SAFETY: both bytes are on the page on which the thread executes (checked above). It is mapped and readable.
    let bytes = unsafe { core::ptr::read_unaligned(place as *const [u8; 2]) };
    bytes == SYSCALL
}
