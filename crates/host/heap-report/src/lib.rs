//! Reports about heap snapshots: types, dominators, suspects, findings, objects, paths, differences and conditions, as text or JSON.
//!
//! [`Report`] describes a whole snapshot, [`Show`] one object or type, [`Diff`] two snapshots, [`Condition`] is a `--fail-if`.
//! Each starts from a [`Snapshot`](remora_heap_file::Snapshot). Data not kept in memory (strings, values) is read from its file again.
//!
//! JSON: a field keeps its name and meaning; new ones may be added.
#![forbid(unsafe_code)]

mod columns;
mod condition;
mod diff;
mod error;
mod fields;
mod findings;
mod free;
mod holders;
mod in_short;
mod long_paths;
mod new_paths;
mod notes;
mod open;
mod origin;
mod reached;
mod report;
mod roots;
mod selection;
mod show;
mod static_paths;
mod strings;
mod suspects;
mod totals;
mod values;

pub use columns::Columns;
pub use condition::{Condition, parse as parse_condition};
pub use diff::Diff;
pub use error::Error;
pub use notes::notes;
pub use open::open_file;
pub use report::{Found, Group, Report, Summary};
pub use show::Show;
