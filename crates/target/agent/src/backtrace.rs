//! No backtraces: what prints them would be a third of the library.
//!
//! The standard library's own panic hook prints a backtrace, and brings a reader of debug information, of compressed sections and of mangled
//! names along for it: 180 KiB. The agent replaces that hook before anything can panic (`host.rs`), so that none of it ever runs.
//! The hook reaches it only by what `_Unwind_Backtrace` calls for each frame. Here that name is ours, and calls nothing: the link-time
//! optimisation sees that, and leaves the reader out. Panics unwind by other functions, which stay those of the C++ runtime.
//!
//! # Design constraints
//! Zig links the C++ runtime's unwinder statically, and in its archive three small functions that unwinding needs lie in one file with
//! `_Unwind_Backtrace`. They are here too, so that this file is not linked; if it were, the linker would refuse two of a name.
//!
//! # Rejected
//! Building std without backtraces, or without its panic hook: needs an unstable compiler.

use std::ffi::c_void;

/// What the unwinder answers when a stack has no more frames (`_URC_END_OF_STACK` of the C++ ABI).
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

/// Shows none of the frames.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_each: *const c_void, _argument: *mut c_void) -> i32 {
    END_OF_STACK
}

/// Where a frame goes on, behind its call. Only below a signal handler it would stand before: nothing unwinds through one here.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_GetIPInfo(context: *mut c_void, is_before: &mut i32) -> usize {
    *is_before = 0;
    _Unwind_GetIP(context)
}

/// What an unwind table may count from: on x86-64 none does.
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
