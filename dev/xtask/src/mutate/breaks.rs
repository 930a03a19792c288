//! What can be broken: the mutations of the model (`mutations.tsv`), the faults of the agent (`fault_injection.rs`), and single expressions
//! of all other sources (`sources.rs`).

use super::sources::{self, Change};
use crate::outcome::{Context, Outcome, bail};
use std::fs;

/// The package of the model.
pub const MODEL: &str = "remora-clr-model";
/// The package of the agent's logic.
pub const AGENT: &str = "remora-session";
/// The package whose tests need live runtimes.
pub const LIVE: &str = "remora-e2e";

/// The mutations of the model.
pub const MUTATIONS: &str = "crates/model/clr-model/mutations.tsv";
/// The faults of the agent.
pub const FAULTS: &str = "crates/target/session/src/fault_injection.rs";

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The runtime model.
    Model,
    /// The logic of Remora's agent.
    Agent,
    /// Any other source of Remora.
    Sources,
}

impl Side {
    /// The variable that selects what is broken.
    pub fn variable(self) -> &'static str {
        match self {
            Side::Model => "CLR_SIM_MUTATION",
            Side::Agent => "REMORA_INJECTED_FAULT",
            Side::Sources => sources::VARIABLE,
        }
    }
}

/// One broken behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// Of what.
    pub side: Side,
    /// Of the model: the clause, and a number if it has several (`DET-06/2`). Else a name.
    pub name: String,
    clauses: Vec<String>,
    /// What is done wrong.
    pub wrong: String,
    /// The package with its tests. Of the model and the agent, those of both notice.
    pub package: String,
    /// One of its test programs; else all.
    pub program: Option<String>,
    /// A change that has its own build.
    pub apart: Option<Change>,
    /// The tests to run. None: all that assert its clauses.
    pub tests: Vec<String>,
}

impl Break {
    /// One that belongs to these clauses.
    pub fn new(side: Side, name: &str, clauses: &str, wrong: &str) -> Break {
        let clauses = clauses.split_whitespace().map(str::to_owned).collect();
        let (name, wrong, package) = (name.to_owned(), wrong.to_owned(), String::new());
        Break { side, name, clauses, wrong, package, program: None, apart: None, tests: Vec::new() }
    }

    /// The clauses whose tests must fail.
    pub fn clauses(&self) -> impl Iterator<Item = &str> {
        self.clauses.iter().map(String::as_str)
    }

    /// Whether its tests need live runtimes.
    pub fn is_live(&self) -> bool {
        self.package == LIVE
    }

    /// Whether it is chosen by these words: clauses or names. No word chooses everything.
    pub fn is_asked_for(&self, asked: &[String]) -> bool {
        asked.is_empty() || asked.iter().any(|word| *word == self.name || self.clauses.contains(word))
    }
}

/// All of them. Faults of the agent without a clause are left out: other tests find them.
pub fn read() -> Outcome<Vec<Break>> {
    let text = |file: &str| fs::read_to_string(crate::root().join(file)).context(|| format!("cannot read {file}"));
    let mut all = mutations(&text(MUTATIONS)?);
    all.extend(faults(&text(FAULTS)?)?.into_iter().filter(|one| !one.clauses.is_empty()));
    for change in sources::changes()? {
        all.push(of_source(change)?);
    }
    Ok(all)
}

fn of_source(change: Change) -> Outcome<Break> {
    let wrong = change.wrong.trim_end_matches('.');
    let (package, program) = change.tests_in()?;
    let made = Break::new(Side::Sources, &change.name, &change.clauses.join(" "), wrong);
    Ok(Break { package, program, tests: change.tests.clone(), apart: change.apart.then_some(change), ..made })
}

fn mutations(list: &str) -> Vec<Break> {
    let rows = list.lines().filter_map(|line| line.split_once('\t'));
    let of = |(name, wrong): (&str, &str)| Break::new(Side::Model, name, name.split('/').next().unwrap_or(name), wrong);
    rows.map(of).collect()
}

/// Lines as `/// What it does wrong.` and `Name: "DET-04",` inside `switches! { … }`.
fn faults(source: &str) -> Outcome<Vec<Break>> {
    let Some((_, body)) = source.split_once("\nswitches! {\n") else { bail!("{FAULTS} has no `switches!`") };
    let body = body.split("\n}\n").next().unwrap_or_default();
    let (mut all, mut wrong) = (Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            wrong += text;
        } else if let Some((name, clauses)) = line.split_once(": ") {
            let clauses = clauses.trim_end_matches(',').trim_matches('"');
            all.push(Break::new(Side::Agent, name, clauses, wrong.trim().trim_end_matches('.')));
            wrong.clear();
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_asks_for_all_its_mutations_and_a_number_for_one() {
        let asks = |word: &str, name: &str| mutations(&format!("{name}\twrong"))[0].is_asked_for(&[word.to_owned()]);
        assert!(asks("DET-06", "DET-06") && asks("DET-06", "DET-06/2") && asks("DET-06/2", "DET-06/2"));
        assert!(!asks("DET-06/2", "DET-06") && !asks("DET-06", "DET-07"));
    }

    #[test]
    fn faults_are_read_from_the_source_with_their_clauses() {
        let source = "\nswitches! {\n    one {\n        /// Does\n        /// this.\n        First: \"DET-04 DET-05\",\n        /// That.\n        Second: \"\",\n    }\n}\n\n/// Other: text\n";
        let expected = [
            Break::new(Side::Agent, "First", "DET-04 DET-05", "Does this"),
            Break::new(Side::Agent, "Second", "", "That"),
        ];
        assert_eq!(faults(source).unwrap(), expected);
        assert!(faults("nothing").unwrap_err().to_string().contains("no `switches!`"));
    }

    #[test]
    fn there_are_some_of_all_sides() {
        let all = read().unwrap();
        for side in [Side::Model, Side::Agent, Side::Sources] {
            assert!(all.iter().filter(|one| one.side == side).count() > 10, "{side:?}");
        }
    }
}
