//! Cuts a cell to its width: in the middle, since type names tell most at their ends. An address stays whole.

use textwrap::core::display_width;

/// Minimum width of a text column.
pub(super) const FLOOR: usize = 16;
/// Minimum width of a column with addresses: an address with a little of a name before it.
pub(super) const ADDRESS_FLOOR: usize = 26;

/// Marks an omission.
const LEFT_OUT: &str = "…";
/// Start of an address after a name.
const ADDRESS: &str = " (at 0x";

/// Whether the cell has an address, which is never cut.
pub(super) fn has_address(cell: &str) -> bool {
    address(cell).is_some()
}

/// The cell in at most `width` characters, but no less than its floor.
pub(super) fn shortened(cell: &str, width: usize) -> String {
    if display_width(cell) <= width {
        return cell.to_owned();
    }
    let Some((name, address, behind)) = address(cell) else { return cut(cell, width) };
    let room = width.saturating_sub(display_width(address));
    // The field of a reference: as much of it as leaves the name its half.
    let behind = cut(behind, room - room.min(display_width(name)).min(room.div_ceil(2)));
    cut(name, room.saturating_sub(display_width(&behind))) + address + &behind
}

/// The text before the address, the address, and the text after it.
fn address(cell: &str) -> Option<(&str, &str, &str)> {
    let begin = cell.find(ADDRESS)?;
    let end = begin + cell[begin..].find(')')? + 1;
    Some((&cell[..begin], &cell[begin..end], &cell[end..]))
}

/// Keeps a third of the width from the beginning, the rest from the end.
fn cut(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let begin = &text[..fitting(text.chars(), kept / 3)];
    let end = fitting(text.chars().rev(), kept - display_width(begin));
    [begin, LEFT_OUT, &text[text.len() - end..]].concat()
}

/// The beginning of `text` that fits into `width` columns.
pub fn beginning(text: &str, width: usize) -> &str {
    &text[..fitting(text.chars(), width)]
}

/// The bytes of the first characters that fit into `width` columns together.
fn fitting(letters: impl Iterator<Item = char>, width: usize) -> usize {
    let mut room = width;
    let fits = |letter: &char| {
        let left = room.checked_sub(display_width(letter.encode_utf8(&mut [0; 4])));
        left.inspect(|left| room = *left).is_some()
    };
    letters.take_while(fits).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cell_both_ends_stay_and_its_address() {
        let cases = [
            ("short", 12, "short"),
            ("static Contoso.Shop.Caching.PageCache.entries", 30, "static Co…ng.PageCache.entries"),
            ("Größe.Ähnlich.Überall", 13, "Größ….Überall"),
            ("Contoso.Shop.Session (at 0x7f485205cfc8)", 30, "Con…ession (at 0x7f485205cfc8)"),
            ("注文サービス.倉庫.出荷を計算する", 20, "注文サ…荷を計算する"),
            ("A (at 0x7f485205cfc8) by entries[5].value", 36, "A (at 0x7f485205cfc8) by …s[5].value"),
            ("Contoso.Shop.Session (at 0x7f485205cfc8) by items", 36, "Co…ssion (at 0x7f485205cfc8) b…items"),
        ];
        for (cell, width, shown) in cases {
            let cut = shortened(cell, width);
            assert_eq!(cut, shown, "{cell}");
            assert!(display_width(&cut) <= width, "{cut}");
        }
    }

    #[test]
    fn a_status_line_that_was_wider_than_its_terminal_left_a_line_behind() {
        let text = "3.0 s of 30.0 s  注文  0 lost";
        for (width, shown) in
            [(0, ""), (15, "3.0 s of 30.0 s"), (18, "3.0 s of 30.0 s  "), (19, "3.0 s of 30.0 s  注"), (80, text)]
        {
            assert_eq!(beginning(text, width), shown);
        }
    }
}
