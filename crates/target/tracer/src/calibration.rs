//! The cost of the hooks themselves, measured with the real stubs before the first managed code.

use crate::hooks::{enter, leave};
use crate::state::State;
use crate::threads;
use core::arch::asm;
use remora_call_table::{Clock, layout};

/// Calls of one round.
const CALLS: u64 = 1_000;
/// Rounds; the cheapest counts, since a round may be interrupted.
const ROUNDS: u32 = 20;
/// The method of the calibration: the first record.
const METHOD: u64 = 0;

/// Measures, and stores the result in the table's header.
pub fn calibrate(state: &State) {
    let Some(record) = state.table.begin_thread(0, state.clock.now()) else { return };
    state.table.is_for_calibration(record);
    threads::use_record(record);
    let (mut inside, mut whole) = (u64::MAX, u64::MAX);
    let ticks_inside =
        || state.table.nodes().filter(|(_, node)| node.parent().0 != 0).map(|(_, node)| node.ticks()).sum();
    for _ in 0..ROUNDS {
        let before: u64 = ticks_inside();
        let began = state.clock.now();
        for _ in 0..CALLS {
            call();
        }
        let round = state.clock.now() - began;
        inside = inside.min(ticks_inside() - before);
        whole = whole.min(round);
    }
    threads::forget_current();
    let share = |ticks: u64| ticks.saturating_mul(256) / CALLS;
    state.table.set_header(layout::COST_INSIDE, share(inside));
    state.table.set_header(layout::COST_OUTSIDE, share(whole.saturating_sub(inside)));
}

/// A call of an empty method, as JIT-compiled code makes it.
#[inline(never)]
fn call() {
    // SAFETY: the registers are those that the JIT would set, and the stubs preserve the others as declared here. The red zone is not used:
    // without `nostack` the compiler keeps nothing below the stack pointer.
    unsafe {
        asm!(
            "push r14",
            "push r15",
            "mov r14, {method}",
            "lea r15, [rsp + 64]",
            "call {enter}",
            "mov rdi, r14",
            "mov rsi, r15",
            "call {leave}",
            "pop r15",
            "pop r14",
            method = const METHOD,
            enter = sym enter,
            leave = sym leave,
            out("rdi") _,
            out("rsi") _,
            clobber_abi("sysv64"),
        );
    }
}
