//! What tests said of themselves while they ran: lines in a folder that the variable [`VARIABLE`] names.
//!
//! A test that runs in several worlds writes a line for each, into a file of its process: `{"test": …, "world": "clr 8.0.4", "passed": true}`.
//! Of every test, whatever it runs on, we write what the test runner said, as of the world [`WHOLE`], with the package.

use super::columns::Column;
use super::named::Tests;
use crate::outcome::{Context, Outcome, bail};
use crate::test_output::{TestOutcome, function};
use crate::tidy::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What names the folder to the tests, and to us in the environment of a test run.
pub const VARIABLE: &str = "REMORA_CONTRACT_RESULTS";

/// The world of a test's outcome as a whole.
const WHOLE: &str = "whole";

/// What was seen of one clause in one column.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The tests that passed, each with its world.
    pub passed: BTreeSet<String>,
    /// Those that failed.
    pub failed: BTreeSet<String>,
}

/// Everything that a run showed.
#[derive(Debug, Default)]
pub struct Sight {
    cells: BTreeMap<(String, Column), Seen>,
    ran: BTreeSet<Column>,
    without_column: BTreeSet<String>,
}

impl Sight {
    /// From the folder of a run.
    pub fn read(folder: &Path, tests: &Tests) -> Outcome<Sight> {
        let entries = fs::read_dir(folder).context(|| format!("cannot list {}", folder.display()))?;
        let mut sight = Sight::default();
        for path in entries.flatten().map(|entry| entry.path()) {
            let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
            for (number, line) in text.lines().enumerate() {
                sight.add(line, tests).context(|| format!("{}:{}", path.display(), number + 1))?;
            }
        }
        Ok(sight)
    }

    /// Takes note of one line.
    pub fn add(&mut self, line: &str, tests: &Tests) -> Outcome<()> {
        let line: Value = serde_json::from_str(line).context(|| "a result that is not JSON")?;
        let (Some(test), Some(world), Some(passed)) =
            (line["test"].as_str(), line["world"].as_str(), line["passed"].as_bool())
        else {
            bail!("a result needs `test`, `world` and `passed`; this is {line}");
        };
        let test = function(test);
        if world == WHOLE {
            for file in tests.files(test, line["package"].as_str()) {
                for column in super::columns::ALL.into_iter().filter(|column| column.is_filled_by_whole(file)) {
                    self.see(test, column, test.to_owned(), passed);
                }
            }
            return Ok(());
        }
        match Column::of_world(world)? {
            Some(column) => self.see(test, column, format!("{test} on {world}"), passed),
            None => _ = self.without_column.insert(world.to_owned()),
        }
        Ok(())
    }

    /// Whether tests ran for this column at all.
    pub fn has_run(&self, column: Column) -> bool {
        self.ran.contains(&column)
    }

    /// What was seen of a cell.
    pub fn of(&self, clause: &str, column: Column) -> Option<&Seen> {
        self.cells.get(&(clause.to_owned(), column))
    }

    /// The worlds that tests ran in and that have no column.
    pub fn without_column(&self) -> impl Iterator<Item = &str> {
        self.without_column.iter().map(String::as_str)
    }

    fn see(&mut self, test: &str, column: Column, told: String, passed: bool) {
        self.ran.insert(column);
        for clause in names::clauses(test) {
            let seen = self.cells.entry((clause, column)).or_default();
            if passed { &mut seen.passed } else { &mut seen.failed }.insert(told.clone());
        }
    }
}

/// An empty folder for the results of a run, and the variable that names it.
pub fn fresh_folder() -> Outcome<(&'static str, OsString)> {
    let folder = crate::target_folder()?.join("contract-results");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(|| format!("cannot clear {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    Ok((VARIABLE, folder.into()))
}

/// Writes down what the test runner said, if the run is one whose results are kept.
pub fn keep(command: &Command, outcomes: &[TestOutcome]) -> Outcome<()> {
    let named = command.get_envs().find(|(name, _)| *name == VARIABLE).and_then(|(_, folder)| folder);
    let Some(path) = named.map(|folder| PathBuf::from(folder).join("runner.jsonl")) else { return Ok(()) };
    let lines: String = outcomes
        .iter()
        .map(|outcome| {
            let TestOutcome { package, test, passed } = outcome;
            format!("{}\n", json!({"test": test, "world": WHOLE, "package": package, "passed": passed}))
        })
        .collect();
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.create(true).append(true).open(&path).context(|| format!("cannot open {}", path.display()))?;
    file.write_all(lines.as_bytes()).context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Tests {
        let mut tests = Tests::default();
        tests.add("crates/clr-sim/tests/a.rs", "att_01_a");
        tests.add("tests/e2e/tests/runtime_a.rs", "att_01_a");
        tests.add("tests/e2e/tests/receipt.rs", "att_01_det_02_b");
        tests
    }

    fn seen(lines: &[&str]) -> Sight {
        let mut sight = Sight::default();
        lines.iter().for_each(|line| sight.add(line, &named()).unwrap());
        sight
    }

    #[test]
    fn a_live_test_fills_the_column_of_its_world_for_each_of_its_clauses() {
        let sight = seen(&[
            r#"{"test": "att_01_det_02_b", "world": "clr 8.0.4", "passed": true}"#,
            r#"{"test": "tests::att_01_a", "world": "clr 8.0.4", "passed": false}"#,
            r#"{"test": "att_01_a", "world": "clr 6.0.36", "passed": true}"#,
        ]);
        let of_att = sight.of("ATT-01", Column::Clr8).unwrap();
        assert!(
            of_att.passed.contains("att_01_det_02_b on clr 8.0.4") && of_att.failed.contains("att_01_a on clr 8.0.4")
        );
        assert_eq!(sight.of("DET-02", Column::Clr8).unwrap().failed.len(), 0);
        assert!(sight.of("ATT-01", Column::Clr9).is_none() && !sight.has_run(Column::Clr9));
        assert_eq!(sight.without_column().collect::<Vec<_>>(), ["clr 6.0.36"]);
    }

    #[test]
    fn what_the_runner_says_of_a_test_goes_by_its_file_and_package() {
        let of_the_model = r#"{"test": "att_01_a", "world": "whole", "package": "remora-clr-sim", "passed": true}"#;
        let of_remora = r#"{"test": "att_01_det_02_b", "world": "whole", "package": "remora-e2e", "passed": false}"#;
        let of_the_runtime = r#"{"test": "att_01_a", "world": "whole", "package": "remora-e2e", "passed": false}"#;
        let sight = seen(&[of_the_model, of_remora, of_the_runtime]);
        assert_eq!(sight.of("ATT-01", Column::Sim).unwrap().failed.len(), 0);
        assert_eq!(sight.of("ATT-01", Column::Sim).unwrap().passed.len(), 1);
        assert!(sight.of("DET-02", Column::Rem).unwrap().failed.contains("att_01_det_02_b"));
        assert_eq!(
            sight.of("ATT-01", Column::Rem).unwrap().failed.len(),
            1,
            "the runtime's own test is none of Remora"
        );
        assert!(!sight.has_run(Column::Clr8));
    }

    #[test]
    fn a_line_that_is_no_result_is_a_failure_with_its_place() {
        let folder = std::env::temp_dir().join(format!("remora-xtask-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1.jsonl");
        fs::write(&path, "{\"test\": \"att_01_a\", \"world\": \"sim 8\", \"passed\": true}\n{\"test\"").unwrap();
        let torn = Sight::read(&folder, &named()).unwrap_err().to_string();
        fs::write(&path, "{\"test\": \"att_01_a\", \"passed\": true}\n").unwrap();
        let half = Sight::read(&folder, &named()).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert!(torn.contains("1.jsonl:2") && torn.contains("not JSON"), "{torn}");
        assert!(half.contains("1.jsonl:1") && half.contains("`world`"), "{half}");
    }

    #[test]
    fn outcomes_are_kept_where_the_environment_of_the_run_says() {
        let folder = std::env::temp_dir().join(format!("remora-xtask-keep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let outcome = TestOutcome { package: Some("remora-clr-sim".into()), test: "att_01_a".into(), passed: true };
        keep(Command::new("x").env(VARIABLE, &folder), &[outcome]).unwrap();
        let sight = Sight::read(&folder, &named()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(sight.of("ATT-01", Column::Sim).unwrap().passed.contains("att_01_a"));
        assert!(keep(&Command::new("x"), &[]).is_ok());
    }
}
