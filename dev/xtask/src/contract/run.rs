//! Runs the tests of clauses: the model's, and those on live runtimes with a clause's number in their name.
//!
//! Tests of Remora without a runtime are not run: `cargo xtask test` runs them all.

use super::columns::Column;
use super::results::{self, Results};
use crate::outcome::{Failure, Outcome};
use crate::runtimes::Runtime;
use crate::test_output::conclude;
use crate::test_run;
use crate::tidy::names;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Runs them; returns the results' folder, and the run's failure if it failed.
pub fn run() -> Outcome<(PathBuf, Option<Failure>)> {
    let mut environment = test_run::prepare()?;
    let results = results::fresh_folder()?;
    environment.push(results.clone());
    let mut count = test_run::model(&environment)?;
    let clauses: Vec<String> = names::beginnings().collect();
    count.add(test_run::end_to_end(&environment, &clauses)?);
    Ok((results.1.into(), conclude(count).err()))
}

/// The columns that need results on this machine and have none: tests that write no results would go unnoticed otherwise.
pub fn missing_results(results: &Results, matrix: &[Runtime]) -> Vec<String> {
    let live = matrix.iter().filter_map(|runtime| Column::of_version(&runtime.version_text()));
    let required: BTreeSet<Column> = live.chain([Column::Sim]).collect();
    let missing_results = required.into_iter().filter(|column| !results.has_run(*column));
    missing_results
        .map(|column| {
            format!(
                "{}: no test left a result there, though it was to run: see what the test run said ({} names the folder to tests)",
                column.name(),
                results::VARIABLE
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_without_a_result_is_a_finding() {
        let runtime = |version: &[u32]| Runtime { version: version.into(), root: PathBuf::new() };
        let matrix = [runtime(&[3, 1, 23]), runtime(&[8, 0, 4]), runtime(&[6, 0, 1])];
        let mut results = Results::default();
        results.add(r#"{"test": "att_01_a", "world": "clr 8.0.4", "passed": true}"#).unwrap();
        let missing = missing_results(&results, &matrix);
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].starts_with("sim:") && missing[1].starts_with("clr 3.1:"), "{missing:?}");
    }
}
