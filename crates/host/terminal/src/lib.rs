//! Text for terminals: lines that cannot drive one, tables, numbers, sizes and durations.
//!
//! Nothing here prints. Much of the text comes from a target or a file, so a [`Page`] consists of harmless lines.
#![forbid(unsafe_code)]

pub mod duration;
mod escaped;
mod numbers;
mod page;
pub mod size;
mod table;

pub use escaped::Escaped;
pub use numbers::{counted, grouped, percent, signed};
pub use page::{Page, harmless_json, line, plain, titled};
pub use table::{Table, beginning};
