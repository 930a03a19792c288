//! A cell in less room than it needs: cut in the middle, since names of types tell most at their ends. An address stays whole.

/// No column of text becomes narrower than this.
pub(super) const FLOOR: usize = 16;
/// And none with addresses narrower than one with a little of a name before it.
pub(super) const ADDRESS_FLOOR: usize = 26;

/// What stands where something is left out.
const LEFT_OUT: char = '…';
/// How an address begins behind a name.
const ADDRESS: &str = " (at 0x";

/// Whether an address stands in it, which is never cut.
pub(super) fn has_address(cell: &str) -> bool {
    address(cell).is_some()
}

/// In so many characters at most, if that is no less than its floor.
pub(super) fn shortened(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let Some((name, address, behind)) = address(cell) else { return cut(cell, width) };
    let room = width.saturating_sub(address.chars().count());
    // By which field it refers to another: as much of it as leaves the name its half.
    let behind = cut(behind, room - room.min(name.chars().count()).min(room.div_ceil(2)));
    cut(name, room.saturating_sub(behind.chars().count())) + address + &behind
}

/// What is before the address, the address, and what is behind it.
fn address(cell: &str) -> Option<(&str, &str, &str)> {
    let begin = cell.find(ADDRESS)?;
    let end = begin + cell[begin..].find(')')? + 1;
    Some((&cell[..begin], &cell[begin..end], &cell[end..]))
}

/// A third of the room is for its beginning, the rest for its end.
fn cut(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else { return String::new() };
    let begin = kept / 3;
    let end = text.chars().skip(count - (kept - begin));
    text.chars().take(begin).chain([LEFT_OUT]).chain(end).collect()
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
            ("A (at 0x7f485205cfc8) by entries[5].value", 36, "A (at 0x7f485205cfc8) by …s[5].value"),
            ("Contoso.Shop.Session (at 0x7f485205cfc8) by items", 36, "Co…ssion (at 0x7f485205cfc8) b…items"),
        ];
        for (cell, width, shown) in cases {
            let told = shortened(cell, width);
            assert_eq!(told, shown, "{cell}");
            assert!(told.chars().count() <= width, "{told}");
        }
    }
}
