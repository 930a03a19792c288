//! A heap snapshot as a page in the browser: an index in a file, and a server for one user of one machine.
//!
//! # Purpose
//! Explores a heap of ten million objects in a browser. The page queries a [`Server`], which answers from an [`Index`];
//! [`make`] builds the index once from the graph. The reasons are in docs/design/0013-heap-view.md.
//!
//! # Design constraints
//! Only requested data is read: the first page of any heap takes some hundred reads of the index.
//! The index is untrusted: every length, count and offset is checked before use, and each block has a checksum.
//! A damaged index is reported as [`Error::Damaged`], and a new one is made.
//! Answers are bounded: every list has pages of [`MOST_ROWS`] rows at most, every chain is cut in the middle.
//! The server answers only requests with its secret that name this machine as their host.
//!
//! # Supported
//! As many objects as a graph can have.
//!
//! # Rejected
//! A mapped index: if the file shrinks, access crashes the process, and there is no unsafe code here.
//! Answers with markup: names come from the target, and become text in the browser.
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
