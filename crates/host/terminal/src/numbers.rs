//! Numbers for people.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 sample`, `1,234 samples`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `part` of `whole` as `12.3%`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", part as f64 / whole as f64 * 100.0) }
}

/// A change with its sign, as `+1.50 GiB`; no change is `0`.
pub fn signed(number: i128, show: impl Fn(u64) -> String) -> String {
    let size = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    match number {
        0 => "0".to_owned(),
        1.. => format!("+{}", show(size)),
        _ => format!("-{}", show(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_its_sign() {
        assert_eq!([-1234, 0, 5].map(|number| signed(number, grouped)), ["-1,234", "0", "+5"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn one_thing_is_not_several() {
        let shown = [0, 1, 2000].map(|number| counted(number, "sample"));
        assert_eq!(shown, ["0 samples", "1 sample", "2,000 samples"]);
    }
}
