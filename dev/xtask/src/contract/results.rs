//! The results of a test run, in the folder named by the variable [`VARIABLE`].
//!
//! A test that runs on several runtimes writes a line for each, into its process's file: `{"test": …, "world": "clr 8.0.4", "passed":
//! true}`.
//! The test runner's reports (`.xml`) are in the same folder: they list every test with its package.

use super::columns::Column;
use super::named::Tests;
use crate::cache;
use crate::folders::listed;
use crate::outcome::{Context, Outcome};
use crate::test_output::{self, TestResult, function};
use crate::tidy::names;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The variable that names the folder, in tests and in the environment of a test run.
pub const VARIABLE: &str = "REMORA_CONTRACT_RESULTS";

/// The results for one clause in one column.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CellResults {
    /// The tests that passed, each with its world.
    pub passed: BTreeSet<String>,
    /// The tests that failed.
    pub failed: BTreeSet<String>,
}

/// All results of a run.
#[derive(Debug, Default)]
pub struct Results {
    cells: BTreeMap<(String, Column), CellResults>,
    ran: BTreeSet<Column>,
    without_column: BTreeSet<String>,
}

/// A line that a test leaves for each world.
#[derive(Deserialize)]
struct Line {
    test: String,
    world: String,
    passed: bool,
}

impl Results {
    /// Reads the folder of a run.
    pub fn read(folder: &Path, tests: &Tests) -> Outcome<Results> {
        let mut results = Results::default();
        for path in listed(folder)? {
            let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
            if path.extension().is_some_and(|extension| extension == "xml") {
                let reported = test_output::results(&text).context(|| path.display())?;
                reported.iter().for_each(|result| results.add_result(result, tests));
                continue;
            }
            for (number, line) in text.lines().enumerate() {
                results.add(line).context(|| format!("{}:{}", path.display(), number + 1))?;
            }
        }
        Ok(results)
    }

    /// Adds one line.
    pub fn add(&mut self, line: &str) -> Outcome<()> {
        let Line { test, world, passed } =
            serde_json::from_str(line).context(|| "a result that is not JSON, or not all of it")?;
        let test = function(&test);
        match Column::of_world(&world)? {
            Some(column) => self.note(test, column, format!("{test} on {world}"), passed),
            None => _ = self.without_column.insert(world),
        }
        Ok(())
    }

    /// Adds one test of the test runner's report.
    pub fn add_result(&mut self, result: &TestResult, tests: &Tests) {
        for file in tests.files(&result.test, &result.package) {
            for column in super::columns::ALL.into_iter().filter(|column| column.is_filled_by_whole(file)) {
                self.note(&result.test, column, result.test.clone(), result.passed);
            }
        }
    }

    /// Whether any tests ran for this column.
    pub fn has_run(&self, column: Column) -> bool {
        self.ran.contains(&column)
    }

    /// The results for a cell.
    pub fn of(&self, clause: &str, column: Column) -> Option<&CellResults> {
        self.cells.get(&(clause.to_owned(), column))
    }

    /// The worlds with results but without a column.
    pub fn without_column(&self) -> impl Iterator<Item = &str> {
        self.without_column.iter().map(String::as_str)
    }

    fn note(&mut self, test: &str, column: Column, named: String, passed: bool) {
        self.ran.insert(column);
        for clause in names::clauses(test) {
            let seen = self.cells.entry((clause, column)).or_default();
            if passed { &mut seen.passed } else { &mut seen.failed }.insert(named.clone());
        }
    }
}

/// An empty folder for a run's results, and its variable.
pub fn fresh_folder() -> Outcome<(&'static str, OsString)> {
    Ok((VARIABLE, cache::empty_folder(&crate::target_folder()?.join("contract-results"))?.into()))
}

/// Copies the test runner's report, if the run collects results.
pub fn keep(environment: &[(&str, OsString)], report: &Path) -> Outcome<()> {
    let Some((_, folder)) = environment.iter().find(|(name, _)| *name == VARIABLE) else { return Ok(()) };
    let kept = |number: &u32| Path::new(folder).join(format!("runner-{number}.xml"));
    let Some(free) = (1..).map(|number| kept(&number)).find(|path| !path.exists()) else { return Ok(()) };
    fs::copy(report, &free).context(|| format!("cannot write {}", free.display())).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Tests {
        let mut tests = Tests::default();
        tests.add("crates/model/clr-model/tests/a.rs", "att_01_a");
        tests.add("tests/e2e/tests/runtime_a.rs", "att_01_a");
        tests.add("tests/e2e/tests/receipt.rs", "att_01_det_02_b");
        tests
    }

    fn seen(lines: &[&str]) -> Results {
        let mut results = Results::default();
        lines.iter().for_each(|line| results.add(line).unwrap());
        results
    }

    #[test]
    fn a_live_test_fills_the_column_of_its_world_for_each_of_its_clauses() {
        let results = seen(&[
            r#"{"test": "att_01_det_02_b", "world": "clr 8.0.4", "passed": true}"#,
            r#"{"test": "tests::att_01_a", "world": "clr 8.0.4", "passed": false}"#,
            r#"{"test": "att_01_a", "world": "clr 6.0.36", "passed": true}"#,
        ]);
        let of_att = results.of("ATT-01", Column::Clr8).unwrap();
        assert!(
            of_att.passed.contains("att_01_det_02_b on clr 8.0.4") && of_att.failed.contains("att_01_a on clr 8.0.4")
        );
        assert_eq!(results.of("DET-02", Column::Clr8).unwrap().failed.len(), 0);
        assert!(results.of("ATT-01", Column::Clr9).is_none() && !results.has_run(Column::Clr9));
        assert_eq!(results.without_column().collect::<Vec<_>>(), ["clr 6.0.36"]);
    }

    #[test]
    fn the_runners_result_of_a_test_goes_by_its_file_and_package() {
        let mut results = Results::default();
        for (package, test, passed) in [
            ("remora-clr-model", "att_01_a", true),
            ("remora-e2e", "att_01_det_02_b", false),
            ("remora-e2e", "att_01_a", false),
        ] {
            let result = TestResult { package: package.into(), test: test.into(), passed };
            results.add_result(&result, &named());
        }
        assert_eq!(results.of("ATT-01", Column::Sim).unwrap().failed.len(), 0);
        assert_eq!(results.of("ATT-01", Column::Sim).unwrap().passed.len(), 1);
        assert!(results.of("DET-02", Column::Rem).unwrap().failed.contains("att_01_det_02_b"));
        assert_eq!(
            results.of("ATT-01", Column::Rem).unwrap().failed.len(),
            1,
            "the runtime's own test is none of Remora"
        );
        assert!(!results.has_run(Column::Clr8));
    }

    #[test]
    fn a_line_that_is_no_result_is_a_failure_with_its_place() {
        let folder = std::env::temp_dir().join(format!("remora-xtask-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1.jsonl");
        fs::write(&path, "{\"test\": \"att_01_a\", \"world\": \"sim 8\", \"passed\": true}\n{\"test\"").unwrap();
        let torn = Results::read(&folder, &named()).unwrap_err().to_string();
        fs::write(&path, "{\"test\": \"att_01_a\", \"passed\": true}\n").unwrap();
        let half = Results::read(&folder, &named()).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(torn.contains("1.jsonl:2") && torn.contains("not JSON"), "{torn}");
        assert!(half.contains("1.jsonl:1") && half.contains("`world`"), "{half}");
    }

    #[test]
    fn reports_are_kept_where_the_environment_of_the_run_says_and_none_replaces_another() {
        let folder =
            cache::empty_folder(&std::env::temp_dir().join(format!("remora-xtask-keep-{}", std::process::id())));
        let folder = folder.unwrap();
        let report = folder.join("junit");
        let environment = [(VARIABLE, folder.clone().into_os_string())];
        for test in ["att_01_a", "att_01_det_02_b"] {
            fs::write(&report, format!(r#"<testcase name="x::{test}" classname="remora-{}"/>"#, "clr-model")).unwrap();
            keep(&environment, &report).unwrap();
        }
        fs::remove_file(&report).unwrap();
        assert!(folder.join("runner-2.xml").is_file());
        let results = Results::read(&folder, &named()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(results.of("ATT-01", Column::Sim).unwrap().passed.contains("att_01_a"));
        assert!(keep(&[], &report).is_ok());
    }
}
