//! Durations as people type them: `30s`, `5m`, `1h30m`, and `dd:hh:mm:ss` of other tools.
//!
//! A bare number is refused: one tool means seconds, another days.

use std::time::Duration;

/// Longest recording.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// The time of a recording, or why it is invalid.
pub fn parse(text: &str) -> Result<Duration, String> {
    let duration = any(text)?;
    if duration > LONGEST { Err("a recording may last 31 days at most".to_owned()) } else { Ok(duration) }
}

/// Parses `text`, or explains why it is invalid. However long it is: the limit is the caller's.
pub fn any(text: &str) -> Result<Duration, String> {
    let seconds = if text.contains(':') { clock(text) } else { units(text) };
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("a number needs a unit: {text}s or {text}m"))
        }
        None if text.contains(['.', ',']) => {
            Err("write whole numbers: 1s500ms for a second and a half, 30s, 5m, 1h30m, or dd:hh:mm:ss".to_owned())
        }
        None => Err("write it as 30s, 5m, 1h30m, or dd:hh:mm:ss".to_owned()),
        Some(Duration::ZERO) => Err("it must last longer than nothing".to_owned()),
        Some(duration) => Ok(duration),
    }
}

/// `hh:mm:ss` or `dd:hh:mm:ss`.
fn clock(text: &str) -> Option<f64> {
    let parts: Vec<u32> = text.split(':').map(whole).collect::<Option<_>>()?;
    let (days, hours, minutes, seconds) = match parts[..] {
        [hours, minutes, seconds] => (0, hours, minutes, seconds),
        [days, hours, minutes, seconds] => (days, hours, minutes, seconds),
        _ => return None,
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(f64::from(days) * 86_400.0 + f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + f64::from(seconds))
}

/// Numbers with units, largest unit first, each at most once.
fn units(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] =
        [("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001), ("us", 0.000_001)];
    let (mut rest, mut total, mut next) = (text, 0.0, 0);
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let number = whole(&rest[..digits])?;
        let unit_end = rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let place = UNITS.iter().position(|(unit, _)| *unit == &rest[digits..unit_end])?;
        if place < next {
            return None;
        }
        next = place + 1;
        total += f64::from(number) * UNITS[place].1;
        rest = &rest[unit_end..];
    }
    (next > 0).then_some(total)
}

fn whole(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A duration for people: `1h 02m 03s`, `12.3 s`, `4.5 ms`.
pub fn show(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    let whole = nanoseconds / 1_000_000_000;
    match nanoseconds {
        0 => "0".to_owned(),
        1..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        _ if whole < 60 => format!("{seconds:.1} s"),
        _ if whole < 3600 => format!("{}m {:02}s", whole / 60, whole % 60),
        _ => format!("{}h {:02}m {:02}s", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// The same, with nanoseconds where they matter: `840 ns`, `2.4 µs`.
pub fn show_short(nanoseconds: u64) -> String {
    match nanoseconds {
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..10_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        _ => show(nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_mean_what_people_mean() {
        let cases = [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d2h", 93_600_000),
            ("250ms", 250),
            ("1s0us", 1_000),
            ("2m0s500ms", 120_500),
            ("00:00:00:30", 30_000),
            ("00:01:05", 65_000),
            ("1:02:03:04", 93_784_000),
            ("31d", 2_678_400_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_absurd_is_refused() {
        for text in [
            "",
            "s",
            "0s",
            "00:00:00",
            "-5s",
            "+5s",
            "5 s",
            "5x",
            "1m1h",
            "1s1s",
            "1.5s",
            "32d",
            "24:00:00",
            "5:3",
            "1::2",
            "99999999999s",
            "1h30",
            "é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let fraction = parse("1.5s").expect_err("it is refused");
        assert!(fraction.contains("1s500ms") && parse("1s500ms").is_ok(), "{fraction}");
        assert_eq!(parse("30"), Err("a number needs a unit: 30s or 30m".to_owned()));
    }

    #[test]
    fn durations_are_shown_for_people() {
        let shown: Vec<String> =
            [0, 900, 4_500_000, 12_345_000_000, 83_000_000_000, 3_723_000_000_000].map(show).into();
        assert_eq!(shown, ["0", "1 µs", "4.5 ms", "12.3 s", "1m 23s", "1h 02m 03s"]);
        assert_eq!([0, 7, 999, 2_449, 10_000].map(show_short), ["0", "7 ns", "999 ns", "2.4 µs", "10 µs"]);
    }
}
