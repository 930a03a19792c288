//! What of Remora is in a process before and after: the proof that nothing is left.
//!
//! # Purpose
//! A [`Snapshot`] is what `/proc` tells of a process at one instant.
//! A [`Receipt`] compares the one before the attach with the one after the detach, knowing from [`Facts`] what the recording put there.
//! [`find_left_overs`] needs no snapshot before: it finds what an interrupted recording left; [`find_what_stays`], what stays on purpose.
//!
//! # Design constraints
//! A live server changes by itself, so only what is attributable to Remora is judged; totals are shown.
//! What could not be read is never taken for clean: it stands in [`Receipt::left`] as such.
//! What was not looked at, because nothing of the kind was touched, is said to be so ([`Verdict::NotLookedAt`]).
//! The root of `/proc` is a parameter, so that every judgement can be tested on made-up trees.
//!
//! # Supported
//! Linux; targets in other pid namespaces (ids are compared in the target's own numbering); targets that ended or exec'ed meanwhile.
//!
//! # Rejected
//! Asking the target anything, stopping it, or reading its memory: a proof must not disturb what it proves.
#![forbid(unsafe_code)]

mod error;
mod facts;
mod judge;
mod judge_signals;
mod left;
mod left_overs;
mod parse;
mod proc_tree;
mod receipt;
mod receipt_json;
mod receipt_text;
mod snapshot;

pub use error::{Error, Result};
pub use facts::{AgentThread, EventSession, Facts, GcMode, ProfilerCount, ProfilerSlot, Task};
pub use left::{Kind, Left};
pub use left_overs::{find_left_overs, find_what_musl_keeps, find_what_stays};
pub use parse::parse_anything;
pub use receipt::{Outcome, Receipt, Verdict};
pub use snapshot::{
    Child, Descriptor, Mapping, Mappings, Memory, Placed, Presence, Signals, Snapshot, Thread, Timer, Totals, Unread,
};
