//! The code of the signal handler, which decides whether an instant is a sample, walks the stack, pushes and counts. Also the heap walk.
//!
//! # Purpose
//! [`on_signal`] is the agent's whole signal handler. The worker prepares everything that the handler accesses, in memory of the attach
//! ([`Session`], [`Slot`]).
//!
//! # Design constraints
//! `no_std`. No path allocates, locks, waits, formats or panics; errno stays as it was.
//! Reads of the interrupted thread's memory stay inside the bounds of its own stack, or go through the kernel (`process_vm_readv`).
//!
//! # Supported
//! x86-64 Linux. One signal number per attach, sent to single threads by the agent's sampler.
//!
//! # Rejected
//! Reading unwind tables in their file format: the collector compiles them. Names, and calls of the profiling API: the worker makes them
//! later.
#![no_std]

#[cfg(test)]
extern crate std;

mod blocked;
mod clock;
mod handler;
mod heap;
mod links;
mod memory;
mod native;
mod random;
mod ranges;
mod raw;
mod record;
mod session;
mod stack;
mod thrown;
mod timer;
mod waiting;

pub use blocked::{Blocked, Reading, StackReader};
pub use clock::{monotonic, process_cpu, thread_cpu, thread_cpu_of};
pub use handler::{InSignal, on_signal};
pub use heap::{
    Cursor, FROZEN_RANGE, ForkedCopy, HeapArea, HeapClass, HeapRange, HeapReader, HeapRoot, MOST_ARGUMENTS, Shape,
    ShownWalk, StreamSink, Walked, walk_heap, write_statics,
};
pub use links::{LINK_WORDS, Link, Links};
pub use memory::{Bounded, Memory, read_checked};
pub use native::Native;
pub use random::Random;
pub use ranges::Ranges;
pub use record::{EXACT, LEAF_WORDS, MAXIMUM_DEPTH, RawSample, THROWN, UNKNOWN_LINK, WINDOW_WORDS};
pub use session::{Answers, Ask, Seen, Session, Slot, cookie};
pub use stack::{Code, Output, Registers, Walk, walk};
pub use thrown::thrown;
pub use timer::{arm, create, delete};
pub use waiting::Scheduled;
