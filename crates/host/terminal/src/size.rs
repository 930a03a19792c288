//! Sizes in bytes, as people read and write them.

/// Units, each 1,024 of the one before.
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `1.5 GiB`: three significant digits, powers of 1,024.
pub fn shown(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 1023.5 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// Parses `text`: `1GiB` and `1073741824` are the same, `1GB` is a thousand million.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad = || "write it as 500MB, 1GiB, or a number of bytes".to_owned();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    number
        .checked_mul(factor(unit.trim()).ok_or_else(bad)?)
        .ok_or_else(|| format!("{text} is more than can be counted"))
}

/// Bytes of a unit.
fn factor(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit == "B" {
        return Some(1);
    }
    let power = |exponent: usize| exponent as u32 + 1;
    let binary = UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit));
    let decimal = || {
        let is_it = |known: &&str| {
            unit.len() == 2 && unit.get(..1).is_some_and(|letter| known[..1].eq_ignore_ascii_case(letter))
        };
        UNITS.iter().position(is_it).filter(|_| unit.ends_with(['B', 'b']))
    };
    binary.map(|at| 1 << (10 * power(at))).or_else(|| decimal().map(|at| 1000_u64.pow(power(at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_229, "9.99 KiB"),
            (10_240, "10.0 KiB"),
            (123_456, "121 KiB"),
            (1_048_000, "1023 KiB"),
            (1_048_500, "1.00 MiB"),
            (1_500_000_000, "1.40 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(shown(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_are_read_with_units_of_either_kind() {
        let cases = [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("1KiB", 1024),
            ("2kB", 2000),
            ("500MB", 500_000_000),
            ("1 GiB", 1 << 30),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1XB", "1G", "16EiB", "99999999999999999999", "1KéB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
