//! `cargo xtask contract`: which tests hold which clause of `docs/contract.md`. The lower table of that page is made from the names of the tests.
//!
//! A clause that is owed now needs a test: `--check`, `tidy` and `ci` refuse a page where one has none.
//! One whose tests show only a part of what is owed is named on the page.

use crate::outcome::{Context, Outcome, bail};
use crate::tidy::{names, tracked_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

const PAGE: &str = "docs/contract.md";
const BEGIN: &str = "<!-- tests: begin -->\n";
const END: &str = "<!-- tests: end -->\n";

/// The tests of each clause, by the file that they are in.
type Tests = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A clause as a row of the page's upper tables tells it.
#[derive(Debug, PartialEq, Eq)]
struct Clause {
    id: String,
    /// It is to be shown in the model of the runtime.
    sim: bool,
    /// It is to be shown on live runtimes.
    live: bool,
    /// Remora itself is to honour it.
    remora: bool,
    /// That holds now, and not in a later version.
    owed: bool,
}

/// Writes the page anew; with `--check`, says whether it is up to date and every owed clause is held.
pub fn run(arguments: &[String]) -> Outcome<()> {
    let path = crate::root().join(PAGE);
    let page = fs::read_to_string(&path).context(|| format!("cannot read {PAGE}"))?;
    let tests = tests()?;
    let made = with_tests(&page, &tests)?;
    let check = arguments.iter().any(|argument| argument == "--check");
    if !check && made != page {
        fs::write(&path, &made).context(|| format!("cannot write {PAGE}"))?;
    }
    let mut findings = not_held(&clauses(&page), &tests);
    if check && made != page {
        findings.push(format!("{PAGE} does not list the tests that there are: run `cargo xtask contract`"));
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("the contract is not held, or its page does not say so");
    }
    println!("contract: every clause that is owed now is held by a test");
    Ok(())
}

/// All tests that name a clause.
fn tests() -> Outcome<Tests> {
    let mut tests = Tests::new();
    for file in tracked_files()? {
        if !file.ends_with(".rs") || !(file.starts_with("crates/") || file.starts_with("tests/")) {
            continue;
        }
        let Ok(text) = fs::read_to_string(crate::root().join(&file)) else { continue };
        for (_, name) in names::tests(&text) {
            for id in names::clauses(name) {
                tests.entry(id).or_default().entry(file.clone()).or_default().insert(name.to_owned());
            }
        }
    }
    Ok(tests)
}

/// The rows of the page's upper tables: `| ATT-01 | clause | sim | clr | rem | when |`.
fn clauses(page: &str) -> Vec<Clause> {
    let upper = page.split(BEGIN).next().unwrap_or_default();
    let rows = upper.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [id, _, sim, live, remora, when] = cells[..] else { return None };
        let is_clause = id.split_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
        is_clause.then(|| Clause {
            id: id.to_owned(),
            sim: sim == "x",
            live: live == "x",
            remora: remora == "x",
            owed: when.starts_with("now"),
        })
    });
    rows.collect()
}

/// What is owed now and has no test at all.
fn not_held(clauses: &[Clause], tests: &Tests) -> Vec<String> {
    let owed = clauses.iter().filter(|clause| clause.owed && !tests.contains_key(&clause.id));
    owed.map(|clause| format!("{}: it is owed now, and no test carries its number", clause.id)).collect()
}

/// What the model is to show, now or later, and no test in it does.
fn not_modelled(clauses: &[Clause], tests: &Tests) -> Vec<String> {
    let shown = |clause: &Clause| tests.get(&clause.id).into_iter().flatten().any(|(file, _)| is_of_the_model(file));
    clauses.iter().filter(|clause| clause.sim && !shown(clause)).map(|clause| clause.id.clone()).collect()
}

/// What is owed now and has tests, but none that shows it in this column.
fn half_held(clauses: &[Clause], tests: &Tests, column: fn(&Clause) -> bool, shows: fn(&str) -> bool) -> Vec<String> {
    let held = |clause: &Clause| tests.get(&clause.id).into_iter().flatten().any(|(file, _)| shows(file));
    let halves = clauses.iter().filter(|clause| clause.owed && column(clause) && !held(clause));
    halves.map(|clause| clause.id.clone()).collect()
}

/// Whether the tests of a file run on live runtimes.
fn is_live(file: &str) -> bool {
    file.starts_with("tests/e2e/tests/") || file == "crates/trigger/tests/live.rs"
}

/// Whether the tests of a file are of the model of the runtime.
fn is_of_the_model(file: &str) -> bool {
    file.starts_with("crates/clr-sim/")
}

/// Whether the tests of a file are of Remora, rather than of the runtimes or their model alone.
fn is_of_remora(file: &str) -> bool {
    let runs_the_agent = file == "crates/clr-sim/tests/explore.rs";
    !file.starts_with("tests/e2e/tests/runtime_") && (!is_of_the_model(file) || runs_the_agent)
}

/// The page with the table of tests made anew.
fn with_tests(page: &str, tests: &Tests) -> Outcome<String> {
    let split = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = split else { bail!("{PAGE} has no marks around its table of tests") };
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(&clauses(page), tests)))
}

fn table(clauses: &[Clause], tests: &Tests) -> String {
    let mut table = String::from("| clause | where | tests |\n|---|---|---|\n");
    for clause in clauses {
        for (file, names) in tests.get(&clause.id).into_iter().flatten() {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(table, "| {} | {file} | {} |", clause.id, names.join("<br>"));
        }
    }
    let live = half_held(clauses, tests, |clause| clause.live, is_live);
    let remora = half_held(clauses, tests, |clause| clause.remora, is_of_remora);
    for (ids, column, shows) in
        [(live, "clr", "on live runtimes"), (remora, "rem", "with Remora's own agent or command")]
    {
        if !ids.is_empty() {
            let _ =
                writeln!(table, "\nOwed in *{column}*, and no test {shows} carries the number: {}.", ids.join(", "));
        }
    }
    let modelled = not_modelled(clauses, tests);
    if !modelled.is_empty() {
        let _ = writeln!(
            table,
            "\nOwed in *sim*, and no test of the model carries the number yet: {}.",
            modelled.join(", ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| id | clause | sim | clr | rem | when |\n|---|---|---|---|---|---|\n\
        | ATT-01 | One. | x | x | x | now |\n| ATT-02 | Two. | - | x | - | now |\n| ATT-03 | Three. | - | - | x | later: why |\n\
        <!-- tests: begin -->\nold\n<!-- tests: end -->\nafter\n";

    fn made_up(rows: &[(&str, &str, &str)]) -> Tests {
        let mut tests = Tests::new();
        for (id, file, name) in rows {
            tests.entry((*id).into()).or_default().entry((*file).into()).or_default().insert((*name).into());
        }
        tests
    }

    #[test]
    fn what_is_owed_and_not_held_is_named() {
        let clauses = clauses(PAGE);
        assert_eq!(clauses.iter().filter(|clause| clause.owed).count(), 2);
        assert_eq!(not_held(&clauses, &Tests::new()).len(), 2);
        let runtime = "tests/e2e/tests/runtime_attach.rs";
        let of_runtimes = made_up(&[("ATT-01", runtime, "att_01_a"), ("ATT-02", runtime, "att_02_a")]);
        assert!(not_held(&clauses, &of_runtimes).is_empty());
        let told = table(&clauses, &of_runtimes);
        assert!(told.contains("with Remora's own agent or command carries the number: ATT-01.\n"), "{told}");
        assert!(told.ends_with("no test of the model carries the number yet: ATT-01.\n"), "{told}");
        let modelled = made_up(&[("ATT-01", "crates/clr-sim/tests/a.rs", "att_01_a"), ("ATT-02", runtime, "att_02_a")]);
        assert!(!table(&clauses, &modelled).contains("of the model"), "the model shows it");
        let unit = made_up(&[("ATT-01", "crates/x/src/a.rs", "att_01_a"), ("ATT-02", runtime, "att_02_a")]);
        assert!(table(&clauses, &unit).contains("no test on live runtimes carries the number: ATT-01.\n"));
    }

    #[test]
    fn the_table_is_made_anew_and_the_rest_stays() {
        let tests =
            made_up(&[("ATT-02", "f.rs", "att_02_b"), ("ATT-02", "f.rs", "att_02_a"), ("ATT-01", "f.rs", "att_01_a")]);
        let page = with_tests(PAGE, &tests).unwrap();
        assert!(page.contains("| ATT-02 | f.rs | `att_02_a`<br>`att_02_b` |\n"), "{page}");
        assert!(page.contains("| Three. |") && !page.contains("old") && page.ends_with("<!-- tests: end -->\nafter\n"));
        assert_eq!(with_tests(&page, &tests).unwrap(), page);
        assert!(with_tests("no marks", &tests).is_err());
    }

    #[test]
    fn the_page_has_every_clause_that_a_test_may_name() {
        let page = fs::read_to_string(crate::root().join(super::PAGE)).unwrap();
        let ids: BTreeSet<String> = clauses(&page).into_iter().map(|clause| clause.id).collect();
        assert_eq!(ids, names::all_clauses().collect());
    }
}
