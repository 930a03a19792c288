//! `cargo xtask layers`: checks that the crates keep the layering rules, and that no files of a crate use each other in a circle.
//!
//! The rules are in `layers.toml`. The facts come from cargo itself, so a dependency cannot hide behind another.
//! Everything is an allow-list: anything not listed is refused.
//! cargo-deny checks licences and sources of dependencies by `deny.toml`.

mod cycles;
mod edges;
mod rules;
mod source;

use crate::outcome::{Context, Outcome, bail};
use crate::{packages, process};
use edges::Workspace;
use rules::Rules;
use serde_json::Value;

/// Checks every rule and prints each violation.
pub fn run(_: &[String]) -> Outcome<()> {
    let rules = Rules::read(&crate::root().join("layers.toml"))?;
    let metadata = process::output(process::cargo().args(["metadata", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context(|| "cargo metadata is not JSON")?;
    let workspace = Workspace::of(&metadata);
    let mut violations = edges::violations(&workspace, &rules);
    violations.extend(source::violations(&workspace, &rules)?);
    violations.extend(cycles::violations(&workspace)?);
    let deny = packages::provide("cargo-deny")?.join("cargo-deny");
    process::output(process::cargo_tool(deny).args(["--offline", "check", "licenses", "bans", "sources"]))?;
    if violations.is_empty() {
        println!("layers: {} crates keep to the rules", workspace.members.len());
        return Ok(());
    }
    for violation in &violations {
        eprintln!("layers: {violation}");
    }
    bail!("{} violations (the rules and their reasons are in layers.toml)", violations.len())
}
