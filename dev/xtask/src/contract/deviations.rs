//! Differences between live runtimes and the contract, from `docs/authors/contract-findings.md`: each is a line of the contract's page,
//! and has a test.

use super::named::Tests;
use crate::outcome::{Context, Outcome};
use std::fs;

/// Their page.
const FILE: &str = "docs/authors/contract-findings.md";

/// One difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The clauses that differ.
    pub clauses: Vec<String>,
    /// The runtime versions.
    pub place: String,
    /// The test that shows it.
    pub test: String,
}

/// Reads them from the repository.
pub fn read() -> Outcome<Vec<Deviation>> {
    let text = fs::read_to_string(crate::root().join(FILE)).context(|| format!("cannot read {FILE}"))?;
    Ok(parse(&text))
}

/// The rows `| clauses | the contract | what was seen | where | test |`.
fn parse(text: &str) -> Vec<Deviation> {
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [clauses, _, _, place, test] = cells[..] else { return None };
        clauses.contains('-').then(|| Deviation {
            clauses: clauses.split(", ").map(str::to_owned).collect(),
            place: place.to_owned(),
            test: test.trim_matches('`').to_owned(),
        })
    });
    rows.filter(|deviation| !deviation.clauses[0].starts_with("---")).collect()
}

/// References to missing clauses or tests.
pub fn faults(deviations: &[Deviation], clauses: &[&str], tests: &Tests) -> Vec<String> {
    let mut faults = Vec::new();
    for deviation in deviations {
        for id in deviation.clauses.iter().filter(|id| !clauses.contains(&id.as_str())) {
            faults.push(format!("{FILE} names {id}, and there is no such clause"));
        }
        if !tests.has(&deviation.test) {
            let clauses = deviation.clauses.join(", ");
            faults.push(format!(
                "{FILE}: what is said of {clauses} is held by `{}`, and no such test carries a clause",
                deviation.test
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "words\n| clause | the contract | what was seen | where | test |\n|---|---|---|---|---|\n\
        | ATT-12, DET-02 | It is so. | It is not. | 10.0.12; before, as it says. | `att_12_a` |\n";

    #[test]
    fn each_row_is_read() {
        let expected = Deviation {
            clauses: vec!["ATT-12".into(), "DET-02".into()],
            place: "10.0.12; before, as it says.".into(),
            test: "att_12_a".into(),
        };
        assert_eq!(parse(TEXT), [expected]);
    }

    #[test]
    fn a_clause_and_a_test_that_are_not_there_are_named() {
        let mut tests = Tests::default();
        let found = faults(&parse(TEXT), &["ATT-12"], &tests).join("\n");
        assert!(found.contains("DET-02, and there is no such clause") && found.contains("`att_12_a`"), "{found}");
        tests.add("att_12_a");
        assert_eq!(faults(&parse(TEXT), &["ATT-12"], &tests).len(), 1);
    }
}
