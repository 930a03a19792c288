//! Bytes, as people read them.

/// `1.5 GB`: three digits that count, of powers of 1,000.
pub(crate) fn shown(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn three_digits_count() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (123_456, "123 kB"),
            (999_499, "999 kB"),
            (999_501, "1.00 MB"),
            (1_500_000_000, "1.50 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(shown(bytes), text, "{bytes}");
        }
    }
}
