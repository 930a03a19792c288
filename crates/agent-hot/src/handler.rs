//! The signal handler's body.
//!
//! **Processor time.** A working thread is sampled by a one-shot timer on the monotonic clock, which the handler arms again at a
//! jittered distance: it is not bound to the kernel's tick, it fires in user and kernel code alike, and each sample weighs what
//! the thread's processor clock advanced since the one before. Distances are of processor time: a thread that had to wait for a
//! processor is met again when it has used what is missing ([`crate::Due`]). A thread that is found waiting in a system call is not sampled:
//! its clock timer stays off, and a timer on its processor time wakes the sampling again when it has worked. So a sleeping
//! thread gets no signals, and weights add up to the processor time used.
//!
//! **Clock time.** The agent's sampler thread says in [`Slot::asked`] how much time the next sample stands for, and has the thread's clock timer
//! fire.

use crate::record::{RawSample, WINDOW_WORDS};
use crate::session::{Aimed, Engine, MAXIMUM_DEPTH, Session, Slot, Which};
use crate::stack::{Asked, Bounded, Code, Memory, Registers, walk};
use crate::timer::{arm, jittered, which_timer};
use crate::{Native, Ranges, Replaced, clock};
use core::sync::atomic::{AtomicPtr, Ordering};
use remora_wire::{layout, sample_flags};

/// The proof that the code runs in a signal handler: made by [`on_signal`] only.
pub struct InSignal(());

/// Handles one signal of this attach. Leaves errno as it was.
///
/// # Safety
/// `info` and `context` are what the kernel gave to a handler registered with `SA_SIGINFO`; called on the signalled thread.
pub unsafe fn on_signal(session: &Session, info: *const libc::siginfo_t, context: *const libc::c_void) {
    // SAFETY: the C library's own place for this thread's error number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    session.inside.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the caller's promise.
    unsafe { dispatch(&InSignal(()), session, info, context) };
    session.inside.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// # Safety
/// As [`on_signal`].
unsafe fn dispatch(token: &InSignal, session: &Session, info: *const libc::siginfo_t, context: *const libc::c_void) {
    if !session.armed.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the caller's promise: `info` is valid.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above; a value is there for timers and queued signals, and only looked up, never followed.
    let value = unsafe { (*info).si_value().sival_ptr } as u64;
    let Some(aimed) = session.aimed(value).filter(|_| code == libc::SI_TIMER) else {
        session.count(layout::STRAY_SIGNALS);
        return;
    };
    // SAFETY: the caller's promise: `context` is the ucontext of this signal.
    let registers = unsafe { registers(context) };
    // SAFETY: the instruction is where this very thread was executing: readable code.
    let blocked = unsafe { waits_in_system_call(&registers) };
    match session.engine {
        Engine::CpuTimers => cpu_firing(token, session, &aimed, &registers, blocked),
        Engine::WallSignals => wall_asked(token, session, &aimed, &registers, blocked),
    }
}

fn cpu_firing(token: &InSignal, session: &Session, aimed: &Aimed, registers: &Registers, blocked: bool) {
    let slot = aimed.slot;
    let interval = session.interval.load(Ordering::Relaxed);
    let used = clock::thread_cpu();
    if let Some(early) = slot.due.too_early(used, clock::monotonic(), interval) {
        session.count(layout::SIGNALLED);
        return drive(slot, !blocked && early.nearer, early.missing);
    }
    let works = !blocked || aimed.which == Which::Processor;
    // Of a newborn thread the account begins below zero.
    let weight = used.wrapping_sub(slot.accounted.load(Ordering::Relaxed)).cast_signed().max(0).cast_unsigned();
    // A sample that does not fit leaves its weight to the next one.
    if works && weight > 0 && take(token, session, &Taking { aimed, weight, flags: 0 }, registers) {
        slot.accounted.store(used, Ordering::Relaxed);
    }
    let distance = jittered(&slot.random, interval);
    slot.due.set(used.wrapping_add(distance));
    drive(slot, works, distance);
}

/// The timer for a thread that works, or the one for a thread that does not, fires next.
fn drive(slot: &Slot, works: bool, nanoseconds: u64) {
    slot.active.store(works, Ordering::Relaxed);
    let next = if works { Which::Clock } else { Which::Processor };
    if let Some(timer) = which_timer(slot, next) {
        slot.due.fires_at(clock::monotonic().saturating_add(nanoseconds));
        arm(timer, nanoseconds);
    }
}

fn wall_asked(token: &InSignal, session: &Session, aimed: &Aimed, registers: &Registers, blocked: bool) {
    let slot = aimed.slot;
    let weight = slot.asked.swap(0, Ordering::AcqRel);
    if weight == 0 {
        session.count(layout::STRAY_SIGNALS);
        return;
    }
    let flags = if blocked { sample_flags::BLOCKED } else { 0 };
    // After a sample that does not fit there is none that could be repeated.
    let answered = take(token, session, &Taking { aimed, weight, flags }, registers);
    slot.answered_at.store(if answered { clock::thread_cpu() } else { 0 }, Ordering::Release);
}

struct Taking<'a> {
    aimed: &'a Aimed<'a>,
    weight: u64,
    flags: u8,
}

/// Walks the stack and pushes the sample; false if there is no room for it.
fn take(_: &InSignal, session: &Session, taking: &Taking, registers: &Registers) -> bool {
    session.count(layout::TAKEN);
    session.count(layout::SIGNALLED);
    let Aimed { thread, index, slot, .. } = *taking.aimed;
    let low = slot.stack_low.load(Ordering::Relaxed);
    let high = trusted_end(session, slot, thread, registers.stack);
    // SAFETY: this handler runs on the slot's thread, with its signal masked: nobody else uses the scratch now.
    let scratch = unsafe { &mut *slot.scratch() };
    let (addresses, window) = scratch.split_at_mut(MAXIMUM_DEPTH);
    let stack = registers.stack & !7;
    let (found, copied) = if low <= registers.stack && registers.stack < high {
        capture(registers, &Bounded { low: stack, high }, &code(session), addresses, window)
    } else {
        capture(registers, &Asked { low: stack }, &code(session), addresses, window)
    };
    let sample = RawSample {
        thread,
        slot: index,
        flags: taking.flags | found.flags,
        time: clock::monotonic(),
        weight: taking.weight,
        stack_pointer: registers.stack,
        frame_pointer: registers.frame,
        addresses: addresses.get(..found.depth).unwrap_or_default(),
        window: window.get(..copied).unwrap_or_default(),
    };
    let pushed = session.ring.push(&[&sample.fixed(), sample.addresses, sample.window]).is_ok();
    if !pushed {
        session.count_refusal();
    }
    pushed
}

/// Up to where the stack may be read without asking the kernel, 0 for nowhere. The mapping around a stack may hold more than the
/// stack, and that may be unmapped: below the thread's control block, which the C library puts at the end of each stack that it makes,
/// everything is the stack's own. The main thread's stack is a mapping of its own.
fn trusted_end(session: &Session, slot: &Slot, thread: u32, stack: u64) -> u64 {
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

/// Where the C library keeps what belongs to the running thread: it holds its own address (System V ABI for x64, thread-local storage).
fn thread_control_block() -> u64 {
    let block: u64;
    // SAFETY: reads the first word of the running thread's control block, which is there from its first instruction to its last.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) block, options(nostack, preserves_flags, readonly)) };
    block
}

fn capture(
    registers: &Registers,
    memory: &impl Memory,
    code: &Code,
    addresses: &mut [u64],
    window: &mut [u64],
) -> (crate::Walk, usize) {
    let found = walk(registers, memory, code, addresses);
    let first = registers.stack & !7;
    let mut copied = 0;
    for (place, offset) in window.iter_mut().take(WINDOW_WORDS).zip((0_u64..).step_by(8)) {
        let Some(word) = memory.word(first.wrapping_add(offset)) else { break };
        *place = word;
        copied += 1;
    }
    (found, copied)
}

fn code<'a>(session: &'a Session) -> Code<'a> {
    Code {
        ranges: Ranges::new(table(&session.ranges)),
        replaced: Replaced::new(table(&session.replaced)),
        native: Native::new(table(&session.native)),
    }
}

/// The words of a table that the agent's thread has published.
fn table(published: &AtomicPtr<u64>) -> &[u64] {
    // After `inside` was raised: whoever replaces the table and then finds nobody inside may free the old one.
    let words = published.load(Ordering::SeqCst);
    if words.is_null() {
        return &[];
    }
    // SAFETY: the first word behind the pointer is the number of words that follow it; the block was filled before it was
    // published and is never freed while a handler runs that may have it.
    let stored = unsafe { *words } as usize;
    // SAFETY: as above; `stored` words follow the first one.
    unsafe { core::slice::from_raw_parts(words.add(1), stored) }
}

/// # Safety
/// `context` is the ucontext that the kernel gave to the handler.
unsafe fn registers(context: *const libc::c_void) -> Registers {
    // SAFETY: the caller's promise.
    let general = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let register = |which: libc::c_int| general[which as usize] as u64;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        result: register(libc::REG_RAX),
    }
}

/// Whether the signal found the thread waiting in a system call: the kernel then returns to the `syscall` instruction to start
/// it again, or behind it with -EINTR.
///
/// # Safety
/// The instruction pointer is that of the running thread.
unsafe fn waits_in_system_call(registers: &Registers) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let at = registers.instruction;
    let behind = registers.result == (-i64::from(libc::EINTR)) as u64;
    let place = if behind { at.wrapping_sub(2) } else { at };
    if place < 4096 || (behind && at & 0xfff < 2) {
        return false;
    }
    // A code page may end right after one byte; the second byte of the instruction then lies on the next one.
    if place & 0xfff == 0xfff {
        return false;
    }
    // SAFETY: both bytes are on the page that the thread is executing on (checked above), which is mapped and readable.
    let bytes = unsafe { core::ptr::read_unaligned(place as *const [u8; 2]) };
    bytes == SYSCALL
}
