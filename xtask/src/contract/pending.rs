//! `contract-pending.toml`: the cells of the contract that no test fills, and why: owed later, or not owed there at all.

use super::columns::Column;
use crate::outcome::{Context, Outcome, bail};
use std::collections::BTreeMap;
use std::fs;
use toml::{Table, Value};

/// Where that stands.
pub const FILE: &str = "contract-pending.toml";

/// What a cell is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// A test that passes.
    Now,
    /// Nothing yet.
    Later {
        /// Tests show a part of it already.
        partly: bool,
    },
    /// Nothing ever: the clause does not speak of that.
    Never,
}

/// Some cells that stand open for one reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The clauses.
    pub clauses: Vec<String>,
    /// The columns as the file names them.
    pub columns: Vec<String>,
    /// Why.
    pub reason: String,
    /// How.
    pub owed: Owed,
}

/// Everything that the file says.
#[derive(Debug, Default)]
pub struct Pending {
    /// In its order.
    pub entries: Vec<Entry>,
    cells: BTreeMap<(String, Column), Owed>,
}

impl Pending {
    /// From the repository.
    pub fn read() -> Outcome<Pending> {
        let text = fs::read_to_string(crate::root().join(FILE)).context(|| format!("cannot read {FILE}"))?;
        Pending::parse(&text).context(|| FILE)
    }

    /// From the text of the file.
    pub fn parse(text: &str) -> Outcome<Pending> {
        let table: Table = text.parse().context(|| "it is not TOML")?;
        let mut pending = Pending::default();
        for (kind, entries) in &table {
            let Some(entries) = entries.as_array() else { bail!("`{kind}` is not a list of [[{kind}]]") };
            for entry in entries.iter().filter_map(Value::as_table) {
                pending.add(entry_of(kind, entry)?)?;
            }
        }
        Ok(pending)
    }

    /// What this cell is asked for.
    pub fn owed(&self, clause: &str, column: Column) -> Owed {
        self.cells.get(&(clause.to_owned(), column)).copied().unwrap_or(Owed::Now)
    }

    fn add(&mut self, entry: Entry) -> Outcome<()> {
        for clause in &entry.clauses {
            for name in &entry.columns {
                for column in Column::named(name)? {
                    if self.cells.insert((clause.clone(), column), entry.owed).is_some() {
                        bail!("{clause} in {} stands there twice", column.name());
                    }
                }
            }
        }
        self.entries.push(entry);
        Ok(())
    }
}

fn entry_of(kind: &str, entry: &Table) -> Outcome<Entry> {
    let partly = entry.get("partly").and_then(Value::as_bool).unwrap_or(false);
    let owed = match (kind, partly) {
        ("pending", partly) => Owed::Later { partly },
        ("inapplicable", false) => Owed::Never,
        ("inapplicable", true) => bail!("what does not apply is not shown partly, either"),
        _ => bail!("there is [[pending]] and [[inapplicable]], and no `{kind}`"),
    };
    if let Some(key) = entry.keys().find(|key| !["clauses", "columns", "reason", "partly"].contains(&key.as_str())) {
        bail!("[[{kind}]] has clauses, columns, reason and partly, and no `{key}`");
    }
    let (clauses, columns) = (words(entry, "clauses"), words(entry, "columns"));
    let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    if clauses.is_empty() || columns.is_empty() || reason.is_empty() {
        bail!("[[{kind}]] needs clauses, columns and a reason; one has clauses {clauses:?} and columns {columns:?}");
    }
    Ok(Entry { clauses, columns, reason, owed })
}

fn words(entry: &Table, key: &str) -> Vec<String> {
    let list = entry.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
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
        assert_eq!(pending.owed("GCH-01", Column::Clr10), Owed::Later { partly: false });
        assert_eq!(pending.owed("GCH-01", Column::Sim), Owed::Now);
        assert_eq!(pending.owed("ATT-13", Column::Clr8), Owed::Later { partly: true });
        assert_eq!(pending.owed("ATT-13", Column::Clr9), Owed::Now);
        assert_eq!(pending.owed("ATT-21", Column::Rem), Owed::Never);
    }

    #[track_caller]
    fn check_fault(text: &str, words: &str) {
        let fault = Pending::parse(text).unwrap_err().to_string();
        assert!(fault.contains(words), "`{words}` is not in `{fault}`");
    }

    #[test]
    fn what_is_wrong_in_the_file_is_said() {
        let good = "clauses = ['GCH-01']\ncolumns = ['clr']\nreason = 'a'\n";
        check_fault("[[pending]\n", "not TOML");
        check_fault("pending = 3\n", "not a list");
        check_fault(&format!("[[pendig]]\n{good}"), "no `pendig`");
        check_fault(&format!("[[pending]]\n{good}when = 'soon'\n"), "no `when`");
        check_fault(&format!("[[inapplicable]]\n{good}partly = true\n"), "partly");
        check_fault("[[pending]]\nclauses = ['GCH-01']\ncolumns = ['clr']\n", "a reason");
        check_fault(&format!("[[pending]]\n{}", good.replace("clr", "clr 7")), "no column `clr 7`");
        let twice = format!("[[pending]]\n{good}[[inapplicable]]\n{}", good.replace("'clr'", "'clr 9'"));
        check_fault(&twice, "GCH-01 in clr 9 stands there twice");
    }
}
