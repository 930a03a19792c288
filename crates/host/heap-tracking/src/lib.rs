//! A picture of a heap that begins with a snapshot and is kept true through later collections.
//!
//! # Purpose
//! An [`ObjectCache`] has every object of a heap with its class, its size and how many collections it has survived. A [`Watch`] makes one of
//! a snapshot, applies to it what the agent tells of each collection, counts who was born and who died, and holds it against another
//! snapshot: the same objects, or it says what is not.
//!
//! # Design constraints
//! Tens of millions of objects, and collections of the youngest generation many times a second: what a collection does not touch is not
//! looked at. An object takes 24 bytes; while two pictures are compared, twice that.
//! Bytes in, numbers out: no file, no clock, no process. What is read is not trusted: whatever does not fit together is counted.
//!
//! # Supported
//! Collections of which something was lost: the picture is stale from then on, until the next snapshot.
//! Objects of which nobody has heard, since they were born after the last collection: they are not there (contract GCH-04).
//!
//! # Rejected
//! One sorted array of all objects: each collection of the youngest generation would move all of it.
//! References: what changed between two collections is told nowhere but in a snapshot.
#![forbid(unsafe_code)]

mod account;
mod cache;
mod classes;
mod collection;
mod picture;
mod watch;

pub use account::{Account, Ages, Collections, Tally};
pub use cache::{Applied, Difference, Known, ObjectCache};
pub use classes::Classes;
pub use collection::{Collection, Gathering, Heard};
pub use watch::{Compared, Watch};
