//! Columns of text, as wide as what is in them; the last one is cut at the terminal's edge, and nowhere else.

use std::io::IsTerminal;

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// With these headings.
    pub(crate) fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()],
            right: vec![false; headings.len()],
        }
    }

    /// Numbers stand at the right of their column.
    pub(crate) fn align_right(&mut self, column: usize) {
        self.right[column] = true;
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, for standard output.
    pub(crate) fn render(&self) -> String {
        let width = match std::io::stdout().is_terminal() {
            true => rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col)),
            false => None,
        };
        self.rendered(width.filter(|width| *width > 0))
    }

    fn rendered(&self, edge: Option<usize>) -> String {
        let widths: Vec<usize> = (0..self.right.len())
            .map(|column| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                line += &if self.right[column] { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
            }
            let line = line.trim_end();
            match edge {
                Some(edge) if line.chars().count() > edge => text.extend(line.chars().take(edge - 1).chain(['…'])),
                _ => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["pid", "name", "command line"]);
        table.align_right(0);
        table.row(["7", "Größe", "dotnet x.dll"].map(String::from));
        table.row(["12345", "a", ""].map(String::from));
        expect_test::expect![[r"
              pid  name   command line
                7  Größe  dotnet x.dll
            12345  a
        "]]
        .assert_eq(&table.rendered(None));
        assert_eq!(table.rendered(Some(16)).lines().next(), Some("  pid  name   c…"));
    }
}
