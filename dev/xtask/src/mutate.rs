//! `cargo xtask contract --mutate`: breaks the runtime model and Remora's agent, one behaviour at a time, and checks that tests fail.
//!
//! A variable selects what is broken, so the tests are built once. Unbroken they must pass.
//! What the model does wrong must fail a test with the clause in its name; what the agent does wrong, a test that asserts the clause for
//! Remora. A broken model may loop or crash: nextest runs each test in a process of its own, and ends it after a minute
//! (`.config/nextest.toml`).

mod breaks;
mod page;

use crate::contract;
use crate::outcome::{Context, Outcome, bail};
use crate::process;
use crate::test_output::{TestResult, results, runner};
use crate::tidy::names;
use breaks::{AGENT, Break, MODEL, PACKAGES, Side};
use page::Noticed;
pub use page::check;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// nextest's profile for these runs.
const PROFILE: &str = "mutations";
/// The tests of the mutation list itself: they run with the unbroken ones.
const OF_THE_LIST: &str = "mutation::tests::";

/// Breaks everything, or what belongs to the named clauses. After a run of everything, writes the page. With `--check` it only fails if
/// something is not noticed.
pub fn run(arguments: &[String]) -> Outcome<()> {
    let (options, asked): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|word| word.starts_with("--"));
    let checks = match options.as_slice() {
        [] => false,
        [one] if one == "--check" => true,
        _ => bail!("`{}` is not understood: after --mutate there are --check and clauses", options.join(" ")),
    };
    let all = breaks::read()?;
    if let Some(word) = asked.iter().find(|word| !all.iter().any(|one| one.is_asked_for(std::slice::from_ref(word)))) {
        bail!(
            "nothing breaks `{word}`: `cargo xtask contract --mutate ATT-07` names a clause of the model or of the agent"
        );
    }
    let chosen: Vec<Break> = all.into_iter().filter(|one| one.is_asked_for(&asked)).collect();
    let tests = Tests::read()?;
    let unbroken = unbroken(&chosen, &tests)?;
    let noticed = each(chosen, &tests, &unbroken)?;
    let blind = blind(&noticed, &unbroken, &tests, &asked);
    if asked.is_empty() {
        page::update(&noticed, checks)?;
    }
    conclude(&noticed, &blind, asked.is_empty() && !checks)
}

/// Breaks one after the other.
fn each(chosen: Vec<Break>, tests: &Tests, unbroken: &[TestResult]) -> Outcome<Vec<Noticed>> {
    let mut all = Vec::new();
    println!("\n{:<26}{:<84}noticed by", "broken", "how");
    for what in chosen {
        let by = noticed(&what, tests, unbroken)?;
        println!("{:<26}{:<84}{}", what.name, what.wrong, shown(&by));
        all.push(Noticed { what, by });
    }
    Ok(all)
}

/// Tests that fail for none of their clauses' breaks: they may be unable to fail. A single break of a clause does not show that.
fn blind<'a>(noticed: &[Noticed], unbroken: &'a [TestResult], tests: &Tests, asked: &[String]) -> Vec<&'a str> {
    if asked.iter().any(|word| word.contains('/')) {
        return Vec::new();
    }
    let clauses: BTreeSet<&str> = of_side(noticed, Side::Model).flat_map(|one| one.what.clauses()).collect();
    let noticing: BTreeSet<&str> = noticed.iter().flat_map(|one| &one.by).map(String::as_str).collect();
    let all = carrying(unbroken, &clauses).into_iter().map(|result| &*result.test);
    all.filter(|test| !noticing.contains(test) && !tests.of_remora_alone.contains(*test)).collect()
}

fn conclude(noticed: &[Noticed], blind: &[&str], blind_fails: bool) -> Outcome<()> {
    blind.iter().for_each(|test| println!("noticed nothing of it: {test}"));
    let unnoticed: Vec<&str> =
        noticed.iter().filter(|one| one.by.is_empty()).map(|one| one.what.name.as_str()).collect();
    println!("{} of {} are noticed", noticed.len() - unnoticed.len(), noticed.len());
    if !unnoticed.is_empty() {
        bail!("no test notices {}: fix the tests", unnoticed.join(", "));
    }
    // A test that also carries other clauses may fail for their mutations.
    if blind_fails && !blind.is_empty() {
        bail!(
            "{} tests notice nothing that is wrong with their clauses: fix them, or break the model for them",
            blind.len()
        );
    }
    Ok(())
}

fn of_side(noticed: &[Noticed], side: Side) -> impl Iterator<Item = &Noticed> {
    noticed.iter().filter(move |one| one.what.side == side)
}

/// What the sources say about tests.
struct Tests {
    /// Clause and test: those that assert the clause for Remora.
    for_remora: BTreeSet<(String, String)>,
    /// The model's tests that assert for Remora alone: a broken model says nothing about them.
    of_remora_alone: BTreeSet<String>,
}

impl Tests {
    fn read() -> Outcome<Tests> {
        let mut for_remora = BTreeSet::new();
        for package in PACKAGES {
            for_remora.extend(contract::asserted_for_remora(package)?);
        }
        Ok(Tests { for_remora, of_remora_alone: contract::of_remora_alone(MODEL)? })
    }

    /// Those that assert this clause for Remora.
    fn of(&self, clause: &str) -> impl Iterator<Item = &str> {
        self.for_remora.iter().filter(move |(own, _)| own == clause).map(|(_, test)| test.as_str())
    }

    /// The tests that carry a clause of this mutation, without those that assert for Remora alone.
    fn of_the_model<'a>(&'a self, unbroken: &'a [TestResult], what: &Break) -> impl Iterator<Item = &'a str> {
        let carrying = carrying(unbroken, &what.clauses().collect()).into_iter().map(|result| &*result.test);
        carrying.filter(|test| !self.of_remora_alone.contains(*test))
    }

    /// Words in the names of the tests to run for this.
    fn words(&self, what: &Break) -> Vec<String> {
        match what.side {
            Side::Model => what.clauses().map(in_names).collect(),
            Side::Agent => what.clauses().flat_map(|clause| self.of(clause)).map(str::to_owned).collect(),
        }
    }
}

/// The results whose test carries the number of one of these clauses.
fn carrying<'a>(results: &'a [TestResult], clauses: &BTreeSet<&str>) -> Vec<&'a TestResult> {
    let carries = |test: &str| names::clauses(test).iter().any(|clause| clauses.contains(clause.as_str()));
    results.iter().filter(|result| result.package == MODEL && carries(&result.test)).collect()
}

/// The results without anything broken, all of which must have passed.
fn unbroken(chosen: &[Break], tests: &Tests) -> Outcome<Vec<TestResult>> {
    let words: BTreeSet<String> = chosen.iter().flat_map(|what| tests.words(what)).collect();
    let filter = words.into_iter().chain([OF_THE_LIST.to_owned()]).collect();
    tested(filter, None, |command| process::run(command).context(|| "the tests fail already unbroken"))
}

/// The tests of its clauses that fail with this.
fn noticed(what: &Break, tests: &Tests, unbroken: &[TestResult]) -> Outcome<BTreeSet<String>> {
    let own: BTreeSet<&str> = match what.side {
        Side::Model => tests.of_the_model(unbroken, what).collect(),
        Side::Agent => what.clauses().flat_map(|clause| tests.of(clause)).collect(),
    };
    let (filter, expected) = filter(unbroken, &own);
    // It ends with a failure if a test notices.
    let run = |command: &mut Command| process::output(command).map(drop).or(Ok(()));
    let results = tested(vec!["-E".to_owned(), filter], Some(what), run)?;
    if results.len() != expected {
        bail!("{}: {expected} tests should have run, and {} did", what.name, results.len());
    }
    Ok(results.into_iter().filter(|result| !result.passed).map(|result| result.test).collect())
}

/// The filter for these tests, and how many they are. It names their programs: nextest does not even list the others.
fn filter(unbroken: &[TestResult], tests: &BTreeSet<&str>) -> (String, usize) {
    let chosen: Vec<&TestResult> = unbroken.iter().filter(|result| tests.contains(&*result.test)).collect();
    let one = |result: &&TestResult| {
        let library = result.package.replace('-', "_");
        let program = if result.binary == library { String::new() } else { format!("::{}", result.binary) };
        format!("(binary_id(={}{program}) & test(={}))", result.package, result.path)
    };
    (chosen.iter().map(one).collect::<Vec<_>>().join(" | "), chosen.len())
}

/// Runs tests with these arguments of nextest.
fn tested(
    arguments_of_filter: Vec<String>,
    what: Option<&Break>,
    run: impl FnOnce(&mut Command) -> Outcome<()>,
) -> Outcome<Vec<TestResult>> {
    let features = format!("{MODEL}/mutations,{AGENT}/fault-injection");
    let mut arguments = vec!["--features", &features];
    arguments.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    let (mut command, report) = runner(PROFILE, &arguments)?;
    command.args(arguments_of_filter);
    for side in [Side::Model, Side::Agent] {
        command.env_remove(side.variable());
    }
    command.envs(what.map(|what| (what.side.variable(), &what.name)));
    run(&mut command)?;
    results(&fs::read_to_string(&report).context(|| "nextest left no report of the tests")?)
}

/// A clause's id in the names of tests: `DET-09` as `det_09`.
fn in_names(clause: &str) -> String {
    clause.to_lowercase().replace('-', "_")
}

fn shown(noticed: &BTreeSet<String>) -> String {
    if noticed.is_empty() { "NOT NOTICED".to_owned() } else { Vec::from_iter(noticed.iter().cloned()).join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_carried_by_the_last_part_of_a_name_in_the_model() {
        let tests = ["det_09_x", "att_07_det_09_y", "det_19_z", "plain"];
        let result = |test: &str| TestResult { test: test.into(), package: MODEL.into(), ..TestResult::default() };
        let mut results = Vec::from(tests.map(result));
        results.push(TestResult { test: "det_09_agent".into(), package: AGENT.into(), ..TestResult::default() });
        let carrying = carrying(&results, &BTreeSet::from(["DET-09"]));
        let names: Vec<&str> = carrying.iter().map(|result| &*result.test).collect();
        assert_eq!(names, ["det_09_x", "att_07_det_09_y"]);
    }

    #[test]
    fn the_agent_is_judged_by_what_asserts_the_clause_for_remora() {
        let for_remora = [("DET-09", "det_09_x"), ("DET-09", "whole"), ("DET-10", "whole")];
        let for_remora = for_remora.map(|(clause, test)| (clause.to_owned(), test.to_owned())).into();
        let tests = Tests { for_remora, of_remora_alone: BTreeSet::new() };
        let what = |side, clauses: &str| Break::new(side, "Name", clauses, "wrong");
        assert_eq!(tests.words(&what(Side::Agent, "DET-09")), ["det_09_x", "whole"]);
        assert_eq!(tests.words(&what(Side::Model, "DET-09")), ["det_09"]);
    }

    #[test]
    fn only_the_programs_of_the_chosen_tests_are_listed() {
        let result = |binary: &str, path: &str| TestResult {
            package: MODEL.into(),
            binary: binary.into(),
            path: path.into(),
            test: path.rsplit("::").next().unwrap().into(),
            passed: true,
        };
        let unbroken = [result("detach", "det_09_x"), result("remora_clr_model", "a::det_10_y"), result("heap", "z")];
        let (filter, count) = filter(&unbroken, &BTreeSet::from(["det_09_x", "det_10_y"]));
        let expected = "(binary_id(=remora-clr-model::detach) & test(=det_09_x)) | \
            (binary_id(=remora-clr-model) & test(=a::det_10_y))";
        assert_eq!((&*filter, count), (expected, 2));
    }

    #[test]
    fn nobody_is_said_loudly() {
        assert_eq!(shown(&BTreeSet::new()), "NOT NOTICED");
        assert_eq!(shown(&BTreeSet::from(["det_09_x".to_owned(), "det_09_y".to_owned()])), "det_09_x, det_09_y");
    }
}
