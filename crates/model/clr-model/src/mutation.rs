//! Breaks the model on purpose, one behaviour at a time. A clause's test that does not notice its broken behaviour proves nothing.
//!
//! `cargo xtask contract --mutate` breaks each in turn, and runs the tests with the clause's number. Without the feature `mutations`, every
//! switch is a constant: shipped code must not contain any.

/// Each line: the switch, a tab, and the broken behaviour. A clause with several parts has several switches: `DET-06/2`.
#[cfg(any(test, feature = "mutations"))]
const LIST: &str = include_str!("../mutations.tsv");

/// All switch names.
#[cfg(any(test, feature = "mutations"))]
fn names() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter_map(|line| Some(line.split_once('\t')?.0))
}

/// The variable with the active switch of a test run.
#[cfg(feature = "mutations")]
const VARIABLE: &str = "CLR_SIM_MUTATION";

/// Whether this switch is active.
#[cfg(feature = "mutations")]
pub(crate) fn is(name: &'static str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(chosen).as_deref() == Some(name)
}

/// A name outside the list would break nothing, and every test would pass.
#[cfg(feature = "mutations")]
fn chosen() -> Option<String> {
    let chosen = std::env::var(VARIABLE).ok();
    let is_known = chosen.as_ref().is_none_or(|name| names().any(|known| known == name));
    assert!(is_known, "{VARIABLE} says {chosen:?}, which is in no row of the list");
    chosen
}

/// Without the feature, no switch is active.
#[cfg(not(feature = "mutations"))]
pub(crate) const fn is(_name: &'static str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::{LIST, names};
    use std::collections::BTreeSet;
    use std::path::Path;

    fn read(path: impl AsRef<Path>) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is there")
    }

    /// Ids of clauses that the model must show: their row has `x` in the third cell.
    fn shown(page: &str) -> BTreeSet<&str> {
        let upper = page.split("<!-- tests: begin -->").next().unwrap_or_default();
        let rows = upper.lines().filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let (id, _, sim) = (cells.next()?, cells.next()?, cells.next()?);
            let is_clause = id.split_once('-').is_some_and(|(_, number)| number.parse::<u32>().is_ok());
            (is_clause && sim == "x").then_some(id)
        });
        rows.collect()
    }

    #[test]
    fn every_clause_that_the_model_shows_can_be_broken_and_no_other() {
        let page = read("../../../docs/authors/contract.md");
        let clauses: BTreeSet<&str> = names().filter_map(|name| name.split('/').next()).collect();
        assert_eq!(clauses, shown(&page));
    }

    /// All Rust files below a folder, as one text.
    fn source(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let text = |path: std::path::PathBuf| if path.is_dir() { source(&path) } else { read(path) };
        entries.map(text).collect()
    }

    #[test]
    fn every_row_has_its_switch_in_the_model_and_every_switch_its_row() {
        let source = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let switches = source.split("mutation::is(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let rows: BTreeSet<&str> = names().collect();
        assert_eq!(rows.len(), LIST.lines().count(), "a name is there twice, or a line has no tab");
        assert_eq!(switches.collect::<BTreeSet<_>>(), rows);
    }
}
