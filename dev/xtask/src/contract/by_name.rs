//! `contract-by-name.toml`: what no assertion shows yet. These cells are still credited by the names of tests.
//!
//! The list can only shrink: `cargo xtask contract --tables` removes what has an assertion, and a check finds it there.

use super::assertions::Assertions;
use super::columns::{self, Column};
use crate::outcome::{Context, Outcome};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;

/// The file.
pub const FILE: &str = "contract-by-name.toml";

/// The head of the file.
const HEAD: &str = "# Cells of docs/authors/contract.md that no assertion (`holds!`) shows yet: the names of tests credit them.
# Files with tests that do not assert every clause of their names. Both lists can only shrink: `cargo xtask contract --tables` does it.
# After a merge with a conflict here, keep either side and run that.
";

/// The two lists.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByName {
    /// `ATT-01 rem`.
    cells: BTreeSet<String>,
    /// `tests/e2e/tests/places.rs`.
    files: BTreeSet<String>,
}

impl ByName {
    /// Reads it from the repository. Without the file nothing is credited by name.
    pub fn read() -> Outcome<ByName> {
        let path = crate::root().join(FILE);
        if !path.exists() {
            return Ok(ByName::default());
        }
        ByName::parse(&fs::read_to_string(&path).context(|| format!("cannot read {FILE}"))?)
    }

    /// Parses the file.
    pub fn parse(text: &str) -> Outcome<ByName> {
        toml::from_str(text).context(|| format!("{FILE} cannot be read"))
    }

    /// Whether names credit this cell. An assertion in the sources ends that.
    pub fn has(&self, clause: &str, column: Column, assertions: &Assertions) -> bool {
        self.cells.contains(&format!("{clause} {}", column.kind())) && !assertions.has(clause, column)
    }

    /// The lists without what is asserted by now.
    pub fn shrunk(&self, assertions: &Assertions) -> ByName {
        let asserted = |cell: &str| {
            columns::ALL.into_iter().any(|column| {
                cell.strip_suffix(column.kind()).is_some_and(|clause| assertions.has(clause.trim_end(), column))
            })
        };
        let open: BTreeSet<&str> = assertions.missing().into_iter().map(|(file, _, _)| file).collect();
        ByName {
            cells: self.cells.iter().filter(|cell| !asserted(cell)).cloned().collect(),
            files: self.files.iter().filter(|file| open.contains(file.as_str())).cloned().collect(),
        }
    }

    /// What the check finds: entries that are no longer right, and tests in other files that do not assert what they are named after.
    pub fn findings(&self, assertions: &Assertions) -> Vec<String> {
        let mut findings = Vec::new();
        if self.shrunk(assertions) != *self {
            findings.push(format!("{FILE} names what is asserted by now: run `cargo xtask contract --tables`"));
        }
        for (file, test, clause) in assertions.missing() {
            if !self.files.contains(file) {
                findings.push(format!(
                    "{file}: `{test}` does not assert {clause}: use `holds!` where it shows that, or take the clause out of its name"
                ));
            }
        }
        findings
    }

    /// Writes the file; removes it when nothing is left.
    pub fn write(&self) -> Outcome<()> {
        let path = crate::root().join(FILE);
        let is_empty = self.cells.is_empty() && self.files.is_empty();
        if is_empty && !path.exists() {
            return Ok(());
        }
        let written = if is_empty { fs::remove_file(&path) } else { fs::write(&path, self.text()) };
        written.context(|| format!("cannot write {FILE}"))
    }

    fn text(&self) -> String {
        let list = |name: &str, of: &BTreeSet<String>| {
            let lines: String = of.iter().map(|one| format!("    \"{one}\",\n")).collect();
            format!("\n{name} = [\n{lines}]\n")
        };
        format!("{HEAD}{}{}", list("cells", &self.cells), list("files", &self.files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "cells = ['ATT-01 sim', 'ATT-01 clr', 'ATT-02 rem']\nfiles = ['tests/a/tests/a.rs', 'tests/a/tests/b.rs']\n";

    fn assertions() -> Assertions {
        let mut assertions = Assertions::default();
        assertions.add("tests/a/tests/a.rs", "#[test]\nfn att_01_a() {\n    holds!(ATT_01 clr, true);\n}\n");
        assertions.add("tests/a/tests/b.rs", "#[test]\nfn att_01_b() {\n    assert!(true);\n}\n");
        assertions
    }

    #[test]
    fn what_has_an_assertion_is_credited_by_name_no_longer_and_leaves_the_list() {
        let by_name = ByName::parse(TEXT).unwrap();
        let assertions = assertions();
        assert!(by_name.has("ATT-01", Column::Sim, &assertions) && !by_name.has("ATT-01", Column::Clr9, &assertions));
        assert!(!by_name.has("ATT-03", Column::Sim, &assertions));
        assert_eq!(by_name.findings(&assertions).len(), 1);
        let shrunk = by_name.shrunk(&assertions);
        assert_eq!(
            shrunk,
            ByName::parse("cells = ['ATT-01 sim', 'ATT-02 rem']\nfiles = ['tests/a/tests/b.rs']").unwrap()
        );
        assert!(shrunk.findings(&assertions).is_empty());
        assert_eq!(ByName::parse(&shrunk.text()).unwrap(), shrunk);
    }

    #[test]
    fn a_test_that_does_not_assert_the_clause_of_its_name_is_a_finding_outside_the_list() {
        let found = ByName::default().findings(&assertions());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("tests/a/tests/b.rs: `att_01_b` does not assert ATT-01"), "{found:?}");
    }
}
