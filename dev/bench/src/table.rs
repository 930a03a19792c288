//! The table of results: as text for people at a terminal, as Markdown for the documentation, as JSON for programs.
//!
//! A bar that is not met is said and no more: a number from a busy machine must not fail anything.

use comfy_table::presets::ASCII_HORIZONTAL_ONLY;
use comfy_table::{ColumnConstraint, ContentArrangement, Width};
use serde::Serialize;
use serde_json::{Value, json};

/// What stands before the part of a Markdown file that is written here.
const BEGIN: &str = "<!-- bench: begin -->";
/// What stands behind it.
const END: &str = "<!-- bench: end -->";

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// What came out, for people.
    pub measured: String,
    /// What the runtime's own sampler gave on the same target in the same run; empty where that has no meaning.
    pub peer: String,
    /// What was to be reached; empty for what is shown only.
    pub bar: String,
    /// Whether it was reached; `None` where nothing was to be, or too little was measured to say.
    pub met: Option<bool>,
    /// The numbers behind it.
    pub numbers: Value,
}

impl Row {
    /// A result that is shown, beside no bar.
    pub fn shown(what: &str, measured: String) -> Row {
        let what = what.to_owned();
        Row { what, measured, peer: String::new(), bar: String::new(), met: None, numbers: Value::Null }
    }

    /// The same beside a bar; `None` if there was too little to judge by.
    pub fn against(self, bar: &str, met: impl Into<Option<bool>>) -> Row {
        Row { bar: bar.to_owned(), met: met.into(), ..self }
    }

    /// The same beside the peer's result.
    pub fn beside(self, peer: String) -> Row {
        Row { peer, ..self }
    }

    /// The same with the numbers behind it.
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
    /// Where, on what and with which arguments, one fact a line.
    pub head: Vec<String>,
    /// The results.
    pub rows: Vec<Row>,
}

const TITLES: [&str; 5] = ["what", "Remora", "the runtime's own sampler", "bar", ""];
/// The widest a column of the text may be, and all of it.
const WIDEST: [u16; 5] = [38, 46, 42, 28, 12];
const WIDTH: u16 = 168;

impl Table {
    /// For a terminal.
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

    /// For documentation.
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

    /// For programs.
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
