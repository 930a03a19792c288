//! What the sources say about each cell: the assertions, and the tests that are named after clauses.

use super::assertions::Assertions;
use super::columns::Column;
use super::named::Tests;
use super::unasserted::Unasserted;
use crate::outcome::Outcome;

/// Everything that tests may show.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Where clauses are asserted.
    pub assertions: Assertions,
    /// The tests with clauses in their names.
    pub tests: Tests,
    /// The files with tests whose names say more than they assert.
    pub unasserted: Unasserted,
}

impl Evidence {
    /// Reads the sources.
    pub fn read() -> Outcome<Evidence> {
        Ok(Evidence { assertions: Assertions::read()?, tests: Tests::read()?, unasserted: Unasserted::read()? })
    }

    /// Whether something in the sources may show the clause in this column.
    pub fn may_show(&self, clause: &str, column: Column) -> bool {
        self.assertions.has(clause, column)
    }

    /// Whether the sources alone say that the clause is shown there. Only a run says so of a live runtime.
    pub fn shows(&self, clause: &str, column: Column) -> bool {
        !column.is_live() && self.assertions.has(clause, column)
    }

    /// Adds a source file.
    #[cfg(test)]
    pub fn add(&mut self, file: &str, text: &str) {
        self.assertions.add(file, text);
        crate::tidy::names::tests(text).iter().for_each(|(_, name)| self.tests.add(name));
    }
}
