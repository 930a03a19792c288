//! The runtime's side.

pub mod schedule;
