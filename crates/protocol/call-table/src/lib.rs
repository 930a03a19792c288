//! The shared memory in which the tracer counts and times calls, and the recorder reads them.
//!
//! # Purpose
//! Each thread has a calling-context tree: a node for each method, by the nodes of its callers. A node counts the calls, sums their time, and
//! holds the call that is active now. So the path from the current node to its root is the thread's shadow stack, and a killed target leaves
//! everything in the memory.
//!
//! # Design constraints
//! `no_std`, no allocation, no lock, no panic: the hooks call it at every entry and exit of a method. A thread writes only its own nodes, with
//! plain loads and stores; only new nodes are claimed by compare-and-swap. Nodes of all threads are in one hash table by (parent, method),
//! with a bounded search. Full memory loses the place of a call, never its count: [`layout::LOST`] and the count of its method have it.
//! The recorder takes every number in it as foreign, and bounds each walk.
//!
//! # Rejected
//! A stream of events: an application calls a hundred million methods a second.
//! A shadow stack beside the tree: of one path, each node is active once at most, so that the node has room for its call.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod activation;
pub mod layout;
mod names;
mod table;
mod threads;
mod values;

pub use activation::{Call, Clock};
pub use layout::{LongCall, ValuesPlace};
pub use names::{Method, MethodIndex, Module, Text};
pub use table::{Node, NodeId, Table};
pub use threads::{ThreadIndex, ThreadRecord};
pub use values::{Kind, RESULT, Value, Values, read_values};
