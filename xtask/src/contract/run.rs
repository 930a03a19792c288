//! Runs the tests that hold clauses: the model's, and those on live runtimes that carry a clause's number.
//!
//! Tests of Remora without a runtime are not run: `cargo xtask test` runs them all.

use super::columns::Column;
use super::results::{self, Sight};
use crate::outcome::{Failure, Outcome};
use crate::runtimes::Runtime;
use crate::test_output::conclude;
use crate::test_run;
use crate::tidy::names;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Runs them; the folder of the results, and how the run ended if that was badly.
pub fn run() -> Outcome<(PathBuf, Option<Failure>)> {
    let mut environment = test_run::prepare()?;
    let results = results::fresh_folder()?;
    environment.push(results.clone());
    let mut count = test_run::model(&environment)?;
    count.add(test_run::trigger_on_live_runtimes(&environment)?);
    let clauses: Vec<String> = names::beginnings().collect();
    count.add(test_run::end_to_end(&environment, &clauses)?);
    Ok((results.1.into(), conclude(count).err()))
}

/// The columns that must have results on this machine, and have none: tests that tell nothing would show nothing, and nobody would see it.
pub fn silent(sight: &Sight, matrix: &[Runtime]) -> Vec<String> {
    let live = matrix.iter().filter_map(|runtime| Column::of_version(&runtime.version_text()));
    let owed: BTreeSet<Column> = live.chain([Column::Sim]).collect();
    let silent = owed.into_iter().filter(|column| !sight.has_run(*column));
    silent
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
    use crate::contract::named::Tests;

    #[test]
    fn a_runtime_without_a_result_is_a_finding() {
        let runtime = |version: &[u32]| Runtime { version: version.into(), root: PathBuf::new() };
        let matrix = [runtime(&[3, 1, 23]), runtime(&[8, 0, 4]), runtime(&[6, 0, 1])];
        let mut sight = Sight::default();
        sight.add(r#"{"test": "att_01_a", "world": "clr 8.0.4", "passed": true}"#, &Tests::default()).unwrap();
        let told = silent(&sight, &matrix);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("sim:") && told[1].starts_with("clr 3.1:"), "{told:?}");
    }
}
