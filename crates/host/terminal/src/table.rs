//! Columns of text, as wide as their content.
//!
//! If that exceeds the terminal's width, text columns share the space that number columns leave, and their cells are cut in the middle
//! ([`cut`]).
//! If the shares are too small to read, the last column moves to lines of its own, if its table allows it.

mod cut;

pub use cut::beginning;

use crate::{Page, grouped, line, plain};
use cut::{ADDRESS_FLOOR, FLOOR, has_address, shortened};
use std::io::IsTerminal;
use textwrap::core::display_width;

/// Characters in which most names are recognizable. With less, a column moves to lines of its own, if allowed.
const READABLE: usize = 36;
/// Maximum padding in a column: one very long name must not widen all other rows.
const WIDEST: usize = 128;
/// Characters between two columns.
const GAP: usize = 2;
/// Characters that a last cell below the others has at least, if the terminal has them.
const ROOM_BELOW: usize = 40;

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Escaped cells.
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
    last_may_go_below: bool,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()],
            right: vec![false; headings.len()],
            last_may_go_below: false,
        }
    }

    /// Aligns a column right, for numbers; it is never cut.
    pub fn align_right(&mut self, column: usize) {
        self.right[column] = true;
    }

    /// Allows the last column to move to lines of its own.
    pub fn let_last_go_below(&mut self) {
        self.last_may_go_below = true;
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    /// Adds the row of `count` others that are not shown: their numbers together, and `7 more` in a column behind these, with a hint. Nothing
    /// if there are none.
    pub fn more(&mut self, count: usize, together: impl IntoIterator<Item = String>, (column, hint): (usize, &str)) {
        if count == 0 {
            return;
        }
        let mut cells: Vec<String> = together.into_iter().collect();
        cells.resize(self.right.len(), String::new());
        cells[column] = format!("{} more{hint}", grouped(count as u64));
        self.row(cells);
    }

    /// The text, for standard output.
    pub fn render(&self) -> Page {
        let width = match std::io::stdout().is_terminal() {
            true => rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col)),
            false => None,
        };
        self.rendered(width.filter(|width| *width > 0))
    }

    /// The text for lines of `edge` characters, or for lines of any length.
    pub fn rendered(&self, edge: Option<usize>) -> Page {
        let columns = self.right.len();
        let Some(edge) = edge else { return self.lines(&self.natural(columns)) };
        let beside = self.fitted(columns, edge);
        let is_readable = |(width, natural): (&usize, &usize)| *width >= READABLE.min(*natural);
        if !self.last_may_go_below || beside.iter().zip(&self.natural(columns)).all(is_readable) {
            return self.lines(&beside);
        }
        let above = self.fitted(columns - 1, edge);
        let numbers: usize =
            (0..columns).take_while(|column| self.right[*column]).map(|column| above[column] + GAP).sum();
        // Behind many numbers there would be room for the end of a name only.
        let indent = if edge.saturating_sub(numbers) < ROOM_BELOW { GAP } else { numbers };
        self.lines_with_below(&above, indent, edge)
    }

    /// Column widths without cutting.
    fn natural(&self, columns: usize) -> Vec<usize> {
        (0..columns).map(|column| self.rows.iter().map(|row| display_width(&row[column])).max().unwrap_or(0)).collect()
    }

    /// Column widths for a terminal. No text column is less than its readable minimum, even if the table gets too wide.
    fn fitted(&self, columns: usize, edge: usize) -> Vec<usize> {
        let mut widths = self.natural(columns);
        let numbers: usize = (0..columns).filter(|column| self.right[*column]).map(|column| widths[column]).sum();
        let mut room = edge.saturating_sub(numbers + GAP * columns.saturating_sub(1));
        let mut texts: Vec<usize> = (0..columns).filter(|column| !self.right[*column]).collect();
        // A column that needs less than an equal share leaves the rest to the others.
        texts.sort_by_key(|column| widths[*column]);
        for (place, column) in texts.iter().enumerate() {
            let share = room / (texts.len() - place);
            widths[*column] = widths[*column].min(share.max(self.floor(*column)));
            room = room.saturating_sub(widths[*column]);
        }
        widths
    }

    fn floor(&self, column: usize) -> usize {
        if self.rows.iter().any(|row| has_address(&row[column])) { ADDRESS_FLOOR } else { FLOOR }
    }

    fn lines(&self, widths: &[usize]) -> Page {
        self.rows.iter().map(|row| self.line(row, widths)).sum()
    }

    fn lines_with_below(&self, widths: &[usize], indent: usize, edge: usize) -> Page {
        let mut text = Page::default();
        for row in &self.rows {
            text += self.line(row, widths);
            let last = &row[widths.len()];
            if !last.is_empty() {
                let room = edge.saturating_sub(indent).max(ADDRESS_FLOOR);
                text += line(format!("{:indent$}{}", "", shortened(last, room)));
            }
        }
        text
    }

    fn line(&self, row: &[String], widths: &[usize]) -> Page {
        let mut cells = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = shortened(cell, *width);
            // `{cell:<width$}` panics where a width has more than 16 bits.
            let padding = " ".repeat((*width).min(WIDEST).saturating_sub(display_width(&cell)));
            let (before, behind) = if self.right[column] { (&*padding, "") } else { ("", &*padding) };
            cells.extend([before, &cell, behind, "  "]);
        }
        line(cells.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_not_shown_are_one_with_their_sums() {
        let mut table = Table::new(&["time", "", "method"]);
        table.align_right(0);
        table.row(["1 s", "", "Total"].map(String::from));
        table.more(0, [], (2, ""));
        table.more(1234, ["70 ms".to_owned()], (2, ""));
        assert_eq!(&*table.rendered(None), " time    method\n  1 s    Total\n70 ms    1,234 more\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown_and_widens_no_other_row_by_as_much() {
        let mut table = Table::new(&["name", "command line"]);
        let long = "n".repeat(1 << 20);
        table.row([long.clone(), long.clone()]);
        table.row(["b", "c"].map(String::from));
        let text = table.rendered(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}  {long}"));
        assert!(lines[2].len() < 200 && lines[2].ends_with(" c"), "{} bytes", lines[2].len());
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["pid", "name", "command line"]);
        table.align_right(0);
        table.row(["7", "Größe", "dotnet exec x.dll"].map(String::from));
        table.row(["12345", "a", ""].map(String::from));
        expect_test::expect![[r"
              pid  name   command line
                7  Größe  dotnet exec x.dll
            12345  a
        "]]
        .assert_eq(&table.rendered(None));
        assert_eq!(table.rendered(Some(31)), table.rendered(None), "it just fits");
        assert_eq!(table.rendered(Some(30)).lines().nth(1), Some("    7  Größe  dotne…exec x.dll"));
    }

    #[test]
    fn a_row_in_a_wide_script_was_wider_than_the_terminal() {
        let mut table = Table::new(&["time", "application method", "line"]);
        table.align_right(0);
        table.row(["1.2 s", "注文サービス.倉庫.出荷を計算する", "倉庫.cs:42"].map(String::from));
        table.row(["9 ms", "Orders.Price", "Orders.cs:7"].map(String::from));
        for width in [40, 60, 80] {
            let text = table.rendered(Some(width));
            assert!(text.lines().all(|line| display_width(line) <= width), "{text}");
        }
        let text = table.rendered(None);
        let column = |line: &str, word: &str| line.find(word).map(|at| display_width(&line[..at]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(column(lines[1], "倉庫.cs"), column(lines[2], "Orders.cs"), "{text}");
    }

    fn holders() -> Table {
        let mut table = Table::new(&["retained", "", "own", "objects kept", "object", "held by"]);
        (0..4).for_each(|column| table.align_right(column));
        table.let_last_go_below();
        table.row(
            [
                "1.20 MiB",
                "98.2%",
                "24 B",
                "1,234,567",
                "System.Collections.Generic.Dictionary<string, Contoso.Shop.Session> (at 0x7f485205cfc8)",
                "static Contoso.Shop.Caching.Pages.PageCache.entries",
            ]
            .map(String::from),
        );
        table.row(["9 B", "0.1%", "9 B", "1", "Contoso.Shop.Stock (at 0x7f485205cfc8)", ""].map(String::from));
        table
    }

    #[test]
    fn a_terminal_takes_nothing_of_numbers_and_addresses_and_leaves_the_ends_of_names() {
        expect_test::expect![[r#"
            retained          own  objects kept  object
                                                 held by
            1.20 MiB  98.2%  24 B     1,234,567  System.…o.Shop.Session> (at 0x7f485205cfc8)
                                                 static Contoso…hing.Pages.PageCache.entries
                 9 B   0.1%   9 B             1  Contoso.Shop.Stock (at 0x7f485205cfc8)
        "#]]
        .assert_eq(&holders().rendered(Some(80)));
        expect_test::expect![[r#"
            retained          own  objects kept  object                                     held by
            1.20 MiB  98.2%  24 B     1,234,567  System….Shop.Session> (at 0x7f485205cfc8)  static Contos…ng.Pages.PageCache.entries
                 9 B   0.1%   9 B             1  Contoso.Shop.Stock (at 0x7f485205cfc8)
        "#]].assert_eq(&holders().rendered(Some(120)));
        for width in [80, 100, 120, 160] {
            let text = holders().rendered(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert_eq!(text.matches("(at 0x7f485205cfc8)").count(), 2, "{text}");
            assert!(text.contains("static ") && text.contains("PageCache.entries"), "{text}");
        }
    }

    #[test]
    fn a_terminal_that_is_too_narrow_for_all_of_it_gets_longer_lines() {
        let text = holders().rendered(Some(30));
        assert!(text.contains("1,234,567") && text.contains("(at 0x7f485205cfc8)"), "{text}");
    }

    #[test]
    fn who_needs_less_than_a_share_leaves_the_rest_to_the_others() {
        let mut table = Table::new(&["of type", "to", "for example"]);
        table.row(["Contoso.Shop.PriceWidget", &"X".repeat(60), "@0x7f485205cfc8"].map(String::from));
        let text = table.rendered(Some(80));
        assert!(text.contains("Contoso.Shop.PriceWidget") && text.contains("@0x7f485205cfc8"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
