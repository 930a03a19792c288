//! The heap mirror: begins with a snapshot, and is kept up to date through later GCs.
//!
//! # Purpose
//! An [`ObjectCache`] has every object of a heap with its class, its size and the number of GCs that it has survived. A [`Watch`] builds
//! one from a snapshot, and applies the agent's report of each GC. It counts births and deaths, and compares the result with another
//! snapshot.
//!
//! # Design constraints
//! - Tens of millions of objects, and many GCs of the youngest generation a second: ranges that a GC does not touch are not visited.
//! - An object takes 24 bytes; twice that during a comparison.
//! - Bytes in, numbers out: no file, no clock, no process. Input is not trusted: contradictions are counted.
//!
//! # Supported
//! - GCs with lost pieces: the mirror is stale from then on, until the next snapshot.
//! - Objects born after the last GC: they are unknown, and not in the mirror (contract GCH-04).
//!
//! # Rejected
//! - One sorted array of all objects: each GC of the youngest generation would move all of it.
//! - References: only a snapshot reports how they changed between two GCs.
#![forbid(unsafe_code)]

mod account;
mod cache;
mod classes;
mod collection;
mod known;
mod snapshot;
mod watch;

pub use account::{Account, Ages, Collections, Tally};
pub use cache::{Applied, Difference, ObjectCache};
pub use classes::Classes;
pub use collection::{Collection, Gathering, Received};
pub use known::Known;
pub use watch::{Compared, Watch};
