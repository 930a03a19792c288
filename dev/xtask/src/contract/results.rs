//! The results of a test run, in the folder named by the variable [`VARIABLE`].
//!
//! - An assertion of a clause that held leaves a line (`.holds`): which clause, in which world, in which test (`tests/holds`).
//! - A test that runs on several runtimes leaves a line for each (`.jsonl`): whether it passed there.
//! - The test runner's reports (`.xml`) list every test with its package.
//!
//! A line counts if its test passed. A test that failed makes every cell fail that it asserts in the sources, as it may not have come so far.

use super::Evidence;
use super::columns::{self, Column};
use crate::cache;
use crate::folders::listed;
use crate::outcome::{Context, Outcome};
use crate::test_output::{self, TestResult, function};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The variable that names the folder, in tests and in the environment of a test run.
pub const VARIABLE: &str = "REMORA_CONTRACT_RESULTS";

/// The package that tests the macro: its assertions show nothing.
const OF_THE_MACRO: &str = "remora-holds";

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
    /// Tests whose assertions held, and which no report of the test runner has.
    unreported: BTreeSet<String>,
}

/// What the tests of a run left.
#[derive(Debug, Default)]
pub struct Left {
    /// Assertions that held.
    pub held: Vec<Held>,
    /// The results of tests in their worlds.
    pub worlds: Vec<InWorld>,
    /// The reports of the test runner.
    pub reported: Vec<TestResult>,
}

/// An assertion that held.
#[derive(Debug, Deserialize)]
pub struct Held {
    /// The clause.
    pub holds: String,
    /// `clr 8.0.4`, `sim 8`, `sim` or `rem`.
    pub world: String,
    /// The test's path.
    pub test: String,
    /// The package of the test.
    pub package: String,
    /// The test program.
    pub binary: String,
}

/// The result of a test in one world.
#[derive(Debug, Deserialize)]
pub struct InWorld {
    /// The test's function.
    pub test: String,
    /// `clr 8.0.4`, `sim 8`.
    pub world: String,
    /// Whether it passed there.
    pub passed: bool,
}

impl Left {
    /// Reads the folder of a run.
    pub fn read(folder: &Path) -> Outcome<Left> {
        let mut left = Left::default();
        for path in listed(folder)? {
            let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("xml") => left.reported.extend(test_output::results(&text).context(|| path.display())?),
                Some("holds") => left.held.extend(lines(&path, &text)?),
                _ => left.worlds.extend(lines(&path, &text)?),
            }
        }
        left.held.retain(|held| held.package != OF_THE_MACRO);
        Ok(left)
    }

    /// Whether the test of an assertion passed in the world of the assertion; `None` if no report has it.
    fn passed(&self, held: &Held) -> Option<bool> {
        let of_test = |one: &&TestResult| {
            one.package == held.package && one.binary == held.binary.replace('-', "_") && one.path == held.test
        };
        let mut reported = self.reported.iter().filter(of_test).peekable();
        reported.peek()?;
        if reported.all(|one| one.passed) {
            return Some(true);
        }
        // It failed in other worlds alone.
        let here = self.of_worlds(function(&held.test)).any(|one| one.world == held.world && one.passed);
        Some(here && self.of_worlds(function(&held.test)).any(|one| !one.passed))
    }

    /// The results of a test in each of its worlds.
    fn of_worlds<'a>(&'a self, test: &'a str) -> impl Iterator<Item = &'a InWorld> {
        self.worlds.iter().filter(move |one| one.test == test)
    }
}

fn lines<T: DeserializeOwned>(path: &Path, text: &str) -> Outcome<Vec<T>> {
    let parsed = text.lines().enumerate().map(|(number, line)| {
        let parsed = serde_json::from_str(line).context(|| "a result that is not JSON, or not all of it");
        parsed.context(|| format!("{}:{}", path.display(), number + 1))
    });
    parsed.collect()
}

impl Results {
    /// The results of what a run left.
    pub fn of_run(mut left: Left, evidence: &Evidence) -> Outcome<Results> {
        left.worlds.iter_mut().for_each(|one| one.test = function(&one.test).to_owned());
        let mut results = Results::default();
        for held in &left.held {
            let Some(column) = results.column(&held.world)? else { continue };
            let test = function(&held.test);
            let named = if column.is_live() { format!("{test} on {}", held.world) } else { test.to_owned() };
            match left.passed(held) {
                Some(true) => results.note(&held.holds, column, named, true),
                Some(false) => {}
                None => _ = results.unreported.insert(test.to_owned()),
            }
        }
        for one in &left.worlds {
            if let Some(column) = results.column(&one.world)? {
                results.ran.insert(column);
            }
        }
        for one in &left.reported {
            if !one.passed {
                results.add_failed(one, &left, evidence)?;
            }
        }
        Ok(results)
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

    /// Tests whose assertions held, and which no report of the test runner has: they count for nothing.
    pub fn unreported(&self) -> impl Iterator<Item = &str> {
        self.unreported.iter().map(String::as_str)
    }

    /// The column of a world, which is noted if it has none.
    fn column(&mut self, world: &str) -> Outcome<Option<Column>> {
        let column = Column::of_world(world)?;
        if column.is_none() {
            self.without_column.insert(world.to_owned());
        }
        Ok(column)
    }

    /// Adds a test that failed to every cell that it asserts in the sources, in the worlds where it failed.
    fn add_failed(&mut self, failed: &TestResult, left: &Left, evidence: &Evidence) -> Outcome<()> {
        let mut worlds: BTreeSet<Column> = BTreeSet::new();
        for one in left.of_worlds(&failed.test).filter(|one| !one.passed) {
            worlds.extend(Column::of_world(&one.world)?);
        }
        for assertion in evidence.assertions.reached(&failed.test, &failed.package) {
            for column in columns::ALL.into_iter().filter(|column| column.kind() == assertion.column) {
                let is_elsewhere = column != Column::Rem && !worlds.is_empty() && !worlds.contains(&column);
                let has_none = column.is_live() && worlds.is_empty() && !self.has_run(column);
                if !is_elsewhere && !has_none {
                    self.note(&assertion.clause, column, failed.test.clone(), false);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, clause: &str, column: Column, named: String, passed: bool) {
        self.ran.insert(column);
        let seen = self.cells.entry((clause.to_owned(), column)).or_default();
        if passed { &mut seen.passed } else { &mut seen.failed }.insert(named);
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

    const MODEL: &str = "crates/model/clr-model/tests/a.rs";
    const LIVE: &str = "tests/conformance/tests/b.rs";

    fn evidence() -> Evidence {
        let mut evidence = Evidence::default();
        evidence.add(MODEL, "#[test]\nfn att_01_a() {\n    holds!(ATT_01 sim rem, true);\n}\n");
        evidence.add(LIVE, "#[test]\nfn att_01_b() {\n    holds!([ATT_01 DET_02] sim clr, true);\n}\n");
        evidence
    }

    fn held(clause: &str, world: &str, test: &str) -> Held {
        let (package, binary) =
            if test == "att_01_b" { ("remora-conformance", "b") } else { ("remora-clr-model", "a") };
        let [holds, world, test, package, binary] = [clause, world, test, package, binary].map(str::to_owned);
        Held { holds, world, test, package, binary }
    }

    fn reported(test: &str, passed: bool) -> TestResult {
        let held = held("", "", test);
        let (path, test) = (test.into(), test.into());
        TestResult { package: held.package, binary: held.binary, path, test, passed, ..TestResult::default() }
    }

    fn in_world(world: &str, passed: bool) -> InWorld {
        InWorld { test: "att_01_b".into(), world: world.into(), passed }
    }

    fn seen(left: Left) -> Results {
        Results::of_run(left, &evidence()).unwrap()
    }

    #[test]
    fn an_assertion_that_held_in_a_test_that_passed_fills_the_cell_of_its_world() {
        let left = Left {
            held: vec![
                held("ATT-01", "clr 8.0.4", "att_01_b"),
                held("ATT-01", "clr 6.0.36", "att_01_b"),
                held("ATT-01", "rem", "att_01_a"),
            ],
            worlds: vec![in_world("clr 8.0.4", true), in_world("clr 9.0.7", true)],
            reported: vec![reported("att_01_b", true), reported("att_01_a", true)],
        };
        let results = seen(left);
        assert!(results.of("ATT-01", Column::Clr8).unwrap().passed.contains("att_01_b on clr 8.0.4"));
        assert!(results.of("ATT-01", Column::Rem).unwrap().passed.contains("att_01_a"));
        assert!(
            results.of("ATT-01", Column::Clr9).is_none() && results.has_run(Column::Clr9),
            "it asserted nothing there"
        );
        assert!(results.of("DET-02", Column::Clr8).is_none() && results.of("ATT-01", Column::Sim).is_none());
        assert_eq!(results.without_column().collect::<Vec<_>>(), ["clr 6.0.36"]);
    }

    #[test]
    fn a_test_that_failed_credits_nothing_and_fails_every_cell_that_it_asserts() {
        let left = Left {
            held: vec![held("ATT-01", "sim", "att_01_a"), held("ATT-01", "rem", "att_01_a")],
            reported: vec![reported("att_01_a", false)],
            ..Left::default()
        };
        let results = seen(left);
        for column in [Column::Sim, Column::Rem] {
            let cell = results.of("ATT-01", column).unwrap();
            assert!(cell.passed.is_empty() && cell.failed.contains("att_01_a"), "{column:?}: {cell:?}");
        }
    }

    #[test]
    fn a_test_that_failed_in_one_world_shows_what_it_asserted_in_the_others() {
        let worlds = || vec![in_world("clr 8.0.4", true), in_world("clr 9.0.7", false)];
        let held = || vec![held("ATT-01", "clr 8.0.4", "att_01_b"), held("ATT-01", "clr 9.0.7", "att_01_b")];
        let results = seen(Left { held: held(), worlds: worlds(), reported: vec![reported("att_01_b", false)] });
        assert_eq!(results.of("ATT-01", Column::Clr8).unwrap().passed.len(), 1);
        assert_eq!(results.of("ATT-01", Column::Clr8).unwrap().failed.len(), 0);
        let failed = results.of("DET-02", Column::Clr9).unwrap();
        assert!(failed.failed.contains("att_01_b") && results.of("ATT-01", Column::Clr9).unwrap().passed.is_empty());
        assert!(results.of("DET-02", Column::Sim).is_none());
        // After its worlds it failed elsewhere: nobody knows for which.
        let mut left = Left { held: held(), worlds: worlds(), reported: vec![reported("att_01_b", false)] };
        left.worlds[1].passed = true;
        let results = seen(left);
        assert!(results.of("ATT-01", Column::Clr8).unwrap().passed.is_empty());
        assert!(!results.of("DET-02", Column::Clr8).unwrap().failed.is_empty());
    }

    #[test]
    fn an_assertion_of_a_test_that_the_runner_does_not_report_counts_for_nothing() {
        let results = seen(Left { held: vec![held("ATT-01", "sim", "att_01_a")], ..Left::default() });
        assert!(results.of("ATT-01", Column::Sim).is_none());
        assert_eq!(results.unreported().collect::<Vec<_>>(), ["att_01_a"]);
    }

    #[test]
    fn the_name_of_a_test_fills_no_cell() {
        let mut evidence = Evidence::default();
        let test = "att_01_det_02_c";
        evidence.add("tests/e2e/tests/receipt.rs", &format!("#[test]\nfn {test}() {{\n    assert!(true);\n}}\n"));
        let reported = TestResult {
            package: "remora-e2e".into(),
            binary: "receipt".into(),
            path: test.into(),
            test: test.into(),
            passed: true,
            ..TestResult::default()
        };
        let world = InWorld { test: test.into(), world: "clr 8.0.4".into(), passed: true };
        let left = Left { worlds: vec![world], reported: vec![reported], held: Vec::new() };
        let results = Results::of_run(left, &evidence).unwrap();
        assert!(results.of("DET-02", Column::Rem).is_none() && results.of("ATT-01", Column::Clr8).is_none());
    }

    #[test]
    fn a_line_that_is_no_result_is_a_failure_with_its_place() {
        let folder = std::env::temp_dir().join(format!("remora-xtask-results-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1.jsonl");
        fs::write(&path, "{\"test\": \"att_01_a\", \"world\": \"sim 8\", \"passed\": true}\n{\"test\"").unwrap();
        let torn = Left::read(&folder).unwrap_err().to_string();
        fs::write(&path, "{\"test\": \"att_01_a\", \"passed\": true}\n").unwrap();
        let half = Left::read(&folder).unwrap_err().to_string();
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
            fs::write(&report, format!(r#"<testcase name="x::{test}" classname="remora-{}::a"/>"#, "clr-model"))
                .unwrap();
            keep(&environment, &report).unwrap();
        }
        fs::remove_file(&report).unwrap();
        assert!(folder.join("runner-2.xml").is_file());
        let held = |package: &str| {
            format!(
                r#"{{"holds": "ATT-01", "world": "sim", "test": "x::att_01_a", "package": "{package}", "binary": "a", "place": ""}}"#
            )
        };
        fs::write(folder.join("1.holds"), format!("{}\n{}\n", held("remora-clr-model"), held(OF_THE_MACRO))).unwrap();
        let results = Results::of_run(Left::read(&folder).unwrap(), &evidence()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(results.of("ATT-01", Column::Sim).unwrap().passed.contains("att_01_a"));
        assert_eq!(results.unreported().count(), 0, "the macro's own tests count for nothing");
        assert!(keep(&[], &report).is_ok());
    }
}
