//! `layers.toml` as values.

use crate::outcome::{Context, Outcome};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The allow-lists. Anything not listed is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rules {
    /// The layers that a layer may depend on.
    pub layers: BTreeMap<String, BTreeSet<String>>,
    /// The third-party crates that a layer may contain; a missing layer may contain any.
    pub third_party: BTreeMap<String, BTreeSet<String>>,
    /// The crates of the workspace that a crate of the layer `host` may depend on.
    pub host: BTreeMap<String, BTreeSet<String>>,
    /// The crates with unsafe code, and why.
    pub r#unsafe: BTreeMap<String, String>,
    pub prints: Prints,
}

/// Who may print, read the environment and end the process.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prints {
    /// Crates.
    pub allowed: BTreeSet<String>,
    /// Single files of other crates, and why.
    pub files: BTreeMap<String, String>,
}

impl Rules {
    /// Reads the file; every table must exist.
    pub fn read(path: &Path) -> Outcome<Rules> {
        let text = std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).context(|| path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_repository_are_readable() {
        let rules = Rules::read(&crate::root().join("layers.toml")).unwrap();
        assert!(rules.third_party["target"].contains("libc"));
        assert!(rules.prints.allowed.contains("xtask"));
    }

    #[test]
    fn a_missing_table_is_a_failure_and_not_an_empty_rule() {
        assert!(toml::from_str::<Rules>("[layers]\ntarget = []\n").is_err());
    }
}
