//! `docs/authors/broken-on-purpose.md`: which tests notice what is broken, and which clauses of Remora nothing breaks.
//!
//! A full run of `cargo xtask contract --mutate` writes the tables. Everything but the names of tests follows from the sources, and
//! `cargo xtask tidy` checks it without a run.

use super::breaks::{self, Break, Side};
use super::of_side;
use crate::contract;
use crate::outcome::{Context, Outcome, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

/// The page.
pub const PAGE: &str = "docs/authors/broken-on-purpose.md";

/// What was broken, and the tests that failed.
#[derive(Debug)]
pub struct Noticed {
    /// What.
    pub what: Break,
    /// The tests.
    pub by: BTreeSet<String>,
}

/// After a full run: writes the page, or with `checks` only compares it. A test with threads of the system may notice something now and then,
/// so another table is worth a word and no failure.
pub fn update(noticed: &[Noticed], checks: bool) -> Outcome<()> {
    let text = read()?;
    let made = made(&text, noticed, &contract::clauses_of_remora()?)?;
    if made == text {
        return Ok(());
    }
    if checks {
        println!("{PAGE} names other tests than this run: `cargo xtask contract --mutate` writes it");
        return Ok(());
    }
    fs::write(crate::root().join(PAGE), made).context(|| format!("cannot write {PAGE}"))
}

/// Fails if the page does not fit the sources. Nothing runs.
pub fn check() -> Outcome<()> {
    let (text, tests, of_remora) = (read()?, contract::tests()?, contract::clauses_of_remora()?);
    let by_row = rows(&text);
    let noticed = breaks::read()?.into_iter().map(|what| {
        let by = by_row.get(&row_of(&what)).into_iter().flatten();
        Noticed { by: by.filter(|test| tests.contains(*test)).cloned().collect(), what }
    });
    let noticed: Vec<Noticed> = noticed.collect();
    let mut findings: Vec<String> = (noticed.iter().filter(|one| one.by.is_empty()))
        .map(|one| format!("{PAGE} names no test that notices {}", one.what.name))
        .collect();
    if made(&text, &noticed, &of_remora)? != text {
        findings.push(format!("{PAGE} does not fit the sources: run `cargo xtask contract --mutate`"));
    }
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    if findings.is_empty() { Ok(()) } else { bail!("{} findings on {PAGE}", findings.len()) }
}

fn read() -> Outcome<String> {
    fs::read_to_string(crate::root().join(PAGE)).context(|| format!("cannot read {PAGE}"))
}

/// The first cell of its row.
fn row_of(what: &Break) -> String {
    match what.side {
        Side::Model => what.clauses().collect(),
        Side::Agent | Side::Sources => what.wrong.clone(),
    }
}

/// The tests in the last cell of each row, by the first cell.
fn rows(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let tests = cells.last()?.split("<br>").map(|test| test.trim_matches('`').to_owned());
        Some((cells.first()?.to_string(), tests.collect()))
    };
    page.lines().filter_map(row).collect()
}

/// The page with these tables.
fn made(page: &str, noticed: &[Noticed], of_remora: &[String]) -> Outcome<String> {
    let page = contract::between(PAGE, page, "model", &of_the_model(noticed))?;
    let page = contract::between(PAGE, &page, "remora", &of_remora_itself(noticed))?;
    contract::between(PAGE, &page, "unbroken", &without_fault(noticed, of_remora))
}

fn of_the_model(noticed: &[Noticed]) -> String {
    let mut clauses: BTreeMap<String, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for one in of_side(noticed, Side::Model) {
        let (count, by) = clauses.entry(row_of(&one.what)).or_default();
        *count += 1;
        by.extend(one.by.iter().map(String::as_str));
    }
    let mut table = String::from("| clause | mutations | noticed by |\n|---|---|---|\n");
    for (clause, (count, by)) in clauses {
        put(&mut table, format_args!("| {clause} | {count} | {} |", listed(by)));
    }
    table
}

fn of_remora_itself(noticed: &[Noticed]) -> String {
    let mut table = String::from("| what Remora does wrong | clauses | noticed by |\n|---|---|---|\n");
    // A run breaks them in another order than the sources have them.
    let mut all: Vec<&Noticed> = noticed.iter().filter(|one| one.what.side != Side::Model).collect();
    all.sort_by_key(|one| (one.what.clauses().map(str::to_owned).collect::<Vec<_>>(), row_of(&one.what)));
    for one in all {
        let clauses: Vec<&str> = one.what.clauses().collect();
        let by = listed(one.by.iter().map(String::as_str));
        put(&mut table, format_args!("| {} | {} | {by} |", row_of(&one.what), clauses.join(", ")));
    }
    table
}

fn without_fault(noticed: &[Noticed], of_remora: &[String]) -> String {
    let broken = noticed.iter().filter(|one| one.what.side != Side::Model);
    let broken: BTreeSet<&str> = broken.flat_map(|one| one.what.clauses()).collect();
    let rest: Vec<&str> = of_remora.iter().map(String::as_str).filter(|clause| !broken.contains(clause)).collect();
    match rest.as_slice() {
        [] => format!("None of {}.\n", of_remora.len()),
        rest => format!("{} of {}: {}.\n", rest.len(), of_remora.len(), rest.join(", ")),
    }
}

fn listed<'a>(tests: impl IntoIterator<Item = &'a str>) -> String {
    tests.into_iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join("<br>")
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Head\n<!-- model: begin -->\n<!-- model: end -->\n<!-- remora: begin -->\n<!-- remora: end -->\n\
        <!-- unbroken: begin -->\n<!-- unbroken: end -->\n";

    fn noticed() -> Vec<Noticed> {
        let one = |side, name, clauses, wrong, by: &[&str]| Noticed {
            what: Break::new(side, name, clauses, wrong),
            by: by.iter().map(|test| (*test).to_owned()).collect(),
        };
        vec![
            one(Side::Model, "ATT-01", "ATT-01", "it does", &["att_01_b"]),
            one(Side::Model, "ATT-01/2", "ATT-01", "it does not", &["att_01_a", "att_01_b"]),
            one(Side::Agent, "Early", "DET-04 DET-05", "Leaves early", &["whole"]),
        ]
    }

    #[test]
    fn a_page_has_what_was_noticed_and_what_nothing_breaks_and_gives_it_back() {
        let of_remora = ["ATT-01", "DET-04"].map(str::to_owned);
        let page = made(TEXT, &noticed(), &of_remora).unwrap();
        assert!(page.contains("| ATT-01 | 2 | `att_01_a`<br>`att_01_b` |\n"), "{page}");
        assert!(page.contains("| Leaves early | DET-04, DET-05 | `whole` |\n"), "{page}");
        assert!(page.contains("\n1 of 2: ATT-01.\n"), "{page}");
        let all_broken = made(TEXT, &noticed(), &of_remora[1..]).unwrap();
        assert!(all_broken.contains("\nNone of 1.\n"), "{all_broken}");
        let rows = rows(&page);
        assert_eq!(rows["ATT-01"], ["att_01_a", "att_01_b"].map(str::to_owned).into());
        assert_eq!(rows["Leaves early"], ["whole".to_owned()].into());
        assert_eq!(made(&page, &noticed(), &of_remora).unwrap(), page);
    }

    #[test]
    fn a_page_without_marks_is_a_failure() {
        let fault = made("# Head\n", &noticed(), &[]).unwrap_err().to_string();
        assert!(fault.contains(PAGE) && fault.contains("<!-- model: begin -->"), "{fault}");
    }
}
