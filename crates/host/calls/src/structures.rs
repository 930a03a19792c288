//! Structures of .NET's core library as text, from their bytes.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use remora_wire::method_trace::Structure;

/// Ticks of .NET in a second.
const TICKS: u64 = 10_000_000;
/// The first year, from which .NET counts.
const BEGIN: DateTime = DateTime::constant(1, 1, 1, 0, 0, 0, 0);

/// As .NET writes it: `12.50`, `0f8fad5b-d9cb-469f-a165-70867728950e`, `2026-11-29T17:06:35.12`, `1.02:03:04.5`.
pub(crate) fn shown(structure: Structure, bits: u128) -> String {
    match structure {
        Structure::Decimal => decimal(bits),
        Structure::Guid => guid(bits),
        Structure::DateTime => date(bits as u64),
        Structure::TimeSpan => span(bits as i64),
    }
}

/// Flags, the high part, the low one: decimal.cs of dotnet/runtime.
fn decimal(bits: u128) -> String {
    let (flags, number) = (bits as u32, (bits >> 32 & 0xFFFF_FFFF) << 64 | bits >> 64);
    let (is_negative, scale) = (flags >> 31 == 1, (flags >> 16 & 0xFF) as usize);
    let digits = format!("{number:0>width$}", width = scale.min(28) + 1);
    let (whole, part) = digits.split_at(digits.len() - scale.min(28));
    let sign = if is_negative { "-" } else { "" };
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{part}")
}

/// A number of four bytes and two of two, then eight bytes: guid.cs.
fn guid(bits: u128) -> String {
    let (first, second, third) = (bits as u32, (bits >> 32) as u16, (bits >> 48) as u16);
    let rest = ((bits >> 64) as u64).swap_bytes();
    format!("{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}", rest >> 48, rest & 0xFFFF_FFFF_FFFF)
}

/// Ticks since the first year; the two highest bits say whether it is UTC: datetime.cs.
fn date(bits: u64) -> String {
    let (kind, ticks) = (bits >> 62, bits & !(3 << 62));
    let since = SignedDuration::new((ticks / TICKS) as i64, (ticks % TICKS * 100) as i32);
    let zone = if kind == 1 { "Z" } else { "" };
    // Beyond the year 9999 there are no dates.
    BEGIN.checked_add(since).map_or_else(|_| format!("{bits:#x}"), |date| format!("{date}{zone}"))
}

fn span(ticks: i64) -> String {
    let (sign, all) = (if ticks < 0 { "-" } else { "" }, ticks.unsigned_abs());
    let (seconds, rest) = (all / TICKS, all % TICKS);
    let days = match seconds / 86_400 {
        0 => String::new(),
        days => format!("{days}."),
    };
    let part = if rest == 0 { String::new() } else { format!(".{rest:07}").trim_end_matches('0').to_owned() };
    format!("{sign}{days}{:02}:{:02}:{:02}{part}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_their_scale_and_sign() {
        let decimal = |number: u128, flags: u32| {
            shown(Structure::Decimal, u128::from(flags) | (number >> 64) << 32 | number << 64)
        };
        assert_eq!(decimal(1250, 2 << 16), "12.50");
        assert_eq!(decimal(5, 3 << 16 | 1 << 31), "-0.005");
        assert_eq!(decimal(0, 0), "0");
        assert_eq!(decimal((1 << 96) - 1, 0), "79228162514264337593543950335");
        assert_eq!(decimal(1, 28 << 16), "0.0000000000000000000000000001");
        // What no program has.
        assert_eq!(decimal(1, 255 << 16), "0.0000000000000000000000000001");
    }

    #[test]
    fn identifiers_dates_and_spans_are_as_dotnet_writes_them() {
        let bytes = [0x5b, 0xad, 0x8f, 0x0f, 0xcb, 0xd9, 0x9f, 0x46, 0xa1, 0x65, 0x70, 0x86, 0x77, 0x28, 0x95, 0x0e];
        assert_eq!(shown(Structure::Guid, u128::from_le_bytes(bytes)), "0f8fad5b-d9cb-469f-a165-70867728950e");
        let date = |ticks: u64, kind: u64| shown(Structure::DateTime, u128::from(ticks | kind << 62));
        assert_eq!(date(0, 0), "0001-01-01T00:00:00");
        assert_eq!(date(621_355_968_000_000_000, 1), "1970-01-01T00:00:00Z");
        assert_eq!(date(621_355_968_012_500_000, 2), "1970-01-01T00:00:01.25");
        assert_eq!(date(u64::MAX >> 2, 0), "0x3fffffffffffffff");
        let span = |ticks: i64| shown(Structure::TimeSpan, u128::from(ticks as u64));
        assert_eq!(span(15_000_000), "00:00:01.5");
        assert_eq!(span(-937_845_000_000), "-1.02:03:04.5");
        assert_eq!(span(i64::MIN), "-10675199.02:48:05.4775808");
    }
}
