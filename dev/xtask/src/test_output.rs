//! Runs tests with nextest and reads its JUnit report: the number of passed tests, and the results.
//!
//! nextest is fetched like every other tool (`packages.rs`), so every machine runs the same version.

use crate::outcome::{Context, Failure, Outcome, bail};
use crate::{contract, packages, process};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds of tests from which on a run lists its slowest tests.
const LONG_RUN: f64 = 600.0;

/// How many it lists.
const SLOWEST: usize = 25;

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    passed: u64,
    failed: u64,
    /// Runs that ended without a report, or failed without a failed test: a test program did not compile, or crashed.
    broken: u64,
}

/// The result of one test.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestResult {
    /// Its package.
    pub package: String,
    /// Its test program, with `_` for `-`: `attach`, or the package for the tests in a library.
    pub binary: String,
    /// Its path in the test program.
    pub path: String,
    /// The name of its function.
    pub test: String,
    /// Whether it passed.
    pub passed: bool,
    /// The clauses whose assertions failed in it.
    pub unheld: BTreeSet<String>,
}

/// Prints the last line of a run; fails unless every test passed.
pub fn conclude(count: Count) -> Outcome<()> {
    println!("\n{} passed, {} failed", count.passed, count.failed);
    match (count.failed, count.broken, count.passed) {
        (0, 0, 1..) => Ok(()),
        (0, 0, 0) => bail!("no test ran"),
        (0, broken, _) => bail!("{broken} test runs ended without a report of their tests"),
        (failed, _, _) => bail!("{failed} tests failed"),
    }
}

impl Count {
    /// Adds another run's counts.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken += other.broken;
    }

    /// Counts the results of a run that ended with `success`.
    fn of(results: &[TestResult], success: bool) -> Count {
        let passed = results.iter().filter(|result| result.passed).count() as u64;
        let failed = results.len() as u64 - passed;
        Count { passed, failed, broken: u64::from(!success && failed == 0) }
    }
}

/// Runs nextest with these arguments, and keeps its report for the contract if the environment requests it.
pub fn nextest(arguments: &[&str], environment: &[(&str, OsString)]) -> Outcome<Count> {
    let (mut command, report) = runner("xtask", arguments)?;
    let ended = process::run(command.envs(environment.iter().map(|(name, value)| (name, value))));
    let Ok(text) = fs::read_to_string(&report) else { return Ok(Count::of(&[], false)) };
    contract::results::keep(environment, &report)?;
    print_slowest(&durations(&text)?);
    Ok(Count::of(&results(&text)?, ended.is_ok()))
}

/// Prints the slowest tests of a long run: they decide how long it takes.
fn print_slowest(durations: &[(f64, String)]) {
    let sum: f64 = durations.iter().map(|(seconds, _)| seconds).sum();
    if sum < LONG_RUN {
        return;
    }
    println!("the slowest tests, of {sum:.0} s in sum:");
    for (seconds, name) in durations.iter().take(SLOWEST) {
        println!("{seconds:>7.1} s  {name}");
    }
}

/// The tests in a JUnit report with their durations in seconds, the longest first.
fn durations(report: &str) -> Outcome<Vec<(f64, String)>> {
    let document = roxmltree::Document::parse(report).context(|| "the report of nextest is not XML")?;
    let tests = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let duration = |test: roxmltree::Node| {
        let name = format!("{} {}", test.attribute("classname")?, test.attribute("name")?);
        Some((test.attribute("time")?.parse().ok()?, name))
    };
    let mut durations: Vec<(f64, String)> = tests.filter_map(duration).collect();
    durations.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(durations)
}

/// nextest with a profile of `.config/nextest.toml`, and the file of its report.
pub fn runner(profile: &str, arguments: &[&str]) -> Outcome<(Command, PathBuf)> {
    let mut command = process::cargo_tool(packages::provide("nextest")?.join("cargo-nextest"));
    command.args(["nextest", "run", "--profile", profile]).args(arguments);
    Ok((command, fresh_report(crate::root(), profile)))
}

/// Where nextest writes its report in a workspace.
pub fn fresh_report(root: &Path, profile: &str) -> PathBuf {
    let report = root.join("target/nextest").join(profile).join("junit.xml");
    // A run that ends early must not leave the previous report.
    let _ = fs::remove_file(&report);
    report
}

/// The results in a JUnit report.
pub fn results(report: &str) -> Outcome<Vec<TestResult>> {
    let document = roxmltree::Document::parse(report).context(|| "the report of nextest is not XML")?;
    let tests = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let results = tests.map(|test| {
        // `remora-clr-model::attach` is the test program `attach` of that package.
        let mut parts = test.attribute("classname")?.split("::");
        let package = parts.next()?.to_owned();
        let program = parts.next().unwrap_or(&package);
        let binary = program.rsplit('/').next().unwrap_or(program).replace('-', "_");
        let path = test.attribute("name")?.to_owned();
        let passed = !test.children().any(|child| child.has_tag_name("failure") || child.has_tag_name("error"));
        let output = test.descendants().filter_map(|node| node.text());
        let unheld = if passed { BTreeSet::new() } else { output.flat_map(unheld).collect() };
        Some(TestResult { package, binary, test: function(&path).to_owned(), path, passed, unheld })
    });
    results.collect::<Option<_>>().ok_or_else(|| Failure::new("the report of nextest lacks a test's name"))
}

/// The clauses that `holds!` has written of in a failed test's output: `DET-04, DET-06 does not hold: …`.
fn unheld(output: &str) -> Vec<String> {
    let heads = output.lines().filter_map(|line| Some(line.split_once(" does not hold: `")?.0));
    let clauses = heads.flat_map(|head| {
        let words = head.rsplit([' ', ',']).filter(|word| !word.is_empty());
        words.take_while(|word| is_clause(word))
    });
    clauses.map(str::to_owned).collect()
}

/// `DET-04`.
fn is_clause(word: &str) -> bool {
    word.split_once('-').is_some_and(|(group, number)| {
        group.len() == 3 && number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The last part of a test's path.
pub fn function(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="nextest-run" tests="4" failures="1" errors="1">
            <testsuite name="remora-clr-model::attach" tests="2">
                <testcase name="att_07_a" classname="remora-clr-model::attach" time="0.015"></testcase>
                <testcase name="att_08_b" classname="remora-clr-model::attach"><failure type="test failure with exit code 101"/></testcase>
            </testsuite>
            <testsuite name="corprof" tests="2">
                <testcase name="mask::tests::att_12_a" classname="corprof"><system-out>error</system-out></testcase>
                <testcase name="att_13_c" classname="corprof"><error type="execution failure"/></testcase>
            </testsuite>
        </testsuites>"#;

    #[test]
    fn each_result_has_its_package_and_function() {
        let results = results(REPORT).unwrap();
        let found: Vec<_> = results.iter().map(|one| (one.package.as_str(), one.test.as_str(), one.passed)).collect();
        let model = "remora-clr-model";
        let expected = [
            (model, "att_07_a", true),
            (model, "att_08_b", false),
            ("corprof", "att_12_a", true),
            ("corprof", "att_13_c", false),
        ];
        assert_eq!(found, expected);
        let programs: Vec<_> = results.iter().map(|one| (one.binary.as_str(), one.path.as_str())).collect();
        assert_eq!(programs[1..3], [("attach", "att_08_b"), ("corprof", "mask::tests::att_12_a")]);
        assert_eq!(Count::of(&results, false), Count { passed: 2, failed: 2, broken: 0 });
    }

    #[test]
    fn the_clauses_of_failed_assertions_are_read_from_a_tests_output() {
        let text =
            "x\non .NET 10: DET-04, DET-06 does not hold: `a == b`: why\nDET-20 is no head\nATT-02 does not hold: `c`";
        assert_eq!(unheld(text), ["DET-06", "DET-04", "ATT-02"]);
        let failed =
            REPORT.replace("<system-out>", "<failure/><system-err>CAT-01 does not hold: `x`</system-err><system-out>");
        let of = |test: &str| results(&failed).unwrap().into_iter().find(|one| one.test == test).unwrap().unheld;
        assert_eq!((of("att_12_a"), of("att_08_b")), (BTreeSet::from(["CAT-01".to_owned()]), BTreeSet::new()));
    }

    #[test]
    fn the_slowest_test_is_the_first_and_one_without_a_time_is_none() {
        let timed = REPORT.replace(r#""att_13_c""#, r#""att_13_c" time="2.5""#);
        let expected = [(2.5, "corprof att_13_c".to_owned()), (0.015, "remora-clr-model::attach att_07_a".to_owned())];
        assert_eq!(durations(&timed).unwrap(), expected);
    }

    #[test]
    fn a_report_that_cannot_be_read_is_a_failure() {
        assert!(results("<testsuites>").is_err());
        assert!(results("<testsuites><testcase name=\"a\"/></testsuites>").is_err());
    }

    #[test]
    fn a_run_that_fails_without_a_failed_test_is_broken() {
        assert_eq!(Count::of(&results(REPORT).unwrap()[..1], false), Count { passed: 1, failed: 0, broken: 1 });
        assert_eq!(Count::of(&[], false), Count { passed: 0, failed: 0, broken: 1 });
    }

    #[test]
    fn only_a_run_in_which_every_test_passed_is_a_success() {
        assert!(conclude(Count { passed: 3, failed: 0, broken: 0 }).is_ok());
        assert!(conclude(Count { passed: 3, failed: 1, broken: 0 }).is_err());
        assert!(conclude(Count { passed: 3, failed: 0, broken: 1 }).is_err());
        assert!(conclude(Count::default()).is_err());
    }
}
