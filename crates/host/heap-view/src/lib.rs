//! A snapshot of a heap as a page in the browser: an index in a file, and a server for one user of one machine.
//!
//! # Purpose
//! Who holds what in a heap of ten million objects, looked at with a mouse: the page asks, a [`Server`] answers out of an [`Index`],
//! which was [made](make) of the graph once. Why so: docs/design/0013-heap-view.md.
//!
//! # Design constraints
//! Nothing is read but what is asked for: the first picture of any heap takes some hundred reads of the index.
//! The index is not trusted: a length, a count or a place that it claims is checked before it is used, and each block of it has a
//! checksum. What is wrong ends in [`Error::Damaged`], and a new index is made.
//! Answers are bounded: every list has pages of [`MOST_ROWS`] rows at most, every chain is cut in the middle.
//! The server answers whoever knows its secret and asks for it by a name of this machine, and nobody else.
//!
//! # Supported
//! As many objects as a graph can have.
//!
//! # Rejected
//! A mapped index: a file that shrinks under a mapping ends the process, and there is no unsafe code here.
//! Answers that carry markup: names come from the target, and become text in the browser.
#![forbid(unsafe_code)]

mod about;
mod answers;
mod error;
mod index;
mod pages;
mod server;
mod view;

pub use about::About;
pub use answers::MOST_ROWS;
pub use error::Error;
pub use index::{Id, Index, Key, List, Parts, Record, TypeEntry, make};
pub use server::{Server, read_any_request};
pub use view::View;
