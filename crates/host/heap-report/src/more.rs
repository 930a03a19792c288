//! The line for omitted rows.

use remora_terminal::{Page, counted, line};

/// The line for a table's or list's omitted rows.
pub fn more(count: usize, shown: usize) -> Page {
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
