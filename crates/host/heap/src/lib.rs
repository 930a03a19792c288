//! The neutral model of an object graph: objects, references, types and roots in flat arrays, and what holds what.
//!
//! # Purpose
//! A [`HeapGraph`] is what one heap snapshot means, independent of how it was taken and of how it will be written.
//! It is made by a [`Builder`], and asked by [`DominatorTree`], [`ShortestPaths`], [`Referrers`], [`tables`] and [`diff`].
//!
//! # Design constraints
//! A hundred million objects on one machine: nothing is kept for each object but numbers in flat arrays, and no step is recursive.
//!
//! | what | bytes an object | bytes a reference |
//! |---|---|---|
//! | the graph | 20 | 4 |
//! | while it is built, objects ascending | 21 | 6 |
//! | while it is built, objects in any order | 33 | 8 |
//! | [`DominatorTree`], finished | 24 | 0 |
//! | [`DominatorTree`], while it is made | 32 at most | 8 at most |
//! | [`HeapGraph::infer_roots`] | 9 at most while it works | 0 |
//! | [`ShortestPaths`] | 4, and 4 while it is made | 0 |
//! | [`Referrers`] | 4 | 4 |
//!
//! What is made, and while it is made, comes on top of the graph. Its own line says all.
//! An object of 4 GiB or more, a type and a root cost more; there are few.
//!
//! # Supported
//! References that lead to no known object, objects that were given twice and whatever could not be walked: counted in [`Completeness`].
//! Roots that are not known: [`HeapGraph::infer_roots`].
//! What a heap shows of wasted room and forgotten holders: [`findings`].
//! Objects that nothing holds: they stay in the graph, and in the dominator tree they hang under a node of their own.
//!
//! # Rejected
//! `Serialize` on these types: files have their own, versioned, boundary types.
//! A graph that grows after it was finished: a second snapshot is a second graph.
#![forbid(unsafe_code)]

mod address;
mod bits;
mod builder;
mod completeness;
pub mod diff;
mod dominators;
mod duplicates;
mod error;
pub mod findings;
mod graph;
mod inference;
pub mod layout;
mod limits;
mod lookup;
mod order;
mod paths;
mod referrers;
mod root;
mod statics;
pub mod tables;
mod types;
pub mod values;
mod workers;

pub use address::{addresses, asked_address};
pub use builder::{Builder, Object};
pub use completeness::Completeness;
pub use dominators::{DominatorTree, Node};
pub use duplicates::{Duplicates, Repeated};
pub use error::Error;
pub use graph::{HeapGraph, ObjectIx};
pub use limits::Limits;
pub use paths::{Path, ShortestPaths, Step};
pub use referrers::Referrers;
pub use root::{Root, RootKind};
pub use statics::{StaticContent, StaticField};
pub use types::{ArrayFacts, Event, Place, Type, TypeFacts, TypeFlags, TypeIx};
