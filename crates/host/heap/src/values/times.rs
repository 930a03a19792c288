//! Types of namespace `System` whose raw fields say little: times, time spans, decimals, GUIDs.
//! Their representation is the same from 3.1 to 10 (`DateTime.cs`, `TimeSpan.cs`, `Decimal.cs`, `Guid.cs` of System.Private.CoreLib); the
//! tests of values on
//! live runtimes check that.

use super::numbers::bits;

const TICKS_A_SECOND: u64 = 10_000_000;
const TICKS_A_DAY: u64 = 86_400 * TICKS_A_SECOND;
/// The first tick after the last valid time: the beginning of the year 10000.
const END_OF_TIME: u64 = 3_652_059 * TICKS_A_DAY;
/// Offset of a decimal's scale and sign.
const SCALE_AT: u32 = 16;
const NEGATIVE: u64 = 0x8000_0000;
const MOST_SCALE: usize = 28;

/// A value of such a type; `None` for other types and invalid values.
pub(super) fn shown(family: &str, bytes: &[u8]) -> Option<String> {
    match family {
        "System.DateTime" => date_time(bits(bytes, 8)?),
        "System.TimeSpan" => Some(span(bits(bytes, 8)? as i64)),
        "System.DateOnly" => date(bits(bytes, 4)?.checked_mul(TICKS_A_DAY)?),
        "System.TimeOnly" => bits(bytes, 8).filter(|ticks| *ticks < TICKS_A_DAY).map(time),
        "System.Guid" => guid(bytes.get(..16)?),
        "System.Decimal" => decimal(bytes),
        _ => None,
    }
}

fn date_time(data: u64) -> Option<String> {
    let (ticks, kind) = (data & (u64::MAX >> 2), data >> 62);
    let kind = match kind {
        0 => "",
        1 => " (UTC)",
        _ => " (local)",
    };
    Some(format!("{} {}{kind}", date(ticks)?, time(ticks % TICKS_A_DAY)))
}

/// The Gregorian date, computed by cycles of 400 years from a 1st of March.
fn date(ticks: u64) -> Option<String> {
    (ticks < END_OF_TIME).then_some(())?;
    // Days since the 1st of March of the year 0.
    let days = ticks / TICKS_A_DAY + 306;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + u64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

fn time(ticks: u64) -> String {
    let seconds = ticks / TICKS_A_SECOND;
    let whole = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match ticks % TICKS_A_SECOND {
        0 => whole,
        rest => format!("{whole}.{rest:07}"),
    }
}

/// As `TimeSpan.ToString` writes it.
fn span(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = ticks.unsigned_abs();
    let days = match ticks / TICKS_A_DAY {
        0 => String::new(),
        days => format!("{days}."),
    };
    format!("{sign}{days}{}", time(ticks % TICKS_A_DAY))
}

fn guid(bytes: &[u8]) -> Option<String> {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (place, index) in order.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{:02x}", bytes.get(index)?);
    }
    Some(text)
}

fn decimal(bytes: &[u8]) -> Option<String> {
    let word = |at: usize| bits(bytes.get(at..)?, 4);
    let (flags, high, low, middle) = (word(0)?, word(4)?, word(8)?, word(12)?);
    let digits = (u128::from(high) << 64 | u128::from(middle) << 32 | u128::from(low)).to_string();
    let scale = (flags >> SCALE_AT & 0xff) as usize;
    (scale <= MOST_SCALE).then_some(())?;
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = padded.split_at(padded.len() - scale);
    let sign = if flags & NEGATIVE != 0 { "-" } else { "" };
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_and_spans() {
        let at = |ticks: u64, kind: u64| date_time(ticks | kind << 62).unwrap_or_default();
        assert_eq!(at(0, 0), "0001-01-01 00:00:00");
        assert_eq!(at(621_355_968_000_000_000, 1), "1970-01-01 00:00:00 (UTC)");
        assert_eq!(at(638_448_068_961_234_567, 2), "2024-02-29 12:34:56.1234567 (local)");
        assert_eq!(at(END_OF_TIME - 1, 0), "9999-12-31 23:59:59.9999999");
        assert_eq!(date_time(END_OF_TIME), None);
        assert_eq!(span(-937_840_050_000), "-1.02:03:04.0050000");
        assert_eq!(span(0), "00:00:00");
        assert_eq!(span(i64::MIN), "-10675199.02:48:05.4775808");
    }

    #[test]
    fn decimals_and_guids() {
        let decimal = |flags: u32, high: u32, low: u32, middle: u32| {
            let bytes = [flags, high, low, middle].map(u32::to_le_bytes).concat();
            decimal(&bytes)
        };
        assert_eq!(decimal(0x8002_0000, 0, 12345, 0).as_deref(), Some("-123.45"));
        assert_eq!(decimal(0x0003_0000, 0, 5, 0).as_deref(), Some("0.005"));
        assert_eq!(decimal(0, u32::MAX, u32::MAX, u32::MAX).as_deref(), Some("79228162514264337593543950335"));
        assert_eq!(decimal(0x00ff_0000, 0, 5, 0), None);
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(shown("System.Guid", &bytes).as_deref(), Some("03020100-0504-0706-0809-0a0b0c0d0e0f"));
    }
}
