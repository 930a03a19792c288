//! The table of results: as text for a terminal, as Markdown for the documentation, and as JSON.
//!
//! A missed bar is only shown: a number from a busy machine must not fail anything.

use comfy_table::presets::ASCII_HORIZONTAL_ONLY;
use comfy_table::{ColumnConstraint, ContentArrangement, Width};
use serde::Serialize;
use serde_json::{Value, json};

/// The start marker of the generated part in a Markdown file.
const BEGIN: &str = "<!-- bench: begin -->";
/// Its end marker.
const END: &str = "<!-- bench: end -->";

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The measured quantity.
    pub what: String,
    /// The result as text.
    pub measured: String,
    /// The result of the runtime's own sampler on the same target in the same run; empty where that has no meaning.
    pub peer: String,
    /// The bar; empty where there is none.
    pub bar: String,
    /// Whether the bar was met; `None` without a bar, or with too few measurements.
    pub met: Option<bool>,
    /// The raw numbers.
    pub numbers: Value,
}

impl Row {
    /// A result without a bar.
    pub fn shown(what: &str, measured: String) -> Row {
        let what = what.to_owned();
        Row { what, measured, peer: String::new(), bar: String::new(), met: None, numbers: Value::Null }
    }

    /// Adds a bar; `None` if there are too few measurements for a verdict.
    pub fn against(self, bar: &str, met: impl Into<Option<bool>>) -> Row {
        Row { bar: bar.to_owned(), met: met.into(), ..self }
    }

    /// Adds the peer's result.
    pub fn beside(self, peer: String) -> Row {
        Row { peer, ..self }
    }

    /// Adds the raw numbers.
    pub fn numbers(self, numbers: Value) -> Row {
        Row { numbers, ..self }
    }

    fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None if self.bar.is_empty() => "",
            None => "not judged",
        }
    }

    fn cells(&self) -> [&str; 5] {
        [&self.what, &self.measured, &self.peer, &self.bar, self.verdict()]
    }
}

/// All results of a run.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Machine, runtime and arguments, one fact a line.
    pub head: Vec<String>,
    /// The results.
    pub rows: Vec<Row>,
}

const TITLES: [&str; 5] = ["what", "Remora", "the runtime's own sampler", "bar", ""];
/// Maximum width of each text column, and of the table.
const WIDEST: [u16; 5] = [38, 46, 42, 28, 12];
const WIDTH: u16 = 168;

impl Table {
    /// The table as text.
    pub fn text(&self) -> String {
        let mut text = self.head.join("\n") + "\n\n";
        let mut table = comfy_table::Table::new();
        table.load_style(ASCII_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        table.set_header(TITLES).add_rows(self.rows.iter().map(Row::cells));
        for (column, most) in table.column_iter_mut().zip(WIDEST) {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(most)));
        }
        text.extend(table.lines().map(|line| format!("{}\n", line.trim_end())));
        text
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: [&str; 5]| format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        let mut text = self.head.iter().map(|fact| format!("- {fact}\n")).collect::<String>() + "\n";
        text += &line(TITLES);
        text += "|---|---|---|---|---|\n";
        text.extend(self.rows.iter().map(|row| line(row.cells())));
        text
    }

    /// `document` with everything between the two markers replaced by the table; `None` if they are not there.
    pub fn written_into(&self, document: &str) -> Option<String> {
        let (before, rest) = document.split_once(BEGIN)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n{}{END}{after}", self.markdown()))
    }

    /// The table as JSON.
    pub fn json(&self) -> Value {
        json!({ "run": self.head, "rows": self.rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row =
            Row::shown("detach request to unmapped", "301 ms, one that was long: 340 ms, of twenty in all".into());
        let rows = vec![row.clone().against("320 ms or less", true), row.beside("a | b".into())];
        Table { head: vec![".NET 8.0.4".into()], rows }
    }

    #[test]
    fn columns_stand_below_one_another_and_long_cells_are_broken() {
        let text = table().text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], ".NET 8.0.4");
        let line = |words: &str| *lines.iter().find(|line| line.contains(words)).unwrap_or(&"");
        let column = line("Remora").find("Remora");
        assert!(column.is_some(), "{text}");
        assert_eq!((line("301 ms").find("301 ms"), line("in all").find("in all")), (column, column), "{text}");
        assert!(line("301 ms").ends_with("met"), "{text}");
        assert!(lines.iter().all(|line| !line.ends_with(' ') && line.chars().count() < 170), "{text}");
    }

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let written = table().written_into(&document).unwrap();
        assert!(written.starts_with("before\n"), "{written}");
        assert!(written.ends_with("\nafter\n"), "{written}");
        assert!(!written.contains("old") && written.contains("| met |") && written.contains("a \\| b"), "{written}");
        assert_eq!(table().written_into(&written).unwrap(), written);
        assert_eq!(table().written_into("no marker"), None);
    }
}
