//! `cargo xtask contract --mutate`: breaks the runtime model and Remora, one behaviour at a time, and checks that tests fail.
//!
//! A variable selects what is broken, so the tests are built once, in a copy of the repository (`sources.rs`). Unbroken they must pass.
//! What the model does wrong must fail a test with the clause in its name; what Remora does wrong, a test that asserts the clause for
//! Remora. Tests on a live runtime run on the newest one, with the copy's command. A broken model may loop or crash: nextest runs each test
//! in a process of its own, and ends it after a minute (`.config/nextest.toml`).

mod breaks;
mod page;
mod sources;

use crate::outcome::{Context, Outcome, bail};
use crate::test_output::{TestResult, fresh_report, results, runner};
use crate::tidy::names;
use crate::{contract, process, test_run};
use breaks::{AGENT, Break, LIVE, MODEL, Side};
use page::Noticed;
pub use page::check;
use sources::BrokenCopy;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

/// nextest's profiles for these runs. Each writes its own report, so as many breaks are tested at a time: many of their tests wait.
const PROFILES: [&str; 2] = ["mutations", "mutations-beside"];
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
        bail!("nothing breaks `{word}`: `cargo xtask contract --mutate ATT-07` names a clause that something breaks");
    }
    let chosen: Vec<Break> = all.into_iter().filter(|one| one.is_asked_for(&asked)).collect();
    let tests = Tests::read(&chosen)?;
    let (apart, chosen): (Vec<Break>, Vec<Break>) = chosen.into_iter().partition(|one| one.apart.is_some());
    let (live, others): (Vec<Break>, Vec<Break>) = chosen.into_iter().partition(Break::is_live);
    let copy = BrokenCopy::make()?;
    let (mut noticed, unbroken) = each(others, &tests, |chosen| Place::copied(&copy, chosen))?;
    let blind = blind_tests(&noticed, &unbroken, &tests, &asked);
    noticed.extend(each(live, &tests, |chosen| Place::live(&copy, chosen))?.0);
    // At the end: what is built of them must not be taken for the rest.
    for one in apart {
        noticed.extend(each(vec![one], &tests, |chosen| Ok(Place::apart(&copy, chosen)))?.0);
    }
    if asked.is_empty() {
        page::update(&noticed, checks)?;
    }
    conclude(&noticed, &blind, asked.is_empty() && !checks)
}

/// Breaks each, if there are any. Also returns the results without anything broken.
fn each<'a>(
    chosen: Vec<Break>,
    tests: &Tests,
    place: impl FnOnce(&[Break]) -> Outcome<Place<'a>>,
) -> Outcome<(Vec<Noticed>, Vec<TestResult>)> {
    if chosen.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let place = place(&chosen)?;
    let unbroken = place.unbroken(&chosen, tests)?;
    println!("\n{:<32}{:<84}noticed by", "broken", "how");
    let next = AtomicUsize::new(0);
    let work = |profile| {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(what) = chosen.get(number) else { return Ok(done) };
            let by = noticed(what, tests, &unbroken, &place, profile).inspect_err(|_| {
                // The others say nothing then.
                next.store(chosen.len(), Ordering::Relaxed);
            })?;
            println!("{:<32}{:<84}{}", what.name, what.wrong, shown(&by));
            done.push((number, Noticed { what: what.clone(), by }));
        }
    };
    let done: Vec<Outcome<Vec<(usize, Noticed)>>> = thread::scope(|scope| {
        let workers = PROFILES.map(|profile| scope.spawn(move || work(profile)));
        workers.into_iter().map(|worker| worker.join().expect("a worker panicked")).collect()
    });
    // In the order of the list.
    let all: BTreeMap<usize, Noticed> = done.into_iter().collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
    Ok((all.into_values().collect(), unbroken))
}

/// Tests that fail for none of their clauses' breaks: they may be unable to fail. A single break of a clause does not show that.
fn blind_tests(noticed: &[Noticed], unbroken: &[TestResult], tests: &Tests, asked: &[String]) -> Vec<String> {
    if asked.iter().any(|word| word.contains('/')) {
        return Vec::new();
    }
    let clauses: BTreeSet<&str> = of_side(noticed, Side::Model).flat_map(|one| one.what.clauses()).collect();
    let noticing: BTreeSet<&str> = noticed.iter().flat_map(|one| &one.by).map(String::as_str).collect();
    let all = carrying(unbroken, &clauses).into_iter().map(|result| &*result.test);
    all.filter(|test| !noticing.contains(test) && !tests.of_remora_alone.contains(*test)).map(str::to_owned).collect()
}

fn conclude(noticed: &[Noticed], blind: &[String], blind_fails: bool) -> Outcome<()> {
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
    /// Package, clause and test: those that assert the clause for Remora.
    for_remora: BTreeSet<[String; 3]>,
    /// The model's tests that assert for Remora alone: a broken model says nothing about them.
    of_remora_alone: BTreeSet<String>,
}

impl Tests {
    fn read(chosen: &[Break]) -> Outcome<Tests> {
        let mut for_remora = BTreeSet::new();
        for package in packages(chosen) {
            let asserted = contract::asserted_for_remora(package)?;
            for_remora.extend(asserted.into_iter().map(|(clause, test)| [package.to_owned(), clause, test]));
        }
        Ok(Tests { for_remora, of_remora_alone: contract::of_remora_alone(MODEL)? })
    }

    /// Those that can notice this, and assert one of its clauses for Remora.
    fn of_remora<'a>(&'a self, what: &'a Break) -> impl Iterator<Item = &'a str> {
        let is_there = |package: &str| match what.side {
            Side::Model => false,
            Side::Agent => [MODEL, AGENT].contains(&package),
            Side::Sources => what.package == package,
        };
        let asserts = move |[package, clause, test]: &&[String; 3]| {
            let is_named = what.tests.is_empty() || what.tests.contains(test);
            is_named && is_there(package) && what.clauses().any(|own| own == clause)
        };
        self.for_remora.iter().filter(asserts).map(|[_, _, test]| test.as_str())
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
            Side::Agent | Side::Sources => self.of_remora(what).map(str::to_owned).collect(),
        }
    }
}

/// The packages with the tests of these.
fn packages(chosen: &[Break]) -> BTreeSet<&str> {
    let own = chosen.iter().map(|what| what.package.as_str()).filter(|package| !package.is_empty());
    own.chain([MODEL, AGENT]).collect()
}

/// The results whose test carries the number of one of these clauses.
fn carrying<'a>(results: &'a [TestResult], clauses: &BTreeSet<&str>) -> Vec<&'a TestResult> {
    let carries = |test: &str| names::clauses(test).iter().any(|clause| clauses.contains(clause.as_str()));
    results.iter().filter(|result| result.package == MODEL && carries(&result.test)).collect()
}

/// The tests that notice it.
///
/// What the model does wrong must fail a test with the clause in its name. What Remora does wrong must fail an assertion of each clause: a test
/// that fails elsewhere, or is ended because it waits, shows nothing of the clause.
fn noticed(
    what: &Break,
    tests: &Tests,
    unbroken: &[TestResult],
    place: &Place<'_>,
    profile: &str,
) -> Outcome<BTreeSet<String>> {
    let own: BTreeSet<&str> = match what.side {
        Side::Model => tests.of_the_model(unbroken, what).collect(),
        Side::Agent | Side::Sources => tests.of_remora(what).collect(),
    };
    // Names can be the same in several packages.
    let is_of = |result: &TestResult| match what.side {
        Side::Model | Side::Agent => [MODEL, AGENT].contains(&result.package.as_str()),
        Side::Sources => {
            result.package == what.package && what.program.as_ref().is_none_or(|program| *program == result.binary)
        }
    };
    let results: Vec<&TestResult> = unbroken.iter().filter(|result| is_of(result)).collect();
    let (filter, expected) = filter(&results, &own);
    if expected == 0 {
        return Ok(BTreeSet::new());
    }
    // It ends with a failure if a test notices.
    let run = |command: &mut Command| process::output(command).map(drop).or(Ok(()));
    let tested = || place.tested(profile, vec!["-E".to_owned(), filter], Some(what), run);
    let results = match &what.apart {
        None => tested()?,
        Some(change) => {
            let built = || place.copy.check(&what.package).map(|()| tested());
            match place.copy.with(change, built)? {
                Ok(results) => results,
                // The library compiles, and the tests do not.
                Err(_) => return Ok(own.into_iter().map(str::to_owned).collect()),
            }
        }
    };
    if results.len() != expected {
        bail!("{}: {expected} tests should have run, and {} did", what.name, results.len());
    }
    Ok(noticing(what, &results))
}

/// Those of the failed tests that show it; none, if a clause is shown by none.
fn noticing(what: &Break, results: &[TestResult]) -> BTreeSet<String> {
    let failed = results.iter().filter(|result| !result.passed);
    if what.side == Side::Model {
        return failed.map(|result| result.test.clone()).collect();
    }
    let shows = |result: &&TestResult| what.clauses().any(|clause| result.unheld.contains(clause));
    let showing: Vec<&TestResult> = failed.filter(shows).collect();
    let is_shown = |clause: &str| showing.iter().any(|result| result.unheld.contains(clause));
    if !what.clauses().all(is_shown) {
        return BTreeSet::new();
    }
    showing.into_iter().map(|result| result.test.clone()).collect()
}

/// The filter for these tests, and how many they are. It names their programs: nextest does not even list the others.
fn filter(unbroken: &[&TestResult], tests: &BTreeSet<&str>) -> (String, usize) {
    let chosen: Vec<&&TestResult> = unbroken.iter().filter(|result| tests.contains(&*result.test)).collect();
    let one = |result: &&&TestResult| {
        let library = result.package.replace('-', "_");
        let program = if result.binary == library { String::new() } else { format!("::{}", result.binary) };
        format!("(binary_id(={}{program}) & test(={}))", result.package, result.path)
    };
    (chosen.iter().map(one).collect::<Vec<_>>().join(" | "), chosen.len())
}

/// Where tests run.
struct Place<'a> {
    copy: &'a BrokenCopy,
    /// The packages or programs with tests, for nextest, or files that name the programs that are built.
    arguments: Vec<String>,
    /// What tests on live runtimes need.
    live: Option<test_run::Environment>,
}

impl Place<'_> {
    fn copied<'a>(copy: &'a BrokenCopy, chosen: &[Break]) -> Outcome<Place<'a>> {
        let features = format!("{MODEL}/mutations,{AGENT}/fault-injection");
        let packages = packages(chosen).into_iter().flat_map(|package| ["--package", package]);
        let arguments: Vec<&str> = packages.chain(["--features", &features]).collect();
        Ok(Place { copy, arguments: copy.built_tests(&arguments)?, live: None })
    }

    /// Only the package is built.
    fn apart<'a>(copy: &'a BrokenCopy, chosen: &[Break]) -> Place<'a> {
        let packages = chosen.iter().flat_map(|what| ["--package", &what.package]);
        Place { copy, arguments: packages.map(str::to_owned).collect(), live: None }
    }

    /// Only the test programs with tests for these are built.
    fn live<'a>(copy: &'a BrokenCopy, chosen: &[Break]) -> Outcome<Place<'a>> {
        let programs: BTreeSet<&str> = chosen.iter().filter_map(|what| what.program.as_deref()).collect();
        let programs = programs.into_iter().flat_map(|program| ["--test", program]);
        let arguments: Vec<&str> = ["--package", LIVE].into_iter().chain(programs).collect();
        let live = Some(test_run::prepare_another(&copy.build()?)?);
        Ok(Place { copy, arguments: copy.built_tests(&arguments)?, live })
    }

    /// The results without anything broken, all of which must have passed.
    fn unbroken(&self, chosen: &[Break], tests: &Tests) -> Outcome<Vec<TestResult>> {
        let words: BTreeSet<String> = chosen.iter().flat_map(|what| tests.words(what)).collect();
        let of_the_list = chosen.iter().any(|what| what.side == Side::Model).then(|| OF_THE_LIST.to_owned());
        let filter: Vec<String> = words.into_iter().chain(of_the_list).collect();
        if filter.is_empty() {
            // Without words all tests would run.
            return Ok(Vec::new());
        }
        self.tested(PROFILES[0], filter, None, |command| {
            process::run(command).context(|| "the tests fail already unbroken")
        })
    }

    /// Runs tests with these arguments of nextest.
    fn tested(
        &self,
        profile: &str,
        arguments_of_filter: Vec<String>,
        what: Option<&Break>,
        run: impl FnOnce(&mut Command) -> Outcome<()>,
    ) -> Outcome<Vec<TestResult>> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let report = fresh_report(&self.copy.root, profile);
        let mut command = self.copy.cargo(runner(profile, &arguments)?.0);
        command.args(arguments_of_filter).envs(self.live.iter().flatten().map(|(name, value)| (name, value)));
        for side in [Side::Model, Side::Agent, Side::Sources] {
            command.env_remove(side.variable());
        }
        command.envs(what.map(|what| (what.side.variable(), &what.name)));
        run(&mut command)?;
        results(&fs::read_to_string(&report).context(|| "nextest left no report of the tests")?)
    }
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
        let for_remora = [(AGENT, "DET-09", "det_09_x"), (MODEL, "DET-09", "whole"), ("other", "DET-09", "else")];
        let for_remora = for_remora.map(|(package, clause, test)| [package, clause, test].map(str::to_owned)).into();
        let tests = Tests { for_remora, of_remora_alone: BTreeSet::new() };
        let what = |side, clauses: &str| Break::new(side, "Name", clauses, "wrong");
        assert_eq!(tests.words(&what(Side::Agent, "DET-09")), ["whole", "det_09_x"]);
        assert_eq!(tests.words(&what(Side::Model, "DET-09")), ["det_09"]);
        let mut of_other = what(Side::Sources, "DET-09");
        of_other.package = "other".to_owned();
        assert_eq!(tests.words(&of_other), ["else"]);
        of_other.tests = vec!["another".to_owned()];
        assert_eq!(tests.words(&of_other), [""; 0]);
    }

    #[test]
    fn a_fault_of_remora_is_noticed_by_failed_assertions_of_each_clause_alone() {
        let what = |side| Break::new(side, "Name", "DET-09 DET-10", "wrong");
        let failed = |test: &str, unheld: &[&str]| TestResult {
            test: test.into(),
            unheld: unheld.iter().map(|clause| (*clause).to_owned()).collect(),
            ..TestResult::default()
        };
        let (both, one, other) =
            (failed("both", &["DET-09", "DET-10"]), failed("one", &["DET-09"]), failed("other", &[]));
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let noticed = |results: Vec<TestResult>| noticing(&what(Side::Agent), &results);
        assert_eq!(noticed(vec![both, failed("one", &["DET-09"]), failed("other", &[])]), named(&["both", "one"]));
        assert_eq!(noticed(vec![one, failed("other", &[])]), named(&[]), "nothing shows DET-10");
        assert_eq!(noticing(&what(Side::Model), &[other]), named(&["other"]));
    }

    #[test]
    fn only_the_programs_of_the_chosen_tests_are_listed() {
        let result = |binary: &str, path: &str| TestResult {
            package: MODEL.into(),
            binary: binary.into(),
            path: path.into(),
            test: path.rsplit("::").next().unwrap().into(),
            passed: true,
            ..TestResult::default()
        };
        let unbroken = [result("detach", "det_09_x"), result("remora_clr_model", "a::det_10_y"), result("heap", "z")];
        let unbroken: Vec<&TestResult> = unbroken.iter().collect();
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
