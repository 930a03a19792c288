//! A native debugger: `tests/targets/native/tracer.c`, which obeys a line at a time.

use crate::{Start, Target, native};
use std::process::Command;

/// A debugger that holds a process, or lets it run under its eyes. It is killed when the value is dropped, and the process goes on.
pub struct Debugger(Target);

impl Debugger {
    /// Halts every thread of a process.
    pub fn halt(pid: u32) -> Debugger {
        let mut command = Command::new(native("tracer"));
        command.arg(pid.to_string());
        Debugger(Start::of(command, "the debugger").ready())
    }

    /// Lets all go on and stays.
    pub fn let_run(&mut self) {
        assert_eq!(self.0.ask("run"), "runs");
    }

    /// Goes, and the process goes on.
    pub fn leave(self) {
        assert!(self.0.quit().success());
    }
}
