//! A native debugger: `tests/targets/native/tracer.c`, which takes one command a line.

use crate::{Start, Target, native};
use std::process::Command;

/// A debugger that stops a process, or lets it run while attached. It is killed when the value is dropped, and the process continues.
pub struct Debugger(Target);

impl Debugger {
    /// Stops every thread of a process.
    pub fn halt(pid: u32) -> Debugger {
        let mut command = Command::new(native("tracer"));
        command.arg(pid.to_string());
        Debugger(Start::of(command, "the debugger").ready())
    }

    /// Lets all threads run, and stays attached.
    pub fn let_run(&mut self) {
        assert_eq!(self.0.ask("run"), "runs");
    }

    /// Detaches, and the process continues.
    pub fn leave(self) {
        assert!(self.0.quit().success());
    }
}
