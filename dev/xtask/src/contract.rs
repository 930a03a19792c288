//! `cargo xtask contract`: runs the tests for the clauses of `docs/authors/contract.md`, and updates that page: for each clause, the
//! runtimes where tests show it, and these tests.
//!
//! Only an assertion that names clause and column fills a cell (`holds!`), once its test has passed.
//! A required cell without one is a failure, and so is a page that disagrees with the results.
//! `contract-pending.toml` lists the cells that no test fills, with reasons. Columns of runtimes missing on this machine keep their
//! cells.

mod assertions;
mod cells;
mod columns;
mod deviations;
mod evidence;
mod named;
mod page;
mod pending;
pub mod results;
mod run;

use crate::outcome::{Context, Failure, Outcome, bail};
use crate::runtimes;
use assertions::Assertions;
use columns::Column;
use evidence::Evidence;
pub use page::between;
use page::{Cell, Clause, Content, PAGE};
use pending::{Pending, Required};
use results::{Left, Results};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The options of the task.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Writes nothing, and without results runs nothing.
    check: bool,
    /// Writes only what follows from the sources, and without results runs nothing.
    tables: bool,
    /// The results of an earlier run.
    results: Option<PathBuf>,
}

/// Runs the task.
pub fn run(arguments: &[String]) -> Outcome<()> {
    update_page(&Options::of(arguments)?)
}

/// Whether the page agrees with the results of a run.
pub fn agrees(results: &Path) -> Outcome<()> {
    update_page(&Options { check: true, results: Some(results.to_path_buf()), ..Options::default() })
}

/// The tests of a package that assert clauses of Remora alone: a broken model says nothing about them.
pub fn of_remora_alone(package: &str) -> Outcome<BTreeSet<String>> {
    let assertions = Assertions::read()?;
    let is_of_remora = |test: &&str| {
        let mut own = assertions.in_test(test, package).peekable();
        own.peek().is_some() && own.all(|assertion| assertion.column == Column::Rem.kind())
    };
    Ok(assertions.functions().into_iter().filter(is_of_remora).map(str::to_owned).collect())
}

/// Clause and test: the tests of a package that assert the clause for Remora.
pub fn asserted_for_remora(package: &str) -> Outcome<BTreeSet<(String, String)>> {
    Ok(Assertions::read()?.by_tests_of(package, Column::Rem))
}

/// The names of all tests.
pub fn tests() -> Outcome<BTreeSet<String>> {
    Ok(Assertions::read()?.tests().map(str::to_owned).collect())
}

/// The clauses that Remora promises: the page has an `x` for them under *rem*.
pub fn clauses_of_remora() -> Outcome<Vec<String>> {
    let text = fs::read_to_string(crate::root().join(PAGE)).context(|| format!("cannot read {PAGE}"))?;
    Ok(of_remora(&page::clauses(&text)?))
}

fn of_remora(clauses: &[Clause]) -> Vec<String> {
    let is_promised = |clause: &&Clause| clause.cells.last() == Some(&Cell::Shown);
    clauses.iter().filter(is_promised).map(|clause| clause.id.clone()).collect()
}

impl Options {
    fn of(arguments: &[String]) -> Outcome<Options> {
        let mut options = Options::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match (word.as_str(), word.as_str() == "--results") {
                ("--check", _) => options.check = true,
                ("--tables", _) => options.tables = true,
                (_, true) => match words.next() {
                    Some(folder) => options.results = Some(folder.into()),
                    None => bail!("--results wants the folder of a run's results"),
                },
                _ => bail!("`{word}` is not understood: there are --check, --tables and --results FOLDER"),
            }
        }
        Ok(options)
    }
}

fn update_page(options: &Options) -> Outcome<()> {
    let path = crate::root().join(PAGE);
    let text = fs::read_to_string(&path).context(|| format!("cannot read {PAGE}"))?;
    let (evidence, pending, deviations) = (Evidence::read()?, Pending::read()?, deviations::read()?);
    let clauses = page::clauses(&text)?;
    let (results, mut findings) = results(options, &evidence)?;
    let checked = cells::of(&clauses, &pending, &evidence, &results);
    findings.extend(checked.findings);
    findings.extend(evidence.findings());
    let ids: Vec<&str> = clauses.iter().map(|clause| clause.id.as_str()).collect();
    findings.extend(deviations::faults(&deviations, &ids, &evidence.tests));
    let content =
        Content { clauses: &checked.clauses, evidence: &evidence, pending: &pending, deviations: &deviations };
    let made = page::made(&text, &content)?;
    if options.check && made != text {
        findings.extend(cells::differing(&clauses, &checked.clauses));
        findings.push(format!("{PAGE} is not what would be made now: run `cargo xtask contract --tables`, or `cargo xtask contract` if tests show more or less than before"));
    } else if made != text {
        fs::write(&path, &made).context(|| format!("cannot write {PAGE}"))?;
    }
    if !options.check {
        report(&checked.clauses, &pending, &results);
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("the contract is not held, or {PAGE} does not say so: {} findings", findings.len());
    }
    println!("contract: {}", summary(&checked.clauses));
    Ok(())
}

/// The results, and findings so far: from a new run, an earlier run, or none.
fn results(options: &Options, evidence: &Evidence) -> Outcome<(Results, Vec<String>)> {
    let (folder, ended) = match (&options.results, options.check || options.tables) {
        (Some(folder), _) => (folder.clone(), None),
        (None, true) => return Ok((Results::default(), Vec::new())),
        (None, false) => run::run(evidence)?,
    };
    let results = Results::of_run(Left::read(&folder)?, evidence)?;
    let mut findings: Vec<String> = ended.iter().map(Failure::to_string).collect();
    findings.extend(run::missing_results(&results, &runtimes::matrix()?));
    findings.extend(results.unreported().map(|test| {
        format!("`{test}` asserted a clause, and no report of the test runner has it: it counts for nothing")
    }));
    Ok((results, findings))
}

/// Prints the open cells with their reasons, and each column's numbers.
fn report(clauses: &[Clause], pending: &Pending, results: &Results) {
    for entry in pending.entries.iter().filter(|entry| matches!(entry.required, Required::Later { .. })) {
        println!("later: {} in {}: {}", entry.clauses.join(", "), entry.columns.join(", "), entry.reason);
    }
    for world in results.without_column() {
        println!("{world}: tests ran there, and {PAGE} has no column for it");
    }
    for (place, column) in columns::ALL.into_iter().enumerate() {
        let count = |cell: Cell| clauses.iter().filter(|clause| clause.cells[place] == cell).count();
        let kept = if results.has_run(column) { "" } else { " (not run: as it was)" };
        println!(
            "{:<8} {} shown, {} later, {} not applicable, {} failed{kept}",
            column.name(),
            count(Cell::Shown),
            count(Cell::Later),
            count(Cell::Inapplicable),
            count(Cell::Failed)
        );
    }
}

fn summary(clauses: &[Clause]) -> String {
    let cells = || clauses.iter().flat_map(|clause| clause.cells);
    let count = |cell: Cell| cells().filter(|each| *each == cell).count();
    format!("{} cells are shown by tests, {} are required later", count(Cell::Shown), count(Cell::Later))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Outcome<Options> {
        Options::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_after_the_task_are_understood_or_refused() {
        assert_eq!(options(&[]).unwrap(), Options::default());
        let both = Options { check: true, results: Some("folder".into()), tables: false };
        assert_eq!(options(&["--results", "folder", "--check"]).unwrap(), both);
        assert!(options(&["--tables"]).unwrap().tables);
        assert!(options(&["--results"]).unwrap_err().to_string().contains("the folder"));
        assert!(options(&["--chek"]).unwrap_err().to_string().contains("`--chek`"));
    }
}
