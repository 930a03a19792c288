//! Splits texts outside of their brackets: what a name or a list has in brackets stays whole.

/// Splits at each of `separators` that is in none of the brackets. A closing bracket without its opening one counts as text.
pub fn split_outside<'t>(text: &'t str, [open, close]: [&str; 2], separators: &[char]) -> Vec<&'t str> {
    let mut depth = 0usize;
    let separates = |letter| {
        if open.contains(letter) {
            depth += 1;
        } else if close.contains(letter) {
            depth = depth.saturating_sub(1);
        }
        depth == 0 && separators.contains(&letter)
    };
    text.split(separates).collect()
}

/// Where the dots outside of `<>` are, the last one first.
pub(crate) fn dots_outside(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut depth = 0i32;
    let is_dot = move |(_, byte): &(usize, u8)| {
        depth += i32::from(*byte == b'>') - i32::from(*byte == b'<');
        depth == 0 && *byte == b'.'
    };
    text.bytes().enumerate().rev().filter(is_dot).map(|(index, _)| index)
}
