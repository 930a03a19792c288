//! `cargo xtask contract --mutate`: breaks the runtime model, one behaviour at a time, and checks that the tests of its clause fail.
//!
//! The mutations are in `crates/model/clr-model/mutations.tsv`. A variable selects the mutation, so the tests are built once.
//! Without a mutation they must pass. One of them checks that every clause of the model has a mutation.
//! A broken model may loop or crash: nextest runs each test in a process of its own, and ends it after a minute (`.config/nextest.toml`).

use crate::contract;
use crate::outcome::{Context, Outcome, bail};
use crate::process;
use crate::test_output::{TestResult, results, runner};
use crate::tidy::names;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The variable that selects the mutation.
const VARIABLE: &str = "CLR_SIM_MUTATION";
/// The package with the model and its tests.
const PACKAGE: &str = "remora-clr-model";
/// nextest's profile for these runs.
const PROFILE: &str = "mutations";
/// The tests of the mutation list itself: they run with the unbroken ones.
const OF_THE_LIST: &str = "mutation::tests::";

/// A mutation of the model.
struct Mutation {
    /// The clause, and a number if it has several mutations: `DET-06/2`.
    name: String,
    wrong: String,
}

impl Mutation {
    fn clause(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    fn is_asked_for(&self, asked: &[String]) -> bool {
        asked.is_empty() || asked.iter().any(|word| *word == self.name || word == self.clause())
    }
}

/// Runs all mutations, or those of the named clauses.
pub fn run(asked: &[String]) -> Outcome<()> {
    let mutations = mutations()?;
    let unknown = asked.iter().find(|word| !mutations.iter().any(|one| one.is_asked_for(std::slice::from_ref(word))));
    if let Some(word) = unknown {
        bail!("nothing breaks `{word}`: `cargo xtask contract --mutate ATT-07` names a clause of the model");
    }
    let mutations: Vec<Mutation> = mutations.into_iter().filter(|one| one.is_asked_for(asked)).collect();
    let clauses: BTreeSet<&str> = mutations.iter().map(Mutation::clause).collect();
    let unbroken = unbroken(&clauses)?;
    let mut noticed_by = BTreeSet::new();
    let mut unnoticed = BTreeSet::new();
    println!("\n{:<10}{:<84}noticed by", "clause", "what the model did wrong");
    for mutation in &mutations {
        let noticed = noticed(mutation)?;
        println!("{:<10}{:<84}{}", mutation.name, mutation.wrong, shown(&noticed));
        if noticed.is_empty() {
            unnoticed.insert(mutation.clause());
        }
        noticed_by.extend(noticed);
    }
    // A test that fails for none of its clauses' mutations may be unable to fail. A single mutation does not show that.
    let is_whole = !asked.iter().any(|word| word.contains('/'));
    let of_remora = contract::of_remora_alone(PACKAGE)?;
    let all = carrying(&unbroken, &clauses).into_iter().map(|result| &*result.test);
    let blind: Vec<&str> =
        all.filter(|test| is_whole && !noticed_by.contains(*test) && !of_remora.contains(*test)).collect();
    blind.iter().for_each(|test| println!("noticed nothing of it: {test}"));
    println!("{} of {}", clauses.len() - unnoticed.len(), clauses.len());
    if !unnoticed.is_empty() {
        bail!("{} can be broken and no test notices: mend the tests", Vec::from_iter(unnoticed).join(", "));
    }
    // A test that also carries other clauses may fail for their mutations.
    if asked.is_empty() && !blind.is_empty() {
        bail!(
            "{} tests notice nothing that is wrong with their clauses: mend them, or break the model for them",
            blind.len()
        );
    }
    Ok(())
}

fn mutations() -> Outcome<Vec<Mutation>> {
    let path = crate::root().join("crates/model/clr-model/mutations.tsv");
    let list = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let rows = list.lines().filter_map(|line| line.split_once('\t'));
    Ok(rows.map(|(name, wrong)| Mutation { name: name.to_owned(), wrong: wrong.to_owned() }).collect())
}

/// The results whose test carries the number of one of these clauses.
fn carrying<'a>(results: &'a [TestResult], clauses: &BTreeSet<&str>) -> Vec<&'a TestResult> {
    let carries = |test: &str| names::clauses(test).iter().any(|clause| clauses.contains(clause.as_str()));
    results.iter().filter(|result| carries(&result.test)).collect()
}

/// The results without a mutation, all of which must have passed.
fn unbroken(clauses: &BTreeSet<&str>) -> Outcome<Vec<TestResult>> {
    let filter = clauses.iter().map(|clause| in_names(clause)).chain([OF_THE_LIST.to_owned()]);
    tested(filter, None, |command| process::run(command).context(|| "the tests fail already unbroken"))
}

/// The tests of a mutation's clause that fail with it.
fn noticed(mutation: &Mutation) -> Outcome<BTreeSet<String>> {
    let clause = mutation.clause();
    // It ends with a failure if a test notices.
    let results = tested([in_names(clause)], Some(mutation), |command| process::output(command).map(drop).or(Ok(())))?;
    let failed = carrying(&results, &BTreeSet::from([clause])).into_iter().filter(|result| !result.passed);
    Ok(failed.map(|result| result.test.clone()).collect())
}

/// Runs the tests whose names contain a word of `filter`.
fn tested(
    filter: impl IntoIterator<Item = String>,
    mutation: Option<&Mutation>,
    run: impl FnOnce(&mut Command) -> Outcome<()>,
) -> Outcome<Vec<TestResult>> {
    let arguments = ["--package", PACKAGE, "--features", "mutations"];
    let (mut command, report) = runner(PROFILE, &arguments)?;
    command.args(filter).env_remove(VARIABLE).envs(mutation.map(|one| (VARIABLE, &one.name)));
    run(&mut command)?;
    results(&fs::read_to_string(&report).context(|| "nextest left no report of the model's tests")?)
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
    fn a_clause_is_carried_by_the_last_part_of_a_name() {
        let tests = ["det_09_x", "att_07_det_09_y", "det_19_z", "plain"];
        let result = |test: &str| TestResult { test: test.to_owned(), passed: true, ..TestResult::default() };
        let results = tests.map(result);
        let carrying = carrying(&results, &BTreeSet::from(["DET-09"]));
        let names: Vec<&str> = carrying.iter().map(|result| &*result.test).collect();
        assert_eq!(names, ["det_09_x", "att_07_det_09_y"]);
    }

    #[test]
    fn a_clause_asks_for_all_its_mutations_and_a_number_for_one() {
        let asks = |word: &str, name: &str| {
            Mutation { name: name.to_owned(), wrong: String::new() }.is_asked_for(&[word.to_owned()])
        };
        assert!(asks("DET-06", "DET-06") && asks("DET-06", "DET-06/2") && asks("DET-06/2", "DET-06/2"));
        assert!(!asks("DET-06/2", "DET-06") && !asks("DET-06", "DET-07"));
    }

    #[test]
    fn nobody_is_said_loudly() {
        assert_eq!(shown(&BTreeSet::new()), "NOT NOTICED");
        assert_eq!(shown(&BTreeSet::from(["det_09_x".to_owned(), "det_09_y".to_owned()])), "det_09_x, det_09_y");
    }
}
