//! The parts of a safe detach and unload, without policy: [`crate::sdk`] and Remora's agent both build their detach from them.
//!
//! # Purpose
//! - [`LibraryReference`]: keeps the library mapped under its own threads, and is released after their last instruction.
//! - [`OwnThread`]: a thread of the profiler, started on a thread of the runtime.
//! - [`RunningCallbacks`]: how many callbacks run, and how long they take.
//! - [`CallbackProof`]: proves that the runtime still calls this profiler.
//!
//! # Design constraints
//! What a callback calls is marked so: it neither allocates nor locks nor waits.
//!
//! # Rejected
//! Waiting and clocks: the caller passes the time and the thread, so that a model of the runtime can run the same code.

mod callback_proof;
mod library_reference;
mod own_thread;
mod running_callbacks;

pub use callback_proof::{CallbackProof, this_thread};
pub use library_reference::{LibraryReference, can_unmap, is_part_of_the_program};
pub use own_thread::{OwnThread, SignalsBlocked};
pub use running_callbacks::RunningCallbacks;
