//! Addresses as people and tools write them: `0x7f0012345678`, `@7f0012345678`, `@139637976741496`.

/// The part of `text` that is an address: text after `@`, or text with `0x`. `None` if `text` is a name.
pub fn asked_address(text: &str) -> Option<&str> {
    let is_marked = text.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case("0x"));
    text.strip_prefix('@').or(is_marked.then_some(text))
}

/// The possible addresses, the likelier first: hexadecimal with `0x` and without.
/// Digits alone may also be decimal: JSON has decimal addresses. In a 64-bit process the two are far apart, so at most one is an object's.
pub fn addresses(text: &str) -> Vec<u64> {
    // Neither parser may accept a sign.
    let parsed = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => parsed(digits, 16).into_iter().collect(),
        None => [parsed(text, 16), parsed(text, 10)].into_iter().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_distinguished_from_a_name_by_how_it_begins() {
        for (text, asked) in
            [("@x", Some("x")), ("0x7f", Some("0x7f")), ("0X7F", Some("0X7F")), ("7f", None), ("é", None)]
        {
            assert_eq!(asked_address(text), asked);
        }
    }

    #[test]
    fn digits_alone_may_be_meant_either_way() {
        let cases: [(&str, &[u64]); 8] = [
            ("0x10", &[16]),
            ("0X10", &[16]),
            ("ff", &[255]),
            ("10", &[16, 10]),
            ("18446744073709551615", &[u64::MAX]),
            ("", &[]),
            ("0x", &[]),
            ("+1", &[]),
        ];
        for (text, meant) in cases {
            assert_eq!(addresses(text), meant, "{text}");
        }
    }
}
