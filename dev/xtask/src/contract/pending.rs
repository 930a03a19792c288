//! `contract-pending.toml`: the cells of the contract that no test fills, with reasons: required later, or never.

use super::columns::Column;
use crate::outcome::{Context, Outcome, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;

/// The file.
pub const FILE: &str = "contract-pending.toml";

/// The requirement for a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Required {
    /// A passing test.
    #[default]
    Now,
    /// Nothing yet.
    Later {
        /// Tests already show a part of it.
        partly: bool,
    },
    /// Nothing: the clause does not apply.
    Never,
}

/// Some open cells, for one reason.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The clauses.
    pub clauses: Vec<String>,
    /// The columns as named in the file.
    pub columns: Vec<String>,
    /// The reason.
    pub reason: String,
    #[serde(default)]
    partly: bool,
    /// The requirement, by the list of the entry.
    #[serde(skip)]
    pub required: Required,
}

/// The two lists of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    #[serde(default)]
    pending: Vec<Entry>,
    #[serde(default)]
    inapplicable: Vec<Entry>,
}

/// The whole file.
#[derive(Debug, Default)]
pub struct Pending {
    /// In the file's order.
    pub entries: Vec<Entry>,
    cells: BTreeMap<(String, Column), Required>,
}

impl Pending {
    /// Reads it from the repository.
    pub fn read() -> Outcome<Pending> {
        let text = fs::read_to_string(crate::root().join(FILE)).context(|| format!("cannot read {FILE}"))?;
        Pending::parse(&text).context(|| FILE)
    }

    /// Parses the file.
    pub fn parse(text: &str) -> Outcome<Pending> {
        let lists: Lists = toml::from_str(text).context(|| "it cannot be read")?;
        let mut pending = Pending::default();
        for entry in lists.pending {
            pending.add(Entry { required: Required::Later { partly: entry.partly }, ..entry })?;
        }
        for entry in lists.inapplicable {
            if entry.partly {
                bail!("what does not apply is not shown partly, either");
            }
            pending.add(Entry { required: Required::Never, ..entry })?;
        }
        Ok(pending)
    }

    /// The requirement for this cell.
    pub fn required(&self, clause: &str, column: Column) -> Required {
        self.cells.get(&(clause.to_owned(), column)).copied().unwrap_or(Required::Now)
    }

    fn add(&mut self, entry: Entry) -> Outcome<()> {
        if entry.clauses.is_empty() || entry.columns.is_empty() || entry.reason.is_empty() {
            bail!("an entry needs clauses, columns and a reason; one has {:?} and {:?}", entry.clauses, entry.columns);
        }
        for clause in &entry.clauses {
            for name in &entry.columns {
                for column in Column::named(name)? {
                    if self.cells.insert((clause.clone(), column), entry.required).is_some() {
                        bail!("{clause} in {} is there twice", column.name());
                    }
                }
            }
        }
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_owed_now_unless_the_file_says_otherwise() {
        let text = "[[pending]]\nclauses = ['GCH-01', 'ELT-02']\ncolumns = ['clr', 'rem']\nreason = 'a'\n\
            [[pending]]\nclauses = ['ATT-13']\ncolumns = ['clr 8']\nreason = 'b'\npartly = true\n\
            [[inapplicable]]\nclauses = ['ATT-21']\ncolumns = ['rem']\nreason = 'c'\n";
        let pending = Pending::parse(text).unwrap();
        assert_eq!(pending.entries.len(), 3);
        assert_eq!(pending.required("GCH-01", Column::Clr10), Required::Later { partly: false });
        assert_eq!(pending.required("GCH-01", Column::Sim), Required::Now);
        assert_eq!(pending.required("ATT-13", Column::Clr8), Required::Later { partly: true });
        assert_eq!(pending.required("ATT-13", Column::Clr9), Required::Now);
        assert_eq!(pending.required("ATT-21", Column::Rem), Required::Never);
    }

    #[track_caller]
    fn check_fault(text: &str, words: &str) {
        let fault = Pending::parse(text).unwrap_err().to_string();
        assert!(fault.contains(words), "`{words}` is not in `{fault}`");
    }

    #[test]
    fn what_is_wrong_in_the_file_is_said() {
        let good = "clauses = ['GCH-01']\ncolumns = ['clr']\nreason = 'a'\n";
        check_fault("[[pending]\n", "cannot be read");
        check_fault("pending = 3\n", "invalid type");
        check_fault(&format!("[[pendig]]\n{good}"), "unknown field `pendig`");
        check_fault(&format!("[[pending]]\n{good}when = 'soon'\n"), "unknown field `when`");
        check_fault(&format!("[[inapplicable]]\n{good}partly = true\n"), "partly");
        check_fault("[[pending]]\nclauses = ['GCH-01']\ncolumns = ['clr']\n", "missing field `reason`");
        check_fault(&format!("[[pending]]\n{}", good.replace("'GCH-01'", "")), "needs clauses");
        check_fault(&format!("[[pending]]\n{}", good.replace("clr", "clr 7")), "no column `clr 7`");
        let twice = format!("[[pending]]\n{good}[[inapplicable]]\n{}", good.replace("'clr'", "'clr 9'"));
        check_fault(&twice, "GCH-01 in clr 9 is there twice");
    }
}
