//! Where to cut a text that is too long: whole characters stay.

/// The end of the last whole character within the first `bytes` bytes of `text`. The standard library's own (`str::floor_char_boundary`) is
/// newer than the oldest Rust that builds this.
pub fn floor_char_boundary(text: &str, bytes: usize) -> usize {
    (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_left_out_unless_all_of_it_fits() {
        for (text, bytes, end) in [("", 0, 0), ("", 9, 0), ("a\u{e4}b", 2, 1), ("a\u{e4}b", 3, 3), ("a\u{e4}b", 9, 4)] {
            assert_eq!(floor_char_boundary(text, bytes), end, "{text} {bytes}");
        }
    }
}
