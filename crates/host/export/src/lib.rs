//! One file per output format: a [`Profile`] goes in, bytes come out.
//!
//! # Purpose
//! Writes every supported format from the same model: [`write()`] with a [`Format`].
//!
//! # Design constraints
//! Sees only the profile: no paths, no clocks, no sockets, no environment.
//! The same profile gives the same bytes, so that outputs can be compared.
//! No weight is lost: the weights of an output add up to [`Profile::total_weight`]; each format's file documents its rounding.
//! A format that repeats what stacks have in common has a maximum size ([`TooLarge`]).
//! Every format contains the profile's losses ([`remora_profile::Loss`], notes).
//!
//! # Supported
//! HTML (one self-contained page), folded stacks, speedscope, pprof, Firefox Profiler.
//!
//! # Rejected
//! Reading any of these. Remora's own recording: `recording` has it.
#![forbid(unsafe_code)]

mod account;
mod firefox;
mod folded;
mod format;
mod html;
mod pprof;
mod size;
mod speedscope;
mod sums;

pub use format::Format;
pub use size::TooLarge;

use remora_profile::{ApplicationRule, Profile};
use std::io::{self, Write};

/// A frame on top of a blocked sample's leaf, in formats without a thread state.
const BLOCKED: &str = "[blocked]";

/// Writes `profile` to `out` in `format`. `rule` says which code is the application's; only [`Format::Html`] shows it.
///
/// # Errors
/// Those of `out`; and [`TooLarge`], inside an [`io::Error`], before anything is written.
pub fn write(profile: &Profile, format: Format, rule: &ApplicationRule, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Html => write_page(profile, rule, &[], out),
        Format::Folded => folded::write(profile, out),
        Format::Speedscope => speedscope::write(profile, out),
        Format::Pprof => pprof::write(profile, out),
        Format::Firefox => firefox::write(profile, out),
    }
}

/// Writes a page with `advice` above its tables: `Problem: …` or `Hint: …`.
///
/// # Errors
/// Those of `out`.
pub fn write_page(profile: &Profile, rule: &ApplicationRule, advice: &[String], out: &mut dyn Write) -> io::Result<()> {
    html::write(profile, rule, advice, out)
}
