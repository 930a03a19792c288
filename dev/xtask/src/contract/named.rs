//! The names of all tests with clause numbers in them, from the sources.

use crate::outcome::Outcome;
use crate::tidy::{names, tracked_files};
use std::collections::BTreeSet;
use std::fs;

/// These names.
#[derive(Debug, Default)]
pub struct Tests(BTreeSet<String>);

impl Tests {
    /// Reads every file known to git.
    pub fn read() -> Outcome<Tests> {
        let mut tests = Tests::default();
        for file in tracked_files()? {
            if !file.ends_with(".rs") || !(file.starts_with("crates/") || file.starts_with("tests/")) {
                continue;
            }
            let Ok(text) = fs::read_to_string(crate::root().join(&file)) else { continue };
            names::tests(&text).iter().for_each(|(_, name)| tests.add(name));
        }
        Ok(tests)
    }

    /// Adds one test.
    pub fn add(&mut self, name: &str) {
        if !names::clauses(name).is_empty() {
            self.0.insert(name.to_owned());
        }
    }

    /// Whether there is a test of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}
