//! No backtraces: their code would be a third of the library.
//!
//! The standard library's own panic hook prints a backtrace. For it, the library would contain a reader of debug information, of compressed
//! sections and of mangled names: 180 KiB. The libraries replace that hook before anything can panic, so this code never runs.
//! The hook reaches the reader only through `_Unwind_Backtrace`, which calls a function for each frame. This file defines that name, and
//! calls nothing. The link-time optimisation sees that and drops the reader. Panics unwind by other functions, which stay those of the C++
//! runtime.
//!
//! # Design constraints
//! Zig links the C++ runtime's unwinder statically. Its archive has `_Unwind_Backtrace` in one file with three small functions that
//! unwinding needs. They are here too, so that the linker does not use that file: it would refuse two definitions of a name.
//!
//! # Rejected
//! Building std without backtraces, or without its panic hook: needs an unstable compiler.

use std::ffi::c_void;

/// The unwinder's answer when a stack has no more frames (`_URC_END_OF_STACK` of the C++ ABI).
const END_OF_STACK: i32 = 5;

// Hidden, so that only this library's calls come here.
std::arch::global_asm!(
    ".hidden _Unwind_Backtrace",
    ".hidden _Unwind_GetIPInfo",
    ".hidden _Unwind_GetTextRelBase",
    ".hidden _Unwind_GetDataRelBase",
);

unsafe extern "C" {
    safe fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Reports no frames.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_each: *const c_void, _argument: *mut c_void) -> i32 {
    END_OF_STACK
}

/// The return address of a frame, after its call. Only a frame interrupted by a signal would have an address before (`is_before`): nothing
/// unwinds through a signal handler here.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_GetIPInfo(context: *mut c_void, is_before: &mut i32) -> usize {
    *is_before = 0;
    _Unwind_GetIP(context)
}

/// The base address of some unwind tables; none on x86-64 uses it.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_GetTextRelBase(_context: *mut c_void) -> usize {
    0
}

/// See [`_Unwind_GetTextRelBase`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_GetDataRelBase(_context: *mut c_void) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use std::backtrace::{Backtrace, BacktraceStatus};
    use std::panic::catch_unwind;

    #[test]
    fn panics_unwind_as_ever_and_there_are_no_backtraces() {
        let dropped = std::sync::Arc::new(());
        let held = dropped.clone();
        let caught = catch_unwind(move || {
            let _held = held;
            panic!("on purpose");
        });
        let words = caught.unwrap_err().downcast_ref::<&str>().copied();
        assert_eq!((words, std::sync::Arc::strong_count(&dropped)), (Some("on purpose"), 1));
        assert_eq!(Backtrace::force_capture().status(), BacktraceStatus::Unsupported);
    }
}
