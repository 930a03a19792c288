//! The target's end of the connection to the recorder: the order at startup, the control channel, shared memory.
//!
//! # Purpose
//! Both libraries that Remora loads into a target, the agent and the tracer, reach their recorder in the same way.
//!
//! # Design constraints
//! core, std and libc only. Every wait is bounded, and nothing here starts a thread.
//!
//! # Rejected
//! The tasks themselves: what is done with the connection belongs to each library.

mod abandoned;
mod channel;
mod memory;
mod startup;

pub use abandoned::remove_abandoned;
pub use channel::{Channel, connect, receive_with_descriptor};
pub use memory::{MappedWords, Mapping, advise};
pub use startup::{set_back_in_runtime, take_order};
