//! Runs the tests of clauses: those that assert one, or have a clause's number in their name.

use super::columns::Column;
use super::evidence::Evidence;
use super::results::{self, Results};
use crate::outcome::{Failure, Outcome};
use crate::runtimes::Runtime;
use crate::test_output::conclude;
use crate::test_run;
use crate::tidy::names;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::slice;

/// Runs them; returns the results' folder, and the run's failure if it failed.
pub fn run(evidence: &Evidence) -> Outcome<(PathBuf, Option<Failure>)> {
    let mut environment = test_run::prepare()?;
    let results = results::fresh_folder()?;
    environment.push(results.clone());
    let mut filter: Vec<String> = names::beginnings().collect();
    let named = |test: &str| filter.iter().any(|beginning| test.starts_with(beginning));
    let others: Vec<String> =
        evidence.assertions.functions().into_iter().filter(|test| !named(test)).map(str::to_owned).collect();
    filter.extend(others);
    let mut count = test_run::without_runtimes(slice::from_ref(&results), &filter)?;
    count.add(test_run::end_to_end(&environment, &filter)?);
    Ok((results.1.into(), conclude(count).err()))
}

/// The columns that need results on this machine and have none: tests that write no results would go unnoticed otherwise.
pub fn missing_results(results: &Results, matrix: &[Runtime]) -> Vec<String> {
    let live = matrix.iter().filter_map(|runtime| Column::of_version(&runtime.version_text()));
    let required: BTreeSet<Column> = live.chain([Column::Sim, Column::Rem]).collect();
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
    use crate::contract::results::{InWorld, Left};

    #[test]
    fn a_runtime_without_a_result_is_a_finding() {
        let runtime = |version: &[u32]| Runtime { version: version.into(), root: PathBuf::new() };
        let matrix = [runtime(&[3, 1, 23]), runtime(&[8, 0, 4]), runtime(&[6, 0, 1])];
        let world = InWorld { test: "att_01_a".into(), world: "clr 8.0.4".into(), passed: true };
        let left = Left { worlds: vec![world], ..Left::default() };
        let results = Results::of_run(left, &Evidence::default()).unwrap();
        let missing = missing_results(&results, &matrix);
        assert_eq!(missing.len(), 3, "{missing:?}");
        assert!(missing[0].starts_with("sim:") && missing[1].starts_with("clr 3.1:"), "{missing:?}");
        assert!(missing[2].starts_with("rem:"), "{missing:?}");
    }
}
