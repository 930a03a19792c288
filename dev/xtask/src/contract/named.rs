//! The tests with clause numbers in their names, from the sources.

use super::assertions::is_of_package;
use super::columns::Column;
use crate::outcome::Outcome;
use crate::tidy::{names, tracked_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The tests of each clause, grouped by file.
#[derive(Debug, Default)]
pub struct Tests(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Tests {
    /// Reads every file known to git.
    pub fn read() -> Outcome<Tests> {
        let mut tests = Tests::default();
        for file in tracked_files()? {
            if !file.ends_with(".rs") || !(file.starts_with("crates/") || file.starts_with("tests/")) {
                continue;
            }
            let Ok(text) = fs::read_to_string(crate::root().join(&file)) else { continue };
            for (_, name) in names::tests(&text) {
                tests.add(&file, name);
            }
        }
        Ok(tests)
    }

    /// Adds one test.
    pub fn add(&mut self, file: &str, name: &str) {
        for id in names::clauses(name) {
            self.0.entry(id).or_default().entry(file.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// The files with tests of a clause, and the tests in each.
    pub fn of(&self, clause: &str) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.get(clause).into_iter().flatten().map(|(file, names)| (file.as_str(), names))
    }

    /// Whether a test exists that may show the clause in this column.
    pub fn may_show(&self, clause: &str, column: Column) -> bool {
        self.of(clause).any(|(file, _)| column.is_shown_by(file))
    }

    /// Whether a test fills this column if it passes.
    pub fn shows(&self, clause: &str, column: Column) -> bool {
        self.of(clause).any(|(file, _)| column.is_filled_by_whole(file))
    }

    /// The files of this package with a test of this name.
    pub fn files(&self, name: &str, package: &str) -> BTreeSet<&str> {
        let clauses = names::clauses(name);
        let all = clauses.iter().flat_map(|clause| self.of(clause)).filter(|(_, names)| names.contains(name));
        all.map(|(file, _)| file).filter(|file| is_of_package(file, package)).collect()
    }

    /// Whether there is a test of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_by_clause_by_name_and_by_package() {
        let mut tests = Tests::default();
        tests.add("crates/model/clr-model/tests/a.rs", "att_01_det_02_x");
        tests.add("tests/e2e/tests/runtime_a.rs", "att_01_det_02_x");
        tests.add("crates/target/corprof/src/a.rs", "no_clause");
        assert_eq!(tests.of("DET-02").count(), 2);
        assert!(tests.may_show("ATT-01", Column::Sim) && !tests.may_show("ATT-01", Column::Rem));
        let of_the_model = tests.files("att_01_det_02_x", "remora-clr-model");
        assert_eq!(of_the_model.into_iter().collect::<Vec<_>>(), ["crates/model/clr-model/tests/a.rs"]);
        assert!(tests.files("att_01_det_02_x", "corprof").is_empty());
        assert!(tests.has("att_01_det_02_x") && !tests.has("no_clause"));
    }
}
