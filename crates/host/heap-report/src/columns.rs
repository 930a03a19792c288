//! Tables of the first rows, and the line for omitted ones.

use remora_terminal::{Page, Table, counted, line};

/// The columns of a table: numbers first, then texts.
pub struct Columns<'a> {
    /// Headings of numbers.
    pub numbers: &'a [&'a str],
    /// Headings of texts.
    pub texts: &'a [&'a str],
}

impl Columns<'_> {
    /// A table of these rows.
    pub fn table<const N: usize>(&self, rows: impl Iterator<Item = [String; N]>) -> Table {
        let mut table = Table::new(&[self.numbers, self.texts].concat());
        (0..self.numbers.len()).for_each(|column| table.align_right(column));
        rows.for_each(|row| table.row(row));
        table
    }

    /// A table of the first `top` of these rows, and a line for the others.
    pub fn top<T, const N: usize>(&self, rows: &[T], top: usize, cells: impl FnMut(&T) -> [String; N]) -> Page {
        self.table(rows.iter().take(top).map(cells)).render() + more(rows.len(), top)
    }

    /// The same with a row for the others, which has their numbers together: empty where they have no sum.
    pub(crate) fn top_with_sums<T, const N: usize>(
        &self,
        rows: &[T],
        top: usize,
        cells: impl FnMut(&T) -> [String; N],
        together: impl FnOnce(&[T]) -> Vec<String>,
    ) -> Table {
        let (shown, others) = rows.split_at(top.min(rows.len()));
        let mut table = self.table(shown.iter().map(cells));
        if !others.is_empty() {
            table.more(others.len(), together(others), (self.numbers.len(), " (--top shows them)"));
        }
        table
    }
}

/// The sum of a number of rows.
pub(crate) fn sum<T>(rows: &[T], number: impl Fn(&T) -> u64) -> u64 {
    rows.iter().map(number).fold(0, u64::saturating_add)
}

/// The line for a table's or list's omitted rows.
pub(crate) fn more(count: usize, shown: usize) -> Page {
    match count.saturating_sub(shown) {
        0 => Page::default(),
        left => line(format!("and {} (--top shows more)", counted(left as u64, "other"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_and_nothing_is_said_of_nothing() {
        let lines = [(20, 20), (3, 20), (21, 20), (1_234_567, 0)].map(|(count, shown)| more(count, shown));
        assert_eq!(
            lines.each_ref().map(|line| &**line),
            ["", "", "and 1 other (--top shows more)\n", "and 1,234,567 others (--top shows more)\n"]
        );
    }
}
