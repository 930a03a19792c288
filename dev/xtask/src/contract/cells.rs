//! Computes each cell of the contract after a run, and every contradiction.

use super::columns::{self, Column};
use super::evidence::Evidence;
use super::page::{Cell, Clause};
use super::pending::{Entry, FILE, Pending, Required};
use super::results::Results;
use std::fmt::Write;

/// The clauses with their new cells, and the findings.
pub struct Checked {
    /// As on the page, with updated cells.
    pub clauses: Vec<Clause>,
    /// One sentence each.
    pub findings: Vec<String>,
}

/// Checks every cell. Where nothing ran, a cell keeps its value on the page.
pub fn of(clauses: &[Clause], pending: &Pending, evidence: &Evidence, results: &Results) -> Checked {
    let mut findings = unknown_clauses(&pending.entries, clauses);
    let mut made = clauses.to_vec();
    for clause in &mut made {
        for (column, cell) in columns::ALL.into_iter().zip(&mut clause.cells) {
            let case = Case { clause: &clause.id, column, evidence, results };
            let finding = case.check(pending.required(&clause.id, column), cell);
            findings.extend(finding.map(|finding| format!("{} in {}: {finding}", clause.id, column.name())));
        }
    }
    Checked { clauses: made, findings }
}

/// The cells that differ between two pages.
pub fn differing(page: &[Clause], seen: &[Clause]) -> Vec<String> {
    let mut differences = Vec::new();
    for (on_page, seen) in page.iter().zip(seen) {
        for ((column, on_page_has), seen_has) in columns::ALL.into_iter().zip(on_page.cells).zip(seen.cells) {
            if on_page_has != seen_has {
                let (has, should) = (on_page_has.text(), seen_has.text());
                differences.push(format!(
                    "{} in {}: the page says `{has}`, and it is `{should}`",
                    seen.id,
                    column.name()
                ));
            }
        }
    }
    differences
}

/// One cell and its facts.
struct Case<'a> {
    clause: &'a str,
    column: Column,
    evidence: &'a Evidence,
    results: &'a Results,
}

impl Case<'_> {
    /// Sets the cell; returns a finding if something is wrong.
    fn check(&self, required: Required, cell: &mut Cell) -> Option<String> {
        let seen = self.results.of(self.clause, self.column);
        let failed = seen.and_then(|seen| (!seen.failed.is_empty()).then(|| listed(&seen.failed)));
        let shown = seen.is_some_and(|seen| !seen.passed.is_empty());
        let exists = self.evidence.may_show(self.clause, self.column);
        // For a test that runs on several runtimes, only a run shows on which.
        let shows = shown || self.evidence.shows(self.clause, self.column);
        match required {
            Required::Never => {
                *cell = Cell::Inapplicable;
                shows.then(|| format!("it is said not to apply there, and tests show it: take it out of {FILE}"))
            }
            Required::Later { partly } => {
                *cell = Cell::Later;
                if let Some(failed) = failed {
                    return Some(format!("it is required later, and what shows a part of it failed: {failed}"));
                }
                self.later(partly, shows, exists)
            }
            Required::Now => self.now(cell, failed, shown, exists),
        }
    }

    fn later(&self, partly: bool, shows: bool, exists: bool) -> Option<String> {
        match (partly, shows) {
            (false, true) => Some(format!(
                "it is said to come later, and tests show it: take it out of {FILE}, or say `partly = true` there"
            )),
            (true, false) if !exists => Some(format!("{FILE} says that tests show a part of it, and none does")),
            _ => None,
        }
    }

    fn now(&self, cell: &mut Cell, failed: Option<String>, shown: bool, exists: bool) -> Option<String> {
        let (made, finding) = if let Some(failed) = failed {
            (Cell::Failed, Some(format!("failed: {failed}")))
        } else if shown {
            (Cell::Shown, None)
        } else if !exists {
            (Cell::Failed, Some(format!("it is required, and no assertion (`holds!`) names it there; see {FILE}")))
        } else if self.results.has_run(self.column) {
            (Cell::Failed, Some("it is required, tests ran there, and none that asserts it passed".to_owned()))
        } else {
            (*cell, not_shown(*cell, self.column))
        };
        *cell = made;
        finding
    }
}

/// The finding for a required cell without results in this run.
fn not_shown(cell: Cell, column: Column) -> Option<String> {
    match cell {
        Cell::Shown => None,
        Cell::Failed => Some("the last run did not show it: run `cargo xtask contract`".to_owned()),
        Cell::Later | Cell::Inapplicable => Some(format!(
            "{FILE} no longer names it, and no run has shown it: run `cargo xtask contract` where there is a runtime for {}",
            column.name()
        )),
    }
}

fn unknown_clauses(entries: &[Entry], clauses: &[Clause]) -> Vec<String> {
    let named = entries.iter().flat_map(|entry| &entry.clauses);
    let unknown = named.filter(|id| !clauses.iter().any(|clause| clause.id == **id));
    unknown.map(|id| format!("{FILE} names {id}, and there is no such clause")).collect()
}

fn listed<'a>(tests: impl IntoIterator<Item = &'a String>) -> String {
    let mut text = String::new();
    for test in tests {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{test}", if text.is_empty() { "" } else { ", " });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::results::{Held, InWorld, Left};
    use crate::test_output::TestResult;

    const LATER: &str = "[[pending]]\nclauses = ['ATT-01']\ncolumns = ['sim', 'clr', 'rem']\nreason = 'a'\n";
    const NEVER: &str = "[[inapplicable]]\nclauses = ['ATT-01']\ncolumns = ['sim', 'clr', 'rem']\nreason = 'a'\n";

    fn named() -> Evidence {
        let mut evidence = Evidence::default();
        for (file, test, column) in [
            ("crates/model/clr-model/tests/a.rs", "att_01_sim", "sim"),
            ("tests/e2e/tests/a.rs", "att_01_clr", "clr"),
            ("crates/target/corprof/src/a.rs", "att_01_rem", "rem"),
        ] {
            evidence.add(file, &format!("#[test]\nfn {test}() {{\n    holds!(ATT_01 {column}, true);\n}}\n"));
        }
        evidence
    }

    /// What the test of a column leaves that passes or fails in these worlds. In 9.0.7 it asserts nothing.
    fn left(worlds: &[(&str, bool)]) -> Left {
        let mut left = Left::default();
        for (world, passed) in worlds {
            let column = world.split(' ').next().unwrap();
            let test = format!("att_01_{column}");
            let package = match column {
                "sim" => "remora-clr-model",
                "clr" => "remora-e2e",
                _ => "corprof",
            };
            let [world, package, binary] = [world, package, "a"].map(str::to_owned);
            if column == "clr" {
                left.worlds.push(InWorld { test: test.clone(), world: world.clone(), passed: *passed });
            }
            if world != "clr 9.0.7" && *passed {
                let held = (package.clone(), binary.clone(), test.clone());
                left.held.push(Held { holds: "ATT-01".into(), world, package: held.0, binary: held.1, test: held.2 });
            }
            left.reported.push(TestResult {
                package,
                binary,
                path: test.clone(),
                test,
                passed: *passed,
                ..TestResult::default()
            });
        }
        left
    }

    /// Checks ATT-01 with all cells `before`; returns the cells after, and the findings of one column.
    fn checked_cell(
        before: Cell,
        pending: &str,
        evidence: &Evidence,
        worlds: &[(&str, bool)],
        column: Column,
    ) -> (Cell, String) {
        let results = Results::of_run(left(worlds), evidence).unwrap();
        let clause = Clause { id: "ATT-01".into(), text: "One.".into(), cells: [before; columns::COUNT] };
        let checked = of(&[clause], &Pending::parse(pending).unwrap(), evidence, &results);
        let place = columns::ALL.iter().position(|each| *each == column).unwrap();
        let finding = checked.findings.iter().filter(|finding| finding.contains(&format!("in {}:", column.name())));
        (checked.clauses[0].cells[place], finding.cloned().collect())
    }

    #[track_caller]
    fn check(checked_cell: (Cell, String), cell: Cell, words: &str) {
        assert_eq!(checked_cell.0, cell, "{}", checked_cell.1);
        assert!(
            checked_cell.1.contains(words) && checked_cell.1.is_empty() == words.is_empty(),
            "`{words}`: {}",
            checked_cell.1
        );
    }

    #[test]
    fn an_owed_cell_is_what_the_tests_of_its_world_say() {
        let tests = named();
        let runs = [("clr 8.0.4", true), ("clr 10.0.1", false), ("clr 9.0.7", true)];
        check(checked_cell(Cell::Failed, "", &tests, &runs, Column::Clr8), Cell::Shown, "");
        check(checked_cell(Cell::Shown, "", &tests, &runs, Column::Clr10), Cell::Failed, "failed: att_01_clr");
        check(checked_cell(Cell::Shown, "", &tests, &runs, Column::Clr9), Cell::Failed, "none that asserts it passed");
        let both = [("clr 8.0.4", true), ("clr 8.0.5", false)];
        check(checked_cell(Cell::Shown, "", &tests, &both, Column::Clr8), Cell::Failed, "failed: att_01_clr");
    }

    #[test]
    fn a_column_that_did_not_run_keeps_what_it_had() {
        let tests = named();
        check(checked_cell(Cell::Shown, "", &tests, &[], Column::Clr10), Cell::Shown, "");
        check(checked_cell(Cell::Failed, "", &tests, &[], Column::Clr10), Cell::Failed, "last run did not show it");
        check(checked_cell(Cell::Later, "", &tests, &[], Column::Clr10), Cell::Later, "no longer names it");
        check(
            checked_cell(Cell::Inapplicable, "", &tests, &[], Column::Clr10),
            Cell::Inapplicable,
            "no longer names it",
        );
    }

    #[test]
    fn an_owed_cell_without_a_test_is_a_finding_without_a_run() {
        for column in columns::ALL {
            let finding = checked_cell(Cell::Shown, "", &Evidence::default(), &[], column);
            check(finding, Cell::Failed, "no assertion (`holds!`) names it there");
        }
    }

    #[test]
    fn the_model_and_remora_go_by_assertions_of_tests_that_passed() {
        let tests = named();
        let of = |world: &str, passed: bool, column: Column| {
            checked_cell(Cell::Shown, "", &tests, &[(world, passed)], column)
        };
        check(of("sim", true, Column::Sim), Cell::Shown, "");
        check(of("sim", false, Column::Sim), Cell::Failed, "failed: att_01_sim");
        check(of("rem", true, Column::Rem), Cell::Shown, "");
        check(of("rem", false, Column::Rem), Cell::Failed, "failed: att_01_rem");
        check(checked_cell(Cell::Later, "", &tests, &[], Column::Rem), Cell::Later, "no longer names it");
        check(checked_cell(Cell::Failed, "", &tests, &[], Column::Rem), Cell::Failed, "last run did not show it");
    }

    #[test]
    fn what_is_shown_and_said_to_come_later_or_not_to_apply_is_a_finding() {
        let tests = named();
        let live = [("clr 8.0.4", true)];
        check(checked_cell(Cell::Later, LATER, &tests, &live, Column::Clr8), Cell::Later, "partly = true");
        check(checked_cell(Cell::Later, LATER, &tests, &live, Column::Clr10), Cell::Later, "");
        check(checked_cell(Cell::Later, LATER, &tests, &[], Column::Sim), Cell::Later, "partly = true");
        check(checked_cell(Cell::Later, NEVER, &tests, &live, Column::Clr8), Cell::Inapplicable, "take it out");
        check(checked_cell(Cell::Later, NEVER, &tests, &[], Column::Rem), Cell::Inapplicable, "take it out");
        check(checked_cell(Cell::Shown, NEVER, &Evidence::default(), &[], Column::Rem), Cell::Inapplicable, "");
    }

    #[test]
    fn what_is_shown_in_part_is_later_without_a_finding_unless_it_fails_or_is_not_there() {
        let partly = format!("{LATER}partly = true\n");
        let tests = named();
        check(checked_cell(Cell::Shown, &partly, &tests, &[("clr 8.0.4", true)], Column::Clr8), Cell::Later, "");
        check(checked_cell(Cell::Shown, &partly, &tests, &[], Column::Sim), Cell::Later, "");
        let failed = [("clr 8.0.4", false)];
        check(checked_cell(Cell::Later, &partly, &tests, &failed, Column::Clr8), Cell::Later, "a part of it failed");
        check(checked_cell(Cell::Later, &partly, &Evidence::default(), &[], Column::Sim), Cell::Later, "and none does");
    }

    #[test]
    fn a_clause_that_does_not_exist_is_named() {
        let pending = Pending::parse(&LATER.replace("ATT-01", "ATT-77")).unwrap();
        let checked = of(&[], &pending, &Evidence::default(), &Results::default());
        assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
        assert!(checked.findings[0].contains("ATT-77"));
    }

    #[test]
    fn cells_that_differ_are_named_with_both() {
        let with = |cell| [Clause { id: "ATT-01".into(), text: "One.".into(), cells: [cell; columns::COUNT] }];
        let finding = differing(&with(Cell::Shown), &with(Cell::Failed));
        assert_eq!(finding.len(), columns::COUNT);
        assert_eq!(finding[1], "ATT-01 in clr 3.1: the page says `x`, and it is `no`");
        assert!(differing(&with(Cell::Later), &with(Cell::Later)).is_empty());
    }
}
