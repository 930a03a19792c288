//! What may run in a signal handler: decide whether this instant is a sample, walk the stack, push, count.
//!
//! # Purpose
//! [`on_signal`] is the whole of the agent's signal handler. Everything it touches is prepared beforehand by the agent's own
//! thread and lives in memory of the attach ([`Session`], [`Slot`]).
//!
//! # Design constraints
//! `no_std`; no allocation, no lock, no waiting, no formatting, no panic on any path; errno is left as it was.
//! Memory of the interrupted thread is read only inside the bounds of its own stack, or through the kernel (`process_vm_readv`).
//!
//! # Supported
//! x86-64 Linux. One signal number per attach, sent to single threads by the agent's sampler.
//!
//! # Rejected
//! Reading unwind tables as files hold them: the collector compiles them. Names, and anything of the profiling API: those come later,
//! on the agent's thread.
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
pub use record::{EXACT, LEAF_WORDS, MAXIMUM_DEPTH, RawSample, UNKNOWN_LINK, WINDOW_WORDS};
pub use session::{Answers, Ask, Seen, Session, Slot, cookie};
pub use stack::{Code, Output, Registers, Walk, walk};
pub use timer::{arm, create, delete};
pub use waiting::Scheduled;
