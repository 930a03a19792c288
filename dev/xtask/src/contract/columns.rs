//! The columns of the contract's upper tables, and the columns that a test file and a world fill.
//!
//! 6 has no column: it exists only in the model, as documented or assumed. 7 is in neither.

use crate::outcome::{Outcome, bail};

/// Where a clause is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// The model of the runtime.
    Sim,
    /// .NET Core 3.1.
    Clr3,
    /// .NET 8.
    Clr8,
    /// .NET 9.
    Clr9,
    /// .NET 10.
    Clr10,
    /// Remora itself.
    Rem,
}

/// The number of columns.
pub const COUNT: usize = 6;

/// All of them, in the order of the page.
pub const ALL: [Column; COUNT] = [Column::Sim, Column::Clr3, Column::Clr8, Column::Clr9, Column::Clr10, Column::Rem];

impl Column {
    /// The name in the table's header.
    pub fn name(self) -> &'static str {
        match self {
            Column::Sim => "sim",
            Column::Clr3 => "clr 3.1",
            Column::Clr8 => "clr 8",
            Column::Clr9 => "clr 9",
            Column::Clr10 => "clr 10",
            Column::Rem => "rem",
        }
    }

    /// Parses a column's name, or `clr` for all live runtimes.
    pub fn named(name: &str) -> Outcome<Vec<Column>> {
        let found: Vec<Column> =
            ALL.into_iter().filter(|column| column.name() == name || name == "clr" && column.is_live()).collect();
        if found.is_empty() {
            bail!("there is no column `{name}`: it is one of clr, {}", ALL.map(Column::name).join(", "));
        }
        Ok(found)
    }

    /// The column of a test's world: `sim desktop4`, `clr 8.0.4`. `None` for a runtime without a column.
    pub fn of_world(world: &str) -> Outcome<Option<Column>> {
        match world.split_once(' ') {
            // What a test of the model alone asserts, and what one of Remora does.
            None if world == "sim" => Ok(Some(Column::Sim)),
            None if world == "rem" => Ok(Some(Column::Rem)),
            Some(("sim", _)) => Ok(Some(Column::Sim)),
            Some(("clr", version)) => Ok(Column::of_version(version)),
            _ => bail!("`{world}` is no world: it is `sim` or `clr` with a version"),
        }
    }

    /// The column of a live runtime.
    pub fn of_version(version: &str) -> Option<Column> {
        let is_of = |column: &Column| {
            let own = column.name().strip_prefix("clr ");
            own.and_then(|own| version.strip_prefix(own)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        ALL.into_iter().find(is_of)
    }

    /// Whether this is a live runtime.
    pub fn is_live(self) -> bool {
        !matches!(self, Column::Sim | Column::Rem)
    }

    /// The column's name in assertions: all live runtimes have one.
    pub fn kind(self) -> &'static str {
        if self.is_live() { "clr" } else { self.name() }
    }

    /// Whether the tests of a file can fill this column.
    pub fn is_shown_by(self, file: &str) -> bool {
        match self {
            Column::Sim => is_of_the_model(file) || is_of_both_worlds(file),
            Column::Rem => is_of_remora(file),
            _ => file.starts_with("tests/e2e/tests/") || is_of_both_worlds(file),
        }
    }

    /// Whether the outcome of a test in this file fills the column; otherwise the test reports a result for each world.
    pub fn is_filled_by_whole(self, file: &str) -> bool {
        !self.is_live() && !is_of_both_worlds(file) && self.is_shown_by(file)
    }
}

/// The model's own tests, and those of the laboratory, which loads a library into the model.
fn is_of_the_model(file: &str) -> bool {
    file.starts_with("crates/model/clr-model/") || file == "crates/remora/tests/lab.rs"
}

/// Tests whose bodies run in the model and on live runtimes.
fn is_of_both_worlds(file: &str) -> bool {
    file.starts_with("tests/conformance/")
}

/// Tests of Remora, rather than of the runtimes or their model alone.
fn is_of_remora(file: &str) -> bool {
    let runs_the_agent = ["crates/model/clr-model/tests/explore.rs", "crates/remora/tests/lab.rs"].contains(&file);
    let asks_the_runtime = file.starts_with("tests/e2e/tests/runtime_") || is_of_both_worlds(file);
    runs_the_agent || !asks_the_runtime && !is_of_the_model(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(file: &str, shown: &[&str], by_whole: &[&str]) {
        let names = |shows: fn(Column, &str) -> bool| -> Vec<&str> {
            ALL.into_iter().filter(|column| shows(*column, file)).map(Column::name).collect()
        };
        assert_eq!(names(Column::is_shown_by), shown, "{file}");
        assert_eq!(names(Column::is_filled_by_whole), by_whole, "{file}");
    }

    #[test]
    fn each_file_speaks_for_its_columns() {
        let live = ["clr 3.1", "clr 8", "clr 9", "clr 10"];
        let live_and_remora = ["clr 3.1", "clr 8", "clr 9", "clr 10", "rem"];
        check_file("crates/model/clr-model/tests/attach.rs", &["sim"], &["sim"]);
        check_file("crates/model/clr-model/tests/explore.rs", &["sim", "rem"], &["sim", "rem"]);
        check_file("crates/remora/tests/lab.rs", &["sim", "rem"], &["sim", "rem"]);
        check_file("tests/e2e/tests/trigger/main.rs", &live_and_remora, &["rem"]);
        check_file("crates/target/corprof/src/mask.rs", &["rem"], &["rem"]);
        check_file("tests/e2e/tests/runtime_attach.rs", &live, &[]);
        check_file("tests/e2e/tests/receipt.rs", &live_and_remora, &["rem"]);
        let both = ["sim", "clr 3.1", "clr 8", "clr 9", "clr 10"];
        check_file("tests/conformance/tests/attach.rs", &both, &[]);
    }

    #[test]
    fn a_world_is_of_the_column_of_its_version() {
        let name = |world: &str| Column::of_world(world).map(|column| column.map(Column::name));
        for (world, column) in [
            ("sim desktop4", Some("sim")),
            ("sim 8", Some("sim")),
            ("clr 3.1.23", Some("clr 3.1")),
            ("clr 8.0.4", Some("clr 8")),
            ("clr 10.0.12", Some("clr 10")),
            ("clr 6.0.36", None),
            ("clr 3.0.3", None),
            ("clr 80.1", None),
            ("sim", Some("sim")),
            ("rem", Some("rem")),
        ] {
            assert_eq!(name(world).unwrap(), column, "{world}");
        }
        assert!(name("moon 1").unwrap_err().to_string().contains("`moon 1`"));
    }

    #[test]
    fn columns_are_named_one_by_one_or_all_live_ones_together() {
        assert_eq!(Column::named("clr 9").unwrap(), [Column::Clr9]);
        assert_eq!(Column::named("clr").unwrap().len(), 4);
        assert!(Column::named("clr 7").unwrap_err().to_string().contains("`clr 7`"));
    }
}
