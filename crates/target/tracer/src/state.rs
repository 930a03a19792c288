//! What the hooks need: set once, before the first of them runs.

use crate::application::Choice;
use crate::clock::HookClock;
use corprof::{Alive, Info, Startup};
use remora_call_table::{Table, layout};
use std::sync::OnceLock;

/// The tracer of this process.
pub static STATE: OnceLock<State> = OnceLock::new();

/// The runtime's functions, and what is traced: set in Initialize.
pub static RUNNING: OnceLock<Running> = OnceLock::new();

/// What callbacks need, too, and hooks that ask the runtime.
pub struct Running {
    /// The runtime's functions.
    pub info: Info<Startup, Alive>,
    /// Which methods are hooked.
    pub choice: Choice,
}

/// The memory, and the clock.
pub struct State {
    /// Mapped for the life of the process.
    pub table: Table<'static>,
    /// The same clock for all threads.
    pub clock: HookClock,
    /// Whether arguments and results are kept.
    pub has_values: bool,
}

impl State {
    /// The method as a number, if its calls are to be counted.
    #[inline]
    pub fn counted(&self, method: usize) -> Option<u32> {
        if self.table.is_stopped() {
            return None;
        }
        if method >= layout::METHODS {
            self.table.count(layout::STRANGE);
            return None;
        }
        Some(method as u32)
    }
}
