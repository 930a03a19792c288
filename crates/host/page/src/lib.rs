//! Style and script that the pages of recordings and heap snapshots share: colours, header, elements made of texts.
//!
//! # Purpose
//! Both pages look alike, and neither makes markup of texts from a target. Each adds its own style sheet and script.
//!
//! # Rejected
//! A framework: the pages are small, and a recording's page carries everything with it.
#![forbid(unsafe_code)]

/// The common style sheet; a page's own one follows it.
pub const STYLE: &str = include_str!("../assets/style.css");

/// The common functions, for a script that is in one piece with others.
pub const SCRIPT: &str = include_str!("../assets/text.js");

/// The same as a module.
pub const MODULE: &str =
    concat!(include_str!("../assets/text.js"), "export { element, byId, isolated, percent, plain, utc };\n");
