//! Compares a process before the attach and after the detach: the proof that nothing of Remora is left.
//!
//! # Purpose
//! - A [`Snapshot`] is the state of a process in `/proc` at one instant.
//! - A [`Receipt`] compares the baseline (before the attach) with the snapshot after the detach. [`Facts`] say what the recording put
//!   there.
//! - [`find_left_overs`] needs no baseline: it finds what an interrupted recording left.
//! - [`find_what_stays`] finds what stays on purpose.
//!
//! # Design constraints
//! - A live server changes by itself: only changes attributable to Remora are checked; totals are shown.
//! - Unreadable parts never count as clean: [`Receipt::left`] lists them.
//! - The receipt lists untouched kinds as not checked ([`Verdict::NotLookedAt`]).
//! - The root of `/proc` is a parameter, so that tests can check every rule on made-up trees.
//!
//! # Supported
//! Linux; targets in other pid namespaces (ids are compared in the target's own namespace); targets that ended or called `exec` meanwhile.
//!
//! # Rejected
//! Asking the target anything, stopping it, or reading its memory: a proof must not disturb what it proves.
#![forbid(unsafe_code)]

mod comparison;
mod error;
mod facts;
mod left;
mod leftovers;
mod parse;
mod proc_tree;
mod receipt;
mod receipt_json;
mod receipt_text;
mod signal_comparison;
mod snapshot;

pub use error::{Error, Result};
pub use facts::{AgentThread, EventSession, Facts, GcMode, ProfilerCount, ProfilerSlot, Task};
pub use left::{Kind, Left};
pub use leftovers::{find_left_overs, find_what_musl_keeps, find_what_stays};
pub use parse::parse_anything;
pub use receipt::{Outcome, Receipt, Verdict};
pub use snapshot::{
    Child, Descriptor, Descriptors, Mapping, Mappings, Memory, Placed, Presence, Signals, Snapshot, Thread, Timer,
    Totals, Unread,
};
