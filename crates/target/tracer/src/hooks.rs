//! The functions that JIT-compiled code calls at entry, exit and tail call of a hooked method.
//!
//! The JIT calls them without the C calling convention. On x64 with System V rules (jit/targetamd64.h, vm/amd64/asmhelpers.S; the same from 3.1
//! to 10):
//! - at entry r14 has the method's client data, and r15 the stack pointer of the caller. Arguments may be in registers.
//! - at exit and tail call rdi and rsi have them. The return value may be in rax, rdx, xmm0 and xmm1.
//!
//! Hooks with info are called by the C convention: the runtime saves all registers first, in its own code (ProfileEnterNaked in
//! vm/amd64/asmhelpers.S, ProfileEnter in vm/proftoeeinterfaceimpl.cpp). It calls them in cooperative mode.
//!
//! The second argument is not documented for hooks without info. It identifies the frame, so that a call that was unwound is noticed.
//! A wrong one would only make calls end at the wrong time: it is compared, not followed.

use crate::arguments;
use crate::state::{STATE, State};
use crate::threads;
use core::arch::naked_asm;
use remora_call_table::{Call, Values, layout};

/// At entry.
///
/// # Safety
/// Only for the JIT, or by its rules.
#[unsafe(naked)]
pub unsafe extern "C" fn enter(_method: usize) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "sub rsp, 128",
        "and rsp, -16",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "mov rdi, r14",
        "mov rsi, r15",
        "call {on_enter}",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "lea rsp, [rbp - 72]",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        "ret",
        on_enter = sym on_enter,
    )
}

/// At exit, and before a tail call.
///
/// # Safety
/// Only for the JIT, or by its rules.
#[unsafe(naked)]
pub unsafe extern "C" fn leave(_method: usize) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rcx",
        "push rdx",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "sub rsp, 32",
        "and rsp, -16",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "call {on_leave}",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "lea rsp, [rbp - 56]",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        "ret",
        on_leave = sym on_leave,
    )
}

extern "sysv64" fn on_enter(method: usize, frame: u64) {
    let Some(state) = STATE.get() else { return };
    let Some(method) = state.counted(method) else { return };
    match threads::current(state) {
        Some(thread) => state.table.enter(thread, Call { method, frame }, &state.clock),
        None => state.table.lose_on_thread(method),
    }
}

extern "sysv64" fn on_leave(method: usize, frame: u64) {
    if let Some(state) = STATE.get()
        && let Some(method) = state.counted(method)
        && let Some(thread) = threads::current(state)
    {
        state.table.leave(thread, Call { method, frame }, &state.clock);
    }
}

/// The greatest distance of a frame from the runtime's record of its registers, bytes: more than a main thread's stack.
const FARTHEST: usize = 1 << 30;

/// At entry, with info.
///
/// .NET Core 3.1 saves xmm0 and xmm1 only, although the method's arguments can be in eight (ProfileEnterNaked in vm/amd64/asmhelpers.S there).
///
/// # Safety
/// Only for the runtime.
#[unsafe(naked)]
pub unsafe extern "C" fn enter_with_info(_method: usize, _hook: usize) {
    naked_asm!(
        "sub rsp, 104",
        "movaps [rsp], xmm2",
        "movaps [rsp + 16], xmm3",
        "movaps [rsp + 32], xmm4",
        "movaps [rsp + 48], xmm5",
        "movaps [rsp + 64], xmm6",
        "movaps [rsp + 80], xmm7",
        "call {on_enter}",
        "movaps xmm2, [rsp]",
        "movaps xmm3, [rsp + 16]",
        "movaps xmm4, [rsp + 32]",
        "movaps xmm5, [rsp + 48]",
        "movaps xmm6, [rsp + 64]",
        "movaps xmm7, [rsp + 80]",
        "add rsp, 104",
        "ret",
        on_enter = sym on_enter_with_info,
    )
}

unsafe extern "C" fn on_enter_with_info(method: usize, hook: usize) {
    let Some(state) = STATE.get() else { return };
    let Some(method) = state.counted(method) else { return };
    let Some(thread) = threads::current(state) else { return state.table.lose_on_thread(method) };
    // SAFETY: the runtime calls this at entry, with its own record.
    let Some(frame) = (unsafe { frame_of(hook) }) else { return state.table.count(layout::STRANGE) };
    let values = match state.table.keeps_values() {
        // SAFETY: the runtime calls this at entry of the method with this number, with its own record.
        true => unsafe { arguments::of_entry(state, method, hook) },
        false => Values::default(),
    };
    state.table.enter_with(thread, Call { method, frame }, Some(&values), &state.clock);
}

/// At exit, with info.
pub unsafe extern "C" fn leave_with_info(method: usize, hook: usize) {
    // SAFETY: the runtime calls this at exit of the method with this number, with its own record.
    let result = |state: &_, method, values: &mut _| unsafe { arguments::of_exit(state, method, hook, values) };
    leave_with(method, hook, result);
}

/// Before a tail call, with info: the call ends without a result.
pub unsafe extern "C" fn tailcall_with_info(method: usize, hook: usize) {
    leave_with(method, hook, |_, _, _| {});
}

fn leave_with(method: usize, hook: usize, result: impl FnOnce(&State, u32, &mut Values)) {
    if let Some(state) = STATE.get()
        && let Some(method) = state.counted(method)
        && let Some(thread) = threads::current(state)
    {
        // SAFETY: the runtime has passed its own record.
        let Some(frame) = (unsafe { frame_of(hook) }) else { return state.table.count(layout::STRANGE) };
        let add = |values: &mut Values| result(state, method, values);
        state.table.leave_with(thread, Call { method, frame }, &state.clock, add);
    }
}

/// The stack pointer of the caller, which the JIT has passed to the runtime.
///
/// Undocumented, and the same from 3.1 to 10. The hook's argument begins with a pointer to the saved registers (COR_PRF_ELT_INFO_INTERNAL).
/// Their fifth word is the stack pointer (PROFILE_PLATFORM_SPECIFIC_DATA in vm/amd64). Both are on the stack, in callers of the hook.
///
/// # Safety
/// `hook` is the argument of the running hook.
unsafe fn frame_of(hook: usize) -> Option<u64> {
    // SAFETY: the caller guarantees the runtime's record, which begins with a pointer.
    let registers = unsafe { (hook as *const usize).read() };
    if registers <= hook || registers - hook > 4096 || !registers.is_multiple_of(8) {
        return None;
    }
    // SAFETY: shortly above the record, so on this thread's stack, in a frame that is still active.
    let frame = unsafe { (registers as *const usize).add(4).read() };
    (frame > registers && frame - registers < FARTHEST).then_some(frame as u64)
}
