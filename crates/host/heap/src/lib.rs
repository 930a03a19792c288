//! The neutral model of an object graph: objects, references, types and roots in flat arrays, and retention.
//!
//! # Purpose
//! A [`HeapGraph`] is the content of one heap snapshot, independent of its source and its file formats.
//! A [`Builder`] makes it; [`DominatorTree`], [`ShortestPaths`], [`Referrers`], [`tables`] and [`diff`] query it.
//!
//! # Design constraints
//! A hundred million objects on one machine: per object only numbers in flat arrays, and no recursion.
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
//! All rows but the first three come on top of the graph. A "while" row is the total of its structure.
//! An object of 4 GiB or more, a type and a root cost more; there are few.
//!
//! # Supported
//! References to unknown objects, duplicate objects and parts of the heap that were not walked: counted in [`Completeness`].
//! Unknown roots: [`HeapGraph::infer_roots`].
//! Wasted memory and forgotten references: [`findings`]. What keeps much of the heap: [`suspects`].
//! Objects that no root reaches: they stay in the graph; in the dominator tree they are below a node of their own.
//!
//! # Rejected
//! `Serialize` on these types: files have their own, versioned, boundary types.
//! A graph that grows after it was finished: a second snapshot is a second graph.
#![forbid(unsafe_code)]

mod address;
mod allowance;
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
mod object_ix;
mod order;
mod outline;
mod paths;
mod referrers;
mod root;
mod statics;
pub mod suspects;
pub mod tables;
mod types;
pub mod values;
mod ways;
mod workers;

pub use address::{addresses, asked_address};
pub use allowance::Allowance;
pub use builder::{Builder, Object};
pub use completeness::Completeness;
pub use dominators::{DominatorTree, Node};
pub use duplicates::{Duplicates, Repeated};
pub use error::Error;
pub use graph::HeapGraph;
pub use limits::Limits;
pub use object_ix::ObjectIx;
pub use outline::{Holds, Outline, ReferenceField, Refers, Types};
pub use paths::{Path, ShortestPaths, Step};
pub use referrers::Referrers;
pub use root::{Root, RootKind};
pub use statics::{StaticContent, StaticField};
pub use types::{ArrayFacts, Event, Place, Type, TypeFacts, TypeFlags, TypeIx, ambiguous};
pub use ways::Ways;
pub use workers::both;
