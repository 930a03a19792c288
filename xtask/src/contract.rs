//! `cargo xtask contract`: runs the tests that hold the clauses of `docs/authors/contract.md` and makes that page: clause by clause, what is shown where, by which tests.
//!
//! A cell that is owed and not shown is a failure, and so is a page that says otherwise than what was seen.
//! What no test fills, and why, stands in `contract-pending.toml`. Columns of runtimes that are not on this machine keep what they had.

mod columns;
mod departures;
mod named;
mod page;
mod pending;
pub mod results;
mod run;
mod verdict;

use crate::outcome::{Context, Failure, Outcome, bail};
use crate::runtimes;
use columns::Column;
use named::Tests;
use page::{Cell, Clause, Content, PAGE};
use pending::{Owed, Pending};
use results::Sight;
use std::fs;
use std::path::{Path, PathBuf};

/// What the words after the task's name ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    /// Nothing is written, and without results nothing is run.
    check: bool,
    /// What is made of the sources alone is written, and without results nothing is run.
    tables: bool,
    /// The results of a run that was made already.
    results: Option<PathBuf>,
}

/// The task.
pub fn run(arguments: &[String]) -> Outcome<()> {
    fulfil(&Wish::of(arguments)?)
}

/// Whether the page says what a run has shown.
pub fn agrees(results: &Path) -> Outcome<()> {
    fulfil(&Wish { check: true, results: Some(results.to_path_buf()), ..Wish::default() })
}

impl Wish {
    fn of(arguments: &[String]) -> Outcome<Wish> {
        let mut wish = Wish::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match (word.as_str(), word.as_str() == "--results") {
                ("--check", _) => wish.check = true,
                ("--tables", _) => wish.tables = true,
                (_, true) => match words.next() {
                    Some(folder) => wish.results = Some(folder.into()),
                    None => bail!("--results wants the folder of a run's results"),
                },
                _ => bail!("`{word}` is not understood: there are --check, --tables and --results FOLDER"),
            }
        }
        Ok(wish)
    }
}

fn fulfil(wish: &Wish) -> Outcome<()> {
    let path = crate::root().join(PAGE);
    let text = fs::read_to_string(&path).context(|| format!("cannot read {PAGE}"))?;
    let (tests, pending, departures) = (Tests::read()?, Pending::read()?, departures::read()?);
    let clauses = page::clauses(&text)?;
    let (sight, mut findings) = sight(wish, &tests)?;
    let verdict = verdict::of(&clauses, &pending, &tests, &sight);
    findings.extend(verdict.findings);
    findings.extend(departures::faults(&departures, &clauses, &tests));
    let content = Content { clauses: &verdict.clauses, tests: &tests, pending: &pending, departures: &departures };
    let made = page::made(&text, &content)?;
    if wish.check && made != text {
        findings.extend(verdict::differing(&clauses, &verdict.clauses));
        findings.push(format!("{PAGE} is not what would be made now: run `cargo xtask contract --tables`, or `cargo xtask contract` if tests show more or less than before"));
    } else if made != text {
        fs::write(&path, &made).context(|| format!("cannot write {PAGE}"))?;
    }
    if !wish.check {
        report(&verdict.clauses, &pending, &sight);
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("the contract is not held, or {PAGE} does not say so: {} findings", findings.len());
    }
    println!("contract: {}", summary(&verdict.clauses));
    Ok(())
}

/// What was seen, and what is wrong with it already: from a run made now, from one that was made, or nothing.
fn sight(wish: &Wish, tests: &Tests) -> Outcome<(Sight, Vec<String>)> {
    let (folder, ended) = match (&wish.results, wish.check || wish.tables) {
        (Some(folder), _) => (folder.clone(), None),
        (None, true) => return Ok((Sight::default(), Vec::new())),
        (None, false) => run::run()?,
    };
    let sight = Sight::read(&folder, tests)?;
    let mut findings: Vec<String> = ended.iter().map(Failure::to_string).collect();
    findings.extend(run::silent(&sight, &runtimes::matrix()?));
    Ok((sight, findings))
}

/// What stands open with its reason, and each column in numbers.
fn report(clauses: &[Clause], pending: &Pending, sight: &Sight) {
    for entry in pending.entries.iter().filter(|entry| matches!(entry.owed, Owed::Later { .. })) {
        println!("later: {} in {}: {}", entry.clauses.join(", "), entry.columns.join(", "), entry.reason);
    }
    for world in sight.without_column() {
        println!("{world}: tests ran there, and {PAGE} has no column for it");
    }
    for (place, column) in columns::ALL.into_iter().enumerate() {
        let count = |cell: Cell| clauses.iter().filter(|clause| clause.cells[place] == cell).count();
        let kept = if column == Column::Rem || sight.has_run(column) { "" } else { " (not run: as it was)" };
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
    format!("{} cells are shown by tests, {} are owed later", count(Cell::Shown), count(Cell::Later))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> Outcome<Wish> {
        Wish::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_after_the_task_are_understood_or_refused() {
        assert_eq!(wish(&[]).unwrap(), Wish::default());
        let both = Wish { check: true, results: Some("folder".into()), tables: false };
        assert_eq!(wish(&["--results", "folder", "--check"]).unwrap(), both);
        assert!(wish(&["--tables"]).unwrap().tables);
        assert!(wish(&["--results"]).unwrap_err().to_string().contains("the folder"));
        assert!(wish(&["--chek"]).unwrap_err().to_string().contains("`--chek`"));
    }
}
