//! The columns of the contract's upper tables, and the column that a world fills.
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
