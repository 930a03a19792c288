//! Names of marks: those that replace a run of the runtime's frames, and those of missing frames.

use crate::{GC, INCOMPLETE, LOCK_WAIT, TRUNCATED};

pub(crate) const JIT: &str = "[JIT]";
pub(crate) const EXCEPTION: &str = "[exception: unwind]";
pub(crate) const ALLOCATION: &str = "[allocation]";
pub(crate) const TYPE_LOAD: &str = "[type load]";
pub(crate) const THREAD_START: &str = "[thread start]";
pub(crate) const RUNTIME: &str = "[runtime]";

/// Whether `name` is that of a run of the runtime's frames.
pub(crate) fn is_of_runtime(name: &str) -> bool {
    [GC, LOCK_WAIT, JIT, EXCEPTION, ALLOCATION, TYPE_LOAD, THREAD_START, RUNTIME].contains(&name)
}

/// Whether `name` is that of missing outer frames.
pub(crate) fn is_cut(name: &str) -> bool {
    [TRUNCATED, INCOMPLETE].contains(&name)
}
