//! `docs/authors/contract.md` as rows and back: people write the clauses, this program writes the cells and the text between marks.

use super::assertions::Assertion;
use super::columns::{self, Column};
use super::deviations::Deviation;
use super::evidence::Evidence;
use super::pending::{FILE, Pending, Required};
use crate::outcome::{Failure, Outcome, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The page.
pub const PAGE: &str = "docs/authors/contract.md";

/// The state of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Tests show it.
    Shown,
    /// It does not apply there.
    Inapplicable,
    /// It is required later.
    Later,
    /// It is required, and the last run did not show it.
    Failed,
}

/// A row of the upper tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// `ATT-01`.
    pub id: String,
    /// The clause's text.
    pub text: String,
    /// In the order of the columns.
    pub cells: [Cell; columns::COUNT],
}

/// Everything for the generated parts of the page.
pub struct Content<'a> {
    /// With their new cells.
    pub clauses: &'a [Clause],
    /// Their assertions and tests.
    pub evidence: &'a Evidence,
    /// The open cells.
    pub pending: &'a Pending,
    /// Differences of live runtimes.
    pub deviations: &'a [Deviation],
}

impl Cell {
    const ALL: [Cell; 4] = [Cell::Shown, Cell::Inapplicable, Cell::Later, Cell::Failed];

    /// The text on the page.
    pub fn text(self) -> &'static str {
        match self {
            Cell::Shown => "x",
            Cell::Inapplicable => "-",
            Cell::Later => "later",
            Cell::Failed => "no",
        }
    }

    fn of(text: &str) -> Outcome<Cell> {
        let found = Cell::ALL.into_iter().find(|cell| cell.text() == text);
        found.ok_or_else(|| Failure::new(format!("a cell says `{text}`, and not one of x, -, later, no")))
    }
}

/// The clauses of the page, in its order.
pub fn clauses(page: &str) -> Outcome<Vec<Clause>> {
    page.lines().filter_map(|line| row(line).transpose()).collect()
}

/// The page with all generated parts updated.
pub fn made(page: &str, content: &Content<'_>) -> Outcome<String> {
    let page = with_cells(page, content.clauses)?;
    let page = between(PAGE, &page, "open cells", &open_cells(content.pending))?;
    let page = between(PAGE, &page, "deviations", &deviations(content.deviations))?;
    between(PAGE, &page, "tests", &tests(content.clauses, content.evidence))
}

/// The clause in this line, if it is a row of the upper tables.
fn row(line: &str) -> Outcome<Option<Clause>> {
    let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { return Ok(None) };
    let parts: Vec<&str> = inner.split('|').map(str::trim).collect();
    let [id, text, cells @ ..] = &parts[..] else { return Ok(None) };
    let is_clause = id.split_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
    // The rows of the generated tables are shorter.
    if !is_clause || cells.len() < 3 {
        return Ok(None);
    }
    let cells = cells.iter().map(|text| Cell::of(text).map_err(|fault| Failure::new(format!("{PAGE}: {id}: {fault}"))));
    match cells.collect::<Outcome<Vec<Cell>>>()?.try_into() {
        Ok(cells) => Ok(Some(Clause { id: (*id).to_owned(), text: (*text).to_owned(), cells })),
        Err(_) => bail!("{PAGE}: {id} does not have the {} cells {}", columns::COUNT, heads()),
    }
}

fn heads() -> String {
    columns::ALL.map(Column::name).join(" | ")
}

fn with_cells(page: &str, clauses: &[Clause]) -> Outcome<String> {
    let mut made = String::with_capacity(page.len());
    for line in page.lines() {
        let own = row(line)?.and_then(|row| clauses.iter().find(|clause| clause.id == row.id));
        match own {
            Some(clause) => {
                let cells = clause.cells.map(Cell::text).join(" | ");
                put(&mut made, format_args!("| {} | {} | {cells} |", clause.id, clause.text));
            }
            None => put(&mut made, format_args!("{line}")),
        }
    }
    Ok(made)
}

/// A page with `content` between the marks of this name; `file` is for the failure.
pub fn between(file: &str, page: &str, name: &str, content: &str) -> Outcome<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"));
    let split = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = split else { bail!("{file} has no lines `{}` and `{}`", begin.trim(), end.trim()) };
    Ok(format!("{before}{begin}{content}{end}{after}"))
}

fn open_cells(pending: &Pending) -> String {
    let mut table = String::from("| cells | clauses | columns | why |\n|---|---|---|---|\n");
    for later in [true, false] {
        for entry in pending.entries.iter().filter(|entry| matches!(entry.required, Required::Later { .. }) == later) {
            let cells = match entry.required {
                Required::Later { partly: true } => "`later`, a part is shown",
                Required::Later { partly: false } => "`later`",
                Required::Now | Required::Never => "`-`",
            };
            let (clauses, columns) = (entry.clauses.join(", "), entry.columns.join(", "));
            put(&mut table, format_args!("| {cells} | {clauses} | {columns} | {} |", entry.reason));
        }
    }
    if pending.entries.is_empty() {
        put(&mut table, format_args!("\nNone: {FILE} is empty."));
    }
    table
}

fn deviations(deviations: &[Deviation]) -> String {
    let mut table = String::from("| clauses | where | test |\n|---|---|---|\n");
    for Deviation { clauses, place, test } in deviations {
        put(&mut table, format_args!("| {} | {place} | `{test}` |", clauses.join(", ")));
    }
    table
}

fn tests(clauses: &[Clause], evidence: &Evidence) -> String {
    let mut table = String::from("| clause | columns | where | tests |\n|---|---|---|---|\n");
    for Clause { id, .. } in clauses {
        let mut rows: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for Assertion { column, file, function, .. } in evidence.assertions.of(id) {
            let (columns, functions) = rows.entry(file).or_default();
            columns.insert(column);
            functions.insert(function);
        }
        for (file, (columns, functions)) in rows {
            put_row(&mut table, id, &names_of(|column| columns.contains(column.kind())), file, functions);
        }
    }
    table
}

fn put_row<'a>(table: &mut String, id: &str, columns: &str, file: &str, tests: impl IntoIterator<Item = &'a str>) {
    let tests: Vec<String> = tests.into_iter().map(|name| format!("`{name}`")).collect();
    put(table, format_args!("| {id} | {columns} | {file} | {} |", tests.join("<br>")));
}

/// The names of some columns, all live ones as one.
fn names_of(shown: impl Fn(Column) -> bool) -> String {
    let mut names: Vec<&str> = columns::ALL.into_iter().filter(|column| shown(*column)).map(Column::kind).collect();
    names.dedup();
    names.join(", ")
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests_of_the_page {
    use super::*;
    use crate::tidy::names;

    const TEXT: &str = "# Head\n| id | clause | sim | clr 3.1 | clr 8 | clr 9 | clr 10 | rem |\n|---|---|---|---|---|---|---|---|\n\
        | ATT-01 | One. | x | x | no | x | later | - |\n| ATT-02 | Two. | x | x | x | x | x | x |\nwords\n\
        <!-- open cells: begin -->\nold\n<!-- open cells: end -->\n<!-- deviations: begin -->\nold\n<!-- deviations: end -->\n\
        <!-- tests: begin -->\nold\n<!-- tests: end -->\nafter\n";

    fn made_of(page: &str, clauses: &[Clause]) -> Outcome<String> {
        let mut evidence = Evidence::default();
        let test = |name: &str| format!("#[test]\nfn {name}() {{\n    holds!(ATT_02 clr rem, true);\n}}\n");
        evidence.add("tests/e2e/tests/receipt.rs", &(test("att_02_b") + &test("att_02_a")));
        evidence.add("crates/model/clr-model/tests/a.rs", "#[test]\nfn att_01_a() {\n    assert!(true);\n}\n");
        let pending = "[[inapplicable]]\nclauses = ['ATT-01']\ncolumns = ['rem']\nreason = 'never.'\n\
            [[pending]]\nclauses = ['ATT-01']\ncolumns = ['clr 10']\nreason = 'soon.'\npartly = true\n";
        let pending = Pending::parse(pending).unwrap();
        let deviations = [Deviation { clauses: vec!["ATT-02".into()], place: "3.1".into(), test: "att_02_a".into() }];
        made(page, &Content { clauses, evidence: &evidence, pending: &pending, deviations: &deviations })
    }

    #[test]
    fn rows_are_clauses_with_cells() {
        let clauses = clauses(TEXT).unwrap();
        assert_eq!(clauses.len(), 2);
        assert_eq!((clauses[0].id.as_str(), clauses[0].text.as_str()), ("ATT-01", "One."));
        let cells = [Cell::Shown, Cell::Shown, Cell::Failed, Cell::Shown, Cell::Later, Cell::Inapplicable];
        assert_eq!(clauses[0].cells, cells);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_a_failure() {
        let fault = |from: &str, to: &str| clauses(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(fault("| later |", "| soon |").contains("ATT-01: a cell says `soon`"));
        assert!(fault("| later | - |", "| later |").contains("ATT-01 does not have the 6 cells"));
    }

    #[test]
    fn cells_and_tables_are_made_anew_and_the_rest_stays() {
        let mut clauses = clauses(TEXT).unwrap();
        clauses[0].cells[2] = Cell::Shown;
        let page = made_of(TEXT, &clauses).unwrap();
        assert!(
            page.starts_with("# Head\n") && page.ends_with("<!-- tests: end -->\nafter\n") && !page.contains("old")
        );
        assert!(page.contains("| ATT-01 | One. | x | x | x | x | later | - |\n| ATT-02 |"), "{page}");
        assert!(
            page.contains("| ATT-02 | clr, rem | tests/e2e/tests/receipt.rs | `att_02_a`<br>`att_02_b` |\n"),
            "{page}"
        );
        assert!(!page.contains("`att_01_a`"), "{page}");
        assert!(
            page.contains("| `later`, a part is shown | ATT-01 | clr 10 | soon. |\n| `-` | ATT-01 | rem | never. |\n"),
            "{page}"
        );
        assert!(page.contains("| ATT-02 | 3.1 | `att_02_a` |\n"), "{page}");
        assert_eq!(made_of(&page, &clauses).unwrap(), page);
    }

    #[test]
    fn a_page_without_marks_is_a_failure() {
        for name in ["open cells", "deviations", "tests"] {
            let page = TEXT.replace(&format!("<!-- {name}: end -->"), "");
            let fault = made_of(&page, &[]).unwrap_err().to_string();
            assert!(fault.contains(&format!("<!-- {name}: begin -->")), "{fault}");
        }
    }

    #[test]
    fn the_page_has_every_clause_that_a_test_may_name() {
        let page = std::fs::read_to_string(crate::root().join(PAGE)).unwrap();
        let ids: BTreeSet<String> = clauses(&page).unwrap().into_iter().map(|clause| clause.id).collect();
        assert_eq!(ids, names::all_clauses().collect());
    }
}
