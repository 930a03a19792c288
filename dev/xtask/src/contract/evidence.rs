//! What the sources say about each cell: the assertions, and the tests that are named after clauses.

use super::assertions::Assertions;
use super::columns::Column;
use super::named::Tests;
use crate::outcome::Outcome;

/// Everything that tests may show.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Where clauses are asserted.
    pub assertions: Assertions,
    /// The tests with clauses in their names.
    pub tests: Tests,
}

impl Evidence {
    /// Reads the sources.
    pub fn read() -> Outcome<Evidence> {
        Ok(Evidence { assertions: Assertions::read()?, tests: Tests::read()? })
    }

    /// Whether something in the sources may show the clause in this column.
    pub fn may_show(&self, clause: &str, column: Column) -> bool {
        self.assertions.has(clause, column)
    }

    /// Whether the sources alone say that the clause is shown there. Only a run says so of a live runtime.
    pub fn shows(&self, clause: &str, column: Column) -> bool {
        !column.is_live() && self.assertions.has(clause, column)
    }

    /// Tests that do not assert a clause of their name.
    pub fn findings(&self) -> impl Iterator<Item = String> {
        self.assertions.missing().into_iter().map(|(file, test, clause)| {
            format!("{file}: `{test}` does not assert {clause}: use `holds!` where it shows that, or take the clause out of its name")
        })
    }

    /// Adds a source file.
    #[cfg(test)]
    pub fn add(&mut self, file: &str, text: &str) {
        self.assertions.add(file, text);
        crate::tidy::names::tests(text).iter().for_each(|(_, name)| self.tests.add(name));
    }
}

#[cfg(test)]
mod the_evidence {
    use super::*;

    #[test]
    fn a_test_that_does_not_assert_the_clause_of_its_name_is_a_finding() {
        let mut evidence = Evidence::default();
        evidence.add("tests/a/tests/a.rs", "#[test]\nfn att_01_a() {\n    holds!(ATT_01 clr, true);\n}\n");
        evidence.add("tests/a/tests/b.rs", "#[test]\nfn att_01_b() {\n    assert!(true);\n}\n");
        let found: Vec<String> = evidence.findings().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("tests/a/tests/b.rs: `att_01_b` does not assert ATT-01"), "{found:?}");
    }
}
