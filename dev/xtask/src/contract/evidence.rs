//! What the sources say about each cell: assertions, and where there is none yet, the names of tests.

use super::assertions::Assertions;
use super::by_name::ByName;
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
    /// The cells that such names still credit.
    pub by_name: ByName,
}

impl Evidence {
    /// Reads the sources.
    pub fn read() -> Outcome<Evidence> {
        Ok(Evidence { assertions: Assertions::read()?, tests: Tests::read()?, by_name: ByName::read()? })
    }

    /// Whether the names of tests credit this cell.
    pub fn is_by_name(&self, clause: &str, column: Column) -> bool {
        self.by_name.has(clause, column, &self.assertions)
    }

    /// Whether something in the sources may show the clause in this column.
    pub fn may_show(&self, clause: &str, column: Column) -> bool {
        self.assertions.has(clause, column) || self.is_by_name(clause, column) && self.tests.may_show(clause, column)
    }

    /// Whether the sources alone say that the clause is shown there. Only a run says so of a live runtime.
    pub fn shows(&self, clause: &str, column: Column) -> bool {
        let asserted = !column.is_live() && self.assertions.has(clause, column);
        asserted || self.is_by_name(clause, column) && self.tests.shows(clause, column)
    }

    /// Adds a source file.
    #[cfg(test)]
    pub fn add(&mut self, file: &str, text: &str) {
        self.assertions.add(file, text);
        for (_, name) in crate::tidy::names::tests(text) {
            self.tests.add(file, name);
        }
    }
}
