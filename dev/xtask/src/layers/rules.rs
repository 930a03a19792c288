//! `layers.toml` as values.

use crate::outcome::{Context, Failure, Outcome};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The allow-lists. Anything not listed is refused.
#[derive(Debug, Default)]
pub struct Rules {
    /// The layers that a layer may depend on.
    pub layers: BTreeMap<String, BTreeSet<String>>,
    /// The third-party crates that a layer may contain; a missing layer may contain any.
    pub third_party: BTreeMap<String, BTreeSet<String>>,
    /// The crates of the workspace that a crate of the layer `host` may depend on.
    pub host: BTreeMap<String, BTreeSet<String>>,
    /// The crates with unsafe code.
    pub with_unsafe: BTreeSet<String>,
    /// The crates that may print, read the environment and end the process.
    pub printing: BTreeSet<String>,
    /// Single files of other crates that may, too.
    pub printing_files: BTreeSet<String>,
    /// The licences of third-party crates.
    pub licences: BTreeSet<String>,
}

impl Rules {
    /// Reads the file; every table must exist.
    pub fn read(path: &Path) -> Outcome<Rules> {
        let text = std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
        Rules::parse(&text).context(|| path.display())
    }

    fn parse(text: &str) -> Outcome<Rules> {
        let file: Value = toml::from_str(text).context(|| "not TOML")?;
        Ok(Rules {
            layers: sets(table(&file, "layers")?)?,
            third_party: sets(table(&file, "third-party")?)?,
            host: sets(table(&file, "host")?)?,
            with_unsafe: table(&file, "unsafe")?.keys().cloned().collect(),
            printing: set(&file["prints"]["allowed"])?,
            printing_files: table(&file["prints"], "files")?.keys().cloned().collect(),
            licences: set(&file["licences"]["allowed"])?,
        })
    }
}

fn table<'a>(file: &'a Value, name: &str) -> Outcome<&'a Map<String, Value>> {
    file[name].as_object().ok_or_else(|| Failure::new(format!("there is no table [{name}]")))
}

fn sets(table: &Map<String, Value>) -> Outcome<BTreeMap<String, BTreeSet<String>>> {
    table.iter().map(|(name, value)| Ok((name.clone(), set(value)?))).collect()
}

fn set(value: &Value) -> Outcome<BTreeSet<String>> {
    let Some(items) = value.as_array() else { return Err(Failure::new(format!("{value} is not a list of names"))) };
    Ok(items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_repository_are_readable() {
        let rules = Rules::read(&crate::root().join("layers.toml")).unwrap();
        assert!(rules.third_party["target"].contains("libc"));
        assert!(rules.licences.contains("MIT"));
        assert!(!rules.licences.contains("CDDL-1.0"));
    }

    #[test]
    fn a_missing_table_is_a_failure_and_not_an_empty_rule() {
        assert!(Rules::parse("[layers]\ntarget = []\n").is_err());
    }

    #[test]
    fn both_lists_of_licences_are_one() {
        let rules = Rules::read(&crate::root().join("layers.toml")).unwrap();
        let deny = std::fs::read_to_string(crate::root().join("deny.toml")).unwrap();
        let deny: Value = toml::from_str(&deny).unwrap();
        assert_eq!(set(&deny["licenses"]["allow"]).unwrap(), rules.licences);
    }
}
