//! `contract-unasserted.toml`: files with tests that do not assert every clause of their names.
//!
//! `cargo xtask contract --tables` removes what is asserted, and a check finds it there. Nothing adds to the list.

use super::assertions::Assertions;
use crate::outcome::{Context, Outcome};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;

/// The file.
pub const FILE: &str = "contract-unasserted.toml";

/// The head of the file.
const HEAD: &str = "# Files with tests that do not assert (`holds!`) every clause of their names. Such a name fills no cell of docs/authors/contract.md.
# `cargo xtask contract --tables` takes files out of it.
# After a merge with a conflict here, keep either side and run that.
";

/// The list.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unasserted {
    /// `tests/e2e/tests/places.rs`.
    files: BTreeSet<String>,
}

impl Unasserted {
    /// Reads it from the repository. Without the file it is empty.
    pub fn read() -> Outcome<Unasserted> {
        let path = crate::root().join(FILE);
        if !path.exists() {
            return Ok(Unasserted::default());
        }
        Unasserted::parse(&fs::read_to_string(&path).context(|| format!("cannot read {FILE}"))?)
    }

    /// Parses the file.
    pub fn parse(text: &str) -> Outcome<Unasserted> {
        toml::from_str(text).context(|| format!("{FILE} cannot be read"))
    }

    /// The list without what is asserted by now.
    pub fn shrunk(&self, assertions: &Assertions) -> Unasserted {
        let open: BTreeSet<&str> = assertions.missing().into_iter().map(|(file, _, _)| file).collect();
        Unasserted { files: self.files.iter().filter(|file| open.contains(file.as_str())).cloned().collect() }
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
        let is_empty = self.files.is_empty();
        if is_empty && !path.exists() {
            return Ok(());
        }
        let written = if is_empty { fs::remove_file(&path) } else { fs::write(&path, self.text()) };
        written.context(|| format!("cannot write {FILE}"))
    }

    fn text(&self) -> String {
        let lines: String = self.files.iter().map(|one| format!("    \"{one}\",\n")).collect();
        format!("{HEAD}\nfiles = [\n{lines}]\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assertions() -> Assertions {
        let mut assertions = Assertions::default();
        assertions.add("tests/a/tests/a.rs", "#[test]\nfn att_01_a() {\n    holds!(ATT_01 clr, true);\n}\n");
        assertions.add("tests/a/tests/b.rs", "#[test]\nfn att_01_b() {\n    assert!(true);\n}\n");
        assertions
    }

    #[test]
    fn a_file_whose_tests_assert_what_they_are_named_after_leaves_the_list() {
        let unasserted = Unasserted::parse("files = ['tests/a/tests/a.rs', 'tests/a/tests/b.rs']").unwrap();
        assert_eq!(unasserted.findings(&assertions()).len(), 1);
        let shrunk = unasserted.shrunk(&assertions());
        assert_eq!(shrunk, Unasserted::parse("files = ['tests/a/tests/b.rs']").unwrap());
        assert!(shrunk.findings(&assertions()).is_empty());
        assert_eq!(Unasserted::parse(&shrunk.text()).unwrap(), shrunk);
    }

    #[test]
    fn a_test_that_does_not_assert_the_clause_of_its_name_is_a_finding_outside_the_list() {
        let found = Unasserted::default().findings(&assertions());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("tests/a/tests/b.rs: `att_01_b` does not assert ATT-01"), "{found:?}");
    }
}
