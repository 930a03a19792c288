//! `cargo xtask contract --mutate`: breaks the runtime model, one behaviour at a time, and checks that the tests of its clause fail.
//!
//! The mutations are in `crates/model/clr-model/mutations.tsv`. The tests are built once, and a variable selects the mutation.
//! Without a mutation they must pass. One of them checks that every clause of the model has a mutation.

use crate::outcome::{Context, Outcome, bail};
use crate::process;
use crate::tidy::names;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The variable that selects the mutation.
const VARIABLE: &str = "CLR_SIM_MUTATION";
/// A broken model may loop: the timeout for the tests of one program.
const LONGEST: Duration = Duration::from_secs(60);
/// Time between two checks whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);
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

/// A test program, and its tests.
struct Program {
    path: PathBuf,
    tests: Vec<String>,
}

/// The outcome of a program.
enum Ended {
    Passed,
    /// These tests failed.
    Failed(Vec<String>),
    /// It ended without naming a failed test.
    Crashed(String),
    TooLong,
}

/// Runs all mutations, or those of the named clauses.
pub fn run(asked: &[String]) -> Outcome<()> {
    let (programs, mutations) = build()?;
    let unknown = asked.iter().find(|word| !mutations.iter().any(|one| one.is_asked_for(std::slice::from_ref(word))));
    if let Some(word) = unknown {
        bail!("nothing breaks `{word}`: `cargo xtask contract --mutate ATT-07` names a clause of the model");
    }
    let mutations: Vec<Mutation> = mutations.into_iter().filter(|one| one.is_asked_for(asked)).collect();
    let clauses: BTreeSet<&str> = mutations.iter().map(Mutation::clause).collect();
    passes_unbroken(&programs, &clauses)?;
    let mut noticed_by = BTreeSet::new();
    let mut unnoticed = BTreeSet::new();
    println!("\n{:<10}{:<84}noticed by", "clause", "what the model did wrong");
    for mutation in &mutations {
        let noticed = noticed(&programs, mutation)?;
        println!("{:<10}{:<84}{noticed}", mutation.name, mutation.wrong);
        if noticed.is_nobody() {
            unnoticed.insert(mutation.clause());
        }
        noticed_by.extend(noticed.tests);
    }
    // A test that fails for none of its clauses' mutations may be unable to fail. A single mutation does not show that.
    let is_whole = !asked.iter().any(|word| word.contains('/'));
    let blind: Vec<&str> =
        carrying(&programs, &clauses).filter(|test| is_whole && !noticed_by.contains(*test)).collect();
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

/// The model's test programs, and the mutations.
fn build() -> Outcome<(Vec<Program>, Vec<Mutation>)> {
    let mut cargo = process::cargo();
    cargo.args([
        "test",
        "--package",
        "remora-clr-model",
        "--features",
        "mutations",
        "--no-run",
        "--message-format=json",
    ]);
    process::show(&cargo)?;
    let messages = process::output(&mut cargo)?;
    let mut programs = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let Some(path) = message["executable"].as_str().map(PathBuf::from) else { continue };
        if message["profile"]["test"] == true {
            let tests = process::output(of_model(&path).args(["--list", "--format", "terse"]))?;
            let tests = tests.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect();
            programs.push(Program { path, tests });
        }
    }
    let path = crate::root().join("crates/model/clr-model/mutations.tsv");
    let list = std::fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let rows = list.lines().filter_map(|line| line.split_once('\t'));
    let mutations = rows.map(|(name, wrong)| Mutation { name: name.to_owned(), wrong: wrong.to_owned() }).collect();
    Ok((programs, mutations))
}

/// Cargo runs tests in the folder of their crate.
fn of_model(program: &PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::root().join("crates/model/clr-model"));
    command
}

/// All tests with one of the clauses in their names.
fn carrying<'a>(programs: &'a [Program], clauses: &BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    programs.iter().flat_map(|program| program.carrying(clauses))
}

impl Program {
    fn carrying(&self, clauses: &BTreeSet<&str>) -> Vec<&str> {
        let carries = |test: &&str| names::clauses(last(test)).iter().any(|clause| clauses.contains(clause.as_str()));
        self.tests.iter().map(String::as_str).filter(carries).collect()
    }

    /// Runs some of its tests, with one mutation or none; returns outcome and output.
    fn run(&self, tests: &[&str], mutation: Option<&Mutation>) -> Outcome<(Ended, String)> {
        let mut command = of_model(&self.path);
        command.arg("--exact").args(tests).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env_remove(VARIABLE).envs(mutation.map(|one| (VARIABLE, &one.name)));
        let mut child = command.spawn().context(|| format!("cannot start {}", self.path.display()))?;
        let Some(mut stdout) = child.stdout.take() else { bail!("{} has no output", self.path.display()) };
        // Read concurrently, since a full pipe would block the program. Non-UTF-8 output has no test names.
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            stdout.read_to_end(&mut said).map(|_| String::from_utf8_lossy(&said).into_owned())
        });
        let status = wait(&mut child, LONGEST)?;
        let Ok(said) = reader.join() else { bail!("the reader of a test program panicked") };
        let said = said.context(|| "cannot read what a test program says")?;
        let failed: Vec<String> = failed(&said).map(str::to_owned).collect();
        let ended = match status {
            None => Ended::TooLong,
            Some(status) if status.success() => Ended::Passed,
            Some(status) if failed.is_empty() => Ended::Crashed(status.to_string()),
            Some(_) => Ended::Failed(failed),
        };
        Ok((ended, said))
    }
}

/// The exit status of a program; `None` if it was killed at the timeout.
fn wait(child: &mut Child, longest: Duration) -> Outcome<Option<std::process::ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context(|| "cannot wait for a test program")? {
            return Ok(Some(status));
        }
        if begun.elapsed() > longest {
            child.kill().and_then(|()| child.wait()).context(|| "cannot end a test program")?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// The failed tests, from libtest's output.
fn failed(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// The last part of a test's path.
fn last(test: &str) -> &str {
    test.rsplit("::").next().unwrap_or(test)
}

/// A test that fails without a mutation proves nothing with one.
fn passes_unbroken(programs: &[Program], clauses: &BTreeSet<&str>) -> Outcome<()> {
    for program in programs {
        let mut tests = program.carrying(clauses);
        tests.extend(program.tests.iter().map(String::as_str).filter(|test| test.starts_with(OF_THE_LIST)));
        if tests.is_empty() {
            continue;
        }
        let (ended, said) = program.run(&tests, None)?;
        match ended {
            Ended::Passed => {}
            Ended::TooLong => {
                bail!("{}: the tests take longer than {LONGEST:?} already unbroken", program.path.display())
            }
            Ended::Failed(_) | Ended::Crashed(_) => bail!("the tests fail already unbroken:\n{said}"),
        }
    }
    Ok(())
}

/// The tests that noticed a mutation.
#[derive(Default)]
struct Noticed {
    tests: Vec<String>,
    /// Programs that ended in another way, as text.
    otherwise: Vec<String>,
}

impl Noticed {
    fn is_nobody(&self) -> bool {
        self.tests.is_empty() && self.otherwise.is_empty()
    }
}

impl fmt::Display for Noticed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nobody() {
            return out.write_str("NOT NOTICED");
        }
        let tests = self.tests.iter().map(|test| last(test));
        out.write_str(&tests.chain(self.otherwise.iter().map(String::as_str)).collect::<Vec<_>>().join(", "))
    }
}

fn noticed(programs: &[Program], mutation: &Mutation) -> Outcome<Noticed> {
    let mut noticed = Noticed::default();
    for program in programs {
        let tests = program.carrying(&BTreeSet::from([mutation.clause()]));
        if tests.is_empty() {
            continue;
        }
        match program.run(&tests, Some(mutation))?.0 {
            Ended::Passed => {}
            Ended::Failed(failed) => noticed.tests.extend(failed),
            Ended::Crashed(how) => noticed.otherwise.push(format!("{} ended with {how}", tests.join(" or "))),
            Ended::TooLong => {
                noticed.otherwise.push(format!("{} not over after {LONGEST:?}", tests.join(" or ")));
            }
        }
    }
    Ok(noticed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_failed_are_read_from_what_libtest_says() {
        let said = "running 2 tests\ntest a::att_07_x ... ok\ntest att_08_y ... FAILED\n\nfailures:\n    att_08_y\n";
        assert_eq!(failed(said).collect::<Vec<_>>(), ["att_08_y"]);
    }

    #[test]
    fn a_clause_is_carried_by_the_last_part_of_a_name() {
        let tests = ["runtime::tests::det_09_x", "att_07_det_09_y", "det_19_z", "plain"].map(str::to_owned).to_vec();
        let program = Program { path: PathBuf::new(), tests };
        let carrying = program.carrying(&BTreeSet::from(["DET-09"]));
        assert_eq!(carrying, ["runtime::tests::det_09_x", "att_07_det_09_y"]);
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
    fn who_goes_round_in_circles_is_ended() {
        let mut endless = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(wait(&mut endless, Duration::ZERO).unwrap().is_none());
        let mut short = Command::new("true").spawn().unwrap();
        assert!(wait(&mut short, LONGEST).unwrap().is_some_and(|status| status.success()));
    }

    #[test]
    fn nobody_is_said_loudly() {
        assert_eq!(Noticed::default().to_string(), "NOT NOTICED");
        let noticed = Noticed { tests: vec!["a::det_09_x".into()], otherwise: vec!["y ended".into()] };
        assert_eq!((noticed.is_nobody(), noticed.to_string().as_str()), (false, "det_09_x, y ended"));
    }
}
