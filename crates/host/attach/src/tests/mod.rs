//! The tests of requests against a server, and what other tests of this crate share.

pub(crate) mod elf;
pub(crate) mod process;
mod server;
